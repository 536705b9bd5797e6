"""The command line in process: runs, resumes, and one plain sentence for whatever a user got wrong."""

import csv
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from attn_faithful.cli import main
from tests.project.test_store import disk

QUICK = ["--set", "model.hidden_size=8", "--set", "model.embedding_size=8", "--batch-size", "16", "--seeds", "10"]


def reviews(n=60, seed=0):
    generator = random.Random(seed)
    for i in range(n):
        words = ["the", "film", "was", *generator.choices(["long", "short", "loud"], k=generator.randrange(1, 4))]
        words.insert(generator.randrange(len(words)), generator.choice((["bad", "awful"], ["good", "fine"])[i % 2]))
        yield {"body": " ".join(words), "stars": ("neg", "pos")[i % 2]}


def write_csv(path, rows, columns=("body", "stars")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", reviews())


RECIPE = """
data: {source: mock-1, mock: {n_train: 40, n_validation: 20, n_test: 20, min_length: 4, max_length: 6, max_words: 5}}
model: {embedding_size: 8, hidden_size: 8}
train: {epochs: 2}
twin: {epochs: 2}
seeds: [10, 50]
grid: {model.encoder: [mlp, average]}
smoke: {train.epochs: 1, twin.epochs: 1, seeds: [10]}
expected: {key: [encoder], metrics: [base_f1], band: {base_f1: 1.0}, rows: {mlp: [0.9], average: [0.8]}}
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return str(path)


def refused(capsys, output, *arguments):
    """The one line that a command prints when it exits with 2, having written nothing."""
    assert main([*arguments, *(["--output", str(output)] if output else [])]) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("attn-faithful: ")
    assert "Traceback" not in printed.err + printed.out
    assert printed.out == ""
    assert output is None or not output.exists()
    return line


# --- wrong input


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--text-column", "bdy"], ["'bdy'", "Did you mean 'body'"]),
        (["--label-column", "star"], ["'star'", "Did you mean 'stars'"]),
        (["--drop", "negative"], ["'negative'", "drop", "Known: neg, pos"]),
        (["--keep", "poss"], ["'poss'", "keep", "Did you mean 'pos'"]),
        (["--drop", "neg"], ["two classes"]),
        (["--map", "pos"], ["--map expects NAME=VALUE", "'pos'"]),
        (["--map", "poss=good"], ["'poss'", "label_map"]),
        (["--encoder", "lstn"], ["'lstn'", "Did you mean 'lstm'"]),
        (["--encoder", "mlp,lstn"], ["'lstn'"]),
        (["--attention", "additiv"], ["'additiv'", "'additive'"]),
        (["--projection", "softmx"], ["'softmx'", "'softmax'"]),
        (["--seeds", "1,x"], ["--seeds expects numbers", "'1,x'"]),
        (["--seeds", "1,1"], ["--seeds expects different numbers", "'1,1'"]),
        (["--twin-seeds", "1.5"], ["--twin-seeds expects numbers", "'1.5'"]),
        (["--weights", "a"], ["--weights expects numbers", "'a'"]),
        (["--weights", "2,2"], ["variants", "'attefa-2'"]),
        (["--max-tvd", "1.5"], ["max_tvd", "1.5"]),
        (["--wiegreffe-pinter", "unifrom"], ["'unifrom'", "'uniform'"]),
        (["--epochs", "0"], ["--epochs must be positive"]),
        (["--batch-size", "0"], ["--batch-size must be positive"]),
        (["--limit", "1"], ["limit of at least 2"]),
        (["--learning-rate", "-1"], ["--learning-rate must be positive"]),
        (["--vectors", "nowhere.txt"], ["nowhere.txt"]),
        (["--set", "twin.epoch=3"], ["'twin.epoch'", "'epochs'"]),
        (["--set", "twin.epochs"], ["--set expects NAME=VALUE", "'twin.epochs'"]),
        (["--set", "twin.epochs=many"], ["epochs", "'many'"]),
        (["--set", "data.keep=[a"], ["--set", "data.keep"]),
        (["--name", "a/b"], ["name must do as a folder's name", "'a/b'"]),
        (["--processes", "2"], ["Expected 2 processes, but the launcher started 1"]),
    ],
)
def test_wrong_flags(capsys, tmp_path, data, arguments, parts):
    line = refused(capsys, tmp_path / "out", "attefa", "--data", data, *arguments)
    assert all(part in line for part in parts), line


def test_a_wrong_setting_of_train_is_named_once(capsys, tmp_path, data):
    line = refused(capsys, tmp_path / "out", "train", "--data", data, "--set", "train.regularizers.tying=-1")
    assert line.startswith("attn-faithful: settings: train: Expected the weight of the regularizer 'tying'")
    line = refused(capsys, tmp_path / "out", "train", "--data", data, "--set", "model.scale=tasc")
    assert line.endswith("model: Unknown scale 'tasc'. Did you mean 'tasc_lin'?")


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ([{"body": "good", "stars": "pos"}, {"body": None, "stars": "neg"}], ["'body'", "row 1"]),
        ([{"body": "good", "stars": "pos"}, {"body": "bad", "stars": None}], ["label", "row 1"]),
        ([{"body": "good", "stars": "pos"}, {"body": "bad", "stars": "pos"}], ["two classes", "'pos'"]),
        ([{"body": "good", "stars": 1}, {"body": "bad", "stars": 0}, {"body": "bad", "stars": -1}], ["all-2", "-1"]),
        ([{"body": "good"}, {"body": "bad"}], ["label column", "body"]),
        ([{"n": 1, "stars": "pos"}, {"n": 2, "stars": "neg"}], ["text column", "n, stars"]),
    ],
)
@pytest.mark.parametrize("command", ["attefa", "train", "check"])
def test_wrong_data(capsys, tmp_path, command, rows, parts):
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    given = [path] if command == "check" else ["--data", path]
    line = refused(capsys, tmp_path / "out", command, *given)
    assert all(part in line for part in parts), line


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("gone.csv", None),
        ("empty.csv", b""),
        ("bytes.csv", b"body,stars\n\xff\xfe\x00bad,neg\n"),
        ("ragged.csv", b'body,stars\n"good,pos\nbad,neg\n'),
        ("broken.parquet", b"PAR1 and no more"),
        ("broken.jsonl", b'{"body": "good", "stars": '),
    ],
)
def test_files_that_cannot_be_read(capsys, tmp_path, name, content):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert name in refused(capsys, tmp_path / "out", "attefa", "--data", str(path))


def test_wrong_recipes(capsys, tmp_path, recipe):
    out = tmp_path / "out"
    assert "nowhere.yaml" in refused(capsys, out, "run", str(tmp_path / "nowhere.yaml"))
    assert "there is no axis 'encodr'" in refused(capsys, out, "run", recipe, "--only", "encodr=mlp")
    assert "encoder has no 'lstm'" in refused(capsys, out, "run", recipe, "--only", "encoder=lstm")
    assert "--only expects NAME=VALUE" in refused(capsys, out, "run", recipe, "--only", "encoder")
    Path(recipe).write_text(RECIPE.replace("twin: {epochs", "twin: {epoch"), encoding="utf-8")
    for command in ("run", "check"):
        line = refused(capsys, out, command, recipe)
        assert all(part in line for part in ("mine.yaml: twin", "'epoch'", "'epochs'"))


def test_an_output_that_cannot_be_written(capsys, tmp_path, data):
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "runs"
    assert main(["train", "--data", data, *QUICK, "--epochs", "1", "--encoder", "mlp", "--output", str(output)]) == 2
    printed = capsys.readouterr()
    line = printed.err.splitlines()[-1]
    assert line == f"attn-faithful: --output: {tmp_path / 'file'} is a file and no folder; choose another."
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("kilobytes", [40, 60, 140, 200])
def test_a_full_disk_in_training(capsys, tmp_path, data, kilobytes):
    """Wherever it strikes (the first checkpoint, the second, the model): one sentence; a larger disk finishes."""
    with disk(tmp_path / "disk", kilobytes) as place:
        arguments = [
            "train",
            "--data",
            data,
            "--encoder",
            "mlp",
            "--seeds",
            "1",
            "--epochs",
            "2",
            "--output",
            str(place / "out"),
        ]
        arguments += ["--set", "model.hidden_size=64", "--set", "model.embedding_size=64"]
        assert main(arguments) == 2
        printed = capsys.readouterr().err
        assert "No space left on device" in printed.splitlines()[-1]
        assert "Traceback" not in printed
        kept = [path for path in place.rglob("checkpoint-*") if path.is_dir()]
        assert all((path / "trainer_state.json").is_file() for path in kept)
        subprocess.run(["mount", "-o", "remount,size=600k", str(place)], check=True)
        assert main(arguments) == 0


def test_no_command_and_unknown_flags(capsys):
    for arguments in ([], ["atefa"], ["attefa"], ["attefa", "--data", "x", "--epochs", "many"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert "usage: attn-faithful" in capsys.readouterr().err


def test_debug_shows_where(tmp_path):
    with pytest.raises(ValueError, match="There is no recipe"):
        main(["--debug", "run", str(tmp_path / "nowhere.yaml")])


# --- right input


def test_attefa_with_everything(capsys, tmp_path, data):
    out = tmp_path / "out"
    arguments = [
        "attefa",
        "--data",
        data,
        "--encoder",
        "mlp",
        *QUICK,
        "--epochs",
        "2",
        "--twin-epochs",
        "2",
        "--twin-seeds",
        "1,2",
    ]
    arguments += [
        "--max-tvd",
        "0.0001",
        "--weights",
        "0.5,1",
        "--wiegreffe-pinter",
        "uniform,imposed_twin",
        "--learning-rate",
        "1e-2",
        "--output",
        str(out),
        "--full",
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    for part in (
        "Base models on the test split",
        "Controls of Wiegreffe and Pinter",
        "imposed_twin attefa-0.5",
        "AtteFa",
        "attefa-0.5",
        "Constrained twins",
        "Twins by seed",
    ):
        assert part in printed
    assert "missed: mean TVD" in printed
    (cell,) = (out / "attefa").iterdir()
    assert str(out / "attefa") in printed
    meta = json.loads((cell / "meta.json").read_text())
    assert meta["recipe"]["twin"]["learning_rate"] == meta["recipe"]["train"]["learning_rate"] == 0.01
    summary = json.loads((cell / "summary.json").read_text())
    variants = ("attefa", "attefa-0.5", "constrained-0.0001")
    assert list(summary["twins"]) == [f"{variant}-{seed}" for variant in variants for seed in (1, 2)]
    assert main(["ls", str(out)]) == 0
    listed = capsys.readouterr().out
    assert "1 finished runs" in listed
    assert cell.name in listed.replace("\n", "")
    assert main(arguments) == 0  # nothing is trained again, the tables are the same
    again = capsys.readouterr()
    assert again.out == printed
    assert "epoch" not in again.err


def test_train_takes_the_columns_it_is_told(capsys, tmp_path):
    rows = [{"title": "x", "body": r["body"], "stars": {"neg": "1", "pos": "5"}[r["stars"]]} for r in reviews(40)]
    rows += [{"title": "x", "body": "so so", "stars": "3"}] * 5
    path = write_csv(tmp_path / "titled.csv", rows, ("title", "body", "stars"))
    out = tmp_path / "out"
    arguments = [
        "train",
        "--data",
        path,
        "--text-column",
        "body",
        "--label-column",
        "stars",
        "--drop",
        "3",
        "--map",
        "1=bad,5=good",
    ]
    assert (
        main([*arguments, "--encoder", "mlp,average", *QUICK, "--epochs", "1", "--output", str(out), "--name", "mine"])
        == 0
    )
    assert "Base models on the test split" in capsys.readouterr().out
    metas = [json.loads(p.read_text()) for p in sorted((out / "mine").glob("*/meta.json"))]
    assert [meta["axes"]["encoder"] for meta in metas] == ["average", "mlp"]
    assert all(meta["label_names"] == ["bad", "good"] for meta in metas)
    assert not list(out.glob("*/*/twin*"))
    assert not list(out.glob("*/*/variants.parquet"))


def test_run_smoke(capsys, tmp_path, recipe):
    out = tmp_path / "out"
    assert main(["run", recipe, "--smoke", "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "Beside the paper" in printed
    assert "yes" in printed
    assert len(list((out / "mine").glob("*/meta.json"))) == 2
    assert main(["run", recipe, "--smoke", "--only", "encoder=mlp", "--output", str(out)]) == 0
    assert len(list((out / "mine").iterdir())) == 2


def test_ctrl_c_and_the_same_command_again(capsys, tmp_path, recipe, monkeypatch):
    from attn_faithful.reports.progress.progress import Progress

    on_progress = Progress.update

    def stop(self, cell, stage, epoch, *rest):
        if (cell.axes["encoder"], stage, epoch) == ("average", "twin 10", 2):
            raise KeyboardInterrupt
        on_progress(self, cell, stage, epoch, *rest)

    arguments = ["run", recipe, "--seeds", "10", "--output", str(tmp_path / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(Progress, "update", stop)
        assert main(arguments) == 130
    printed = capsys.readouterr()
    assert "stopped; the same command goes on" in printed.err.splitlines()[-1]
    assert "Traceback" not in printed.err
    assert len(list((tmp_path / "out").glob("*/*/meta.json"))) == 1
    told = []

    def listen(self, cell, stage, epoch, *rest):
        told.append((cell.axes["encoder"], stage, epoch))
        on_progress(self, cell, stage, epoch, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "update", listen)
        assert main(arguments) == 0
    again = capsys.readouterr()
    assert told == [("average", "twin 10", 0), ("average", "twin 10", 2)]  # the last epoch of the twin that was stopped
    assert "1/2 mock-1 average seed 10: twin 10 epoch 0/2" in again.err
    assert main(["run", recipe, "--seeds", "10", "--output", str(tmp_path / "undisturbed")]) == 0
    assert capsys.readouterr().out.replace("undisturbed", "out") == again.out


def test_check(capsys, tmp_path, recipe, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*"))
    assert main(["check", recipe]) == 0
    printed = capsys.readouterr().out
    for part in ("Plan of mine", "4 cells", "Minutes", "MB", "negative 10 / positive 10", "No fault found."):
        assert part in printed
    assert main(["check", recipe, "--only", "encoder=mlp", "--seeds", "3"]) == 0
    assert "1 cells" in capsys.readouterr().out
    assert main(["check", data]) == 0
    printed = capsys.readouterr().out
    for part in (
        "reviews",
        "neg",
        "pos",
        "words in the vocabulary",
        "No validation split was given",
        "No fault found.",
    ):
        assert part in printed
    assert set(tmp_path.rglob("*")) == before
    rows = [{"text": t, "label": i % 2} for i, t in enumerate(["good", "bad", "", "bad"] * 5)]
    assert main(["check", write_jsonl(tmp_path / "empty.jsonl", rows)]) == 0
    assert "Empty" in capsys.readouterr().out


def test_ls(capsys, tmp_path):
    assert "nowhere is not a folder" in refused(capsys, None, "ls", str(tmp_path / "nowhere"))
    assert "No finished run lies below" in refused(capsys, None, "ls", str(tmp_path))


# --- a process of its own


def process(*arguments, **settings):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, **settings)


@pytest.mark.parametrize("arguments", [["--help"], ["attefa", "--help"], ["run", "--help"]])
def test_help_is_light(arguments):
    code = (
        "import sys; from attn_faithful.cli import main\n"
        f"try: main({arguments})\nexcept SystemExit as stop: code = stop.code\n"
        "heavy = {'torch', 'transformers', 'datasets', 'sklearn', 'scipy', 'pandas', 'yaml'} & sys.modules.keys()\n"
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = process("-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: attn-faithful" in done.stdout


def test_wrong_input_in_a_process_of_its_own(tmp_path, data):
    command = [
        "-m",
        "attn_faithful.cli",
        "attefa",
        "--data",
        data,
        "--encoder",
        "lstn",
        "--output",
        str(tmp_path / "out"),
    ]
    done = process(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "Did you mean 'lstm'?" in done.stderr
    assert not list(tmp_path.iterdir())


PLAIN = """
import sys
from types import SimpleNamespace

from attn_faithful.cli import main

given = SimpleNamespace(
    early=lambda given: None, threads=None, loads=(), debug=False, command=lambda given: print("a line")
)
sys.modules["attn_faithful.cli.main"].parse = lambda argv: given
sys.exit(main([]))
"""


def test_output_that_is_read_no_further_ends_a_command_in_silence(tmp_path):
    """As by ``| head``."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as unread:
        done = subprocess.run(
            [sys.executable, "-c", PLAIN], stdout=unread, stderr=subprocess.PIPE, text=True, timeout=300, cwd=tmp_path
        )
    assert (done.returncode, done.stderr) == (1, "")
