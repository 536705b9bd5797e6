"""Gradients of the outcome against plain autograd, finite differences, and the numbers of Jain and Wallace."""

from __future__ import annotations

import copy
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.attributions import embedded_text, gradients, parts
from attn_faithful.attributions.base import Request, SourceSettings, attribute, outcome
from attn_faithful.attributions.gradients import embedding_gradients
from attn_faithful.attributions.states import state_gradients
from attn_faithful.models.attention import SCORERS
from attn_faithful.models.encoders import ENCODERS
from tests.checks import BATCHED, EXACT, pad
from tests.models.examples import small_batch, small_model
from tests.models.test_fixtures import CLOSE, EDGES, FIXTURES, FORWARD, build, given, inputs, load, question_batch

SOURCES = ("saliency", "input_x_gradient", "integrated_gradients")
SIGNED = SourceSettings(sign="signed")


def ask(model, batch, target=None, settings: SourceSettings = SIGNED, **more) -> Request:
    return Request(model, batch, model.encode(batch), settings, target, **more)


def values(name: str, *args, **more) -> Tensor:
    return attribute(name, ask(*args, **more)).values


def by_hand(model, batch, target, detached: bool = True, of: str = "probability") -> tuple[Tensor, Tensor]:
    """Embeddings and plain autograd's gradients, text by text, through the modules of the model (no padding, no query).

    With `detached` the attention is made a constant in the middle of the forward, as the original does.
    """
    embedded, found = model.embedding(batch["input_ids"]).detach(), torch.zeros(*batch["input_ids"].shape, 6)
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        if length == 0:
            continue
        leaf = embedded[row : row + 1, :length].clone().requires_grad_()
        states = model.encoder(leaf, torch.ones(1, length, dtype=torch.bool))
        content = torch.ones(1, length, dtype=torch.bool)
        if "special_tokens_mask" in batch:
            content = ~batch["special_tokens_mask"][row : row + 1, :length].bool()
        attention = model.attention(states, content)[0]
        context = ((attention.detach() if detached else attention)[:, :, None] * states).sum(1)
        z = model.readout(context)[0]
        chances = torch.stack([1 - z.sigmoid(), z.sigmoid()], 1)[0] if len(z) == 1 else z.softmax(-1)
        p = z.sigmoid()[target[row]] if model.config.multi_label else chances[target[row]]
        found[row, :length] = torch.autograd.grad(p if of == "probability" else (p / (1 - p)).log(), leaf)[0][0]
    return embedded, found


@pytest.mark.parametrize("path", ["detached", "attached"])
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("attention", SCORERS)
def test_gradients_equal_plain_autograd_of_each_text(encoder, attention, path):
    model = small_model(encoder=encoder, attention=attention)
    batch = small_batch((7, 3, 1, 0, 5), special=((0, 0), (0, 6), (1, 1)))
    target = torch.tensor([1, 0, 1, 1, 0])
    request = ask(model, batch, target, replace(SIGNED, attention_path=path))
    embedded, gradient = embedding_gradients(request)
    expected = by_hand(model, batch, target, path == "detached")[1]
    torch.testing.assert_close(gradient * batch["attention_mask"][:, :, None], expected, **EXACT)
    content = request.encoded.content
    for source in ("saliency", "input_x_gradient"):
        found = attribute(source, request).values
        assert found.dtype == torch.float64
        assert torch.equal(found.isnan(), ~content)
        torch.testing.assert_close(found[content], (expected * embedded).sum(-1)[content].double(), **EXACT)


@pytest.mark.parametrize("source", ["saliency", "input_x_gradient"])
def test_one_gradient_takes_no_captum(source, monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)  # an import of it fails
    found = values(source, small_model(), small_batch())
    assert bool(found.isfinite().any())


