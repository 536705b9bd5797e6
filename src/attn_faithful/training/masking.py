"""Masked fine-tuning: models that know masked texts from training, so that masking asks them nothing new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._seeds import generator_for

PRIOR_TOLERANCE = 0.02  # of probabilities of texts with every token masked
_SELECTION = "selection"


@dataclass(frozen=True)
class Masking:
    """Masks in the texts of a training: of each text a number of tokens, uniform from none to all, drawn at random.

    Random choices hang on the seed, the step and the text alone.

    Attributes:
        mask_id: the token that takes the place of others.
        seed: of the choices.
        prior: (C,) what a model should say of a text with every token masked, see `class_prior`.

    Reference:
        Madsen et al. (2024), "Faithfulness measurable masked language models".

    Example:
        >>> masking = Masking(mask_id=9, seed=0)
        >>> ids, mask = torch.tensor([[3, 4, 5], [6, 7, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
        >>> masking.of_batch({"input_ids": ids, "attention_mask": mask}, step=1)["input_ids"]
        tensor([[9, 4, 5],
                [6, 7, 0]])
    """

    mask_id: int
    seed: int
    prior: Sequence[float] = ()

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
        masked = []
        for ids, content in zip(rows["input_ids"], rows.content, strict=True):
            masked.append(self._masked(np.asarray(ids), content, _SELECTION))
        return rows.with_columns(input_ids=masked)

    def all_of_rows(self, rows: Any) -> Any:
        """An encoded data set in which every content token of every text is masked."""
        masked = []
        for ids, content in zip(rows["input_ids"], rows.content, strict=True):
            masked.append(np.where(content, self.mask_id, ids))
        return rows.with_columns(input_ids=masked)

    def prior_gap(self, chances: np.ndarray) -> float:
        """How far a model's mean probabilities of texts with every token masked (n, C) are from the prior, at most."""
        return float(np.abs(chances.mean(0) - np.asarray(self.prior)).max())

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


def class_prior(labels: Any, classes: int, weights: Sequence[float] | None = None) -> list[float]:
    """What is least wrong to say of a text of which nothing is known: the share of each class, by its weight.

    Args:
        labels: of the training texts, (n,), or of several a text 0 and 1 (n, C).
        classes: C.
        weights: a factor a class on its examples' loss; of several labels a text on their positive term.

    Returns:
        (C,) probabilities.

    Example:
        >>> class_prior([0, 1, 1, 1], 2), class_prior([0, 1, 1, 1], 2, weights=[3, 1])
        ([0.25, 0.75], [0.5, 0.5])
    """
    labels = np.asarray(labels)
    factors = np.ones(classes) if weights is None else np.asarray(weights, dtype=float)
    if labels.ndim == 2:
        positive = labels.sum(0) * factors
        return (positive / (positive + len(labels) - labels.sum(0))).tolist()
    counts = np.bincount(labels, minlength=classes) * factors
    return (counts / counts.sum()).tolist()


def _like(values: np.ndarray, ids: Tensor) -> Tensor:
    return torch.from_numpy(values).to(ids)
