"""Every evaluate module: its card, thin code, and the same numbers however it is loaded and fed.

The examples of a module's card are what it is tried with, so a new module is checked without new code here.
"""

import copy
import doctest
import inspect
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attn_faithful.hub as hub
from attn_faithful._checks import InputError

NAMES = hub.metric_names()

# Name look-ups fail at once, as without a network: the test must not wait for one, nor reach one.
WITHOUT_NETWORK = """
import doctest, json, socket, sys
def unreachable(*args, **kwargs):
    raise socket.gaierror("no network in this test")
socket.getaddrinfo = socket.create_connection = unreachable
cards = {card: list(doctest.testfile(card, module_relative=False)) for card in sys.argv[1:]}
print(json.dumps(cards))
"""


def folder(name):
    return hub._MODULES / name


def card(name):
    return folder(name) / "README.md"


def section(name, title):
    return card(name).read_text(encoding="utf-8").split(f"### {title}\n")[1].split("\n#")[0]


def first_column(name, title):
    """The names in the first column of the section's table."""
    rows = re.findall(r"^\| (`.*?) \|", section(name, title), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", " ".join(rows)))


def assert_alike(found, expected):
    if any(isinstance(value, float) for value in expected):
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)
    else:
        assert found == expected


@pytest.fixture
def load(cache):
    import evaluate

    return lambda name, **options: evaluate.load(str(folder(name)), cache_dir=str(cache), **options)


def recording(real, calls):
    """``compute`` that also notes the columns and the options of each call."""

    def compute(self, **given):
        """evaluate appends to this text, so there must be one."""
        columns = {key: given[key] for key in self.features}
        calls.append((columns, {key: value for key, value in given.items() if key not in columns}))
        return real(self, **given)

    return compute


@pytest.fixture(scope="module")
def examples(cache):
    """For every module the calls of ``compute`` in its card, (columns, options), and how the card went."""
    import evaluate

    found = {}
    for name in NAMES:
        calls = []
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(hub._MODULES)
            patch.setattr(evaluate.Metric, "compute", recording(evaluate.Metric.compute, calls))
            outcome = doctest.testfile(str(card(name)), module_relative=False)
        found[name] = (calls, outcome)
    return found


@pytest.fixture
def example(examples, name):
    """The columns of the card's first call, and the options of that call."""
    columns, options = examples[name][0][0]
    return columns, {key: value for key, value in options.items() if key != "reduction"}


def of_rows(columns, options, rows):
    """Columns and options of some examples; an option that is a tuple has lists of them."""
    cut = {key: column[rows] for key, column in columns.items()}
    for key, value in options.items():
        cut[key] = tuple(column[rows] for column in value) if isinstance(value, tuple) else value
    return cut


def test_every_folder_is_a_module_with_its_files():
    assert {path.name for path in hub._MODULES.iterdir() if path.is_dir() and path.name[0] != "_"} == set(NAMES)
    for name in NAMES:
        assert {"README.md", "requirements.txt", f"{name}.py"} <= {path.name for path in folder(name).iterdir()}
    assert doctest.testmod(hub).failed == 0


