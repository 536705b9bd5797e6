"""Classifiers with a path around their attention: the mean of the embeddings, which no attention weighs."""

from __future__ import annotations

import copy
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, SourceSettings, attribute
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.functional.flip_set import smallest_flip_set
from attn_faithful.models import deletion
from attn_faithful.models.architectures import load_model, model_class
from attn_faithful.models.attention import SCORERS
from attn_faithful.models.bypass import BypassClassifier
from attn_faithful.models.bypass_configuration import BypassConfig
from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.model_parts import parts_from_top
from tests.checks import BATCHED, CHECKS, EXACT, alternatives, nothing_attended_is_legal, shortened
from tests.models.examples import SMALL, small_batch, small_model
from tests.models.test_deletion import VARIANTS, awkward_batch, leave_one_out, one_by_one


def bypassed(seed: int = 0, **settings) -> BypassClassifier:
    """A small one in eval mode, whose path around the attention says as much as the attention does."""
    torch.manual_seed(seed)
    model = BypassClassifier(BypassConfig(**{**SMALL, **settings})).eval()
    with torch.no_grad():
        model.bypass.weight.mul_(3)
    return model


def around(model: BypassClassifier, batch: dict[str, Tensor]) -> np.ndarray:
    """What goes around the attention, text by text and token by token, (B, C)."""
    table, weight = (w.detach().double().numpy() for w in (model.embedding.weight, model.bypass.weight))
    read = batch.get("attention_mask", torch.ones_like(batch["input_ids"])).bool()
    logits = []
    for ids, kept in zip(batch["input_ids"], read, strict=True):
        vectors = [table[int(word)] for word, is_read in zip(ids, kept, strict=True) if is_read]
        mean = sum(vectors) / len(vectors) if vectors else np.zeros(table.shape[1])
        values = weight @ mean
        logits.append([0.0, values[0]] if model.config.output == "sigmoid" else values)
    return np.asarray(logits)


def without_bypass(model: BypassClassifier, **settings):
    """The `AttentionClassifier` of the same weights."""
    plain = small_model(**settings)
    weights = {name: weight for name, weight in model.state_dict().items() if name != "bypass.weight"}
    plain.load_state_dict(weights)
    return plain


MODELS = {**VARIANTS, "frozen": {"freeze_embeddings": True}, "sparsemax": {"projection": "sparsemax"}}
for encoder, attention in itertools.product(ENCODERS, SCORERS):
    MODELS[f"{encoder}, {attention}"] = {"encoder": encoder, "attention": attention}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_passes_the_checks(name):
    """All but one: where nothing is attended, the way around the attention is left."""
    model, batch = bypassed(**MODELS[name]), small_batch(special=((0, 0), (1, 2)))
    for check in CHECKS:
        if check is not nothing_attended_is_legal:
            check(model, batch, "pool")


@pytest.mark.parametrize("settings", [{}, {"num_labels": 3}, {"num_labels": 3, "output": "multi_label"}])
@pytest.mark.parametrize("encoder", ["none", "mlp", "lstm", "gru", "cnn", "transformer"])
def test_logits_are_those_of_attention_and_of_the_mean(encoder, settings):
    """Of all tokens that are read, also of special tokens, which no attention reaches."""
    model, batch = bypassed(encoder=encoder, **settings), awkward_batch()
    plain = without_bypass(model, encoder=encoder, **settings)
    with torch.no_grad():
        output, of_attention = model(**batch), plain(**batch)
    expected = of_attention.logits.double().numpy() + around(model, batch)
    np.testing.assert_allclose(output.logits.double().numpy(), expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(output.attentions, of_attention.attentions)
    encoded, of_plain = model.encode(batch), plain.encode(batch)
    assert torch.equal(encoded.attention, of_plain.attention)
    assert torch.equal(encoded.scores, of_plain.scores)
    assert torch.equal(encoded.affine.token_logits, of_plain.affine.token_logits)
    bias = of_plain.affine.bias.detach().double().numpy() + around(model, batch)
    np.testing.assert_allclose(encoded.affine.bias.detach().double().numpy(), bias, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_nothing_attended_leaves_the_way_around(encoder):
    model, batch = bypassed(encoder=encoder), small_batch()
    encoded = model.encode(batch)
    nothing = torch.zeros_like(encoded.attention)
    logits = encoded.decode(nothing[:, None])[:, 0]
    torch.testing.assert_close(logits, model(**batch, attention_weights=nothing[:, 0]).logits, **EXACT)
    expected = around(model, batch)[:, 1] + model.readout.bias.item()
    np.testing.assert_allclose(logits[:, 1].detach().numpy(), expected, rtol=1e-6, atol=1e-6)
    assert np.abs(np.diff(expected)).min() > 1e-3, "texts differ"


@pytest.mark.parametrize("encoder", ENCODERS)
def test_of_weights_of_zero_it_is_an_attention_classifier_bit_for_bit(encoder):
    model, plain, batch = bypassed(encoder=encoder), small_model(encoder=encoder), awkward_batch()
    for name, weight in plain.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name]), f"{name}: one seed, the same weights"
    with torch.no_grad():
        model.bypass.weight.zero_()
        assert torch.equal(model(**batch).logits, plain(**batch).logits)
    encoded, of_plain = model.encode(batch), plain.encode(batch)
    other = alternatives(of_plain, 3)
    for name in ("logits", "attention", "scores", "log_weights", "content"):
        assert torch.equal(getattr(encoded, name), getattr(of_plain, name)), name
    assert torch.equal(encoded.decode(other), of_plain.decode(other))
    assert torch.equal(encoded.affine.bias, of_plain.affine.bias)
    keep = leave_one_out(batch)
    assert torch.equal(model.without(batch, keep), plain.without(batch, keep))


