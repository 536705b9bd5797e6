"""Checks that every registered thing must pass; a new one is checked without new code.

`check_attention_model` states once what the tests of faithfulness take for granted of a model (DESIGN.md, section 3).
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attn_faithful.models.protocol import Encoded, probabilities

Batch = Mapping[str, Tensor]

EXACT = {"rtol": 1e-6, "atol": 1e-6}  # the same numbers by another route, float32
BATCHED = {"rtol": 1e-5, "atol": 1e-5}  # the same text in another batch, float32
PADDING = {"attention_mask": 0, "query_attention_mask": 0, "special_tokens_mask": 1}  # other columns: 0


def check_attention_model(model: nn.Module, batch: Batch) -> None:
    """Run every check over ``model``, at each of its sites.

    Args:
        model: follows `AttentionModel`; give it dropout, or the check that no analysis drops anything has no force.
        batch: right-padded, with texts of several lengths, one of them without any token.
    """
    assert not bool(batch["attention_mask"].any(1).all()), "the batch must hold an empty text"
    before = {name: value.clone() for name, value in batch.items()}
    model.eval()
    for site in model.sites:
        for check in CHECKS:
            check(model, batch, site)
    for name, value in batch.items():
        assert torch.equal(value, before[name]), f"{name} was changed in place"


def attention_is_a_distribution(model: Any, batch: Batch, site: str) -> None:
    encoded = model.encode(batch, site)
    attention, allowed = encoded.attention, encoded.allowed
    assert attention.shape == allowed.shape
    assert bool((attention >= 0).all())
    assert bool((attention[~allowed] == 0).all())
    torch.testing.assert_close(attention.sum(-1), allowed.any(-1).to(attention.dtype), **EXACT)
    if encoded.items == "token":
        assert not bool((allowed.any(1) & ~batch["attention_mask"].bool()).any()), "padding may be attended"
    whole = encoded.over_items.sum(1)
    torch.testing.assert_close(whole, encoded.content.any(1).to(whole.dtype), **EXACT)
    if encoded.project is not None:
        torch.testing.assert_close(encoded.project(encoded.scores, allowed), attention, **EXACT)


def encode_equals_the_forward(model: Any, batch: Batch, site: str) -> None:
    encoded, output = model.encode(batch, site), model(**batch)
    torch.testing.assert_close(encoded.logits, output.logits, **EXACT)
    shown = output.attentions if encoded.items == "token" else output.sentence_attentions
    torch.testing.assert_close(encoded.over_items, shown, **EXACT)


def own_attention_decodes_to_own_logits(model: Any, batch: Batch, site: str) -> None:
    encoded = model.encode(batch, site)
    torch.testing.assert_close(encoded.decode(encoded.attention[:, None])[:, 0], model(**batch).logits, **EXACT)


def another_attention_decodes_to_the_forward_with_it(model: Any, batch: Batch, site: str) -> None:
    encoded = model.encode(batch, site)
    other = alternatives(encoded, 1)
    name = "attention_weights" if encoded.items == "token" else "sentence_weights"
    forward = model(**batch, **{name: other[:, 0].sum(1)}).logits
    torch.testing.assert_close(encoded.decode(other)[:, 0], forward, **EXACT)


def alternatives_at_once_equal_a_loop(model: Any, batch: Batch, site: str) -> None:
    encoded = model.encode(batch, site)
    many = alternatives(encoded, 4)
    one_by_one = [encoded.decode(many[:, k : k + 1])[:, 0] for k in range(many.shape[1])]
    torch.testing.assert_close(encoded.decode(many), torch.stack(one_by_one, dim=1), **EXACT)


def nothing_attended_is_legal(model: Any, batch: Batch, site: str) -> None:
    encoded = model.encode(batch, site)
    logits = encoded.decode(torch.zeros_like(encoded.attention)[:, None])[:, 0]
    assert bool(logits.isfinite().all())
    if encoded.attention.shape[1] == 1:
        empty = {**batch, "attention_mask": torch.zeros_like(batch["attention_mask"])}
        torch.testing.assert_close(logits, model(**empty).logits, **EXACT)  # no token at all: the bias


def affine_reproduces_decode(model: Any, batch: Batch, site: str) -> None:
    encoded = model.encode(batch, site)
    if encoded.affine is None:
        return
    many = alternatives(encoded, 4)
    by_hand = torch.einsum("bkt,btc->bkc", many[:, :, 0], encoded.affine.token_logits) + encoded.affine.bias[:, None]
    torch.testing.assert_close(encoded.decode(many), by_hand, **EXACT)


def decode_has_the_right_gradient(model: Any, batch: Batch, site: str) -> None:
    encoded = copy.deepcopy(model).double().encode(batch, site)
    assert encoded.attention.dtype == torch.float64
    many = alternatives(encoded, 2).requires_grad_()
    with torch.no_grad():
        assert float(encoded.decode(many).std()) > 0
    # along random directions: each weight by itself takes most of the time of all checks
    assert torch.autograd.gradcheck(encoded.decode, (many,), fast_mode=True)


def padding_changes_nothing(model: Any, batch: Batch, site: str) -> None:
    plain = model.encode(batch, site)
    length = batch["attention_mask"].shape[1]
    for left, right in ((0, 3), (3, 0), (2, 1)):
        padded = model.encode(pad(batch, left, right), site)
        torch.testing.assert_close(padded.logits, plain.logits, **BATCHED)
        kept = slice(left, left + length) if plain.items == "token" else slice(None)
        torch.testing.assert_close(padded.attention[..., kept], plain.attention, **BATCHED)
        assert torch.equal(padded.content[:, kept], plain.content)


def batch_mates_change_nothing(model: Any, batch: Batch, site: str) -> None:
    all_gather = model.encode(batch, site)
    order = torch.arange(len(all_gather.logits)).flip(0)
    turned = model.encode({name: value[order] for name, value in batch.items()}, site)
    torch.testing.assert_close(turned.logits[order], all_gather.logits, **BATCHED)
    torch.testing.assert_close(turned.attention[order], all_gather.attention, **BATCHED)
    for row, keep in enumerate(batch["attention_mask"].bool()):
        alone = model.encode(shortened(batch, row, keep), site)
        torch.testing.assert_close(alone.logits[0], all_gather.logits[row], **BATCHED)
        if all_gather.items == "token" and keep.any():
            torch.testing.assert_close(alone.over_items[0], all_gather.over_items[row, keep], **BATCHED)


def without_equals_the_shortened_text(model: Any, batch: Batch, site: str) -> None:
    read = batch["attention_mask"].bool()
    generator = torch.Generator().manual_seed(1)
    keep = torch.rand(len(read), 3, read.shape[1], generator=generator) < 0.6
    keep[:, 0] = True  # the whole text
    keep[:, 1, 1::2] = False  # gaps
    logits = model.without(batch, keep)
    assert logits.shape[:2] == keep.shape[:2]
    torch.testing.assert_close(logits[:, 0], model.encode(batch, site).logits, **BATCHED)
    for row, alternative in ((b, k) for b in range(len(read)) for k in range(keep.shape[1])):
        short = shortened(batch, row, keep[row, alternative] & read[row])
        torch.testing.assert_close(logits[row, alternative], model(**short).logits[0], **BATCHED)


def an_empty_text_is_predicted(model: Any, batch: Batch, site: str) -> None:
    encoded = model.encode(batch, site)
    empty = ~batch["attention_mask"].any(1)
    assert bool(probabilities(encoded.logits, encoded.multi_label).isfinite().all())
    assert bool((encoded.attention[empty] == 0).all())
    assert not bool(encoded.content[empty].any())


def an_empty_text_leaves_gradients_finite(model: Any, batch: Batch, site: str) -> None:
    twin = copy.deepcopy(model).train()
    output = twin(**batch)
    (output.logits.square().sum() + output.attentions.square().sum()).backward()
    gradients = {name: p.grad for name, p in twin.named_parameters() if p.grad is not None}
    assert gradients
    for name, gradient in gradients.items():
        assert bool(gradient.isfinite().all()), name


def analysis_runs_in_eval_mode_and_restores_the_mode(model: Any, batch: Batch, site: str) -> None:
    calm = model.encode(batch, site)
    with training(model):
        next(m for m in model.modules() if isinstance(m, nn.Embedding)).eval()  # one module of another mode
        modes = [module.training for module in model.modules()]
        first, second = model.encode(batch, site), model.encode(batch, site)
        deleted = model.without(batch, torch.ones_like(batch["attention_mask"], dtype=torch.bool)[:, None])
        with pytest.raises(ValueError, match="input_ids"):
            model.encode({}, site)
        assert [module.training for module in model.modules()] == modes
    assert torch.equal(first.logits, second.logits)
    assert torch.equal(first.attention, second.attention)
    torch.testing.assert_close(first.logits, calm.logits, rtol=0, atol=0)
    torch.testing.assert_close(deleted[:, 0], calm.logits, **BATCHED)


def gradients_on_or_off_change_nothing(model: Any, batch: Batch, site: str) -> None:
    with torch.enable_grad():
        on = model.encode(batch, site)
    with torch.no_grad():
        off = model.encode(batch, site)
    torch.testing.assert_close(on.logits, off.logits, **EXACT)
    torch.testing.assert_close(on.attention, off.attention, **EXACT)


def saving_and_loading_change_nothing(model: Any, batch: Batch, site: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = type(model).from_pretrained(folder)
    weights, again = model.state_dict(), loaded.state_dict()
    assert weights.keys() == again.keys()
    for name, weight in weights.items():
        assert torch.equal(weight, again[name]), name
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {name for name, p in loaded.named_parameters() if not p.requires_grad}
    assert not loaded.training
    before, after = model.encode(batch, site), loaded.encode(batch, site)
    torch.testing.assert_close(after.logits, before.logits, **EXACT)
    torch.testing.assert_close(after.attention, before.attention, **EXACT)


CHECKS: list[Callable[[Any, Batch, str], None]] = [
    attention_is_a_distribution,
    encode_equals_the_forward,
    own_attention_decodes_to_own_logits,
    another_attention_decodes_to_the_forward_with_it,
    alternatives_at_once_equal_a_loop,
    nothing_attended_is_legal,
    affine_reproduces_decode,
    decode_has_the_right_gradient,
    padding_changes_nothing,
    batch_mates_change_nothing,
    without_equals_the_shortened_text,
    an_empty_text_is_predicted,
    an_empty_text_leaves_gradients_finite,
    analysis_runs_in_eval_mode_and_restores_the_mode,
    gradients_on_or_off_change_nothing,
    saving_and_loading_change_nothing,
]


def alternatives(encoded: Encoded, k: int) -> Tensor:
    """Random attention (B, K, S, T) on the allowed positions, the same at each call."""
    generator = torch.Generator().manual_seed(0)
    batch, slots, tokens = encoded.attention.shape
    weights = torch.rand(batch, k, slots, tokens, generator=generator, dtype=torch.float64)
    weights = weights * encoded.allowed[:, None]
    return (weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)).to(encoded.attention.dtype)


def pad(batch: Batch, left: int, right: int) -> dict[str, Tensor]:
    """``batch`` with more padding at either side of its texts and queries."""
    return {n: nn.functional.pad(v, (left, right), value=PADDING.get(n, 0)) for n, v in batch.items()}


def shortened(batch: Batch, row: int, keep: Tensor) -> dict[str, Tensor]:
    """A batch of one text that has only the positions in ``keep``; one position of padding if that is none."""
    cut = {name: value[row : row + 1] for name, value in batch.items()}
    text = {name: value[:, keep] for name, value in cut.items() if not name.startswith("query_")}
    if not keep.any():
        text = {n: nn.functional.pad(v, (0, 1), value=PADDING.get(n, 0)) for n, v in text.items()}
    return {**cut, **text}


@contextmanager
def training(model: nn.Module) -> Iterator[None]:
    """Train mode inside, eval mode afterwards."""
    model.train()
    try:
        yield
    finally:
        model.eval()
