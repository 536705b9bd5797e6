"""Ways of running a stock model: past known blocks, from embeddings, without tokens, with other texts beside it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.models.stock import decoder, shortcuts
from attn_faithful.models.stock.embedding import embedding
from attn_faithful.models.stock.model import StockModel
from tests.models.stock_families import (
    DECODER_ONLY,
    EOS,
    FAMILIES,
    NAMES,
    PAD,
    build,
    eager,
    read,
    stock,
    texts,
    wrapped,
)
from tests.models.test_stock import alternatives, check_close

ALL = ("skips", "single", "ends_early", "gradients_end_early", "one_row_changes", "shares_prefixes")


@contextmanager
def whole_forwards(model: StockModel):
    """No block is left out, and no token either."""
    before = {name: getattr(model, name) for name in ALL}
    for name in ALL:
        setattr(model, name, False)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(model, name, value)


def random_weights(model: StockModel) -> Tensor:
    return torch.linspace(-1, 2, model.config.num_labels, dtype=next(model.parameters()).dtype)


@pytest.mark.parametrize("name", NAMES)
def test_what_shortcuts_are_held_to_is_the_whole_model(name, monkeypatch):
    model = wrapped(name)
    with whole_forwards(model), torch.no_grad():
        whole = shortcuts.Whole.of(model)
        assert list(whole.elsewhere) == list(model.sites[:-1])
        check_close(whole.own, model.seen(model.probe.texts).logits)
        for site, logits in whole.elsewhere.items():
            encoded = model.encode(model.probe.texts, site)
            first = encoded.allowed & (encoded.allowed.cumsum(-1) == 1)
            check_close(logits, encoded.decode(first.to(logits.dtype)[:, None]))
    found = {shortcut: getattr(model, shortcut) for shortcut in ALL}
    monkeypatch.setattr(shortcuts, "_all_hold", lambda model, whole: False)
    alone = StockModel(stock(name))  # each tried by itself
    assert {shortcut: getattr(alone, shortcut) for shortcut in ALL} == found
    assert len(alone.query_layers) == len(model.query_layers)


def gradient(model: StockModel, site: str, batch: dict[str, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Logits of alternatives, and the gradient with respect to them."""
    with torch.no_grad():
        encoded = model.encode(batch or texts(), site)
    many = alternatives(encoded)[:, :3].requires_grad_()
    logits = encoded.decode(many)
    return logits.detach(), torch.autograd.grad((logits * random_weights(model)).sum(), many)[0]


@pytest.mark.parametrize("name", NAMES)
def test_leaving_out_what_is_known_changes_nothing(name):
    model = wrapped(name)
    assert model.skips
    assert model.single
    # a decoder's blocks attend twice, to itself and to its encoder: they are run whole
    assert model.ends_early == model.one_row_changes == (FAMILIES[name].encoder == 0)
    assert model.gradients_end_early == model.ends_early
    assert model.shares_prefixes == (name in DECODER_ONLY)
    assert model.needs_one_token(len(FAMILIES[name].reach) - 1) == (FAMILIES[name].encoder == 0)
    for site in model.sites[1:-1:2] if FAMILIES[name].encoder else model.sites[1:-1]:
        logits, slope = gradient(model, site)
        with whole_forwards(model):
            plain, expected = gradient(model, site)
        check_close(logits, plain)
        check_close(slope, expected, 5e-6)  # float32 gradients through norms


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_leaving_out_what_is_known_changes_nothing_under_padding_on_the_left(name):
    model, batch = wrapped(name), texts(left=True)
    logits, slope = gradient(model, model.sites[-2], batch)
    with whole_forwards(model):
        plain, expected = gradient(model, model.sites[-2], batch)
    check_close(logits, plain)
    check_close(slope, expected, 5e-6)


@torch.no_grad()
def test_what_is_asked_several_times_is_run_once(monkeypatch):
    model = wrapped("bert")
    encoded = model.encode(texts(), "layer.1")
    few = alternatives(encoded)[:, :2]
    expected = encoded.decode(few)
    sizes = []
    run = model.run

    def counted(inputs, trace):
        sizes.append(len(inputs["input_ids"]))
        return run(inputs, trace)

    monkeypatch.setattr(model, "run", counted)
    assert torch.equal(encoded.decode(few), expected)
    once = list(sizes)
    assert max(once) <= 2 * len(few)  # the two are one for a text of one token
    found = encoded.decode(few[:, [0, 1, 0, 0, 1]])
    assert sizes[len(once) :] == once
    assert torch.equal(found, expected[:, [0, 1, 0, 0, 1]])
    assert not torch.equal(found[:, 0], found[:, 1])


@pytest.mark.parametrize("queries", ["token", "mean", "all"])
def test_gradients_are_those_of_finite_differences(queries):
    model, step, k = wrapped("bert", queries), 1e-4, 4
    batch = texts((5, 2))
    for site in ("layer.0", "layer.2", "joint"):
        with torch.no_grad():
            encoded = model.encode(batch, site)
        start = alternatives(encoded)[:, 1:2].expand(-1, k, -1, -1).contiguous().requires_grad_()
        ways = torch.randn(start.shape, generator=torch.Generator().manual_seed(0), dtype=start.dtype)
        slopes = [torch.autograd.grad(encoded.decode(start)[..., c].sum(), start)[0] for c in range(3)]
        found = torch.stack([(slope * ways).sum((2, 3)) for slope in slopes], dim=-1)
        with torch.no_grad():
            expected = (encoded.decode(start + step * ways) - encoded.decode(start - step * ways)) / (2 * step)
        check_close(found, expected, 1e-5)  # steps of 1e-4


