"""What data must not be read as in silence: another delimiter or encoding, other columns, splits and labels."""

import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attn_faithful._checks import Faults, InputError, SeveralFaultsError
from attn_faithful.data.files import decoding
from attn_faithful.data.files.readers import from_rows
from attn_faithful.data.files.tables import read_file
from attn_faithful.data.model_classes import by_number
from tests.data.loading import load

TEXTS = ["gut, wirklich", "schlecht", "na ja, so"]
LABELS = ["pos", "neg", "pos"]


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def table(delimiter, quote=""):
    rows = [f"{quote}{text}{quote}{delimiter}{label}" for text, label in zip(TEXTS, LABELS, strict=True)]
    return "\n".join([f"text{delimiter}label", *rows, ""])


# --- delimiters


@pytest.mark.parametrize(
    ("suffix", "delimiter", "quote", "told"),
    [
        ("csv", ";", "", "semicolons, not commas"),
        ("csv", ";", '"', "semicolons, not commas"),
        ("csv", "\t", "", "tabs, not commas"),
        ("csv", "|", "", "bars, not commas"),
        ("tsv", ",", '"', "commas, not tabs"),
        ("tsv", ";", "", "semicolons, not tabs"),
        ("csv", ",", '"', None),
        ("tsv", "\t", "", None),
    ],
)
def test_what_stands_between_columns_is_found_and_told(tmp_path, suffix, delimiter, quote, told):
    path = written(tmp_path / f"a.{suffix}", table(delimiter, quote))
    data = load(path, purpose="evaluate")
    assert data.splits["test"]["text"][:] == TEXTS
    assert data.splits["test"]["label"][:] == [1, 0, 1]
    assert [note for note in data.notes if "stand between" in note] == (
        [] if told is None else [f"a.{suffix}: columns stand between {told}."]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text;label\ngood; very;pos\nbad;neg\n", "first line is 'text;label', with semicolons"),
        ("text|label\ngood|pos\nbad\n", "first line is 'text|label', with bars"),
        ("a;b,c;d\n1;2,3;4\n", "semicolons fit too"),
        ("a;b|c\n1;2|3\n", "semicolons and bars fit too"),
        ("text\ngood, very\n", "Expected 1 columns, got 2"),
    ],
)
def test_delimiters_that_cannot_be_told_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message.replace("|", r"\|")):
        load(written(tmp_path / "a.csv", text), purpose="evaluate")


def test_a_quoted_comma_file_is_read_as_ever(tmp_path):
    path = written(tmp_path / "a.csv", 'text,label\n"a; b; c",x\n"d, ""e""\nf | g",y\n')
    notes = []
    assert read_file(path, notes=notes)[:] == {"text": ["a; b; c", 'd, "e"\nf | g'], "label": ["x", "y"]}
    assert notes == []
    assert read_file(written(tmp_path / "b.csv", "text\none; two\nthree\n"))["text"][:] == ["one; two", "three"]


def test_what_only_looks_like_a_number_stays_as_written(tmp_path):
    path = written(
        tmp_path / "a.csv",
        "zip,day,label,share,big,gap,text\n007,2020-01-02,yes,0.5,12345678901234567890,1,NA\n01,2020-01-03,no,1,2,,b\n",
    )
    rows = read_file(path)
    assert rows[0] == {
        "zip": "007",
        "day": "2020-01-02",
        "label": "yes",
        "share": 0.5,
        "big": "12345678901234567890",
        "gap": 1,
        "text": "NA",
    }
    assert rows[1]["gap"] is None


