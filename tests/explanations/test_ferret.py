"""Objects of ferret's documented format on the right words; ferret itself needs an older transformers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import attn_faithful as af
from attn_faithful._checks import InputError
from tests.explanations.tiny import SPANS, TEXTS, WORDS, word_sums


@dataclass
class Explanation:
    """As ferret 0.4 documents it: the tokens are ``tokenizer.convert_ids_to_tokens``, special ones too."""

    text: str
    tokens: list[str]
    scores: Any
    explainer: str
    target: int


@pytest.fixture(scope="module")
def explained(bert):
    found = []
    for number, text in enumerate(TEXTS):
        tokens = bert[1].convert_ids_to_tokens(bert[1](text)["input_ids"])
        scores = np.random.default_rng(number).normal(size=len(tokens))
        scores[[0, -1]] = 0.0  # as ferret sets those of special tokens
        found.append(Explanation(text, tokens, scores, "Partition SHAP", 1))
    return found


@pytest.mark.parametrize("with_tokenizer", [True, False])
def test_each_token_lands_on_its_word(bert, explained, with_tokenizer):
    found = af.explanations.from_ferret(explained, tokenizer=bert[1] if with_tokenizer else None)
    for place, words in enumerate(found.words(*bert)):
        assert (list(words.words), list(words.spans)) == (WORDS[place], SPANS[place])
        np.testing.assert_allclose(words.scores, word_sums(explained[place].scores, place), atol=1e-12)
        assert (words.target, words.n_unplaced) == ("1", 0)


def test_saved_rows_say_where_tokens_stand(explained, tmp_path):
    found = af.explanations.from_ferret(explained[1])
    (row,) = found.rows()
    assert (row["starts"], row["ends"]) == ([0, 0, 4, 10, 0], [0, 3, 8, 13, 0])
    assert row["tokens"] == ["[CLS]", "bad", "good", "bad", "[SEP]"]


def test_one_explainer_of_several(explained):
    other = Explanation(TEXTS[1], explained[1].tokens, -explained[1].scores, "LIME", 1)
    with pytest.raises(InputError, match=r"of one explainer, but got Partition SHAP, LIME; name one \(explainer=\)"):
        af.explanations.from_ferret([*explained, other])
    (found,) = af.explanations.from_ferret([*explained, other], explainer="LIME")
    assert found.scores == tuple(-explained[1].scores)
    with pytest.raises(InputError, match="Known: LIME, Partition SHAP"):
        af.explanations.from_ferret([*explained, other], explainer="Lime")


def test_what_does_not_fit_is_said(explained):
    with pytest.raises(InputError, match="Expected explanations of ferret, but got a str without text, tokens"):
        af.explanations.from_ferret(["good"])
    moved = Explanation(TEXTS[0], explained[1].tokens, explained[1].scores, "LIME", 1)
    with pytest.raises(InputError, match="token 1, 'bad', is not found"):
        af.explanations.from_ferret(moved)
    short = Explanation(TEXTS[1], explained[1].tokens, [1.0], "LIME", 1)
    with pytest.raises(InputError, match="`tokens` has 5, `spans` has 5, `scores` has 1"):
        af.explanations.from_ferret(short)
