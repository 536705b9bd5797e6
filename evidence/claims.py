"""What the papers claim, as numbers with intervals, and what ours say to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evidence.estimates import Estimate


@dataclass(frozen=True)
class Claim:
    """One claim of a paper about one number.

    Attributes:
        paper: name of the recipe.
        says: the claim in words.
        measure: what the number is.
        where: data set and model.
        estimate: ours; without seeds where it was not run.
        above: the claim says that the number lies above this; None where it says below.
        below: the same for below.
        zero: the number of no effect, which a weakened claim still lies on the right side of.
    """

    paper: str
    says: str
    measure: str
    where: str
    estimate: Estimate
    above: float | None = None
    below: float | None = None
    zero: float = 0.0

    @property
    def bound(self) -> str:
        """What the number had to be, such as "> 0.4"."""
        return f"> {self.above:g}" if self.above is not None else f"< {self.below:g}"

    @property
    def verdict(self) -> str:
        """What the interval says.

        "confirmed": it lies wholly on the claim's side of the bound; "refuted": wholly on the other side; "weakened":
        it holds the bound and lies wholly on the claim's side of no effect; "open": it holds both; else "not run".
        """
        if not self.estimate.seeds:
            return "not run"
        low, high, bound, zero = self.estimate.low, self.estimate.high, self.above, self.zero
        if self.above is None:  # the same with all signs turned
            low, high, bound, zero = -high, -low, -(self.below or 0.0), -zero
        if low > bound:
            return "confirmed"
        if high < bound:
            return "refuted"
        if low > zero:
            return "weakened"
        return "open"


def counted(claims: Sequence[Claim]) -> dict[str, int]:
    """Verdict -> how many claims have it, in the order of the table."""
    order = ("confirmed", "weakened", "open", "refuted", "not run")
    return {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in order}