# --- encodings


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json"])
@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "utf-8-sig", "utf-32"])
def test_encodings_are_named_or_read_right(tmp_path, name, encoding):
    rows = [{"text": "bon", "label": "n\xe9gatif"}, {"text": "d\xe9j\xe0", "label": "positif"}]
    sep = "\t" if name == "a.tsv" else ","
    kinds = {
        "jsonl": "\n".join(json.dumps(row, ensure_ascii=False) for row in rows),
        "json": json.dumps(rows, ensure_ascii=False, indent=1),
    }
    text = kinds.get(name[2:]) or "\n".join([f"text{sep}label", *(sep.join(row.values()) for row in rows)])
    path = written(tmp_path / name, text, encoding)
    marked = encoding in ("utf-16", "utf-8-sig", "utf-32")
    for asked in (None, encoding):
        if asked is None and not marked:
            with pytest.raises(InputError, match=r"data\.encoding") as caught:
                load(path, purpose="evaluate")
            assert name in str(caught.value)
            if encoding != "utf-16-le":
                before = text[: text.index("\xe9")]
                line, byte = before.count("\n") + 1, len(before)
                assert f"line {line} has the byte 0xe9 (byte {byte} of the file" in str(caught.value)
            continue
        data = load(path, purpose="evaluate", encoding=asked)
        assert data.label_names == ["n\xe9gatif", "positif"]
        assert data.splits["test"]["text"][:] == ["bon", "d\xe9j\xe0"]
        assert any("byte order mark" in note for note in data.notes) == (asked is None and encoding != "utf-8-sig")


def test_a_wrong_encoding_is_an_error(tmp_path):
    path = written(tmp_path / "a.csv", table(",", '"') + "\xe9,pos\n")
    with pytest.raises(InputError, match=r"Expected ascii in .*a.csv, but line 5 has the byte 0xc3"):
        read_file(path, "ascii")
    with pytest.raises(InputError, match="'klingon'"):
        read_file(path, "klingon")


def test_the_first_wrong_byte_is_found_across_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "_CHUNK", 3)
    path = tmp_path / "a.csv"
    path.write_bytes("text\n\u00e9\u20ac\U0001f600 ok\nn".encode() + b"\xe9gatif\n")
    with pytest.raises(InputError, match=r"line 3 has the byte 0xe9 \(byte 19 of the file"):
        read_file(path)
    path.write_bytes(path.read_bytes()[:-7])
    assert read_file(path)["text"][:] == ["\u00e9\u20ac\U0001f600 ok", "n"]
    path.write_bytes(b"text\nn\xc3")  # cut within a character
    with pytest.raises(InputError, match="line 2 has the byte 0xc3"):
        read_file(path)


@pytest.mark.parametrize("source", ["parquet", "rows", "data set"])
def test_bytes_never_become_text_by_their_repr(tmp_path, source):
    def read(label, **more):
        columns = {"text": ["a", "b"], "label": pa.array([label, b"p"]), **more}
        rows = pa.table(columns)
        if source == "parquet":
            pq.write_table(rows, tmp_path / "a.parquet")
            return load(tmp_path / "a.parquet", purpose="evaluate", multi_label="tags" in more)
        given = rows.to_pylist() if source == "rows" else datasets.Dataset(rows)
        return load("data", rows=given, purpose="evaluate")

    assert read("n\xe9gatif".encode()).label_names == ["n\xe9gatif", "p"]
    with pytest.raises(InputError, match=r"column 'label' of .* row 0 holds the bytes b'n\\xe9gatif'"):
        read(b"n\xe9gatif")


def test_texts_in_parquet_that_are_no_text(tmp_path):
    raw = pa.array([b"fine", b"n\xe9"], pa.binary())
    pq.write_table(pa.table({"text": pa.Array.from_buffers(pa.string(), 2, raw.buffers())}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"column 'text' of .* row 1 holds the bytes"):
        read_file(tmp_path / "a.parquet")
    lists = pa.table({"text": ["a", "b"], "tags": pa.array([[b"x", b"y"], [b"\xe9"]])})
    with pytest.raises(InputError, match=r"column 'tags' of .* row 1 holds the bytes"):
        from_rows(datasets.Dataset(lists))
    fine = pa.table({"text": ["a", "b"], "tags": pa.array([[b"x", b"y"], []])})
    assert from_rows(datasets.Dataset(fine)).splits["all"]["tags"][:] == [["x", "y"], []]


# --- splits and columns


def test_two_splits_that_mean_the_same():
    rows = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]})
    other = datasets.Dataset.from_dict({"text": ["c", "d"], "label": [0, 1]})
    data = load("d", rows=datasets.DatasetDict({"train": rows, "dev": other, "validation": rows, "test": rows}))
    assert data.splits["validation"]["text"][:] == ["a", "b"]
    assert "Splits left out: dev." in data.notes
    with pytest.raises(InputError, match="one split for 'validation', but d has dev and val"):
        load("d", rows=datasets.DatasetDict({"train": rows, "dev": other, "val": rows}))


