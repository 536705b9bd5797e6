"""The tokens of encoded texts end to end, and the texts with some of them masked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from attn_faithful.data.rows import Ragged, Rows
from attn_faithful.functional.erasure import erasure_counts
from attn_faithful.functional.roar import mask_top

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

# names in a file of masks: before that of a split, and of the count of undefined texts
_SPLIT, _UNDEFINED = "split-", "undefined"


@dataclass(frozen=True)
class Tokens:
    """The content tokens of the texts of a split, end to end.

    Attributes:
        rows: the encoded texts.
        ids: (M,), of all tokens, special ones too.
        content: (M,), which of them are content.
        bounds: (B + 1,), where the content of each text begins, and the end; N in all.
    """

    rows: Rows
    ids: Ragged
    content: Flags
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Rows) -> Tokens:
        """Those of a split."""
        ids = rows["input_ids"]
        if not isinstance(ids, Ragged):  # a split without any token
            ids = Ragged(np.zeros(0, dtype=np.int64), np.zeros(len(rows) + 1, dtype=np.int64))
        content = np.concatenate([np.zeros(0, dtype=bool), *rows.content])
        before = np.concatenate([[0], np.cumsum(content)])  # content tokens before each token
        return cls(rows, ids, content, before[ids.bounds])

    @property
    def none(self) -> Flags:
        """No token masked, (N,)."""
        return np.zeros(int(self.bounds[-1]), dtype=bool)

    def top(self, importance: Array, masked: Flags, share: float) -> Flags:
        """The most important tokens beside those that are masked, a share of each text in all; (N,)."""
        lengths = torch.from_numpy(np.diff(self.bounds))
        counts = erasure_counts(lengths, [share])[:, 0].numpy()  # (B,)
        return mask_top(importance, masked, self.bounds, counts)

    def n_undefined(self, importance: Array) -> int:
        """How many texts have a token without a defined importance."""
        undefined = np.flatnonzero(np.isnan(importance))
        text = np.searchsorted(self.bounds, undefined, side="right") - 1
        return len(np.unique(text))

    def with_masks(self, masked: Flags, mask_token: int) -> Rows:
        """The texts with the mask token in the place of each masked one.

        Args:
            masked: (N,).
            mask_token: its id.
        """
        ids = self.ids.values.copy()
        ids[np.flatnonzero(self.content)[masked]] = mask_token
        return self.rows.with_columns(input_ids=Ragged(ids, self.ids.bounds))


@dataclass(frozen=True)
class Masks:
    """Which tokens of the texts of all splits are masked.

    Attributes:
        by_split: name of a split -> (N,).
        n_undefined: texts without a defined importance, which are masked from their first token on.
    """

    by_split: Mapping[str, Flags]
    n_undefined: int = 0

    def save(self, path: Path) -> None:
        """Write them to a file."""
        arrays = {f"{_SPLIT}{split}": flags for split, flags in self.by_split.items()}
        save_file({_UNDEFINED: np.array(self.n_undefined), **arrays}, path)

    @classmethod
    def load(cls, path: Path) -> Masks:
        """Those of a file."""
        arrays = load_file(path)
        n_undefined = int(arrays.pop(_UNDEFINED))
        return cls({name.removeprefix(_SPLIT): flags for name, flags in arrays.items()}, n_undefined)


@dataclass(frozen=True)
class RoarTexts:
    """The texts of all splits, and how tokens of them are masked.

    Attributes:
        splits: name -> its tokens.
        mask_token: the id that takes the place of a masked token.
    """

    splits: Mapping[str, Tokens]
    mask_token: int

    @classmethod
    def of(cls, rows: Mapping[str, Rows], mask_token: int) -> RoarTexts:
        return cls({split: Tokens.of(of_split) for split, of_split in rows.items()}, mask_token)

    @property
    def no_masks(self) -> Masks:
        return Masks({split: tokens.none for split, tokens in self.splits.items()})

    @property
    def all_masks(self) -> Masks:
        return Masks({split: ~tokens.none for split, tokens in self.splits.items()})

    def top(self, importance: Mapping[str, Array], masks: Masks, share: float) -> Masks:
        """More masks, see `Tokens.top`."""
        more = {}
        n_undefined = 0
        for split, tokens in self.splits.items():
            more[split] = tokens.top(importance[split], masks.by_split[split], share)
            n_undefined += tokens.n_undefined(importance[split])
        return Masks(more, n_undefined)

    def rows(self, masks: Masks) -> dict[str, Rows]:
        """The texts of all splits with masks."""
        return {split: self.rows_of(split, masks) for split in self.splits}

    def rows_of(self, split: str, masks: Masks) -> Rows:
        """The texts of a split with masks."""
        return self.splits[split].with_masks(masks.by_split[split], self.mask_token)
