"""Models with a query: both read-outs pass the checks, candidates, the numbers of the original question answering."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.models.readout import TanhReadout
from tests.checks import EXACT, alternatives, check_attention_model
from tests.models.examples import small_batch, small_model
from tests.models.test_fixtures import CLOSE, FIXTURES, build, given, load, question_batch

QUERIES = (2, 4, 0, 3)
TANH = {"readout": "tanh", "query": True, "num_labels": 4}
CANDIDATES = torch.tensor([[1, 1, 0, 1], [0, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]])


def asked(**settings):
    """A small model with a query, and a batch for it."""
    return small_model(**{**TANH, **settings}), small_batch(queries=QUERIES)


# --- the read-outs


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("attention", ["additive", "dot", "uniform"])
def test_the_tanh_readout_passes_the_checks(encoder, attention):
    check_attention_model(*asked(encoder=encoder, attention=attention))


VARIANTS = {
    "one logit": {"num_labels": 2},
    "softmax over two": {"num_labels": 2, "output": "softmax"},
    "multi_label": {"output": "multi_label"},
    "sparsemax": {"projection": "sparsemax"},
    "affine": {"readout": "affine"},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_output_passes_the_checks_with_a_query(name):
    check_attention_model(*asked(**VARIANTS[name]))


def test_the_tanh_readout_passes_the_checks_without_a_query():
    check_attention_model(small_model(readout="tanh", num_labels=3), small_batch())


def test_special_tokens_are_read_and_not_attended():
    model = asked()[0]
    check_attention_model(model, small_batch(special=((0, 0), (0, 6), (1, 1), (2, 0)), queries=QUERIES))


@torch.no_grad()
def test_the_tanh_readout_is_its_formula():
    model, batch = asked()
    model = model.double()
    encoded, output = model.encode(batch), model(**batch, output_hidden_states=True)
    states, query = (
        output.hidden_states.numpy(),
        model.query_vector(batch["query_input_ids"], batch["query_attention_mask"]),
    )
    weights = {name: value.numpy() for name, value in model.readout.state_dict().items()}
    attention = alternatives(encoded, 3)
    decoded = encoded.decode(attention)
    for b, k in ((b, k) for b in range(4) for k in range(3)):
        context = sum(attention[b, k, 0, t].item() * states[b, t] for t in range(states.shape[1]))
        inside = weights["context.weight"] @ context + weights["context.bias"]
        inside = np.tanh(inside + weights["query.weight"] @ query[b].numpy() + weights["query.bias"])
        by_hand = weights["output.weight"] @ inside + weights["output.bias"]
        assert decoded[b, k].numpy() == pytest.approx(by_hand, abs=1e-10)


def test_the_readout_decides_what_is_affine_and_what_the_query_reaches():
    batch = small_batch(queries=QUERIES)
    turned = {name: value.flip(0) if name.startswith("query_") else value for name, value in batch.items()}
    for readout in ("affine", "tanh"):
        model, _ = asked(readout=readout)
        encoded, other = model.encode(batch), model.encode(turned)
        assert (encoded.affine is None) == (readout == "tanh")
        same = alternatives(encoded, 1)
        reached = not torch.allclose(encoded.decode(same)[0], other.decode(same)[0], atol=1e-6)
        assert reached == (readout == "tanh")


@pytest.mark.parametrize("readout", ["affine", "tanh"])
def test_decode_trains_the_model_only_where_encode_did(readout):
    model, batch = asked(readout=readout)
    with torch.no_grad():
        calm = model.encode(batch)
    assert not calm.decode(calm.attention[:, None]).requires_grad
    weights = calm.attention[:, None].clone().requires_grad_()
    assert torch.autograd.grad(calm.decode(weights).sum(), weights)[0].isfinite().all()
    eager = model.encode(batch)
    eager.decode(eager.attention[:, None]).sum().backward()
    assert all(p.grad is not None for p in model.readout.parameters())


def test_the_layer_inside_is_half_as_wide_as_the_context():
    readout = TanhReadout(12, 10, 4)
    assert (readout.context.weight.shape, readout.query.weight.shape) == ((6, 12), (6, 10))
    assert TanhReadout(1, None, 4).output.weight.shape == (4, 1)


def test_an_empty_query_is_the_zero_vector():
    model, batch = asked()
    none = model.query_vector(batch["query_input_ids"], batch["query_attention_mask"])[2]
    assert bool((none == 0).all())
    assert bool(model(**batch).logits.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_analysed_in_float32(dtype):  # C13
    model, batch = asked(encoder="mlp")
    encoded = model.to(dtype).encode(batch)
    assert encoded.attention.dtype == encoded.logits.dtype == encoded.decode(encoded.attention[:, None]).dtype
    assert encoded.logits.dtype == torch.float32
    tolerance = 8 * torch.finfo(dtype).eps  # one rounding a layer
    torch.testing.assert_close(model(**batch).logits.float(), encoded.logits, rtol=tolerance, atol=tolerance)


# --- candidates


@pytest.mark.parametrize("readout", ["affine", "tanh"])
@pytest.mark.parametrize("encoder", ["lstm", "mlp", "cnn", "transformer"])
def test_only_candidates_may_be_the_answer(encoder, readout):
    model, batch = asked(encoder=encoder, readout=readout)
    free, bound = model.encode(batch), model.encode({**batch, "candidates": CANDIDATES})
    out = ~CANDIDATES.bool()
    assert bool(bound.logits[out].isneginf().all())
    assert torch.equal(bound.logits[~out], free.logits[~out])
    assert torch.equal(model(**batch, candidates=CANDIDATES).logits[out], bound.logits[out])
    expected = free.probabilities * CANDIDATES
    torch.testing.assert_close(bound.probabilities, expected / expected.sum(1, keepdim=True), **EXACT)
    many = alternatives(free, 3)
    decoded = bound.decode(many)
    assert bool(decoded.transpose(1, 2)[out].isneginf().all())
    assert torch.equal(decoded.transpose(1, 2)[~out], free.decode(many).transpose(1, 2)[~out])
    if bound.affine is not None:
        by_hand = many[:, :, 0] @ bound.affine.token_logits + bound.affine.bias[:, None]
        torch.testing.assert_close(decoded, by_hand, **EXACT)
    keep = ~torch.eye(7, dtype=torch.bool).expand(4, 7, 7)
    deleted = model.without({**batch, "candidates": CANDIDATES}, keep)
    assert not bool(deleted.isnan().any())
    assert bool(deleted.transpose(1, 2)[out].isneginf().all())
    torch.testing.assert_close(
        deleted.transpose(1, 2)[~out], model.without(batch, keep).transpose(1, 2)[~out], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("readout", ["affine", "tanh"])
def test_candidates_leave_loss_and_gradients_finite(readout):
    model, batch = asked(readout=readout)
    model.train()
    attention = model(**batch).attentions.detach().requires_grad_()
    output = model(**batch, candidates=CANDIDATES, labels=torch.tensor([3, 1, 0, 2]), attention_weights=attention)
    assert bool(output.loss.isfinite())
    (output.loss + output.logits.softmax(-1).square().sum()).backward()
    gradients = [attention.grad, *(p.grad for p in model.parameters() if p.grad is not None)]
    assert len(gradients) > 10
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_candidates_of_a_one_logit_model():
    model, batch = asked(num_labels=2)
    encoded = model.encode({**batch, "candidates": torch.tensor([[1, 0], [0, 1], [1, 1], [1, 1]])})
    assert encoded.probabilities[:2].tolist() == [[1, 0], [0, 1]]
    assert 0 < float(encoded.probabilities[2, 0].detach()) < 1


def test_wrong_candidates_are_named():
    model, batch = asked()
    none = CANDIDATES.clone()
    none[2] = 0
    for run in (model.encode, lambda batch: model(**batch)):
        with pytest.raises(InputError, match="a candidate in every row, but row 2 has none"):
            run({**batch, "candidates": none})
        with pytest.raises(InputError, match=r"for 4 classes, but got \(4, 3\)"):
            run({**batch, "candidates": CANDIDATES[:, :3]})
        with pytest.raises(InputError, match=r"`candidates` of shape \(B, C\)"):
            run({**batch, "candidates": CANDIDATES[0]})
    with pytest.raises(InputError, match="Label 2 is none of its candidates"):
        model(**batch, candidates=CANDIDATES, labels=torch.tensor([0, 2, 0, 0]))
    several, _ = asked(output="multi_label")
    with pytest.raises(InputError, match="the output is 'multi_label'"):
        several.encode({**batch, "candidates": CANDIDATES})


# --- saving


def test_saving_keeps_the_readout(tmp_path):
    model, _ = asked()
    model.save_pretrained(tmp_path)
    loaded = AttentionClassifier.from_pretrained(tmp_path)
    assert (loaded.config.readout, loaded.config.query) == ("tanh", True)
    assert isinstance(loaded.readout, TanhReadout)


# --- the original question answering (fixtures/README.md)


@pytest.fixture(params=["tanh", "dot"])
def questions(request):
    if not FIXTURES.is_dir():
        pytest.skip(f"no fixtures at {FIXTURES}")
    arrays = load(f"jw_fixture_qa_lstm_{request.param}")
    return arrays, build(arrays, query=True), question_batch(arrays)


@torch.no_grad()
def test_the_original_forward(questions):
    arrays, model, batch = questions
    output = model(**batch, output_hidden_states=True)
    read = batch["attention_mask"].bool()
    torch.testing.assert_close(output.hidden_states[read], given(arrays["hidden"])[read], **CLOSE)
    last = model.query_vector(batch["query_input_ids"], batch["query_attention_mask"])
    torch.testing.assert_close(last, given(arrays["Q_last_hidden"]), **CLOSE)
    torch.testing.assert_close(output.attentions, given(arrays["attn"]), **CLOSE)
    for logits in (output.logits, model.encode(batch).logits):
        torch.testing.assert_close(logits, given(arrays["logit"]), **CLOSE)
        torch.testing.assert_close(logits.softmax(-1), given(arrays["prob"]), **CLOSE)
        assert logits.argmax(-1).tolist() == arrays["pred_class"].tolist()
    assert bool(model(**batch, labels=given(arrays["answer"])).loss.isfinite())


@torch.no_grad()
def test_the_original_permutations(questions):
    arrays, model, batch = questions
    encoded = model.encode(batch)
    index = given(arrays["perm_index"]).transpose(0, 1)  # (N, P, T)
    permuted = encoded.attention.expand(-1, index.shape[1], -1).gather(2, index)
    chances = encoded.decode(permuted[:, :, None]).softmax(-1)
    moved = (chances - encoded.probabilities[:, None]).abs().sum(-1)
    torch.testing.assert_close(moved, given(arrays["perm_l1"]), **CLOSE)
    assert chances.argmax(-1).tolist() == arrays["perm_class"].tolist()
    median = np.median(moved.numpy() / 2, axis=1)  # theirs is halved here
    assert median == pytest.approx(arrays["perm_median_tvd"], abs=1e-5)


@torch.no_grad()
def test_the_original_leave_one_out(questions):
    arrays, model, batch = questions
    n, t = batch["input_ids"].shape
    keep = ~torch.eye(t, dtype=torch.bool).expand(n, t, t)
    moved = (model.without(batch, keep).softmax(-1) - model.encode(batch).probabilities[:, None]).abs().sum(-1)
    theirs = given(arrays["loo_l1"])
    content = batch["attention_mask"].bool() & ~batch["special_tokens_mask"].bool()
    assert torch.equal(~theirs.isnan(), content)
    torch.testing.assert_close(moved[content], theirs[content], **CLOSE)
