"""Settings of every test: one thread, no network, no progress bars."""

import os
import sys

import pytest

for _name, _value in {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}.items():
    os.environ.setdefault(_name, _value)


LONGEST = ("test_faults", "test_processes", "test_hub", "test_cli", "test_han")


def pytest_collection_modifyitems(items):
    """The files that take longest come first, so that no process waits for another at the end."""
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


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


def forget_modules():
    """Python remembers the folder of the first cache that evaluate loaded from; other tests have their own."""
    for name in [name for name in sys.modules if name.split(".")[0] == "evaluate_modules"]:
        del sys.modules[name]
