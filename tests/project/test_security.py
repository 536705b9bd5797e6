"""What a folder, a recipe or a file from elsewhere cannot do: run code, write elsewhere, fill the memory."""

import contextlib
import gzip
import json
import os
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data import word_vectors as vectors
from attn_faithful.data.files import tables
from attn_faithful.data.files.tables import read_file
from attn_faithful.data.planted import MockSpec, mock_words
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.data.word_vectors import load_vectors
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.recipe import load_recipe, make_recipe
from attn_faithful.experiments.strict_yaml import read_value
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.store import RunFolder
from attn_faithful.training.checkpoints import last_checkpoint
from tests.data.loading import load
from tests.training.planted import Stopped, classifier, stop_at
from tests.training.test_base import train

SOURCES = sorted(Path(af.__file__).parent.rglob("*.py"))
TEXTS = ["good film", "an awful bad film indeed"]


class Evil:
    """Unpickled it makes a file."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return Path.touch, (Path(self.mark),)


@pytest.fixture
def saved(tmp_path):
    tokenizer = train_tokenizer(TEXTS)
    torch.manual_seed(0)
    path = tmp_path / "model"
    config = AttentionClassifierConfig(vocab_size=len(tokenizer), embedding_size=4, hidden_size=4)
    AttentionClassifier(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


# --- no pickle


def test_no_code_reads_pickles():
    """Nothing in the package unpickles; tables are parquet, weights are safetensors, settings are JSON and YAML."""
    pattern = re.compile(
        r"\b(?:pickle|joblib|shelve|marshal|dill)\b|torch\.load\(|np\.load\(|allow_pickle|trust_remote_code=True\)?\s*[,)]"
        r"|yaml\.(?:load|unsafe_load|full_load)\((?![^)\n]*StrictLoader)|\bexec\(|(?<![.\w])eval\(|os\.system|shell=True"
    )
    found = [
        f"{path.name}: {line.strip()}"
        for path in SOURCES
        for line in path.read_text(encoding="utf-8").split("\n")
        if pattern.search(line) and "``" not in line
    ]
    assert not [line for line in found if "StrictLoader" not in line], found


def test_models_are_saved_as_safetensors(saved):
    assert (saved / "model.safetensors").is_file()
    assert not [f.name for f in saved.iterdir() if f.suffix in (".bin", ".pt", ".pth", ".pkl")]


def test_a_pickle_in_a_models_folder_is_not_run(saved, tmp_path):
    (saved / "model.safetensors").unlink()
    torch.save({"a": Evil(tmp_path / "ran")}, saved / "pytorch_model.bin")
    with pytest.raises((InputError, OSError, pickle.UnpicklingError, ValueError)):
        af.load(saved)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin", "pytorch_model.bin"]
)
def test_resuming_runs_nothing_that_is_pickled_in_a_checkpoint(name, tmp_path, monkeypatch):
    """Trainer reads the states of optimizer, scheduler and generators as weights only, its arguments not at all."""
    with pytest.raises(Stopped):
        train(classifier(), tmp_path, on_progress=stop_at(2))
    checkpoint = Path(last_checkpoint(tmp_path / "checkpoints"))
    torch.save({"a": Evil(tmp_path / "ran")}, checkpoint / name)
    asked, load = [], torch.load
    monkeypatch.setattr(torch, "load", lambda *a, **k: asked.append(k.get("weights_only")) or load(*a, **k))
    with contextlib.suppress(pickle.UnpicklingError, InputError, OSError):
        train(classifier(), tmp_path)
    assert not (tmp_path / "ran").exists()
    assert all(asked)


# --- no code from elsewhere

CODE = """
from pathlib import Path
Path({mark!r}).touch()
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
class Strange(PretrainedConfig):
    model_type = "strange"
class StrangeModel(PreTrainedModel):
    config_class = Strange
class StrangeTokenizer(PreTrainedTokenizerFast):
    pass