@pytest.mark.parametrize(("encoder", "attention"), list(itertools.product(ENCODERS, SCORERS)))
def test_deleted_tokens_are_gone_from_attention_and_from_the_mean(encoder, attention):
    """None, one and several deleted, each shortened text also run alone."""
    model, batch = bypassed(encoder=encoder, attention=attention), awkward_batch()
    several = torch.rand(7, 5, 12, generator=torch.Generator().manual_seed(0)) < 0.5
    keep = torch.cat([several, leave_one_out(batch), torch.ones(7, 1, 12, dtype=torch.bool)], dim=1)
    torch.testing.assert_close(model.without(batch, keep), one_by_one(model, batch, keep), **BATCHED)


@pytest.mark.parametrize("name", VARIANTS)
def test_deletion_in_every_setting(name):
    model, batch = bypassed(**VARIANTS[name]), awkward_batch()
    keep = leave_one_out(batch)
    torch.testing.assert_close(model.without(batch, keep), one_by_one(model, batch, keep), **BATCHED)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_short_ways_are_those_of_double_precision(encoder, monkeypatch):
    model, batch = bypassed(encoder=encoder).double(), awkward_batch()
    keep = leave_one_out(batch)
    logits = model.without(batch, keep)
    assert logits.dtype == torch.float64
    with monkeypatch.context() as slow:
        slow.setattr(deletion, "_texts_class", lambda encoder: None)
        slow.setattr(type(model.encoder), "reads_alone", False)
        torch.testing.assert_close(logits, model.without(batch, keep), rtol=0, atol=1e-10)
    torch.testing.assert_close(logits, one_by_one(model, batch, keep), rtol=0, atol=1e-10)


@pytest.mark.parametrize("encoder", ["none", "mlp", "average"])
def test_equal_shortened_texts_have_equal_logits(encoder):
    """To the last bit, and as bags of words where the encoder reads each token alone: the mean has no order."""
    model = bypassed(encoder=encoder)
    ids = torch.randint(2, 20, (8, 40), generator=torch.Generator().manual_seed(0))
    ids[:, [3, 17, 30]] = 5
    logits = model.without({"input_ids": ids}, leave_one_out({"attention_mask": torch.ones_like(ids)}))
    assert torch.equal(logits[:, 3], logits[:, 17])
    assert torch.equal(logits[:, 3], logits[:, 30])


@pytest.mark.parametrize("encoder", ["lstm", "cnn", "transformer"])
def test_equal_neighbours_leave_equal_logits(encoder):
    model = bypassed(encoder=encoder)
    ids = torch.tensor([[5, 5, 5, 5, 7, 3, 9], [2, 5, 5, 5, 5, 7, 3]])
    logits = model.without({"input_ids": ids}, ~torch.eye(7, dtype=torch.bool).expand(2, 7, 7))
    assert torch.equal(logits[0, :4], logits[0, :1].expand(4, 2))
    assert torch.equal(logits[1, 1:5], logits[1, 1:2].expand(4, 2))


def test_candidates_and_embeddings_in_place_of_ids():
    model, batch = bypassed(encoder="lstm", num_labels=3), small_batch()
    batch["candidates"] = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 0, 0]])
    given = {name: value for name, value in batch.items() if name != "input_ids"}
    given["inputs_embeds"] = model.embedding(batch["input_ids"])
    logits = model(**batch).logits
    assert logits.isneginf().tolist() == (batch["candidates"] == 0).tolist()
    keep = torch.rand(4, 6, 7, generator=torch.Generator().manual_seed(0)) < 0.6
    deleted = model.without(batch, keep)
    assert deleted.isneginf().any(1).tolist() == logits.isneginf().tolist()
    for of_embeddings, of_ids in (
        (model(**given).logits, logits),
        (model.encode(given).logits, logits),
        (model.without(given, keep), deleted),
    ):
        torch.testing.assert_close(of_embeddings, of_ids, **EXACT)


