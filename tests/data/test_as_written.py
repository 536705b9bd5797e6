"""What files, quotes, names and labels say is read as it is meant, or refused: never as something else in silence."""

import gzip
import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attn_faithful._checks import Faults, InputError, SeveralFaultsError
from attn_faithful.data.files.tables import read_file
from attn_faithful.data.training_texts import fingerprints
from tests.data.loading import load

HEAD = "text,label\n"
ROWS = "good,pos\nbad,neg\n"


def written(path, content):
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows_of(path, content, **columns):
    data = load(written(path, content), purpose="evaluate", **columns)
    (rows,) = data.splits.values()
    return rows["text"][:], [data.label_names[label] for label in rows["label"][:]]


# --- quotes


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.csv", HEAD + 'good,pos\n"so \\"good\\" it was",pos\nbad,neg\n', 3),  # a backslash before a quote
        ("a.csv", HEAD + '"Good" film,pos\nbad,neg\n', 2),  # quotes that are part of the text
        ("a.csv", HEAD + 'good,pos\n"broken,pos\nbad,neg\nanother" one,neg\nbad,neg\n', 3),  # it would swallow two rows
        ("a.csv", HEAD + '"good,pos\nbad,neg\n', 2),  # it would swallow all
        ("a.csv", 'text;label\n"Good" film;pos\nbad;neg\n', 2),
    ],
)
def test_quotes_that_do_not_close_where_a_column_ends_are_refused(tmp_path, name, content, line):
    with pytest.raises(InputError, match=f"the row on line {line} of "):
        load(written(tmp_path / name, content), purpose="evaluate")


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.csv", HEAD + '"so ""good"", it was",pos\na 5" screen,neg\n', ['so "good", it was', 'a 5" screen']),
        ("a.csv", HEAD + '"one\ntwo",pos\n"a, b",neg\n', ["one\ntwo", "a, b"]),
        ("a.tsv", 'text\tlabel\n"Good" film\tpos\n"bad"\tneg\n', ['"Good" film', '"bad"']),
        ("a.tsv", 'text\tlabel\n"one\ntwo"\tpos\n"a\tb"\tneg\n', ["one\ntwo", "a\tb"]),
        ("a.tsv", 'text\tlabel\n"tis good\tpos\nbad\tneg\n', ['"tis good', "bad"]),
        ("a.csv", HEAD + f'"{"long " * 30_000}end",pos\nbad,neg\n', ["long " * 30_000 + "end", "bad"]),
    ],
)
def test_well_quoted_texts_are_read_as_they_are(tmp_path, name, content, texts):
    assert rows_of(tmp_path / name, content) == (texts, ["pos", "neg"])


def test_blanks_before_quotes_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"in column 'text' of .* a blank stands before each"):
        load(written(tmp_path / "a.csv", 'label, text\npos, "good"\nneg, "bad"\n'), purpose="evaluate")


# --- what stands between columns, and their names


@pytest.mark.parametrize("apart", ["^", ":", "::", "   ", "\x01", "~", "\x1f"])
def test_delimiters_that_are_not_read_are_told(tmp_path, apart):
    content = f"text{apart}label\ngood{apart}pos\nbad{apart}neg\n"
    with pytest.raises(InputError, match="stands in every row as often"):
        load(written(tmp_path / "a.csv", content), purpose="evaluate")


def test_one_column_may_hold_any_sign(tmp_path):
    path = written(tmp_path / "a.csv", "text\ngood: very\nbad\n")
    assert load(path, purpose="evaluate").splits["test"]["text"][:] == ["good: very", "bad"]
    path = written(tmp_path / "b.csv", "review: text\ngood: very\nbad\n")
    assert load(path, purpose="evaluate").splits["test"]["text"][:] == ["good: very", "bad"]


@pytest.mark.parametrize(
    "content",
    [
        "sep=;\ntext;label\ngood;pos\nbad;neg\n",  # as spreadsheets write it
        "\ufeffsep=;\r\ntext;label\r\ngood;pos\r\nbad;neg\r\n",
        "text, label\ngood, pos\nbad, neg\n",  # blanks around names, and labels
        " text ,label,,\ngood,pos,,\nbad,neg,,\n",  # columns at the end that hold nothing
    ],
)
def test_names_of_columns_are_found(tmp_path, content):
    assert rows_of(tmp_path / "a.csv", content) == (["good", "bad"], ["pos", "neg"])


