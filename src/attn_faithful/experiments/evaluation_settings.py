"""Which tests an evaluation runs, and how: the part ``evaluation`` of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from attn_faithful._checks import InputError, check_choice
from attn_faithful.attributions.base import SOURCES, SourceSettings
from attn_faithful.evaluators import attefa, randomisation
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.metric_table import all_tests
from attn_faithful.evaluators.null_controls import CONTROLS
from attn_faithful.experiments.spellings import stored
from attn_faithful.experiments.strict_settings import build
from attn_faithful.models.protocol import JOINT, QUERIES

LEARNED_HEADS = "learned_heads"
GIVEN = "given"  # the source of importance that was computed elsewhere, in settings and in tables
EVERY = "all"
RANKING = ("flips", "erasure", "polarity", "stability", randomisation.NAME)  # tests of a list of rankings
UNITS = ("word", "token")
SPECIAL_TOKENS = ("exclude", "keep")


@dataclass(frozen=True)
class EvaluationSettings:
    """Which tests to run, and how.

    Attributes:
        tests: names of evaluators. A recipe may give a mapping of names to settings in their place; the settings then
            stand in `test_settings`.
        sites: of the model's attention, where to test; empty for the one nearest to the output, "all" for each.
        queries: of stock transformers models, whose rows of attention are tested; see `models.stock.model.StockModel`.
            None for those that the model was wrapped with, "auto" where it was not told.
        heads: of stock transformers models, which are tested, by number; empty for all, None for those that the model
            was wrapped with.
        units: "word" or "token": what the items of models with sub-word tokenizers are.
        special_tokens: "exclude", or "keep" to test special tokens like any other (units: token).
        test_settings: test -> its settings.
        sources: how importance is computed.
        extra_sources: sources of importance to compute and store beside those that the tests need.
        controls: attention that takes the place of the model's, so that each number stands beside chance.
        target: the class that importance is about: "predicted", "gold" or the name of a class.
        seed: of all random choices.
    """

    tests: list[str] = field(default_factory=list)
    sites: list[str] = field(default_factory=list)
    queries: str | None = None
    heads: list[int] | None = None
    units: str = "word"
    special_tokens: str = "exclude"
    test_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: SourceSettings = field(default_factory=SourceSettings)
    extra_sources: list[str] = field(default_factory=list)
    controls: list[str] = field(default_factory=lambda: ["uniform", "random"])
    target: str = "predicted"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.queries is not None:
            check_choice("queries", self.queries, QUERIES)
        check_choice("units", self.units, UNITS)
        check_choice("special_tokens", self.special_tokens, SPECIAL_TOKENS)
        if self.special_tokens == "keep" and self.units == "word":
            raise InputError("Special tokens are no words: with special_tokens keep set units to token.")
        for test in [*self.tests, *self.test_settings]:
            check_choice("test", test, all_tests())
            if test == attefa.TEST.name:
                raise InputError(f"The test {test!r} needs a trained twin; use attn-faithful {test}.")
        twice = {test for test in self.tests if self.tests.count(test) > 1}
        if twice:
            raise InputError(f"tests: {min(twice)!r} stands twice.")
        for control in self.controls:
            check_choice("control", control, CONTROLS)
        for source in self.extra_sources:
            check_choice("source", source, SOURCES)
        for test in EVALUATORS:
            self._check_sources(test)

    def _check_sources(self, test: str) -> None:
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
        if not self.sites:
            return (single[-1],)
        return tuple(check_choice("site", site, model.sites) for site in self.sites)

    def of(self, test: str) -> Any:
        """The settings of one test."""
        return build(EVALUATORS[test].settings, self.test_settings.get(test, {}), f"settings: {test}")

    def in_full(self) -> dict[str, dict[str, Any]]:
        """All settings of each test that runs, by the test's name."""
        return {test: asdict(self.of(test)) for test in self.tests}

    @property
    def asks_distribution(self) -> bool:
        """Whether a test asks if erased texts are in distribution."""
        if "erasure" not in self.tests:
            return False
        erasure = self.of("erasure")
        return erasure.in_distribution and bool(erasure.chosen(None))

    def against(self, source: str) -> EvaluationSettings:
        """The same, with one more source that attention is compared with, and that is ranked beside the others."""
        test_settings = dict(self.test_settings)
        test_settings["correlation"] = self._with("correlation", "against", source)
        for test in RANKING:
            if test in self.tests:
                test_settings[test] = self._with(test, "rankings", source)
        return replace(self, test_settings=test_settings)

    def _with(self, test: str, key: str, source: str) -> dict[str, Any]:
        """The settings of a test with one more source in a list of them, which stands there once."""
        listed = dict.fromkeys([*getattr(self.of(test), key), source])
        return {**self.test_settings.get(test, {}), key: list(listed)}

    @property
    def needed(self) -> list[str]:
        """Every source that has to be computed."""
        return computed([*self.sources_of(self.tests), *self.extra_sources])

    @property
    def learns_heads(self) -> bool:
        """Whether weights of heads have to be fitted."""
        return LEARNED_HEADS in self.needed

    def sources_of(self, tests: Sequence[str]) -> list[str]:
        """The sources that some tests need, those of one test after those of another."""
        sources: list[str] = []
        for test in tests:
            sources += EVALUATORS[test].sources(self.of(test))
        return sources

    def on_disk(self) -> dict[str, Any]:
        """The settings by the keys of meta.json and of digests, which keep the old names."""
        return stored(asdict(self), "evaluation")


def computed(sources: Sequence[str]) -> list[str]:
    """Each source once, without importance that was computed elsewhere."""
    return [source for source in dict.fromkeys(sources) if source != GIVEN]
