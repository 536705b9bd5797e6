"""Twins of stock models: the loss against loops, start, training, resuming, what is shared with the base."""

import copy
import importlib.util
import math
import sys

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2ForSequenceClassification

from attn_faithful._checks import InputError
from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.functional.divergences import LN2
from attn_faithful.models.stock.model import StockModel
from attn_faithful.training import stock_pair
from attn_faithful.training.callbacks import Multiplier
from attn_faithful.training.stock_pair import stock_twin_outputs
from attn_faithful.training.stock_start import new_stock_twin
from attn_faithful.training.stock_twin import StockTwinSettings, StockTwinTrainer, train_stock_twin
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import arguments
from tests.models.stock_families import NAMES, wrapped
from tests.models.stock_families import texts as family_texts
from tests.reference import divergences as slow
from tests.reference import head_matching as slow_heads
from tests.training.planted import Stopped, same, stop_at, weights

CLS, SEP, SIZE = 2, 3, 30
COLLATE = Collator(columns=("special_tokens_mask",))


def texts(n, seed=0, low=2, high=6):
    """Rows of ids 4 to 29 between two special tokens."""
    generator = np.random.default_rng(seed)
    ids = [[CLS, *generator.integers(4, SIZE, size=generator.integers(low, high + 1)).tolist(), SEP] for _ in range(n)]
    return Rows(
        {
            "example": [f"t-{i}" for i in range(n)],
            "input_ids": ids,
            "length": list(map(len, ids)),
            "labels": [i % 2 for i in range(n)],
            "special_tokens_mask": [[1, *[0] * (len(row) - 2), 1] for row in ids],
        }
    )


def bert(seed=0, layers=2, scale=4.0, **settings):
    """A small BERT of weights that are large enough to tell texts and tokens apart."""
    config = BertConfig(
        **{
            "vocab_size": SIZE,
            "hidden_size": 12,
            "num_hidden_layers": layers,
            "num_attention_heads": 3,
            "intermediate_size": 12,
            "max_position_embeddings": 16,
            "pad_token_id": 0,
            **settings,
        }
    )
    torch.manual_seed(seed)
    return scaled(BertForSequenceClassification(config), scale)


def gpt2(seed=0):
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=SIZE, n_embd=12, n_layer=2, n_head=3, n_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=1
    )
    return scaled(GPT2ForSequenceClassification(config), 4.0)


def scaled(model, scale):
    with torch.no_grad():
        for value in model.parameters():
            value *= scale
    return model.eval()


ROWS, HELD_OUT = texts(40), texts(24, seed=1)


@pytest.fixture(scope="module")
def base():
    return StockModel(bert())


def trainer_of(base, stock, settings, folder, rows=HELD_OUT, callbacks=()):
    made = StockTwinTrainer(
        model=stock.model,
        args=arguments(settings, 0, folder, "eval_selection", False),
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=COLLATE,
        callbacks=list(callbacks),
        settings=settings,
        base=base,
        stock=stock,
    )
    made.args.report_to = []
    return made


def heads_of(model, batch, keys):
    """Attention of every layer, as lists, by transformers' own eager implementation."""
    eager = copy.deepcopy(model.model)
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        output = eager(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], output_attentions=True)
    content = (batch["special_tokens_mask"] == 0).tolist()
    layers = [layer.double().tolist() for layer in output.attentions]
    if keys == "content":
        layers = [
            [
                [[slow_heads.content_attention(row, content[b]) for row in head] for head in heads]
                for b, heads in enumerate(layer)
            ]
            for layer in layers
        ]
    return layers, output.logits.double().softmax(-1).tolist()


def expected_outputs(base, twin, rows, keys="content"):
    """TVD, JSD by layer and assignments, from loops over every permutation."""
    batch = COLLATE([rows[i] for i in range(len(rows))])
    real = batch["attention_mask"].bool().tolist()
    (one, p), (other, q) = heads_of(twin, batch, keys), heads_of(base, batch, keys)
    tvd = [slow.tvd(a, b) for a, b in zip(p, q, strict=True)]
    by_layer, assignments = [], []
    for a, b in zip(one, other, strict=True):
        distances = slow_heads.distances(a, b, real)
        order, _, _ = slow_heads.best_assignment(distances)
        assignments.append(list(order))
        by_layer.append([slow_heads.matched(example, order) for example in distances])
    return tvd, np.array(by_layer).T, assignments


# --- what a twin is measured by


