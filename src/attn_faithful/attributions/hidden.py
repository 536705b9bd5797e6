"""Importance of the tokens for the encoder's states: whether a state depends on the token at its place.

Attention is over states. Even where it picks one, it picks a token only if that state depends on little else.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice
from attn_faithful.attributions.base import Request, norms
from attn_faithful.attributions.embedded_text import EmbeddedText, embedded_text
from attn_faithful.functional.concentration import distribution
from attn_faithful.functional.reasons import TOO_SHORT
from attn_faithful.models.adapted import class_name, forward_arguments
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.modes import analysing
from attn_faithful.models.protocol import Batch, Encoded

CHANGES = ("difference", "length")
BACKWARD = CELLS // 4  # states times tokens that go back at once: more do not fit into the processor's cache
ROUNDING = 16  # epsilons of a state's length: a smaller change is rounding

Reasons = list[list[str | None]]

_NO_STATES = (
    "Expected a model that returns its encoder's states, one a token, as `hidden_states`, but {} does not; "
    "importance for states needs an AttentionClassifier."
)


def normalized(importance: Tensor, content: Tensor) -> tuple[Tensor, list[str | None]]:
    """Importance as shares of its sum over the content tokens: ``|s_t| / sum |s|``.

    Of the source `saliency` with the settings `reduction` "l2" and `attention_path` "attached" it gives Meister et
    al.'s importance for the output, of `leave_one_out` its counterpart without gradients.

    Args:
        importance: (B, T), any unit and sign; ignored outside ``content``.
        content: (B, T), bool.

    Returns:
        (B, T) float64, 0 to 1, a text's sum 1, NaN outside ``content`` and where undefined; and for each text why it is
        ("no content token", "nan in scores", "no mass"), or None.

    Raises:
        InputError: other shapes, ``content`` that is not bool.

    Reference:
        Meister et al. (2021), section 3.1, equations 4 and 6.

    Example:
        >>> values, reasons = normalized(torch.tensor([[3.0, 1.0], [0.0, 0.0]]), torch.ones(2, 2, dtype=torch.bool))
        >>> values.tolist(), reasons
        ([[0.75, 0.25], [nan, nan]], [None, 'no mass'])
    """
    if not len(importance):
        return importance.double(), []
    shares, reasons = distribution(importance, content)
    return torch.where(content, shares, torch.nan), reasons


def hidden_gradient_importance(model: Any, batch: Batch, encoded: Encoded) -> tuple[Tensor, Reasons]:
    r"""How much the length of each state moves with each token's embedding, as shares.

    ``g_p(x_i) = |d |h_p| / d x_i| / sum_k |d |h_p| / d x_k|`` with Euclidean norms, ``h_p`` the encoder's state at the
    content token p and ``x_i`` the embedding of the content token i. The normalized entropy of a state's row says how
    dispersed its inputs are: 0 for encoders that read each token alone.

    An encoder that ends in a layer norm gives all states one length, but for what its gains have learned: with equal
    gains, as before training, these are shares of next to nothing. :func:`hidden_leave_one_out` has no such blind spot.

    Args:
        model: with a forward of `inputs_embeds` that returns its states (B, T, N), an `AttentionClassifier`.
        batch: its inputs.
        encoded: what it did there.

    Returns:
        (B, P, T) float64 on the CPU, P = T places of states, 0 to 1, a state's sum 1, NaN outside content tokens and
        where undefined; and for each text and state why it is ("no content token", also for a state at a position
        that is no content token; "nan in scores"; "no mass" for a state that no token moves), or None.

    Raises:
        InputError: a model that takes no embeddings or returns no such states.

    Reference:
        Meister et al. (2021), section 3.1, equation 5.

    Example:
        >>> from attn_faithful.models.configuration import AttentionClassifierConfig
        >>> from attn_faithful.models.pooled import AttentionClassifier
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=10, encoder="mlp"))
        >>> batch = {"input_ids": torch.tensor([[2, 3]])}
        >>> values, reasons = hidden_gradient_importance(model, batch, model.encode(batch))
        >>> values.tolist(), reasons
        ([[[1.0, 0.0], [0.0, 1.0]]], [[None, None]])
    """
    text = _text(model, batch, encoded, "hidden_gradient_importance")
    content = encoded.content
    gradients = _nothing(content)
    if bool(content.any()):
        with analysing(model), torch.enable_grad():
            leaf = text.leaf
            states = _states(text, leaf, text.inputs)  # (B, P, N)
            lengths = torch.linalg.vector_norm(states, dim=-1)
            reach = text.request.model.reach
            longest = int(content.sum(1).max())
            if reach is None or 2 * reach + 1 >= longest:
                _fill_each(gradients, lengths, leaf, content)
            else:
                read = _read(text, content)
                _fill_neighbours(gradients, lengths, leaf, content, read, reach)
    content = content.cpu()
    allowed = content[:, :, None] & content[:, None, :]  # (B, P, T)
    return _shares(gradients, allowed)


def _nothing(content: Tensor) -> Tensor:
    """Zeros (B, P, T) for every state and token, on the CPU."""
    return torch.zeros(*content.shape, content.shape[1], dtype=torch.float64)


def _fill_each(gradients: Tensor, lengths: Tensor, leaf: Tensor, content: Tensor) -> None:
    """Fill in the norms of the gradients (B, P, T): one state of each text goes back at once."""
    examples, tokens = content.shape
    every_example = torch.arange(examples)
    places = torch.argsort(~content, dim=1, stable=True)  # content tokens first
    longest = int(content.sum(1).max())
    ranks = torch.arange(longest, device=content.device)
    size = max(1, BACKWARD // content.numel())
    for part in ranks.split(size):
        # no text's states depend on another's
        place = places[:, part].T  # (K, B)
        chosen = lengths.new_zeros(*place.shape, tokens)  # (K, B, P)
        chosen.scatter_(2, place[:, :, None], 1.0)
        (gradient,) = torch.autograd.grad(lengths, leaf, chosen, retain_graph=True, is_grads_batched=True)
        norms_of_tokens = norms(gradient)  # (K, B, T)
        gradients[every_example, place.cpu()] = norms_of_tokens.cpu()


def _fill_neighbours(
    gradients: Tensor, lengths: Tensor, leaf: Tensor, content: Tensor, read: Tensor, reach: int
) -> None:
    """The same of states that depend on few tokens: those that share none go back together.

    Of every ``2 reach + 1`` tokens that are read one after another each time one state goes back, and a token's
    gradient is that of the one state within its reach.
    """
    step = 2 * reach + 1
    count = read.sum(1, keepdim=True)
    rank = read.cumsum(1) - 1  # (B, T), of each token among those that are read
    places = torch.argsort(~read, dim=1, stable=True)
    for first in range(step):
        chosen = content & (rank % step == first)  # (B, T)
        (gradient,) = torch.autograd.grad(lengths, leaf, chosen.to(lengths.dtype), retain_graph=True)
        # rank of the one state within a token's reach
        behind = (rank - first) % step
        owner = rank - behind + torch.where(behind > reach, step, 0)
        exists = read & (owner >= 0) & (owner < count)
        state = places.gather(1, owner.clamp(0, read.shape[1] - 1))
        went_back = exists & chosen.gather(1, state)
        row, token = went_back.nonzero(as_tuple=True)
        state = state[row, token]
        norm = norms(gradient)[row, token]
        gradients[row.cpu(), state.cpu(), token.cpu()] = norm.cpu()


@torch.no_grad()
def hidden_leave_one_out(
    model: Any, batch: Batch, encoded: Encoded, change: str = "difference"
) -> tuple[Tensor, Reasons]:
    r"""How much each state changes when another token is deleted and the model run again, as shares.

    ``D_p(x_i) = d(h_p, h_p without i) / sum_k d(h_p, h_p without k)`` over the content tokens i and k other than p,
    whose own state goes with it. The paper defines leave-one-out for the output alone and says that it can be used for
    states; of ``d`` it says nothing. Here it is the length of the difference, or, as the paper's gradients have it,
    the difference of the lengths. Changes within rounding of the state's length are 0.

    Args:
        model: with a forward of `inputs_embeds` that returns its states (B, T, N), an `AttentionClassifier`.
        batch: its inputs.
        encoded: what it did there.
        change: "difference", ``|h - h'|``, or "length", ``| |h| - |h'| |``.

    Returns:
        (B, P, T) float64 on the CPU, 0 to 1, a state's sum 1, NaN outside content tokens, for the state's own token
        and where undefined; and for each text and state why it is ("no content token", also for a state at a position
        that is no content token; "n<2"; "nan in scores"; "no mass" for a state that no other token changes), or None.

    Raises:
        InputError: a model that takes no embeddings or returns no such states, an unknown change.

    Reference:
        Meister et al. (2021), section 3.1, equation 6.

    Example:
        >>> from attn_faithful.models.configuration import AttentionClassifierConfig
        >>> from attn_faithful.models.pooled import AttentionClassifier
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=10, encoder="lstm"))
        >>> batch = {"input_ids": torch.tensor([[2, 3]])}
        >>> hidden_leave_one_out(model, batch, model.encode(batch))[0].tolist()
        [[[nan, 1.0], [1.0, nan]]]
    """
    check_choice("change", change, CHANGES)
    text = _text(model, batch, encoded, "hidden_leave_one_out")
    content = encoded.content
    changes = _nothing(content)
    if bool(content.any()):
        with analysing(model):
            _fill_changes(changes, text, content, change)
    content = content.cpu()
    is_other = ~torch.eye(content.shape[1], dtype=torch.bool)
    allowed = content[:, :, None] & content[:, None, :] & is_other  # (B, P, T)
    values, reasons = _shares(changes, allowed)
    alone = content & (content.sum(1, keepdim=True) == 1)
    for row, place in alone.nonzero().tolist():
        reasons[row][place] = TOO_SHORT
    return values, reasons


def _fill_changes(changes: Tensor, text: EmbeddedText, content: Tensor, change: str) -> None:
    """Fill in how far each state moves without each token, (B, P, T)."""
    read = _read(text, content)
    before = _states(text, text.embedded, text.inputs)
    row, token = content.nonzero(as_tuple=True)
    size = max(1, CELLS // content.shape[1])
    for rows, tokens in zip(row.split(size), token.split(size), strict=True):
        each = torch.arange(len(rows), device=rows.device)
        mask = read[rows]  # (R, T), a copy
        mask[each, tokens] = False
        inputs = {name: value[rows] for name, value in text.inputs.items()}
        inputs["attention_mask"] = mask
        after = _states(text, text.embedded[rows], inputs)
        moved = _changes(before[rows], after, change)  # (R, P)
        changes[rows.cpu(), :, tokens.cpu()] = moved.cpu()


def _text(model: Any, batch: Batch, encoded: Encoded, source: str) -> EmbeddedText:
    """The model as a function of its embeddings, if it can return its states."""
    text = embedded_text(Request(model, batch, encoded), source)
    if "output_hidden_states" not in forward_arguments(model):
        raise InputError(_NO_STATES.format(class_name(model)))
    return text


def _read(text: EmbeddedText, content: Tensor) -> Tensor:
    """Tokens that the model reads, bool (B, T): all of them where there is no mask."""
    return text.inputs.get("attention_mask", torch.ones_like(content)).bool()


def _states(text: EmbeddedText, embedded: Tensor, inputs: Batch) -> Tensor:
    """The encoder's states (B, T, N) for the embeddings (B, T, E)."""
    model = text.request.model
    states = model(inputs_embeds=embedded, **inputs, output_hidden_states=True).hidden_states
    if not isinstance(states, Tensor) or states.shape[:2] != embedded.shape[:2]:
        raise InputError(_NO_STATES.format(class_name(model)))
    return states


def _changes(before: Tensor, after: Tensor, change: str) -> Tensor:
    """From states (R, P, N) to how far each moved, (R, P) in float64."""
    length = norms(before)  # (R, P)
    moved = (length - norms(after)).abs() if change == "length" else norms(before - after)
    # another batch rounds otherwise, and shares of nothing but rounding would look like importance
    rounding = ROUNDING * torch.finfo(before.dtype).eps * length
    return torch.where(moved <= rounding, 0.0, moved)


def _shares(importance: Tensor, allowed: Tensor) -> tuple[Tensor, Reasons]:
    """Shares over the last axis of (B, P, T), and the reasons by text and state."""
    values, reasons = normalized(importance.flatten(0, 1), allowed.flatten(0, 1))
    texts, states, _ = allowed.shape
    by_text = [reasons[text * states : (text + 1) * states] for text in range(texts)]
    return values.view(allowed.shape), by_text
