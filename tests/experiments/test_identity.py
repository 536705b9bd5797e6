"""What names a run: each ingredient gives another name, and what changes no number gives the same."""

from __future__ import annotations

import copy
import json

import datasets
import pytest
import torch
from torch import nn
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from attn_faithful.data.settings import DataSettings
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.experiments import earlier_runs as earlier
from attn_faithful.experiments import identity as named
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.evaluation_task import make_task
from attn_faithful.experiments.inputs import DataInput, ModelInput
from attn_faithful.experiments.run_evaluation import evaluate_task
from attn_faithful.experiments.run_stock_twins import stock_attefa
from attn_faithful.experiments.written_code import configuration_facts, value_digest
from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.sparse import use_projection
from attn_faithful.store import RunFolder
from attn_faithful.training.stock_twin import StockTwinSettings
from tests.experiments.tiny import cells, run

TEXTS = ["a good film", "a bad film", "good fun and a song"]
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, ("neg", "pos", "pos"), strict=True)]
SETTINGS = EvaluationSettings(tests=["permutation"], controls=[])


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS)


@pytest.fixture(scope="module")
def bert(tokenizer):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
        pad_token_id=0,
        id2label={0: "neg", 1: "pos"},
        label2id={"neg": 0, "pos": 1},
    )
    return BertForSequenceClassification(config).eval()


def task_of(model, tokenizer, rows=ROWS, settings=SETTINGS, source="films", name=None, origin=None, **given):
    data = rows if isinstance(rows, datasets.DatasetDict) else [dict(row) for row in rows]
    model_input = ModelInput(model, tokenizer, name, origin)
    return make_task(model_input, DataInput(DataSettings(source=source), data, **given), settings)


def name(model, tokenizer, rows=ROWS, settings=SETTINGS, output="runs", **given):
    return task_of(model, tokenizer, rows, settings, **given).folder(output).path.name


def changed(model, change):
    other = copy.deepcopy(model)
    with torch.no_grad():
        change(other)
    return other


def in_vocabulary(tokenizer, change):
    other = copy.deepcopy(tokenizer)
    described = json.loads(other.backend_tokenizer.to_str())
    change(described)
    type(other.backend_tokenizer).from_str(json.dumps(described))
    other._tokenizer = type(other.backend_tokenizer).from_str(json.dumps(described))
    return other


def swapped(described):
    vocabulary = described["model"]["vocab"]
    vocabulary["good"], vocabulary["bad"] = vocabulary["bad"], vocabulary["good"]


def with_attribute(tokenizer, **values):
    other = copy.deepcopy(tokenizer)
    for key, value in values.items():
        setattr(other, key, value)
    return other


