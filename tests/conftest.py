"""Settings of every test: one thread, no network, no progress bars."""

import gc
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

for _name, _value in {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "NUMBA_DISABLE_JIT": "1",  # which SHAP uses: compiling takes longer than explaining two texts
}.items():
    os.environ.setdefault(_name, _value)


LONGEST = ("test_entries", "test_interruptions", "test_processes", "test_hub", "test_commands", "test_han")


def pytest_collection_modifyitems(items):
    """The files that take longest come first, so that no process waits for another at the end.

    The very first makes what another one of its folder would wait for, too.
    """
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


def pytest_collection_finish():
    """What collecting the tests loaded stays until the end: no garbage collection goes through it again.

    Every training asks for one (accelerate's ``free_memory``), which takes longer than the training itself here.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)  # below the durations
def pytest_terminal_summary(terminalreporter):
    """How many tests did not run for want of the shared folder: what they compare with is then not compared at all.

    With several processes the reports come together here, in the process that was started.
    """
    skipped = terminalreporter.stats.get("skipped", [])
    by_file = Counter(report.nodeid.split("::")[0] for report in skipped if lacks_shared(report))
    if not by_file:
        return
    folder = Path(__file__).parents[2] / "shared"
    terminalreporter.section("without the shared folder", yellow=True)
    terminalreporter.line(
        f"{by_file.total()} tests on the papers' fixtures and on real data were skipped: {folder} is missing in whole "
        "or in part. Nothing was compared in"
    )
    for file, count in sorted(by_file.items()):
        terminalreporter.line(f"  {file}: {count}")


def lacks_shared(report):
    """Whether a skipped test names the shared folder as what it lacks."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return re.search(r"\bshared\b", reason) is not None


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """evaluate's caches, in a temporary folder."""
    caches = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evaluate.config.HF_MODULES_CACHE", caches / "modules")
        patch.setattr("evaluate.config.HF_METRICS_CACHE", caches / "metrics")
        patch.setattr(sys, "path", [*sys.path])
        forget_modules()
        yield caches
    forget_modules()


@pytest.fixture(scope="module", autouse=True)
def registries_stay():
    """A test that registers something takes it back: others go through all that is registered, in any order."""
    from tests.registries import registered  # not above: the threads' number is read when torch is loaded

    before = registered()
    yield
    new = {name for name in registered() if name not in before}
    assert not new, f"registered and not taken back: {sorted(new)}"


def forget_modules():
    """Python remembers the folder of the first cache that evaluate loaded from; other tests have their own."""
    for name in [name for name in sys.modules if name.split(".")[0] == "evaluate_modules"]:
        del sys.modules[name]
