"""The layers stay layers: who imports whom, how long a file is, what an import loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attn_faithful

ROOT = Path(attn_faithful.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MODULES = {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def dotted_name(name):
    """``models/stock/__init__.py`` is ``attn_faithful.models.stock``."""
    return ".".join(("attn_faithful", *Path(name).with_suffix("").parts)).removesuffix(".__init__")


KNOWN = {dotted_name(name): name for name in MODULES}

SMALL = {"_checks", "_garbage", "_registry", "_seeds", "names", "records", "schema"}
BENCH_FILES = {"_digests", "bench_files", "bench_results"}
TESTS = {"functional", "models", *SMALL}
# part of the package -> the parts that it may import, beside itself; __init__ hands out names lazily, from anywhere
ALLOWED = {
    "_checks": set(),
    "_digests": {"_checks"},
    "_exports": {"_checks"},
    "_garbage": set(),
    "_registry": {"_checks"},
    "_seeds": set(),
    "names": set(),
    "schema": set(),
    "records": set(),
    "_mapped": set(),
    "store": {"records", "schema", "_atomic", "_checks", "_digests", "_shards"},
    "_atomic": set(),
    "_shards": {"_checks", "_mapped"},
    "functional": {"_checks", "_registry", "schema"},
    "models": {"", "functional", "_auto", "_checks", "_registry"},  # _auto tells transformers of them
    "data": {"_mapped", *SMALL},
    "attributions": TESTS,
    "evaluators": TESTS,
    "training": TESTS,
    # of functional the statistics alone, see below
    "reports": {"store", "bench_results", "records", "schema", "_atomic", "_checks", "_exports", "functional"},
    "bench_files": {"records", "_checks", "_digests"},
    "bench_results": {"records", "_checks"},
    "hub": {"_checks", *BENCH_FILES, "records"},
    "experiments": {"", "attributions", "evaluators", "training", "data", "store", "hub", *TESTS},
    "bench": {
        "",
        "api",
        "loading",
        "experiments",
        "evaluators",
        "training",
        "data",
        "reports",
        "store",
        "_atomic",
        *BENCH_FILES,
        *TESTS,
    },
    "_auto": {"models", "data"},  # once transformers is loaded
    "loading": {"", "data", *TESTS},
    "explanations": {"loading", "experiments", "data", "_atomic", "_checks"},
    "api": {"", "loading", "experiments", "explanations", "reports", "data", *TESTS},
    "cli": {"", "api", "bench", "loading", "data", "experiments", "reports", "hub", "store", *BENCH_FILES, *SMALL},
    "metrics": {"functional", "_checks"},
    "evaluate_modules": {"functional", "metrics"},
}


def imported(name, tree):
    """Every module that a file imports, also inside functions and for type checking: dotted, and it exists.

    ``from attn_faithful.models import protocol`` imports the module; ``from attn_faithful.models import StockModel``
    imports the package, which is what is told.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (imported_name(node.module, alias.name) for alias in node.names)


def imported_name(module, name):
    """The module that ``from module import name`` needs: the name's own where it is one of ours, or the package's."""
    dotted = f"{module}.{name}"
    if dotted in KNOWN or module == "attn_faithful":
        return dotted
    return module


def part_of(dotted):
    """ "" for the package itself, as in ``from attn_faithful import __version__``."""
    part = dotted.split(".")[1] if "." in dotted else ""
    return "" if part.startswith("__") else part


@pytest.mark.parametrize("name", [n for n in MODULES if n != "__init__.py"])
def test_layers(name):
    part = Path(name).parts[0].removesuffix(".py")
    assert part in ALLOWED, f"{part} is not in the design's list of what may import what"
    own = {part_of(m) for m in imported(name, MODULES[name]) if m.split(".")[0] == "attn_faithful"}
    assert own - {part} <= ALLOWED[part]


def test_no_cycles():
    """Among all modules, with imports inside functions and for type checking.

    Left out are the two that hand out public names from anywhere once they are asked for: the package itself, and the
    hook that tells transformers of our classes.
    """
    public = {"attn_faithful", "attn_faithful._auto"}
    needs = {}
    for module, name in KNOWN.items():
        if module not in public:
            needs[module] = {other for other in imported(name, MODULES[name]) if other in KNOWN} - public
    while needs:
        free = [module for module, others in needs.items() if not others & needs.keys()]
        assert free, f"these import each other: {sorted(needs)}"
        for module in free:
            del needs[module]


@pytest.mark.parametrize("name", list(MODULES))
def test_imports_are_absolute(name):
    relative = [n.lineno for n in ast.walk(MODULES[name]) if isinstance(n, ast.ImportFrom) and n.level]
    assert not relative


