"""Stock models whose attention is a sparse projection: in the forward, in training, saved, and behind the protocol."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from attn_faithful import _auto
from attn_faithful._checks import InputError
from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
from attn_faithful.models.stock.interface import configs_of
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.sparse import restore_projection, use_projection
from tests.models.stock_families import FAMILIES, build, by_call, eager, read, texts
from tests.models.test_stock import alternatives, check_close
from tests.reference import projections
from tests.reference import stock as reference

SETTINGS = {
    "sparsemax": ({}, projections.sparsemax),
    "sparsegen": ({"sparsegen_lambda": 0.4}, lambda z: projections.sparsegen(z, 0.4)),
    "entmax15": ({}, projections.entmax15),
    "entmax": ({"entmax_alpha": 1.8}, lambda z: projections.entmax(z, 1.8)),
}
SOME = ("bert", "gpt2", "t5", "modernbert")
LENGTHS = (6, 4, 1)


def sparse(family: str, name: str):
    """A model that was given a projection by transformers' own means, its parameter in every config."""
    model = build(family).to(FAMILIES[family].dtype)
    for config in configs_of(model):
        vars(config).update(SETTINGS[name][0])
    model.set_attn_implementation(name)
    return model


def expected_first_layer(family: str, name: str, batch: dict[str, Tensor]) -> np.ndarray:
    """The projection of the scores of the first layer (B, H, Q, T): logarithms of its softmax, but for a shift."""
    weights = eager(build(family).to(FAMILIES[family].dtype), read(batch))[1][0].double().numpy()
    allowed, found = FAMILIES[family].reach[0](batch["attention_mask"]).numpy(), np.zeros_like(weights)
    for b, h, q in np.ndindex(weights.shape[:3]):
        keys = allowed[b, q]
        if keys.any():
            scores = np.log(weights[b, h, q, keys])
            found[b, h, q, keys] = SETTINGS[name][1](scores - scores.max())
    return found


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("family", SOME)
def test_a_plain_model_attends_by_the_projection(family, name):
    model, batch = sparse(family, name), texts(LENGTHS)
    real = batch["attention_mask"].bool()
    with torch.no_grad():
        output = model(**read(batch), output_attentions=True)
    attentions = by_call(output)
    assert len(attentions) == len(FAMILIES[family].reach)
    for weights, reach in zip(attentions, FAMILIES[family].reach, strict=True):
        allowed = reach(real)[:, None].expand_as(weights)
        assert bool((weights[~allowed] == 0).all())
        rows = weights.transpose(1, 2)[real]
        check_close(rows.sum(-1), torch.ones_like(rows[..., 0]))
        assert bool(((weights == 0) & allowed).any()), "no exact zero"
    first = torch.as_tensor(expected_first_layer(family, name, batch))
    check_close(attentions[0].transpose(1, 2)[real].double(), first.transpose(1, 2)[real], 1e-5)  # logs of float32
    logits, _ = reference.run(model, read(batch), [weights.numpy() for weights in attentions])
    check_close(output.logits, torch.as_tensor(logits))


@pytest.mark.parametrize(
    ("family", "name"),  # entmax finds its threshold by bisection, slowly
    [(family, name) for family in SOME for name in SETTINGS if name != "entmax" or family in ("bert", "gpt2")],
)
def test_a_wrapped_model_keeps_its_projection(family, name):
    plain, batch = sparse(family, name), texts(LENGTHS)
    model = StockModel(plain, queries="token")
    with torch.no_grad():
        output = plain(**read(batch), output_attentions=True)
        seen = model.seen(batch)
    check_close(seen.logits, output.logits)
    real = batch["attention_mask"].bool()
    for call, weights in zip(seen.calls.values(), by_call(output), strict=True):
        check_close(call.attention.transpose(1, 2)[real], weights.transpose(1, 2)[real])
    for site in (model.sites[1], *model.sites[-2:]) if name == "sparsegen" else model.sites[-2:-1]:
        with torch.no_grad():
            encoded = model.encode(batch, site)
            many = torch.cat([encoded.attention[:, None], alternatives(encoded)], dim=1)
            decoded = encoded.decode(many)
            check_close(decoded[:, 0], output.logits)
            model.skips = False
            check_close(decoded, model.encode(batch, site).decode(many))
            model.skips = True
        assert float(decoded.std(1).max()) > 0
        check_close(encoded.project(encoded.scores, encoded.allowed), encoded.attention)
        if FAMILIES[family].encoder == 0:
            fewer = encoded.allowed & (torch.arange(6) != 1)  # an item leaves, what is left is projected again
            check_close(encoded.project(encoded.scores, fewer).sum(-1), fewer.any(-1).to(decoded.dtype))
    assert plain.config._attn_implementation == name


def test_a_mean_may_grow_from_nothing():
    """Weight on a token that no row attends to is given to all rows that may."""
    plain, batch = sparse("bert", "sparsemax"), texts((6,))
    model, heads = StockModel(plain, queries="mean"), range(4)
    with torch.no_grad():
        encoded, seen = model.encode(batch, "layer.2"), model.seen(batch).calls
        *before, own = (seen[n].attention[0].numpy() for n in range(3))
        new = 0.5 * encoded.attention[0] + 0.5 * torch.eye(6).double()[3]
        decoded = encoded.decode(new[None, None])[0, 0]
    assert float(encoded.attention[0, :, 3].min()) == 0
    rows = reference.replaced(
        own, new.numpy(), encoded.attention[0].numpy(), np.ones((6, 6), bool), range(6), "mean", heads, False
    )
    logits, _ = reference.run(plain, read(batch), [weights[None] for weights in (*before, rows)])
    check_close(decoded, torch.as_tensor(logits[0]))


