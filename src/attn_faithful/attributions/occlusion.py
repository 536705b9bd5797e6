"""How the prediction changes without a token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import OPERATORS, SOURCES, Attribution, Request
from attn_faithful.attributions.embedded_text import embedded_text
from attn_faithful.attributions.parts import Part, forward_parts
from attn_faithful.models.modes import analysing
from attn_faithful.models.protocol import prediction_change

KEPT = 2**22  # flags of kept tokens, of texts that are run together


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
        logits = _zeroed(request, "leave_one_out")
    else:
        logits = _substituted(request, operator)
    return Attribution(_change(request, logits))


@SOURCES.register("occlusion")
@torch.no_grad()
def occlusion(request: Request) -> Attribution:
    """Change of the target's outcome when the token's embedding becomes zero, as Captum's feature ablation has it.

    Signed it equals leave-one-out with the operator "zero", and as a magnitude for two classes too.

    Reference:
        Zeiler and Fergus (2014), section 4.
    """
    logits = request.read(_zeroed(request, "occlusion"))
    return Attribution(_outcome_change(request, logits))


def _same_text(request: Request, unchanged: Tensor) -> Tensor:
    """Items (B, T) of which every token is one that does not change, bool (B, tokens)."""
    members, items = request.encoded.members, request.encoded.content.shape[1]
    if members is None:
        return unchanged
    column = torch.where(members < 0, items, members)
    counts = torch.zeros(len(column), items + 1, dtype=torch.int64, device=column.device)
    n_changing = counts.scatter_add(1, column, (~unchanged).long())
    return n_changing[:, :items] == 0


def _deleted(request: Request) -> Tensor:
    """Logits (B, T, C) without each content token; the whole text's where there is none."""
    content, logits = request.encoded.content, request.encoded.logits
    without = logits[:, None].repeat(1, content.shape[1], 1)  # (B, T, C)
    if not len(content):
        return without
    counts = content.sum(1)
    places = torch.argsort(~content, dim=1, stable=True)  # content tokens first
    ranks = torch.arange(int(counts.max()), device=content.device)
    size = max(1, KEPT // max(1, content.numel()))
    for part in ranks.split(size):
        place = places[:, part]  # (B, K)
        exists = part < counts[:, None]
        nothing = content.new_zeros(*place.shape, content.shape[1])
        deleted = nothing.scatter(2, place[:, :, None], exists[:, :, None])  # (B, K, T)
        row, k = exists.nonzero(as_tuple=True)
        shortened = _without(request, ~deleted)  # (B, K, C)
        without[row, place[row, k]] = shortened[row, k].to(without.dtype)
    return without


def _without(request: Request, kept_items: Tensor) -> Tensor:
    """Logits (B, K, C) of the texts with some of their items (B, K, T) alone."""
    if request.deletions is not None:
        return request.deletions(kept_items)
    return request.model.without(request.batch, _kept_tokens(request, kept_items))


def _kept_tokens(request: Request, kept_items: Tensor) -> Tensor:
    """The tokens (B, K, tokens) of the items (B, K, T) that are kept, and those of no item."""
    if request.encoded.members is None:
        return kept_items
    members = request.encoded.members[:, None]
    item = members.clamp(min=0).expand(-1, kept_items.shape[1], -1)
    return kept_items.gather(2, item) | (members < 0)


def _zeroed(request: Request, source: str) -> Tensor:
    """Logits (B, T, C) with the embedding of each content token 0."""
    text = embedded_text(request, source)

    def run(part: Part, embedded: Tensor) -> Tensor:
        inputs = [part.of(values) for values in text.inputs.values()]
        return text.logits(embedded, *inputs)

    with analysing(request.model):
        return _replaced(request, text.embedded, 0.0, run)


def _substituted(request: Request, operator: str) -> Tensor:
    """Logits (B, T, C) with another token in the place of each content token."""
    token = _token(request, operator)
    if "input_ids" not in request.batch:
        raise InputError(f"The operator {operator!r} needs `input_ids` in the batch; choose delete or zero.")
    replaced = ("input_ids", "inputs_embeds", "labels")
    others = {name: values for name, values in request.batch.items() if name not in replaced}

    def run(part: Part, ids: Tensor) -> Tensor:
        batch = part.of_batch(others)
        batch["input_ids"] = ids
        logits: Tensor = request.model.logits_of(batch, part.rows)
        return logits

    return _replaced(request, request.batch["input_ids"], token, run)


def _replaced(request: Request, inputs: Tensor, by: float, run: Callable[[Part, Tensor], Tensor]) -> Tensor:
    """Logits (B, T, C) with each content token replaced in ``inputs`` (B, T, ...).

    A token that equals its replacement leaves the text and its logits unchanged.

    Args:
        request: the model and its batch.
        inputs: ids or embeddings.
        by: what takes a token's place.
        run: ``run(texts (R,), inputs (R, T', ...)) -> logits (R, C)``.
    """
    content, members = request.encoded.content, request.encoded.members
    logits = request.encoded.logits[:, None].repeat(1, content.shape[1], 1)  # (B, T, C)
    unchanged = inputs == by
    if inputs.dim() > 2:
        unchanged = unchanged.all(-1)  # (B, tokens)
    changes = content & ~_same_text(request, unchanged)
    row, item = changes.nonzero(as_tuple=True)
    for part in forward_parts(request, row, inputs.shape[1], of_ids=inputs.dim() == 2):
        rows, items = row[part.rows], item[part.rows]
        replaced = inputs[rows, : part.length]  # a copy
        if members is None:
            each = torch.arange(len(rows), device=items.device)
            replaced[each, items] = by
        else:
            replaced[members[rows, : part.length] == items[:, None]] = by
        new_logits = run(Part(rows, part.length), replaced)  # (R, C)
        logits[rows, items] = new_logits.to(logits.dtype)
    return logits


def _token(request: Request, operator: str) -> int:
    token = request.token_ids.get(operator)
    if token is None:
        others = []
        for name in OPERATORS:
            if name in ("delete", "zero") or request.token_ids.get(name) is not None:
                others.append(name)
        raise InputError(
            f"The operator {operator!r} needs the tokenizer's {operator} token, but there is none; "
            f"choose {', '.join(others[:-1])} or {others[-1]}."
        )
    return token


def _change(request: Request, logits: Tensor) -> Tensor:
    """From the logits (B, T, C) without each token to its importance (B, T)."""
    logits = request.read(logits)
    if request.settings.is_magnitude and request.settings.outcome == "probability":
        return prediction_change(request.view, logits)
    return _outcome_change(request, logits)


def _outcome_change(request: Request, logits: Tensor) -> Tensor:
    """The target's outcome with each token minus that without it, (B, T), from the logits (B, T, C) without."""
    before = request.outcome(request.view.logits)
    change = before[:, None] - request.outcome(logits)  # (B, T)
    return change.abs() if request.settings.is_magnitude else change