OF_THE_MODEL = {
    "a weight": lambda m: changed(m, lambda m: m.classifier.weight.add_(1e-3)),
    "a buffer that is not saved": lambda m: changed(m, lambda m: m.bert.embeddings.token_type_ids.add_(1)),
    "the stored type": lambda m: StockModel(copy.deepcopy(m).double()),
    "configuration": lambda m: changed(m, lambda m: m.config.update({"layer_norm_eps": 1e-3})),
    "a setting of a layer": lambda m: changed(m, lambda m: setattr(m.bert.embeddings.LayerNorm, "eps", 0.1)),
    "another activation": lambda m: changed(m, lambda m: setattr(m.bert.pooler, "activation", nn.Sigmoid())),
    "a hook": lambda m: changed(m, lambda m: m.classifier.register_forward_hook(lambda *call: call[2] * 2)),
    "a patched forward": lambda m: changed(m, lambda m: setattr(m.classifier, "forward", lambda x: x[:, :2])),
    "attention": lambda m: changed(m, lambda m: m.set_attn_implementation("sparsemax")),
    "a sparse projection": lambda m: use_projection(copy.deepcopy(m), "sparsegen", sparsegen_lambda=0.5),
    "its parameter": lambda m: use_projection(copy.deepcopy(m), "sparsegen", sparsegen_lambda=0.25),
    "layers": lambda m: StockModel(m, layers=[0]),
    "heads": lambda m: StockModel(m, heads=[1]),
    "queries": lambda m: StockModel(m, queries="mean"),
}
OF_THE_TOKENIZER = {
    "vocabulary": lambda t: in_vocabulary(t, swapped),
    "normalisation": lambda t: in_vocabulary(t, lambda d: d.update(normalizer=None)),
    "an added token": lambda t: in_vocabulary(
        t, lambda d: d["added_tokens"].append({**ADDED, "id": 4, "content": "good"})
    ),
    "truncation side": lambda t: with_attribute(t, truncation_side="left"),
    "padding side": lambda t: with_attribute(t, padding_side="left"),
    "limit": lambda t: with_attribute(t, model_max_length=2),
    "inputs": lambda t: with_attribute(t, model_input_names=["input_ids"]),
}
ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
OF_THE_DATA = {
    "a text": [ROWS[0], ROWS[1], {**ROWS[2], "text": "good fun"}],
    "a label": [ROWS[0], {**ROWS[1], "label": "neg"}, ROWS[2]],
    "order": ROWS[::-1],
    "an id": [{**row, "id": f"x{i}"} for i, row in enumerate(ROWS)],
    "a query": [{"premise": row["text"], "hypothesis": "which film?", "label": row["label"]} for row in ROWS],
    "planted words": [{**row, "informative": [1] * len(row["text"].split())} for row in ROWS],
}
OF_THE_SETTINGS = {
    "a test": EvaluationSettings(tests=["permutation", "entropy"], controls=[]),
    "a test's setting": EvaluationSettings(
        tests=["permutation"], controls=[], test_settings={"permutation": {"permutations": 7}}
    ),
    "a control": EvaluationSettings(tests=["permutation"], controls=["uniform"]),
    "units": EvaluationSettings(tests=["permutation"], controls=[], units="token"),
    "a site": EvaluationSettings(tests=["permutation"], controls=[], sites=["layer.0"]),
    "the seed": EvaluationSettings(tests=["permutation"], controls=[], seed=1),
}


def test_every_ingredient_gives_another_name(bert, tokenizer, tmp_path, monkeypatch):
    names = {"as it is": name(bert_wrapped(bert), tokenizer)}
    for what, change in OF_THE_MODEL.items():
        names[what] = name(bert_wrapped(change(bert)), tokenizer)
    for what, change in OF_THE_TOKENIZER.items():
        names[what] = name(bert_wrapped(bert), change(tokenizer))
    for what, rows in OF_THE_DATA.items():
        names[what] = name(bert_wrapped(bert), tokenizer, rows)
    for what, settings in OF_THE_SETTINGS.items():
        names[what] = name(bert_wrapped(bert), tokenizer, settings=settings)
    for number, scores in enumerate(("[0.1, 0.2, 0.3]", "[0.3, 0.2, 0.1]")):
        path = tmp_path / f"{number}.json"
        path.write_text(scores)
        names[f"source file {number}"] = name(bert_wrapped(bert), tokenizer, source_file=str(path))
    splits = datasets.DatasetDict({split: datasets.Dataset.from_list(ROWS) for split in ("train", "test")})
    names["another split beside it"] = name(bert_wrapped(bert), tokenizer, splits)
    names["split"] = name(bert_wrapped(bert), tokenizer, splits, split="train")
    monkeypatch.setattr(named, "NUMBERS_VERSION", named.NUMBERS_VERSION + 1)
    names["the version of the numbers"] = name(bert_wrapped(bert), tokenizer)
    twice = [what for what in names if list(names.values()).count(names[what]) > 1]
    assert not twice


def bert_wrapped(model):
    return model if isinstance(model, StockModel) else StockModel(model)


def test_what_a_wrapped_model_was_told_counts(bert):
    told = [{}, {"layers": [0]}, {"heads": [0]}, {"queries": "mean"}, {"layers": [0], "heads": [0]}]
    facts = [json.dumps(named.model_facts(StockModel(bert, **given))) for given in told]
    assert len(set(facts)) == len(facts)


def test_what_changes_no_number_gives_the_same_name(bert, tokenizer, tmp_path):
    model = StockModel(bert)
    first = name(model, tokenizer)
    path = tmp_path / "saved"
    bert.save_pretrained(path)
    loaded = BertForSequenceClassification.from_pretrained(path)
    assert name(StockModel(loaded), tokenizer) == first
    assert name(StockModel(loaded), tokenizer, origin=str(path)) == first
    assert name(model, tokenizer, output="elsewhere") == first
    assert name(StockModel(copy.deepcopy(bert).train()), tokenizer) == first
    used = copy.deepcopy(tokenizer)
    used(TEXTS, padding=True, truncation=True, max_length=2, padding_side="left")
    assert name(model, used) == first
    task = task_of(model, tokenizer)
    for place, held in (("one", 1), ("two", None)):
        assert evaluate_task(task, tmp_path / place, chunk_size=held).path.name == first
    assert name(model, tokenizer) == first  # a model that was run is still the same
    twice = []
    for number in range(2):
        file = tmp_path / f"{number}.json"
        file.write_text("[0.1]")
        twice.append(name(model, tokenizer, source_file=str(file)))
    assert twice[0] == twice[1]