@pytest.mark.parametrize("of", ["probability", "logit"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"output": "softmax"}, {"num_labels": 4}, {"num_labels": 3, "output": "multi_label"}],
    ids=["one logit", "two", "four", "labels"],
)
def test_the_outcome_is_the_targets(settings, of):
    model, batch = small_model(**settings), small_batch((7, 3, 1))
    for classes in ([0, 1, 0], [1, 1, 0], [model.config.num_labels - 1] * 3):
        target = torch.tensor(classes)
        gradient = embedding_gradients(ask(model, batch, target, replace(SIGNED, outcome=of)))[1]
        torch.testing.assert_close(gradient, by_hand(model, batch, target, of=of)[1], **EXACT)


def test_one_logit_gives_two_classes_of_opposite_gradients():  # C21
    logits = torch.tensor([[0.0, 1.2]])
    no, yes = torch.tensor([0]), torch.tensor([1])
    chances = [float(outcome(logits, t, "probability", False)) for t in (no, yes)]
    assert chances == pytest.approx([0.231475, 0.768525], abs=1e-6)
    assert [float(outcome(logits, t, "logit", False)) for t in (no, yes)] == pytest.approx([-1.2, 1.2])
    model, batch = small_model(), small_batch((7, 3, 1))
    for of in ("probability", "logit"):
        pair = [
            values("input_x_gradient", model, batch, torch.full((3,), t), replace(SIGNED, outcome=of)) for t in (0, 1)
        ]
        torch.testing.assert_close(pair[0], -pair[1], equal_nan=True, **EXACT)
        assert float(pair[1].nan_to_num().abs().max()) > 1e-4


@pytest.mark.parametrize("source", SOURCES)
def test_the_target_is_the_predicted_class_unless_another_is_given(source):
    model, batch = small_model(num_labels=4), small_batch()
    predicted = model.encode(batch).logits.argmax(-1)
    torch.testing.assert_close(
        values(source, model, batch), values(source, model, batch, predicted), rtol=0, atol=0, equal_nan=True
    )
    other = values(source, model, batch, (predicted + 1) % 4)
    assert float((other - values(source, model, batch)).nan_to_num().abs().max()) > 1e-4


def test_a_sure_model_keeps_the_order_of_its_tokens():
    """In float32 1 - p is 0 from a logit of 17 on, and so would be every gradient of p."""
    model, batch = small_model(), small_batch((7,))
    with torch.no_grad():
        model.readout.bias.fill_(25)
    found = {
        of: values("input_x_gradient", model, batch, settings=SourceSettings(outcome=of))[0]
        for of in ("probability", "logit")
    }
    assert torch.equal(found["probability"].argsort(), found["logit"].argsort())
    assert len(found["probability"].unique()) == 7


# --- reductions


def test_reductions_and_signs():  # C20
    g = torch.tensor([[[3.0, -3.0], [1.0, 1.0], [0.5, 0.0]]])

    def reduced(values, settings, reduction):
        request = SimpleNamespace(settings=settings, encoded=SimpleNamespace(members=None))
        return gradients._signed(request, values, reduction)[0].tolist()

    found = {r: reduced(g, SIGNED, r) for r in ("sum", "l1", "l2")}
    assert found["sum"] == [0, 2, 0.5]
    assert found["l1"] == [6, 2, 0.5]
    assert found["l2"] == pytest.approx([4.243, 1.414, 0.5], abs=1e-3)
    assert reduced(-g, SourceSettings(), "sum") == [0, 2, 0.5], "magnitude after the reduction"
    assert reduced(-g, SIGNED, "sum") == [0, -2, -0.5]


