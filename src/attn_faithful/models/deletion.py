"""Logits of texts without some of their tokens, by the shortest way that the encoder allows.

- Encoders that read each token alone: the states stay, and the scores that are left are projected again.
- One recurrent layer, one token deleted: only the states behind it change ahead, and those before it back, if any
  direction reads back.
- Convolutions, one token deleted: only the windows that span it change.
- All else: each shortened text is run as it is, with others that are about as long.

The logits are the same but for rounding; which way is taken follows from the encoder and from what is deleted. Of equal
shortened texts one is run, so that a tie stays one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.models.distinct_deletions import first_equal, from_first, is_first
from attn_faithful.models.encoders import CNNEncoder, Encoder, RecurrentEncoder, TransformerEncoder
from attn_faithful.models.protocol import Encoded
from attn_faithful.models.shortened import shortened
from attn_faithful.models.single_deletions import ConvolvedTexts, PooledModel, RecurrentTexts, Texts

STATES = 2**24  # numbers that the states of texts with one token deleted may hold
RUN = 2**19  # the same of texts that are run again: what a processor's cache holds
ATTENDED = 2**22  # the same of a transformer's attention
WEIGHTS = 2**20  # attention weights projected together
LEFT = 1e-20  # attention left below which its ratios may be lost: float32 ends at 1e-38


def logits_without(
    model: PooledModel,
    inputs: Mapping[str, Tensor],
    keep: Tensor,
    rows: int,
) -> Tensor:
    """Logits (B, K, C), in float32 at least, of a model in eval mode; see `AttentionClassifier.without`."""
    given = {"input_ids", "inputs_embeds"} & inputs.keys()
    if not given or (len(given) > 1 and not model.reads_ids):
        raise InputError("Expected either `input_ids` or `inputs_embeds`, and not both.")
    first = first_equal(inputs, keep, ordered=not model.reads_alone)  # (B, K)
    if model.reads_alone:
        return from_first(_projected_again(model, inputs, keep), first)
    distinct = is_first(first)
    read = keep.new_ones(keep.shape[0], keep.shape[2])  # (B, T)
    mask = inputs.get("attention_mask")
    if mask is not None:
        read = mask.bool()
    deleted = (read[:, None] & ~keep).sum(-1)  # (B, K), how many tokens
    # (B, K) each: which way a shortened text is computed
    unchanged = deleted == 0
    single = torch.zeros_like(distinct)
    texts_class = _texts_class(model.encoder)
    if texts_class is not None:
        single = (deleted == 1) & distinct
    several = distinct & ~(unchanged | single)

    precise = torch.float32
    if model.dtype == torch.float64:
        precise = torch.float64
    logits = torch.empty(*keep.shape[:2], model.config.num_labels, dtype=precise, device=keep.device)
    texts = None
    if texts_class is not None and bool(single.any()):
        texts = texts_class(model, inputs, read)
        logits[single] = _one_deleted(texts, read, keep, single).to(precise)
    if bool(unchanged.any()):
        own_logits = model(**inputs).logits if texts is None else texts.unchanged()  # (B, C)
        text, _ = unchanged.nonzero(as_tuple=True)
        logits[unchanged] = own_logits.to(precise)[text]
    if bool(several.any()):
        logits[several] = _run_again(model, inputs, read, keep, several, rows).to(precise)
    return from_first(logits, first)


def _texts_class(encoder: Encoder) -> type[Texts] | None:
    """What deletes single tokens from texts of an encoder; None where they are run again."""
    if isinstance(encoder, RecurrentEncoder) and len(encoder.ahead) == 1:
        return RecurrentTexts
    if isinstance(encoder, CNNEncoder):
        return ConvolvedTexts
    return None


def _projected_again(model: PooledModel, inputs: Mapping[str, Tensor], keep: Tensor) -> Tensor:
    """Logits (B, K, C) from the same states, under the scores of the tokens that are left."""
    encoded = model.encode(inputs)
    project = _renormalized if model.attention.projection == "softmax" else _projected
    weights = max(1, keep.shape[0] * keep.shape[2])  # of one alternative a text
    size = max(1, WEIGHTS // weights)
    logits = []
    for part in keep.split(size, dim=1):
        attention = project(encoded, part)  # (B, K, T)
        logits.append(encoded.decode(attention[:, :, None]))
    return torch.cat(logits, dim=1)


def _projected(encoded: Encoded, keep: Tensor) -> Tensor:
    """Attention (B, K, T) of the scores that are left."""
    attention = encoded.project(encoded.scores.expand(keep.shape), encoded.allowed & keep)
    return attention.to(encoded.attention.dtype)


def _renormalized(encoded: Encoded, keep: Tensor) -> Tensor:
    """Softmax of the scores that are left: the share of each weight, unless hardly any weight is left."""
    attention = encoded.attention * keep  # (B, K, T)
    mass = attention.sum(-1, keepdim=True)  # (B, K, 1)
    attention /= mass.clamp(min=LEFT)
    too_little = mass[..., 0] < LEFT
    if bool(too_little.any()):
        text, alternative = too_little.nonzero(as_tuple=True)
        allowed = encoded.allowed[text, 0] & keep[text, alternative]
        again = encoded.project(encoded.scores[text, 0], allowed)
        attention[text, alternative] = again.to(attention.dtype)
    return attention


def _run_again(
    model: PooledModel,
    inputs: Mapping[str, Tensor],
    read: Tensor,
    keep: Tensor,
    selected: Tensor,
    rows: int,
) -> Tensor:
    """Logits (R, C) of the selected shortened texts, (B, K) bool, each run as a text of its own."""
    text, alternative = selected.nonzero(as_tuple=True)
    kept = read[text] & keep[text, alternative]  # (R, T)
    lengths = kept.sum(1)  # (R,)
    order = lengths.argsort(descending=True, stable=True)
    heads = 0
    if isinstance(model.encoder, TransformerEncoder):
        heads = model.config.num_heads
    logits = []
    done = 0
    while done < len(order):
        longest = max(1, int(lengths[order[done]]))
        in_cache = RUN // (longest * model.encoder.width)
        attended = ATTENDED // max(1, heads * longest**2)
        size = max(1, min(rows, in_cache, attended))
        part = order[done : done + size]
        texts = shortened(inputs, text[part], kept[part], longest)
        logits.append(model(**texts).logits)
        done += len(part)
    return torch.cat(logits)[order.argsort()]


def _one_deleted(
    texts: Texts,
    read: Tensor,
    keep: Tensor,
    selected: Tensor,
) -> Tensor:
    """Logits (R, C) of the selected shortened texts, (B, K) bool, of each of which one token is deleted."""
    text, alternative = selected.nonzero(as_tuple=True)
    deleted = read[text] & ~keep[text, alternative]  # (R, T), one token each
    place = deleted.int().argmax(1)  # (R,)
    size = max(1, STATES // texts.states[0].numel())
    parts = zip(text.split(size), place.split(size), strict=True)
    return torch.cat([texts.without(*part) for part in parts])
