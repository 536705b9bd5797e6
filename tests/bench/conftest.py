"""The small set, made once for all processes that run tests."""

import pytest
from filelock import FileLock

from attn_faithful.bench.frozen_set import SMALL, make_set, read_set
from attn_faithful.bench_files import MANIFEST


@pytest.fixture(scope="session")
def small_set(tmp_path_factory, worker_id):
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    folder = shared / "bench-small"
    with FileLock(shared / "bench-small.lock"):
        if not (folder / MANIFEST).is_file():
            make_set(folder, SMALL)
    return read_set(folder)
