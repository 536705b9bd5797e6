"""Importance for states against a double loop of autograd and against texts run without a token."""

from __future__ import annotations

import copy
import doctest
import math
import warnings

import pytest
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions import hidden
from attn_faithful.attributions.base import Request, SourceSettings, attribute
from attn_faithful.attributions.hidden import hidden_gradient_importance, hidden_leave_one_out, normalized
from attn_faithful.models.encoders import ENCODERS
from tests.checks import EXACT, pad
from tests.models.examples import small_batch, small_model

SPECIAL = ((0, 0), (0, 6), (1, 1))
ALONE = ("mlp", "average", "none")  # encoders that read each token alone


def model_of(encoder, **settings):
    """A small model; with the gains of a new layer norm, 1 each, all states of a Transformer have one length."""
    model = small_model(encoder=encoder, **settings)
    if encoder == "transformer":
        with torch.no_grad():
            model.encoder.layers.norm.weight.copy_(torch.linspace(0.2, 2, model.encoder.width))
    return model


def importance(function, model, batch, **options) -> tuple[Tensor, list]:
    return function(model, batch, model.encode(batch), **options)


def states_by_hand(model, embedded) -> Tensor:
    """The states (T, N) of one text (T, E) without padding, through the encoder alone."""
    return model.encoder(embedded[None], torch.ones(1, len(embedded), dtype=torch.bool))[0]


def places(batch, row) -> tuple[list[int], list[int]]:
    """The positions of a text that are read, and those that are content."""
    read = batch["attention_mask"][row].nonzero()[:, 0].tolist()
    special = batch.get("special_tokens_mask", torch.zeros_like(batch["attention_mask"]))[row]
    return read, [t for t in read if not special[t]]


def shares(values: Tensor) -> Tensor:
    return values / values.nansum(-1, keepdim=True)


def gradients_by_hand(model, batch) -> Tensor:
    """Equation 5, one state and one token after another."""
    size = batch["input_ids"].shape
    found = torch.full((*size, size[1]), torch.nan, dtype=torch.float64)
    for row in range(size[0]):
        read, content = places(batch, row)
        tokens = [model.embedding(batch["input_ids"][row, t]).detach().requires_grad_() for t in read]
        for p in content:
            for i in content:
                length = states_by_hand(model, torch.stack(tokens))[read.index(p)].norm()
                found[row, p, i] = torch.autograd.grad(length, tokens[read.index(i)])[0].norm()
    return shares(found)


def changes_by_hand(model, batch, change) -> Tensor:
    """Equation 6 for states, one deleted token after another."""
    size = batch["input_ids"].shape
    found = torch.full((*size, size[1]), torch.nan, dtype=torch.float64)
    for row in range(size[0]):
        read, content = places(batch, row)
        for i in content:
            kept = [t for t in read if t != i]
            whole, short = (states_by_hand(model, model.embedding(batch["input_ids"][row, at])) for at in (read, kept))
            for p in content:
                if p != i:
                    own, other = whole[read.index(p)], short[kept.index(p)]
                    found[row, p, i] = (own - other).norm() if change == "difference" else own.norm() - other.norm()
    return shares(found.abs())


def same(found, expected, **tolerance):
    torch.testing.assert_close(found, expected, equal_nan=True, **(tolerance or EXACT))


