"""What no attention of a head can change, what some attention of a head changes, and what all heads together change.

Of read-outs that are affine in one attention the answers are exact. Of transformers models they are proofs and attacks
through what comes after the last attention (`functional.tail_certificates`, `functional.tail_attack`), and what neither
decides is open. Where that is not known there are no proofs, and attacks ask the model (`adversarial_asking`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attn_faithful.evaluators.adversarial_asking import attacked, joined
from attn_faithful.evaluators.adversarial_metrics import (
    ATTACK_RADIUS,
    CERTIFIED_RADIUS,
    HEAD_CERTIFIED,
    HEAD_FLIPPED,
    HEAD_OPEN,
    HEADS,
    JOINT_FLIP,
)
from attn_faithful.evaluators.base import Block, MetricSpec
from attn_faithful.evaluators.movable_attention import Movable
from attn_faithful.evaluators.predictions import predictions_under, variant_name, weights_on_items
from attn_faithful.evaluators.score_rows import ScoreColumn, ScoreRows, VariantColumns, is_defined
from attn_faithful.functional.divergences import jsd
from attn_faithful.functional.flip_distance import flip_distance
from attn_faithful.functional.readout import decided, leads, total
from attn_faithful.functional.reasons import (
    MULTI_LABEL,
    NAN_SCORES,
    NO_TAIL,
    NO_TOKEN,
    NOT_PROVED,
    NOT_SEARCHED,
    Reasons,
    first_reasons,
    or_else,
)
from attn_faithful.functional.simplices import Simplices
from attn_faithful.functional.tail import Tail, TailUnknownError
from attn_faithful.functional.tail_attack import attack_radius, head_attack, joint_attack
from attn_faithful.functional.tail_certificates import Certifier, Effort
from attn_faithful.functional.tail_errors import Chain
from attn_faithful.models.row_decoding import decode_rows

_TEXTS = 8  # whose tails are made at once
_PROOFS = (HEAD_CERTIFIED, CERTIFIED_RADIUS)


@dataclass(frozen=True)
class Heads:
    """What attention can change, of B texts.

    Attributes:
        certified: of which slots it is proved that none of their attention changes the decision, (B, S) bool.
        flipped: of which slots an attention was found that does, (B, S) bool; the others are open.
        joint: whether attention of all slots together was found that changes the decision, (B,) bool.
        proved, found: (B,), between which the largest radius lies at which no mixture changes the decision.
        one_changed: attention (B, S, T) of which the first flipped slot's is the one found; the model's own where no
            slot is flipped.
        all_changed: attention (B, S, T) of all slots together that was found; the model's own where none was.
    """

    certified: Tensor
    flipped: Tensor
    joint: Tensor
    proved: Tensor
    found: Tensor
    one_changed: Tensor
    all_changed: Tensor


def add_heads(rows: ScoreRows, block: Block, movable: Movable | None, effort: Effort) -> None:
    """Add what no attention changes and what some does.

    Args:
        rows: where the scores go.
        block: examples at one site.
        movable: its movable attention; None where the read-out is not affine in one attention.
        effort: how hard proofs are tried.
    """
    if movable is not None:
        heads, unknown = _exact(movable)
        _add(rows, block, heads, unknown, None)
        return
    if block.encoded.multi_label:
        _add_nothing(rows, block, MULTI_LABEL)
    elif block.is_control:
        _add_nothing(rows, block, NOT_SEARCHED)
    else:
        _add_searched(rows, block, effort)


def _add_nothing(rows: ScoreRows, block: Block, reason: str) -> None:
    nothing = torch.full((len(block),), math.nan)
    rows.add(block, dict.fromkeys(HEADS, nothing), otherwise=reason)


def _add_searched(rows: ScoreRows, block: Block, effort: Effort) -> None:
    """The answers for a model that is not affine; the attention that changes a decision is kept as an alternative."""
    unproved = NOT_PROVED if effort.is_none else None
    try:
        heads = joined([_searched(block, texts, effort) for texts in _parts(len(block))])
    except TailUnknownError as error:
        unproved = f"{NO_TAIL}: {error.why}"
        heads = _asked(block)
    is_nan = block.encoded.logits.isnan().any(-1)  # (B,)
    _add(rows, block, heads, first_reasons({NAN_SCORES: is_nan}), unproved)
    of_one = _variant(block, "head-flip", heads.flipped.any(-1), heads.one_changed, heads.flipped.int().argmax(-1))
    of_all = _variant(block, "joint-flip", heads.joint, heads.all_changed, torch.zeros(len(block), dtype=torch.int64))
    rows.add_variants(block, [of_one, of_all])


def _variant(block: Block, name: str, exists: Tensor, attention: Tensor, slot: Tensor) -> VariantColumns:
    """An attention (B, S, T) that changes decisions as an alternative, of the texts that have one.

    Args:
        block: the texts.
        name: of the alternative.
        exists: which texts have it, (B,) bool.
        attention: of all slots.
        slot: which one of them was changed, (B,); 0 for all.
    """
    own_attention = block.encoded.attention.double()
    attention = attention.to(own_attention)
    after, change = predictions_under(block, attention[:, None])
    moved = jsd(attention, own_attention, validate_args=False)  # (B, S)
    further = {
        "slot": slot,
        "attention_jsd": block.over_slots(moved),
        "output_tvd": change[:, 0],
        "probabilities": after[:, 0],
        "attention": weights_on_items(attention, block.items),
        "exact": [False] * len(block),
    }
    return VariantColumns("adversarial", variant_name(block, name), exists, further)


def _parts(texts: int) -> Iterator[Tensor]:
    yield from torch.arange(texts).split(_TEXTS)


def _add(rows: ScoreRows, block: Block, heads: Heads, unknown: Reasons, unproved: str | None) -> None:
    """Add the numbers of each slot, 0 or 1 and NaN for one without an item, then those of all together.

    Args:
        rows: where they go.
        block: the texts.
        heads: of them.
        unknown: why nothing is known of a text.
        unproved: why nothing can be proved; None where something can.
    """
    has_item = block.items.any(-1)  # (B, S)
    slots = has_item.shape[1]
    of_texts = or_else(first_reasons({NO_TOKEN: ~has_item.any(-1)}), unknown)
    of_their_texts = [reason for reason in of_texts for _ in range(slots)]
    of_slots = or_else(first_reasons({NO_TOKEN: ~has_item.flatten()}), of_their_texts)
    by_slot = {
        HEAD_CERTIFIED: heads.certified,
        HEAD_FLIPPED: heads.flipped,
        HEAD_OPEN: ~heads.certified & ~heads.flipped,
    }
    together = {
        JOINT_FLIP: heads.joint,
        CERTIFIED_RADIUS: heads.proved,
        ATTACK_RADIUS: heads.found,
    }
    rows.add_columns(block, _columns(by_slot, of_slots, unproved))
    rows.add_columns(block, _columns(together, of_texts, unproved))


def _columns(values: Mapping[MetricSpec, Tensor], reasons: Reasons, unproved: str | None) -> list[ScoreColumn]:
    """Metrics that are undefined for the same reasons, an entry a value; proofs perhaps everywhere for one more."""
    columns = []
    for metric, column in values.items():
        of_metric = reasons
        if metric in _PROOFS:
            of_metric = or_else(reasons, [unproved] * len(reasons))
        undefined = ~is_defined(of_metric).to(column.device).view(column.shape)
        columns.append(ScoreColumn(metric.name, column.double().masked_fill(undefined, math.nan), of_metric))
    return columns


def _asked(block: Block) -> Heads:
    """What attacks that ask the model find; nothing is proved."""
    found = attacked(block)
    return Heads(
        certified=torch.zeros_like(found.flipped),
        flipped=found.flipped,
        joint=found.joint,
        proved=torch.zeros_like(found.radius),
        found=found.radius,
        one_changed=found.one_changed,
        all_changed=found.all_changed,
    )


def _exact(movable: Movable) -> tuple[Heads, Reasons]:
    """The answers for a read-out that is affine in one attention, and why they are undefined."""
    nearest = flip_distance(movable.shares, movable.items, movable.token_logits, movable.bias)
    proof = nearest.attention_proof
    decision = decided(movable.shares, movable.token_logits, movable.bias)
    margins, others = leads(movable.token_logits, movable.bias, decision, math.inf)  # (B, C, T), (B, C)
    margins = margins.masked_fill(~movable.items[:, None], math.inf)
    least = margins.amin(-1)  # (B, C)
    weighted = torch.where(movable.shares[:, None] > 0, movable.shares[:, None] * margins, 0.0)
    own = total(weighted.transpose(1, 2))  # (B, C)
    radius = torch.where(others & (least < own), own / (own - least), 1.0)  # (B, C)
    radius = radius.amin(-1).clamp(0, 1).masked_fill(proof, 1.0)
    unknown = [reason if reason in (NO_TOKEN, NAN_SCORES) else None for reason in nearest.reason]
    by_slot = proof[:, None]  # (B, 1)
    own_shares = movable.shares[:, None]  # (B, 1, T)
    return Heads(by_slot, ~by_slot, ~proof, radius, radius, own_shares, own_shares), unknown


def _searched(block: Block, texts: Tensor, effort: Effort) -> Heads:
    """The answers for some texts (R,) of a model whose tail is known, on the CPU, where proofs are made."""
    encoded = block.encoded
    tail = encoded.tail_of(texts.to(encoded.attention.device)).to("cpu")
    attention = encoded.attention.cpu()[texts].double()  # (R, S, T)
    items = block.items.cpu()[texts]
    chain = Chain(tail.steps)
    simplices = Simplices.of(tail, attention, items)
    decision = encoded.logits.cpu()[texts].argmax(-1)  # (R,)
    joint = joint_attack(tail, simplices, decision)
    radius = attack_radius(tail, simplices, decision, joint)
    found = radius.radius.nan_to_num(nan=1.0)

    singles = []
    proved = []
    for row in range(len(texts)):
        certifier = Certifier(chain, simplices, row, int(decision[row]))
        singles.append(_single_heads(tail, simplices, row, decision[row : row + 1], certifier, effort))
        proved.append(certifier.proved_radius(float(found[row]), effort))
    certified = torch.stack([single.certified for single in singles])  # (R, S)
    flipped = torch.stack([single.flipped for single in singles])
    changed = torch.stack([single.shares for single in singles])  # (R, S, T)

    is_slot = torch.eye(attention.shape[1], dtype=torch.bool)[:, :, None]
    with_changed = _weights(attention, items, changed)[:, None]
    one_changed = torch.where(is_slot, with_changed, attention[:, None])  # (R, S, S, T)
    all_changed = _weights(attention, items, joint.shares)
    on_line = attention + found[:, None, None] * (_weights(attention, items, radius.shares) - attention)
    by_line = ~joint.flips & radius.radius.isfinite()
    all_changed = torch.where(by_line[:, None, None], on_line, all_changed)
    asked = torch.cat([one_changed, all_changed[:, None]], dim=1)  # (R, S + 1, S, T)
    changes = _changes(block, texts, asked, decision)  # (R, S + 1)
    of_one = flipped & changes[:, :-1]  # (R, S)
    of_all = changes[:, -1]  # (R,)
    first = of_one.int().argmax(-1)  # (R,)
    first_changed = one_changed[torch.arange(len(texts)), first]  # (R, S, T)
    return Heads(
        certified=certified,
        flipped=of_one,
        joint=of_all,
        proved=torch.tensor(proved, dtype=torch.float64),
        found=found,
        one_changed=torch.where(of_one.any(-1)[:, None, None], first_changed, attention),
        all_changed=torch.where(of_all[:, None, None], all_changed, attention),
    )


@dataclass(frozen=True)
class _SingleHeads:
    """What is known of each slot of a text while the others keep their shares.

    Attributes:
        certified, flipped: (S,), bool.
        shares: (S, T), those that flip; the model's own of other slots.
    """

    certified: Tensor
    flipped: Tensor
    shares: Tensor


def _single_heads(
    tail: Tail, simplices: Simplices, text: int, decision: Tensor, certifier: Certifier, effort: Effort
) -> _SingleHeads:
    """A quick proof for each slot, an attack where it fails, and a harder proof where that fails as well."""
    has_item = simplices.items[text].any(-1)  # (S,)
    certified = certifier.proved_heads(has_item, replace(effort, bins=effort.bins[:1], boxes=0))
    flipped = torch.zeros_like(certified)
    shares = simplices.shares[text].clone()
    open_slots = (has_item & ~certified).nonzero()[:, 0]
    if len(open_slots):
        changed = head_attack(tail, _of_slots(simplices, text, open_slots), decision)
        flipped[open_slots] = changed.flips[0]
        place = torch.arange(len(open_slots))
        shares[open_slots] = changed.shares[0, place, place]
    harder = replace(effort, bins=effort.bins[1:])
    certified = certified | certifier.proved_heads(has_item & ~certified & ~flipped, harder)
    return _SingleHeads(certified, flipped, shares)


def _of_slots(simplices: Simplices, text: int, slots: Tensor) -> Simplices:
    """Those of some slots (R,) of one text, the others keeping their shares."""
    shares = simplices.shares[text]  # (S, T)
    kept = shares.clone()
    kept[slots] = 0
    origin = simplices.origin[text] + kept.flatten() @ simplices.moves[text].flatten(0, 1)
    one = simplices.items[text, slots][None]
    return Simplices(origin[None], simplices.moves[text, slots][None], one, shares[slots][None])


def _weights(attention: Tensor, items: Tensor, shares: Tensor) -> Tensor:
    """Attention (..., T) whose items hold these shares (..., T) of what they hold together."""
    mass = torch.where(items, attention, 0.0).sum(-1, keepdim=True)
    return torch.where(items, mass * shares, attention)


def _changes(block: Block, texts: Tensor, asked: Tensor, decision: Tensor) -> Tensor:
    """Whether the model itself decides otherwise (R, K) under attention (R, K, S, T) of some texts (R,)."""
    encoded = block.encoded
    rows = asked.flatten(0, 1).to(encoded.attention)
    text = texts.repeat_interleave(asked.shape[1]).to(rows.device)
    with torch.no_grad():
        logits = decode_rows(encoded.decode, rows, text, len(block))
    return logits.cpu().argmax(-1).view(asked.shape[:2]) != decision[:, None]
