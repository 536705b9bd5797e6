"""How the prediction changes without a token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import OPERATORS, SOURCES, Attribution, Request, cells, outcome, precise
from attn_faithful.attributions.gradients import analysing, embedded_text
from attn_faithful.functional.divergences import multilabel_tvd, tvd
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.protocol import probabilities

KEPT = 2**22  # flags of what is kept, of texts that are run together


@SOURCES.register("leave_one_out")
@torch.no_grad()
def leave_one_out(request: Request) -> Attribution:
    """Change of the prediction without the token: a text of n content tokens gives n numbers.

    Magnitude: the TVD of the two predictions, 0 to 1 (|dp| for two classes; mean |dp| over labels for multi-label);
    of logits |d|, the change of the target's log-odds. Signed: the target's outcome with the token minus without.

    Reference:
        Jain and Wallace (2019), section 4.1, algorithm 1.
    """
    operator = request.settings.operator
    if operator == "delete":
        if "deleted" not in request.memory:
            request.memory["deleted"] = _deleted(request)
        logits = request.memory["deleted"]
    elif operator == "zero":
        text = embedded_text(request, "leave_one_out")
        with analysing(request.model):
            logits = _replaced(
                request, text.embedded, 0.0, lambda b, inputs: text.logits(inputs, *(v[b] for v in text.given[1:]))
            )
    else:
        token = _token(request, operator)
        if "input_ids" not in request.batch:
            raise InputError(f"The operator {operator!r} needs `input_ids` in the batch; choose delete or zero.")
        logits = _replaced(request, request.batch["input_ids"], token, lambda b, inputs: _encoded(request, b, inputs))
    return Attribution(_change(request, logits))


@SOURCES.register("occlusion")
@torch.no_grad()
def occlusion(request: Request) -> Attribution:
    """Change of the target's outcome when the token's embedding becomes zero, by Captum's feature ablation.

    Signed it equals leave-one-out with the operator "zero", and as a magnitude for two classes too: a cross-check.

    Reference:
        Zeiler and Fergus (2014), section 4.
    """
    from captum.attr import FeatureAblation  # takes seconds to import

    text = embedded_text(request, "occlusion")
    content = request.encoded.content
    if not bool(content.any()):
        return Attribution(torch.zeros(content.shape))
    item, among = _item_of(request)
    rank = torch.where(among, item, item.max() + 1)  # all that is no content: one feature more
    with analysing(request.model):
        found = FeatureAblation(text).attribute(
            text.embedded,
            baselines=0.0,
            additional_forward_args=text.given,
            feature_mask=rank[:, :, None].expand_as(text.embedded),
            perturbations_per_eval=max(1, CELLS // (len(content) * cells(request.model, text.embedded.shape[1]))),
        )
    members = request.encoded.members
    change = found[:, :, 0]
    if members is not None:  # each token of an item has the item's change
        last = torch.where(members < 0, content.shape[1], members)
        change = change.new_zeros(len(change), content.shape[1] + 1).scatter(1, last, change)[:, :-1]
    zero = (text.embedded == 0).all(-1)  # (B, tokens); without them the text is what it was
    change = change.masked_fill(_same_text(request, zero), 0.0)
    return Attribution(change.abs() if request.settings.sign == "magnitude" else change)


def _item_of(request: Request) -> tuple[Tensor, Tensor]:
    """Number of the item of each token (B, tokens), and which tokens belong to one."""
    members, content = request.encoded.members, request.encoded.content
    return (content.cumsum(1) - 1, content) if members is None else (members, members >= 0)


def _same_text(request: Request, unchanged: Tensor) -> Tensor:
    """Items (B, T) of which every token is one that does not change, bool (B, tokens)."""
    members, items = request.encoded.members, request.encoded.content.shape[1]
    if members is None:
        return unchanged
    index = torch.where(members < 0, items, members)
    other = torch.zeros(len(index), items + 1, dtype=torch.int64, device=index.device)
    return other.scatter_add(1, index, (~unchanged).long())[:, :items] == 0


def _deleted(request: Request) -> Tensor:
    """Logits (B, T, C) without each content token; the whole text's where there is none."""
    content, logits = request.encoded.content, request.encoded.logits
    without = logits[:, None].repeat(1, content.shape[1], 1)
    count = content.sum(1)
    place = torch.argsort(~content, dim=1, stable=True)  # content tokens first
    for ranks in torch.arange(int(count.max()) if len(count) else 0, device=content.device).split(
        max(1, KEPT // max(1, content.numel()))
    ):
        at = place[:, ranks]  # (B, K)
        there = ranks < count[:, None]
        keep = ~torch.zeros(*at.shape, content.shape[1], dtype=torch.bool, device=content.device).scatter(
            2, at[:, :, None], there[:, :, None]
        )
        if request.encoded.members is not None:
            members = request.encoded.members[:, None]
            keep = keep.gather(2, members.clamp(min=0).expand(-1, keep.shape[1], -1)) | (members < 0)
        row, k = there.nonzero(as_tuple=True)
        without[row, at[row, k]] = request.model.without(request.batch, keep)[row, k].to(without.dtype)
    return without


def _replaced(request: Request, inputs: Tensor, by: float, run: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Logits (B, T, C) with each content token replaced in ``inputs`` (B, T, ...) and read like any other.

    A token that is already what takes its place leaves the text as it is, and its logits.

    Args:
        request: what is asked.
        inputs: ids or embeddings.
        by: what takes a token's place.
        run: ``run(texts (R,), inputs (R, T, ...)) -> logits (R, C)``.
    """
    content, logits = request.encoded.content, request.encoded.logits
    replaced = logits[:, None].repeat(1, content.shape[1], 1)
    members = request.encoded.members
    there = inputs == by
    there = there if inputs.dim() == 2 else there.all(-1)  # (B, tokens)
    row, token = (content & ~_same_text(request, there)).nonzero(as_tuple=True)
    size = max(1, CELLS // cells(request.model, inputs.shape[1]))
    for b, t in zip(row.split(size), token.split(size), strict=True):
        changed = inputs[b]  # a copy
        if members is None:
            changed[torch.arange(len(b), device=t.device), t] = by
        else:
            changed[members[b] == t[:, None]] = by
        replaced[b, t] = run(b, changed).to(replaced.dtype)
    return replaced


def _encoded(request: Request, rows: Tensor, ids: Tensor) -> Tensor:
    """Logits (R, C) of some of the texts (R,) with other tokens (R, T)."""
    others = {n: v[rows] for n, v in request.batch.items() if n not in ("input_ids", "inputs_embeds", "labels")}
    logits: Tensor = request.model.encode({**others, "input_ids": ids}, request.model.sites[0]).logits
    return logits


def _token(request: Request, operator: str) -> int:
    found = request.token_ids.get(operator)
    if found is None:
        others = [o for o in OPERATORS if o in ("delete", "zero") or request.token_ids.get(o) is not None]
        raise InputError(
            f"The operator {operator!r} needs the tokenizer's {operator} token, but there is none; "
            f"choose {', '.join(others[:-1])} or {others[-1]}."
        )
    return found


def _change(request: Request, logits: Tensor) -> Tensor:
    """From the logits (B, T, C) without each token to its importance (B, T)."""
    settings, encoded, logits = request.settings, request.asked, request.read(logits)
    if settings.sign == "magnitude" and settings.outcome == "probability":
        distance = multilabel_tvd if encoded.multi_label else tvd
        own, others = (probabilities(precise(z), encoded.multi_label) for z in (encoded.logits[:, None], logits))
        return distance(own, others, validate_args=False)
    own = outcome(encoded.logits, request.classes, settings.outcome, encoded.multi_label)
    change = own[:, None] - outcome(logits, request.classes, settings.outcome, encoded.multi_label)
    return change.abs() if settings.sign == "magnitude" else change
