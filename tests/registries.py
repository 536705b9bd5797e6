"""What is registered while a page's or a test's own code runs is there for that code alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from attn_faithful.attributions.base import SOURCES
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.null_controls import CONTROLS
from attn_faithful.functional.activations import CURVES
from attn_faithful.functional.projections import PROJECTIONS
from attn_faithful.models.attention import SCORERS
from attn_faithful.models.encoders import ENCODERS
from attn_faithful.training.regularizers.base import REGULARIZERS

REGISTRIES = (SOURCES, EVALUATORS, CONTROLS, CURVES, PROJECTIONS, SCORERS, ENCODERS, REGULARIZERS)


def registered() -> set[str]:
    """What is registered, as kind and name."""
    return {f"{registry.kind} {name}" for registry in REGISTRIES for name in registry}


@contextmanager
def registered_for_a_while() -> Iterator[None]:
    """Names that are registered within are forgotten at the end."""
    before = [dict(registry._entries) for registry in REGISTRIES]
    try:
        yield
    finally:
        for registry, entries in zip(REGISTRIES, before, strict=True):
            registry._entries.clear()
            registry._entries.update(entries)