def test_files_of_a_folder_that_are_left_out_are_told(tmp_path):
    for name in ("train.csv", "test.csv", "more.csv"):
        written(tmp_path / name, table(",", '"'))
    (tmp_path / "README.md").write_text("x")
    assert "Files left out: more.csv." in load(tmp_path).notes


@pytest.mark.parametrize(
    ("columns", "label", "note"),
    [
        (["text", "label", "Label"], "label", "'label' is taken for the label, and not Label"),
        (["text", "Label", "label"], "label", "'label' is taken for the label, and not Label"),
        (["text", "Label"], "Label", "'Label' is taken for the label"),
        (["text", "label", "stars"], "label", "'label' is taken for the label, and not stars"),
        (["text", "stars"], "stars", "'stars' is taken for the label"),
    ],
)
def test_the_exact_name_wins_and_guesses_are_told(columns, label, note):
    values = {"text": ["a", "b"], "label": [0, 1], "Label": [1, 0], "stars": [3, 5]}
    rows = datasets.Dataset.from_dict({name: values[name] for name in columns})
    data = load("d", rows=rows, purpose="evaluate")
    expected = values[label] if label != "stars" else [0, 1]
    assert data.splits["test"]["label"][:] == expected
    assert any(note in told for told in data.notes)


def test_names_that_differ_in_capitals_only_are_refused():
    for columns in ({"text": ["a"], "Label": [0], "LABEL": [1]}, {"Text": ["a"], "TEXT": ["b"], "label": [0]}):
        with pytest.raises(InputError, match="could be it; name one with"):
            load("d", rows=datasets.Dataset.from_dict(columns), purpose="evaluate")
    pair = {"premise": ["a"], "Premise": ["b"], "hypothesis": ["c"], "label": [0]}
    data = load("d", rows=datasets.Dataset.from_dict(pair), purpose="evaluate")
    assert data.splits["test"]["text"][:] == ["a"]


def test_a_split_without_the_label_and_ids_that_name_nothing_are_told(tmp_path):
    train = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1], "id": [1, 1]})
    test = datasets.Dataset.from_dict({"text": ["c"], "labels": [0], "id": [5]})
    data = load("d", rows=datasets.DatasetDict({"train": train, "validation": train, "test": test}))
    assert "test: there is no column 'label', so no text of it has a label." in data.notes
    assert any("'id' does not tell the texts apart" in note for note in data.notes)
    hidden = datasets.Dataset.from_dict({"text": ["a", "b"], "label": ["x ", "-1"]})
    data = load("d", rows=hidden, purpose="evaluate")
    assert {"test: blanks around 1 labels were cut.", "test: 1 of 2 texts have no label (-1)."} <= set(data.notes)


# --- numbers as labels of a trained model

STARS = ["1 star", "2 stars", "3 stars", "4 stars", "5 stars"]


@pytest.mark.parametrize(
    ("known", "names", "meant"),
    [
        ("1 2 3 4", STARS, {str(i): STARS[i - 1] for i in range(1, 5)}),
        ("1 2 3 4 5", STARS, {str(i): STARS[i - 1] for i in range(1, 6)}),
        ("5", STARS, {"5": "5 stars"}),
        ("0 1 2 3 4", STARS, {str(i): STARS[i] for i in range(5)}),  # all of 0 to 4: indices, and told
        ("0 1 2 3", STARS, None),
        ("0 1 2 3 4 5", STARS, None),
        ("0 1", ["1", "2"], None),
        ("0 1 2 3 4", ["1", "2", "3", "4", "5"], None),
        ("1 2", ["1", "2", "3"], {}),
        ("0 1", ["grade 0", "grade 1"], {"0": "grade 0", "1": "grade 1"}),
        ("1", ["grade 1", "grade 0"], {"1": "grade 1"}),
        ("0 1", ["neg", "pos"], {"0": "neg", "1": "pos"}),
        ("1", ["neg", "pos"], {"1": "pos"}),
        ("1 2", ["neg", "pos"], None),
        ("1 2 3", ["neg", "neutral", "pos"], None),
        ("0 3", ["neg", "neutral", "pos"], None),
        ("0 2", ["neg", "neutral", "pos"], {"0": "neg", "2": "pos"}),
        ("pos", ["neg", "pos"], {}),
        ("0 1", ["ages 0-9", "ages 10-19"], {"0": "ages 0-9", "1": "ages 10-19"}),
    ],
)
def test_numbers_against_the_names_of_a_model(known, names, meant):
    if meant is None:
        with pytest.raises(InputError, match=r"say which is which with label_map"):
            by_number(known.split(), names)
        return
    found, note = by_number(known.split(), names)
    assert found == meant
    assert (note is None) == (not meant)


