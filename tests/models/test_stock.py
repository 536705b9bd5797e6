"""What stock models attend to, and what they say under other attention, against transformers' own eager attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.models.protocol import JOINT, Encoded
from attn_faithful.models.stock import StockModel
from tests.models.stock_families import FAMILIES, NAMES, eager, read, stock, texts, wrapped
from tests.reference import stock as reference

EXACT = 1e-6  # of the size of the logits; norms of some families are computed in float32, whatever the model's type


def check_close(found: Tensor, expected: Tensor | np.ndarray, tolerance: float = EXACT) -> None:
    """Equal but for a part of the size of what is expected."""
    expected = torch.as_tensor(expected)
    assert found.shape == expected.shape
    gap = float((found - expected).abs().max())
    assert gap <= tolerance * float(expected.abs().max()), gap


def rows_read(name: str, reading: str, mask: Tensor) -> list[int]:
    """Whose attention the slots of one text are."""
    own = [t for t in range(len(mask)) if mask[t]]
    if reading != "token":
        return own
    return own[-1:] if FAMILIES[name].reads == "last" else [0]


def reading_of(name: str, queries: str, call: int) -> str:
    return queries if queries != "auto" else "mean" if call < FAMILIES[name].encoder else "token"


def calls_of(model: StockModel, site: str) -> list[int]:
    return model.layers if site == JOINT else [int(site.removeprefix("layer."))]


def alternatives(encoded: Encoded) -> Tensor:
    """One position each, all alike, the own weights turned round, nothing, and weights where none may be: (B, 5, S, T)."""
    generator = torch.Generator().manual_seed(1)
    own, allowed = encoded.attention.detach(), encoded.allowed
    noise = torch.rand(own.shape, generator=generator, dtype=own.dtype)
    one = torch.zeros_like(own).scatter(-1, (noise * allowed).argmax(-1, keepdim=True), 1.0) * allowed
    alike = allowed / allowed.sum(-1, keepdim=True).clamp(min=1)
    order = torch.where(allowed, noise, 2.0).argsort(-1)
    turned = torch.zeros_like(own).scatter(-1, order, own.gather(-1, order.roll(1, -1)))
    anywhere = noise / noise.sum(-1, keepdim=True)
    return torch.stack([one, alike, turned * allowed, torch.zeros_like(own), anywhere], dim=1)


def expected_logits(name: str, model: StockModel, batch: dict[str, Tensor], site: str, many: Tensor) -> np.ndarray:
    """Logits (B, K, C) by the slow way, all rows of the alternatives as one batch."""
    family, mask, k = FAMILIES[name], batch["attention_mask"], many.shape[1]
    inputs = {n: v.repeat_interleave(k, 0) for n, v in read(batch).items()}
    _, unchanged = reference.run(model.model, inputs)
    changes, at, new = {}, 0, many.flatten(0, 1).numpy()
    for call in calls_of(model, site):
        reading, shifted = reading_of(name, model.queries, call), call in family.shifted
        allowed = family.reach[call](mask).repeat_interleave(k, 0).numpy()
        heads = range(model.probe.heads[call]) if model.heads is None else model.heads
        rows = [rows_read(name, reading, row) for row in inputs["attention_mask"]]
        size = len(heads) * (many.shape[-1] if reading == "all" else 1)
        own_new = new[:, at : at + size]

        def change(own, n=call, new=own_new, allowed=allowed, told=(rows, reading, heads, shifted)):
            rows, *rest = told
            found = []
            for r in range(len(own)):
                mean = reference.slots(unchanged[n][r], rows[r], *rest)
                found.append(reference.replaced(own[r], new[r], mean, allowed[r], rows[r], *rest))
            return np.stack(found)

        changes[call], at = change, at + size
    assert at == new.shape[1]
    return reference.logits_under(model.model, inputs, changes).reshape(len(mask), k, -1)


def check_site(name: str, model: StockModel, batch: dict[str, Tensor], site: str) -> None:
    logits, attentions = eager(model.model, read(batch))
    with torch.no_grad():
        encoded = model.encode(batch, site)
        check_close(encoded.logits, logits)
        check_close(encoded.decode(encoded.attention[:, None])[:, 0], logits)
        many = alternatives(encoded)
        check_close(encoded.decode(many), expected_logits(name, model, batch, site, many))
    own, allowed = [], []
    for call in calls_of(model, site):
        reading, shifted = reading_of(name, model.queries, call), call in FAMILIES[name].shifted
        heads = range(model.probe.heads[call]) if model.heads is None else model.heads
        reach = FAMILIES[name].reach[call](batch["attention_mask"])
        for found, source in ((own, attentions[call]), (allowed, reach[:, None].expand_as(attentions[call]).double())):
            rows = [rows_read(name, reading, row) for row in batch["attention_mask"]]
            values = zip(source.numpy(), rows, strict=True)
            found.append(np.stack([reference.slots(x, r, reading, heads, shifted) for x, r in values]))
    check_close(encoded.attention, np.concatenate(own, 1))
    assert torch.equal(encoded.allowed, torch.as_tensor(np.concatenate(allowed, 1) > 0))
    assert bool((encoded.attention[~encoded.allowed] == 0).all())
    check_close(encoded.attention.sum(-1), encoded.allowed.any(-1).double())
    check_close(encoded.over_items.sum(-1), torch.ones(len(logits)).double())


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_a_wrapped_model_says_what_the_plain_one_says(name, left):
    model, batch = wrapped(name, dtype=torch.float32), texts(left=left)
    logits, attentions = eager(model.model, read(batch))
    seen = model.seen(batch)
    check_close(model(**read(batch)).logits, logits)
    check_close(seen.logits, logits)
    real = batch["attention_mask"].bool()
    assert list(seen.calls) == list(range(len(attentions)))
    for call, expected in zip(seen.calls.values(), attentions, strict=True):
        torch.testing.assert_close(
            call.attention.transpose(1, 2)[real], expected.transpose(1, 2)[real], rtol=0, atol=1e-6
        )


@pytest.mark.parametrize("queries", ["token", "mean", "all"])
@pytest.mark.parametrize("name", NAMES)
def test_every_site_is_read_and_replaced(name, queries):
    model = wrapped(name, queries)
    assert model.sites == (*(f"layer.{n}" for n in range(len(FAMILIES[name].reach))), JOINT)
    for site in model.sites:
        check_site(name, model, texts(), site)


@pytest.mark.parametrize("name", NAMES)
def test_padding_on_the_left_is_read_as_the_model_reads_it(name):
    model = wrapped(name)
    for site in (model.sites[0], model.sites[-2], JOINT):
        check_site(name, model, texts(left=True), site)


@pytest.mark.parametrize("name", NAMES)
def test_chosen_heads_and_layers_alone_are_replaced(name):
    last = len(FAMILIES[name].reach) - 1
    model = StockModel(stock(name), heads=[2, -4], layers=[-1, 0])
    assert (model.layers, model.heads, model.sites) == ([0, last], [0, 2], ("layer.0", f"layer.{last}", JOINT))
    for site in model.sites:
        check_site(name, model, texts(), site)
