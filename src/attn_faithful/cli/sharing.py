"""The commands that bring things to others: ``push``, ``install-metrics``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from attn_faithful.cli.looking import say


def push(given: argparse.Namespace) -> None:
    from attn_faithful._checks import InputError
    from attn_faithful.hub import push as pushing

    if given.kind == "model":
        card = _card_of(given.what, given.to, given.results, given.license)
        short = given.license if card is None else None
        if given.into is not None:
            say(pushing.write_model(given.what, given.to, given.into, card=card, licence=short))
            return
        address = pushing.push_model(given.what, given.to, card=card, licence=short, private=given.private)
    else:
        if given.results or given.into is not None or given.license is not None:
            raise InputError(f"--results, --into and --license belong to push model, but this is push {given.kind}.")
        address = getattr(pushing, f"push_{given.kind}")(given.what, given.to, private=given.private)
    say(address)


def _card_of(what: str, to: str, results: Sequence[str], licence: str | None) -> str | None:
    """The card of a run's model, or of a model that runs of evaluate have tested; None where there is no run."""
    from attn_faithful.reports.model_card import model_card
    from attn_faithful.reports.run import read_runs
    from attn_faithful.store import RunFolder

    others = read_runs(results) if results else []
    if RunFolder(what).done:
        return model_card(*read_runs([what]), *others, to=to, licence=licence)
    return model_card(*others, to=to, model=what, licence=licence) if others else None


def install_metrics(given: argparse.Namespace) -> None:
    from attn_faithful.hub import install_metrics

    for path in install_metrics(given.metric or None):
        say(path)
