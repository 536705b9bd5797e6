"""What wrapping leaves of a user's model (everything), and what it refuses."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import nn

from attn_faithful._checks import InputError
from attn_faithful.models.stock import decoder, interface
from attn_faithful.models.stock.interface import configs_of
from attn_faithful.models.stock.model import StockModel
from tests.models.stock_families import NAMES, build, read, texts
from tests.models.test_stock import alternatives, check_close


def state(model) -> dict:
    """All that a model is, in a form that compares."""
    hooks = [name for name in vars(model) if name.endswith("_hooks")]
    return {
        "weights": {name: value.clone() for name, value in model.state_dict().items()},
        "buffers": {name: value.clone() for name, value in model.named_buffers()},
        "grads": [p.grad for p in model.parameters()],
        "trained": [p.requires_grad for p in model.parameters()],
        "modes": [m.training for m in model.modules()],
        "hooks": [dict(getattr(m, name)) for m in model.modules() for name in hooks],
        "own": [{k: v for k, v in vars(m).items() if not k.startswith("_")} for m in model.modules()],
        "config": model.config.to_dict(),
        "outputs": [(c.output_attentions, c.output_hidden_states) for c in configs_of(model)],
        "implementations": [c._attn_implementation for c in configs_of(model)],
    }


def check_untouched(model, before: dict) -> None:
    after = state(model)
    for kind in ("weights", "buffers"):
        was, now = before.pop(kind), after.pop(kind)
        assert was.keys() == now.keys()
        assert all(torch.equal(value, now[name]) for name, value in was.items())
    assert set(before["grads"]) == {None}
    for kind, was in before.items():
        assert after[kind] == was, kind


def use(model: StockModel) -> None:
    """Every way of running it."""
    batch = read(texts())
    for site in (model.sites[1], model.sites[-2]):
        encoded = model.encode(batch, site)
        with torch.no_grad():
            encoded.decode(encoded.attention[:, None])
        many = alternatives(encoded)[:, :2].requires_grad_()
        torch.autograd.grad(encoded.decode(many).sum(), many)
    with torch.no_grad():
        model.without(batch, torch.ones(4, 1, 9, dtype=torch.bool))
        model(**batch, inputs_embeds=model.get_input_embeddings()(batch["input_ids"]), **model.fixed_attention(batch))


def trained(name: str, **settings):
    """In train mode but for one part of it, as a user may have it, with one forward of the user's own."""
    model = build(name, **settings).train()
    part = next(m for m in model.modules() if isinstance(m, nn.Embedding)).eval()
    layers = next(m for m in model.modules() if isinstance(m, nn.ModuleList))
    layers[0].forward = layers[0].forward
    part.forward = part.forward
    part.register_forward_hook(lambda *_: None)
    return model


@pytest.mark.parametrize("name", NAMES)
def test_a_wrapped_model_stays_as_it_is(name):
    plain = trained(name)
    before = state(plain)
    assert not all(before["modes"])
    use(StockModel(plain))
    check_untouched(plain, before)


