"""Leave-one-out against plain loops over shortened texts, and the numbers of Jain and Wallace."""

from __future__ import annotations

import gc
import resource
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from captum.attr import FeatureAblation
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions import occlusion, parts
from attn_faithful.attributions.base import Request, SourceSettings, attribute
from attn_faithful.attributions.embedded_text import analysing, embedded_text
from attn_faithful.models.attention import SCORERS
from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.protocol import probabilities
from tests.checks import BATCHED, EXACT, pad
from tests.models.examples import small_batch, small_model
from tests.models.test_fixtures import CLOSE, EDGES, FIXTURES, FORWARD, build, given, inputs, load, question_batch

MAGNITUDE, SIGNED = SourceSettings(), SourceSettings(sign="signed")
IDS = {"mask": 2, "unk": 1, "pad": 0}
OUTPUTS = {
    "one logit": {},
    "two": {"output": "softmax"},
    "four": {"num_labels": 4},
    "labels": {"num_labels": 3, "output": "multi_label"},
}


def ask(model, batch, settings: SourceSettings = MAGNITUDE, target=None, token_ids=IDS) -> Request:
    return Request(model, batch, model.encode(batch), settings, target, token_ids=token_ids)


def values(*args, source: str = "leave_one_out", **more) -> Tensor:
    return attribute(source, ask(*args, **more)).values


@torch.no_grad()
def deletion_loop(model, batch) -> tuple[list[list[Tensor]], list[Tensor]]:
    """For each text the probabilities without each content token, and with all, by cutting lists of ids."""
    marks = batch.get("special_tokens_mask", torch.zeros_like(batch["input_ids"]))

    def chances(ids: list[int], special: list[int]) -> Tensor:
        read = torch.tensor([[1] * len(ids) or [0]])  # a text of no token is one of padding
        logits = model(
            torch.tensor([ids or [0]]), attention_mask=read, special_tokens_mask=torch.tensor([special or [1]])
        ).logits
        return probabilities(logits, model.config.multi_label)[0].double()

    without, whole = [], []
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        ids, special = batch["input_ids"][row, :length].tolist(), marks[row, :length].tolist()
        whole.append(chances(ids, special))
        content = [i for i in range(length) if not special[i]]
        without.append([chances(ids[:i] + ids[i + 1 :], special[:i] + special[i + 1 :]) for i in content])
    return without, whole


@torch.no_grad()
def ablated(request: Request) -> Tensor:
    """Change of the outcome without each token's embedding (B, tokens), signed, by Captum."""
    text = embedded_text(request, "occlusion")
    item = torch.arange(text.embedded.shape[1]).expand(text.embedded.shape[:2])
    if request.encoded.members is not None:
        item = torch.where(request.encoded.members < 0, text.embedded.shape[1], request.encoded.members)
    feature = item[:, :, None].expand_as(text.embedded)
    with analysing(request.model):
        change = FeatureAblation(text).attribute(
            text.embedded, additional_forward_args=text.arguments, feature_mask=feature
        )
    return change[:, :, 0]


