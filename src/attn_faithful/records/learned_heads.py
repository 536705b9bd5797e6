"""learned_heads.json: the weights of heads that a run fitted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from attn_faithful.records.json_values import NAN, Json, known_fields, numbers_defined


@dataclass(frozen=True)
class HeadWeight:
    """One head: its layer and number, from 0, and its weight."""

    layer: int
    head: int
    weight: float


@dataclass(frozen=True)
class LearnedHeads:
    """Weights of heads, fitted to leave-one-out.

    Attributes:
        weights: of each layer, a weight a head.
        fitted_on: the texts, in words.
        texts: how many of them.
        strength: of the ridge, in shares of the columns' mean square.
        r_squared, tau: on texts left out, see `functional.learned_heads.HeadFit`.
    """

    weights: list[list[float]]
    fitted_on: str = ""
    texts: int = 0
    strength: float = NAN
    r_squared: float = NAN
    tau: float = NAN

    @classmethod
    def from_json(cls, values: Json) -> LearnedHeads:
        return cls(**numbers_defined(cls, known_fields(cls, values)))

    def as_json(self) -> dict[str, Any]:
        """The content of learned_heads.json."""
        return asdict(self)

    def largest(self, n: int) -> list[HeadWeight]:
        """The heads with the largest weights of either sign, the largest first; of equal ones the lower layer's.

        Example:
            >>> [(each.layer, each.head) for each in LearnedHeads([[0.1, -3.0], [2.0, 0.0]]).largest(2)]
            [(0, 1), (1, 0)]
        """
        heads = []
        for layer, weights in enumerate(self.weights):
            heads += [HeadWeight(layer, head, weight) for head, weight in enumerate(weights)]
        return sorted(heads, key=lambda each: -abs(each.weight))[:n]

    @property
    def summary(self) -> str:
        """How they were fitted, in a sentence.

        Example:
            >>> LearnedHeads([[1.0]], "train", 300, 0.1, 0.25, 0.5).summary
            'learned_heads: weights fitted to leave-one-out on 300 texts (train); on texts left out tau 0.50, R2 0.25.'
        """
        return (
            f"learned_heads: weights fitted to leave-one-out on {self.texts} texts ({self.fitted_on}); on texts left "
            f"out tau {self.tau:.2f}, R2 {self.r_squared:.2f}."
        )

    def __repr__(self) -> str:
        return f"LearnedHeads({len(self.weights)} layers)\n{self.summary}"

    def _repr_html_(self) -> str:
        """A notebook's table: a row a layer, a column a head, the weights as numbers."""
        most = max(map(len, self.weights), default=0)
        heads = "".join(f'<th scope="col">head {head}</th>' for head in range(most))
        rows = []
        for layer, weights in enumerate(self.weights):
            cells = "".join(f"<td>{weight:+.2g}</td>" for weight in weights)
            rows.append(f'<tr><th scope="row">layer {layer}</th>{cells}</tr>')
        table = f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        return f'<p>{escape(self.summary)}</p><div style="overflow-x:auto">{table}</div>'
