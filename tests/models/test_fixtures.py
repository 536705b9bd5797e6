"""Our models with the weights of the public implementations give their numbers (shared/fixtures/README.md)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import TrainingArguments

from attn_faithful.functional.divergences import jsd, kl, tvd
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.trainer import AttentionTrainer
from attn_faithful.training.twin import EPS

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
pytestmark = pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no fixtures at {FIXTURES}")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # the originals rerun in float64 move by up to 5e-6

FORWARD = ("", "_lstm_dot", "_average_tanh", "_average_dot", "_cnn_tanh", "_multilabel")
EDGES = ("_edge_short", "_edge_flat", "_edge_saturated", "_edge_eps")

PARTS = {  # longest first
    "dec.attention.attn1p.": "attention.scorer.token.",
    "dec.attention.attn1q.": "attention.scorer.query.",
    "dec.attention.attn1.": "attention.scorer.token.",
    "dec.attention.attn2.": "attention.scorer.score.",
    "dec.linear_1p.": "readout.context.",
    "dec.linear_1q.": "readout.query.",
    "dec.linear_1.": "readout.",
    "dec.linear_2.": "readout.output.",
    "encQ.embedding.": "query_embedding.",
    "encP.embedding.": "embedding.",
    "enc.embedding.": "embedding.",
    "encQ.": "query_encoder.",
    "encP.": "encoder.",
    "enc.": "encoder.",
}


@cache
def load(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(FIXTURES / f"{name}.npz"))


def weights(arrays: dict[str, np.ndarray], prefix: str, attention: str) -> dict[str, torch.Tensor]:
    """The weights under ``prefix`` by the names of ours."""
    named = {}
    for name, value in arrays.items():
        part = next((p for p in PARTS if name.startswith(prefix + p)), None)
        if part is None:
            continue
        ours = PARTS[part] + name.removeprefix(prefix + part)
        if attention == "dot":
            ours = ours.replace("scorer.token", "scorer.vector")
        if "rnn." in ours:
            ours = ours.replace("rnn.", "back.0." if ours.endswith("_reverse") else "ahead.0.").removesuffix("_reverse")
        named[ours] = torch.from_numpy(value)
    return named


def build(arrays: dict[str, np.ndarray], prefix: str = "w.", query: bool = False) -> AttentionClassifier:
    vocabulary, embedding, hidden, labels, encoder, attention = arrays["cfg"][:6].tolist()
    config = AttentionClassifierConfig(
        vocab_size=vocabulary,
        embedding_size=embedding,
        encoder=("lstm", "average", "cnn")[encoder],
        hidden_size=hidden,
        kernel_sizes=(1, 3),
        attention=("additive", "dot")[attention],
        query=query,
        readout="tanh" if query else "affine",
        num_labels=2 if labels == 1 else labels,
        output="sigmoid" if labels == 1 else "softmax" if query else "multi_label",
        class_weights=None if query else [1.0] * (labels == 1) + arrays["pos_weight"].tolist(),
    )
    model = AttentionClassifier(config)
    model.load_state_dict(weights(arrays, prefix, config.attention))
    return model.eval()


def inputs(arrays: dict[str, np.ndarray], text: str = "") -> dict[str, torch.Tensor]:
    """The texts, all read, and attention kept from SOS and EOS."""
    ids = torch.from_numpy(arrays[f"{text}seq"])
    read = torch.arange(ids.shape[1]) < torch.from_numpy(arrays[f"{text}lengths"])[:, None]
    special = (ids == 2) | (ids == 3)
    if "mask" in arrays:
        assert torch.equal((special | ~read), torch.from_numpy(arrays["mask"]).bool())
    return {"input_ids": ids, "attention_mask": read.long(), "special_tokens_mask": special.long()}


def question_batch(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The texts of question answering with their questions and candidates."""
    asked = inputs({name: value for name, value in arrays.items() if name != "mask"}, "Q_")
    return {
        **inputs(arrays, "P_"),
        "query_input_ids": asked["input_ids"],
        "query_attention_mask": asked["attention_mask"],
        "candidates": given(arrays["entity_mask"]),
    }


def labels(arrays: dict[str, np.ndarray]) -> torch.Tensor:
    y = torch.from_numpy(arrays["y"])
    return y[:, 0].long() if y.shape[1] == 1 else y


def spoken(logits: torch.Tensor, arrays: dict[str, np.ndarray]) -> torch.Tensor:
    """The originals' logits (..., O): theirs has one where ours has the pair (0, z)."""
    return logits[..., 1:] if arrays["cfg"][3] == 1 else logits


