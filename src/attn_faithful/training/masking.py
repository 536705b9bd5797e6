"""Masked fine-tuning: models that know masked texts from training, so that masking asks them nothing new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._seeds import generator_for

_SELECTION = "selection"


@dataclass(frozen=True)
class Masking:
    """Masks in the texts of a training: of each text a number of tokens, uniform from none to all, drawn at random.

    Random choices hang on the seed, the step and the text alone.

    Attributes:
        mask_id: the token that takes the place of others.
        seed: of the choices.

    Reference:
        Madsen et al. (2024), "Faithfulness measurable masked language models", section 4.1.

    Example:
        >>> masking = Masking(mask_id=9, seed=0)
        >>> ids, mask = torch.tensor([[3, 4, 5], [6, 7, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
        >>> masking.of_batch({"input_ids": ids, "attention_mask": mask}, step=1)["input_ids"]
        tensor([[9, 4, 5],
                [6, 7, 0]])
    """

    mask_id: int
    seed: int

    def of_batch(self, batch: Mapping[str, Any], step: int, process: int = 0, processes: int = 1) -> dict[str, Any]:
        """A batch in which half of the texts, drawn at random, have masks; of an odd number half on average.

        Args:
            batch: with `input_ids` and `attention_mask` (B, T), and `special_tokens_mask` where there are such tokens.
            step: of the training.
            process: which part of the texts of a step this is.
            processes: that have a part of equal size each.
        """
        ids = batch["input_ids"]
        content = batch["attention_mask"].bool()  # (B, T)
        if "special_tokens_mask" in batch:
            content = content & ~batch["special_tokens_mask"].bool()
        first = process * len(ids)
        chosen = self._half(len(ids) * processes, step)[first : first + len(ids)]
        masked = ids.cpu().numpy().copy()  # (B, T)
        is_content = content.cpu().numpy()
        for row in np.flatnonzero(chosen):
            masked[row] = self._masked(masked[row], is_content[row], step)
        return {**batch, "input_ids": _like(masked, ids)}

    def of_rows(self, rows: Any) -> Any:
        """An encoded data set in which every text has masks, the same at every call."""
        ids = rows["input_ids"]
        special: Sequence[Any] = [np.zeros(len(each), dtype=bool) for each in ids]
        if "special_tokens_mask" in rows.column_names:
            special = rows["special_tokens_mask"]
        masked = []
        for of_text, is_special in zip(ids, special, strict=True):
            masked.append(self._masked(np.asarray(of_text), ~np.asarray(is_special, dtype=bool), _SELECTION))
        return rows.with_columns(input_ids=masked)

    def _half(self, texts: int, step: int) -> np.ndarray:
        """Which of so many texts are masked, (texts,) bool."""
        generator = generator_for(self.seed, step, "masked half")
        size = (texts + generator.integers(2)) // 2  # rounded up or down
        chosen = np.zeros(texts, dtype=bool)
        chosen[generator.permutation(texts)[:size]] = True
        return chosen

    def _masked(self, ids: np.ndarray, content: np.ndarray, when: object) -> np.ndarray:
        """The ids (T,) with a random number of the content tokens masked; padding may stand on either side."""
        places = np.flatnonzero(content)
        generator = generator_for(self.seed, when, "masks", *ids[places])
        count = generator.integers(len(places) + 1)
        masked = ids.copy()
        masked[generator.permutation(places)[:count]] = self.mask_id
        return masked


def _like(values: np.ndarray, ids: Tensor) -> Tensor:
    return torch.from_numpy(values).to(ids)