@pytest.mark.parametrize("reduction", ["xxex", "l1", "l2", "sum"])
def test_each_source_reduces_its_own_numbers(reduction):
    model, batch, target = small_model(), small_batch((7, 3, 1)), torch.tensor([1, 0, 1])
    request = ask(model, batch, target, replace(SIGNED, reduction=reduction))
    e, g = (x.double() for x in by_hand(model, batch, target))
    product = g * e  # (B, T, E)
    if reduction in ("l1", "l2"):
        order = int(reduction[1])
        of_product = product.norm(p=order, dim=-1)
        of_gradient = g.norm(p=order, dim=-1)
    else:
        of_product = product.sum(-1)
        of_gradient = of_product if reduction == "xxex" else g.sum(-1)
    content = request.encoded.content
    for source, expected in (("saliency", of_gradient), ("input_x_gradient", of_product)):
        signed = attribute(source, request).values[content]
        torch.testing.assert_close(signed, expected[content], **EXACT)
        magnitude = attribute(source, replace(request, settings=SourceSettings(reduction=reduction))).values[content]
        torch.testing.assert_close(magnitude, signed.abs(), rtol=0, atol=0)
    integrated = attribute("integrated_gradients", request).values
    assert bool(integrated[content].isfinite().all())


# --- the numbers of Jain and Wallace


@pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no fixtures at {FIXTURES}")
@pytest.mark.parametrize("name", [*FORWARD, *EDGES], ids=lambda name: name or "_lstm_tanh")
def test_gradients_of_the_fixtures(name):
    """Their gradients are of the probability of each output."""
    arrays = load(f"jw_fixture{name}")
    model, batch = build(arrays), inputs(arrays)
    n, outputs = len(batch["input_ids"]), int(arrays["cfg"][3])
    total, vocabulary = 0, model.embedding.weight.detach().sum(0)
    for o in range(outputs):
        request = ask(model, batch, torch.full((n,), 1 if outputs == 1 else o))
        embedded, gradient = embedding_gradients(request)
        own = (gradient * embedded).sum(-1)
        for ours, theirs in ((own, "grad_XxEX"), (gradient @ vocabulary, "grad_XxE")):
            expected = given(arrays[theirs])[:, o]
            defined = ~expected.isnan()
            assert bool(defined.any())
            torch.testing.assert_close(ours[defined], expected[defined], **CLOSE)
        content = request.encoded.content & ~given(arrays["grad_XxEX"])[:, o].isnan()
        for source in ("input_x_gradient", "saliency"):
            found = attribute(source, request).values
            torch.testing.assert_close(found[content], own[content].double(), **CLOSE)
        states = state_gradients(request).sum(-1)
        expected = given(arrays["grad_H"])[:, o]
        defined = ~expected.isnan()
        assert bool(defined.any())
        torch.testing.assert_close(states[defined], expected[defined], **CLOSE)
        assert name not in FORWARD or float(expected[defined].abs().max()) > 1e-3
        total = total + own.abs()
    expected = given(arrays["grad_norm"])
    defined = ~expected.isnan().any(1)  # theirs is 0 / 0 where a text has no content token or a flat probability
    assert bool(defined.any()) or name == "_edge_saturated"
    ours = (total / total.sum(1, keepdim=True))[defined]
    torch.testing.assert_close(ours, expected[defined], rtol=1e-5, atol=2e-5)  # divided by sums of about 0.1


@pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no fixtures at {FIXTURES}")
@pytest.mark.parametrize("name", ["_qa_lstm_tanh", "_qa_lstm_dot"])
def test_gradients_of_the_questions(name):
    """Of the probability of the predicted class."""
    arrays = load(f"jw_fixture{name}")
    model = build(arrays, query=True)
    batch = question_batch(arrays)
    request = ask(model, batch)
    assert torch.equal(request.classes, given(arrays["pred_class"]).long())
    embedded, gradient = embedding_gradients(request)
    read = batch["attention_mask"].bool()
    torch.testing.assert_close((gradient * embedded).sum(-1)[read], given(arrays["grad_XxEX"])[read], **CLOSE)
    torch.testing.assert_close(
        (gradient @ model.embedding.weight.detach().sum(0))[read], given(arrays["grad_XxE"])[read], **CLOSE
    )
    torch.testing.assert_close(state_gradients(request).sum(-1)[read], given(arrays["grad_H"])[read], **CLOSE)
    shares = (gradient * embedded).sum(-1).abs()
    shares = shares / shares.sum(1, keepdim=True)
    torch.testing.assert_close(shares[read], given(arrays["grad_norm"])[read], rtol=1e-5, atol=2e-5)
    found = attribute("input_x_gradient", request).values
    content = request.encoded.content
    torch.testing.assert_close(found[content].float(), given(arrays["grad_XxEX"])[content], **CLOSE)


@pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no fixtures at {FIXTURES}")
def test_every_gradient_of_the_fixtures_is_compared():
    """An array that somebody adds is compared, or named here with why not."""
    gradients = {"grad_XxEX", "grad_XxE", "grad_H", "grad_norm"}
    for path in sorted(FIXTURES.glob("jw_fixture*.npz")):
        name = path.stem.removeprefix("jw_fixture")
        assert name in (*FORWARD, *EDGES, "_qa_lstm_tanh", "_qa_lstm_dot")
        assert {array for array in load(path.stem) if array.startswith("grad_")} == gradients


# --- integrated gradients


@pytest.mark.parametrize("path", ["detached", "attached"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_integrated_gradients_add_up_to_the_change(encoder, path):  # C19
    model, batch = small_model(encoder=encoder), small_batch((7, 3, 1, 0), special=((0, 0), (1, 2)))
    request = ask(model, batch, torch.tensor([1, 0, 1, 1]), replace(SIGNED, attention_path=path))
    found = attribute("integrated_gradients", request)
    encoded, content = request.encoded, request.encoded.content
    start = model.embedding(batch["input_ids"]).detach() * ~content[:, :, None]
    others = {n: v for n, v in batch.items() if n != "input_ids"}
    fixed = encoded.attention[:, 0] if path == "detached" else None
    with torch.no_grad():
        before = model(inputs_embeds=start, attention_weights=fixed, **others).logits.softmax(-1)
    change = (encoded.probabilities - before).gather(1, request.classes[:, None])[:, 0].double()
    held = content.any(1)
    total = found.values.nansum(1)
    delta = found.extra["convergence_delta"]
    assert torch.equal(delta.isnan(), ~held)
    torch.testing.assert_close(total[held] - delta[held], change[held], **EXACT)
    missed = (delta.abs() >= 1e-3 * change.abs()) & (delta.abs() > 1e-6)
    assert [why is not None for why in found.reasons or [None] * 4] == missed.tolist()
    if encoder not in ("cnn", "transformer"):  # ReLU has kinks, and layer norm a pole where the way starts
        assert not bool(missed.any())


def test_integrated_gradients_equal_a_sum_over_the_way():
    model, batch, target = small_model(), small_batch((4, 2)), torch.tensor([1, 0])
    found = values("integrated_gradients", model, batch, target)
    encoded = model.encode(batch)
    embedded = model.embedding(batch["input_ids"]).detach()
    points, weights = np.polynomial.legendre.leggauss(50)
    expected = torch.zeros(2, 4, dtype=torch.float64)
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        at = (embedded * float(point)).requires_grad_()
        attention = encoded.attention[:, 0].detach()
        logits = model(inputs_embeds=at, attention_mask=batch["attention_mask"], attention_weights=attention).logits
        p = logits.softmax(-1).gather(1, target[:, None]).sum()
        expected += weight * (torch.autograd.grad(p, at)[0] * embedded).sum(-1).double()
    content = encoded.content
    torch.testing.assert_close(found[content], expected[content], **EXACT)


def test_a_coarse_way_is_told():  # C19
    model, batch = small_model(), small_batch((7, 3, 0))
    with torch.no_grad():
        model.readout.weight.mul_(60)
        model.embedding.weight.mul_(3)
    coarse, fine = (
        attribute("integrated_gradients", ask(model, batch, settings=replace(SIGNED, n_steps=n))) for n in (2, 300)
    )
    assert "raise n_steps" in coarse.reasons[0]
    assert coarse.reasons[2] is None
    assert fine.reasons == ()
    assert float(fine.extra["convergence_delta"][0].abs()) < float(coarse.extra["convergence_delta"][0].abs())


def test_the_baseline_is_named():
    model, batch = small_model(pad_token_id=None), small_batch((7, 3))
    settings = replace(SIGNED, baseline="pad")
    with pytest.raises(InputError, match="'pad' needs a padding token, but the tokenizer has none; choose 'zero'"):
        values("integrated_gradients", model, batch, settings=settings)
    pads, zeros = (
        values("integrated_gradients", model, batch, settings=s, token_ids={"pad": 0}) for s in (settings, SIGNED)
    )
    assert float((pads - zeros).nan_to_num().abs().max()) > 1e-4
    with torch.no_grad():
        model.embedding.weight[0] = 0
    torch.testing.assert_close(
        values("integrated_gradients", model, batch, settings=settings, token_ids={"pad": 0}),
        values("integrated_gradients", model, batch),
        equal_nan=True,
        **EXACT,
    )


def test_steps_that_are_run_together_change_nothing(monkeypatch):  # C19
    model, batch = small_model(), small_batch((7, 3, 1))
    whole = values("integrated_gradients", model, batch)
    monkeypatch.setattr(parts, "CELLS", 1)
    torch.testing.assert_close(values("integrated_gradients", model, batch), whole, equal_nan=True, **EXACT)


# --- all of them


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_neither_batch_mates_nor_padding_change_a_text(encoder, source):  # C16, C19
    model = small_model(encoder=encoder)
    batch, target = small_batch((7, 3, 1, 0)), torch.tensor([1, 0, 0, 1])
    all_gather = values(source, model, batch, target)
    for row, length in enumerate((7, 3, 1, 0)):
        alone = {name: value[row : row + 1, :length] for name, value in batch.items()}
        found = values(source, model, alone, target[row : row + 1])
        torch.testing.assert_close(found[0], all_gather[row, :length], **EXACT)
    padded = values(source, model, pad(batch, 2, 1), target)
    torch.testing.assert_close(padded[:, 2:9], all_gather, equal_nan=True, **EXACT)
    assert bool(padded[:, :2].isnan().all())


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_a_query_is_no_part_of_what_is_attributed(source, attention):
    model, batch = small_model(attention=attention, query=True), small_batch(queries=(2, 4, 0, 3))
    found = values(source, model, batch, settings=replace(SIGNED, attention_path="attached"))
    alone = {name: value[1:2] for name, value in batch.items()}
    single = values(source, model, alone, settings=replace(SIGNED, attention_path="attached"))
    torch.testing.assert_close(found[1:2], single, equal_nan=True, **BATCHED)
    assert bool((found.isfinite() == model.encode(batch).content).all())


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("fails", [False, True], ids=["", "after an exception"])
def test_the_model_is_left_as_it_was(source, fails, monkeypatch):  # C18
    model, batch = small_model().train(), small_batch()
    model(**batch, labels=torch.tensor([0, 1, 0, 1])).loss.backward()
    next(m for m in model.modules() if isinstance(m, nn.Embedding)).eval()
    request = ask(model, batch)
    before = {name: (p.clone(), p.grad.clone(), p.requires_grad) for name, p in model.named_parameters()}
    modes, state = [m.training for m in model.modules()], torch.get_rng_state()
    flags = torch.backends.cudnn.enabled
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if fails:
            monkeypatch.setattr(embedded_text, "outcome", lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                attribute(source, request)
        else:
            with torch.no_grad():
                first = attribute(source, request).values
            torch.testing.assert_close(attribute(source, request).values, first, rtol=0, atol=0, equal_nan=True)
            assert not first.requires_grad
    for name, p in model.named_parameters():
        value, grad, requires = before[name]
        assert torch.equal(p, value), name
        assert torch.equal(p.grad, grad), name
        assert p.requires_grad == requires, name
    assert [m.training for m in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.backends.cudnn.enabled == flags
    assert torch.is_grad_enabled()
    assert all(value.grad_fn is None and not value.requires_grad for value in batch.values())


@pytest.mark.parametrize("source", SOURCES)
def test_cudnn_is_off_inside(source, monkeypatch):  # C18
    seen, model = [], small_model(encoder="gru")
    original = model.encoder.forward
    request = ask(model, small_batch())
    monkeypatch.setattr(model.encoder, "forward", lambda *a: seen.append(torch.backends.cudnn.enabled) or original(*a))
    attribute(source, request)
    assert seen
    assert not any(seen)


@pytest.mark.parametrize("source", SOURCES)
def test_autocast_and_dropout_do_not_reach_them(source):  # C13, C14
    model, batch = small_model(encoder="mlp"), small_batch()
    request = ask(model, batch)
    plain = attribute(source, request).values
    model.train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(attribute(source, request).values, plain, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("source", SOURCES)
def test_embeddings_in_place_of_ids(source):
    model, batch = small_model(), small_batch()
    expected = values(source, model, batch)
    batch["inputs_embeds"] = model.embedding(batch.pop("input_ids")).detach()
    torch.testing.assert_close(values(source, model, batch), expected, equal_nan=True, **EXACT)


@pytest.mark.parametrize("source", SOURCES)
def test_no_positions(source):
    model = small_model()
    empty = {"input_ids": torch.zeros(2, 0, dtype=torch.long), "attention_mask": torch.zeros(2, 0)}
    assert values(source, model, empty).shape == (2, 0)


@pytest.mark.parametrize("source", SOURCES)
def test_a_frozen_embedding_has_gradients_too(source):
    model, frozen = small_model(), small_model(freeze_embeddings=True)
    found = values(source, frozen, small_batch())
    torch.testing.assert_close(found, values(source, model, small_batch()), rtol=0, atol=0, equal_nan=True)


def test_double_precision_agrees_with_finite_differences():
    model, batch, target = copy.deepcopy(small_model()).double(), small_batch((5,)), torch.tensor([1])
    request = ask(model, batch, target, replace(SIGNED, attention_path="attached"))
    embedded, gradient = embedding_gradients(request)
    step = 1e-6 * torch.randn(embedded.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        ends = [
            model(inputs_embeds=embedded + s, attention_mask=batch["attention_mask"]).logits.softmax(-1)[0, 1]
            for s in (step, -step)
        ]
    assert float((gradient * step).sum()) == pytest.approx(float(ends[0] - ends[1]) / 2, rel=1e-6)


class Bare:
    """Speaks the protocol, and takes no embeddings."""

    sites = ("pool",)

    def __init__(self, model):
        self.encode = model.encode


@pytest.mark.parametrize("source", SOURCES)
def test_a_model_without_embeddings(source):
    model, batch = small_model(), small_batch()
    with pytest.raises(InputError, match=r"needs a model with get_input_embeddings\(\).*Bare is none.*leave_one_out"):
        values(source, Bare(model), batch)


class Plain(nn.Module):
    """Takes embeddings, and no attention in place of its own."""

    sites = ("pool",)

    def __init__(self, model):
        super().__init__()
        self.model, self.encode = model, model.encode

    def get_input_embeddings(self):
        return self.model.embedding

    def forward(self, inputs_embeds, attention_mask):
        return self.model(inputs_embeds=inputs_embeds, attention_mask=attention_mask)


@pytest.mark.parametrize("source", SOURCES)
def test_a_model_whose_attention_cannot_be_held(source):
    model, batch = small_model(), small_batch()
    with pytest.raises(InputError, match=r"takes no `attention_weights`.*choose attention_path 'attached'"):
        values(source, Plain(model), batch)
    attached = replace(SIGNED, attention_path="attached")
    found = values(source, Plain(model), batch, settings=attached)
    torch.testing.assert_close(found, values(source, model, batch, settings=attached), equal_nan=True, **EXACT)
