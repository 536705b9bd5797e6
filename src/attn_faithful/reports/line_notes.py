"""What is said beside the lines of a text: how far an importance agrees, what another attention changes, set sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attn_faithful.reports.answer.cores import REST
from attn_faithful.reports.heads import Heads, heads_of
from attn_faithful.reports.numbers import counted, number
from attn_faithful.reports.run import ATTENTION, Run
from attn_faithful.reports.scores import CORE


@dataclass(frozen=True)
class Alternative:
    """What is known of another attention of a text; None where it is not.

    Attributes:
        change: TVD of its probabilities from the model's.
        moved: its JSD from the model's attention.
        exact: whether there is none better.
        slot: which slot was changed, of an alternative in which one was.
    """

    change: float | None = None
    moved: float | None = None
    exact: bool | None = None
    slot: int | None = None


class LineNotes:
    """What is said beside the lines of a run at one site."""

    def __init__(self, run: Run, site: str | None) -> None:
        self.run, self.site = run, site
        self.noun = run.noun(site)
        self._scores: dict[tuple[str, str], tuple[np.ndarray, list[str | None]]] = {}

    def on_source(self, key: str, i: int) -> str:
        """How far an importance agrees with attention; empty where they were not compared."""
        pair = f"attention~{key}"
        if pair not in self._compared:
            return ""
        tau, reason = self._score("attention_correlation", pair, i)
        if reason is not None:
            return f"tau undefined: {reason}"
        return f"tau with attention {number(tau, 2)}"

    @cached_property
    def _compared(self) -> list[str]:
        return self.run.sources("attention_correlation", self.site)

    def on_alternative(self, key: str, alternative: Alternative, i: int) -> str:
        """What another attention changes, and whether a better one may be there."""
        parts = []
        if key == "head-flip":
            return self._on_one_head(alternative)
        if alternative.change is not None:
            parts.append(f"p changes by {number(alternative.change, 3)}")
        if alternative.moved is not None and not math.isnan(alternative.moved):
            parts.append(f"JSD {number(alternative.moved, 2)}")
        text = ", ".join(parts)
        if key == "flip":
            return f"{text}: the least that flips it"
        if key != "adversarial":
            return text
        if alternative.exact:
            return f"{text} (exact)"
        upper, _ = self._score("adversarial_upper", ATTENTION, i)
        if math.isnan(upper):
            return f"{text} (the best found)"
        return f"{text} (found; at most {number(upper, 2)})"

    def _on_one_head(self, alternative: Alternative) -> str:
        """Which head was changed, and what that changes."""
        change = f"p changes by {number(alternative.change, 3)}"
        if self._heads is None or alternative.slot is None:
            return change
        return f"{self._heads.named([alternative.slot])} alone: {change}"

    @cached_property
    def _heads(self) -> Heads | None:
        return heads_of(self.run, self.site)

    def on_set(self, key: str, i: int) -> str:
        """How many items a set has, and how many attention's order needs."""
        size, reason = self._score("flip_size", key, i)
        if math.isnan(size):
            return reason or ""
        by_attention, never = self._score("flip_size", ATTENTION, i)
        needs = f"attention order needs {by_attention:.0f}"
        if never is not None:
            needs = f"attention order: {never}"
        return f"{counted(size, self.noun)}; {needs}"

    def on_core(self, i: int) -> str:
        """What the items of the core prove, and of more classes how few there might be."""
        size, reason = self._score("core_size", CORE, i)
        if math.isnan(size):
            return reason or ""
        if not size:
            return "none: no attention could change the decision"
        proves = f"this {self.noun}'s weight proves the decision"
        if size > 1:
            proves = f"these {counted(size, self.noun)}' weights prove the decision"
        lower, _ = self._score("core_size_lower", CORE, i)
        fewer = f" (at least {lower:.0f} needed)" if lower < size else ""
        return f"{proves}{fewer}; {REST}"

    def _score(self, metric: str, source: str, i: int) -> tuple[float, str | None]:
        """A number of one text, and why it is undefined."""
        key = (metric, source)
        if key not in self._scores:
            values = self.run.scores(metric, source, self.site).to_numpy()
            self._scores[key] = values, self.run.reasons(metric, source, self.site)
        values, reasons = self._scores[key]
        return float(values[i]), reasons[i]
