"""What stock models attend to, and what they say under other attention, against transformers' own eager attention."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from attn_faithful.models.protocol import JOINT, Encoded
from attn_faithful.models.stock.model import StockModel
from tests.models.stock_families import FAMILIES, NAMES, eager, read, stock, texts, wrapped
from tests.reference import stock as reference

# As a part of the size of what is expected. In float32 two ways through three layers order their sums as the
# processor's products do: up to 1.01e-6 was seen (Llama on a processor with AVX-512).
EXACT = {torch.float64: 1e-12, torch.float32: 3e-6}


def check_close(found: Tensor, expected: Tensor, tolerance: float | None = None) -> None:
    """Equal but for a part of the size of what is expected."""
    size = float(expected.detach().abs().max())
    tolerance = EXACT[found.dtype] if tolerance is None else tolerance
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * size)


def rows_read(name: str, reading: str, mask: Tensor) -> list[int]:
    """Whose attention the slots of one text are."""
    own = [t for t in range(len(mask)) if mask[t]]
    if reading != "token":
        return own
    return own[-1:] if FAMILIES[name].reads == "last" else [0]


def alternatives(encoded: Encoded) -> Tensor:
    """(B, 5, S, T): one position each, all alike, own weights turned round, nothing, weights where none may be."""
    generator = torch.Generator().manual_seed(1)
    own, allowed = encoded.attention.detach(), encoded.allowed
    noise = torch.rand(own.shape, generator=generator, dtype=own.dtype)
    one = torch.zeros_like(own).scatter(-1, (noise * allowed).argmax(-1, keepdim=True), 1.0) * allowed
    alike = allowed / allowed.sum(-1, keepdim=True).clamp(min=1)
    order = torch.where(allowed, noise, 2.0).argsort(-1)
    turned = torch.zeros_like(own).scatter(-1, order, own.gather(-1, order.roll(1, -1)))
    anywhere = noise / noise.sum(-1, keepdim=True)
    return torch.stack([one, alike, turned * allowed, torch.zeros_like(own), anywhere], dim=1)


@cache
def plain(name: str, left: bool = False) -> tuple[Tensor, list[Tensor]]:
    return eager(stock(name), read(texts(left=left)))


def told(name: str, model: StockModel, call: int, mask: Tensor) -> tuple[list[list[int]], str, list[int], bool]:
    """What the reference asks for: the rows of each text, how they are read, the heads, whether keys are shifted."""
    encoder = call < FAMILIES[name].encoder
    reading = model.queries if model.queries != "auto" else "mean" if encoder else "token"
    heads = list(range(model.probe.heads[call])) if model.heads is None else model.heads
    return [rows_read(name, reading, row) for row in mask], reading, heads, call in FAMILIES[name].shifted


def expected_slots(name: str, model: StockModel, mask: Tensor, calls: list[int], weights: list[Tensor]) -> Tensor:
    """(B, S, T) of weights (B, H, Q, T) by call."""
    found = []
    for call in calls:
        rows, *how = told(name, model, call, mask)
        found.append(np.stack([reference.slots(w.numpy(), r, *how) for w, r in zip(weights[call], rows, strict=True)]))
    return torch.as_tensor(np.concatenate(found, axis=1))


def expected_logits(
    name: str, model: StockModel, batch: dict[str, Tensor], calls: list[int], own: Tensor, many: Tensor
) -> Tensor:
    """Logits (B, K, C) by the slow way, all rows of the alternatives as one batch."""
    k, size = many.shape[1], many.shape[-1]
    inputs, own = {n: v.repeat_interleave(k, 0) for n, v in read(batch).items()}, own.repeat_interleave(k, 0).numpy()
    new, changes, at = many.flatten(0, 1).numpy(), {}, 0
    for call in calls:
        rows, reading, heads, shifted = told(name, model, call, inputs["attention_mask"])
        allowed = FAMILIES[name].reach[call](batch["attention_mask"]).repeat_interleave(k, 0).numpy()
        mine = slice(at, at + len(heads) * (size if reading == "all" else 1))
        parts = list(zip(new[:, mine], own[:, mine], allowed, rows, strict=True))

        def change(weights, parts=parts, how=(reading, heads, shifted)):
            return np.stack([reference.replaced(w, *part, *how) for w, part in zip(weights, parts, strict=True)])

        changes[call], at = change, mine.stop
    assert at == new.shape[1]
    return torch.as_tensor(reference.logits_under(model.model, inputs, changes)).view(len(own) // k, k, -1)


def check_site(name: str, model: StockModel, site: str, left: bool = False) -> None:
    batch = texts(left=left)
    mask = batch["attention_mask"]
    logits, attentions = plain(name, left)
    calls = model.layers if site == JOINT else [int(site.removeprefix("layer."))]
    with torch.no_grad():
        encoded = model.encode(batch, site)
        many = torch.cat([encoded.attention[:, None], alternatives(encoded)], dim=1)
        decoded = encoded.decode(many)
    check_close(encoded.logits, logits)
    check_close(decoded[:, 0], logits)
    own = expected_slots(name, model, mask, calls, attentions)
    check_close(decoded, expected_logits(name, model, batch, calls, own, many))
    reach = [each(mask)[:, None].expand_as(attentions[0]).double() for each in FAMILIES[name].reach]
    check_close(encoded.attention, own)
    assert torch.equal(encoded.allowed, expected_slots(name, model, mask, calls, reach) > 0)
    assert bool((encoded.attention[~encoded.allowed] == 0).all())
    check_close(encoded.attention.sum(-1), encoded.allowed.any(-1).to(logits.dtype))
    check_close(encoded.over_items.sum(-1), torch.ones_like(logits[:, 0]))


def check_padding_is_read_as_sdpa_reads_it(model: StockModel, batch: dict[str, Tensor]) -> None:
    """ModernBERT's first token is padding here, and its window holds nothing else: eager spreads it over all tokens."""
    with torch.no_grad():
        check_close(model(**read(batch)).logits, model.model(**read(batch)).logits)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_a_wrapped_model_says_what_the_plain_one_says(name, left):
    model, batch = wrapped(name, dtype=torch.float32), texts(left=left)
    logits, attentions = eager(model.model, read(batch))
    if (name, left) == ("modernbert", True):
        return check_padding_is_read_as_sdpa_reads_it(model, batch)
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
    for site in model.sites if queries == "token" else (model.sites[0], model.sites[-3], JOINT):
        check_site(name, model, site)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "modernbert"])  # see above
def test_padding_on_the_left_is_read_as_the_model_reads_it(name):
    model = wrapped(name)
    for site in model.sites[-2:]:
        check_site(name, model, site, left=True)


@pytest.mark.parametrize("name", NAMES)
def test_chosen_heads_and_layers_alone_are_replaced(name):
    last = len(FAMILIES[name].reach) - 1
    model = StockModel(stock(name), heads=[2, -4], layers=[-1, 0])
    assert (model.layers, model.heads, model.sites) == ([0, last], [0, 2], ("layer.0", f"layer.{last}", JOINT))
    for site in model.sites[1:]:
        check_site(name, model, site)
