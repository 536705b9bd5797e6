"""What a wrapped model was told and what settings say, brought together: defaults never replace what was chosen."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.experiments.evaluation_settings import EVERY, EvaluationSettings
from attn_faithful.models.adapted import class_name
from attn_faithful.models.protocol import JOINT

DECODED = ("attention", "attention_gradient", "attention_x_gradient", "random")  # sources that ask `decode` alone
OF_SOURCES = ("against", "of", "rankings")  # what tests call the sources that they compare


def agreed(model: Any, settings: EvaluationSettings) -> tuple[Any, EvaluationSettings]:
    """A model and settings that say the same of rows, heads and layers.

    What only one of them names holds. Of transformers models the settings that come back name the rows and heads that
    are tested.

    Raises:
        InputError: they contradict each other; or rows and heads of a model that has none to choose.
    """
    if not model.layered:
        named = {"queries": settings.queries not in (None, "auto"), "heads": bool(settings.heads)}
        for name, given in named.items():
            if given:
                raise InputError(
                    f"{name} are chosen among those of a transformers model, and {class_name(model)} is none; "
                    f"leave {name} out."
                )
        return model, settings
    asked = model.asked
    queries = _one("queries", asked["queries"], settings.queries)
    told = None if settings.heads is None else model.choosing(heads=settings.heads or None).heads or []
    wrapped = None if asked["heads"] is None else model.heads
    heads = _one("heads", wrapped, told)
    model = model.choosing(queries or "auto", heads or None, asked["layers"])
    if asked["layers"] is not None:
        for site in settings.sites:
            if site not in (EVERY, JOINT, *model.sites) and site.startswith("layer."):
                raise InputError(
                    f"The model was wrapped with layers={model.layers}, but the settings ask for the site {site!r}; "
                    "leave one of the two out."
                )
    return model, replace(settings, queries=queries or "auto", heads=list(heads or []))


def _one(name: str, wrapped: Any, given: Any) -> Any:
    """The one of two choices that was made."""
    if wrapped is None or given is None:
        return given if wrapped is None else wrapped
    if wrapped != given:
        raise InputError(
            f"The model was wrapped with {name}={wrapped!r}, but the settings ask for {given!r}; leave one of the two "
            "out."
        )
    return wrapped


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
    known = (*DECODED, *(["leave_one_out"] if model.deletes else []))
    tests, own, notes = [], dict(settings.test_settings), []
    for test in settings.tests:
        given = dict(own.get(test, {}))
        why = None if model.deletes or test != "erasure" else "deletes tokens, for which it was given no without="
        for field in fields(EVALUATORS[test].settings):
            if field.name not in OF_SOURCES or field.name in given:
                continue
            every = getattr(settings.of(test), field.name)
            left = [source for source in every if source in known]
            if left != every:
                given[field.name] = left
                gone = ", ".join(source for source in every if source not in left)
                notes.append(f"{test}: {gone} left out, which the wrapped model does not give.")
            if not left and field.name != "of":
                why = "compares attention with sources that it does not give"
        if why is None:
            tests.append(test)
            own[test] = given
        elif named:
            raise InputError(f"The test {test!r} cannot be asked of the wrapped model: it {why}.")
        else:
            notes.append(f"{test} left out: it {why}.")
            own.pop(test, None)
    return replace(settings, tests=tests, test_settings=own), notes