def test_without_a_mask_everything_is_read():
    model, batch = bypassed(encoder="mlp"), small_batch((5, 5))
    bare = {"input_ids": batch["input_ids"]}
    assert torch.equal(model(**bare).logits, model(**batch).logits)
    assert torch.equal(model.encode(bare).logits, model.encode(batch).logits)
    keep = torch.rand(2, 4, 5, generator=torch.Generator().manual_seed(0)) < 0.6
    assert torch.equal(model.without(bare, keep), model.without(batch, keep))


@pytest.mark.parametrize("encoder", ["mlp", "lstm"])
def test_the_smallest_flip_set_is_that_of_all_subsets(encoder):
    """By the forward, which is given every attention that is left; the exact answer reads the bias."""
    flips = 0
    for seed in range(24):
        model, batch = bypassed(seed, encoder=encoder).double(), small_batch((5,), seed=seed)
        with torch.no_grad():
            encoded = model.encode(batch)
            affine = encoded.affine
            found = smallest_flip_set(encoded.log_weights[:, 0], encoded.content, affine.token_logits, affine.bias)
            decision, sizes = int(encoded.logits[0].argmax()), []
            for size in range(1, 6):
                for removed in itertools.combinations(range(5), size):
                    weights = encoded.attention[0, 0].clone()
                    weights[list(removed)] = 0
                    weights = weights / weights.sum().clamp(min=1e-300)
                    logits = model(**batch, attention_weights=weights[None]).logits
                    if int(logits[0].argmax()) != decision:
                        sizes.append(size)
        if sizes:
            flips += 1
            assert float(found.size[0]) == min(sizes)
        else:
            assert found.reason[0] == "never flips"
    assert flips > 2


@pytest.mark.parametrize("attention_path", ["attached", "detached"])
def test_gradients_of_embeddings_pass_the_way_around(attention_path):
    """Also where attention is held as it is."""
    model, batch = bypassed(encoder="cnn", dropout=0.0).double(), small_batch((5, 3))
    settings = SourceSettings(sign="signed", attention_path=attention_path)
    target = torch.tensor([1, 0])
    found = attribute("input_x_gradient", Request(model, batch, model.encode(batch), settings, target)).values
    leaf = model.embedding(batch["input_ids"]).detach().requires_grad_()
    inputs = {"inputs_embeds": leaf, "attention_mask": batch["attention_mask"]}
    if attention_path == "detached":
        inputs["attention_weights"] = model(**batch).attentions.detach()
    logits = without_bypass(model, encoder="cnn", dropout=0.0).double()(**inputs).logits
    lengths = batch["attention_mask"].sum(1, keepdim=True)
    mean = (leaf * batch["attention_mask"][..., None]).sum(1) / lengths
    logits = logits + torch.nn.functional.pad(mean @ model.bypass.weight.T, (1, 0))
    (gradient,) = torch.autograd.grad(logits.softmax(-1)[torch.arange(2), target].sum(), leaf)
    expected = (gradient * leaf).sum(-1).detach()
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-10)
    torch.testing.assert_close(found[1, :3], expected[1, :3], rtol=0, atol=1e-10)


@pytest.mark.parametrize("encoder", ["mlp", "lstm"])
def test_the_loss_and_its_gradients(encoder):
    model, batch = bypassed(encoder=encoder, dropout=0.0).train(), small_batch()
    labels = torch.tensor([1, 0, 1, -1])
    output = model(**batch, labels=labels)
    torch.testing.assert_close(output.loss, torch.nn.functional.cross_entropy(output.logits[:3], labels[:3]), **EXACT)
    output.loss.backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
    assert float(model.bypass.weight.grad.abs().sum()) > 0
    as_tuple = model(**batch, labels=labels, return_dict=False)
    for one, other in zip(as_tuple, (output.loss, output.logits, output.attentions), strict=True):
        torch.testing.assert_close(one, other, **EXACT)


def test_dropout_on_the_context_is_dropout_on_the_mean():
    model, batch = bypassed(encoder="mlp", dropout=0.0, classifier_dropout=0.5).train(), small_batch()
    with torch.no_grad():
        model.readout.weight.zero_()
    one, other = model(**batch).logits, model(**batch).logits
    assert not torch.equal(one, other)
    assert torch.equal(model.eval()(**batch).logits, model(**batch).logits)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_measured_in_float32(dtype):  # C13
    model, batch = bypassed(encoder="cnn").to(dtype), small_batch()
    whole = copy.deepcopy(model).float()
    keep = leave_one_out(batch)
    assert torch.equal(model.encode(batch).logits, whole.encode(batch).logits)
    assert torch.equal(model.without(batch, keep), whole.without(batch, keep))