def test_columns_of_one_name_are_told(tmp_path):
    with pytest.raises(InputError, match="'text' stands twice"):
        read_file(written(tmp_path / "a.csv", "text,text,label\na,b,pos\n"))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), path)
    with pytest.raises(InputError, match="'text' stands twice"):
        read_file(path)
    with pytest.raises(InputError, match=r"line 1 of .*: 'text' stands twice in an object"):
        read_file(written(tmp_path / "a.jsonl", '{"text": "a", "label": "x", "text": "b"}\n'))
    with pytest.raises(InputError, match="'text' stands twice in an object"):
        read_file(written(tmp_path / "a.json", '[{"text": "a", "label": "x", "text": "b"}]'))


def test_half_a_character_in_a_name_is_told_with_its_row(tmp_path):
    with pytest.raises(InputError, match=r"row 1 of .*half a character"):
        read_file(written(tmp_path / "a.json", '[{"text": "a"}, {"te\\ud800xt": "a", "text": "b"}]'))


def test_a_column_without_a_label_is_told(tmp_path):
    data = load(written(tmp_path / "a.csv", "text,mark\ngood,pos\nbad,neg\n"), purpose="evaluate", text_column="text")
    assert data.notes == ["No label column found; label_column names one (columns: text, mark)."]
    assert load(written(tmp_path / "b.csv", "text\ngood\nbad\n"), purpose="evaluate").notes == []


# --- files that are something else


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", gzip.compress(b"text,label\n", mtime=0), "a gzip archive"),
        ("a.csv", b"PK\x03\x04" + bytes(60), "a zip archive or a spreadsheet"),
        ("a.parquet", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12\n", "Git LFS"),
        ("a.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12\n", "Git LFS"),
        ("a.csv", b"\n <!DOCTYPE html><html><body>404</body></html>", "a web page"),
        ("a.csv", b'[{"text": "good", "label": "pos"}]', "JSON; name it .json"),
        ("a.csv", b'\xef\xbb\xbf{"text": "good", "label": "pos"}\n', "name it .jsonl"),
        ("a.csv", b"PAR1" + bytes(20), "name it .parquet"),
        ("a.csv", b"", "it is empty"),
        ("a.csv", b"\n\n", "it is empty"),
        ("a.tsv", b"\xef\xbb\xbf", "it is empty"),
        ("a.csv", b"text,label", "it has none"),
        ("a.csv.gz", gzip.compress(b"text,label\n", mtime=0), "unpack it first"),
        ("a.txt", b"good\n", "a first line 'text'"),
        ("a.ndjson", b"{}", "name it .jsonl"),
    ],
)
def test_files_of_another_kind_are_named(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        load(written(tmp_path / name, content), purpose="evaluate")


def test_what_a_folder_holds_beside_is_told(tmp_path):
    written(tmp_path / "test.csv", HEAD + ROWS)
    written(tmp_path / "._test.csv", b"\0\5")  # of another system, and hidden
    written(tmp_path / ".train.csv", HEAD + ROWS)
    written(tmp_path / "train.csv.gz", gzip.compress(HEAD.encode()))
    written(tmp_path / "validation" / "a.csv", HEAD + ROWS)
    written(tmp_path / "README.md", "training")
    data = load(tmp_path, purpose="evaluate")
    assert list(data.splits) == ["test"]
    assert data.notes == ["Files left out: train.csv.gz, validation."]


# --- labels


@pytest.mark.parametrize("unseen", [" ", "\u00a0", "\u200b", "\ufeff", "\0", "\u200e"])
def test_what_stands_unseen_around_a_label_makes_no_class(tmp_path, unseen):
    path = written(tmp_path / "a.csv", HEAD + f"a,pos\nb,neg\nc,{unseen}pos\nd,neg{unseen}\n")
    data = load(path, purpose="evaluate")
    assert data.label_names == ["neg", "pos"]
    assert data.splits["test"]["label"][:] == [1, 0, 1, 0]
    (note,) = data.notes
    assert "2 labels" in note


def test_composed_and_decomposed_labels_are_one_class_in_data_map_and_model(tmp_path):
    composed, decomposed = "n\u00e9g", "ne\u0301g"
    path = written(tmp_path / "a.csv", HEAD + f"a,{composed}\nb,{decomposed}\nc,pos\n")
    data = load(path, purpose="evaluate")
    assert data.splits["test"]["label"][:] == [0, 0, 1]
    mapped = load(path, purpose="evaluate", label_map={decomposed: "bad"})
    assert mapped.label_names == ["bad", "pos"]
    named = load(path, purpose="evaluate", label_names=["pos", decomposed])  # as the model has it
    assert named.label_names == ["pos", decomposed]
    assert named.splits["test"]["label"][:] == [1, 1, 0]
    assert load(path, purpose="evaluate", drop=[decomposed]).splits["test"]["text"][:] == ["c"]


def test_names_that_a_source_states_are_cleaned_too(tmp_path):
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg ", "pos"])}
    )
    rows = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}, features=features)
    data = load("rows", rows=rows, purpose="evaluate", label_names=["pos", "neg"])
    assert data.splits["test"]["label"][:] == [0, 1]


