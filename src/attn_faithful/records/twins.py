"""Records of twins: how a twin compares with its base."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from attn_faithful.records.json_values import NAN, Json, known_fields, number_or_nan

_OWN_KEYS = ("variant", "seed", "epoch", "seconds", "layers")  # of a twin, beside its metrics and numbers
TWIN_NUMBERS = ("attefa", "tvd", "jsd", "constant_tvd", "collapsed", "jsd_at_tvd")


@dataclass(frozen=True)
class Measured:
    """One number of a twin.

    Attributes:
        value: NaN where undefined; of "collapsed" a truth value.
        std, low, high: over the examples; None where the number has none.
        n, n_undefined: examples with and without a defined value; None where the number is not of examples.
        reason: why the value is undefined; None where it is defined.
        has_reason: whether the file names a reason at all, be it null.
    """

    value: float | bool
    std: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    n_undefined: int | None = None
    reason: str | None = None
    has_reason: bool = True

    @classmethod
    def from_json(cls, values: Json) -> Measured:
        known = {"value": None, **known_fields(cls, values)}
        for name in ("value", "std", "low", "high"):
            if name in known:
                known[name] = number_or_nan(known[name])
        return cls(**known, has_reason="reason" in values)

    def as_json(self) -> dict[str, Any]:
        """The entry of summary.json: without the keys that the number has not."""
        entry: dict[str, Any] = {"value": self.value}
        for name in ("std", "low", "high", "n", "n_undefined"):
            value = getattr(self, name)
            if value is not None:
                entry[name] = value
        if self.has_reason:
            entry["reason"] = self.reason
        return entry


@dataclass(frozen=True)
class TwinRecord:
    """A twin and how it compares with its base: an entry of "twins" in summary.json.

    Attributes:
        variant: objective and weight.
        seed: of its training.
        epoch: that was kept.
        seconds: of its training.
        metrics: accuracy, f1, roc_auc and whatever else says how well it predicts.
        numbers: AtteFa, TVD, JSD, the constant twin's TVD, whether it collapsed and, of a constrained twin, JSD at TVD.
        layers: of a stock model's twin, what changed layer by layer; empty for others.
    """

    variant: str
    seed: int
    epoch: int | None = None
    seconds: float | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Measured] = field(default_factory=dict)
    layers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def attefa(self) -> Measured:
        return self.numbers["attefa"]

    @property
    def tvd(self) -> Measured:
        return self.numbers["tvd"]

    @property
    def jsd(self) -> Measured:
        return self.numbers["jsd"]

    @property
    def constant_tvd(self) -> float:
        """TVD of the best constant prediction; NaN where it was not measured."""
        measured = self.numbers.get("constant_tvd")
        return NAN if measured is None else measured.value

    @property
    def collapsed(self) -> bool:
        """Whether the twin's predictions are no better than a constant's; False where it was not asked."""
        measured = self.numbers.get("collapsed")
        return measured is not None and bool(measured.value)

    @classmethod
    def from_json(cls, values: Json) -> TwinRecord:
        numbers = {name: Measured.from_json(values[name]) for name in TWIN_NUMBERS if name in values}
        known = {*_OWN_KEYS, *numbers}
        metrics = {name: value for name, value in values.items() if name not in known}
        return cls(
            variant=values["variant"],
            seed=values["seed"],
            epoch=values.get("epoch"),
            seconds=values.get("seconds"),
            metrics=metrics,
            numbers=numbers,
            layers=list(values.get("layers", [])),
        )

    def as_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"variant": self.variant, "seed": self.seed}
        if self.epoch is not None:
            entry["epoch"] = self.epoch
        if self.seconds is not None:
            entry["seconds"] = self.seconds
        entry.update(self.metrics)
        for name, measured in self.numbers.items():
            entry[name] = measured.as_json()
        if self.layers:
            entry["layers"] = self.layers
        return entry