@pytest.mark.parametrize(("family", "name"), list(zip(SOME, SETTINGS, strict=True)))
def test_the_ordinary_trainer_trains_it(family, name, tmp_path):
    model = use_projection(build(family), name, **SETTINGS[name][0])
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    batch = read(texts((6, 6, 6, 6)))
    rows = [{"labels": b % 3, **{n: v[b] for n, v in batch.items()}} for b in range(4)]
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        max_steps=2,
        per_device_train_batch_size=2,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        learning_rate=1e-2,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=rows)
    assert np.isfinite(trainer.train().training_loss)
    changed = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    asked = {n for n in before if any(part in n.lower() for part in ("query", "c_attn", "attention.q.", "wqkv"))}
    assert asked
    assert asked <= changed
    assert all(bool(p.isfinite().all()) for p in model.parameters())
    assert {c._attn_implementation for c in configs_of(model)} == {name}


@pytest.mark.parametrize(("family", "name"), list(zip(SOME, SETTINGS, strict=True)))
def test_a_projection_is_saved_with_its_model(family, name, tmp_path):
    model, batch = use_projection(build(family), name, **SETTINGS[name][0]), read(texts())
    model.save_pretrained(tmp_path)
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert plain.config.attention_projection == name
    with torch.no_grad():
        expected = model(**batch).logits
        assert not torch.allclose(plain(**batch).logits, expected, atol=1e-3)  # transformers forgets it
        check_close(restore_projection(plain)(**batch).logits, expected)


@pytest.mark.parametrize("family", ["bert", "gemma2", "t5"])
def test_the_softmax_comes_back(family):
    model, batch = build(family), read(texts())
    with torch.no_grad():
        expected = model(**batch).logits
        assert not torch.allclose(use_projection(model, "sparsemax")(**batch).logits, expected, atol=1e-3)
        check_close(use_projection(model, "softmax")(**batch).logits, expected)
    assert model.config.attention_projection == "softmax"
    assert {c._attn_implementation for c in configs_of(model)} == {FAMILIES[family].own}
    assert restore_projection(model) is model
    untold = build("bert")
    assert restore_projection(untold).config._attn_implementation == "sdpa"
    assert not hasattr(untold.config, "attention_projection")


def test_gradients_pass_padding_and_empty_rows():
    model = use_projection(build("gpt2").double(), "sparsegen", sparsegen_lambda=-1.0)
    model(**read(texts(left=True))).logits.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
    assert float(model.transformer.h[0].attn.c_attn.weight.grad.abs().max()) > 0


def test_what_cannot_be_is_refused_by_name():
    bert = build("bert")
    for name, settings, message in (
        ("sparsmax", {}, "Unknown projection 'sparsmax'. Did you mean 'sparsemax'?"),
        (
            "sparsemax",
            {"entmax_alpha": 1.5},
            "Unknown parameter 'entmax_alpha' of projection 'sparsemax'. It takes",
        ),
        ("entmax", {"alpha": 1.5}, "Unknown parameter 'alpha' of projection 'entmax'."),
        ("sparsegen", {"sparsegen_lambda": 1.0}, "Expected `lam` in .-inf, 1., but got 1.0"),
    ):
        with pytest.raises(InputError, match=message.replace("?", r"\?")):
            use_projection(bert, name, **settings)
    assert not hasattr(bert.config, "attention_projection")
    bert.config.attention_projection = "sparsmax"
    with pytest.raises(InputError, match="sparsemax"):
        restore_projection(bert)
    width = {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16}
    deberta = transformers.DebertaV2Config(vocab_size=60, num_attention_heads=2, **width)
    fnet = transformers.FNetConfig(vocab_size=60, **width)
    ours = AttentionClassifier(AttentionClassifierConfig(vocab_size=9, embedding_size=4, hidden_size=4))
    for model in (transformers.DebertaV2Model(deberta), transformers.FNetModel(fnet), ours, nn.Linear(2, 2)):
        with pytest.raises(InputError, match=type(model).__name__):
            use_projection(model, "sparsemax")


def known_to_transformers() -> set[str]:
    return set(transformers.AttentionInterface().valid_keys()) & set(transformers.AttentionMaskInterface().valid_keys())


def test_importing_the_package_before_transformers_is_enough():
    code = "import attn_faithful, transformers; print(*transformers.AttentionInterface().valid_keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(SETTINGS) <= set(done.stdout.split())


def test_importing_the_package_after_transformers_is_enough(monkeypatch):
    for interface in (transformers.AttentionInterface, transformers.AttentionMaskInterface):
        for name in SETTINGS:
            monkeypatch.delitem(interface._global_mapping, name)
    assert not known_to_transformers() & set(SETTINGS)
    _auto.register_when_loaded()
    assert known_to_transformers() >= set(SETTINGS)
