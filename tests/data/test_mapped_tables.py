"""Large tables lie on disk and are the same tables."""

from __future__ import annotations

import json
import os
import random

import datasets
import numpy as np
import pyarrow as pa
import pytest

from attn_faithful._checks import InputError
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.files import json_rows, mapped_tables, readers, tables
from attn_faithful.data.files.mapped_tables import Spill, concatenated, mapped_copy
from attn_faithful.data.rows import Rows
from attn_faithful.data.text_column import Texts
from attn_faithful.data.tokenizer import train_tokenizer
from tests.data.loading import load


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Everything is large: a few bytes are written to disk."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setattr(mapped_tables, "IN_MEMORY", 40)
    for module in (json_rows, readers, tables):
        monkeypatch.setattr(module, "BATCH_ROWS", 3)
    return place


def test_parts_are_one_table_and_no_file_has_a_name(small):
    spill = Spill()
    assert spill.empty
    parts = [pa.table({"a": [i], "b": [[i] * i]}) for i in range(1, 20)]
    for part in parts:
        spill.add(part)
    assert len(spill._on_disk) > 2
    assert spill.table().equals(pa.concat_tables(parts))
    assert list(small.iterdir()) == []
    values = concatenated([pa.array(range(i), pa.int64()) for i in range(30)])
    assert isinstance(values, np.memmap)
    assert values.tolist() == [k for i in range(30) for k in range(i)]
    assert list(small.iterdir()) == []
    assert mapped_copy(pa.table({"a": pa.array([], pa.string())})).num_rows == 0


def test_numbers_of_two_kinds_are_united_and_other_kinds_refused():
    spill = Spill()
    for part in ({"a": [1]}, {"a": [2.5]}, {"a": [None], "b": ["x"]}):
        spill.add(pa.table(part))
    assert spill.table().to_pydict() == {"a": [1.0, 2.5, None], "b": [None, None, "x"]}
    spill.add(pa.table({"a": ["x"]}))
    with pytest.raises(pa.ArrowTypeError):
        spill.table()


VALUES = (None, 1, 2**40, 2**70, 1.5, True, "x", "", [1], [0.5], [], {"k": 1}, {"k": None, "l": "y"})


@pytest.mark.parametrize("seed", range(60))
def test_lines_read_some_at_a_time_are_those_read_at_once(small, monkeypatch, tmp_path, seed):
    drawn = random.Random(seed)
    kinds = drawn.sample(VALUES, drawn.randint(1, 3))
    rows = [{name: drawn.choice(kinds) for name in drawn.sample("abc", drawn.randint(1, 3))} for _ in range(11)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    found = []
    for batch_rows in (3, 1000):
        monkeypatch.setattr(json_rows, "BATCH_ROWS", batch_rows)
        try:
            found.append(readers.read_file(path).to_dict())
        except InputError as error:
            found.append(str(error).partition(" in column")[0])  # the first of several may be another
    assert found[0] == found[1]


def test_the_number_of_a_strange_row_is_its_own(small, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("{}\n" * 7 + "[1]\n")
    with pytest.raises(InputError, match="in row 7"):
        readers.read_file(path)


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet", "stream"])
def test_a_source_on_disk_is_encoded_as_one_in_memory(small, monkeypatch, tmp_path, suffix):
    drawn = random.Random(0)
    texts = [" ".join(drawn.choices(["good", "bad", "film", "\u6587"], k=drawn.randint(0, 9))) for _ in range(2100)]
    table = pa.table({"text": texts, "label": [("neg", "pos")[i % 2] for i in range(2100)]})
    data = datasets.Dataset(table)
    path = tmp_path / f"data.{suffix}"
    if suffix in ("jsonl", "json"):
        lines = [json.dumps(row) for row in table.to_pylist()]
        path.write_text("\n".join(lines) if suffix == "jsonl" else f"[{','.join(lines)}]")
    elif suffix != "stream":
        getattr(data, f"to_{suffix}")(path)
    given = {"rows": data.to_iterable_dataset()} if suffix == "stream" else {}
    found = []
    for limit in (40, 2**26):
        monkeypatch.setattr(mapped_tables, "IN_MEMORY", limit)
        loaded = load("data" if given else str(path), **given, drop_none=True)
        rows = Rows.of(encode_texts(train_tokenizer(texts), loaded.splits["train"], 6))
        columns = {name: [np.asarray(value).tolist() for value in rows[name]] for name in rows.column_names}
        found.append((loaded.fingerprint, loaded.notes, columns, list(Texts.of(loaded.splits["test"], "text"))))
    assert found[0] == found[1]
    assert list(small.iterdir()) == []


def test_a_stream_of_nothing_and_one_of_splits():
    data = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]})
    both = datasets.IterableDatasetDict({"train": data.to_iterable_dataset(), "test": data.to_iterable_dataset()})
    assert set(readers.from_rows(both).splits) == {"train", "test"}
    with pytest.raises(InputError, match="streamed has none"):
        readers.from_rows(data.to_iterable_dataset().filter(lambda row: False))


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from /proc")
def test_what_lies_on_disk_is_not_the_process_own_memory(monkeypatch):
    def own():
        return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))

    table = pa.table({"text": ["word " * 20_000] * 400})  # 40 MB
    before = own()
    mapped = mapped_copy(table)
    assert len(mapped["text"][399].as_py()) == 100_000
    assert own() - before < 10_000  # kB