def given(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array)


@pytest.fixture(params=[*FORWARD, *EDGES], ids=lambda name: name or "_lstm_tanh")
def arrays(request):
    return load(f"jw_fixture{request.param}")


@torch.no_grad()
def test_forward(arrays):
    model, batch = build(arrays), inputs(arrays)
    output = model(**batch, output_hidden_states=True)
    read = batch["attention_mask"].bool()
    if model.config.encoder == "cnn":
        read = ~given(arrays["mask"]).bool()  # theirs puts zeros at SOS and EOS, which nobody attends
    torch.testing.assert_close(output.hidden_states[read], given(arrays["hidden"])[read], **CLOSE)
    defined = ~given(arrays["attn"]).isnan().any(1)
    assert bool(defined.any())
    torch.testing.assert_close(output.attentions[defined], given(arrays["attn"])[defined], **CLOSE)
    context = (output.attentions[:, None] @ output.hidden_states)[:, 0]
    torch.testing.assert_close(context[defined], given(arrays["context"])[defined], **CLOSE)
    logits = spoken(output.logits, arrays)
    torch.testing.assert_close(logits[defined], given(arrays["logit"])[defined], **CLOSE)
    torch.testing.assert_close(logits.sigmoid()[defined], given(arrays["pred"])[defined], **CLOSE)
    encoded = model.encode(batch)
    chances = spoken(encoded.probabilities, arrays)
    torch.testing.assert_close(chances[defined], given(arrays["pred"])[defined], **CLOSE)
    torch.testing.assert_close(encoded.attention[defined, 0], given(arrays["attn"])[defined], **CLOSE)


@torch.no_grad()
def test_a_text_of_special_tokens_only_is_the_bias_where_the_original_is_nan():
    arrays = load("jw_fixture_edge_short")
    undefined = given(arrays["attn"]).isnan().any(1)
    assert undefined.tolist() == (arrays["lengths"] == 2).tolist()
    model = build(arrays)
    output = model(**inputs(arrays))
    assert bool((output.attentions[undefined] == 0).all())
    bias = model.readout.bias.expand(int(undefined.sum()), -1)
    torch.testing.assert_close(spoken(output.logits, arrays)[undefined], bias, rtol=0, atol=0)


@torch.no_grad()
def test_leave_one_out(arrays):
    model, batch = build(arrays), inputs(arrays)
    n, t = batch["input_ids"].shape
    keep = ~torch.eye(t, dtype=torch.bool).expand(n, t, t)
    ours = spoken(model.without(batch, keep), arrays).sigmoid()
    theirs = given(arrays["loo_pred"])
    content = batch["attention_mask"].bool() & ~batch["special_tokens_mask"].bool()
    alone = content & (content.sum(1, keepdim=True) == 1)  # without its only token the original is NaN
    assert torch.equal(~theirs.isnan().any(-1), content & ~alone)
    torch.testing.assert_close(ours[content & ~alone], theirs[content & ~alone], **CLOSE)
    torch.testing.assert_close(ours[alone], model.readout.bias.sigmoid().expand(int(alone.sum()), -1), **CLOSE)


@torch.no_grad()
def test_permutations(arrays):
    batch = inputs(arrays)
    encoded = build(arrays).encode(batch)
    index = given(arrays["perm_index"]).transpose(0, 1)  # (N, P, T)
    permuted = encoded.attention.expand(-1, index.shape[1], -1).gather(2, index)
    ours = spoken(encoded.decode(permuted[:, :, None]), arrays).sigmoid()
    theirs = given(arrays["perm_pred"])
    defined = ~theirs.isnan().any(-1)
    assert bool(defined.any())
    torch.testing.assert_close(ours[defined], theirs[defined], **CLOSE)


@pytest.mark.parametrize("name", FORWARD, ids=lambda name: name or "_lstm_tanh")
def test_one_training_step(name, tmp_path):
    arrays = load(f"jw_fixture{name}")
    model, batch = build(arrays).train(), inputs(arrays)
    n = len(batch["input_ids"])
    total = model(**batch, labels=labels(arrays)).loss * n
    assert float(total.detach()) == pytest.approx(float(arrays["train1.loss_sum"]), rel=1e-5)
    assert float(total.detach()) * 32 / n == pytest.approx(float(arrays["train1.loss_returned"]), rel=1e-5)
    optimizer = papers_optimizer(model, tmp_path)
    total.backward()
    optimizer.step()
    compare_after_step(model, arrays, "train1.w.", weights(arrays, "w.", model.config.attention))