@pytest.mark.parametrize("keys", ["content", "all"])
def test_outputs_equal_loops(base, keys):
    twin, rows = StockModel(bert(seed=5)), texts(7, seed=3)
    tvd, by_layer, assignments = expected_outputs(base, twin, rows, keys)
    found = stock_twin_outputs(base, twin, rows, COLLATE, keys=keys)
    assert [a.tolist() for a in found.assignments] == assignments
    assert found.tvd == pytest.approx(np.array(tvd), abs=1e-6)
    assert found.by_layer == pytest.approx(by_layer, abs=1e-6)
    assert found.jsd == pytest.approx(by_layer.mean(1), abs=1e-6)
    assert found.jsd.min() > 0.01
    mass = found.content_mass
    assert ((mass > 0) & (mass < 1)).all()
    one = stock_twin_outputs(base, twin, rows, COLLATE, layers=[1], keys=keys)
    # of the layer before it nobody asks for the weights, so that torch's kernel works out what it gives
    assert one.jsd == pytest.approx(found.by_layer[:, 1], abs=1e-6)


def test_outputs_do_not_depend_on_order(base):
    twin = StockModel(bert(seed=5))
    found = stock_twin_outputs(base, twin, HELD_OUT, COLLATE)
    order = list(range(len(HELD_OUT)))[::-1]
    turned = stock_twin_outputs(base, twin, HELD_OUT.take(order), COLLATE)
    assert np.array_equal(turned.by_layer[order], found.by_layer)
    assert np.array_equal(turned.twin[order], found.twin)


def test_swapped_heads_are_no_change(base):
    """A twin whose heads are the base's in another order: the same predictions, and a JSD of 0."""
    swapped = copy.deepcopy(base.model)
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        for layer in swapped.bert.encoder.layer:
            own, size = layer.attention.self, 4
            rows = (order[:, None] * size + torch.arange(size)).flatten()
            for part in (own.query, own.key, own.value):
                part.weight.copy_(part.weight[rows])
                part.bias.copy_(part.bias[rows])
            layer.attention.output.dense.weight.copy_(layer.attention.output.dense.weight[:, rows])
    found = stock_twin_outputs(base, StockModel(swapped), HELD_OUT, COLLATE)
    assert [a.tolist() for a in found.assignments] == [order.tolist()] * 2
    assert found.tvd.max() < 1e-5
    assert found.jsd.max() < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_every_family(name, monkeypatch):
    """A disturbed twin differs in every layer asked for, and texts are compared as if each stood alone."""
    family = wrapped(name)
    last = len(family.layers) - 1
    keys = "all" if name in ("bart", "gpt2") else "content"
    settings = StockTwinSettings(layers=[0, last], perturbation=0.5, keys=keys)
    twin, _ = new_stock_twin(family, settings, 0)
    batch = family_texts((9, 6, 3, 2))
    lengths = batch["attention_mask"].sum(1).tolist()
    columns = ("input_ids", "special_tokens_mask")
    rows = Rows({c: [row[:n] for row, n in zip(batch[c].tolist(), lengths, strict=True)] for c in columns})
    collate = Collator(pad_token_id=family.pad_token_id, columns=("special_tokens_mask",))
    found = stock_twin_outputs(family, twin, rows, collate, settings.layers, keys)
    assert (found.by_layer[0] > 1e-5).all()
    assert np.isnan(found.by_layer[3]).all() == (keys == "content")  # two special tokens
    monkeypatch.setattr(stock_pair, "match_heads", lambda distances: np.arange(distances.shape[1]))
    found = stock_twin_outputs(family, twin, rows, collate, settings.layers, keys)
    for i in (0, 2):
        one = stock_twin_outputs(family, twin, rows.take([i]), collate, settings.layers, keys)
        assert one.tvd[0] == pytest.approx(found.tvd[i], abs=1e-5)
        assert one.content_mass[0] == pytest.approx(found.content_mass[i], abs=1e-5)
        assert one.by_layer[0] == pytest.approx(found.by_layer[i], abs=1e-5)


def test_a_text_without_content_is_undefined(base):
    rows = texts(3).with_columns(
        input_ids=[[CLS, SEP], [CLS, 7, 8, SEP], [CLS, 9, SEP]],
        length=[2, 4, 3],
        special_tokens_mask=[[1, 1], [1, 0, 0, 1], [1, 0, 1]],
    )
    found = stock_twin_outputs(base, StockModel(bert(seed=5)), rows, COLLATE)
    assert np.isnan(found.jsd).tolist() == [True, False, False]
    assert found.jsd[2] < 1e-15  # one token: nothing can move
    assert np.isfinite(found.tvd).all()
    everything = stock_twin_outputs(base, StockModel(bert(seed=5)), rows, COLLATE, keys="all")
    assert np.isfinite(everything.jsd).all()


