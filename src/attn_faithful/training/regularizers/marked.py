"""What regularizers of marked words share: the column that they read, and a check of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.training.regularizers.base import Regularizer

_SPECIAL = "special_tokens_mask"


class MarkedRegularizer(Regularizer):
    """A regularizer of the attention on marked tokens, of any model with attention over the tokens.

    Attributes:
        kind: of marks, the name of their column.
        setting: that gives them.
        leaves_others: whether each text needs a token that is not marked.
    """

    of_attention = True
    kind: str
    setting: str
    leaves_others: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.kind,)

    def check_rows(self, rows: Any) -> None:
        if self.kind not in rows.column_names:
            raise InputError(
                f"The regularizer {self.name!r} needs to know which words it is about, but the training split has no "
                f"column {self.kind!r}; set {self.setting}."
            )
        n_marked = 0
        for place in range(len(rows)):
            marked = np.asarray(rows[self.kind][place]) > 0  # (T,)
            content = np.ones(len(marked), dtype=bool)
            if _SPECIAL in rows.column_names:
                content = np.asarray(rows[_SPECIAL][place]) == 0
            n_marked += int((marked & content).any())
            if self.leaves_others and content.any() and marked[content].all():
                raise InputError(
                    f"The regularizer {self.name!r} needs a token in each text that attention may go to, but all "
                    f"{int(content.sum())} of the training example {rows['example'][place]!r} are marked; leave the "
                    f"text out, mark fewer words ({self.setting}), or raise tokenizer.max_length if it was cut."
                )
        if not n_marked:
            raise InputError(
                f"The regularizer {self.name!r} needs marked words, but none of the {len(rows)} training texts has "
                f"one; set {self.setting} to another column."
            )
