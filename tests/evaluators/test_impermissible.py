"""The test of attention on impermissible words against slow loops, and from a data set to a table."""

import math
from dataclasses import replace

import pytest
import torch

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.evaluators.impermissible import ImpermissibleSettings, run
from attn_faithful.functional.reasons import NO_IMPERMISSIBLE_WORDS
from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
from tests.evaluators.blocks import random_block, values
from tests.reference import marked_attention as slow

LENGTHS = (5, 1, 0, 7, 2, 12)
BOTH = ImpermissibleSettings(rankings=["attention", "other"])


def marked_block(seed=0):
    """Random signed importance and marks; the last text but one has none, the first token of the fourth is special."""
    block = random_block(LENGTHS, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    content = block.encoded.content.clone()
    content[3, 0] = False
    other = torch.randn(content.shape, generator=generator, dtype=torch.float64).where(content, math.nan)
    marked = torch.rand(content.shape, generator=generator) < 0.5
    marked[4] = False
    marked[0, 1] = True
    return replace(block, encoded=replace(block.encoded, content=content), sources={"other": other}, marked=marked)


@pytest.mark.parametrize("seed", range(4))
def test_values_equal_loops(seed):
    block = marked_block(seed)
    found = run(block, BOTH)
    content = block.encoded.content
    for name in BOTH.rankings:
        importance = block.encoded.over_items if name == "attention" else block.sources[name]
        own, reasons = values(found, "impermissible_mass", name)
        for row, kept in enumerate(content):
            marks = block.marked[row][kept].tolist()
            sizes = importance[row][kept].abs().tolist()
            expected = slow.marked_mass([size / (sum(sizes) or 1) for size in sizes], marks)
            assert own[f"e{row}"] == pytest.approx(math.nan if expected is None else expected, abs=1e-10, nan_ok=True)
            assert (reasons[f"e{row}"] is None) == (expected is not None)
    share, _ = values(found, "impermissible_share")
    for row, kept in enumerate(content):
        marks = block.marked[row][kept].tolist()
        expected = sum(marks) / len(marks) if any(marks) else math.nan
        assert share[f"e{row}"] == pytest.approx(expected, abs=1e-10, nan_ok=True)


def test_reasons():
    block = marked_block()
    other = block.sources["other"].clone()
    other[5] = 0.0
    other[0, 0] = math.nan
    _, reasons = values(run(replace(block, sources={"other": other}), BOTH), "impermissible_mass", "other")
    assert (reasons["e2"], reasons["e4"]) == ("no content token", "no impermissible token")
    assert (reasons["e5"], reasons["e0"]) == ("no mass", "nan in scores")


def test_data_that_marks_nothing_says_so():
    found = run(replace(marked_block(), marked=None), BOTH)
    own, reasons = values(found, "impermissible_mass", "other")
    assert all(map(math.isnan, own.values()))
    assert set(reasons.values()) == {NO_IMPERMISSIBLE_WORDS}


@pytest.mark.parametrize("rankings", [[], ["attention", "attention"]])
def test_wrong_settings(rankings):
    with pytest.raises(InputError, match="rankings must name"):
        ImpermissibleSettings(rankings=rankings)


def tiny(texts):
    tokenizer = train_tokenizer(texts)
    names = ["f", "m"]
    config = AttentionClassifierConfig(
        vocab_size=len(tokenizer), id2label=dict(enumerate(names)), encoder="mlp", embedding_size=4, hidden_size=4
    )
    torch.manual_seed(0)
    return AttentionClassifier(config).eval(), tokenizer


def test_from_rows_to_a_table(tmp_path):
    rows = [
        {"id": "a", "text": "she wrote a book", "label": "f"},
        {"id": "b", "text": "then he left", "label": "m"},
        {"id": "c", "text": "a film", "label": "m"},
    ]
    model, tokenizer = tiny([row["text"] for row in rows])
    result = af.evaluate_attention(
        model, tokenizer, rows, ["impermissible"], output=tmp_path, impermissible=["he", "she"]
    )
    examples = result.examples.set_index("example")
    assert examples["impermissible_share attention"].tolist()[:2] == pytest.approx([1 / 4, 1 / 3])
    tokens = {row["example"]: row["attention"] for row in result.folder.read_table("tokens").to_pylist()}
    assert examples.loc["a", "impermissible_mass attention"] == pytest.approx(tokens["a"][0], abs=1e-6)
    assert examples.loc["b", "impermissible_mass attention"] == pytest.approx(tokens["b"][1], abs=1e-6)
    table = result.table()
    assert set(table["source"]) == {"attention", "input_x_gradient", "leave_one_out"}
    assert set(table["n_undefined"]) == {1}
    other = af.evaluate_attention(model, tokenizer, rows, ["impermissible"], output=tmp_path, impermissible=["book"])
    assert other.folder.path != result.folder.path


def test_it_is_among_the_default_tests_where_the_data_marks_words(tmp_path):
    rows = [{"text": "she wrote", "label": "f"}, {"text": "he left", "label": "m"}]
    model, tokenizer = tiny([row["text"] for row in rows])
    plain = af.evaluate_attention(model, tokenizer, rows, output=tmp_path / "plain")
    marked = af.evaluate_attention(model, tokenizer, rows, output=tmp_path / "marked", impermissible=["he", "she"])
    assert "impermissible" not in set(plain.table()["test"])
    assert "impermissible" in set(marked.table()["test"])