def distance(p: Tensor, q: Tensor, multi_label: bool) -> float:
    return float((p - q).abs().mean() if multi_label else 0.5 * (p - q).abs().sum())


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("attention", SCORERS)
def test_deletion_equals_the_loop(encoder, attention):  # C22
    model = small_model(encoder=encoder, attention=attention)
    batch = small_batch((7, 3, 1, 0, 5, 2), special=((0, 0), (0, 6), (1, 1), (5, 0), (5, 1)))
    request = ask(model, batch)
    found, content = attribute("leave_one_out", request).values, request.encoded.content
    assert found.dtype == torch.float64
    assert torch.equal(found.isnan(), ~content)
    without, whole = deletion_loop(model, batch)
    for row, (each, all_of_it) in enumerate(zip(without, whole, strict=True)):
        assert int(content[row].sum()) == len(each), "n content tokens, n numbers"
        expected = torch.tensor([distance(all_of_it, p, False) for p in each], dtype=torch.float64)
        torch.testing.assert_close(found[row][content[row]], expected, **BATCHED)


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("of", ["probability", "logit"])
def test_signs_and_outcomes(name, of):  # C20
    model, batch = small_model(**OUTPUTS[name]), small_batch((7, 3, 1))
    target, multi_label = torch.tensor([1, 0, 1]), name == "labels"
    without, whole = deletion_loop(model, batch)
    signed = values(model, batch, replace(SIGNED, outcome=of), target)
    magnitude = values(model, batch, replace(MAGNITUDE, outcome=of), target)

    def of_target(p: Tensor, row: int) -> float:
        p = p[target[row]]
        return float(p if of == "probability" else (p / (1 - p)).log())

    for row, length in enumerate((7, 3, 1)):
        drops = [of_target(whole[row], row) - of_target(p, row) for p in without[row]]
        assert signed[row, :length].tolist() == pytest.approx(drops, abs=1e-5)
        tvds = [distance(whole[row], p, multi_label) for p in without[row]]
        sizes = tvds if of == "probability" else [abs(d) for d in drops]
        assert magnitude[row, :length].tolist() == pytest.approx(sizes, abs=1e-5)
    if of == "probability" and name in ("one logit", "two"):
        torch.testing.assert_close(magnitude, signed.abs(), equal_nan=True, **EXACT)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_without_its_only_token_a_text_is_the_bias(encoder):  # C22, C23
    model, batch = small_model(encoder=encoder), small_batch((1, 3), special=((1, 0), (1, 2)))
    bias = float(model.readout.bias.detach().sigmoid()[0])
    found = values(model, batch, SIGNED, torch.tensor([1, 1]))
    expected = model.encode(batch).probabilities[:, 1].detach().double() - bias
    torch.testing.assert_close(found[[0, 1], [0, 1]], expected, **EXACT)


@pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no fixtures at {FIXTURES}")
@pytest.mark.parametrize("name", [*FORWARD, *EDGES], ids=lambda name: name or "_lstm_tanh")
def test_leave_one_out_of_the_fixtures(name):
    arrays = load(f"jw_fixture{name}")
    model, batch = build(arrays), inputs(arrays)
    found, content = values(model, batch), model.encode(batch).content
    alone = content & (content.sum(1, keepdim=True) == 1)  # without its only token the original is NaN
    expected = given(arrays["loo_delta"])
    assert torch.equal(~expected.isnan(), content & ~alone)
    torch.testing.assert_close(found[content & ~alone].float(), expected[content & ~alone], **CLOSE)
    assert bool(found[alone].isfinite().all())


@pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no fixtures at {FIXTURES}")
@pytest.mark.parametrize("name", ["_qa_lstm_tanh", "_qa_lstm_dot"])
def test_leave_one_out_of_the_questions(name):
    arrays = load(f"jw_fixture{name}")
    model = build(arrays, query=True)
    batch = question_batch(arrays)
    found, expected = values(model, batch), given(arrays["loo_l1"]) / 2  # theirs is not halved
    defined = ~expected.isnan()
    content = model.encode(batch).content
    assert bool((defined & content).any())
    torch.testing.assert_close(found[defined & content].float(), expected[defined & content], **CLOSE)


# --- operators that leave the token's place