def test_what_it_says_of_itself():
    model = bypassed(encoder="none")
    assert not model.reads_alone
    assert model.reach == 0, "of a state"
    parts = [part.name for part in parts_from_top(model, small_batch())]
    assert parts == ["bypass", "readout", "attention", "embedding"]
    assert model_class(BypassConfig) is BypassClassifier


@pytest.mark.parametrize("settings", [{"readout": "tanh"}, {"query": True}])
def test_other_read_outs_and_queries_are_refused(settings):
    with pytest.raises(InputError, match="a path around its attention to have no query and an affine read-out"):
        BypassConfig(vocab_size=9, **settings)
    config = BypassConfig(vocab_size=9)
    for name, value in settings.items():
        setattr(config, name, value)
    with pytest.raises(InputError, match="no query and an affine read-out"):
        BypassClassifier(config)


def test_bad_input_is_refused():
    model, batch = bypassed(), small_batch()
    with pytest.raises(InputError, match="either `input_ids` or `inputs_embeds`"):
        model(attention_mask=batch["attention_mask"])
    with pytest.raises(InputError, match="either `input_ids` or `inputs_embeds`"):
        model.without({}, torch.ones(1, 1, 3, dtype=torch.bool))
    with pytest.raises(InputError, match="no query"):
        model(**batch, query_input_ids=batch["input_ids"])
    with pytest.raises(InputError, match="site"):
        model.encode(batch, "word")
    with pytest.raises(InputError, match="attention"):
        model.encode(batch).decode(torch.zeros(4, 7))


TEXTS = ["good film", "an awful bad film indeed", ""]
LOAD = """
import json, sys
{imports}
output = model(**tokenizer({texts!r}, padding=True, return_tensors="pt"))
print(json.dumps([type(model).__name__, output.logits.tolist(), output.attentions.tolist()]))
"""
WAYS = {
    "af.load": "import attn_faithful as af; model, tokenizer = af.load(sys.argv[1])",
    "Auto classes": "import attn_faithful\n"
    "from transformers import AutoModelForSequenceClassification, AutoTokenizer\n"
    "model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1])\n"
    "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])",
    "trust_remote_code": "from transformers import AutoModelForSequenceClassification, AutoTokenizer\n"
    "model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], trust_remote_code=True)\n"
    "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_fresh_process_gives_the_same_numbers(way, tmp_path):
    tokenizer = train_tokenizer(TEXTS)
    model = bypassed(vocab_size=len(tokenizer), encoder="lstm")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", LOAD.format(imports=WAYS[way], texts=TEXTS), str(tmp_path / "model")],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    name, logits, attention = json.loads(done.stdout.splitlines()[-1])
    assert name == "BypassClassifier"
    with torch.no_grad():
        output = model(**tokenizer(TEXTS, padding=True, return_tensors="pt"))
    np.testing.assert_allclose(logits, output.logits, atol=1e-6)
    np.testing.assert_allclose(attention, output.attentions, atol=1e-6)


def test_folders_are_loaded_and_incomplete_ones_refused(tmp_path):
    model, batch = bypassed(), small_batch()
    model.save_pretrained(tmp_path)
    assert torch.equal(load_model(tmp_path)(**batch).logits, model(**batch).logits)
    small_model().save_pretrained(tmp_path / "plain")
    with pytest.raises(InputError, match=r"lacks the weights bypass\.weight"):
        BypassClassifier.from_pretrained(tmp_path / "plain")


def test_all_tests_of_attention_run_on_it(tmp_path):
    tokenizer = train_tokenizer(TEXTS)
    model = bypassed(vocab_size=len(tokenizer), encoder="mlp")
    tests = ["permutation", "flips", "erasure", "correlation"]
    result = af.evaluate_attention(model, tokenizer, TEXTS[:2], tests, output=tmp_path / "run")
    assert result.summary is not None


def test_a_text_alone_is_shortened_as_in_the_helper():
    """One hand-made number: the mean over two tokens, and over the one that is left."""
    model = bypassed(encoder="none")
    with torch.no_grad():
        model.readout.weight.zero_()
        model.readout.bias.zero_()
        model.embedding.weight[3] = 1.0
        model.embedding.weight[4] = -3.0
        model.bypass.weight.fill_(0.5)
    batch = {"input_ids": torch.tensor([[3, 4]]), "attention_mask": torch.ones(1, 2)}
    assert model(**batch).logits.tolist() == [[0.0, -3.0]]  # 6 numbers x 0.5 x (1 - 3) / 2
    keep = torch.tensor([[[True, True], [True, False], [False, True], [False, False]]])
    assert model.without(batch, keep)[..., 1].tolist() == [[-3.0, 3.0, -9.0, 0.0]]
    assert model(**shortened(batch, 0, keep[0, 1])).logits.tolist() == [[0.0, 3.0]]