@pytest.mark.parametrize("special", [(), SPECIAL], ids=["content", "special"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_gradients_equal_a_double_loop(encoder, special):
    model, batch = model_of(encoder), small_batch((7, 3, 1, 0, 5), special)
    values, reasons = importance(hidden_gradient_importance, model, batch)
    assert values.dtype == torch.float64
    content = model.encode(batch).content
    assert torch.equal(values.isnan(), ~(content[:, :, None] & content[:, None]))
    same(values, gradients_by_hand(model, batch))
    same(values.nansum(-1), content.double())
    assert [[reason is None for reason in row] for row in reasons] == content.tolist()
    if encoder in ALONE:
        same(values[content].nan_to_num(), torch.eye(7, dtype=torch.float64).expand(5, 7, 7)[content])


@pytest.mark.parametrize("kernels", [[1], [3], [1, 5]])
def test_states_that_share_no_token_go_back_together(kernels, monkeypatch):
    model = small_model(encoder="cnn", kernel_sizes=kernels, hidden_size=4)
    batch = small_batch((23, 8, 1, 0, 22), ((0, 0), (0, 6), (0, 7), (1, 1), (4, 3)))
    batch["attention_mask"][0, 10:13] = 0  # a gap: tokens beside it are neighbours
    batch["attention_mask"][4, :4] = 0
    whole = gradients_by_hand(model, batch)
    backwards = []
    grad = torch.autograd.grad
    monkeypatch.setattr("torch.autograd.grad", lambda *a, **k: backwards.append(1) or grad(*a, **k))
    values, _ = importance(hidden_gradient_importance, model, batch)
    assert len(backwards) == max(kernels)
    same(values, whole)


@pytest.mark.parametrize("change", ["difference", "length"])
@pytest.mark.parametrize("encoder", ["lstm", "gru", "cnn", "transformer"])
def test_leave_one_out_equals_texts_without_the_token(encoder, change):
    # in float32 a small change is the difference of two numbers that agree in most of their digits
    model, batch = model_of(encoder).double(), small_batch((7, 3, 2, 0, 5), ((0, 0), (0, 6), (4, 1)))
    values, reasons = importance(hidden_leave_one_out, model, batch, change=change)
    expected = changes_by_hand(model, batch, change)
    same(values, expected)
    assert float((expected > 0.01).sum()) > 20
    assert [[reason is None for reason in row] for row in reasons] == (expected >= 0).any(-1).tolist()
    in_float32, _ = importance(hidden_leave_one_out, copy.deepcopy(model).float(), batch, change=change)
    same(in_float32, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoder", ALONE)
@pytest.mark.parametrize("change", ["difference", "length"])
def test_no_other_token_changes_a_state_that_is_read_alone(encoder, change):
    """Rounding in another batch is no change, or its shares would look like importance."""
    model, batch = model_of(encoder, embedding_size=64, hidden_size=64), small_batch((9, 5, 1, 0))
    values, reasons = importance(hidden_leave_one_out, model, batch, change=change)
    assert bool(values.isnan().all())
    long = [["no mass"] * n + ["no content token"] * (9 - n) for n in (9, 5)]
    assert reasons == [*long, ["n<2"] + ["no content token"] * 8, ["no content token"] * 9]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_last_bit_is_no_change(dtype):
    states = torch.randn(5, 7, 64, generator=torch.Generator().manual_seed(0), dtype=dtype)
    for change in hidden.CHANGES:
        assert not bool(hidden._changes(states, states.nextafter(torch.tensor(9, dtype=dtype)), change).any())
        moved = hidden._changes(states, states * (1 + 100 * torch.finfo(dtype).eps), change)
        same(moved, 100 * torch.finfo(dtype).eps * states.double().norm(dim=-1), rtol=0.05, atol=0)


@pytest.mark.parametrize("function", [hidden_gradient_importance, hidden_leave_one_out])
@pytest.mark.parametrize("encoder", ["lstm", "cnn", "transformer"])
def test_padding_batch_mates_and_chunks_change_nothing(encoder, function, monkeypatch):
    model, batch = model_of(encoder).double(), small_batch((7, 3, 1, 0, 5), SPECIAL)
    expected, reasons = importance(function, model, batch)
    for left, right in ((0, 3), (3, 0), (2, 1)):
        padded, _ = importance(function, model, pad(batch, left, right))
        kept = slice(left, left + 7)
        same(padded[:, kept, kept], expected)
        assert int((~padded.isnan()).sum()) == int((~expected.isnan()).sum())
    for row in range(5):
        alone, why = importance(function, model, {name: value[row : row + 1] for name, value in batch.items()})
        same(alone[0], expected[row])
        assert why[0] == reasons[row]
    monkeypatch.setattr(hidden, "CELLS", 1)
    monkeypatch.setattr(hidden, "BACKWARD", 1)
    same(importance(function, model, batch)[0], expected)


@pytest.mark.parametrize("function", [hidden_gradient_importance, hidden_leave_one_out])
def test_all_positions_are_read_without_a_mask(function):
    model, batch = small_model(), small_batch((5, 5))
    same(importance(function, model, {"input_ids": batch["input_ids"]})[0], importance(function, model, batch)[0])


def test_the_length_of_a_state_behind_a_new_layer_norm_says_nothing():
    """All states are sqrt(N) long: what each token moves is the norm's epsilon; leaving a token out still shows."""
    model, batch = small_model(encoder="transformer").double(), small_batch((7,))
    leaf = model.embedding(batch["input_ids"]).detach().requires_grad_()
    length = model(inputs_embeds=leaf, output_hidden_states=True).hidden_states[0].norm(dim=-1)
    assert float(length.detach().std()) < 1e-3
    assert float(torch.autograd.grad(length.sum(), leaf)[0].abs().max()) < 1e-3
    values, _ = importance(hidden_leave_one_out, model, batch)
    same(values, changes_by_hand(model, batch, "difference"))


@pytest.mark.parametrize("function", [hidden_gradient_importance, hidden_leave_one_out])
def test_a_query_is_left_alone(function):
    model, batch = small_model(query=True), small_batch((7, 3, 1, 0), queries=(2, 4, 1, 3))
    values, _ = importance(function, model, batch)
    plain = small_model()
    plain.load_state_dict(model.state_dict(), strict=False)
    same(values, importance(function, plain, {n: batch[n] for n in ("input_ids", "attention_mask")})[0], **EXACT)


@pytest.mark.parametrize("function", [hidden_gradient_importance, hidden_leave_one_out])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_model_stays_as_it_was(encoder, function):
    model, batch = model_of(encoder), small_batch((7, 3, 1, 0))
    calm, _ = importance(function, model, batch)
    before = copy.deepcopy(model.state_dict())
    model.train()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as autograd's on operations that it cannot batch
        dropped, _ = importance(function, model, batch)
    same(dropped, calm, rtol=0, atol=0)
    assert all(module.training for module in model.modules())
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with torch.no_grad():
        same(importance(function, model, batch)[0], calm, rtol=0, atol=0)


@pytest.mark.parametrize("function", [hidden_gradient_importance, hidden_leave_one_out])
@pytest.mark.parametrize("lengths", [(0, 0), ()])
def test_no_token_at_all(function, lengths):
    model = small_model()
    ids = torch.zeros(len(lengths), 4, dtype=torch.long)
    values, reasons = importance(function, model, {"input_ids": ids, "attention_mask": ids})
    assert values.shape == (len(lengths), 4, 4)
    assert bool(values.isnan().all())
    assert reasons == [["no content token"] * 4] * len(lengths)
    empty = {name: value[:, :0] for name, value in (("input_ids", ids), ("attention_mask", ids))}
    values, reasons = importance(function, model, empty)
    assert (values.shape, reasons) == ((len(lengths), 0, 0), [[]] * len(lengths))


def test_a_state_that_nothing_moves_is_undefined():
    model, batch = small_model(encoder="cnn"), small_batch((4,))
    with torch.no_grad():
        for convolution in model.encoder.convolutions:
            convolution.bias.fill_(-100)  # ReLU gives 0 everywhere
    for function in (hidden_gradient_importance, hidden_leave_one_out):
        values, reasons = importance(function, model, batch)
        assert bool(values.isnan().all())
        assert reasons == [["no mass"] * 4]


def test_normalized():
    content = torch.tensor([[True, True, False]] * 4)
    scores = torch.tensor([[3.0, -1.0, 9.0], [0.0, 0.0, 1.0], [math.nan, 1.0, 1.0], [2.0, 0.0, math.nan]])
    values, reasons = normalized(scores, content)
    nan = math.nan
    same(values, torch.tensor([[0.75, 0.25, nan], [nan] * 3, [nan] * 3, [1, 0, nan]], dtype=torch.float64))
    assert reasons == [None, "no mass", "nan in scores", None]


@pytest.mark.parametrize("encoder", ["lstm", "transformer"])
def test_importance_for_the_output_is_saliency_normalized(encoder):
    """Equation 4: the attention moves with the embeddings."""
    model, batch = model_of(encoder), small_batch((7, 3, 1, 0))
    settings = SourceSettings(reduction="l2", attention_path="attached")
    encoded = model.encode(batch)
    found, _ = normalized(attribute("saliency", Request(model, batch, encoded, settings)).values, encoded.content)
    for row in range(4):
        read, _ = places(batch, row)
        leaf = model.embedding(batch["input_ids"][row : row + 1, read]).detach().requires_grad_()
        if read:
            chance = model(inputs_embeds=leaf).logits.double().softmax(-1)[0, 1]
            same(found[row, read], shares(torch.autograd.grad(chance, leaf)[0][0].double().norm(dim=-1)))
        assert bool(found[row, len(read) :].isnan().all())


def test_errors_are_clear():
    model, batch = small_model(), small_batch((3,))
    encoded = model.encode(batch)
    with pytest.raises(InputError, match=r"Unknown change 'lenght'\. Did you mean 'length'"):
        hidden_leave_one_out(model, batch, encoded, "lenght")

    class Silent(torch.nn.Module):
        get_input_embeddings = model.get_input_embeddings

        def forward(self, inputs_embeds):
            raise TypeError("not reached")

    class Layered(Silent):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, inputs_embeds, output_hidden_states=False):
            return type("Output", (), {"hidden_states": (inputs_embeds, inputs_embeds)})

    for function in (hidden_gradient_importance, hidden_leave_one_out):
        for other in (Silent(), Layered()):
            with pytest.raises(InputError, match=f"states, one a token.*{type(other).__name__} does not"):
                function(other, batch, encoded)
        with pytest.raises(InputError, match="inputs_embeds"):
            function(torch.nn.Linear(1, 1), batch, encoded)


def test_examples():
    assert doctest.testmod(hidden).failed == 0