def papers_optimizer(model, folder) -> torch.optim.Optimizer:
    arguments = TrainingArguments(output_dir=str(folder), report_to="none", use_cpu=True)
    trainer = AttentionTrainer(model=model, args=arguments, settings=TrainSettings(amsgrad=True))
    return trainer.create_optimizer()


def compare_after_step(model, arrays, prefix, start) -> None:
    stepped, expected = model.state_dict(), weights(arrays, prefix, model.config.attention)
    assert expected.keys() == stepped.keys()
    for parameter, value in expected.items():
        assert float((value - start[parameter]).abs().max()) == pytest.approx(1e-3, rel=0.05), parameter
        torch.testing.assert_close(stepped[parameter], value, **CLOSE, msg=lambda m, p=parameter: f"{p}: {m}")


def wiegreffe_pinter() -> dict[str, np.ndarray]:
    # base.* are the outputs of jw_fixture's model; in the file base.w. holds the twin's embedding in place of its own
    model = load("jw_fixture")
    own = {f"original.{name}": value for name, value in model.items() if name.startswith("w.")}
    return load("wp_fixture") | own | {"cfg": model["cfg"]}


@torch.no_grad()
def test_the_distances_of_wiegreffe_and_pinter():
    arrays = wiegreffe_pinter()
    batch, outputs = inputs(arrays), {}
    for name, prefix in (("base", "original.w."), ("adv", "adv.w.")):
        encoded = build(arrays, prefix).encode(batch)
        torch.testing.assert_close(encoded.probabilities[:, 1], given(arrays[f"{name}.pred"]), **CLOSE)
        torch.testing.assert_close(encoded.attention[:, 0], given(arrays[f"{name}.attn"]), **CLOSE)
        outputs[name] = encoded.probabilities.double(), encoded.attention[:, 0].double()
    (base_chances, base), (chances, attention) = outputs["base"], outputs["adv"]
    # theirs is half the L1 of the one probability, ours of the pair (p, 1 - p): twice as much
    torch.testing.assert_close(tvd(chances, base_chances) / 2, given(arrays["tvd_half"]).double(), **CLOSE)
    divergence = jsd(attention, base)
    torch.testing.assert_close(divergence, given(arrays["jsd"]).double(), **CLOSE)
    assert float(divergence.sum()) == pytest.approx(float(arrays["jsd_sum"]), rel=1e-5)
    torch.testing.assert_close(kl(attention, base, eps=EPS), given(arrays["kl_adv_base"]), **CLOSE)


def test_one_step_of_wiegreffe_and_pinters_twin(tmp_path):
    arrays = wiegreffe_pinter()
    twin = build(arrays, "adv.w.").train()
    output = twin(**inputs(arrays))
    base = given(arrays["base.pred"])
    moved = tvd(output.logits.softmax(-1), torch.stack([1 - base, base], -1)).sum() / 2
    divergence = kl(output.attentions, given(arrays["base.attn"]), eps=EPS).sum()
    assert float(moved.detach()) == pytest.approx(float(arrays["step.tvd_sum"]), rel=1e-5)
    assert float(divergence.detach()) == pytest.approx(float(arrays["step.kl_sum"]), rel=1e-5)
    loss = 14 * (moved - float(arrays["lambda"]) * divergence)  # 14: their summed class weights
    assert float(loss.detach()) == pytest.approx(float(arrays["step.loss"]), rel=1e-5)
    optimizer = papers_optimizer(twin, tmp_path)
    loss.backward()
    optimizer.step()
    compare_after_step(twin, arrays, "step.w.", weights(arrays, "adv.w.", "additive"))


@torch.no_grad()
def test_uniform_attention_of_wiegreffe_and_pinter():
    arrays = wiegreffe_pinter()
    model = build(arrays, "base.w.")
    uniform = AttentionClassifier(AttentionClassifierConfig(**{**model.config.to_dict(), "attention": "uniform"}))
    same = {name: value for name, value in model.state_dict().items() if not name.startswith("attention.")}
    uniform.load_state_dict(same)
    encoded = uniform.eval().encode(inputs(arrays))
    torch.testing.assert_close(encoded.attention[:, 0], given(arrays["frozen.attn"]), **CLOSE)
    torch.testing.assert_close(encoded.probabilities[:, 1], given(arrays["frozen.pred"]), **CLOSE)