"""


def yes(asked=None):
    """What a user may type without reading: nothing may even ask."""
    return "y"


@pytest.mark.parametrize("kind", ["attention_classifier", "bert", "strange"])
def test_code_in_a_models_folder_is_not_run(saved, tmp_path, kind, monkeypatch):
    """A folder that names classes of its own is refused, or read by the classes that are known."""
    monkeypatch.setattr("builtins.input", yes)
    mark = tmp_path / "ran"
    (saved / "strange.py").write_text(CODE.format(mark=str(mark)))
    config = json.loads((saved / "config.json").read_text())
    names = {"AutoConfig": "strange.Strange", "AutoModelForSequenceClassification": "strange.StrangeModel"}
    config |= {"auto_map": names} | ({"model_type": kind} if kind != "attention_classifier" else {})
    (saved / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((saved / "tokenizer_config.json").read_text())
    tokenizer["auto_map"] = {"AutoTokenizer": [None, "strange.StrangeTokenizer"]}
    (saved / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    for use in (
        lambda: af.load(saved),
        lambda: main(["explain", str(saved), "good film"]),
        lambda: main(["evaluate", str(saved), "--data", "mock-1", "--smoke", "--output", str(tmp_path / "runs")]),
    ):
        with contextlib.suppress(Exception):
            use()
        assert not mark.exists()


def test_a_metric_is_code_that_its_user_asks_for():
    """evaluate.load runs a metric's script: ours need nothing that is not installed with it."""
    scripts = sorted((Path(af.__file__).parent / "evaluate_modules").glob("*/*.py"))
    assert scripts
    known = {"attn_faithful", "datasets", "evaluate", "numpy", "gradio", "csv", "math", "pathlib", "__future__"}
    for script in scripts:
        imported = re.findall(r"^(?:from|import) (\w+)", script.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(imported) <= known, script


# --- YAML


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch ran']",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!set {a}",
        "!!binary aGk=",
        "!!timestamp 2001-01-01",
        "!!bool perhaps",
        "!!int many",
        "0x_",
        "9" * 5000,
        "[" * 5000,
        "{a: " * 500,
        "&a [*a]",
        "[&a0 [x, x, x, x], " + ", ".join(f"&a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)) + "]",
        '"\\x"',
        "{a: 1, a: 2}",
    ],
)
def test_yaml_of_more_than_plain_values_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        read_value(text, "--set x")
    assert len(str(refused.value)) < 1000
    path = tmp_path / "mine.yaml"
    path.write_text(f"model: {text}", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.yaml") as refused:
        load_recipe(path)
    assert len(str(refused.value)) < 1000
    assert not (tmp_path / "ran").exists()


def test_dates_are_words_and_merge_keys_are_keys():
    assert read_value("[2001-01-01, 2001-99-99, 1e-3, yes]", "x") == ["2001-01-01", "2001-99-99", 0.001, True]
    assert read_value("{<<: {a: 1}}", "x") == {"<<": {"a": 1}}


def test_a_huge_recipe_is_not_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("a: " + "b" * 2**21, encoding="utf-8")
    with pytest.raises(InputError, match="at most 1048576 characters"):
        load_recipe(path)


# --- paths

NAMES = [
    "..",
    ".",
    "...",
    "../up",
    "/abs",
    "a/b",
    "a\\b",
    "~",
    "~root",
    ".hidden",
    "-flag",
    "a\0b",
    "",
    " ",
    "a\n",
    "n" * 300,
]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_s_name_is_one_folder_below_the_output(name, tmp_path, capsys):
    with pytest.raises(InputError, match="must do as a folder's name"):
        make_recipe({"name": name}, "mine.yaml")
    for command in (["evaluate", str(tmp_path), "--data", "mock-1"], ["train", "--data", "mock-1"]):
        if name:
            assert main([*command, f"--name={name}", "--output", str(tmp_path / "out")]) == 2
    assert os.listdir(tmp_path) == []
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("label", ["../../up", "/abs", "..", "a/../../b", "~", "a\0b", "\u2025/x"])
def test_cells_are_folders_of_the_recipe(label):
    """Whatever a grid or a data set calls itself, a cell's folder is one name."""
    given = {"name": label, "source": "mock-1"}
    for cell in expand(make_recipe({"grid": {"data": [given]}}, "mine.yaml")):
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*-[0-9a-f]{8}", cell.folder), cell.folder
        assert ".." not in Path(cell.folder).parts


def test_ids_of_examples_are_no_paths(tmp_path):
    """They stand in tables; the files of a run have the names of the schema."""
    rows = [
        {"id": name, "text": f"good film {i}"} for i, name in enumerate(("../a", "/etc/passwd", "~/x", "..", "c\\d"))
    ]
    tokenizer = train_tokenizer(TEXTS)
    torch.manual_seed(0)
    config = AttentionClassifierConfig(vocab_size=len(tokenizer), embedding_size=4, hidden_size=4)
    model = AttentionClassifier(config).eval()
    output = tmp_path / "deep" / "runs"
    found = af.evaluate_attention(model, tokenizer, rows, ["entropy"], output=output, settings={"controls": []})
    assert sorted(found.examples["example"].unique()) == sorted(row["id"] for row in rows)
    found.report(output / "report")
    assert os.listdir(tmp_path) == ["deep"]
    assert os.listdir(tmp_path / "deep") == ["runs"]
    names = [path.name for path in tmp_path.rglob("*")]
    assert not [name for name in names if "passwd" in name]


def test_a_run_s_link_that_leads_elsewhere_keeps_what_is_there(tmp_path):
    """Files are moved to their names whole: a link in a run folder is replaced, and not written through."""
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / "meta.json").symlink_to(outside)
    folder.write_meta({"a": 1})
    assert outside.read_text() == "mine"
    assert not (folder.path / "meta.json").is_symlink()