@pytest.mark.parametrize("name", ["albert", "gpt2", "bart"])
def test_parts_run_one_after_another_change_nothing(name, monkeypatch):
    model = wrapped(name)
    for site in model.sites[-2:]:
        logits, slope = gradient(model, site)
        with monkeypatch.context() as small:
            small.setattr(decoder, "CELLS", 5 * 9)
            parts, slopes = gradient(model, site)
        check_close(parts, logits)
        check_close(slopes, slope)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_no_alternatives_are_legal(name):
    model, batch = wrapped(name), texts()
    for site in model.sites[-2:]:
        encoded = model.encode(batch, site)
        assert encoded.decode(encoded.attention[:, None][:, :0]).shape == (4, 0, 3)
    assert model.without(batch, torch.ones(4, 0, 9, dtype=torch.bool)).shape == (4, 0, 3)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_embeddings_stand_in_for_ids(name, left):
    """In a decoder too, and where transformers itself would read the last position for want of ids."""
    model, batch = wrapped(name), read(texts(left=left))
    embedded = model.get_input_embeddings()(batch["input_ids"]).detach()
    expected = model(**batch).logits
    check_close(model(**batch, inputs_embeds=embedded).logits, expected)
    # other texts' embeddings under these ids: what is said is said of them
    other = read(texts(left=left, seed=1))
    embedded = model.get_input_embeddings()(other["input_ids"])
    check_close(model(**batch, inputs_embeds=embedded).logits, model(**other).logits)


@pytest.mark.parametrize(("name", "left"), [*((name, False) for name in NAMES), ("bert", True), ("gpt2", True)])
def test_gradients_of_embeddings_are_those_of_transformers_eager_attention(name, left):
    """By torch's own kernel, and with the last block for one token."""
    model, own, batch = wrapped(name), stock(name), read(texts(left=left))
    leaf = model.get_input_embeddings()(batch["input_ids"]).detach().requires_grad_()

    def gradient_of(logits: Tensor) -> Tensor:
        gradient = torch.autograd.grad((logits * random_weights(model)).sum(), leaf)[0]
        return gradient * batch["attention_mask"][:, :, None]

    found = gradient_of(model(**batch, inputs_embeds=leaf).logits)
    implementation = own.config._attn_implementation
    own.set_attn_implementation("eager")
    try:
        with embedding(own, batch["input_ids"], leaf):
            expected = gradient_of(own(**batch, use_cache=False).logits)
    finally:
        own.set_attn_implementation(implementation)
    check_close(found, expected, 5e-6 if found.dtype == torch.float32 else None)  # through norms


def test_embeddings_stand_in_for_ids_without_a_padding_id():
    model = StockModel(build("gpt2", pad_token_id=None).double())
    batch, other = read(texts()), read(texts(seed=1))
    embedded = model.get_input_embeddings()(other["input_ids"])
    check_close(model(**batch, inputs_embeds=embedded).logits, model(**other).logits)


def test_embeddings_that_are_not_looked_up_are_no_silent_error(monkeypatch):
    model, batch = wrapped("bert"), read(texts())
    batch["input_ids"] = batch["input_ids"] % 40  # as many as there are positions
    monkeypatch.setattr(model.model, "get_input_embeddings", lambda: model.model.bert.embeddings.position_embeddings)
    with pytest.raises(InputError, match="BertForSequenceClassification never looks up"):
        model(**batch, inputs_embeds=torch.zeros(4, 9, 32).double())


def test_types_of_tokens_are_looked_up_in_the_same_table():
    """GPT-2 has no table of its own for them."""
    model = wrapped("gpt2")
    batch = {**read(texts()), "token_type_ids": torch.arange(9).expand(4, 9) % 3 + 7}
    embedded = model.get_input_embeddings()(batch["input_ids"])
    assert not torch.allclose(model(**batch).logits, model(**read(batch)).logits)
    check_close(model(**batch, inputs_embeds=embedded).logits, model(**batch).logits)


def odd_texts(name: str) -> dict[str, Tensor]:
    """Where the last token that is read is not the last of the mask."""
    batch = texts((9, 9, 6))
    if name == "bart":
        batch["input_ids"][0, -3:] = torch.tensor([EOS, 9, 8])  # goes on behind the id that ends texts
    else:
        batch["input_ids"][0, -2:] = PAD  # ends as padding looks
        batch["input_ids"][2, 7] = 9  # padding that does not look like it
    return batch


@pytest.mark.parametrize("name", ["gpt2", "llama", "bart"])
def test_the_token_that_the_classifier_reads_goes_by_ids(name):
    model, batch = wrapped(name), odd_texts(name)
    logits, _ = eager(model.model, read(batch))
    for site in model.sites[-2:]:
        encoded = model.encode(batch, site)
        check_close(encoded.logits.detach(), logits)
        check_close(encoded.decode(encoded.attention[:, None])[:, 0].detach(), logits)
        slope = gradient(model, site, batch)[1].abs().amax((1, 3))
        assert bool((slope > 0).any(-1).all())  # none of the slots of any text says nothing
