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
