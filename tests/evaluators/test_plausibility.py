"""The plausibility test against slow loops and the functional layer, and from a data set to a table."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.evaluators.base import sources_of
from attn_faithful.evaluators.plausibility import METRICS, PlausibilitySettings, run
from attn_faithful.functional.reasons import NOTHING_MARKED
from attn_faithful.metrics.plausibility import plausibility_of_lists
from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
from tests.data.loading import load
from tests.evaluators.blocks import random_block, values
from tests.reference import plausibility as slow

LENGTHS = (5, 1, 0, 7, 2, 12)
BOTH = PlausibilitySettings(rankings=["attention", "other"])
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def marked_block(seed=0, share=0.4):
    """Random importance with ties, random marks; the last text but one has none; the first token is special."""
    block = random_block(LENGTHS, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    content = block.encoded.content.clone()
    content[3, 0] = False
    shape = content.shape
    other = torch.rand(shape, generator=generator, dtype=torch.float64).mul(6).round().where(content, math.nan)
    rationale = (torch.rand(shape, generator=generator) < share) & content
    rationale[4] = False
    rationale[0, 1] = True
    return replace(block, encoded=replace(block.encoded, content=content), sources={"other": other}, marked=rationale)


def rows_of(block, name):
    """(importance, rationale) of the content tokens, a row each."""
    importance = block.encoded.over_items if name == "attention" else block.sources[name]
    content = block.encoded.content
    pairs = zip(importance, block.marked, content, strict=True)
    return [(own[held].tolist(), marks[held].tolist()) for own, marks, held in pairs]


def top(importance, count):
    """As many of the highest as ``count``, the first on ties."""
    order = sorted(range(len(importance)), key=lambda t: (-importance[t], t))
    return [t in order[:count] for t in range(len(importance))]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [None, 0.3])
def test_values_equal_loops(seed, share):
    block = marked_block(seed)
    found = run(block, replace(BOTH, share=share, threshold=0.6))
    for name in BOTH.rankings:
        columns = {metric: values(found, metric, name)[0] for metric in ("plausibility", "plausibility_f1")}
        spans = values(found, "plausibility_iou", name)[0]
        for row, (importance, marks) in enumerate(rows_of(block, name)):
            n = sum(marks) if share is None else math.ceil(share * len(marks))
            chosen = top(importance, n) if sum(marks) else []
            area = slow.average_precision(importance, marks, [True] * len(marks)) if marks else math.nan
            f1, iou = (slow.tokens(chosen, marks)[2], slow.spans(chosen, marks, 0.6)[2]) if chosen else (math.nan,) * 2
            assert columns["plausibility"][f"e{row}"] == pytest.approx(area, abs=1e-10, nan_ok=True)
            assert columns["plausibility_f1"][f"e{row}"] == pytest.approx(f1, abs=1e-10, nan_ok=True)
            assert spans[f"e{row}"] == pytest.approx(iou, abs=1e-10, nan_ok=True)


def test_values_equal_those_of_the_lists():
    block = marked_block(7)
    found = run(block, BOTH)
    for name in BOTH.rankings:
        importance, marks = zip(*rows_of(block, name), strict=True)
        expected = plausibility_of_lists(importance, [[int(m) for m in row] for row in marks], reduction="none")
        for metric, column in (("", "auprc"), ("_f1", "token_f1"), ("_iou", "iou_f1")):
            own, reasons = values(found, f"plausibility{metric}", name)
            assert list(own.values()) == pytest.approx(expected[column], abs=1e-10, nan_ok=True)
            assert list(reasons.values()) == expected["reason"]


def test_constant_importance_gives_the_share_of_marked_items():
    block = marked_block()
    constant = torch.ones_like(block.sources["other"])
    found = run(replace(block, sources={"other": constant}), BOTH)
    share, reasons = values(found, "rationale_share")
    assert len([1 for metric in found.scores["metric"] if metric == "rationale_share"]) == len(LENGTHS)
    assert values(found, "rationale_share", "attention")[0].keys() == share.keys()
    assert values(found, "plausibility", "other")[0] == pytest.approx(share, abs=1e-12, nan_ok=True)
    assert (reasons["e2"], reasons["e4"]) == ("no content token", "no rationale token")


def test_undefined_is_nan_with_its_reason():
    block = marked_block()
    broken = block.sources["other"].clone()
    broken[0, 0] = math.nan
    found = run(replace(block, sources={"other": broken}), BOTH)
    for metric in ("plausibility", "plausibility_f1", "plausibility_iou"):
        own, reasons = values(found, metric, "other")
        assert {row: reasons[f"e{row}"] for row in (0, 2, 4)} == {
            0: "nan in scores",
            2: "no content token",
            4: "no rationale token",
        }
        assert math.isnan(own["e0"])


def test_data_without_a_rationale_say_so():
    found = run(replace(marked_block(), marked=None), BOTH)
    assert set(found.scores["reason"]) == {NOTHING_MARKED}
    assert all(math.isnan(value) for value in found.scores["value"])
    whole = run(marked_block(), BOTH).scores
    assert sorted(found.scores["metric"]) == sorted(whole["metric"])


def test_marks_outside_the_content_and_other_blocks_change_nothing():
    block = marked_block()
    outside = replace(block, marked=block.marked | ~block.encoded.content)
    assert repr(run(outside, BOTH).scores) == repr(run(block, BOTH).scores)
    one = random_block(LENGTHS[:1])
    alone = replace(
        one,
        sources={"other": block.sources["other"][:1, :6]},
        marked=block.marked[:1, :6],
        encoded=replace(one.encoded, attention=block.encoded.attention[:1, :, :6]),
    )
    first = run(alone, BOTH).scores
    whole = run(block, BOTH).scores
    kept = [i for i, example in enumerate(whole["example"]) if example == "e0"]
    assert first == {name: [column[i] for i in kept] for name, column in whole.items()}


def test_scores_lie_in_the_ranges_of_the_metric_table():
    found = run(marked_block(3), BOTH).scores
    specs = {spec.name: spec for spec in METRICS}
    assert set(found["metric"]) == set(specs)
    for metric, value, reason in zip(found["metric"], found["value"], found["reason"], strict=True):
        assert math.isnan(value) == (reason is not None)
        assert math.isnan(value) or specs[metric].low <= value <= specs[metric].high


def test_settings_are_checked():
    assert sources_of(PlausibilitySettings()) == ["input_x_gradient", "leave_one_out", "random"]
    for wrong in ({"rankings": []}, {"rankings": ["a", "a"]}, {"share": 0.0}, {"share": 1.5}, {"threshold": 0.4}):
        with pytest.raises(InputError):
            PlausibilitySettings(**wrong)


# --- from a data set


def tiny(texts, classes=2, **settings):
    """An untrained model and its tokenizer."""
    tokenizer = train_tokenizer(texts)
    names = settings.pop("names", None) or [str(i) for i in range(classes)]
    config = AttentionClassifierConfig(
        vocab_size=len(tokenizer),
        encoder="mlp",
        embedding_size=4,
        hidden_size=4,
        id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
        **settings,
    )
    torch.manual_seed(0)
    return AttentionClassifier(config).eval(), tokenizer


def test_rows_with_a_rationale(tmp_path):
    rows = [
        {"id": "a", "text": "don't see it , bad !", "label": "0", "rationale": [1, 0, 0, 0, 1, 0]},
        {"id": "b", "text": "a good film", "label": "1", "rationale": [0, 1, 0]},
        {"id": "c", "text": "a film", "label": "1", "rationale": [0, 0]},
    ]
    model, tokenizer = tiny([row["text"] for row in rows])
    result = af.evaluate_attention(model, tokenizer, rows, ["plausibility"], output=tmp_path, rationale="rationale")
    examples = result.examples.set_index("example")
    assert examples["rationale_share attention"].tolist()[:2] == pytest.approx([3 / 7, 1 / 3])
    tokens = result.folder.read_table("tokens").to_pylist()
    weights = {row["example"]: row["attention"] for row in tokens}
    marks = {"a": [1, 1, 0, 0, 0, 1, 0], "b": [0, 1, 0]}
    for example, own in marks.items():
        expected = slow.average_precision(weights[example], own, [True] * len(own))
        assert examples.loc[example, "plausibility attention"] == pytest.approx(expected, abs=1e-6)
    table = result.table()
    assert set(table["source"]) == {"attention", "input_x_gradient", "leave_one_out", "random"}
    assert set(table["n_undefined"]) == {1}
    other = [{**rows[0], "rationale": [0, 0, 0, 0, 0, 1]}, *rows[1:]]
    again = af.evaluate_attention(model, tokenizer, other, ["plausibility"], output=tmp_path, rationale="rationale")
    assert again.folder.path != result.folder.path


def test_rows_without_a_rationale(tmp_path):
    model, tokenizer = tiny(["a good film", "no"])
    result = af.evaluate_attention(model, tokenizer, ["a good film", "no"], ["plausibility"], output=tmp_path)
    assert set(result.table()["n"]) == {0}
    reasons = [record["reasons"] for record in result.folder.read_summary()["tests"] if record["class"] == "all"]
    assert reasons == [{NOTHING_MARKED: 2}] * len(reasons)
    assert reasons


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no data at {DATA}")
@pytest.mark.parametrize(
    ("source", "rationale", "settings"),
    [("babi_qa1", "supporting", {"query": True}), ("movies_rationales", "rationale_mask", {})],
)
def test_real_data(tmp_path, source, rationale, settings):
    path = str(DATA / source)
    data = load(path, limit=6, purpose="evaluate")
    rows = data.splits["test"]
    texts = [text for name in ("text", "query") if name in rows.column_names for text in rows[name]]
    model, tokenizer = tiny(texts, names=data.label_names, **settings)
    rankings = {"test_settings": {"plausibility": {"rankings": ["attention", "random"]}}}
    result = af.evaluate_attention(
        model, tokenizer, path, ["plausibility"], output=tmp_path, rationale=rationale, limit=6, settings=rankings
    )
    table = result.table().set_index(["metric", "source"])
    assert set(table["n"]) == {6}
    assert 0.05 < table.loc[("rationale_share", "attention"), "mean"] < 0.6
    assert table.loc[("plausibility", "attention"), "mean"] > 0
