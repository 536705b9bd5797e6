"""The commands that bring things to others: ``push``, ``install-metrics``."""

from __future__ import annotations

import argparse


def push(given: argparse.Namespace) -> None:
    from attn_faithful.hub import push as pushing

    if given.kind == "model":
        card = _card_of(given.what, given.to)
        address = pushing.push_model(given.what, given.to, card=card, private=given.private)
    else:
        address = getattr(pushing, f"push_{given.kind}")(given.what, given.to, private=given.private)
    print(address)


def _card_of(what: str, to: str) -> str | None:
    """The card of a run's model; None for a model that is no part of a run."""
    from attn_faithful.reports.model_card import model_card
    from attn_faithful.reports.runs import read_runs
    from attn_faithful.store import RunFolder

    if not RunFolder(what).done:
        return None
    (run,) = read_runs([what])
    return model_card(run, to=to)


def install_metrics(given: argparse.Namespace) -> None:
    from attn_faithful.hub import install_metrics

    for path in install_metrics(given.metric or None):
        print(path)
