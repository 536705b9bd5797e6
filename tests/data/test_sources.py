"""Sources of texts: formats, columns, labels, splits; case numbers are those of the list of users' cases."""

import doctest
import json
import subprocess
import sys

import datasets
import pytest

from attn_faithful._checks import InputError
from attn_faithful.data import model_classes, sources, stratified, text_column
from attn_faithful.data.files import in_memory, mapped_tables, quoting, raw
from attn_faithful.data.files.readers import from_rows
from tests.data.loading import load

ROWS = [{"text": f"text {i}", "label": "pos" if i % 2 else "neg"} for i in range(40)]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def folder(path, **splits):
    path.mkdir(exist_ok=True)
    for split, rows in splits.items():
        write_jsonl(path / f"{split}.jsonl", rows)
    return str(path)


def labelled(*values, **more):
    return [{"text": f"t{i}", "label": value, **more} for i, value in enumerate(values)]


def load_labels(tmp_path, train, test=None, **settings):
    """Labels of train and test of a folder that has all three splits."""
    test = labelled(train[0]["label"]) if test is None else test
    data = load(folder(tmp_path / "d", train=train, validation=train, test=test), **settings)
    return data.label_names, data.splits["train"]["label"][:], data.splits["test"]["label"][:]


@pytest.mark.parametrize(
    "module", [sources, raw, in_memory, mapped_tables, quoting, model_classes, stratified, text_column]
)
def test_examples_in_docstrings(module):
    assert doctest.testmod(module).failed == 0


# --- formats


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_single_files_are_split(tmp_path, suffix):
    path, data = tmp_path / f"My reviews.{suffix}", datasets.Dataset.from_list(ROWS)
    if suffix == "parquet":
        data.to_parquet(path)
    elif suffix == "json":
        path.write_text(json.dumps(ROWS))
    elif suffix == "jsonl":
        write_jsonl(path, ROWS)
    else:
        sep = "," if suffix == "csv" else "\t"
        path.write_text("\n".join([f"text{sep}label", *(f"{r['text']}{sep}{r['label']}" for r in ROWS)]))
    got = load(str(path))
    assert got.name == "my-reviews"
    assert {split: len(rows) for split, rows in got.splits.items()} == {"train": 32, "validation": 4, "test": 4}
    assert got.label_names == ["neg", "pos"]
    assert all(set(got.class_counts(split)) == {"neg", "pos"} for split in got.splits)
    assert got.class_counts("test") == {"neg": 2, "pos": 2}
    assert len(got.notes) == 2
    ids = [e for rows in got.splits.values() for e in rows["example"]]
    assert sorted(ids) == sorted(f"all-{i}" for i in range(40))
    for rows in got.splits.values():
        assert all(
            text == f"text {example.split('-')[1]}" for text, example in zip(rows["text"], rows["example"], strict=True)
        )
        assert rows.features["label"].dtype == "int64"
    assert load(str(path), purpose="evaluate").splits.keys() == {"test"}


