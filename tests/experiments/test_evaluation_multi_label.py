"""``evaluate`` on multi-label models, ours and stock ones: decisions are asked label by label, and scored so."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import attn_faithful as af
from attn_faithful.attributions.base import Request, attribute
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
from attn_faithful.reports.report import report
from tests.reference import labels as slow

TEXTS = ["a good film", "bad and long and cold", "good warm fun", "so bad a song", "warm"]
GOLD = [[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]]
ROWS = [{"id": f"t{i}", "text": text, "label": gold} for i, (text, gold) in enumerate(zip(TEXTS, GOLD, strict=True))]
NAMES = {0: "kind", 1: "cruel", 2: "short"}
RANKINGS = ["attention", "input_x_gradient", "leave_one_out"]
SETTINGS = {
    "controls": [],
    "test_settings": {
        "flips": {"rankings": ["attention", "attention_gradient"], "random": 0, "single": []},
        "erasure": {"rankings": RANKINGS},
    },
}


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS)


@pytest.fixture(scope="module", params=["own", "stock"])
def model(request, tokenizer):
    torch.manual_seed(1)
    given = {"id2label": NAMES, "label2id": {name: i for i, name in NAMES.items()}, "vocab_size": len(tokenizer)}
    if request.param == "own":
        config = AttentionClassifierConfig(
            encoder="lstm", embedding_size=6, hidden_size=6, output="multi_label", num_labels=3, **given
        )
        found = AttentionClassifier(config)
    else:
        config = BertConfig(
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=8,
            pad_token_id=0,
            max_position_embeddings=16,
            problem_type="multi_label_classification",
            **given,
        )
        found = BertForSequenceClassification(config)
    with torch.no_grad():
        for value in found.parameters():
            value *= 5
    return found.eval()


@pytest.fixture(scope="module")
def result(model, tokenizer, tmp_path_factory):
    wrapped = model if hasattr(model, "sites") else af.wrap(model)
    return af.evaluate_attention(
        wrapped,
        tokenizer,
        ROWS,
        ["permutation", "adversarial", "flips", "erasure"],
        settings=SETTINGS,
        output=tmp_path_factory.mktemp("runs"),
        multi_label=True,
    )


def run(model, tokenizer, text, kept, label):
    """The label's logit of a text with some words alone, read by the model itself."""
    ids = torch.tensor([[tokenizer(text)["input_ids"][t] for t in kept]], dtype=torch.long)
    with torch.no_grad():
        return float(model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, label])


def values(result, metric, source):
    """(example, label) -> value; the label is None for a number of all of them."""
    rows = result.folder.read_table("scores").to_pylist()
    own = [row for row in rows if (row["metric"], row["source"]) == (metric, source)]
    return {(row["example"], row["label"]): row["value"] for row in own}


@pytest.mark.parametrize("source", ["attention", "leave_one_out"])
def test_what_a_label_loses_equals_the_model_run_on_shorter_texts(result, model, tokenizer, source):
    found = values(result, "comprehensiveness", source)
    tokens = result.folder.read_table("tokens", ["example", "attention"]).to_pydict()
    attention = dict(zip(tokens["example"], tokens["attention"], strict=True))
    shares = (0.01, 0.05, 0.1, 0.2, 0.5)
    for example, text in ((row["id"], row["text"]) for row in ROWS):
        n = len(text.split())
        if n == 1:
            continue  # nothing is left of it, and what a model says of nothing is asked elsewhere
        for label, name in NAMES.items():

            def own(kept, text=text, label=label):
                return run(model, tokenizer, text, kept, label)

            whole = own(range(n))
            importance = attention[example]
            if source == "leave_one_out":
                parts = [own([t for t in range(n) if t != left]) for left in range(n)]
                importance = [abs(slow.probability(whole) - slow.probability(z)) for z in parts]
            expected = slow.comprehensiveness(own, n, importance, shares, whole > 0)
            assert found[example, name] == pytest.approx(expected, abs=2e-6), (example, name)


