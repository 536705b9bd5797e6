"""Any bytes as recipes, data, vectors, word lists and importance: a result, or one short sentence."""

import contextlib
import gzip
import io
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.importance_file import read_importance
from attn_faithful.data.planted import MockSpec, mock_words
from attn_faithful.data.word_vectors import load_vectors
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.recipe import load_recipe
from tests.data.loading import load
from tests.properties.made import checked

RECIPE = b"""
data: {source: mock-1, mock: {n_train: 40, n_test: 20, min_length: 4, max_length: 6, max_words: 5}, limit: 30}
tokenizer: {min_df: 2, digits: null}
model: {embedding_size: 8, hidden_size: 8, projection: sparsegen, sparsegen_lambda: 0.5}
train: {epochs: 2, learning_rate: 1e-3}
twin: {epochs: 2, objective: kl}
variants: [{weight: 2.0}]
seeds: [10, 50]
evaluation: {tests: {correlation: {}, permutation: {permutations: 5}}}
grid: {model.encoder: [mlp, average]}
smoke: {train.epochs: 1}
expected: {key: [encoder], metrics: [base_f1], band: {base_f1: 1.0}, rows: {mlp: [0.9], average: [null]}}
"""
_ROWS = [
    {"body": f"{('bad', 'good')[i % 2]} film {i}", "stars": ("neg", "pos")[i % 2], "n": i, "marks": [0, 1, 0]}
    for i in range(12)
]


def _parquet():
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(_ROWS), out)
    return out.getvalue()


_CSV = "body,stars,n\n" + "".join(f'"{r["body"]}",{r["stars"]},{r["n"]}\n' for r in _ROWS)
_VECTORS = "".join(f"w{i} " + " ".join(["0.5"] * 4) + "\n" for i in range(9)).encode()
_SCORES = [{"example": f"e{i}", "tokens": ["a", "b"], "scores": [0.1, 0.2]} for i in range(3)]
_TIDY = [{"example": f"e{i // 2}", "token": i % 2, "value": 1} for i in range(6)]
FILES = {
    "a.parquet": _parquet(),
    "a.csv": _CSV.encode(),
    "a.tsv": _CSV.replace(",", "\t").encode(),
    "a.json": json.dumps(_ROWS).encode(),
    "a.jsonl": "".join(json.dumps(row) + "\n" for row in _ROWS).encode(),
    "vectors.txt": _VECTORS,
    "vectors.gz": gzip.compress(_VECTORS, mtime=0),
    "words.txt": b"good\t1.5\nbad\t-2\nfine\t3\nawful\t-1\n",
    "scores.json": json.dumps(_SCORES).encode(),
    "scores.jsonl": "".join(json.dumps(row) + "\n" for row in _TIDY).encode(),
}
PIECES = st.binary(max_size=12) | st.sampled_from(
    (
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\r\n",
        b"\r",
        b'"',
        b"1" * 5000,
        b"[" * 3000,
        b"{",
        b"\\ud800",
        b"NaN",
        b"1e400",
        b"-1",
        b"null",
        b",",
        b"\t",
        b"\n",
        b"true",
        b"9" * 30,
        b"{}",
        b": ",
        b"- ",
        b"&a ",
        b"*a",
        b"!!set ",
        b"2001-99-99",
        b"~nobody/x",
        b"..",
        b"0x_",
        b".nan",
        b"<<: ",
    )
)


@st.composite
def damaged(draw, whole):
    """A file that was cut off, had bytes flipped, left out, put in or repeated, or came in another encoding."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at, how = draw(st.integers(0, len(data))), draw(st.integers(0, 6))
        if how == 0:
            data = data[:at]
        elif how == 1 and at < len(data):
            data[at] = draw(st.integers(0, 255))
        elif how == 2:
            data[at : at + draw(st.integers(1, 9))] = b""
        elif how == 3:
            data[at:at] = data[at : at + draw(st.integers(1, 60))]
        elif how == 4:
            data = bytearray(data.decode("latin-1").encode(draw(st.sampled_from(("utf-16", "utf-8", "utf-8-sig")))))
        else:
            data[at : at + draw(st.integers(0, 12))] = draw(PIECES)
    return bytes(data)


def read(name, path):
    if name.startswith("a."):
        load(str(path))
        load(str(path), purpose="evaluate", label_names=["neg", "pos"])
        load(str(path), purpose="evaluate", text_column="body", multi_label=True)
        load(str(path), text_column="body", rationale="marks")
    elif name.startswith("vectors"):
        load_vectors(path, {"[PAD]": 0, "[UNK]": 1, **{f"w{i}": i + 2 for i in range(9)}})
    elif name == "words.txt":
        mock_words(MockSpec(positive=str(path), negative=str(path), strength="strong"))
    else:
        read_importance(path, ["e0", "e1", "e2"], [["a", "b"]] * 3)


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@checked()
def test_damaged_files(name, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("bytes") / name
    path.write_bytes(data.draw(st.binary(max_size=40) | damaged(FILES[name]) | damaged(FILES[name])))
    with contextlib.suppress(InputError):
        read(name, path)


def test_whole_files_are_read(tmp_path):
    for name, whole in FILES.items():
        (tmp_path / name).write_bytes(whole)
        with contextlib.nullcontext() if not name.startswith("a.") else contextlib.suppress(InputError):
            read(name, tmp_path / name)
        if name.startswith("a."):
            assert load(str(tmp_path / name)).label_names == ["neg", "pos"]


@given(st.binary(max_size=60) | damaged(RECIPE) | damaged(RECIPE) | damaged(RECIPE))
@checked(3)
def test_damaged_recipes(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("recipes") / "mine.yaml"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        recipe = load_recipe(path)
        for name in [recipe.name, *(cell.folder for cell in expand(recipe))]:
            assert os.sep not in name
            assert name.strip(".")


@pytest.mark.parametrize("command", ["check", "run"])
@given(st.binary(max_size=60) | damaged(RECIPE.replace(b"limit: 30", b"limit: 1")))  # which no run gets beyond
@checked()
def test_the_command_line_says_one_sentence(command, tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("line")
    (folder / "mine.yaml").write_bytes(content)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([command, str(folder / "mine.yaml"), "--limit", "1", "--output", str(folder / "out")])
    (line,) = err.getvalue().splitlines()
    assert status == 2
    assert line.startswith("attn-faithful: ")
    assert len(line) < 3000
    assert not (folder / "out").exists()


@given(st.text(max_size=8), st.text(max_size=8))
@checked()
def test_any_flag_value(key, value):
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        assert main(["check", "mock-1", "--limit", "1", "--set", f"data.{key}={value}"]) == 2
    assert len(err.getvalue().splitlines()) == 1
