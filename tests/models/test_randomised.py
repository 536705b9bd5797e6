"""Weights drawn anew as before training, and put in place for a while: the model is left as it was, bit for bit."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from torch import nn

from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.model_parts import parts_from_top
from attn_faithful.models.modes import altering
from attn_faithful.models.randomised import drawn_weights, of_weights, replaced
from attn_faithful.models.stock.model import StockModel
from tests.models.examples import small_batch, small_model
from tests.models.stock_families import NAMES, build, read, texts
from tests.models.test_han import small_han
from tests.models.test_stock_untouched import check_untouched, state, trained

SMALL_WEIGHT = 256  # entries below which a standard deviation is too coarse to be compared


def by_name(network, values):
    """Name -> drawn values."""
    names = {weight: name for name, weight in network.named_parameters()}
    return {names[weight]: value for weight, value in values.items()}


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_of_a_model_before_training(name):
    """Constants are equal and the others as wide as in a model that is built anew, whatever the trained weights are."""
    network = build(name)
    torch.manual_seed(5)
    fresh = dict(type(network)(network.config).named_parameters())
    drawn = by_name(network, drawn_weights(network, 1))
    assert drawn.keys() == fresh.keys()
    for weight, value in drawn.items():
        expected = fresh[weight].detach()
        assert value.shape == expected.shape
        assert bool(value.isfinite().all())
        if float(expected.std(correction=0)) == 0:
            assert torch.equal(value, expected), weight
        elif value.numel() >= SMALL_WEIGHT:
            assert 0.8 < float(value.std() / expected.std()) < 1.25, weight
            assert not torch.equal(value, expected)


@pytest.mark.parametrize("encoder", list(ENCODERS))
def test_weights_of_our_models_are_those_before_training(encoder):
    network = small_model(encoder=encoder, projection="entmax", learn_alpha=True, num_layers=2)
    other = small_model(1, encoder=encoder, projection="entmax", learn_alpha=True, num_layers=2)
    fresh = {name: weight.detach() for name, weight in other.named_parameters()}
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(7).add_(3)
    drawn = by_name(network, drawn_weights(network, 1))
    assert torch.equal(drawn["attention.alpha_logit"], fresh["attention.alpha_logit"])
    for weight, value in drawn.items():
        assert float(value.abs().max()) <= 3 * float(fresh[weight].abs().max()) + 1e-6, weight


def test_the_seed_decides_and_nothing_else():
    network = small_han()
    state_of_draws = torch.get_rng_state()
    one = by_name(network, drawn_weights(network, 4))
    torch.rand(3)
    again, other = by_name(network, drawn_weights(network, 4)), by_name(network, drawn_weights(network, 5))
    torch.set_rng_state(state_of_draws)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["readout.weight"], other["readout.weight"])
    before = torch.get_rng_state()
    drawn_weights(network, 4)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", NAMES)
def test_drawing_leaves_a_model_as_it_is(name):
    plain = trained(name)
    before = state(plain)
    tensors = [*plain.parameters(), *plain.buffers()]
    drawn_weights(plain, 0)
    check_untouched(plain, before)
    assert all(one is other for one, other in zip(tensors, [*plain.parameters(), *plain.buffers()], strict=True))


class Odd(nn.Module):
    """Weights that nothing initialises, a shared one, whole numbers, and half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight
        self.own = nn.Parameter(5 + 2 * torch.randn(4000))
        self.constant = nn.Parameter(torch.full((3,), 2.0))
        self.empty = nn.Parameter(torch.zeros(0))
        self.small = nn.Parameter(torch.randn(4000).half())
        self.whole = nn.Parameter(torch.arange(3), requires_grad=False)
        self.norm = nn.BatchNorm1d(3)  # whose initialisation forgets what it has counted
        self.norm.running_mean.fill_(4.0)
        self.attention = nn.MultiheadAttention(8, 2)
        with torch.no_grad():
            self.attention.in_proj_weight.fill_(9.0)


