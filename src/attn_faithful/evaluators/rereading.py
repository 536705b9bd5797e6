"""The model and the texts of a block, for tests that change one of them and look at the sources again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attn_faithful.models.protocol import Batch, Encoded


@dataclass(frozen=True)
class Reading:
    """What the model does with some texts, and how important their items are.

    Attributes:
        encoded: what the model does, at the block's site.
        sources: name -> importance (B, T), float64, NaN where nothing is content; "attention" among them if asked for.
    """

    encoded: Encoded
    sources: Mapping[str, Tensor]


def _all(logits: Tensor) -> Tensor:
    return logits


@dataclass(frozen=True)
class Rereading:
    """Reads the texts of a block again.

    Attributes:
        model: speaks the protocol; a test that changes its weights puts them back, whatever happens.
        batch: its inputs.
        keys: one a text; random choices of sources depend on them.
        read: ``read(batch, keys, names) -> Reading`` with the model as it then is, at the block's site, by the sources
            in ``names``; importance is about the classes that the block's is about.
        fixed: sources that are known of the texts as they are alone, such as those of a file.
        answers: the logits that the block is about, from the model's (..., C): of a multi-label model's block of one
            label those of "no" and "yes".
    """

    model: Any
    batch: Batch
    keys: Sequence[str]
    read: Callable[[Batch, Sequence[str], Sequence[str]], Reading]
    fixed: Collection[str] = ()
    answers: Callable[[Tensor], Tensor] = _all

    def again(self, names: Sequence[str]) -> Reading:
        """The same texts with the model as it now is."""
        return self.read(self.batch, self.keys, names)
