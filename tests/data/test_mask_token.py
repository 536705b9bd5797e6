"""A mask token for tokenizers that have none."""

import pytest
from transformers import AutoTokenizer

from attn_faithful.data.mask_token import with_mask_token
from attn_faithful.data.sentence_tokenizer import with_sentences
from attn_faithful.data.tokenizer import train_tokenizer

TEXTS = ["It isn't good, [MASK] bad", "bad [MASK] [[MASK]] [mask]"]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("pre_tokenizer", ["words", "whitespace"])
def test_no_text_holds_the_mask_and_all_other_ids_stay(lowercase, pre_tokenizer, tmp_path):
    tokenizer = train_tokenizer(TEXTS, lowercase=lowercase, pre_tokenizer=pre_tokenizer)
    masking = with_mask_token(tokenizer)
    assert masking.mask_token_id == len(tokenizer) == len(masking) - 1
    assert tokenizer.mask_token_id is None  # the given one is not changed
    masking.save_pretrained(tmp_path)
    for each in (masking, AutoTokenizer.from_pretrained(tmp_path), with_sentences(masking)):
        assert each.mask_token_id == masking.mask_token_id
        for text in [*TEXTS, "unknown [MASK]", masking.mask_token]:
            ids = each(text)["input_ids"]
            assert ids == tokenizer(text)["input_ids"]
            assert masking.mask_token_id not in ids


def test_a_tokenizer_with_a_mask_is_taken_as_it_is():
    masking = with_mask_token(train_tokenizer(TEXTS))
    assert with_mask_token(masking) is masking