@pytest.mark.parametrize("at", [0, 4])
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_a_model_stays_as_it_is_when_a_run_is_broken_off(name, at, monkeypatch):
    plain = trained(name, **({"pad_token_id": None} if name == "gpt2" else {}))
    before, calls = state(plain), 0
    model = StockModel(plain)

    def interrupted(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls > at:
            raise KeyboardInterrupt
        return whole(*args, **kwargs)

    batch, whole = read(texts()), interface._allowed  # asked at every layer, whatever computes its attention
    encoded = model.encode(batch, "layer.1")
    many = alternatives(encoded)[:, :1]
    embedded = model.get_input_embeddings()(batch["input_ids"]).detach()
    ways = [
        lambda: [model.encode(batch, "layer.1") for _ in range(3)],
        lambda: [encoded.decode(many) for _ in range(5)],
        lambda: [encoded.decode(many.requires_grad_()) for _ in range(5)],
        lambda: [model.without(batch, torch.ones(4, 1, 9, dtype=torch.bool)) for _ in range(3)],
        lambda: [model(**batch, inputs_embeds=embedded) for _ in range(3)],
        lambda: StockModel(plain),
    ]
    monkeypatch.setattr(interface, "_allowed", interrupted)
    for way in ways:
        calls = 0
        with pytest.raises(KeyboardInterrupt):
            way()
        check_untouched(plain, dict(before))


def test_a_gradient_that_is_broken_off_leaves_the_model_as_it_is(monkeypatch):
    """What is run again for the gradient is run in the backward pass, outside of any call of ours."""
    plain = trained("bert")
    model, before = StockModel(plain), state(plain)
    encoded = model.encode(read(texts()), "layer.1")
    many = alternatives(encoded)[:, :1].requires_grad_()
    monkeypatch.setattr(decoder, "CELLS", 1)  # a text a part: one part alone is kept and not run again
    logits = encoded.decode(many)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(interface, "_weighed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        torch.autograd.grad(logits.sum(), many)
    check_untouched(plain, before)


def test_weights_of_another_shape_are_refused():
    plain = build("bert")
    model, before = StockModel(plain), state(plain)
    encoded = model.encode(read(texts()), "layer.1")
    own = encoded.attention[:, None]
    for wrong in (own[:, 0], own[..., :-1], own[:, :, :2], own[:2]):
        with pytest.raises(InputError, match="Expected `attention` of shape"):
            encoded.decode(wrong)
    check_untouched(plain, before)


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_the_mode_and_the_implementation_change_nothing(name):
    """No dropout in the analysis of a model in train mode; eager and sdpa are both replaced (cases C14 and C15)."""
    plain, batch = build(name), texts()
    model = StockModel(plain)
    calm = model.encode(batch, "joint")
    plain.train()
    again = model.encode(batch, "joint")
    assert torch.equal(again.logits, calm.logits)
    assert torch.equal(again.attention, calm.attention)
    plain.eval()
    plain.set_attn_implementation("eager")
    plain.config.output_attentions = True
    again = model.encode(batch, "joint")
    assert torch.equal(again.logits, calm.logits)
    assert plain.config.output_attentions is True
    assert plain.config._attn_implementation == "eager"


TINY = {
    "DebertaV2": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
    "MPNet": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
    "XLNet": {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16},
    "GPTNeo": {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "attention_types": [[["global"], 1]]},
    "FNet": {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16},
}


@pytest.mark.parametrize("prefix", TINY)
def test_a_model_that_does_not_ask_for_its_attention_is_refused_by_name(prefix):
    config = getattr(transformers, f"{prefix}Config")(vocab_size=60, pad_token_id=1, **TINY[prefix])
    model = getattr(transformers, f"{prefix}ForSequenceClassification")(config)
    with pytest.raises(InputError, match=f"{prefix}ForSequenceClassification .*attention interface.*such as BERT"):
        StockModel(model)


def test_what_is_no_classifier_in_full_precision_is_refused():
    with pytest.raises(InputError, match="BertForSequenceClassification has num_labels=1: one logit"):
        StockModel(build("bert", num_labels=1))
    with pytest.raises(InputError, match="regression"):
        StockModel(build("bert", problem_type="regression"))
    with pytest.raises(InputError, match=r"GPT2ForSequenceClassification is in bfloat16.*model\.float\(\)"):
        StockModel(build("gpt2").bfloat16())
    for other in (nn.Linear(2, 2), nn.LSTM(2, 2)):
        with pytest.raises(InputError, match=f"Expected a transformers model, but got {type(other).__name__}"):
            StockModel(other)
    with pytest.raises(InputError, match="Expected a transformers model, but got str"):
        StockModel("bert-base-uncased")


def test_attention_of_an_unknown_kind_is_refused():
    """It would be taken for a softmax."""
    transformers.AttentionInterface.register("somebodys", interface._attend)
    model, mixed = build("bert"), build("t5")
    model.set_attn_implementation("somebodys")
    with pytest.raises(InputError, match=r"BertForSequenceClassification.*'somebodys'; call .*'sdpa'"):
        StockModel(model)
    mixed.transformer.encoder.config._attn_implementation = "sparsemax"
    with pytest.raises(InputError, match="'sdpa' and 'sparsemax'"):
        StockModel(mixed)


@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM", "ForTokenClassification", "ForQuestionAnswering"])
def test_what_does_not_classify_texts_is_refused(kind):
    model = getattr(transformers, f"Bert{kind}")(build("bert", num_labels=2).config)
    with pytest.raises(InputError, match=f"Bert{kind} is a .*Supported are .*What would be next") as told:
        StockModel(model)
    assert "Auto" not in str(told.value)  # whose head would be random


def test_numbers_and_names_that_do_not_exist_are_refused():
    model = StockModel(build("bert"))
    for settings, message in (
        ({"heads": [4]}, "Expected heads of 0 to 3, but got .4."),
        ({"heads": [-5]}, "heads of 0 to 3"),
        ({"heads": []}, "heads of 0 to 3"),
        ({"layers": [0, 3]}, "Expected layers of 0 to 2, but got .0, 3."),
        ({"queries": "tokens"}, "Unknown queries 'tokens'. Did you mean 'token'?"),
    ):
        with pytest.raises(InputError, match=message.replace("?", r"\?")):
            model.choosing(**settings)
    with pytest.raises(InputError, match="heads of 0 to 3"):
        StockModel(model.model, heads=[4])
    model = model.choosing(layers=[1])
    with pytest.raises(InputError, match=r"Unknown site 'layer.0'. Did you mean 'layer.1'\?"):
        model.encode(texts(), "layer.0")
    with pytest.raises(InputError, match="input_ids"):
        model.encode({}, "layer.1")


def test_a_head_that_reads_every_token_has_no_row_of_its_own():
    plain = build("modernbert", classifier_pooling="mean")
    with pytest.raises(InputError, match=r"reads no single token.*choose queries mean or all"):
        StockModel(plain, queries="token").encode(texts(), "layer.0")
    model, batch = StockModel(plain), texts()
    for site in model.sites:
        encoded = model.encode(batch, site)
        assert encoded.attention.shape[1] == 4 * (3 if site == "joint" else 1)
        check_close(encoded.decode(encoded.attention[:, None])[:, 0].detach(), encoded.logits.detach())
    with torch.no_grad():
        check_close(model.encode(batch, "joint").logits, plain(**read(batch)).logits, 1e-5)  # sdpa of torch
