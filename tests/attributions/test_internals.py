"""What a source is asked and answers, attention as a source, and random importance."""

from __future__ import annotations

import doctest
import importlib
from dataclasses import asdict, replace

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.attributions import base
from attn_faithful.attributions.base import SOURCES, Request, SourceSettings, attribute, outcome
from attn_faithful.schema import columns
from tests.checks import pad
from tests.models.examples import small_batch, small_model

KEYS = ("a", "b", "c", "d")
LAYERED = {
    "raw_attention",
    "value_norm",
    "value_zeroing",
    "rollout",
    "attention_flow",
    "attention_relevance",
    "learned_heads",
}  # of transformers models
SIGNED = {"signed_input_x_gradient", "signed_integrated_gradients", "signed_leave_one_out"}


def ask(model=None, batch=None, keys=KEYS, seed: int = 0, **more) -> Request:
    model, batch = model or small_model(), batch or small_batch()
    return Request(model, batch, model.encode(batch), keys=keys, seed=seed, **more)


def test_the_sources():
    assert set(SOURCES) == {
        "attention",
        "random",
        "saliency",
        "input_x_gradient",
        "integrated_gradients",
        "leave_one_out",
        "occlusion",
        "attention_gradient",
        "attention_x_gradient",
        "state_saliency",
        "state_leave_one_out",
        "hidden_gradient",
        *SIGNED,
        *LAYERED,
    }
    assert set(base.AT_A_SITE) <= set(SOURCES)
    assert set(SOURCES) <= set(columns("tokens"))


@pytest.mark.parametrize("source", [source for source in SOURCES if source not in LAYERED])
def test_every_source_answers_for_content_tokens(source):  # C05
    model, batch = small_model(), small_batch(special=((0, 0), (1, 2)))
    request = ask(model, batch)
    found = attribute(source, request)
    assert found.values.dtype == torch.float64
    assert found.values.device.type == "cpu"
    assert not found.values.requires_grad
    assert torch.equal(found.values.isfinite(), request.encoded.content)
    if source not in {"attention_gradient", "attention_x_gradient", *SIGNED}:  # always signed
        assert bool((found.values.nan_to_num() >= 0).all()), "magnitudes by default"
    assert all(column.shape == (4,) for column in found.extra.values())


def test_attention_is_the_models():
    request = ask()
    found, content = attribute("attention", request).values, request.encoded.content
    torch.testing.assert_close(found[content], request.encoded.attention[:, 0][content].detach().double())


def test_several_distributions_a_text_are_refused():
    model, batch = small_model(), small_batch()
    encoded = model.encode(batch)
    both = replace(encoded, attention=encoded.attention.expand(-1, 2, -1))
    for source in ("attention", "input_x_gradient"):
        with pytest.raises(InputError, match=f"{source}' needs one attention distribution a text, but the site has 2"):
            attribute(source, Request(model, batch, both))


@pytest.mark.parametrize("of", ["probability", "logit"])
def test_the_gradient_of_attention_is_that_of_its_outcome(of):
    """Against differences: each weight by itself a little larger and smaller, the states as they are."""
    model = small_model().double()
    batch = small_batch()
    request = ask(model, batch, settings=SourceSettings(outcome=of))
    found = attribute("attention_gradient", request).values
    product = attribute("attention_x_gradient", request).values
    encoded, step = request.encoded, 1e-6
    attention = encoded.attention.detach()
    for row, held in enumerate(encoded.content):
        for place in held.nonzero()[:, 0].tolist():
            ends = []
            for sign in (1, -1):
                moved = attention.clone()
                moved[row, 0, place] += sign * step
                logits = encoded.decode(moved[:, None])[:, 0].detach()
                ends.append(float(outcome(logits, request.classes, of, False)[row]))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert float(found[row, place]) == pytest.approx(slope, rel=1e-5, abs=1e-9)
            expected = slope * float(attention[row, 0, place])
            assert float(product[row, place]) == pytest.approx(expected, rel=1e-5, abs=1e-9)


# --- random importance