@pytest.mark.parametrize("text", ["~nobody-of-this-name/x", "a\0b.csv"])
def test_paths_that_are_none(text, tmp_path):
    for use in (
        lambda: load_vectors(text, {"a": 0}),
        lambda: mock_words(MockSpec(positive=text, negative=text)),
        lambda: load(text),
    ):
        with pytest.raises(InputError):
            use()


# --- sizes


def test_a_line_without_an_end_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "_LINE", 1000)
    path = tmp_path / "v.txt"
    path.write_bytes(b"good 1 2\n" + b"x" * 5000)
    with pytest.raises(InputError, match="lines of at most 1000 bytes"):
        load_vectors(path, {"good": 0})


def test_a_packed_file_that_never_ends_is_cut_short(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "_LEAST", 10_000)
    path = tmp_path / "v.gz"
    path.write_bytes(gzip.compress(b"good 1 2\n" * 10**6))  # a thousandth of its size
    with pytest.raises(InputError, match="unpacks to more than"):
        load_vectors(path, {"good": 0})
    path.write_bytes(gzip.compress(b"good 1 2\n"))
    assert load_vectors(path, {"good": 0}).matrix.tolist() == [[1.0, 2.0]]


def test_a_table_that_declares_billions_of_values_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x"] * 1000, "label": [1] * 1000}), path)
    monkeypatch.setattr(tables, "_MOST_VALUES", 1999)
    with pytest.raises(InputError, match="at most 1999 values"):
        read_file(path)


def test_a_huge_word_list_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("attn_faithful.data.planted._LARGEST_LIST", 10)
    path = tmp_path / "words.txt"
    path.write_text("good\n" * 10)
    with pytest.raises(InputError, match="at most 10 bytes"):
        mock_words(MockSpec(positive=str(path), negative=str(path)))


def test_nothing_is_unpacked_to_disk():
    """No member of an archive is written anywhere, so none can lie above the folder."""
    pattern = re.compile(r"\btarfile\b|\bunpack_archive\b|\.extract(?:all)?\(")
    assert not [path.name for path in SOURCES if pattern.search(path.read_text(encoding="utf-8"))]


def test_no_memory_is_one_sentence(capsys, tmp_path):
    argv = ["check", "mock-1", "--limit", "20", "--set", "model.embedding_size=99999999999"]
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "memory" in line
