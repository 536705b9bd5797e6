"""Configurations, losses, initial weights, saving and loading."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from attn_faithful._checks import InputError
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier
from tests.models.examples import small_batch, small_model

WRONG = {
    "encoder": ({"encoder": "lstn"}, r"Unknown encoder 'lstn'\. Did you mean 'lstm'\?"),
    "attention": ({"attention": "additve"}, r"Unknown attention 'additve'\. Did you mean 'additive'\?"),
    "projection": ({"projection": "softmx"}, r"Unknown projection 'softmx'\. Did you mean 'softmax'\?"),
    "output": ({"output": "multilabel"}, r"Unknown output 'multilabel'\. Did you mean 'multi_label'\?"),
    "activation": ({"activation": "swish"}, r"Unknown activation 'swish'\. Known: relu, tanh"),
    "positions": ({"positions": "rotary"}, r"Unknown positions 'rotary'\. Known: learned, sinusoidal"),
    "lambda of one": ({"sparsegen_lambda": 1.0}, r"sparsegen_lambda must lie below 1, but is 1\.0"),
    "lambda above": ({"sparsegen_lambda": 2.0}, r"sparsegen_lambda must lie below 1, but is 2\.0"),
    "lambda that is no number": ({"sparsegen_lambda": math.nan}, "sparsegen_lambda must lie below 1, but is nan"),
    "no temperature": ({"temperature": 0.0}, r"temperature must be positive, but is 0\.0"),
    "alpha": ({"entmax_alpha": 0.9}, r"entmax_alpha must be at least 1, but is 0\.9"),
    "even kernels": ({"encoder": "cnn", "kernel_sizes": (3, 4)}, r"kernel_sizes must be odd.*\[3, 4\]"),
    "kernel of none": ({"encoder": "cnn", "kernel_sizes": (-1,)}, r"kernel_sizes must be odd.*\[-1\]"),
    "no kernels": ({"encoder": "cnn", "kernel_sizes": ()}, r"kernel_sizes must be odd.*\[\]"),
    "filters": (
        {"encoder": "cnn", "kernel_sizes": (1, 3, 5), "hidden_size": 8},
        "hidden_size 8 cannot be shared by 3 kernel_sizes; make it a multiple of 3",
    ),
    "heads": ({"encoder": "transformer", "hidden_size": 9}, "hidden_size 9 cannot be shared by 4 heads"),
    "labels": (
        {"num_labels": 3, "id2label": {0: "no", 1: "yes"}},
        "num_labels is 3, but id2label names 2 labels; give one of them",
    ),
    "one label": ({"num_labels": 1}, "two labels or more, but num_labels is 1"),
    "sigmoid": ({"num_labels": 3, "output": "sigmoid"}, "'sigmoid' is for two classes, but num_labels is 3"),
    "class_weights": ({"num_labels": 3, "class_weights": [1.0, 2.0]}, "Expected 3 class_weights.*got 2"),
    "query of uniform": (
        {"attention": "uniform", "query": True},
        "a query has no effect on an affine read-out; set readout to 'tanh'",
    ),
    "bidirectional": ({"bidirectional": "no"}, "Expected bidirectional to be true or false, but it is 'no'"),
    "scale": ({"scale": "tasc"}, r"Unknown scale 'tasc'\. Did you mean 'tasc_lin'\?"),
    "readout": ({"readout": "tan"}, r"Unknown readout 'tan'\. Did you mean 'tanh'\?"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_named_with_what_was_expected(name):
    settings, message = WRONG[name]
    with pytest.raises(InputError, match=message):
        AttentionClassifierConfig(**settings)


def test_kernels_and_heads_matter_to_those_encoders_only():
    AttentionClassifierConfig(encoder="mlp", kernel_sizes=(2,), hidden_size=9)


@pytest.mark.parametrize(
    ("settings", "output"),
    [
        ({}, "sigmoid"),
        ({"num_labels": 5}, "softmax"),
        ({"num_labels": 1, "output": "multi_label"}, "multi_label"),
        ({"id2label": {0: "a", 1: "b", 2: "c"}}, "softmax"),
    ],
)
def test_the_output_follows_from_the_labels(settings, output):
    assert AttentionClassifierConfig(**settings).output == output


def test_a_configuration_comes_back_as_it_was(tmp_path):
    config = AttentionClassifierConfig(
        vocab_size=50,
        encoder="cnn",
        hidden_size=12,
        kernel_sizes=(1, 3, 5),
        projection="sparsegen",
        sparsegen_lambda=0.4,
        dropout=0.1,
        freeze_embeddings=True,
        class_weights=[1.0, 2.5, 1.0],
        id2label={0: "bad", 1: "so so", 2: "good"},
        label2id={"bad": 0, "so so": 1, "good": 2},
    )
    config.save_pretrained(tmp_path)
    again = AttentionClassifierConfig.from_pretrained(tmp_path)
    assert again.to_dict() == config.to_dict()
    assert again.id2label == {0: "bad", 1: "so so", 2: "good"}
    assert again.projection_parameters == {"lam": 0.4}
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["model_type"] == "attention_classifier"
    assert written["kernel_sizes"] == [1, 3, 5]


@pytest.mark.parametrize("missing", ["readout.weight", "readout.bias", "attention.scorer.score.weight"])
def test_a_checkpoint_without_a_weight_is_incomplete(tmp_path, missing):  # C32
    small_model().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights[missing]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=f"lacks the weights {missing}; it is incomplete"):
        AttentionClassifier.from_pretrained(tmp_path)


def test_loading_keeps_labels_and_settings(tmp_path):  # C32
    settings = {"projection": "sparsegen", "sparsegen_lambda": 0.7, "id2label": {0: "bad", 1: "good"}}
    model = small_model(**settings)
    model.save_pretrained(tmp_path)
    loaded, info = AttentionClassifier.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert loaded.config.id2label == {0: "bad", 1: "good"}
    assert (loaded.config.projection, loaded.config.sparsegen_lambda) == ("sparsegen", 0.7)
    assert torch.equal(loaded(**small_batch()).attentions, model(**small_batch()).attentions)


def test_a_twin_that_takes_its_bases_embedding_saves_alone(tmp_path):  # C31
    base, twin = small_model(0, freeze_embeddings=True), small_model(1, freeze_embeddings=True)
    twin.set_input_embeddings(base.get_input_embeddings())
    for name, model in (("base", base), ("twin", twin)):
        model.save_pretrained(tmp_path / name)
        loaded = AttentionClassifier.from_pretrained(tmp_path / name)
        assert torch.equal(loaded(**small_batch()).logits, model(**small_batch()).logits)


# losses


def test_the_loss_of_two_classes_is_the_weighted_sum_over_n():
    model, batch = small_model(class_weights=[1.0, 3.0]), small_batch((7, 3, 1))
    labels = torch.tensor([1, 0, 1])
    output = model(**batch, labels=labels)
    z, weights = output.logits[:, 1].double(), torch.tensor([3.0, 1.0, 3.0])
    losses = [torch.log1p(torch.exp(-z[0])), torch.log1p(torch.exp(z[1])), torch.log1p(torch.exp(-z[2]))]
    expected = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / 3  # not over the 7 of the weights
    assert float(output.loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-6)


def test_the_loss_of_several_classes_is_the_weighted_sum_over_n():
    model, batch = small_model(num_labels=3, class_weights=[1.0, 2.0, 4.0]), small_batch((7, 3, 1))
    output = model(**batch, labels=torch.tensor([2, 0, 1]))
    chances = output.logits.detach().double().softmax(-1)
    expected = -(4 * chances[0, 2].log() + chances[1, 0].log() + 2 * chances[2, 1].log()) / 3
    assert float(output.loss.detach()) == pytest.approx(float(expected), rel=1e-6)


def test_the_loss_of_several_labels_weighs_the_positive_term():
    settings = {"num_labels": 2, "output": "multi_label"}
    model, batch = small_model(**settings, class_weights=[2.0, 5.0]), small_batch((7, 3))
    labels = torch.tensor([[1, 0], [0, 1]])
    output = model(**batch, labels=labels)
    p = output.logits.detach().double().sigmoid()
    terms = [2 * p[0, 0].log(), (1 - p[0, 1]).log(), (1 - p[1, 0]).log(), 5 * p[1, 1].log()]
    assert float(output.loss.detach()) == pytest.approx(-float(sum(terms)) / 4, rel=1e-6)
    assert torch.equal(model(**batch, labels=labels.float()).loss, output.loss)


def test_unknown_labels_give_no_loss():
    model, batch = small_model(), small_batch((7, 3, 1))
    assert model(**batch, labels=torch.tensor([-1, -1, -1])).loss is None
    part = model(**batch, labels=torch.tensor([1, -1, 0])).loss
    known = {name: value[[0, 2]] for name, value in batch.items()}
    torch.testing.assert_close(part, model(**known, labels=torch.tensor([1, 0])).loss, rtol=1e-6, atol=1e-6)
    several = small_model(num_labels=2, output="multi_label")
    assert several(**batch, labels=torch.full((3, 2), -1)).loss is None
    part = several(**batch, labels=torch.tensor([[1, 0], [-1, -1], [0, 0]])).loss
    whole = several(**known, labels=torch.tensor([[1, 0], [0, 0]])).loss
    torch.testing.assert_close(part, whole, rtol=1e-6, atol=1e-6)


# initial weights


def initial(seed: int = 0) -> AttentionClassifier:
    torch.manual_seed(seed)
    return AttentionClassifier(
        AttentionClassifierConfig(vocab_size=500, embedding_size=50, encoder="lstm", hidden_size=32, num_labels=4)
    )


def assert_torchs_own_weights(model: AttentionClassifier) -> None:
    vectors = model.embedding.weight.detach()
    assert float(vectors[1:].std()) == pytest.approx(1, abs=0.02)
    assert bool((vectors[0] == 0).all()), "the padding's vector"
    bounds = [(model.readout.weight, 64), (model.readout.bias, 64), (model.attention.scorer.token.weight, 64)]
    bounds += [(weight, 32) for module in (*model.encoder.ahead, *model.encoder.back) for weight in module.parameters()]
    for weight, fan_in in bounds:
        largest = float(weight.detach().abs().max())
        few = weight.numel() < 100
        assert (0.3 if few else 0.95) / math.sqrt(fan_in) < largest <= 1 / math.sqrt(fan_in)


def test_initial_weights_are_torchs_own():
    assert_torchs_own_weights(initial())
    assert not torch.equal(initial(0).readout.weight, initial(1).readout.weight)
    assert torch.equal(initial(0).readout.weight, initial(0).readout.weight)


def test_initial_weights_survive_saving_and_loading(tmp_path):
    model = initial()
    model.save_pretrained(tmp_path)
    loaded = AttentionClassifier.from_pretrained(tmp_path)
    assert_torchs_own_weights(loaded)
    assert all(torch.equal(weight, loaded.state_dict()[name]) for name, weight in model.state_dict().items())


# word vectors


def test_vectors_are_copied_into_the_text_and_the_query():
    vectors = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32))
    model = small_model(query=True)
    model.load_vectors(vectors)
    assert torch.equal(model.embedding.weight, vectors)
    assert torch.equal(model.query_embedding.weight, vectors)
    model.embedding.weight.data.zero_()
    assert float(vectors.abs().sum()) > 0, "the caller's matrix is not shared"


@pytest.mark.parametrize("shape", [(20, 7), (19, 6), (20,)])
def test_vectors_of_another_shape(shape):
    with pytest.raises(InputError, match=r"Expected vectors of shape \(20, 6\), but got \("):
        small_model().load_vectors(torch.zeros(shape))


@pytest.mark.parametrize("query", [False, True])
def test_frozen_embeddings_stay_frozen(tmp_path, query):
    model = small_model(freeze_embeddings=True, query=query)
    model.save_pretrained(tmp_path)
    for each in (model, AttentionClassifier.from_pretrained(tmp_path)):
        trained = {name for name, p in each.named_parameters() if p.requires_grad}
        assert "embedding.weight" not in trained
        assert "query_embedding.weight" not in trained
        assert {"readout.weight", "attention.scorer.token.weight"} <= trained
    assert small_model().embedding.weight.requires_grad


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", 0),
        ("embedding_size", -1),
        ("num_layers", 0),
        ("attention_size", 0),
        ("dropout", 1.0),
        ("dropout", -0.1),
    ],
)
def test_sizes_out_of_range_are_named(name, value):
    with pytest.raises(InputError, match=f"{name} must .*{value}"):
        AttentionClassifierConfig(**{name: value})
