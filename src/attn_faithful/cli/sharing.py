"""The commands that bring things to others: ``push``, ``install-metrics``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from attn_faithful._checks import InputError
from attn_faithful.cli.looking import say

# flag -> kinds of push
_TAKEN_BY = {"results": ["model"], "into": ["model", "bench", "leaderboard"], "license": ["model", "bench"]}


def push(given: argparse.Namespace) -> None:
    from attn_faithful.hub.push import push_data, push_metric, push_report

    _check_flags(given)
    with_files = {"model": _push_model, "bench": _push_bench, "leaderboard": _push_leaderboard}
    if given.kind in with_files:
        say(with_files[given.kind](given))
        return
    push_kind = {"metric": push_metric, "data": push_data, "report": push_report}[given.kind]
    say(push_kind(given.what, given.to, private=given.private))


def _check_flags(given: argparse.Namespace) -> None:
    """Raise where a flag is given that this kind of push does not take."""
    for flag, kinds in _TAKEN_BY.items():
        if getattr(given, flag) and given.kind not in kinds:
            takers = ", ".join(f"push {kind}" for kind in kinds)
            raise InputError(f"--{flag} belongs to {takers}, but this is push {given.kind}.")


def _push_bench(given: argparse.Namespace) -> str:
    """Push a set of AttentionBench, or write what would be pushed; where it lies then."""
    from attn_faithful.hub.push_bench import push_bench, write_bench

    if given.into is not None:
        return str(write_bench(given.what, given.to, given.into, licence=given.license))
    return push_bench(given.what, given.to, licence=given.license, private=given.private)


def _push_leaderboard(given: argparse.Namespace) -> str:
    """Push the leaderboard of result files, or write what would be pushed; where it lies then."""
    from attn_faithful.bench.kinds import TRUTHS
    from attn_faithful.bench_results import read_results
    from attn_faithful.hub.push_bench import push_leaderboard, write_leaderboard_space
    from attn_faithful.reports.html.leaderboard import leaderboard_page

    results = [given.what]
    page = leaderboard_page(read_results(results), TRUTHS)
    if given.into is not None:
        return str(write_leaderboard_space(page, results, given.to, given.into))
    return push_leaderboard(page, results, given.to, private=given.private)


def _push_model(given: argparse.Namespace) -> str:
    """Push a model, or write what would be pushed; where it lies then."""
    from attn_faithful.hub.push import push_model, write_model

    card = _card_of(given.what, given.to, given.results, given.license)
    licence = given.license if card is None else None  # a card holds its licence
    if given.into is not None:
        return str(write_model(given.what, given.to, given.into, card=card, licence=licence))
    return str(push_model(given.what, given.to, card=card, licence=licence, private=given.private))


def _card_of(what: str, to: str, results: Sequence[str], licence: str | None) -> str | None:
    """The card of a run's model, or of a model that runs of evaluate have tested; None where there is no run."""
    from attn_faithful.reports.model_card import model_card
    from attn_faithful.reports.run_search import read_runs
    from attn_faithful.store import RunFolder

    others = read_runs(results) if results else []
    if RunFolder(what).done:
        return model_card(*read_runs([what]), *others, to=to, licence=licence)
    if not others:
        return None
    return model_card(*others, to=to, model=what, licence=licence)


def install_metrics(given: argparse.Namespace) -> None:
    from attn_faithful.hub import install_metrics

    for path in install_metrics(given.metric or None):
        say(path)
