"""Records of ROAR: how well a model predicts that was trained on masked texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from attn_faithful.records.json_values import NAN, Json, known_fields, number_or_nan

PLAIN, RECURSIVE = "plain", "recursive"
RANDOM = "random"  # the source that others are compared with
ALL = "all"  # the source of texts that are masked altogether, whatever the order
FOLDER = "roar"  # in the run folder of the cell
ROAR_FILES = f"{FOLDER}/*/*/*.json"  # of points: by grid of shares and source


@dataclass(frozen=True)
class RoarPoint:
    """One model trained and tested on masked texts.

    Attributes:
        source: whose top tokens are masked; `RANDOM`, or `ALL` where every token is.
        mode: `PLAIN`, or `RECURSIVE` where importance is that of the model at the share before.
        share: of each text's tokens, rounded up.
        masked: share of all tokens of the test texts that were masked: what rounding makes of `share`.
        metrics: "accuracy", "f1" and "roc_auc" on the masked test texts.
        n: test texts.
        n_undefined: texts of all splits without a defined importance, masked from their first token on.
        epoch, seconds: of the training.
        versions: package -> version.
        folder: where it was read from, below that of its grid; "" where it was not read.
    """

    source: str
    mode: str
    share: float
    masked: float
    metrics: Mapping[str, float]
    n: int
    n_undefined: int
    epoch: int
    seconds: float
    versions: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @classmethod
    def from_json(cls, values: Json) -> RoarPoint:
        known = known_fields(cls, values)
        known["metrics"] = {name: number_or_nan(value) for name, value in values.get("metrics", {}).items()}
        known["masked"] = number_or_nan(values.get("masked", NAN))
        return cls(**known)

    def as_json(self) -> dict[str, Any]:
        """The content of its file."""
        values = asdict(self)
        del values["folder"]
        return values
