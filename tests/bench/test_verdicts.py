"""What the verdict says of each kind is counted from the answers of the runs."""

from collections import Counter

import numpy as np
import pytest

from attn_faithful.api import evaluate_attention
from attn_faithful.bench.measured import Measured
from attn_faithful.bench.running import TestedModel
from attn_faithful.bench.stock import ENCODER
from attn_faithful.bench.texts import DATA, frozen_texts
from attn_faithful.bench.verdicts import Said, said_of, verdict_numbers, verdicts
from attn_faithful.records.bench import BenchResult
from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.tables.bench import tables_of_bench

KINDS = ("faithful", "uniform", "leaky")


@pytest.fixture(scope="module")
def models(small_set, tmp_path_factory):
    output = tmp_path_factory.mktemp("verdicts")
    texts = frozen_texts(DATA["single"], seed=1, of_a_length=10)
    columns = {"text": [text.text for text in texts], "label": [text.label for text in texts]}
    tested = []
    for entry in small_set.manifest.models:
        if entry.kind in KINDS and entry.encoder != ENCODER:
            folder = str(small_set.model_folder(entry))
            tests = ["correlation", "permutation", "flips"]
            run = evaluate_attention(folder, columns, tests=tests, output=output, name=entry.name, progress=False)
            tested.append(TestedModel(entry, run))
    return tested


def test_verdicts_are_those_of_the_answers(models):
    expected = {}
    for one in models:
        found = answer(one.run).verdict
        expected.setdefault(one.model.kind, Counter())[found.key if found else "nothing"] += 1
    said = {entry.kind: entry.says for entry in verdicts(said_of(models)) if entry.test == "verdict"}
    assert said == expected
    assert said["leaky"] == {"against": 1}


def test_every_test_says_something_of_every_model(models):
    n_of_kind = Counter(one.model.kind for one in models)
    for entry in verdicts(said_of(models)):
        assert sum(entry.says.values()) == n_of_kind[entry.kind], entry
    of_permutation = {entry.kind: entry.says for entry in verdicts(said_of(models)) if entry.test == "permutation"}
    assert of_permutation["faithful"] == {"for": n_of_kind["faithful"]}
    assert of_permutation["uniform"] == {"nothing": 1}  # equal weights cannot be shuffled


def test_the_verdict_is_a_number_too(models):
    texts = [f"t{i}" for i in range(4)]
    numbers = [Measured(one.model, texts, np.full(4, 8), {}) for one in models]
    said = [Said("faithful", {"verdict": word}) for word in ("for", "mixed", "against", "nothing")]
    values = [one.numbers["verdict", "attention"] for one in verdict_numbers((numbers * 2)[:4], said)]
    assert [column.values[0] for column in values[:3]] == [1.0, 0.0, -1.0]
    assert np.isnan(values[3].values).all()
    assert set(values[3].reasons) == {"no verdict"}


def test_the_table_has_a_row_a_test_and_a_column_a_kind(models):
    result = BenchResult("ours", "test", "ours", "0" * 64, [], verdicts=verdicts(said_of(models)))
    table = next(table for table in tables_of_bench([result]) if table.name == "bench-verdicts")
    assert table.head == ["test", *dict.fromkeys(one.model.kind for one in models)]
    assert [row[0] for row in table.rows] == ["verdict", "correlation", "permutation", "flips"]
    assert table.rows[0][table.head.index("leaky")] == "1 against"