def test_adapters_count_with_the_one_that_acts_and_its_strength(bert, tokenizer):
    peft = pytest.importorskip("peft")
    from peft.tuners.tuners_utils import BaseTunerLayer

    def with_lora(active, off=False, strength=1.0):
        torch.manual_seed(0)
        config = peft.LoraConfig(r=2, target_modules=["query"], init_lora_weights=False)
        other = peft.inject_adapter_in_model(config, copy.deepcopy(bert), "one")
        other = peft.inject_adapter_in_model(config, other, "two")
        for layer in (module for module in other.modules() if isinstance(module, BaseTunerLayer)):
            layer.set_adapter(active)
            layer.scale_layer(strength)
            layer.enable_adapters(not off)
        return name(StockModel(other), tokenizer)

    names = [with_lora("one"), with_lora("two"), with_lora("one", off=True), with_lora("one", strength=0.5)]
    assert len({name(StockModel(bert), tokenizer), *names}) == 5
    assert with_lora("one") == names[0]


def test_own_models_are_named_as_well(tokenizer, tmp_path):
    def own(**given):
        torch.manual_seed(0)
        config = AttentionClassifierConfig(vocab_size=len(tokenizer), embedding_size=4, hidden_size=4, **given)
        return AttentionClassifier(config).eval()

    first = name(own(), tokenizer)
    task = task_of(own(), tokenizer)
    assert evaluate_task(task, tmp_path).path.name == first == name(task.model, tokenizer)
    assert len({first, name(own(projection="sparsemax"), tokenizer), name(own().double(), tokenizer)}) == 3


def test_a_setting_that_came_later_names_nothing_at_what_models_were_before():
    ways = {}
    for bidirectional in (True, False):
        config = AttentionClassifierConfig(vocab_size=9, bidirectional=bidirectional)
        ways[bidirectional] = configuration_facts(config)
    assert "bidirectional" not in ways[True]
    assert ways[False] == {**ways[True], "bidirectional": False}
    scaled = configuration_facts(AttentionClassifierConfig(vocab_size=9, scale="tasc_lin"))
    assert scaled == {**ways[True], "scale": "tasc_lin"}
    others = configuration_facts(BertConfig(bidirectional=True))
    assert others["bidirectional"] is True, "configurations of others are taken as they are"


def test_cells_are_named_by_what_shapes_them_and_not_by_who_is_told(monkeypatch):
    monkeypatch.setattr("attn_faithful.experiments.recipe.check_trackers", lambda names: None)
    train = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-2}
    told = cells(train={**train, "trackers": ["tensorboard"]})
    assert told[0].recipe.train.trackers == ["tensorboard"]
    assert told[0].folder == cells()[0].folder


def test_regularizers_name_a_cell_where_there_are_any():
    def with_regularizers(given):
        return cells(train={"epochs": 2, "batch_size": 16, "learning_rate": 1e-2, "regularizers": given})[0]

    assert "regularizers" not in cells()[0].recipe.on_disk()["train"]  # as before there were any
    assert with_regularizers({}).folder == with_regularizers({"tying": 0}).folder == cells()[0].folder
    assert len({with_regularizers({"tying": weight}).folder for weight in (0, 0.1, 0.2)}) == 3
    told = with_regularizers({"tying": 0.1, "diversity": 0}).recipe.on_disk()["train"]
    assert told["regularizers"] == {"tying": 0.1}


def test_cells_of_another_version_of_the_numbers_have_another_name(monkeypatch):
    plain = cells()[0].folder
    monkeypatch.setattr(named, "NUMBERS_VERSION", named.NUMBERS_VERSION + 1)
    assert cells()[0].folder != plain