# what a variable that holds a classifier is called
MODEL_NAMES = {"model", "base", "twin", "wrapped", "stock", "network", "classifier"}
# a network that a user wrote is no AttentionModel: its settings and code enter a run's name by what it may have
READS_NETWORKS = {"experiments/identity.py", "experiments/written_code.py"}
KNOWS_NO_MODELS = ("reports", "records", "_auto.py")  # their "twin" is a record, their "base" a module of transformers
ASKS_MODELS = [
    name for name in MODULES if not name.startswith(("models/", *KNOWS_NO_MODELS)) and name not in READS_NETWORKS
]


@pytest.mark.parametrize("name", ASKS_MODELS)
def test_no_model_is_asked_for_what_it_may_not_have(name):
    """``AttentionModel`` has a documented default for everything; only models/ reads classes of others."""
    asked = []
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            last_name = ast.unparse(node.args[0]).split(".")[-1]
            if last_name in MODEL_NAMES:
                asked.append(f"line {node.lineno}: {ast.unparse(node)}")
    assert not asked


# of the code that shows runs, what may read a run folder: the one view of a run; the search for runs, which looks
# whether a folder is one of ours; the list of runs, which has a row for those of every version
READS_RUN_FOLDERS = {"reports/run.py", "reports/run_search.py", "reports/tables/listings.py"}


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("reports") and n not in READS_RUN_FOLDERS])
def test_one_view_of_a_run(name):
    of_folders = {"read_table", "read_summary", "read_meta", "read_json"}
    attributes = {node.attr for node in ast.walk(MODULES[name]) if isinstance(node, ast.Attribute)}
    assert not attributes & of_folders


def test_nobody_imports_the_command_line():
    others = {n: tree for n, tree in MODULES.items() if not n.startswith("cli/")}
    assert not [n for n, tree in others.items() if any(m.startswith("attn_faithful.cli") for m in imported(n, tree))]


# statistics in numpy and scipy: one implementation for the tests, which have torch, and for reports, which have not
STATISTICS = {"attefa", "auc", "best_line", "reasons", "resampling", "roar", "summaries"}


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("reports")])
def test_reports_take_statistics_alone_from_functional(name):
    taken = {m.split(".")[2] for m in imported(name, MODULES[name]) if m.startswith("attn_faithful.functional.")}
    assert taken <= STATISTICS
    assert "attn_faithful.functional" not in set(imported(name, MODULES[name]))


@pytest.mark.parametrize("name", sorted(STATISTICS))
def test_statistics_know_no_torch(name):
    path = f"functional/{name}.py"
    known = {"_checks", *STATISTICS}
    for module in imported(path, MODULES[path]):
        own = module.startswith("attn_faithful.")
        assert module.rsplit(".", 1)[1] in known if own else module.split(".")[0] not in {"torch", "transformers"}


@pytest.mark.parametrize(
    "name", [n for n in MODULES if n.startswith(("functional", "records", "schema", "store", "reports"))]
)
def test_light_parts_know_no_transformers(name):
    heavy = {"transformers", "datasets", "captum", "evaluate", "accelerate"}
    if not name.startswith("functional"):
        heavy |= {"torch"}
    assert not {module.split(".")[0] for module in imported(name, MODULES[name])} & heavy


@pytest.mark.parametrize("name", list(MODULES))
def test_files_are_short_and_plain(name):
    lines = (ROOT / name).read_text(encoding="utf-8").count("\n")
    assert lines <= 400
    asserts = [node.lineno for node in ast.walk(MODULES[name]) if isinstance(node, ast.Assert)]
    assert not asserts, f"assert in lines {asserts}: it vanishes under python -O; raise InputError"
    assert Path(name).name not in ("utils.py", "helpers.py", "common.py")


@pytest.mark.parametrize(
    "module",
    [
        "attn_faithful",
        "attn_faithful.store",
        "attn_faithful.records.summary",
        "attn_faithful.records.meta",
        "attn_faithful.reports.tables.table",
        "attn_faithful.cli",
        "attn_faithful.cli.early",
        "attn_faithful.data.files.readers",
        "attn_faithful.experiments.recipe_file",
    ],
)
def test_light_imports(module):
    heavy = "{'torch', 'transformers', 'datasets', 'sklearn', 'scipy', 'evaluate'}"
    code = f"import sys, {module}; print(sorted({heavy} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")


def test_an_evaluation_loads_what_it_uses_alone():
    """Neither Trainer, nor what a source of importance or a long text needs; recipes are read without it, too."""
    heavy = "{'captum', 'datasets', 'evaluate', 'matplotlib', 'peft', 'scipy.stats', 'sklearn', 'transformers.trainer'}"
    modules = "attn_faithful.experiments.run_evaluation, attn_faithful.cli.main, attn_faithful.training.settings"
    given = {"name": "a", "data": {"source": "b"}}
    makes_a_recipe = f"from attn_faithful.experiments.recipe import make_recipe; make_recipe({given}, 'evaluate')"
    code = f"import sys, {modules}; {makes_a_recipe}; print(sorted({heavy} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "[]", run.stderr
