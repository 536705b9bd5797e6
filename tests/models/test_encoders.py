"""What each encoder reads, against torch's own modules and slow definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attn_faithful._checks import InputError
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.encoders import ENCODERS
from tests.checks import EXACT
from tests.models.examples import SMALL, small_batch, small_model

LENGTHS = (7, 3, 1)
RECURRENT = ("lstm", "gru", "orthogonal_lstm")
MASK = torch.arange(7) < torch.tensor(LENGTHS)[:, None]


def encoder(name: str, **settings):
    torch.manual_seed(0)
    config = AttentionClassifierConfig(**{**SMALL, **settings}, encoder=name)
    return ENCODERS[name](config).eval()


def embedded(seed: int = 0, length: int = 7) -> torch.Tensor:
    return torch.randn(len(LENGTHS), length, SMALL["embedding_size"], generator=torch.Generator().manual_seed(seed))


def packed_twin(ours: nn.Module, layers: int) -> nn.RNNBase:
    """torch's bidirectional network with the weights of our two one-way networks."""
    twin = type(ours).cell(6, 8, layers, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for name, weight in twin.named_parameters():
            layer = int(name.removesuffix("_reverse").rsplit("_l", 1)[1])
            way = ours.back if name.endswith("_reverse") else ours.ahead
            weight.copy_(way[layer].get_parameter(name.removesuffix("_reverse").rsplit("_l", 1)[0] + "_l0"))
    return twin


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_two_one_way_networks_equal_a_packed_bidirectional_one(name, layers):
    ours = encoder(name, num_layers=layers)
    theirs = packed_twin(ours, layers)
    inputs, again = embedded().requires_grad_(), embedded().requires_grad_()
    states = ours(inputs, MASK) * MASK[:, :, None]
    packed = pack_padded_sequence(again, list(LENGTHS), batch_first=True)
    output, ends = theirs(packed)
    expected = pad_packed_sequence(output, batch_first=True)[0]
    torch.testing.assert_close(states, expected, **EXACT)

    last = (ends[0] if isinstance(ends, tuple) else ends)[-2:]  # the last layer's two ends, (2, B, N)
    torch.testing.assert_close(ours.summary(states, MASK), torch.cat([last[0], last[1]], -1), **EXACT)

    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(3))
    (states * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(inputs.grad, again.grad, **EXACT)
    for parameter, weight in theirs.named_parameters():
        layer = int(parameter.removesuffix("_reverse").rsplit("_l", 1)[1])
        way = ours.back if parameter.endswith("_reverse") else ours.ahead
        own = way[layer].get_parameter(parameter.removesuffix("_reverse").rsplit("_l", 1)[0] + "_l0")
        # sums over all positions, in another order
        torch.testing.assert_close(own.grad, weight.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_one_direction_equals_a_packed_network_of_one(name, layers):
    ours = encoder(name, num_layers=layers, bidirectional=False)
    theirs = type(ours).cell(6, 8, layers, batch_first=True)
    with torch.no_grad():
        for parameter, weight in theirs.named_parameters():
            stem, layer = parameter.rsplit("_l", 1)
            weight.copy_(ours.ahead[int(layer)].get_parameter(f"{stem}_l0"))
    packed = pack_padded_sequence(embedded(), list(LENGTHS), batch_first=True)
    output, ends = theirs(packed)
    expected = pad_packed_sequence(output, batch_first=True)[0]
    states = ours(embedded(), MASK) * MASK[:, :, None]
    assert ours.width == 8
    torch.testing.assert_close(states, expected, **EXACT)
    last = ends[0] if isinstance(ends, tuple) else ends  # (layers, B, N)
    torch.testing.assert_close(ours.summary(states, MASK), last[-1], **EXACT)


@pytest.mark.parametrize("name", RECURRENT)
def test_one_direction_reads_nothing_that_comes_later(name):
    module = encoder(name, bidirectional=False)
    everything = torch.ones(3, 7, dtype=torch.bool)
    other = embedded()
    other[:, 4:] = embedded(seed=1)[:, 4:]
    with torch.no_grad():
        states, changed = module(embedded(), everything), module(other, everything)
    torch.testing.assert_close(changed[:, :4], states[:, :4], **EXACT)
    assert not torch.allclose(changed[:, 4], states[:, 4], atol=1e-3)


@pytest.mark.parametrize("name", ENCODERS)
def test_reading_alone_is_claimed_by_those_and_only_those_that_do(name):
    module, inputs = encoder(name), embedded()
    everything = torch.ones(3, 7, dtype=torch.bool)
    other = inputs.flip(1)  # the middle one stays, the others trade places
    with torch.no_grad():
        middle, again = module(inputs, everything)[:, 3], module(other, everything)[:, 3]
        single = module(inputs[:, 3:4], everything[:, :1])[:, 0]
    unmoved = torch.allclose(middle, again, atol=1e-6) and torch.allclose(middle, single, atol=1e-6)
    assert unmoved == module.reads_alone


@pytest.mark.parametrize("name", ENCODERS)
def test_states_have_the_width_that_is_stated(name):
    module = encoder(name)
    assert module(embedded(), MASK).shape == (3, 7, module.width)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_summary_reads_the_text_and_nothing_else(name):
    module = encoder(name)
    mask = MASK.clone()
    mask[2] = False
    with torch.no_grad():
        states = module(embedded(), mask)
        summary = module.summary(states, mask)
        alone = module.summary(module(embedded()[1:2, :3], mask[1:2, :3]), mask[1:2, :3])
        noise = torch.where(mask[:, :, None], states, torch.full_like(states, 7.0))
    assert summary.shape == (3, module.width)
    assert bool((summary[2] == 0).all())
    torch.testing.assert_close(summary[1], alone[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(module.summary(noise, mask), summary, **EXACT)
    if name not in RECURRENT:
        torch.testing.assert_close(summary[1], states[1, :3].mean(0), **EXACT)


@pytest.mark.parametrize(
    ("name", "activation", "expected"),
    [
        ("mlp", "tanh", torch.tanh),
        ("mlp", "relu", torch.tanh),
        ("average", "tanh", torch.tanh),
        ("average", "relu", torch.relu),
    ],
)
def test_activations_of_the_encoders_that_read_alone(name, activation, expected):
    module = encoder(name, activation=activation)
    by_hand = expected(embedded() @ module.projection.weight.T + module.projection.bias)
    torch.testing.assert_close(module(embedded(), MASK), by_hand, **EXACT)


def test_convolutions_equal_sums_over_the_window():
    module, inputs = encoder("cnn"), embedded() * MASK[:, :, None]
    states = module(embedded(), MASK)
    for i, convolution in enumerate(module.convolutions):
        weight, reach = convolution.weight, convolution.kernel_size[0] // 2  # (filters, E, k)
        for row, t in ((0, 0), (0, 3), (0, 6), (1, 2), (2, 0)):
            window = [
                weight[:, :, j] @ inputs[row, t + j - reach]
                for j in range(2 * reach + 1)
                if 0 <= t + j - reach < LENGTHS[row]
            ]
            expected = torch.relu(torch.stack(window).sum(0) + convolution.bias)
            torch.testing.assert_close(states[row, t, 4 * i : 4 * i + 4], expected, **EXACT)


def test_a_text_shorter_than_every_kernel():  # C17
    model = small_model(encoder="cnn", kernel_sizes=(3, 5, 7), hidden_size=9)
    film = {"input_ids": torch.tensor([[4, 5]]), "attention_mask": torch.tensor([[1, 1]])}
    encoded = model.encode(film)
    assert encoded.attention.shape == (1, 1, 2)
    assert float(encoded.attention.detach().sum()) == pytest.approx(1, abs=1e-6)
    left = model.without(film, torch.tensor([[[True, False], [False, True], [False, False]]]))
    torch.testing.assert_close(left[:, 0], model(torch.tensor([[4]])).logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(left[:, 1], model(torch.tensor([[5]])).logits, rtol=1e-5, atol=1e-5)
    mates = {"input_ids": torch.tensor([[4, 5, 0, 0, 0, 0, 0, 0], [9, 8, 7, 6, 5, 4, 3, 2]])}
    mates["attention_mask"] = (mates["input_ids"] > 0).long()
    torch.testing.assert_close(model.encode(mates).logits[0], encoded.logits[0], rtol=1e-5, atol=1e-5)


def test_a_transformer_equals_its_layers_on_the_coded_text():
    module = encoder("transformer", num_layers=2)
    text = embedded()[1:2, :3]
    angles = [[position / 10_000 ** (i / 4) for i in range(4)] for position in range(3)]
    coded = torch.tensor([[*map(math.sin, row), *map(math.cos, row)] for row in angles])
    hidden = module.input(text) + coded
    for layer in module.layers.layers:
        normed = layer.norm1(hidden)
        hidden = hidden + layer.self_attn(normed, normed, normed, need_weights=False)[0]
        hidden = hidden + layer.linear2(torch.relu(layer.linear1(layer.norm2(hidden))))
    expected = module.layers.norm(hidden)
    torch.testing.assert_close(module(embedded(), MASK)[1, :3], expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_a_transformer_knows_the_order(positions):
    model = small_model(encoder="transformer", positions=positions)
    logits = model(torch.tensor([[4, 5, 6], [6, 5, 4]])).logits
    assert not torch.allclose(logits[0], logits[1], atol=1e-5)


def test_a_text_longer_than_the_learned_positions():
    model = small_model(encoder="transformer", positions="learned", max_positions=5)
    with pytest.raises(InputError, match="7 tokens, but the model has learned positions for 5"):
        model(**small_batch())
    assert model(**small_batch((5, 2))).logits.isfinite().all()
    small_model(encoder="transformer", positions="sinusoidal", max_positions=5)(**small_batch())


def test_padding_beyond_the_learned_positions_is_no_long_text():
    model = small_model(encoder="transformer", positions="learned", max_positions=5)
    batch = small_batch((5, 2))
    for side in ((0, 4), (4, 0)):
        padded = {name: nn.functional.pad(value, side) for name, value in batch.items()}
        torch.testing.assert_close(model(**padded).logits, model(**batch).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in ENCODERS if n != "transformer"])
def test_other_encoders_take_ten_thousand_tokens(name):  # C24
    ids = torch.randint(2, 20, (1, 10_000), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        attention = small_model(encoder=name)(ids).attentions
    assert attention.shape == (1, 10_000)
    assert float(attention.double().sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_batch_without_any_position(name):  # what a tokenizer makes of the text ""
    model = small_model(encoder=name)
    empty = {"input_ids": torch.tensor([[], []]), "attention_mask": torch.tensor([[], []])}
    encoded = model.encode(empty)
    assert encoded.attention.shape == (2, 1, 0)
    torch.testing.assert_close(encoded.logits[:, 1], model.readout.bias.expand(2), rtol=0, atol=0)
    torch.testing.assert_close(model(**empty).logits, encoded.logits, rtol=0, atol=0)