def test_random_importance_depends_on_seed_key_and_length_alone():  # C34
    batch = small_batch((7, 3, 1, 0))
    found = attribute("random", ask(batch=batch)).values
    torch.rand(3)
    alone = {name: value[1:2] for name, value in batch.items()}
    for same in (
        attribute("random", ask(batch=batch)).values[1, :3],
        attribute("random", ask(small_model(1), batch)).values[1, :3],
        attribute("random", ask(batch=alone, keys=("b",))).values[0, :3],
        attribute("random", ask(batch=pad(batch, 2, 1))).values[1, 2:5],
        attribute("random", ask(batch=small_batch((3,), seed=5), keys=("b",))).values[0, :3],
    ):
        assert torch.equal(same, found[1, :3])
    assert not torch.equal(attribute("random", ask(batch=batch, seed=1)).values[1, :3], found[1, :3])
    assert not torch.equal(attribute("random", ask(batch=batch, keys=("a", "x", "c", "d"))).values[1, :3], found[1, :3])


def test_random_importance_skips_special_tokens():
    plain = attribute("random", ask(batch=small_batch((5,)), keys=("a",))).values[0]
    marked = attribute("random", ask(batch=small_batch((7,), special=((0, 0), (0, 3))), keys=("a",))).values[0]
    assert torch.equal(marked[[1, 2, 4, 5, 6]], plain)


def test_random_importance_is_uniform_and_leaves_the_global_generator():
    state = torch.get_rng_state()
    found = attribute("random", ask(batch=small_batch((4000,)), keys=("a",))).values
    assert torch.equal(torch.get_rng_state(), state)
    assert 0 <= float(found.min()) < 0.01 < 0.99 < float(found.max()) < 1
    assert float(found.mean()) == pytest.approx(0.5, abs=0.02)  # four standard errors


def test_keys_belong_to_examples():
    with pytest.raises(InputError, match="`keys` has 2, `examples` has 4"):
        attribute("random", ask(keys=("a", "b")))


# --- what is asked


def test_an_unknown_source_names_the_nearest():
    with pytest.raises(InputError, match=r"Unknown source 'salincy'\. Did you mean 'saliency'\?"):
        attribute("salincy", ask())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("reduction", "l3", r"Unknown reduction 'l3'\. Known: l1, l2, sum, xxex"),
        ("attention_path", "detach", r"Unknown attention_path 'detach'\. Did you mean 'detached'"),
        ("operator", "deleted", r"Unknown operator 'deleted'\. Did you mean 'delete'"),
        ("sign", "abs", r"Unknown sign 'abs'\. Known: magnitude, signed"),
        ("outcome", "probabilities", r"Unknown outcome 'probabilities'\. Did you mean 'probability'"),
        ("baseline", "zeros", r"Unknown baseline 'zeros'\. Did you mean 'zero'"),
        ("heads", "average", r"Unknown heads 'average'\. Known: max, mean, min"),
        ("layers", "first", r"Unknown layers 'first'\. Known: all, last"),
        ("n_steps", 0, "n_steps must be an integer of at least 1, but is 0"),
        ("n_steps", 2.5, r"n_steps must be an integer of at least 1, but is 2\.5"),
        ("n_steps", True, "n_steps must be an integer of at least 1, but is True"),
    ],
)
def test_a_wrong_setting_is_named(name, value, message):
    with pytest.raises(InputError, match=message):
        SourceSettings(**{name: value})


def test_the_defaults_are_those_of_the_paper():
    assert asdict(SourceSettings()) == {
        "reduction": "xxex",
        "attention_path": "auto",
        "operator": "delete",
        "sign": "magnitude",
        "outcome": "probability",
        "baseline": "zero",
        "n_steps": 50,
        "heads": "mean",
        "layers": "last",
    }


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.zeros(3, dtype=torch.long), r"`target` a text, of shape \(4,\), but got \(3,\)"),
        (torch.zeros(4, 2, dtype=torch.long), r"`target` a text, of shape \(4,\), but got \(4, 2\)"),
        (torch.tensor([0, 1, 2, 0]), r"`target` in 0 to 1, but got \[0, 1, 2, 0\]"),
        (torch.tensor([0, -1, 1, 0]), r"`target` in 0 to 1, but got \[0, -1, 1, 0\]"),
    ],
)
def test_a_wrong_target_is_named(target, message):  # C21
    with pytest.raises(InputError, match=message):
        ask(target=target)


def test_examples():
    result = doctest.testmod(importlib.import_module(base.__name__))
    assert result.attempted > 0
    assert result.failed == 0