def test_records_by_label_and_of_all(result):
    every = result.folder.read_summary()["tests"]
    for metric in ("comprehensiveness", "decision_flip", "flip_never"):
        found = values(result, metric, "attention")
        records = {r["class"]: r for r in every if (r["metric"], r["source"]) == (metric, "attention")}
        assert set(records) == {"all", *NAMES.values()}
        for name in NAMES.values():
            own = [value for (_, label), value in found.items() if label == name and not math.isnan(value)]
            assert records[name]["n"] == len(own)
            assert records[name]["n"] + records[name]["n_undefined"] == len(ROWS)
            assert records[name]["mean"] == (pytest.approx(np.mean(own)) if own else None)
        by_text = [[found[row["id"], name] for name in NAMES.values()] for row in ROWS]
        means = [np.nanmean(row) for row in by_text if not np.isnan(row).all()]
        assert records["all"]["mean"] == (pytest.approx(np.mean(means)) if means else None)


def test_numbers_of_all_labels_together_stay_so(result):
    assert {label for _, label in values(result, "attention_permutation", "attention")} == {None}
    chances = result.folder.read_table("predictions").to_pandas()["probabilities"]
    records = {r["class"]: r for r in result.folder.read_summary()["tests"] if r["metric"] == "attention_permutation"}
    for c, name in NAMES.items():
        given = sum(row[c] > 0.5 for row in chances)
        assert records[name]["n"] + records[name]["n_undefined"] == given


def test_nothing_is_refused_for_its_labels(result, model):
    reasons = result.folder.read_table("scores").to_pandas()["reason"]
    assert "labels are independent" not in set(reasons)
    flips = values(result, "flip_size", "attention")
    assert len(flips) == len(ROWS) * len(NAMES)
    assert any(not math.isnan(value) for value in flips.values())


def test_rankings_by_a_gradient_are_those_of_the_labels_side(result, model, tokenizer):
    """Of a label that is not given a token speaks for the no: the gradient turns its sign."""
    if not hasattr(model, "sites"):
        return
    found = values(result, "flip_size", "attention_gradient")
    for row in ROWS:
        n = len(row["text"].split())
        ids = torch.tensor([tokenizer(row["text"])["input_ids"]])
        encoded = model.encode({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, model.sites[0])
        attention = encoded.attention[0, 0].tolist()
        for c, name in NAMES.items():
            bias = float(encoded.affine.bias[0, c])
            token_logits = encoded.affine.token_logits[0, :, c].tolist()
            sign = 1 if slow.logit(attention, range(n), token_logits, bias) > 0 else -1
            order = sorted(range(n), key=lambda t, z=token_logits, s=sign: (-s * z[t], t))
            expected = slow.first_flip(order, attention, token_logits, bias) if n > 1 else None
            value = found[row["id"], name]
            assert math.isnan(value) if expected is None else value == expected


def test_sources_of_a_label_are_about_it_alone(model, tokenizer):
    wrapped = model if hasattr(model, "sites") else af.wrap(model)
    ids = torch.tensor([tokenizer(TEXTS[1])["input_ids"]])
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.no_grad():
        encoded = wrapped.encode(batch, wrapped.sites[0])
    for label in NAMES:
        given = {"model": wrapped, "batch": batch, "encoded": encoded, "keys": ["k"], "site": wrapped.sites[0]}
        alone = attribute("input_x_gradient", Request(**given, label=label)).values
        target = attribute("input_x_gradient", Request(**given, target=torch.tensor([label]))).values
        torch.testing.assert_close(alone, target, atol=1e-9, rtol=1e-5)


def test_a_report_of_labels(result, tmp_path, monkeypatch):
    from attn_faithful.reports import report as reports

    monkeypatch.setattr(reports, "FIGURES", {})
    made = report([result.path], tmp_path / "report")
    text = made.tables["decision_flip"].read_text(encoding="utf-8")
    assert "fraction removed" in text
    assert made.pages[0].is_file()