@pytest.mark.parametrize("operator", ["mask", "unk", "pad"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_another_token_takes_the_place(encoder, operator):
    model = small_model(encoder=encoder)
    batch = small_batch((7, 3, 1, 0), special=((0, 0), (1, 1)))
    request = ask(model, batch, replace(MAGNITUDE, operator=operator))
    found, content = attribute("leave_one_out", request).values, request.encoded.content
    for row, token in content.nonzero().tolist():
        ids = batch["input_ids"].clone()
        ids[row, token] = IDS[operator]
        with torch.no_grad():
            p = model(**{**batch, "input_ids": ids}).logits.softmax(-1)[row]
        expected = distance(request.encoded.probabilities[row].detach(), p, False)
        assert float(found[row, token]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("sign", ["magnitude", "signed"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_zero_embedding_is_captums_ablation(encoder, sign):
    model = small_model(encoder=encoder)
    batch = small_batch((7, 3, 1, 0), special=((0, 0), (1, 1)))
    settings, target = SourceSettings(operator="zero", sign=sign), torch.tensor([1, 0, 1, 0])
    request = ask(model, batch, settings, target)
    ours = values(model, batch, settings, target, source="occlusion")
    captums = ablated(request)
    content = request.encoded.content
    captums = captums.abs() if sign == "magnitude" else captums
    torch.testing.assert_close(ours[content], captums[content].double(), **EXACT)
    torch.testing.assert_close(ours, values(model, batch, settings, target), equal_nan=True, **EXACT)
    embedded = model.embedding(batch["input_ids"]).detach()
    embedded[0, 3] = 0
    with torch.no_grad():
        others = {n: v for n, v in batch.items() if n != "input_ids"}
        p = model(inputs_embeds=embedded, **others).logits.softmax(-1)[0, 1]
    change = float(model.encode(batch).probabilities[0, 1].detach() - p)
    assert float(ours[0, 3]) == pytest.approx(change if sign == "signed" else abs(change), abs=1e-6)


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_cross_check_of_every_output(name):
    model, batch = small_model(**OUTPUTS[name]), small_batch((7, 3, 1))
    for of in ("probability", "logit"):
        settings = replace(SIGNED, operator="zero", outcome=of)
        request = ask(model, batch, settings)
        content = request.encoded.content
        captums = ablated(request)[content].double()
        for source in ("leave_one_out", "occlusion"):
            torch.testing.assert_close(attribute(source, request).values[content], captums, **EXACT)


def test_operators_are_not_interchangeable():  # C22
    model, batch = small_model(), small_batch()
    found = {o: values(model, batch, replace(SIGNED, operator=o)) for o in ("delete", "mask", "unk", "pad", "zero")}
    with torch.no_grad():
        model.embedding.weight[0] = 0
    found["pad"] = values(model, batch, replace(SIGNED, operator="pad"))
    torch.testing.assert_close(found["pad"], values(model, batch, replace(SIGNED, operator="zero")), equal_nan=True)
    for a, b in (("delete", "mask"), ("delete", "unk"), ("delete", "pad"), ("mask", "unk")):
        assert float((found[a] - found[b]).nan_to_num().abs().max()) > 1e-4


def test_a_tokenizer_without_the_token():  # C22
    model, batch = small_model(), small_batch()
    with pytest.raises(InputError, match=r"'mask' needs the tokenizer's mask token.*choose delete, unk or zero"):
        values(model, batch, replace(MAGNITUDE, operator="mask"), token_ids={"unk": 1, "mask": None})
    with pytest.raises(InputError, match=r"'pad' needs the tokenizer's pad token.*choose delete or zero"):
        values(model, batch, replace(MAGNITUDE, operator="pad"), token_ids={})


def test_embeddings_in_place_of_ids():
    model, batch = small_model(), small_batch()
    expected = {o: values(model, batch, replace(MAGNITUDE, operator=o)) for o in ("delete", "zero")}
    batch["inputs_embeds"] = model.embedding(batch.pop("input_ids")).detach()
    for operator, value in expected.items():
        found = values(model, batch, replace(MAGNITUDE, operator=operator))
        torch.testing.assert_close(found, value, equal_nan=True, **EXACT)
    with pytest.raises(InputError, match="'unk' needs `input_ids` in the batch; choose delete or zero"):
        values(model, batch, replace(MAGNITUDE, operator="unk"))


class Protocol:
    """No more than the protocol."""

    sites = ("pool",)

    def __init__(self, model):
        self.encode, self.without = model.encode, model.without


def test_the_protocol_is_enough_for_ids():
    model, batch = small_model(), small_batch()
    for operator in ("delete", "unk"):
        settings = replace(MAGNITUDE, operator=operator)
        found = values(Protocol(model), batch, settings)
        torch.testing.assert_close(found, values(model, batch, settings), rtol=0, atol=0, equal_nan=True)
    for source, settings in (("leave_one_out", replace(MAGNITUDE, operator="zero")), ("occlusion", MAGNITUDE)):
        with pytest.raises(InputError, match=r"needs a model with get_input_embeddings\(\).*operator 'delete'"):
            values(Protocol(model), batch, settings, source=source)


# --- all of them

WAYS = [("leave_one_out", o) for o in ("delete", "mask", "unk", "pad", "zero")] + [("occlusion", "zero")]


@pytest.mark.parametrize(("source", "operator"), WAYS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_neither_batch_mates_nor_padding_change_a_text(encoder, source, operator):  # C16
    model, settings = small_model(encoder=encoder), replace(SIGNED, operator=operator)
    batch, target = small_batch((7, 3, 1, 0)), torch.tensor([1, 0, 0, 1])
    all_gather = values(model, batch, settings, target, source=source)
    for row, length in enumerate((7, 3, 1, 0)):
        alone = {name: value[row : row + 1, :length] for name, value in batch.items()}
        found = values(model, alone, settings, target[row : row + 1], source=source)
        torch.testing.assert_close(found[0], all_gather[row, :length], **BATCHED)
    padded = values(model, pad(batch, 2, 1), settings, target, source=source)
    torch.testing.assert_close(padded[:, 2:9], all_gather, equal_nan=True, **BATCHED)


@pytest.mark.parametrize(("source", "operator"), WAYS)
def test_what_is_run_together_changes_nothing(source, operator, monkeypatch):  # C27
    model, settings = small_model(encoder="cnn"), replace(SIGNED, operator=operator)
    batch = small_batch(special=((0, 2),))
    all_gather = values(model, batch, settings, source=source)
    for cells in (1, 60):
        monkeypatch.setattr(parts, "CELLS", cells)
        monkeypatch.setattr(occlusion, "KEPT", cells)
        found = values(model, batch, settings, source=source)
        torch.testing.assert_close(found, all_gather, equal_nan=True, **EXACT)


def test_a_text_of_n_tokens_takes_n_rows(monkeypatch):  # C27
    model = small_model(encoder="transformer")
    batch, rows = small_batch((7, 3, 1, 0), special=((0, 0),)), []
    request, original = ask(model, batch), model.encoder.forward
    monkeypatch.setattr(model.encoder, "forward", lambda e, m: rows.append(len(e)) or original(e, m))
    attribute("leave_one_out", request)
    assert 10 <= sum(rows) <= 10 + len(batch["input_ids"])
    rows.clear()
    attribute("leave_one_out", replace(request, settings=replace(MAGNITUDE, operator="unk")))
    assert sum(rows) == 10


@pytest.mark.parametrize(("source", "operator"), WAYS)
def test_the_model_is_left_as_it_was(source, operator):
    model, batch = small_model().train(), small_batch()
    request = ask(model, batch, replace(SIGNED, operator=operator))
    before = {name: value.clone() for name, value in (*model.state_dict().items(), *batch.items())}
    state = torch.get_rng_state()
    first, again = attribute(source, request).values, attribute(source, request).values
    torch.testing.assert_close(first, again, rtol=0, atol=0, equal_nan=True)  # dropout would differ
    assert not first.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in (*model.state_dict().items(), *batch.items()))
    assert all(module.training for module in model.modules())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(("source", "operator"), WAYS)
def test_no_positions_and_no_content(source, operator):
    model, settings = small_model(), replace(SIGNED, operator=operator)
    empty = {"input_ids": torch.zeros(2, 0, dtype=torch.long), "attention_mask": torch.zeros(2, 0)}
    assert values(model, empty, settings, source=source).shape == (2, 0)
    batch = small_batch((2, 0), special=((0, 0), (0, 1)))
    assert bool(values(model, batch, settings, source=source).isnan().all())


def test_memory_does_not_grow_with_calls():  # C27
    model, batch = small_model(encoder="lstm"), small_batch((30, 20))
    for _ in range(30):
        values(model, batch)
    gc.collect()
    tensors, peaks = count_tensors(), [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]
    for _ in range(4):
        for _ in range(15):
            values(model, batch)
        gc.collect()
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert count_tensors() <= tensors
    # what leaks grows in every round; what the allocator keeps after other tests does so once
    assert min(b - a for a, b in pairwise(peaks)) < 1024  # KiB


def count_tensors() -> int:
    return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())