def test_csv_keeps_texts_as_written(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('body,stars\n"one, ""two""\nthree",1\nNA,2\n,1\nnull,2\n')
    data = load(str(path), purpose="evaluate")
    assert data.splits["test"]["text"][:4] == ['one, "two"\nthree', "NA", "", "null"]
    assert data.label_names == ["1", "2"]


def test_tsv_with_stray_quotes(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text('text\tlabel\n"a\t1\nb"c\t0\n"" d\t1\n')
    assert load(str(path), purpose="evaluate").splits["test"]["text"][:] == ['"a', 'b"c', '"" d']


def test_saved_data_sets_keep_class_names(tmp_path):
    names = datasets.ClassLabel(names=["zebra", "ape"])
    rows = datasets.Dataset.from_dict(
        {"text": ["a", "b", "c", "d"], "label": [0, 1, 1, 0]},
        features=datasets.Features({"text": datasets.Value("string"), "label": names}),
    )
    datasets.DatasetDict({"train": rows, "dev": rows, "test": rows, "extra": rows}).save_to_disk(tmp_path / "s")
    data = load(tmp_path / "s")
    assert data.label_names == ["zebra", "ape"]
    assert data.splits["train"]["label"][:] == [0, 1, 1, 0]
    assert list(data.splits) == ["train", "validation", "test"]
    assert data.notes == ["Splits left out: extra.", "4 of 4 test texts stand in train too."]


def test_meta_names_and_list_columns(tmp_path):
    train = [{"text": "a b", "label": i % 2, "informative": [0, 1]} for i in range(4)]
    path = folder(tmp_path / "d", train=train, validation=train, test=train)
    (tmp_path / "d" / "meta.json").write_text(json.dumps({"label_names": ["up", "down"], "notes": "PTB tokens"}))
    data = load(path, drop=None)
    assert data.label_names == ["up", "down"]
    assert data.pre_tokenizer == "whitespace"
    assert data.splits["test"]["informative"][0] == [0, 1]


def test_mock():
    data = load("mock-2", mock={"n_train": 40, "n_test": 10, "n_validation": 6}, seed=3)
    assert data.name == "mock-2"
    assert {s: len(r) for s, r in data.splits.items()} == {"train": 40, "validation": 6, "test": 10}
    assert sum(data.splits["test"]["informative"][0]) == 2
    with pytest.raises(InputError, match="Did you mean 'n_train'"):
        load("mock-2", mock={"n_trian": 3})


def test_hub_ids(monkeypatch):
    asked = []

    def load_dataset(*arguments):
        asked.append(arguments)
        columns = {"text": ["a", "b", "c", "d"], "label": [2, 0, 1, 0], "label_text": ["good", "bad", "neutral", "bad"]}
        rows = datasets.Dataset.from_dict(columns)
        return datasets.DatasetDict({"train": rows, "validation": rows, "test": rows, "unsupervised": rows})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    data = load("SetFit/sst5", drop=["neutral"])
    assert (data.name, data.pre_tokenizer, data.label_names) == ("setfit-sst5", "whitespace", ["bad", "good"])
    assert data.splits["train"]["label"][:] == [1, 0, 0]
    assert data.splits["train"]["example"][:] == ["train-0", "train-1", "train-3"]
    load("owner/name:config")
    assert asked == [("SetFit/sst5",), ("owner/name", "config")]


@pytest.mark.parametrize("source", ["./none", "/no/such", "data/sets/none", "none.csv", "~/none"])
def test_missing_paths_never_ask_the_hub(monkeypatch, source):
    monkeypatch.setattr(datasets, "load_dataset", lambda *a: pytest.fail("asked the Hub"))
    with pytest.raises(InputError, match="no"):
        load(source)


def test_hub_failure_says_so(monkeypatch):
    def fail(*arguments):
        raise ConnectionError("no network\nmore")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(InputError, match=r"no such path and the Hub gave: ConnectionError: no network$"):
        load("owner/name")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text"\n', "line 2 of .*a.jsonl"),
        ("a.json", "[1]", "row 0 of .*a.json"),
        ("a.csv", "text,label\na,1\nb,2,3\n", "a.csv is not.*3"),
        ("a.csv", "text,label\n", "has none"),
        ("a.txt", "x", "parquet, csv"),
    ],
)
def test_damaged_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load(str(tmp_path / name))


def test_folder_without_splits(tmp_path):
    (tmp_path / "readme.md").write_text("x")
    with pytest.raises(InputError, match=r"found readme.md"):
        load(str(tmp_path))
    with pytest.raises(InputError, match="split 'train'"):
        load(folder(tmp_path / "d", test=ROWS))


# --- columns