def test_weights_of_no_known_initialisation_keep_their_mean_and_spread():
    torch.manual_seed(0)
    network = Odd()
    drawn = drawn_weights(network, 1)
    assert bool((network.norm.running_mean == 4).all())
    assert network.whole not in drawn
    assert len(drawn) == len(list(network.parameters())) - 1
    own = drawn[network.own]
    assert abs(float(own.mean()) - 5) < 0.2
    assert abs(float(own.std()) - 2) < 0.1
    assert abs(float(torch.corrcoef(torch.stack([own, network.own.detach()]))[0, 1])) < 0.1
    assert torch.equal(drawn[network.constant], network.constant)
    assert drawn[network.small].dtype == torch.float16
    assert not torch.equal(drawn[network.small], network.small)
    assert float(drawn[network.first.weight].abs().max()) <= 8**-0.5  # as torch draws it
    assert float(drawn[network.attention.in_proj_weight].abs().max()) < 1


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_weights_come_back_whatever_happens(error):
    network = small_model(encoder="lstm")
    network.embedding.weight.requires_grad_(False)
    network.readout.weight.grad = torch.ones_like(network.readout.weight)
    weights = list(network.parameters())
    before = [(weight.data_ptr(), weight.detach().clone(), weight.requires_grad, weight.grad) for weight in weights]
    drawn = drawn_weights(network, 0)
    try:
        with replaced(drawn):
            assert all(torch.equal(weight, drawn[weight]) for weight in weights)
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt):
        pass
    for weight, now, (place, value, trained_, gradient) in zip(weights, network.parameters(), before, strict=True):
        assert now is weight
        assert weight.data_ptr() == place
        assert torch.equal(weight, value)
        assert weight.requires_grad == trained_
        assert weight.grad is gradient


@pytest.mark.parametrize("name", NAMES)
def test_a_wrapped_model_reads_altered_weights_as_one_that_is_wrapped_with_them(name):
    """Nothing of the wrapper is derived from the weights and kept."""
    plain = build(name).double() if name not in ("modernbert", "llama", "gemma2") else build(name)
    model = StockModel(plain)
    batch = read(texts((9, 6)))
    parts = parts_from_top(model, {})
    drawn = drawn_weights(plain, 2)
    first = model.encode(batch, model.sites[0]).logits
    for count in (1, len(parts) // 2, len(parts)):
        weights = [weight for part in parts[:count] for weight in part.weights]
        with replaced(of_weights(drawn, weights)):
            fresh = StockModel(copy.deepcopy(plain))
            for site in (model.sites[0], model.sites[-2]):
                one, other = model.encode(batch, site), fresh.encode(batch, site)
                # the shortcuts that hold may be others, and round otherwise
                torch.testing.assert_close(one.logits, other.logits, rtol=1e-5, atol=1e-6)
                torch.testing.assert_close(one.attention, other.attention, rtol=1e-5, atol=1e-6)
            keep = torch.ones(2, 1, 9, dtype=torch.bool)
            keep[:, :, 1] = False
            torch.testing.assert_close(model.without(batch, keep), fresh.without(batch, keep), rtol=1e-5, atol=1e-6)
            assert not torch.equal(one.logits, first)
    assert torch.equal(model.encode(batch, model.sites[0]).logits, first)


def test_half_precision_under_a_caller_s_autocast_reads_altered_weights_too():
    """Autocast keeps casts of weights until the outermost context ends."""
    plain = build("bert")
    with torch.no_grad():
        for weight in plain.parameters():
            weight.mul_(0.3)
    batch = read(texts((9, 6)))
    model = StockModel(plain, dtype="bfloat16")
    drawn = drawn_weights(plain, 0)
    with replaced(drawn):
        expected = model.encode(batch, "layer.2").logits
    with torch.autocast("cpu", enabled=False):
        first = model.encode(batch, "layer.2").logits
        with replaced(drawn):
            assert torch.equal(model.encode(batch, "layer.2").logits, expected)
        assert torch.equal(model.encode(batch, "layer.2").logits, first)


@pytest.mark.parametrize("kind", ["own", "stock"])
def test_other_threads_wait_until_the_weights_are_back(kind):
    if kind == "own":
        network = model = small_model(encoder="lstm")
        batch = small_batch()
    else:
        network = build("bert")
        model, batch = StockModel(network), read(texts((9, 6)))
    drawn = drawn_weights(network, 0)
    expected = model.encode(batch, model.sites[0]).logits
    altered, found = threading.Event(), []

    def predict():
        altered.wait()
        found.append(model.encode(batch, model.sites[0]).logits)

    thread = threading.Thread(target=predict)
    thread.start()
    with altering(network), replaced(drawn):
        altered.set()
        thread.join(timeout=0.2)
        assert not found  # it waits
        assert not torch.equal(model.encode(batch, model.sites[0]).logits, expected)
    thread.join()
    assert torch.equal(found[0], expected)


def test_weights_are_altered_once_no_other_thread_is_at_work():
    network, batch = small_model(encoder="lstm"), small_batch()
    drawn = drawn_weights(network, 0)
    expected = network.encode(batch).logits
    found = []

    def predict():
        found.extend(network.encode(batch).logits for _ in range(50))

    def alter():
        for _ in range(50):
            with altering(network), replaced(drawn):
                network.encode(batch)

    threads = [threading.Thread(target=work) for work in (predict, alter, predict)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 100
    assert all(torch.equal(each, expected) for each in found)
