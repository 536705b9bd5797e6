"""The choices of a wrapped model and those of the settings, brought together: defaults never replace a choice."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.experiments.evaluation_settings import EVERY, EvaluationSettings
from attn_faithful.models.adapted import class_name
from attn_faithful.models.protocol import JOINT

DECODED = ("attention", "attention_gradient", "attention_x_gradient", "random")  # sources that ask `decode` alone
DELETED = ("leave_one_out", "signed_leave_one_out")  # those that delete tokens
OF_SOURCES = ("against", "of", "rankings")  # what tests call the sources that they compare


def agreed(model: Any, settings: EvaluationSettings) -> tuple[Any, EvaluationSettings]:
    """A model and settings that say the same of rows, heads and layers.

    What only one of them names holds. Of transformers models the settings that come back name the rows and heads that
    are tested.

    Raises:
        InputError: they contradict each other; or rows and heads of a model that has none to choose.
    """
    if not model.layered:
        _check_nothing_chosen(model, settings)
        return model, settings
    wrapped = model.asked
    wrapped_heads = None if wrapped["heads"] is None else model.heads
    queries = _one("queries", wrapped["queries"], settings.queries)
    heads = _one("heads", wrapped_heads, _heads(model, settings.heads))
    model = model.choosing(queries or "auto", heads or None, wrapped["layers"])
    if wrapped["layers"] is not None:
        _check_layers(model, settings)
    return model, replace(settings, queries=queries or "auto", heads=list(heads or []))


def _check_nothing_chosen(model: Any, settings: EvaluationSettings) -> None:
    chosen = {"queries": settings.queries not in (None, "auto"), "heads": bool(settings.heads)}
    for name, is_chosen in chosen.items():
        if is_chosen:
            raise InputError(
                f"{name} are chosen among those of a transformers model, and {class_name(model)} is none; "
                f"leave {name} out."
            )


def _heads(model: Any, heads: list[int] | None) -> Any:
    """The heads that settings choose, checked by the model; [] for all, None for no choice."""
    if heads is None:
        return None
    return model.choosing(heads=heads or None).heads or []


def _one(name: str, wrapped: Any, chosen: Any) -> Any:
    """The one of two choices that was made."""
    if wrapped is None:
        return chosen
    if chosen is not None and wrapped != chosen:
        raise InputError(
            f"The model was wrapped with {name}={wrapped!r}, but the settings ask for {chosen!r}; leave one of the two "
            "out."
        )
    return wrapped


def _check_layers(model: Any, settings: EvaluationSettings) -> None:
    known = (EVERY, JOINT, *model.sites)
    for site in settings.sites:
        if site.startswith("layer.") and site not in known:
            raise InputError(
                f"The model was wrapped with layers={model.layers}, but the settings ask for the site {site!r}; "
                "leave one of the two out."
            )


def possible(model: Any, settings: EvaluationSettings, named: bool) -> tuple[EvaluationSettings, list[str]]:
    """The tests that a model of somebody's own can answer, against the sources that it can, and what was left out.

    Of such a model no embeddings are known, so that gradients with respect to them are no default; sources that the
    settings name are asked for as they stand.

    Args:
        model: any; what is not a hand-written model is asked everything.
        settings: with tests.
        named: whether the user named the tests.

    Raises:
        InputError: a test that the user named and the model cannot answer.
    """
    if model.embedding_gradients:
        return settings, []
    known = [*DECODED, *DELETED] if model.deletes else DECODED
    tests: list[str] = []
    notes: list[str] = []
    test_settings = dict(settings.test_settings)
    for test in settings.tests:
        reason = None
        if test == "erasure" and not model.deletes:
            reason = "deletes tokens, for which it was given no without="
        narrowed, sources_left, test_notes = _narrowed(test, settings, known)
        notes += test_notes
        if not sources_left:
            reason = "compares attention with sources that it does not give"
        if reason is None:
            tests.append(test)
            test_settings[test] = narrowed
        elif named:
            raise InputError(f"The test {test!r} cannot be asked of the wrapped model: it {reason}.")
        else:
            notes.append(f"{test} left out: it {reason}.")
            test_settings.pop(test, None)
    return replace(settings, tests=tests, test_settings=test_settings), notes


def _narrowed(
    test: str, settings: EvaluationSettings, known: Collection[str]
) -> tuple[dict[str, Any], bool, list[str]]:
    """The settings of a test with known sources alone, unless the user named them.

    Returns:
        the settings, whether a source is left wherever the test needs one, and notes on what was left out.
    """
    narrowed = dict(settings.test_settings.get(test, {}))
    sources_left = True
    notes: list[str] = []
    for field in fields(EVALUATORS[test].settings):
        if field.name not in OF_SOURCES or field.name in narrowed:
            continue
        sources = getattr(settings.of(test), field.name)
        given = [source for source in sources if source in known]
        if given != sources:
            narrowed[field.name] = given
            missing = ", ".join(source for source in sources if source not in known)
            notes.append(f"{test}: {missing} left out, which the wrapped model does not give.")
        if not given and field.name != "of":
            sources_left = False
    return narrowed, sources_left, notes
