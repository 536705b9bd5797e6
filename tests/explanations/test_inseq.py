"""inseq's own objects on the right words, and runs in its format."""

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import attn_faithful as af
from attn_faithful._checks import InputError
from tests.data.pieces import bytes_of, sentencepiece
from tests.explanations.tiny import NAMES, TEXTS, WORDS

inseq = pytest.importorskip("inseq", reason="inseq is not installed")

PROMPTS = ["good \U0001f642 caf\u00e9 good", "bad movies"]


@pytest.fixture(scope="module")
def prompted():
    """A decoder with tokens that are bytes, explained by saliency."""
    tokenizer = bytes_of()
    tokenizer.name_or_path = "bytes"
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=64, bos_token_id=0, eos_token_id=2
    )
    model = inseq.load_model(GPT2LMHeadModel(config).eval(), "saliency", tokenizer=tokenizer)
    generated = [f"{prompt} good movies" for prompt in PROMPTS]
    return model.attribute(PROMPTS, generated, show_progress=False), tokenizer


def by_character(scored):
    """The sum of the scores of each stretch without blanks."""
    sums = {}
    for (start, end), score in zip(scored.spans, scored.scores, strict=True):
        sums[scored.text[start:end].strip(), start] = sums.get((scored.text[start:end].strip(), start), 0) + score
    return sums


def test_a_prompt_of_bytes(prompted):
    output, tokenizer = prompted
    for known in (None, tokenizer):
        found = af.explanations.from_inseq(output, tokenizer=known)
        assert [scored.text for scored in found] == PROMPTS
        for scored, sequence in zip(found, output.sequence_attributions, strict=True):
            n = sequence.attr_pos_start
            scores = sequence.aggregate().target_attributions[:n].double()
            np.testing.assert_allclose(scored.scores, scores.sum(1), atol=1e-6)
            assert "".join(scored.text[start:end] for start, end in scored.spans[:1]) == scored.tokens[0]
        letters = [scored.text[start:end] for scored in found for start, end in scored.spans]
        assert letters.count("\U0001f642") == 4  # its bytes
        assert sum("\u00e9" in letter for letter in letters) == 2


def test_one_generated_token(prompted):
    output, tokenizer = prompted
    whole = af.explanations.from_inseq(output)
    steps = [af.explanations.from_inseq(output, step=step, tokenizer=tokenizer) for step in (0, 1, 2)]
    summed = np.sum([step[1].scores for step in steps], axis=0)
    np.testing.assert_allclose(summed, whole[1].scores, atol=1e-6)
    assert steps[0][1].target == "\u0120good"
    with pytest.raises(InputError, match="a generated token from 0 to"):
        af.explanations.from_inseq(output, step=9)


@pytest.mark.parametrize("method", ["saliency", "occlusion"])
def test_a_source(bert, method):
    """Of an encoder-decoder the source is explained; its pieces land on the words of another model."""
    tokenizer = sentencepiece(True, eos_token="</s>")
    config = T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=1
    )
    torch.manual_seed(0)
    model = inseq.load_model(T5ForConditionalGeneration(config).eval(), method, tokenizer=tokenizer)
    texts = ["good movies are good", "bad"]
    output = model.attribute(texts, ["good", "bad"], show_progress=False)
    found = af.explanations.from_inseq(output)
    assert found[0].tokens == ("\u2581good", "\u2581mo", "vies", "\u2581are", "\u2581good")
    words = found.words(*bert)[0]
    scores = output.sequence_attributions[0].aggregate().source_attributions[:, 0].double().tolist()
    assert words.words == ("good", "movies", "are", "good")
    np.testing.assert_allclose(words.scores, [scores[0], scores[1] + scores[2], scores[3], scores[4]], atol=1e-9)


def test_what_does_not_fit_is_said(prompted):
    with pytest.raises(InputError, match="Expected a FeatureAttributionOutput of inseq, but got a dict"):
        af.explanations.from_inseq({})
    with pytest.raises(InputError, match="`texts` has 1, `the explanations` has 2"):
        af.explanations.from_inseq(prompted[0], "good")
    with pytest.raises(InputError, match="in the text 'good film', but token 2"):
        af.explanations.from_inseq(prompted[0], ["good film", PROMPTS[1]])


def test_a_run_goes_to_inseq_and_back(bert, tmp_path):
    keys = {"output": tmp_path, "settings": {"controls": []}, "progress": False}
    result = af.evaluate_attention(*bert, TEXTS, ["correlation"], **keys)
    output = result.to_inseq("leave_one_out")
    for place, sequence in enumerate(output.sequence_attributions):
        assert [token.token for token in sequence.source] == WORDS[place]
        np.testing.assert_allclose(
            sequence.source_attributions[:, 0], result.tokens.iloc[place]["leave_one_out"], atol=1e-6
        )
        assert sequence.target[0].token == NAMES[result.predicted[place]]
    assert "unbelievably" in output.show(display=False, return_html=True)
    output.save(tmp_path / "output.json")
    loaded = inseq.FeatureAttributionOutput.load(tmp_path / "output.json")
    back = af.explanations.from_inseq(loaded, TEXTS)
    for place, words in enumerate(back.words(*bert)):
        np.testing.assert_allclose(words.scores, result.tokens.iloc[place]["leave_one_out"], atol=1e-6)