@pytest.mark.parametrize("objective", ["attefa", "constrained"])
def test_loss_equals_the_equations(tmp_path, base, objective):
    """With the assignments that the best match on the batch gives."""
    twin, rows, price = StockModel(bert(seed=5)), texts(6, seed=4), 2.5
    settings = StockTwinSettings(objective=objective, weight=0.7)
    made = trainer_of(base, twin, settings, tmp_path, rows, [Multiplier()] if objective == "constrained" else [])
    made.match()
    tvd, by_layer, assignments = expected_outputs(base, twin, rows)
    assert [a.tolist() for a in made.assignments] == assignments
    if objective == "constrained":
        made.multiplier.value = price
    s_jsd = by_layer.mean(1) / math.log(2)
    each = np.array(tvd) - 0.7 * s_jsd if objective == "attefa" else (price * np.array(tvd) - s_jsd) / (1 + price)
    loss = made.compute_loss(twin.model.eval(), COLLATE([rows[i] for i in range(6)]))
    assert loss.item() == pytest.approx(each.mean(), abs=1e-6)


# --- where it starts


@pytest.mark.parametrize("make", [bert, gpt2])
def test_a_twin_from_the_base_differs_in_queries_and_keys_of_its_layers(make):
    base = StockModel(make())
    held = weights(base.model)
    twin, trained = new_stock_twin(base, StockTwinSettings(layers=[1]), 5)
    assert trained is twin.model
    changed = {n for n, value in twin.model.state_dict().items() if not torch.equal(value, held[n])}
    names = {
        bert: {f"bert.encoder.layer.1.attention.self.{part}.weight" for part in ("query", "key")},
        gpt2: {"transformer.h.1.attn.c_attn.weight"},
    }[make]
    assert changed == names
    if make is gpt2:  # values stand in the same table
        (name,) = names
        assert torch.equal(twin.model.state_dict()[name][:, 24:], held[name][:, 24:])
        assert (twin.model.state_dict()[name][:, :24] != held[name][:, :24]).all()
    assert same(weights(base.model), held)
    again, other = (new_stock_twin(base, StockTwinSettings(layers=[1]), seed)[0] for seed in (5, 6))
    assert same(weights(again), weights(twin))
    assert not same(weights(other), weights(twin))
    found = stock_twin_outputs(base, twin, HELD_OUT, COLLATE)
    assert found.by_layer[:, 0].max() < 1e-12 < 1e-5 < found.by_layer[:, 1].mean()


def test_base_and_twin_share_no_tensor_and_embeddings_are_frozen(base):  # C31
    state = torch.get_rng_state()
    twin, _ = new_stock_twin(base, StockTwinSettings(), 5)
    assert torch.equal(torch.get_rng_state(), state)
    mine = {p.data_ptr() for p in base.model.parameters()}
    assert not any(p.data_ptr() in mine for p in twin.model.parameters())
    frozen = {n for n, p in twin.model.named_parameters() if not p.requires_grad}
    tables = {f"bert.embeddings.{part}_embeddings.weight" for part in ("word", "position", "token_type")}
    assert frozen == tables
    assert all(p.requires_grad for p in base.model.parameters())
    free, _ = new_stock_twin(base, StockTwinSettings(freeze_embeddings=False), 5)
    assert all(p.requires_grad for p in free.model.parameters())
    new, _ = new_stock_twin(base, StockTwinSettings(start="new"), 5)
    equal = {n for n, p in new.model.named_parameters() if p.dim() > 1 and torch.equal(p, base.model.state_dict()[n])}
    assert equal == tables


# --- training


@pytest.mark.parametrize(
    "settings", [{}, {"objective": "constrained", "max_tvd": 0.2, "layers": [1], "keys": "all"}], ids=["all", "one"]
)
def test_training_moves_attention_and_keeps_the_best(tmp_path, base, settings):
    held = weights(base.model)
    settings = StockTwinSettings(epochs=2, batch_size=16, learning_rate=1e-2, perturbation=0.3, **settings)
    start = new_stock_twin(base, settings, 0)[0]
    first = stock_twin_outputs(base, start, HELD_OUT, COLLATE, settings.layers, settings.keys).jsd.mean()
    twin, history = train_stock_twin(base, TrainingTask(ROWS, HELD_OUT, COLLATE, settings, 3, tmp_path / "c"))
    found = stock_twin_outputs(base, twin, HELD_OUT, COLLATE, settings.layers, settings.keys)
    best = min(history, key=lambda row: row["eval_selection"])
    assert best["eval_tvd"] == pytest.approx(found.tvd.mean(), abs=1e-9)
    assert best["eval_jsd"] == pytest.approx(found.jsd.mean(), abs=1e-9)
    assert found.jsd.mean() > 2 * first
    assert found.jsd.mean() <= LN2
    assert same(weights(base.model), held)
    assert base.model.config._attn_implementation != "attn_faithful"
    assert not twin.model.training
    assert not (tmp_path / "c").exists()
    for name, value in twin.model.state_dict().items():
        if "embeddings.word" in name:
            assert torch.equal(value, held[name])
    twin.model.save_pretrained(tmp_path / "twin")
    loaded = StockModel(BertForSequenceClassification.from_pretrained(tmp_path / "twin").eval())
    assert same(weights(loaded.model), weights(twin.model))