def test_stock_twins_are_named_by_the_tokenizer_too(bert, tokenizer, tmp_path, monkeypatch):
    seen = []

    def stop(self):
        seen.append(self.path.name)
        raise KeyboardInterrupt

    monkeypatch.setattr("attn_faithful.store.RunFolder.writing", stop)
    rows = datasets.DatasetDict({split: datasets.Dataset.from_list(ROWS * 2) for split in ("train", "test")})
    settings = StockTwinSettings(epochs=1, select_on="test")
    other = use_projection(copy.deepcopy(bert), "sparsemax")
    cased = train_tokenizer(TEXTS, lowercase=False)
    for model, reader, seeds in (
        (bert, tokenizer, [0]),
        (bert, cased, [0]),
        (other, tokenizer, [0]),
        (bert, tokenizer, [1]),
    ):
        data = DataInput(DataSettings(source="films"), rows)
        with pytest.raises(KeyboardInterrupt):
            stock_attefa(ModelInput(model, reader), data, settings, seeds=seeds, output=tmp_path)
    assert len(set(seen)) == 4


def test_slow_tokenizers_are_told_apart(tmp_path):
    def slow(words, **given):
        path = tmp_path / "vocab.txt"
        path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
        from transformers.models.bert_japanese.tokenization_bert_japanese import BertJapaneseTokenizer

        return BertJapaneseTokenizer(str(path), word_tokenizer_type="basic", **given)

    names = [
        named.tokenizer_digest(t)
        for t in (
            slow(["good", "bad"]),
            slow(["bad", "good"]),
            slow(["good", "bad"], do_lower_case=True),
            slow(["good", "bad"], truncation_side="left"),
        )
    ]
    assert len(set(names)) == 4
    assert named.tokenizer_digest(slow(["good", "bad"])) == names[0]


def test_hand_written_code_counts():
    def times(factor, told="a"):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.told = told

            def forward(self, x):
                return factor * x

        return Own()

    facts = [named.model_facts(model) for model in (times(2), times(3), times(2, "b"), times(2))]
    assert facts[0] != facts[1]
    assert facts[0] != facts[2]
    assert facts[0] == facts[3]
    assert value_digest(lambda x: x + 1) != value_digest(lambda x: x + 2)
    assert value_digest(object()) != value_digest(object())  # of which nothing is known


def test_models_of_an_earlier_version_are_taken_over_and_its_numbers_are_not(tmp_path, monkeypatch):
    (cell,) = cells()
    old = run(cell, tmp_path / f"{cell.folder[:-8]}00000000")
    meta = json.loads((old / "meta.json").read_text())
    del meta["numbers"]  # as earlier versions left it
    (old / "meta.json").write_text(json.dumps(meta))
    told = []
    new = run(cell, tmp_path / cell.folder, lambda *args: told.append(args[0]))
    assert "base" not in told
    assert not any(stage.startswith("twin") for stage in told)
    assert new.read_meta()["numbers"] == named.NUMBERS_VERSION
    one, two = (folder.read_table("predictions").to_pydict() for folder in (old, new))
    assert one == two
    (other,) = cells(data={**cell.recipe.data.__dict__, "seed": 5})
    told.clear()
    run(other, tmp_path / other.folder, lambda *args: told.append(args[0]))
    assert "base" in told


@pytest.mark.parametrize("model", [{"encoder": "transformer"}, {"architecture": "hierarchical", "encoder": "mlp"}])
def test_models_that_are_trained_otherwise_now_are_not_taken_over(model):
    recipe = {**cells()[0].recipe.on_disk(), "model": model}
    meta = {"recipe": json.loads(json.dumps(recipe)), "data": {"fingerprint": "x"}}
    folder = RunFolder("nowhere")
    assert not earlier._alike(recipe, meta, folder)
    assert earlier._alike(recipe, {**meta, "numbers": 2}, folder)
    mlp = {**recipe, "model": {"encoder": "mlp"}}
    assert earlier._alike(mlp, {**meta, "recipe": json.loads(json.dumps(mlp))}, folder)


def test_a_tokenizer_is_the_same_in_another_folder(tmp_path):
    tokenizer = train_tokenizer(["good film", "a bad film"])
    digests = set()
    for name in ("here", "there"):
        tokenizer.save_pretrained(tmp_path / name)
        digests.add(named.tokenizer_digest(AutoTokenizer.from_pretrained(tmp_path / name)))
    assert len(digests) == 1
