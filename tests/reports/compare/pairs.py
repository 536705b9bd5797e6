"""Runs for comparisons: the committed ones with something about them changed."""

from __future__ import annotations

from attn_faithful.reports.run import Run
from attn_faithful.store import RunFolder
from tests.reports.altered import MLP, copied
from tests.reports.made import made


def changed(path, table, change, cell=MLP):
    """A copy of a run in which ``change`` was called with the columns of a table."""
    folder = RunFolder(copied(path, cell=cell))
    columns = folder.read_table(table).to_pydict()
    change(columns)
    folder.write_table(table, columns)
    return folder.path


def in_pieces(path, cell=MLP, cut=None):
    """A copy whose tokens are pieces: each of more than two letters is cut into two, with shares of its attention.

    Args:
        cut: how many words of a text are read; None for all.
    """

    def change(columns):
        kept = {"example", "site", "slot", "tokens", "offsets", "attention"}
        for name in columns.keys() - kept:
            del columns[name]
        for row, words in enumerate(columns["tokens"]):
            offsets, weights = columns["offsets"][row], columns["attention"][row]
            tokens, spans, shares = [], [], []
            for i, word in list(enumerate(words))[:cut]:
                start, end = offsets[2 * i], offsets[2 * i + 1]
                middle = start + 1 if len(word) > 2 else end
                for a, b, share in ((start, middle, 0.25), (middle, end, 0.75)):
                    if a < b:
                        tokens.append(word[a - start : b - start])
                        spans += [a, b]
                        shares.append(weights[i] * (share if len(word) > 2 else 1.0))
            columns["tokens"][row], columns["offsets"][row], columns["attention"][row] = tokens, spans, shares

    return changed(path, "tokens", change, cell)


def made_with_metrics(path, texts, **settings):
    """A made-up run whose summary says what its metrics are."""
    folder = made(path, texts, **settings).folder
    summary = folder.read_summary()
    names = {record["metric"] for record in summary["tests"]}
    facts = {name: {"name": name, "title": name.replace("_", " "), "meaning": f"what {name} is"} for name in names}
    folder.write_summary({**summary, "metrics": facts})
    return Run(folder.path)
