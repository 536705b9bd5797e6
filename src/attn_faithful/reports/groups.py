"""The runs of one model over seeds, and their numbers: what a row of the tables is about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from attn_faithful.records.facts import Fact
from attn_faithful.records.meta import DataFacts
from attn_faithful.records.scores import MetricFacts, ScoreRecord
from attn_faithful.records.twins import TwinRecord
from attn_faithful.reports.control_differences import F1Difference
from attn_faithful.reports.run import Run

_OF_TWIN = ("epoch", "f1", "attefa", "tvd", "jsd", "constant_tvd")


@dataclass(frozen=True)
class OverSeeds:
    """One number over seeds.

    Attributes:
        mean, std: over the seeds where it is defined (ddof 0); NaN without one.
        n, n_undefined: seeds with and without a value.
    """

    mean: float = math.nan
    std: float = math.nan
    n: int = 0
    n_undefined: int = 0

    @classmethod
    def of(cls, values: Sequence[float | None]) -> OverSeeds:
        defined = [value for value in values if value is not None and math.isfinite(value)]
        n_undefined = len(values) - len(defined)
        if not defined:
            return cls(n_undefined=n_undefined)
        return cls(float(np.mean(defined)), float(np.std(defined)), len(defined), n_undefined)


@dataclass(frozen=True)
class Performance:
    """How well models of one kind predict, over seeds."""

    accuracy: OverSeeds = OverSeeds()
    f1: OverSeeds = OverSeeds()
    roc_auc: OverSeeds = OverSeeds()


@dataclass(frozen=True)
class TwinOfSeed:
    """One twin of one base.

    Attributes:
        base_seed, seed: of the base's training and of the twin's.
        epoch: that was kept.
        f1: of the twin's predictions.
        attefa, tvd, jsd, constant_tvd: NaN where undefined.
        collapsed: whether its predictions are no better than a constant's.
        reason: why its AtteFa, of a constrained twin its JSD at TVD, is undefined.
        jsd_at_tvd: of a constrained twin; None for others.
    """

    base_seed: int
    seed: int
    epoch: int | None
    f1: float | None
    attefa: float
    tvd: float
    jsd: float
    constant_tvd: float
    collapsed: bool
    reason: str | None
    jsd_at_tvd: float | None = None

    @classmethod
    def of(cls, twin: TwinRecord, base_seed: int) -> TwinOfSeed:
        values = {name: twin.numbers[name].value for name in ("attefa", "tvd", "jsd", "constant_tvd")}
        reason, jsd_at_tvd = twin.attefa.reason, None
        constrained = twin.numbers.get("jsd_at_tvd")
        if constrained is not None:
            reason, jsd_at_tvd = constrained.reason, constrained.value
        return cls(
            base_seed=base_seed,
            seed=twin.seed,
            epoch=twin.epoch,
            f1=twin.metrics.get("f1"),
            **values,
            collapsed=twin.collapsed,
            reason=reason,
            jsd_at_tvd=jsd_at_tvd,
        )


@dataclass
class TwinGroup:
    """The twins of one kind, over the seeds of bases and twins.

    Attributes:
        variant: objective and weight.
        by_seed: one entry a twin.
        epoch, f1, attefa, tvd, jsd, constant_tvd: over them.
        jsd_at_tvd: of constrained twins; None for others.
        low, high: 95% bootstrap interval of AtteFa.
        n_examples, n_undefined_examples: texts of the first twin with and without a JSD.
    """

    variant: str
    by_seed: Sequence[TwinOfSeed]
    low: float = math.nan
    high: float = math.nan
    n_examples: int = 0
    n_undefined_examples: int = 0
    epoch: OverSeeds = field(init=False)
    f1: OverSeeds = field(init=False)
    attefa: OverSeeds = field(init=False)
    tvd: OverSeeds = field(init=False)
    jsd: OverSeeds = field(init=False)
    constant_tvd: OverSeeds = field(init=False)
    jsd_at_tvd: OverSeeds | None = field(init=False)

    def __post_init__(self) -> None:
        for name in _OF_TWIN:
            values = [getattr(twin, name) for twin in self.by_seed]
            setattr(self, name, OverSeeds.of(values))
        self.jsd_at_tvd = None
        at_limit = [twin.jsd_at_tvd for twin in self.by_seed]
        if at_limit[0] is not None:
            self.jsd_at_tvd = OverSeeds.of(at_limit)

    @property
    def collapsed(self) -> int:
        """How many collapsed."""
        return sum(twin.collapsed for twin in self.by_seed)

    @property
    def constrained(self) -> bool:
        """Whether they were trained under a limit of TVD."""
        return self.variant.startswith("constrained")

    def as_record(self) -> dict[str, Any]:
        """The entry of `Group.as_record`."""
        numbers = {name: asdict(getattr(self, name)) for name in _OF_TWIN}
        numbers["attefa"] |= {"low": self.low, "high": self.high}
        rows = [asdict(twin) for twin in self.by_seed]
        if self.jsd_at_tvd is None:
            for row in rows:
                del row["jsd_at_tvd"]
        else:
            numbers["jsd_at_tvd"] = asdict(self.jsd_at_tvd)
        counts = {"n_examples": self.n_examples, "n_undefined_examples": self.n_undefined_examples}
        return {"by_seed": rows, **numbers, "collapsed": self.collapsed, **counts}


@dataclass(frozen=True)
class BasePairs:
    """How far bases of different seeds lie apart: the yardstick beside the twins.

    Attributes:
        pairs: mean TVD of predictions and mean JSD of attention of every pair, NaN where no text has both.
        tvd_interval, jsd_interval: 95% bootstrap interval of the mean over pairs, over texts, which are drawn once for
            all pairs.
        n_examples: texts that have both in some pair.
    """

    pairs: Sequence[tuple[float, float]] = ()
    tvd_interval: tuple[float, float] = (math.nan, math.nan)
    jsd_interval: tuple[float, float] = (math.nan, math.nan)
    n_examples: int = 0

    @property
    def tvd(self) -> OverSeeds:
        return OverSeeds.of([tvd for tvd, _ in self.pairs])

    @property
    def jsd(self) -> OverSeeds:
        return OverSeeds.of([jsd for _, jsd in self.pairs])

    def as_record(self) -> dict[str, Any]:
        """The entry of `Group.as_record`."""
        record: dict[str, Any] = {"n_examples": self.n_examples}
        for name, number, ends in (("tvd", self.tvd, self.tvd_interval), ("jsd", self.jsd, self.jsd_interval)):
            low, high = ends
            record[name] = {**asdict(number), "low": low, "high": high}
        return record


@dataclass
class SeedRuns:
    """Runs of one model that differ in nothing but the seed.

    Attributes:
        axes: what tells the model from others: data, encoder or model, ... -> label.
        runs: one a seed.
    """

    axes: Mapping[str, str]
    runs: Sequence[Run]

    @property
    def title(self) -> str:
        """The labels of the axes in a row."""
        return " ".join(self.axes.values())

    def labels(self, axes: Sequence[str]) -> list[str]:
        """The label of each of some axes, a dash where the model has none."""
        return [self.axes.get(axis, "-") for axis in axes]

    @property
    def label_names(self) -> list[str]:
        return self.runs[0].label_names

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @cached_property
    def predicted(self) -> np.ndarray:
        """Predicted class of every text of every seed."""
        return np.concatenate([run.predicted for run in self.runs])

    def values(self, metric: str, source: str, site: str | None) -> np.ndarray:
        """A metric of every text of every seed, as `predicted`; NaN where undefined."""
        return np.concatenate([run.scores(metric, source, site).to_numpy() for run in self.runs])


@dataclass
class Group(SeedRuns):
    """Runs that differ in nothing but the seed, and their numbers over seeds.

    Attributes:
        named: the axes as the first run itself tells them; `axes` may have more.
        comparable: what two groups must share for their numbers to be compared.
        base: how well the bases predict.
        twins: by kind.
        base_pairs: between bases of different seeds.
        informative_mass: attention on planted words.
        tests: a record a number, each value the mean over seeds, n over all of them.
        metrics: what the metrics of the records are.
        facts: what tests say beside means, the seed behind the source where there are several.
        controls: how well those of Wiegreffe and Pinter predict, by kind, over the seeds of bases and twins.
        control_differences: by kind of control, F1 less that of the base or of the control "imposed".
        data: of the first run.
        select_on: the stages whose epoch was chosen on test data.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    comparable: str = ""
    base: Performance = Performance()
    twins: Mapping[str, TwinGroup] = field(default_factory=dict)
    base_pairs: BasePairs = field(default_factory=BasePairs)
    informative_mass: OverSeeds = field(default_factory=OverSeeds)
    tests: Sequence[ScoreRecord] = ()
    metrics: Mapping[str, MetricFacts] = field(default_factory=dict)
    facts: Sequence[Fact] = ()
    controls: Mapping[str, Performance] = field(default_factory=dict)
    control_differences: Mapping[str, F1Difference] = field(default_factory=dict)
    data: DataFacts = field(default_factory=DataFacts)
    select_on: Sequence[str] = ()

    @property
    def named_data(self) -> tuple[str, DataFacts]:
        """The name of the data set and its facts."""
        return self.axes["data"], self.data

    def as_record(self) -> dict[str, Any]:
        """The group as plain values, as `attn_faithful.run_recipe` returns it."""
        return {
            "axes": dict(self.axes),
            "named": dict(self.named),
            "comparable": self.comparable,
            "seeds": self.seeds,
            "runs": [str(run.path) for run in self.runs],
            "base": asdict(self.base),
            "twins": {variant: twins.as_record() for variant, twins in self.twins.items()},
            "base_pairs": self.base_pairs.as_record(),
            "informative_mass": asdict(self.informative_mass),
            "tests": [record.as_json() for record in self.tests],
            "metrics": {name: metric.as_json() for name, metric in self.metrics.items()},
            "facts": [fact.as_json() for fact in self.facts],
            "label_names": self.label_names,
            "controls": {kind: asdict(performance) for kind, performance in self.controls.items()},
            "control_differences": {kind: asdict(found) for kind, found in self.control_differences.items()},
            "data": self.data.as_json(),
            "select_on": list(self.select_on),
        }


def axes_of(models: Sequence[SeedRuns]) -> list[str]:
    """All axes of some models, in the order in which they first stand."""
    return list(dict.fromkeys(chain.from_iterable(model.axes for model in models)))


def all_metrics(groups: Sequence[Group]) -> dict[str, MetricFacts]:
    """What the metrics of some groups are, by name."""
    metrics: dict[str, MetricFacts] = {}
    for group in groups:
        metrics |= group.metrics
    return metrics
