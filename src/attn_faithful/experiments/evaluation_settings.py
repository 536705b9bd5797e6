"""Which tests an evaluation runs, and how: the part of a recipe that says so."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from attn_faithful._checks import InputError, check_choice
from attn_faithful.attributions.base import SOURCES, SourceSettings
from attn_faithful.evaluators import attefa
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.metric_table import all_tests
from attn_faithful.evaluators.null_controls import CONTROLS
from attn_faithful.experiments.strict_yaml import build
from attn_faithful.models.protocol import JOINT, QUERIES

GIVEN = "given"
EVERY = "all"
UNITS = ("word", "token")


@dataclass(frozen=True)
class EvaluationSettings:
    """Which tests to run, and how.

    Attributes:
        tests: names of evaluators.
        sites: of the model's attention, where to test; empty for the one nearest to the output, "all" for each.
        queries: of stock transformers models, whose rows of attention are tested; see `models.stock.model.StockModel`.
            None for those that the model was wrapped with, "auto" where it was not told.
        heads: of stock transformers models, which are tested, by number; empty for all, None for those that the model
            was wrapped with.
        units: "word" or "token": what the items of models with sub-word tokenizers are.
        special_tokens: "exclude", or "keep" to test special tokens like any other (units: token).
        settings: test -> its settings.
        sources: how importance is computed.
        also: further sources to compute and store.
        controls: attention that takes the model's place, so that each number stands beside chance.
        target: which class importance is about: "predicted", "gold" or the name of a class.
        seed: of all random choices.
    """

    tests: list[str] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)
    queries: str | None = None
    heads: list[int] | None = None
    units: str = "word"
    special_tokens: str = "exclude"
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: SourceSettings = field(default_factory=SourceSettings)
    also: list[str] = field(default_factory=list)
    controls: list[str] = field(default_factory=lambda: ["uniform", "random"])
    target: str = "predicted"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.queries is not None:
            check_choice("queries", self.queries, QUERIES)
        check_choice("units", self.units, UNITS)
        check_choice("special_tokens", self.special_tokens, ("exclude", "keep"))
        if self.special_tokens == "keep" and self.units == "word":
            raise InputError("Special tokens are no words: with special_tokens keep set units to token.")
        for test in [*self.tests, *self.settings]:
            check_choice("test", test, all_tests())
            if test == attefa.TEST.name:
                raise InputError(f"The test {test!r} needs a trained twin; use attn-faithful {test}.")
        if twice := {test for test in self.tests if self.tests.count(test) > 1}:
            raise InputError(f"tests: {min(twice)!r} stands twice.")
        for control in self.controls:
            check_choice("control", control, CONTROLS)
        for source in self.also:
            check_choice("source", source, SOURCES)
        for test in EVALUATORS:
            for source in EVALUATORS[test].sources(self.of(test)):
                if source != GIVEN:
                    check_choice(f"source of the test {test}", source, SOURCES)

    def tested(self, model: Any) -> tuple[str, ...]:
        """The sites of a model that are tested.

        Raises:
            InputError: it has no such site.
        """
        single = [site for site in model.sites if site != JOINT]
        if self.sites == [EVERY]:
            return tuple(single)
        return tuple(check_choice("site", site, model.sites) for site in self.sites) or (single[-1],)

    def of(self, test: str) -> Any:
        """The settings of one test."""
        return build(EVALUATORS[test].settings, self.settings.get(test, {}), f"settings: {test}")

    def against(self, source: str) -> EvaluationSettings:
        """The same, with one more source that attention is compared with."""
        given = self.settings.get("correlation", {})
        listed = [*self.of("correlation").against, source]
        return replace(self, settings={**self.settings, "correlation": {**given, "against": listed}})

    @property
    def needed(self) -> list[str]:
        """Every source that has to be computed."""
        asked = [source for test in self.tests for source in EVALUATORS[test].sources(self.of(test))]
        return [s for s in dict.fromkeys([*asked, *self.also]) if s != GIVEN]
