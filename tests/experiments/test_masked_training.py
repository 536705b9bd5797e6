"""Masked fine-tuning from a recipe or a transformers model to a model that says how it was trained."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.data.settings import DataSettings
from attn_faithful.experiments.fine_tune_plan import FineTuning
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.prepare import prepare
from attn_faithful.experiments.recipe import make_recipe
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.run import Run
from attn_faithful.training.settings import FineTuneSettings
from tests.data.pieces import bytes_of
from tests.experiments.test_run_fine_tuning import (  # noqa: F401 (fixtures)
    ROWS,
    data,
    encoder,
    save,
    tokenizer,
    tune,
    write,
)
from tests.experiments.tiny import RAW, cells, run

SETTINGS = FineTuneSettings(epochs=2, batch_size=6, learning_rate=2e-2, masking="half")


def saved_config(folder):
    return json.loads((folder / "config.json").read_text())


def masked_cells(**changes):
    return cells(train={**RAW["train"], "masking": "half"}, **changes)


# --- own models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(masked_cells(wiegreffe_pinter=["uniform", "imposed"])[0], tmp_path_factory.mktemp("run") / "cell")


def test_a_model_says_how_it_was_trained_and_its_twin_was_not(folder):
    assert saved_config(folder / "model")["masking"] == "half"
    assert "masking" not in saved_config(folder / "twin-10")
    assert folder.read_meta()["recipe"]["train"]["masking"] == "half"
    assert (folder / "control-imposed.json").is_file()
    model, reader = af.load(folder / "model")
    assert model.config.masking == "half"
    assert reader.mask_token_id == len(reader) - 1 == model.config.vocab_size - 1
    history = folder.read_table("history").to_pandas()
    found = set(history[history["run"] == "base"]["metric"])
    assert {"eval_loss", "eval_masked_loss", "eval_masked_accuracy", "eval_masked_roc_auc"} <= found
    assert not any(name.startswith("eval_masked") for name in history[history["run"] != "base"]["metric"])


def test_runs_without_masks_keep_their_names():
    plain, masked = cells()[0], masked_cells()[0]
    assert "masking" not in plain.recipe.on_disk()["train"]
    assert cells(train={**RAW["train"], "masking": None})[0].folder == plain.folder
    assert masked.folder != plain.folder


def test_masks_are_an_axis_of_recipes():
    raw = {"grid": {"train.masking": [{"name": "plain", "value": None}, {"name": "masked", "value": "half"}]}}
    found = expand(make_recipe(raw, "mine"))
    assert [cell.axes["masking"] for cell in found] == ["plain", "masked"]
    assert [cell.recipe.train.masking for cell in found] == [None, "half"]


@pytest.mark.parametrize("masking", ["whole", "Half", True])
def test_a_wrong_masking_is_refused(masking):
    with pytest.raises(InputError, match="mine: train"):
        make_recipe({"train": {"masking": masking}}, "mine")
    with pytest.raises(InputError, match="unknown key 'masking'"):
        make_recipe({"model": {"masking": "half"}}, "mine")


def test_the_mask_is_the_last_word_and_begins_as_words_without_a_vector_do(tmp_path):
    plain = prepare(cells()[0].recipe)
    words = [word for word in plain.tokenizer.get_vocab() if word.islower()]
    path = tmp_path / "vectors.txt"
    lines = [" ".join([word, *map(str, np.random.default_rng(len(word)).normal(size=8))]) for word in words]
    path.write_text("\n".join(lines) + "\n")
    vectors = {"vectors": {"path": str(path)}}
    before, after = (prepare(made(**vectors)[0].recipe) for made in (cells, masked_cells))
    assert after.config.vocab_size == before.config.vocab_size + 1
    assert (before.config.masking, after.config.masking) == (None, "half")
    assert torch.equal(after.vectors[:-1], before.vectors)
    assert after.coverage == before.coverage
    mask = after.vectors[after.tokenizer.mask_token_id]
    assert mask.abs().sum() > 0
    assert not any(torch.equal(mask, row) for row in before.vectors)
    for split, rows in before.rows.items():
        ids = after.rows[split]["input_ids"]
        assert all(np.array_equal(one, two) for one, two in zip(rows["input_ids"], ids, strict=True))


# --- transformers models


@pytest.fixture(scope="module")
def tuned(encoder, data, tmp_path_factory):  # noqa: F811
    return tune(encoder, data, tmp_path_factory.mktemp("runs"), SETTINGS)


def test_a_transformers_model_is_trained_with_its_own_mask(tuned, encoder, tokenizer):  # noqa: F811
    assert saved_config(tuned / "model")["masking"] == "half"
    meta = tuned.read_meta()
    assert meta["recipe"]["train"]["masking"] == "half"
    assert not any("mask" in note for note in meta["data"]["notes"])
    _, reader = af.load(tuned / "model")
    assert (reader.mask_token, len(reader)) == ("[MASK]", len(tokenizer))
    before, after = (load_file(f"{path}/model.safetensors") for path in (encoder, tuned / "model"))
    mask = tokenizer.mask_token_id
    name = "embeddings.word_embeddings.weight"
    assert not torch.equal(after[f"bert.{name}"][mask], before[name][mask])
    history = tuned.read_table("history").to_pandas()
    assert {"eval_accuracy", "eval_masked_accuracy"} <= set(history["metric"])


def test_trained_on_without_masks_a_model_no_longer_says_that_it_had_any(tuned, data, tmp_path):  # noqa: F811
    settings = FineTuneSettings(epochs=1, batch_size=18)
    again = tune(str(tuned / "model"), data, tmp_path, settings)
    assert "masking" not in saved_config(again / "model")
    assert "masking" not in again.read_meta()["recipe"]["train"]
    masked = tune(str(tuned / "model"), data, tmp_path, FineTuneSettings(epochs=1, batch_size=18, masking="half"))
    assert again.path != masked.path
    groups = aggregate([Run(again.path), Run(masked.path)])
    assert [group.axes["masking"] for group in groups] == ["-", "half"]


def test_a_model_without_a_mask_token_is_given_one(tmp_path):
    """GPT-2 has none."""
    tokenizer = bytes_of()  # noqa: F811
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=12, n_layer=2, n_head=2, n_positions=64, pad_token_id=1)
    origin = save(tmp_path / "gpt2", GPT2LMHeadModel(config), tokenizer)
    films = write(tmp_path / "data", {"train": ROWS * 4, "validation": ROWS, "test": ROWS})
    start = FineTuning.of(origin, DataSettings(films), SETTINGS).start
    (table, first) = (start.model(seed).model.get_input_embeddings().weight for seed in (0, 1))
    old = load_file(f"{origin}/model.safetensors")["transformer.wte.weight"]
    assert torch.equal(table[:-1], old)
    torch.testing.assert_close(table[-1], old.mean(0))
    assert torch.equal(table, first)
    made = tune(origin, films, tmp_path / "runs", SETTINGS)
    note = "The model has no mask token: '[MASK]' is added, and learned in training."
    assert note in made.read_meta()["data"]["notes"]
    model, reader = af.load(made / "model")
    assert reader.mask_token_id == len(tokenizer) == model.config.vocab_size - 1
    after = load_file(made / "model" / "model.safetensors")["transformer.wte.weight"]
    assert not torch.equal(after[-1], table[-1])
