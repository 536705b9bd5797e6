"""Whether erased texts were in distribution, as a user meets it: scores, p-values, settings, a model with masks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attn_faithful as af
from attn_faithful.data.mask_token import with_mask_token
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.experiments import reference_texts
from attn_faithful.functional import masf
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier

WORDS = ("good", "bad", "a", "film", "not", "very")
N = 24


@pytest.fixture(autouse=True)
def few_texts(monkeypatch):
    monkeypatch.setattr(masf, "LEAST", 8)
    monkeypatch.setattr(reference_texts, "LEAST", 8)


def texts():
    generator = np.random.default_rng(0)
    found = []
    for number in range(N):
        words = generator.choice(WORDS, size=int(generator.integers(2, 6)))
        found.append({"id": f"t{number}", "text": " ".join(words), "label": number % 2})
    return found


def model(masking):
    tokenizer = with_mask_token(train_tokenizer([" ".join(WORDS)]))
    torch.manual_seed(0)
    config = AttentionClassifierConfig(
        vocab_size=len(tokenizer), embedding_size=6, hidden_size=6, encoder="lstm", masking=masking
    )
    return AttentionClassifier(config).eval(), tokenizer


def evaluate(output, masking="half", data=None, **erasure):
    settings = {
        "controls": [],
        "test_settings": {"erasure": {"rankings": ["attention", "random"], "beam": 0, **erasure}},
    }
    return af.evaluate_attention(*model(masking), data or texts(), ["erasure"], output=output, settings=settings)


def scores(result, metric):
    table = result.folder.read_table("scores").to_pandas()
    table = table[table["metric"] == metric]
    return {(row.example, row.source): row.value for row in table.itertuples()}


def test_a_model_that_was_trained_with_masks(tmp_path):
    result = evaluate(tmp_path / "one")
    outside = scores(result, "masked_outside")
    assert len(outside) == 2 * N
    assert all(0 <= value <= 1 for value in outside.values())
    assert set(scores(result, "mask_comprehensiveness")) == set(outside) == set(scores(result, "deleted_outside"))
    variants = result.folder.read_table("variants").to_pandas()
    assert set(variants["variant"]) == {"attention", "random", "attention, mask", "random, mask"}
    assert set(variants["p_values"].map(len)) == {10}
    turned = evaluate(tmp_path / "other", data=texts()[::-1])
    assert scores(turned, "masked_outside") == outside
    assert scores(turned, "deleted_outside") == scores(result, "deleted_outside")


def test_what_is_not_asked_is_not_computed(tmp_path, monkeypatch):
    plain = evaluate(tmp_path / "plain", masking=None)
    assert len(scores(plain, "deleted_outside")) == 2 * N
    assert not scores(plain, "masked_outside")

    def refused(*args):
        raise AssertionError("a reference was fitted")

    monkeypatch.setattr("attn_faithful.experiments.run_tests.fit_reference", refused)
    off = evaluate(tmp_path / "off", in_distribution=False)
    assert not scores(off, "masked_outside")
    assert scores(off, "mask_sufficiency")
    soft = evaluate(tmp_path / "soft", operators=["soft"])
    assert not scores(soft, "deleted_outside")
    assert "p_values" not in off.folder.read_table("variants").column_names


def test_leave_one_out_by_masks(tmp_path):
    """The source that ranks the words, of a model of this package whose tokenizer has a mask token."""
    network, tokenizer = model("half")
    settings = {"controls": [], "extra_sources": ["leave_one_out"], "sources": {"operator": "mask"}}
    result = af.evaluate_attention(network, tokenizer, texts()[:3], ["entropy"], output=tmp_path, settings=settings)
    for row in result.tokens.itertuples():
        ids = tokenizer(texts()[int(row.example[1:])]["text"], return_tensors="pt")["input_ids"]
        with torch.no_grad():
            whole = network(ids).logits.softmax(-1)
            for place, change in enumerate(row.leave_one_out):
                masked = ids.clone()
                masked[0, place] = tokenizer.mask_token_id
                expected = (network(masked).logits.softmax(-1) - whole).abs().sum() / 2
                assert change == pytest.approx(float(expected), abs=1e-5)