@pytest.mark.parametrize(
    ("labels", "pairs"),
    [
        (["0", "1", "1.0", "0"], [("1", "1.0")]),
        (["0", "1", "01", "0.0"], [("0", "0.0"), ("01", "1")]),
        (["True", "true", "False", False], [("True", "true")]),
        (["-1", "+1", "1", "0"], [("+1", "1")]),
    ],
)
def test_one_class_in_two_ways_is_refused_with_the_map_that_merges(tmp_path, labels, pairs):
    lines = [json.dumps({"text": f"t{i}", "label": label}) for i, label in enumerate(labels)]
    path = written(tmp_path / "a.jsonl", "\n".join(lines))
    with pytest.raises(SeveralFaultsError) as caught:
        load(path, purpose="evaluate", faults=Faults(collect=True))
    assert len(caught.value.faults) == len(pairs)
    for fault, (first, other) in zip(caught.value.faults, pairs, strict=True):
        assert f"{first!r} and {other!r} are one" in fault
    merged = load(path, purpose="evaluate", label_map={other: first for first, other in pairs})
    assert not {other for _, other in pairs} & set(merged.label_names)


def test_classes_of_minus_one_are_explained(tmp_path):
    path = written(tmp_path / "a.csv", HEAD + "a,1\nb,-1\nc,1\nd,-1\n")
    with pytest.raises(InputError, match="got '1'; -1 is read as no label, and --map=-1=NAME"):
        load(path)
    assert load(path, label_map={"-1": "bad"}).label_names == ["bad", "1"]


@pytest.mark.parametrize("rows", ["a,x\nb,y\nc,z\nd,v\n", "a,x\nb,y\n", "a,x\nb,y\nc,x\n"])
def test_texts_too_few_for_splits_are_refused(tmp_path, rows):
    path = written(tmp_path / "a.csv", HEAD + rows)  # a column of ids in the label's place, say
    with pytest.raises(InputError, match=r"makes a (test|validation) split, but the \d texts .* have \d classes"):
        load(path)
    assert len(load(path, purpose="evaluate").splits["test"]) == rows.count("\n")


def test_empty_texts_are_told_and_a_column_of_them_is_refused(tmp_path):
    path = written(tmp_path / "a.csv", HEAD + "good,pos\n,neg\n  ,neg\nbad,pos\n")
    data = load(path, purpose="evaluate")
    assert data.notes == ["2 of 4 texts in column 'text' of split 'test' of 'a' are empty."]
    with pytest.raises(InputError, match="all 5 are empty"):
        load(written(tmp_path / "b.csv", HEAD + ",pos\n ,neg\n" * 2 + ",pos\n"), purpose="evaluate")


# --- texts that a model was trained on


def test_capitals_blanks_and_forms_of_unicode_are_no_other_text():
    texts = ["A caf\u00e9", "a cafe\u0301 ", "  a\n CAF\u00c9"]
    assert len(set(fingerprints(texts).tolist())) == 1
    assert len(set(fingerprints(texts, ["q", "Q ", "q"]).tolist())) == 1
    assert len(set(fingerprints(["a b", "ab", "a c"]).tolist())) == 3
    assert len(set(fingerprints(["a", "a b"], ["b c", "c"]).tolist())) == 2
