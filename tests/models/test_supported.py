"""Models inside of wrappers, models that are not supported, and attention past the interface: equal, or refused."""

from __future__ import annotations

import peft
import pytest
import torch
import transformers
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.supported import SUPPORTED, refusal
from tests.models.stock_families import COMMON, build, read, texts


def check_same_logits(model: StockModel, plain: nn.Module) -> None:
    """The logits of a plain model, by every way to them, whatever the side of the padding."""
    for left in (False, True):
        batch = read(texts(left=left))
        with torch.no_grad():
            expected = plain(**batch).logits
            encoded = model.encode(batch, model.sites[-2])
            found = (model(**batch).logits, encoded.logits, encoded.decode(encoded.attention[:, None])[:, 0])
        for logits in found:
            torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


class ByHand(nn.Module):
    """Self-attention as a user writes it; it adds the mask, which is wrong of a boolean one."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.query, self.key, self.value = own.query, own.key, own.value

    def forward(self, states: Tensor, attention_mask: Tensor | None = None, *args, **kwargs) -> tuple[Tensor, None]:
        b, t, n = states.shape
        query, key, value = (f(states).view(b, t, 4, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5  # (B, H, T, T)
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        weights = weights / weights.sum(-1, keepdim=True)
        return (weights @ value).transpose(1, 2).reshape(b, t, n), None


class Mixing(nn.Module):
    """A whole layer whose name says nothing."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.mix = ByHand(own)

    def forward(self, states: Tensor, attention_mask: Tensor | None = None, *args, **kwargs) -> Tensor:
        return states + self.mix(states, attention_mask)[0]


class Torchs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)

    def forward(self, states: Tensor, *args, **kwargs) -> Tensor:
        return self.inner(states)


class Weighing(nn.Module):
    """A pooling that no name gives away: every token weighs every other."""

    def forward(self, states: Tensor) -> Tensor:
        return (torch.softmax(states @ states.transpose(1, 2), -1) @ states)[:, 0]


def own_attention(model) -> str:
    layer = model.bert.encoder.layer[1].attention
    layer.self = ByHand(layer.self)
    return r"bert\.encoder\.layer\.1\.attention \(BertAttention\)"


def own_layer(model) -> str:
    layers = model.bert.encoder.layer
    layers[2] = Mixing(layers[2].attention.self)
    return r"bert\.encoder\.layer\.2 \(Mixing\)"


def torchs_layer(model) -> str:
    model.bert.encoder.layer.append(Torchs().eval())
    return r"bert\.encoder\.layer\.3 \(Torchs\)"


def own_pooling(model) -> str:
    model.bert.pooler = Weighing()
    return r"bert\.pooler \(Weighing\)"


@pytest.mark.parametrize("change", [own_attention, own_layer, torchs_layer, own_pooling])
def test_attention_past_the_interface_is_refused_by_the_name_of_its_layer(change):
    model = build("bert")
    named = change(model)
    with pytest.raises(InputError, match=f"BertForSequenceClassification .* in part only: past it goes {named}"):
        StockModel(model)


def test_a_family_that_uses_the_interface_in_its_decoder_alone_is_refused():
    config = transformers.BigBirdPegasusConfig(
        **COMMON,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=40,
        block_size=4,
        num_random_blocks=1,
    )
    model = transformers.BigBirdPegasusForSequenceClassification(config).eval()
    with pytest.raises(InputError, match=r"past it goes model\.encoder\.layers\.0\.self_attn"):
        StockModel(model)


class ReadsTheMask(transformers.BertForSequenceClassification):
    """A classifier that adds the number of padding tokens, as the mask that the model's own attention is given has it:
    with a boolean one it is another number."""

    def __init__(self, config) -> None:
        super().__init__(config)
        own = self.bert.encoder.forward

        def forward(states, attention_mask=None, **kwargs):
            output = own(states, attention_mask=attention_mask, **kwargs)
            hidden = 0.0 if attention_mask is None else attention_mask.float().clamp(min=-1).sum((1, 2, 3))
            output.last_hidden_state = output.last_hidden_state + torch.as_tensor(hidden).view(-1, 1, 1)
            return output

        self.bert.encoder.forward = forward


def test_a_model_that_reads_the_mask_in_a_way_of_its_own_is_refused():
    """No layer passes by the interface; only a comparison with the model left to itself tells."""
    model = ReadsTheMask(build("bert").config).eval()
    model.set_attn_implementation("eager")
    with pytest.raises(InputError, match="ReadsTheMask gives other logits for padded texts"):
        StockModel(model)