def test_columns_by_name_or_given(tmp_path):
    rows = [{"Body": r["text"], "stars": i % 3, "id": "x"} for i, r in enumerate(ROWS)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    assert load(path).label_names == ["0", "1", "2"]
    assert load(path, text_column="Body", label_column="stars").label_names == ["0", "1", "2"]
    with pytest.raises(InputError, match=r"columns: Body, stars, id\) 'body'. Did you mean 'Body'"):
        load(path, text_column="body")
    with pytest.raises(InputError, match="Did you mean 'stars'"):
        load(path, label_column="star")
    with pytest.raises(InputError, match="holds int64"):
        load(path, text_column="stars", label_column="id")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"review": "a", "comment": "b", "label": 1}, "review, comment could be it; name one with text_column"),
        ({"text": "a", "stars": 1, "rating": 1}, "stars, rating could be it; name one with label_column"),
        ({"left": "a", "right": "b", "label": 1}, r"left, right, label; name one with text_column \(and the second"),
        ({"text": "a", "other": 1}, "Expected a label column in split 'all'.*text, other"),
    ],
)
def test_ambiguous_or_missing_columns(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        load(write_jsonl(tmp_path / "a.jsonl", [row] * 4))


def test_missing_texts_c23(tmp_path):
    rows = [*ROWS, {"text": None, "label": "pos"}, {"text": "", "label": "pos"}, {"text": "  ", "label": "neg"}]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    with pytest.raises(InputError, match="row 40 of split 'all'"):
        load(path)
    data = load(path, drop_none=True)
    assert sum(map(len, data.splits.values())) == 42
    assert data.notes[0] == "all: 1 rows without text or label dropped."


# --- labels (C28)


@pytest.mark.parametrize(
    ("values", "names", "ids"),
    [
        (["pos", "neg", "pos"], ["neg", "pos"], [1, 0, 1]),
        ([1, 2], ["1", "2"], [0, 1]),
        ([10, 2, 1], ["1", "2", "10"], [2, 1, 0]),
        (["10", "2", "1"], ["1", "2", "10"], [2, 1, 0]),
        ([1.0, 0.0], ["0", "1"], [1, 0]),
        ([True, False], ["False", "True"], [1, 0]),
        (["-2", "3", "-10"], ["-10", "-2", "3"], [1, 2, 0]),
    ],
)
def test_one_mapping_from_train_c28(tmp_path, values, names, ids):
    assert load_labels(tmp_path, labelled(*values))[:2] == (names, ids)


def test_other_splits_use_the_mapping_of_train_c28(tmp_path):
    train = labelled("neg", "neu", "pos")
    assert load_labels(tmp_path, train, labelled("neg", "pos"))[2] == [0, 2]
    with pytest.raises(InputError, match=r"Unknown label 'poss' in row 1 of split 'test'.*Did you mean 'pos'"):
        load_labels(tmp_path, train, labelled("neg", "poss"))


def test_hidden_labels_c28(tmp_path):
    train = labelled(0, 1)
    assert load_labels(tmp_path, train, labelled(-1, -1))[2] == [-1, -1]
    assert load_labels(tmp_path, train, [{"text": "x"}])[2] == [-1]
    with pytest.raises(InputError, match=r"example 'train-2' of .* has -1"):
        load_labels(tmp_path, labelled(0, 1, -1))
    assert load_labels(tmp_path, labelled(0, 1, -1), drop=["-1"])[1] == [0, 1]
    assert load_labels(tmp_path, labelled(1, -1), label_map={"-1": "bad", "1": "good"})[:2] == (["bad", "good"], [1, 0])
    with pytest.raises(InputError, match="row 1 of split 'train' has none"):
        load_labels(tmp_path, labelled(0, None, 1))
    assert load_labels(tmp_path, labelled(0, None, 1), drop_none=True)[1] == [0, 1]


def test_no_labels_at_all_may_be_evaluated(tmp_path):
    path = folder(tmp_path / "d", test=[{"text": "a"}, {"text": "b"}])
    data = load(path, purpose="evaluate", label_names=["no", "yes"])
    assert (data.splits["test"]["label"][:], data.label_names) == ([-1, -1], ["no", "yes"])
    assert data.class_counts("test") == {"no": 0, "yes": 0}


def test_names_of_a_model(tmp_path):
    path = folder(tmp_path / "d", test=labelled("pos", "neg"))
    assert load(path, purpose="evaluate", label_names=["pos", "neg"]).splits["test"]["label"][:] == [0, 1]
    with pytest.raises(InputError, match="Unknown label 'neg'"):
        load(path, purpose="evaluate", label_names=["pos", "other"])
    bare = folder(tmp_path / "e", test=labelled(1, 0, 1))
    assert load(bare, purpose="evaluate", label_names=["a", "b"]).splits["test"]["label"][:] == [1, 0, 1]


def test_keep_drop_and_merge(tmp_path):
    train = labelled("very bad", "bad", "neutral", "good")
    names, ids, _ = load_labels(tmp_path, train, drop=["neutral"], label_map={"very bad": "bad"})
    assert (names, ids) == (["bad", "good"], [0, 0, 1])
    assert load_labels(tmp_path, train, labelled("good"), keep=["good", "bad"])[:2] == (["bad", "good"], [0, 1])
    for option, value in (("keep", ["goood"]), ("drop", ["goood"]), ("label_map", {"goood": "x"})):
        with pytest.raises(InputError, match=rf"Unknown label 'goood' in {option}.* Did you mean 'good'"):
            load_labels(tmp_path, train, **{option: value})


def test_one_class_only_c29(tmp_path):
    with pytest.raises(InputError, match="at least two classes"):
        load_labels(tmp_path, labelled("pos", "pos", "pos"))
    path = folder(tmp_path / "e", train=labelled(1, 1), validation=labelled(1), test=labelled(1))
    (tmp_path / "e" / "meta.json").write_text(json.dumps({"label_names": ["neg", "pos"]}))
    with pytest.raises(InputError, match="only 'pos' texts"):
        load(path)


def test_several_labels_a_text(tmp_path):
    rows = [{"text": f"t{i}", "labels": tags} for i, tags in enumerate([["b"], ["a", "b"], [], ["c"]] * 10)]
    data = load(write_jsonl(tmp_path / "a.jsonl", rows), multi_label=True)
    assert data.label_names == ["a", "b", "c"]
    by_id = {e: row for r in data.splits.values() for e, row in zip(r["example"], r["label"], strict=True)}
    assert [by_id[f"all-{i}"] for i in range(4)] == [[0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert sum(data.class_counts(s)["b"] for s in data.splits) == 20
    vectors = [{"text": f"t{i}", "labels": [i % 2, 1]} for i in range(40)]
    assert load(write_jsonl(tmp_path / "b.jsonl", vectors), multi_label=True).label_names == [
        "label-0",
        "label-1",
    ]
    with pytest.raises(InputError, match="set multi_label"):
        load(write_jsonl(tmp_path / "a.jsonl", rows))


# --- splits


def test_validation_is_stratified_and_fixed(tmp_path):
    train = labelled(*["a"] * 60, *["b"] * 39, "c")
    path = folder(tmp_path / "d", train=train, test=labelled("a"))
    data, again, other = load(path), load(path), load(path, seed=1)
    assert data.class_counts("validation") == {"a": 6, "b": 4, "c": 0}
    assert data.class_counts("train") == {"a": 54, "b": 35, "c": 1}
    assert data.splits["validation"]["example"][:] == again.splits["validation"]["example"][:]
    assert data.splits["validation"]["example"][:] != other.splits["validation"]["example"][:]
    assert not set(data.splits["train"]["example"]) & set(data.splits["validation"]["example"])
    assert load(path, validation_share=0.2).class_counts("validation")["a"] == 12


def test_limit_and_doubles_are_said(tmp_path):
    path = folder(tmp_path / "d", train=labelled(*["a", "b"] * 50), test=labelled("a", "b"))
    data = load(path, limit=10)
    assert data.class_counts("train") == {"a": 5, "b": 5}
    assert any("test texts stand in train too" in note for note in data.notes) == bool(
        set(data.splits["train"]["text"]) & {"t0", "t1"}
    )
    assert "train: 10 of 90 texts taken, stratified by seed 0." in data.notes
    assert data.shortened
    assert not load(path, limit=1000).shortened


def test_a_limit_may_be_of_some_splits(tmp_path):
    """The training texts stay, so a model is the same however many texts it is tested on."""
    path = folder(tmp_path / "d", train=labelled(*["a", "b"] * 50), test=labelled(*["a", "b"] * 20))
    whole, some = load(path), load(path, limit={"test": 6})
    assert some.splits["train"]["text"][:] == whole.splits["train"]["text"][:]
    assert some.class_counts("test") == {"a": 3, "b": 3}
    assert some.splits["test"]["text"][:] == load(path, limit=6).splits["test"]["text"][:]
    assert "test: 6 of 40 texts taken, stratified by seed 0." in some.notes
    assert not any(note.startswith("train:") for note in some.notes)
    with pytest.raises(InputError, match=r"split \(data.limit\) 'tets'.*test"):
        load(path, limit={"tets": 6})
    with pytest.raises(InputError, match="at least 2 texts, but got 1"):
        load(path, limit={"test": 1})


def test_fingerprint_is_stable_and_sensitive(tmp_path):
    path = folder(tmp_path / "d", train=ROWS, test=ROWS[:2])
    first = load(path)
    code = (
        "from attn_faithful.data.settings import DataSettings; from attn_faithful.data.sources import load_texts; "
        f"print(load_texts(DataSettings({path!r})).fingerprint)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == first.fingerprint
    assert len(first.fingerprint) == 64
    path = folder(tmp_path / "e", train=ROWS, test=[{**ROWS[0], "text": "changed"}, ROWS[1]])
    assert load(path).fingerprint != first.fingerprint


# --- real data


@pytest.mark.parametrize(
    ("name", "classes", "pre_tokenizer", "column"),
    [
        ("sst2", 2, "whitespace", "token_sentiment"),
        ("movies_rationales", 2, "whitespace", "rationale_mask"),
        ("trec6", 6, "words", "label"),
        ("hotels_zh", 2, "words", "label"),
        ("reviews_ar", 3, "words", "label"),
    ],
)
def test_real_sets(shared, name, classes, pre_tokenizer, column):
    data = load(shared / "data" / name)
    meta = json.loads((shared / "data" / name / "meta.json").read_text())
    assert data.label_names == meta["label_names"]
    assert len(data.label_names) == classes
    assert data.pre_tokenizer == pre_tokenizer
    assert column in data.splits["train"].column_names
    assert len(data.splits["test"]) == meta["rows"]["test"]
    if name == "sst2":
        assert "2 of 1647 test texts stand in train too." in data.notes


def test_markup_is_kept(shared):
    assert any("<br />" in text for text in load(shared / "data/cad_imdb").splits["test"]["text"])


def test_rows_have_every_column_that_one_of_them_has():
    rows = [{"text": "a"}, {"text": "b", "label": "good"}]
    assert from_rows(rows).splits["all"].to_dict() == {"text": ["a", "b"], "label": [None, "good"]}
    split = from_rows({"train": rows}).splits["train"]
    assert split["label"][:] == [None, "good"]


@pytest.mark.parametrize("given", [list, lambda rows: {"text": ["a", "b", "c"], "label": ["x", None, -1]}])
def test_a_column_of_several_kinds_is_named_with_its_rows(given):
    rows = given([{"text": "a", "label": "x"}, {"text": "b", "label": None}, {"text": "c", "label": -1}])
    said = r"one kind of value in column 'label', but row 0 has 'x' and row 2 has -1 \(rows count from 0\); write all"
    with pytest.raises(InputError, match=said):
        from_rows(rows)