def test_resumed_equals_undisturbed(tmp_path, base):
    settings = StockTwinSettings(epochs=2, batch_size=16, learning_rate=5e-3, sample=16)

    def train(name, on_progress=None):
        task = TrainingTask(ROWS, HELD_OUT, COLLATE, settings, 3, tmp_path / name, on_progress)
        return train_stock_twin(base, task)

    whole, expected = train("a")
    with pytest.raises(Stopped):
        train("b", stop_at(2))
    torch.rand(3)  # the caller's random state is not the twin's
    told = []
    resumed, history = train("b", lambda epoch, *rest: told.append(epoch))
    assert told == [2]
    assert same(weights(resumed.model), weights(whole.model))
    assert [row["eval_selection"] for row in history] == [row["eval_selection"] for row in expected]


def test_assignments_are_found_anew_before_each_epoch(tmp_path, base, monkeypatch):
    seen = []
    match = StockTwinTrainer.match

    def counted(self):
        match(self)
        seen.append((self.state.global_step, [a.tolist() for a in self.assignments]))

    monkeypatch.setattr(StockTwinTrainer, "match", counted)
    settings = StockTwinSettings(epochs=2, batch_size=20, sample=10)
    train_stock_twin(base, TrainingTask(ROWS, HELD_OUT, COLLATE, settings, 3, tmp_path / "c"))
    assert [step for step, _ in seen] == [0, 2]
    assert all(sorted(a) == [0, 1, 2] for _, found in seen for a in found)


# --- adapters


def test_adapters_need_peft(base, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError, match="pip install peft"):
        new_stock_twin(base, StockTwinSettings(lora_rank=2), 0)


@pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="peft is not installed")
def test_adapters_share_the_weights_until_they_are_merged(tmp_path, base):
    held = weights(base.model)
    settings = StockTwinSettings(epochs=2, batch_size=16, learning_rate=1e-2, lora_rank=2, perturbation=0.3)
    stock, trained = new_stock_twin(base, settings, 0)
    mine = {p.data_ptr() for p in base.model.parameters()}
    learned = [p for p in trained.parameters() if p.requires_grad]
    assert not any(p.data_ptr() in mine for p in learned)
    assert all(p.data_ptr() in mine for p in trained.parameters() if not p.requires_grad)
    first = stock_twin_outputs(base, stock, HELD_OUT, COLLATE)
    assert 1e-4 < first.jsd.mean() < 0.1
    twin, _ = train_stock_twin(base, TrainingTask(ROWS, HELD_OUT, COLLATE, settings, 3, tmp_path / "c"))
    assert type(twin.model) is BertForSequenceClassification
    assert not any(p.data_ptr() in mine for p in twin.model.parameters())
    assert same(weights(base.model), held)
    assert stock_twin_outputs(base, twin, HELD_OUT, COLLATE).jsd.mean() > first.jsd.mean()


# --- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "kl"}, "Unknown objective of a stock model's twin 'kl'"),
        ({"keys": "contents"}, "Unknown keys 'contents'. Did you mean 'content'"),
        ({"perturbation": 0.0}, "perturbation must be positive, but is 0"),
        ({"sample": 0}, "sample must be positive"),
        ({"lora_rank": 4, "start": "new"}, "start must be base, but is new"),
        ({"start": "old"}, "Unknown start 'old'"),
        ({"mixed_precision": True}, "trained in float32"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(InputError, match=message):
        StockTwinSettings(**settings)


def test_a_layer_that_does_not_exist(base):
    with pytest.raises(InputError, match=r"Expected layers of 0 to 1, but got \[2\]"):
        new_stock_twin(base, StockTwinSettings(layers=[2]), 0)


def test_names_of_variants():
    names = [
        StockTwinSettings().variant,
        StockTwinSettings(start="new", weight=0.5).variant,
        StockTwinSettings(objective="constrained", max_tvd=0.1).variant,
    ]
    assert names == ["attefa", "attefa-0.5-new", "constrained-0.1"]