def test_padding_on_the_left_that_eager_attention_spreads_is_refused():
    """ModernBERT's first token is padding there, and eager attention has its window's padding weigh alike."""
    model = build("modernbert")
    model.set_attn_implementation("eager")
    wrapped = StockModel(model)
    with pytest.raises(InputError, match=r"padded on the left.*'eager'.*pad on the right"):
        wrapped.encode(read(texts(left=True)), "layer.0")
    batch = read(texts())
    with torch.no_grad():
        torch.testing.assert_close(wrapped(**batch).logits, model(**batch).logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("wrapper", [nn.DataParallel, torch.compile, lambda model: model.compile() or model])
def test_wrappers_that_change_no_number_are_taken_off(wrapper):
    plain = build("bert")
    check_same_logits(StockModel(wrapper(build("bert"))), plain)


def test_adapters_inside_of_the_layers_stay_active():
    settings = peft.LoraConfig(
        task_type="SEQ_CLS",
        r=4,
        target_modules=["query", "value"],
        init_lora_weights=False,
        modules_to_save=["classifier"],
    )
    adapted = peft.get_peft_model(build("bert"), settings).eval()
    model = StockModel(adapted)
    check_same_logits(model, adapted)
    batch = read(texts())
    with torch.no_grad():
        assert float((model(**batch).logits - build("bert")(**batch).logits).abs().max()) > 0.1
    check_same_logits(StockModel(torch.compile(adapted)), adapted)


@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PrefixTuningConfig"])
def test_virtual_tokens_are_refused(kind):
    settings = getattr(peft, kind)(task_type="SEQ_CLS", num_virtual_tokens=2)
    with pytest.raises(InputError, match=r"virtual tokens .*LoRA, are taken"):
        StockModel(peft.get_peft_model(build("bert"), settings))


def quantised() -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(build("bert"), {nn.Linear}, dtype=torch.qint8)


def stored_as_bytes() -> nn.Module:
    model = build("bert")
    model.classifier.weight = nn.Parameter(model.classifier.weight.to(torch.int8), requires_grad=False)
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [quantised, stored_as_bytes])
def test_quantised_weights_are_refused(make):
    with pytest.raises(InputError, match="BertForSequenceClassification is quantised"):
        StockModel(make())


def test_weights_that_are_elsewhere_are_refused():
    with torch.device("meta"):
        empty = transformers.BertForSequenceClassification(build("bert").config)
    model = build("bert")
    model.bert.pooler = empty.bert.pooler
    for each in (empty, model):
        with pytest.raises(InputError, match=r"not in memory \(offloaded"):
            StockModel(each)


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_a_config_that_asks_for_tuples_changes_nothing(name):
    plain, model = build(name), build(name)
    model.config.return_dict = False
    check_same_logits(StockModel(model), plain)
    assert model.config.return_dict is False


@pytest.mark.parametrize("padding", [-1, 60])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_padding_id_that_is_no_token_is_refused(name, padding):
    model = build(name)
    model.config.pad_token_id = padding
    with pytest.raises(InputError, match=f"one of its 60 tokens, but config.pad_token_id is {padding}; set it"):
        StockModel(model)


def test_ids_beyond_the_embeddings_are_named():
    model, batch = StockModel(build("bert")), read(texts())
    batch["input_ids"] = batch["input_ids"].clone()
    batch["input_ids"][0, 3] = 77
    for way in (
        lambda: model(**batch),
        lambda: model.encode(batch, "layer.0"),
        lambda: model.without(batch, torch.ones(4, 1, 9, dtype=torch.bool)),
    ):
        with pytest.raises(InputError, match=r"embeds 60 tokens, but the text has the id 77.*resize_token_embeddings"):
            way()


REFUSED = {
    "GPT2LMHeadModel": "causal language model",
    "LlamaForCausalLM": "causal language model",
    "T5ForConditionalGeneration": "generates text",
    "BertForTokenClassification": "token classifier",
    "RobertaForMultipleChoice": "multiple choice",
    "ViTForImageClassification": "images",
    "T5EncoderModel": "without a head",
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_list_says_what_a_model_is_what_is_supported_and_what_would_be_next(name):
    why = refusal(name)
    assert why.startswith(f"{name} is a ")
    assert REFUSED[name] in why
    assert SUPPORTED in why
    assert "What would be next: " in why
    assert "AutoModel" not in why  # whose head would be random


def test_a_layer_that_is_called_attention_and_weighs_nothing_is_no_attention():
    """MobileBERT's bottlenecks are."""
    config = transformers.MobileBertConfig(
        **COMMON,
        hidden_size=32,
        embedding_size=16,
        intra_bottleneck_size=16,
        num_hidden_layers=1,
        intermediate_size=16,
        num_attention_heads=4,
        max_position_embeddings=40,
    )
    torch.manual_seed(0)
    model = transformers.MobileBertForSequenceClassification(config).eval()
    check_same_logits(StockModel(model), model)


def test_a_model_that_cannot_be_run_is_told_by_name():
    model = build("bert")
    model.bert.encoder.layer[1].attention.self.attention_head_size = 5
    with pytest.raises(InputError, match=r"BertForSequenceClassification cannot be run on a short text \(RuntimeError"):
        StockModel(model)


def test_a_model_of_images_is_refused():
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=16
    )
    with pytest.raises(InputError, match="ViTForImageClassification is a model of images"):
        StockModel(transformers.ViTForImageClassification(config))


def test_weights_that_are_no_numbers_are_named():
    model = build("bert")
    with torch.no_grad():
        model.bert.encoder.layer[1].attention.self.query.weight[0, 0] = torch.inf
        model.classifier.bias[0] = torch.nan
    said = (
        r"no finite numbers .*: its weights bert\.encoder\.layer\.1\.attention\.self\.query\.weight and 1 more hold NaN"
    )
    with pytest.raises(InputError, match=said):
        StockModel(model)
