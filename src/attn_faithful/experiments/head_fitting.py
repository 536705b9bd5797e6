"""Weights of heads for the source `learned_heads`: which texts they are fitted on, and the fit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.attributions.base import Request, attribute
from attn_faithful.attributions.learned_heads import attention_of_heads
from attn_faithful.data.rows import Rows
from attn_faithful.data.sources import TextData
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import LEARNED_HEADS, EvaluationSettings
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.experiments.undefined_texts import of_readable
from attn_faithful.functional.learned_heads import fit_heads
from attn_faithful.models.blocks import Block
from attn_faithful.models.inference import planned
from attn_faithful.records.learned_heads import LearnedHeads

FIT_TEXTS = 300  # on how many texts they are fitted, where nobody says otherwise
TRAIN = "train"

FoundText = tuple[int, Tensor, Tensor]  # place among the texts, attention of all heads (T, F), importance (T,)


@dataclass(frozen=True, eq=False)
class FitTexts:
    """Texts that weights of heads are fitted on.

    Attributes:
        texts: a data set, each text once.
        name: what they are, in words.
    """

    texts: Any
    name: str

    @classmethod
    def drawn(cls, data: TextData, split: str, n: int, seed: int, tested: Iterable[str]) -> FitTexts:
        """Texts of a split, by a draw that depends on the seed and on each text alone; those that are tested never.

        Args:
            data: the data set.
            split: of it.
            n: how many texts at most.
            seed: of the draw.
            tested: contents of the texts that are tested, see `contents`.
        """
        rows = data.splits[split]
        refused = set(tested)
        places: dict[str, int] = {}
        for place, content in enumerate(contents(rows)):
            if content not in refused:
                places.setdefault(content, place)
        order = sorted(places, key=lambda content: seed_for(seed, content, LEARNED_HEADS))
        chosen = rows.select([places[content] for content in order[:n]])
        return cls(chosen, f"{split} of {data.name}")

    @property
    def digest(self) -> str:
        """Of the texts in their order."""
        return hashlib.sha256(json.dumps(contents(self.texts)).encode()).hexdigest()


def contents(rows: Any) -> list[str]:
    """What tells the texts of a data set apart: the text, and of pairs its query."""
    queries = rows["query"] if "query" in rows.column_names else [None] * len(rows)
    return [json.dumps(pair) for pair in zip(rows["text"], queries, strict=True)]


def own_fit_texts(texts: TextData, split: str, n: int, seed: int) -> FitTexts:
    """Texts of the training split of the data that is tested.

    Args:
        texts: the data.
        split: that is tested.
        n: how many texts at most.
        seed: of the draw.

    Raises:
        InputError: there is none, or it is the one that is tested.
    """
    missing = None
    if TRAIN not in texts.splits:
        missing = f"{texts.name} has none"
    elif split == TRAIN:
        missing = "these are the texts that are tested"
    if missing is not None:
        raise InputError(
            f"The source {LEARNED_HEADS!r} needs training texts to fit weights of heads on, but {missing}; "
            "give some with --fit-data DATA (in Python fit_data=...)."
        )
    return FitTexts.drawn(texts, TRAIN, n, seed, contents(texts.splits[split]))


def given_fit_texts(fit_data: TextData, tested: Any, n: int, seed: int) -> FitTexts:
    """Texts of the training split of other data, or of its one split.

    Args:
        fit_data: other data.
        tested: the texts that are tested.
        n: how many texts at most.
        seed: of the draw.

    Raises:
        InputError: several splits, none of them for training; or no text beside those that are tested.
    """
    split = TRAIN
    if TRAIN not in fit_data.splits:
        split, *others = fit_data.splits
        if others:
            raise InputError(
                f"Expected a split {TRAIN!r} in {fit_data.name} to fit weights of heads on, but found "
                f"{', '.join(fit_data.splits)}; rename one, or give one file."
            )
    found = FitTexts.drawn(fit_data, split, n, seed, contents(tested))
    if not len(found.texts):
        raise InputError(f"Expected texts to fit weights of heads on, but all of {fit_data.name} are tested.")
    return found


@torch.inference_mode(False)
def learn_heads(
    evaluated: EvaluatedModel,
    rows: Rows,
    settings: EvaluationSettings,
    name: str,
    processes: ProcessGroup,
) -> LearnedHeads:
    """Fit weights of heads to leave-one-out with its sign, for the predicted class; the same in all processes.

    Leave-one-out is of the log-odds, whatever the setting `outcome`: the probability of a confident model hardly moves.
    A text that makes the model raise is left out.

    Args:
        evaluated: the model.
        rows: the encoded texts.
        settings: how leave-one-out is computed.
        name: of the texts, in words.
        processes: that share the texts.

    Raises:
        InputError: the model has no layers, or too few texts.
    """

    def of_block(block: Block) -> list[FoundText]:
        return of_readable(block, lambda each: _found(evaluated, rows, settings, each))

    found = processes.over_blocks(planned(evaluated.model, rows), of_block)
    in_order = sorted(found, key=lambda text: text[0])
    fit = fit_heads([attention for _, attention, _ in in_order], [importance for _, _, importance in in_order])
    n_layers = len(evaluated.model.probe.heads)
    return LearnedHeads(
        weights=fit.weights.view(n_layers, -1).tolist(),
        fitted_on=name,
        texts=fit.texts,
        strength=fit.strength,
        r_squared=fit.r_squared,
        tau=fit.tau,
    )


def _found(evaluated: EvaluatedModel, rows: Rows, settings: EvaluationSettings, block: Block) -> list[FoundText]:
    """Attention and importance of the texts of a block."""
    site = settings.tested(evaluated.model)[0]
    batch, encoded = evaluated.encode_block(rows, block, site)
    request = Request(
        model=evaluated.model,
        batch=batch,
        encoded=encoded,
        settings=replace(settings.sources, outcome="logit"),
        keys=block.keys,
        seed=settings.seed,
        token_ids=evaluated.token_ids,
        site=site,
    )
    attention = attention_of_heads(request).cpu()  # (B, T, F)
    importance = attribute("signed_leave_one_out", request).values  # (B, T)
    content = encoded.content.cpu()
    found = []
    for row, place in enumerate(block.first):
        inside = content[row]
        found.append((place, attention[row][inside], importance[row][inside]))
    return found
