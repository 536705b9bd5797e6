"""Tiny random transformers classifiers of eleven families, and texts for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers
from torch import Tensor

from attn_faithful.models.stock.model import StockModel

PAD, BOS, EOS, VOCABULARY = 1, 0, 2, 60
COMMON = {"vocab_size": VOCABULARY, "num_labels": 3, "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
WIDTH = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
LENGTHS = (9, 6, 3, 1)


@dataclass(frozen=True)
class Reach:
    """Where the attention of one call may go.

    Attributes:
        causal: not to later positions.
        behind, ahead: how far, None for any distance.
        padding: whether to padding too: a decoder of BART or T5 is told of none.
    """

    causal: bool = False
    behind: int | None = None
    ahead: int | None = None
    padding: bool = False

    def __call__(self, mask: Tensor) -> Tensor:
        """Where attention may go in texts whose tokens are ``mask`` (B, T), bool (B, T, T)."""
        size = mask.shape[1]
        found = torch.zeros(len(mask), size, size, dtype=torch.bool)
        for b in range(len(mask)):
            for q in range(size):
                for k in range(size):
                    near = (self.behind is None or q - k <= self.behind) and (self.ahead is None or k - q <= self.ahead)
                    found[b, q, k] = (self.padding or mask[b, k]) and near and (k <= q or not self.causal)
        return found


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
        prefix: of its classes in transformers.
        settings: of its config.
        reach: of its attention calls, in order.
        reads: which token the classifier reads.
        encoder: how many of the calls stand in an encoder before a decoder.
        shifted: calls whose keys are the text one position later.
        own: the attention implementation that transformers gives it.
        scale: of its weights, as against the start of training, so that attention is far from uniform.
        dtype: of tests; eager attention that is computed in float32 whatever the type makes NaN of double masks.
    """

    prefix: str
    settings: dict[str, Any]
    reach: Sequence[Reach] = (Reach(),) * 3
    reads: str = "first"
    encoder: int = 0
    shifted: Sequence[int] = ()
    own: str = "sdpa"
    scale: float = 10.0
    dtype: torch.dtype = torch.float64


CAUSAL, LAST, SINGLE = (Reach(causal=True),) * 3, {"reads": "last"}, {"dtype": torch.float32}
DECODED = {"reads": "last", "encoder": 2, "shifted": (2, 4)}
# encoder, encoder, then of each decoder layer its own attention and the one to the encoder
CROSSED = (Reach(), Reach(), *(Reach(causal=True, padding=True), Reach()) * 2)
NEAR, WINDOW = Reach(behind=2, ahead=2), Reach(causal=True, behind=3)
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 40,
    "decoder_start_token_id": EOS,
    "forced_eos_token_id": EOS,
    "scale_embedding": True,
}
T5 = {
    "d_model": 32,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "d_kv": 8,
    "d_ff": 48,
    "decoder_start_token_id": PAD,
}
FAMILIES = {
    "bert": Family("Bert", WIDTH),
    "roberta": Family("Roberta", WIDTH),
    "distilbert": Family(
        "DistilBert", {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40}
    ),
    "electra": Family("Electra", {**WIDTH, "embedding_size": 16}),
    "albert": Family("Albert", {**WIDTH, "embedding_size": 16}),
    "modernbert": Family(
        "ModernBert",
        {**WIDTH, "local_attention": 4, "global_attn_every_n_layers": 2, "cls_token_id": BOS, "sep_token_id": EOS},
        (Reach(), NEAR, Reach()),
        **SINGLE,
    ),
    "gpt2": Family("GPT2", {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40}, CAUSAL, **LAST),
    "llama": Family("Llama", {**WIDTH, "num_key_value_heads": 2}, CAUSAL, **LAST, **SINGLE),
    "gemma2": Family(
        "Gemma2",
        {
            **WIDTH,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "query_pre_attn_scalar": 8,
            "sliding_window": 4,
            "attn_logit_softcapping": 5.0,
        },
        (WINDOW, CAUSAL[0], WINDOW),
        **LAST,
        **SINGLE,
        own="eager",
    ),
    "bart": Family("Bart", BART, CROSSED, **DECODED),
    "t5": Family("T5", T5, CROSSED, **DECODED, scale=1.5),
}
NAMES = tuple(FAMILIES)
DECODER_ONLY = ("gpt2", "llama", "gemma2")


def build(name: str, prefix: str | None = None, seed: int = 0, **settings: Any) -> Any:
    """A new classifier in eval mode, of a family or of another prefix with a family's settings.

    Weights are larger than at the start of training, so that attention is not uniform.
    """
    family = FAMILIES[name]
    prefix = prefix or family.prefix
    config = getattr(transformers, f"{prefix}Config")(**{**COMMON, **family.settings, **settings})
    torch.manual_seed(seed)
    model = getattr(transformers, f"{prefix}ForSequenceClassification")(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(family.scale)
            else:
                p.add_(torch.randn_like(p) * 0.1)
    return model


@cache
def stock(name: str, dtype: torch.dtype | None = None) -> Any:
    """A family's classifier, the same in every test: leave it as it is."""
    return build(name).to(dtype or FAMILIES[name].dtype)


@cache
def wrapped(name: str, queries: str = "auto", dtype: torch.dtype | None = None) -> StockModel:
    """A family's classifier behind the protocol, the same in every test."""
    return StockModel(stock(name, dtype), queries=queries)


@torch.no_grad()
def eager(model: Any, inputs: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    """What the plain model says with transformers' own eager attention, and that attention by call."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        output = model(**inputs, output_attentions=True)
    finally:
        model.set_attn_implementation(before)
    return output.logits, by_call(output)


def by_call(output: Any) -> list[Tensor]:
    """The attention that a plain model gives, in the order of its calls."""
    if hasattr(output, "attentions"):
        return list(output.attentions)
    pairs = zip(output.decoder_attentions, output.cross_attentions, strict=True)
    return [*output.encoder_attentions, *(each for pair in pairs for each in pair)]


def read(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """What a plain model takes of a batch."""
    return {name: batch[name] for name in ("input_ids", "attention_mask")}


def texts(lengths: Sequence[int] = LENGTHS, left: bool = False, seed: int = 0, padding: int = 0) -> dict[str, Tensor]:
    """Random texts that end with the one id that ends texts, padded on one side; it and the first id are special."""
    generator = torch.Generator().manual_seed(seed)
    size = max(lengths) + padding
    ids = torch.full((len(lengths), size), PAD)
    mask, special = torch.zeros_like(ids), torch.ones_like(ids)
    for b, length in enumerate(lengths):
        at = slice(size - length, size) if left else slice(length)
        ids[b, at] = torch.randint(5, VOCABULARY, (length,), generator=generator)
        mask[b, at] = 1
        special[b, at] = 0
        ids[b, at.stop - 1], special[b, at.stop - 1] = EOS, 1
        if length > 1:
            special[b, at.start or 0] = 1
    return {"input_ids": ids, "attention_mask": mask, "special_tokens_mask": special}
