"""The texts of a training of a transformers classifier: encoded for it, and without those that it cannot read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.rows import Rows
from attn_faithful.data.sources import TextData
from attn_faithful.experiments.inputs import encoded_for
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.readable_texts import Split, read_split
from attn_faithful.models.inference import Collate
from attn_faithful.models.stock.model import StockModel


@dataclass(frozen=True)
class StockTexts:
    """The texts of every split as a transformers classifier reads them.

    Attributes:
        model: the classifier.
        texts: the data set.
        encoded: split -> its texts, encoded.
        select_on: the split that the epoch is chosen on.
    """

    model: StockModel
    texts: TextData
    encoded: dict[str, Rows]
    select_on: str

    @classmethod
    def encode(cls, model: StockModel, tokenizer: Any, texts: TextData, select_on: str, what: str) -> StockTexts:
        """Encode the texts of every split.

        Args:
            model, texts, select_on: see the attributes.
            tokenizer: the model's.
            what: is trained, for errors.

        Raises:
            InputError: a split that training needs is empty.
        """
        encoded = {}
        for split, rows in texts.splits.items():
            encoded[split] = Rows.of(encoded_for(model, tokenizer, rows))
        for split in ("test", select_on):
            if not len(encoded.get(split, ())):
                raise InputError(
                    f"The split {split!r} of {texts.name} is empty; {what} need texts beside those of train."
                )
        return cls(model, texts, encoded, select_on)

    @property
    def training(self) -> list[str]:
        """The splits that a model is trained with."""
        return ["train", self.select_on]

    def collate(self, split: str) -> Collate:
        """What makes batches of a split."""
        return collator(self.encoded[split], pad_token_id=self.model.pad_token_id)

    def read(self, splits: Sequence[str]) -> dict[str, Split]:
        """Which texts of some splits the model can read.

        Raises:
            InputError: it can read none of a split.
        """
        return {name: read_split(self.model, name, self.encoded[name], self.collate(name)) for name in splits}
