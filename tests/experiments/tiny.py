"""A recipe of seconds, and what a run of it leaves, without what differs from run to run."""

from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.recipe import make_recipe
from attn_faithful.experiments.run_cell import run_cell
from attn_faithful.store import RunFolder

RAW = {
    "name": "tiny",
    "data": {
        "source": "mock-1",
        "mock": {"n_train": 60, "n_validation": 20, "n_test": 20, "min_length": 4, "max_length": 7, "max_words": 6},
    },
    "model": {"encoder": "mlp", "embedding_size": 8, "hidden_size": 8},
    "train": {"epochs": 2, "batch_size": 16, "learning_rate": 1e-2},
    "twin": {"epochs": 3, "batch_size": 16, "learning_rate": 1e-2},
    "seeds": [10],
}


class Stopped(Exception):  # noqa: N818 (a stop is no error)
    """A kill, from the point of view of a stage."""


def cells(**changes):
    return expand(make_recipe({**RAW, **changes}, "tiny"))


def run(cell, path, on_progress=None):
    folder = RunFolder(path)
    run_cell(cell, folder, on_progress or (lambda *args: None))
    return folder


def numbers(value):
    """A summary without its seconds."""
    if isinstance(value, dict):
        return {name: numbers(inner) for name, inner in value.items() if name != "seconds"}
    return value


# of data without rationales, in the order of the tables
DEFAULT_TESTS = ["correlation", "permutation", "adversarial", "flips", "erasure", "polarity", "stability", "entropy"]
TABLES = ("predictions", "tokens", "variants", "scores")


def tables(folder, names=TABLES):
    """The tables whose rows must not depend on interruptions, NaN as a word so that it equals itself."""
    read = {name: folder.read_table(name).to_pydict() for name in names}
    return {name: {c: [repr(v) for v in values] for c, values in columns.items()} for name, columns in read.items()}