@pytest.mark.parametrize("name", NAMES)
def test_module_is_thin(name):
    assert len((folder(name) / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("name", NAMES)
def test_card_runs_by_path(examples, name):
    calls, outcome = examples[name]
    assert outcome.failed == 0
    assert {options.get("reduction", "mean") for _, options in calls} == {"mean", "none"}


@pytest.mark.parametrize("name", NAMES)
def test_name_and_arguments(load, name):
    metric = load(name)
    assert metric.name == name  # evaluate makes it out of the name of the class
    assert list(metric.features)[:2] == ["predictions", "references"][: len(metric.features)]
    arguments = inspect.signature(metric._compute).parameters
    assert list(arguments)[: len(metric.features)] == list(metric.features)
    assert all(argument.kind is argument.POSITIONAL_OR_KEYWORD for argument in arguments.values())
    assert arguments["reduction"].default == "mean"
    assert arguments.keys() == first_column(name, "Inputs")


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_documented(load, example, name):
    columns, options = example
    metric = load(name)
    result = metric.compute(**columns, **options)
    each = metric.compute(**columns, **options, reduction="none")
    assert result.keys() == first_column(name, "Outputs")
    assert all(f"`{key}`" in section(name, "Outputs").split('`reduction="none"`')[1] for key in each)
    returns = " ".join(metric.inputs_description.split("Returns:")[1].split())
    both = returns.split('; with reduction="none" lists of ')
    assert [re.findall(r"\w+", text) for text in both] == [list(result), list(each)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_numbers_do_not_depend_on_how_they_come(load, example, name, reduction):
    columns, options = example
    options = {**options, "reduction": reduction}
    given = copy.deepcopy(columns)
    metric, in_memory = load(name), load(name, keep_in_memory=True)
    expected = repr(metric._compute(**columns, **options))
    assert columns == given
    assert repr(metric.compute(**columns, **options)) == expected
    assert repr(in_memory.compute(**columns, **options)) == expected
    singular = {"predictions": "prediction", "references": "reference"}
    for row in zip(*columns.values(), strict=True):
        metric.add(**{singular.get(key, key): value for key, value in zip(columns, row, strict=True)})
        in_memory.add_batch(**{key: [value] for key, value in zip(columns, row, strict=True)})
    assert repr(metric.compute(**options)) == expected
    assert repr(in_memory.compute(**options)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_each_example_is_on_its_own(load, example, name):
    columns, options = example
    options = {**options, "reduction": "none"}
    compute = load(name)._compute
    each = compute(**columns, **options)
    n = len(columns["predictions"])
    assert n > 1
    turned = compute(**of_rows(columns, options, slice(None, None, -1)))
    alone = [compute(**of_rows(columns, options, slice(i, i + 1))) for i in range(n)]
    for key, values in each.items():
        assert len(values) == n
        assert_alike(turned[key][::-1], values)
        assert_alike([one[key][0] for one in alone], values)


@pytest.mark.parametrize("name", NAMES)
def test_no_example_is_undefined_with_a_reason(load, example, name):
    columns, options = example
    result = load(name).compute(**of_rows(columns, options, slice(0)))
    assert math.isnan(next(iter(result.values())))
    assert (result["n"], result["n_undefined"], result["reason"]) == (0, 0, "no defined example")


@pytest.mark.parametrize("name", NAMES)
def test_errors_of_a_module_are_clear(load, example, name):
    columns, options = example
    metric = load(name, keep_in_memory=True)
    with pytest.raises(InputError, match=r"Unknown reduction 'means'\. Did you mean 'mean'"):
        metric.compute(**columns, **options, reduction="means")
    lists = (key for key, rows in columns.items() if key.startswith("reference") and isinstance(rows[0], list))
    for key in lists:  # a module of one number an example has its refusals tested on its own
        shorter = copy.deepcopy(columns)
        next(row for row in shorter[key] if row).pop()
        with pytest.raises(InputError, match=f"Expected equal lengths.*`{key}"):
            load(name, keep_in_memory=True).compute(**shorter, **options)


@pytest.fixture(scope="module")
def installed(cache):
    return dict(zip(NAMES, hub.install_metrics(), strict=True))


@pytest.fixture(scope="module")
def without_network(cache, installed, tmp_path_factory):
    """What one new process in another folder says to all cards: (failed, attempted) of each, and its messages."""
    place = tmp_path_factory.mktemp("elsewhere")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGINGFACE_"))}
    environment |= {
        "HF_HOME": str(place / "home"),
        "HF_MODULES_CACHE": str(cache / "modules"),
        "PYTHONPATH": str(Path(hub.__file__).parents[2]),
    }
    command = [sys.executable, "-c", WITHOUT_NETWORK, *(str(card(name)) for name in NAMES)]
    run = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout.splitlines()[-1]), run.stdout + run.stderr


@pytest.mark.parametrize("name", NAMES)
def test_card_runs_by_name_from_a_new_process_without_network(cache, installed, without_network, name):
    cards, messages = without_network
    failed, attempted = cards[str(card(name))]
    assert attempted > 0
    assert failed == 0, messages
    assert cache in installed[name].parents
    assert str(installed[name].parent) in messages  # evaluate says which file it took from its cache


@pytest.mark.parametrize("name", NAMES)
def test_install_is_idempotent_and_brings_changes_in(cache, tmp_path, monkeypatch, name):
    script = tmp_path / name / f"{name}.py"
    script.parent.mkdir()
    original = (folder(name) / f"{name}.py").read_text(encoding="utf-8")
    monkeypatch.setattr(hub, "_MODULES", tmp_path)
    installed = []
    for extra in ("", "", "\nCHANGED = True\n", ""):
        script.write_text(original + extra, encoding="utf-8")
        installed += hub.install_metrics()
    assert installed[0] == installed[1] == installed[3] != installed[2]
    assert installed[0].read_text(encoding="utf-8") == original
    from evaluate import loading

    module = loading.CachedEvaluationModuleFactory(f"evaluate-metric--{name}").get_module()
    assert module.hash == installed[0].parent.name


def test_errors_of_installing_are_clear(cache, monkeypatch):
    with pytest.raises(InputError, match=r"Unknown metric 'atefa'\. Did you mean 'attefa'"):
        hub.install_metrics(["atefa"])
    monkeypatch.delattr("evaluate.loading._create_importable_file")
    with pytest.raises(RuntimeError, match=r"works otherwise than expected.*evaluate\.load"):
        hub.install_metrics()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["no folder can be made", "no file can be made"])
def test_a_cache_that_cannot_be_written_keeps_inputs_in_memory(cache, example, tmp_path, name, place):
    import evaluate

    columns, options = example
    expected = evaluate.load(str(folder(name)), keep_in_memory=True).compute(**columns, **options)
    root = tmp_path / "cache"
    if place == "no folder can be made":
        root.write_text("a file where the cache should be: an error for every user, root included")
    else:  # a folder where the file and its lock should be
        for process in ("1-0", "2-1"):
            for ending in (".arrow", ".arrow.lock"):
                (root / name / "default" / f"default_experiment-{process}{ending}").mkdir(parents=True)
    metric = evaluate.load(str(folder(name)), cache_dir=str(root))
    for _ in range(2):
        found = metric.compute(**columns, **options)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert found[key] == (pytest.approx(value, nan_ok=True) if isinstance(value, float) else value)
    for i in range(len(columns["predictions"])):
        metric.add(**{column: values[i] for column, values in columns.items()})
    assert metric.compute(**options)["n"] == expected["n"]
    with pytest.raises(InputError, match=r"2 processes gather there; set HF_METRICS_CACHE .* keep_in_memory=True"):
        evaluate.load(str(folder(name)), cache_dir=str(root), num_process=2, process_id=1).compute(**columns, **options)


def test_a_cache_of_modules_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "modules"
    blocked.write_text("a file where the cache should be")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evaluate.config.HF_MODULES_CACHE", blocked)
        patch.setattr("evaluate.loading.init_dynamic_modules.__defaults__", ("evaluate_modules", blocked))
        patch.setattr(sys, "path", [*sys.path])
        with pytest.raises(InputError, match=r"cache of modules cannot be written .* HF_MODULES_CACHE"):
            hub.install_metrics(["attefa"])