def test_ratings_against_a_model_of_stars(tmp_path):
    rows = datasets.Dataset.from_dict({"text": list("abcd"), "label": [1, 4, 2, 3]})
    data = load("d", rows=rows, purpose="evaluate", label_names=STARS)
    assert data.splits["test"]["label"][:] == [0, 3, 1, 2]
    assert any("1 is '1 star'" in note for note in data.notes)
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(num_classes=5)})
    rows = datasets.Dataset.from_dict({"text": list("abcde"), "label": [4, 3, 2, 1, 0]}, features=features)
    data = load("d", rows=rows, purpose="evaluate", label_names=STARS)
    assert data.splits["test"]["label"][:] == [4, 3, 2, 1, 0]
    rows = datasets.Dataset.from_dict({"text": list("abc"), "label": [1, 2, 5]})
    mapped = {"1": "1 star", "2": "2 stars", "5": "5 stars"}
    assert load("d", rows=rows, purpose="evaluate", label_names=STARS, label_map=mapped).splits["test"]["label"][:] == [
        0,
        1,
        4,
    ]
    few = load(
        "d", rows=rows, purpose="evaluate", label_names=["neg", "pos"], label_map={"1": "neg", "5": "pos"}, drop=["2"]
    )
    assert few.splits["test"]["label"][:] == [0, 1]


def test_lists_of_indices_are_no_indicators():
    """[0, 1] of two classes: both of them where other rows show that lists are of indices, else the second alone."""
    rows = datasets.Dataset.from_dict({"text": list("abc"), "labels": [[0, 1], [1], []]})
    data = load("d", rows=rows, purpose="evaluate", multi_label=True)
    assert data.splits["test"]["label"][:] == [[1, 1], [0, 1], [0, 0]]
    rows = datasets.Dataset.from_dict({"text": list("abc"), "labels": [[0, 1], [1, 1], [0, 0]]})
    data = load("d", rows=rows, purpose="evaluate", multi_label=True)
    assert data.splits["test"]["label"][:] == [[0, 1], [1, 1], [0, 0]]
    named = datasets.Features(
        {"text": datasets.Value("string"), "labels": datasets.List(datasets.ClassLabel(names=["x", "y"]))}
    )
    rows = datasets.Dataset.from_dict({"text": list("ab"), "labels": [[0, 1], [1, 0]]}, features=named)
    data = load("d", rows=rows, purpose="evaluate", multi_label=True)
    assert data.splits["test"]["label"][:] == [[1, 1], [1, 1]]


# --- all faults at once


def test_all_faults_are_told_together():
    rows = [
        {"text": None, "label": "a"},
        {"text": "b", "label": None},
        {"text": None, "label": "b"},
        {"text": "c", "label": "a"},
    ]
    with pytest.raises(SeveralFaultsError) as caught:
        load("d", rows=rows, keep=["a", "bb"], faults=Faults(collect=True))
    told = caught.value.faults
    assert len(told) == 3
    assert "'bb' in keep" in told[0]
    assert "row 1 of split 'all'" in told[2] or "row 1 of split 'all'" in told[1]
    assert any("row 0 of split 'all'" in fault and "(1 more of this kind.)" in fault for fault in told)
    with pytest.raises(InputError, match="'bb' in keep"):
        load("d", rows=rows, keep=["a", "bb"])
