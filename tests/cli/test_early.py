"""What is misspelt is told before torch is loaded, and what is loaded is told in a terminal."""

import io
import json
import subprocess
import sys

import pytest

from attn_faithful.cli.loading import TOLD, load

DATA = ["--data", "mock-1"]
STOCK = [*DATA, "--model", "{there}/run/model"]
# arguments, and what the one line says; {there} is a folder with a run, a model's folder, a table and recipes
CASES = [
    (["evaluate", "nowhere", *DATA], ["no folder nowhere"]),
    (["evaluate", "{there}/run", *DATA], ["config.json", "{there}/run/model"]),
    (["evaluate", "{there}/data.csv", *DATA], ["config.json"]),
    (["evaluate", "{there}/run/model", "--data", "{there}/dta.csv"], ["dta.csv"]),
    (["evaluate", "{there}/run/model", *DATA, "--tests", "flips,corelation"], ["'corelation'", "'correlation'"]),
    (["evaluate", "{there}/run/model", *DATA, "--controls", "unifrom"], ["'unifrom'", "'uniform'"]),
    (["evaluate", "{there}/run/model", *DATA, "--units", "words"], ["'words'", "'word'"]),
    (["evaluate", "{there}/run/model", *DATA, "--queries", "tokn"], ["'tokn'", "'token'"]),
    (["evaluate", "{there}/run/model", *DATA, "--source-file", "{there}/x"], ["--source-file", "{there}/x"]),
    (["evaluate", "{there}/run/model", *DATA, "--seeds", "1,x"], ["--seeds", "'1,x'"]),
    (["evaluate", "{there}/run/model", *DATA, "--name", "a/b"], ["'a/b'"]),
    (["evaluate", "{there}/run/model", *DATA, "--set", "evaluation.test=[flips]"], ["'evaluation.test'", "'tests'"]),
    (["evaluate", "{there}/run/model", *DATA, "--set", "evaluation.tests.flips.randm=3"], ["'random'"]),
    (["evaluate", "{there}/run/model", *DATA, "--split", "tset"], ["'tset'", "'test'"]),
    (["evaluate", "{there}/run/model", *DATA, "--chunk-size", "0"], ["--chunk-size", "must be positive", "is 0"]),
    (["evaluate", "{there}/run/model", *DATA, "--limit", "-5"], ["--limit", "is -5"]),
    (["evaluate", "{there}/run/model", *DATA, "--output", "{there}/data.csv/a"], ["--output", "data.csv is a file"]),
    (["evaluate", "{there}/run/model", "--data", "{there}/daat.csv"], ["Did you mean", "{there}/data.csv"]),
    (["evaluate", "{there}/run/", *DATA, "--seeds", "3,3"], ["config.json"]),
    (["evaluate", "nowhere/", *DATA], ["no folder nowhere/"]),
    (["evaluate", "{there}/run/model", *DATA, "--dtype", "bfloat61"], ["'bfloat61'", "Did you mean 'bfloat16'"]),
    (["evaluate", "{there}/run/model", *DATA, "--device", "cdua"], ["'cdua'", "Did you mean 'cuda'"]),
    (["explain", "{there}/run/model", "a text", "--device", "cdua:1"], ["'cdua:1'", "Did you mean 'cuda'"]),
    (["attefa", *DATA, "--model", "{there}/run/model", "--device", "gpu"], ["'gpu'"]),
    (["check", "{there}/data.csv", "--device", "cou"], ["'cou'", "Did you mean 'cpu'"]),
    (["train", *DATA, "--epochs", "0"], ["--epochs", "is 0"]),
    (["train", *DATA, "--learning-rate", "nan"], ["--learning-rate", "is nan"]),
    (["train", *DATA, "--seeds", "3,3"], ["--seeds", "'3,3'"]),
    (["attefa", *DATA, "--twin-epochs", "0"], ["--twin-epochs", "is 0"]),
    (["run", "{there}/key.yaml", "--processes", "0"], ["'epoch'"]),
    (["check", "{there}/data.csv", "--split", "tset"], ["'tset'", "'test'"]),
    (["explain", "nowhere", "a text"], ["no folder nowhere"]),
    (["explain", "{there}/run/model", "a text", "--sources", "salency"], ["'salency'", "'saliency'"]),
    (["train", "--data", "./gone/"], ["./gone/"]),
    (["train", *DATA, "--encoder", "mlp,lstn"], ["'lstn'", "'lstm'"]),
    (["train", *DATA, "--set", "train.epoch=3"], ["'train.epoch'", "'epochs'"]),
    (["train", *DATA, "--set", "train.regularizers.diversty=1"], ["'train.regularizers.diversty'", "'diversity'"]),
    (["train", *DATA, "--vectors", "gone.txt"], ["gone.txt"]),
    (["train", *DATA, "--model", "nowhere"], ["no folder nowhere"]),
    (["train", *DATA, "--model", "{there}/run"], ["config.json", "{there}/run/model"]),
    (["train", "--data", "{there}/dta.csv", "--model", "{there}/run/model"], ["dta.csv"]),
    (["train", *STOCK, "--encoder", "mlp"], ["--encoder", "--model", "leave one of the two out"]),
    (["train", *STOCK, "--attention", "dot"], ["--attention", "leave one of the two out"]),
    (["train", *STOCK, "--projection", "softmax"], ["--projection", "leave one of the two out"]),
    (["train", *STOCK, "--vectors", "gone.txt"], ["--vectors", "leave one of the two out"]),
    (["train", *STOCK, "--set", "model.hidden_size=3"], ["--set model.hidden_size", "data and train only"]),
    (["train", *STOCK, "--set", "train.amsgrad=true"], ["'train.amsgrad'"]),
    (["train", *STOCK, "--set", "train.warmup=0.1"], ["'train.warmup'", "'warmup_ratio'"]),
    (["train", *STOCK, "--epochs", "0"], ["--epochs", "is 0"]),
    (["train", *STOCK, "--seeds", "3,3"], ["--seeds", "'3,3'"]),
    (["train", *STOCK, "--parallel", "cell"], ["'cells'"]),
    (["train", *STOCK, "--name", "a/b"], ["'a/b'"]),
    (["attefa", *DATA, "--attention", "additiv"], ["'additive'"]),
    (["attefa", *DATA, "--projection", "softmx"], ["'softmax'"]),
    (["attefa", *DATA, "--wiegreffe-pinter", "random"], ["'random'", "imposed"]),
    (["attefa", *DATA, "--parallel", "cell"], ["'cells'"]),
    (["attefa", *DATA, "--model", "nowhere"], ["no folder nowhere"]),
    (["attefa", *STOCK, "--encoder", "mlp"], ["--encoder", "leave one of the two out"]),
    (["attefa", *STOCK, "--epochs", "3"], ["--epochs", "--twin-epochs"]),
    (["attefa", *STOCK, "--seeds", "1,2"], ["--seeds", "--twin-seeds"]),
    (["attefa", *STOCK, "--weights", "1,2"], ["--weights", "--set twin.weight=X"]),
    (["attefa", *STOCK, "--wiegreffe-pinter", "uniform"], ["--wiegreffe-pinter", "a model of our own"]),
    (["attefa", *DATA, "--layers", "3"], ["--layers", "--model"]),
    (["attefa", *DATA, "--model", "{there}/run/model", "--set", "twin.lora=3"], ["'twin.lora'", "'lora_rank'"]),
    (["run", "{there}/gone.yaml"], ["gone.yaml"]),
    (["run", "{there}/key.yaml"], ["key.yaml: twin", "'epoch'", "'epochs'"]),
    (["run", "{there}/grid.yaml"], ["grid.yaml: grid", "'model.encodr'", "'encoder'"]),
    (["run", "{there}/broken.yaml"], ["broken.yaml"]),
    (["check", "{there}/gone.parquet"], ["gone.parquet"]),
    (["check", "{there}/key.yaml"], ["'epochs'"]),
    (["ls", "nowhere"], ["nowhere"]),
    (["report", "nowhere"], ["nowhere"]),
    (["push", "metric", "attfa", "--to", "a/b"], ["'attefa'"]),
]
RUN = """
import io, json, sys
from contextlib import redirect_stderr
from attn_faithful.cli import main
found = []
for arguments in json.loads(sys.argv[1]):
    with redirect_stderr(io.StringIO()) as told:
        status = main(arguments)
    found.append([status, told.getvalue(), sorted({"torch", "transformers", "datasets", "scipy"} & sys.modules.keys())])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The folder, and what one process says of all cases."""
    there = tmp_path_factory.mktemp("early")
    (there / "run" / "model").mkdir(parents=True)
    (there / "run" / "model" / "config.json").write_text("{}")
    (there / "data.csv").write_text("text,label\na,b\n")
    (there / "key.yaml").write_text("twin: {epoch: 3}\n")
    (there / "grid.yaml").write_text("grid: {model.encodr: [mlp]}\n")
    (there / "broken.yaml").write_text("twin: {epochs: [3\n")
    cases = [[part.format(there=there) for part in arguments] for arguments, _ in CASES]
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(cases)], capture_output=True, text=True, timeout=120, cwd=there
    )
    assert done.returncode == 0, done.stderr
    return there, json.loads(done.stdout)


@pytest.mark.parametrize("place", range(len(CASES)), ids=[" ".join(arguments) for arguments, _ in CASES])
def test_told_in_one_line_before_torch(told, place):
    there, found = told
    status, line, loaded = found[place]
    assert (status, loaded) == (2, [])
    assert line.startswith("attn-faithful: ")
    assert line.count("\n") == 1
    for part in CASES[place][1]:
        assert part.format(there=there) in line


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "loaded", "shown"), [(Terminal, False, True), (Terminal, True, False), (io.StringIO, False, False)]
)
def test_what_takes_long_is_told_in_a_terminal(monkeypatch, stream, loaded, shown):
    monkeypatch.setattr(sys, "stderr", stream())
    if not loaded:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    load(["json"])
    printed = sys.stderr.getvalue()
    assert (TOLD in printed) == shown
    assert printed.endswith("\r") == shown, "the line is wiped away"
