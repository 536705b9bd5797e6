"""Whether erased texts were in distribution, in words; leave-one-out by masks is called so."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.answer.erased import erased_sentences
from attn_faithful.reports.run import Run
from tests.reports.made import long_texts, made


def said(**shares):
    values = {name: np.array(of_texts) for name, of_texts in shares.items()}
    scores = SimpleNamespace(
        noun="word", over=lambda n: f"{n} texts", values=lambda metric: values.get(metric, np.array([math.nan] * 2))
    )
    return [words for (words,) in erased_sentences(scores)]


def test_shares_by_operator():
    assert said(deleted_outside=[0.5, 0.4, math.nan], masked_outside=[0.02, 0.0, 0.04]) == [
        "Of the texts with words deleted 45%, of those with words masked 2% are unlike what the model was trained on, "
        "means over 3 texts (5% by chance)."
    ]
    assert said(masked_outside=[0.0, 0.1]) == [
        "Of the texts with words masked 5% are unlike what the model was trained on, means over 2 texts (5% by chance)."
    ]
    assert said(deleted_outside=[math.nan]) == said() == []


@pytest.mark.parametrize(("operator", "words"), [("mask", "leave-one-out by masks: "), ("delete", "leave-one-out: ")])
def test_leave_one_out_by_masks_is_called_so(operator, words, tmp_path):
    run = made(tmp_path / "run", long_texts(40, 12))
    table = run.read("scores").to_pydict()
    first = run.first_source(None)
    table["source"] = [name.replace(first, "leave_one_out") for name in table["source"]]
    run.folder.write_table("scores", table)
    summary = run.folder.read_summary()
    for record in summary["tests"]:
        record["source"] = record["source"].replace(first, "leave_one_out")
    run.folder.write_summary(summary)
    meta = run.folder.read_meta()
    meta["evaluation"] = {**meta.get("evaluation", {}), "sources": {"operator": operator}}
    run.folder.write_meta(meta)
    assert any(words in sentence for sentence in answer(Run(run.path)).statements)
