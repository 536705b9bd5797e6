"""The orthogonal LSTM against a slow loop in numpy, and what its states promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attn_faithful.models.orthogonal_lstm import OrthogonalLSTM, without_part_along
from tests.models.examples import small_batch, small_model
from tests.reference.orthogonal_lstm import conicity, orthogonal_states

NAMES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0")


def network(seed: int = 0, embedding: int = 5, hidden: int = 7) -> OrthogonalLSTM:
    torch.manual_seed(seed)
    return OrthogonalLSTM(embedding, hidden).double()


def texts(count: int = 3, length: int = 9, width: int = 5, seed: int = 1) -> Tensor:
    return torch.randn(count, length, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def reference(net: OrthogonalLSTM, text: np.ndarray, **weights: np.ndarray) -> np.ndarray:
    own = {name: weight.detach().numpy() for name, weight in net.named_parameters()} | weights
    bias = own["bias_ih_l0"] + own["bias_hh_l0"]
    return orthogonal_states(text, own["weight_ih_l0"], own["weight_hh_l0"], bias)


@pytest.mark.parametrize("length", [1, 2, 9, 40])
def test_states_equal_the_slow_loop(length):
    net, batch = network(), texts(length=length)
    states = net(batch)[0].detach().numpy()
    for text, own in zip(batch.numpy(), states, strict=True):
        np.testing.assert_allclose(own, reference(net, text), rtol=0, atol=1e-10)


def test_gradients_equal_the_slow_loops():
    # along random directions, by a complex step: exact to rounding where a difference is not
    net, batch = network(), texts(count=1).requires_grad_()
    generator = torch.Generator().manual_seed(2)
    weights = torch.randn(1, 9, 7, dtype=torch.float64, generator=generator)
    (net(batch)[0] * weights).sum().backward()
    text = batch.detach().numpy()[0]

    def check(gradient: Tensor, changed) -> None:
        direction = torch.randn(gradient.shape, dtype=torch.float64, generator=generator)
        slope = float((weights[0].numpy() * changed(1e-30j * direction.numpy())).sum().imag / 1e-30)
        assert abs(slope) > 1e-3
        assert float((gradient * direction).sum()) == pytest.approx(slope, abs=1e-10)

    for _ in range(3):
        check(batch.grad[0], lambda step: reference(net, text + step))
        for name in NAMES:
            weight = net.get_parameter(name)
            check(weight.grad, lambda step, n=name, w=weight: reference(net, text, **{n: w.detach().numpy() + step}))


def test_first_and_second_gradients_agree_with_differences():
    net, batch = network(embedding=3, hidden=2), texts(count=2, length=4, width=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: net(x)[0], (batch,))
    assert torch.autograd.gradgradcheck(lambda x: net(x)[0], (batch,))


@pytest.mark.parametrize("seed", range(3))
def test_each_state_is_orthogonal_to_the_mean_of_the_earlier_ones(seed):
    states = network(seed)(texts(seed=seed, length=30))[0].detach()
    for t in range(1, 30):
        mean = states[:, :t].mean(1)
        cosine = nn.functional.cosine_similarity(states[:, t], mean)
        assert float(cosine.abs().max()) < 1e-10


def test_the_first_state_is_that_of_an_lstm():
    net = network()
    plain = nn.LSTM(5, 7, batch_first=True).double()
    plain.load_state_dict(net.state_dict())
    ours, theirs = net(texts())[0], plain(texts())[0]
    torch.testing.assert_close(ours[:, 0], theirs[:, 0], rtol=0, atol=1e-12)
    assert not torch.allclose(ours[:, 1], theirs[:, 1], atol=1e-3)


def test_states_of_zero_leave_the_next_as_it_is():
    net = network()
    with torch.no_grad():
        net.bias_ih_l0.zero_()
        net.bias_hh_l0.zero_()
    batch = texts()
    batch[:, :2] = 0  # states of 0, as no bias moves them
    batch.requires_grad_()
    states = net(batch)[0]
    assert bool((states[:, :2] == 0).all())
    torch.testing.assert_close(states[:, 2:], net(batch[:, 2:])[0], rtol=0, atol=1e-12)
    states.sum().backward()
    assert bool(batch.grad.isfinite().all())


def test_a_direction_of_zero_and_one_that_is_all():
    states = torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    direction = torch.tensor([[0.0, 0.0], [6.0, 8.0], [1.0, 0.0]], requires_grad=True)
    left = without_part_along(direction, states)
    torch.testing.assert_close(left, torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]]))
    left.sum().backward()
    assert bool(direction.grad.isfinite().all())
    assert bool(states.grad.isfinite().all())


@pytest.mark.parametrize("seed", range(5))
def test_conicity_falls_against_the_plain_lstm(seed):
    net = network(seed, hidden=16)
    plain = nn.LSTM(5, 16, batch_first=True).double()
    plain.load_state_dict(net.state_dict())
    batch = texts(count=8, length=20, seed=seed)
    ours = np.mean([conicity(states) for states in net(batch)[0].detach().numpy()])
    theirs = np.mean([conicity(states) for states in plain(batch)[0].detach().numpy()])
    assert ours < 0.8 * theirs


def test_one_direction_whatever_is_set():
    for bidirectional in (True, False):
        model = small_model(encoder="orthogonal_lstm", bidirectional=bidirectional)
        assert model.encoder.width == 8
        states = model(**small_batch(), output_hidden_states=True).hidden_states
        shorter = model(**small_batch((3, 3, 1, 0)), output_hidden_states=True).hidden_states
        assert states.shape == (4, 7, 8)
        assert shorter.shape == (4, 3, 8)
