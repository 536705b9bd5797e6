"""Fine-tuning of transformers classifiers: against a loop written by hand, resumed, for several families."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import Trainer

from attn_faithful._checks import InputError
from attn_faithful.data.collate import Collator
from attn_faithful.models.stock.model import StockModel
from attn_faithful.training.fine_tuning import fine_tune
from attn_faithful.training.settings import FineTuneSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import LengthGroups
from tests.models.stock_families import EOS, PAD, build
from tests.training.planted import Stopped, same, stop_at, texts, weights


def ended(rows):
    """Texts of ids that mean nothing special, each with the one that ends texts behind."""
    return rows.with_columns(
        input_ids=[[*(np.asarray(ids) + 5).tolist(), EOS] for ids in rows["input_ids"]],
        length=[length + 1 for length in rows["length"]],
    )


TRAIN, VALIDATION = ended(texts(48, classes=3)), ended(texts(24, seed=1, classes=3))
COLLATE = Collator(PAD)
SETTINGS = FineTuneSettings(epochs=3, batch_size=16, learning_rate=2e-3)
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def classifier(name="bert", dtype=torch.float32, seed=0, **settings):
    return StockModel(build(name, seed=seed, **settings).to(dtype))


def tune(model, folder, settings=SETTINGS, on_progress=None, rows=TRAIN):
    task = TrainingTask(rows, VALIDATION, COLLATE, settings, 3, folder / "checkpoints", on_progress)
    return fine_tune(model, task)


def rate(step, steps, settings):
    """The learning rate of a step: a line up over the warm-up, a line down to 0 over the rest."""
    warm = -(-steps * settings.warmup_ratio // 1)
    if step < warm:
        return settings.learning_rate * step / warm
    return settings.learning_rate * (steps - step) / (steps - warm)


def test_steps_equal_a_loop_written_by_hand(tmp_path):
    """AdamW (Loshchilov and Hutter 2019), by its equations; no decay of biases and norms; the gradient cut at 1."""
    model = classifier(dtype=torch.float64, **NO_DROPOUT)
    by_hand = copy.deepcopy(model.model).train()
    settings = replace(SETTINGS, epochs=2, weight_decay=0.1, warmup_ratio=0.3, select_by="loss")
    history = tune(model, tmp_path, settings)
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in by_hand.named_parameters()}
    order, step, steps = LengthGroups(TRAIN["length"], 16, 3), 0, 6
    clipped = 0
    for epoch in range(2):
        order.set_epoch(epoch)
        index, losses = list(order), []
        for start in range(0, len(index), 16):
            batch = COLLATE([TRAIN[i] for i in index[start : start + 16]])
            logits = by_hand(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
            chosen = logits.log_softmax(-1)[torch.arange(16), batch["labels"]]
            loss = -chosen.mean()
            by_hand.zero_grad()
            loss.backward()
            losses.append(float(loss.detach()))
            gradients = {name: p.grad for name, p in by_hand.named_parameters()}
            norm = torch.stack([g.square().sum() for g in gradients.values()]).sum().sqrt()
            clipped += norm > 1
            for name, p in by_hand.named_parameters():
                gradient = gradients[name] / (norm + 1e-6).clamp(min=1.0)
                first, second = moments[name]
                first.mul_(0.9).add_(gradient, alpha=0.1)
                second.mul_(0.999).add_(gradient.square(), alpha=0.001)
                lr = rate(step, steps, settings)
                with torch.no_grad():
                    if not (name.endswith("bias") or "LayerNorm" in name):
                        p.mul_(1 - lr * settings.weight_decay)
                    move = first / (1 - 0.9 ** (step + 1))
                    p.sub_(lr * move / ((second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8))
            step += 1
        # Trainer adds up in float32
        assert history[epoch]["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-6)
    assert clipped
    best = min(history, key=lambda row: row["eval_loss"])
    assert best is history[-1], "the last epoch is the best, which is what the loop has made"
    for name, value in by_hand.state_dict().items():
        torch.testing.assert_close(model.model.state_dict()[name], value, rtol=1e-8, atol=1e-8, msg=name)  # 6 steps


@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2", "modernbert", "bart", "t5"])
def test_families_learn(tmp_path, name):
    model = classifier(name)
    before = weights(model.model)
    settings = replace(SETTINGS, epochs=2)
    history = tune(model, tmp_path, settings)
    assert len(history) == 2
    assert history[-1]["loss"] < history[0]["loss"]
    assert not same(before, weights(model.model))
    assert model.model.training is False
    assert model.config._attn_implementation != "attn_faithful"


def test_resumed_equals_undisturbed_to_the_bit(tmp_path):
    whole = classifier()
    assert whole.config.hidden_dropout_prob > 0, "dropout goes on with the random numbers that it stopped at"
    expected = tune(whole, tmp_path / "undisturbed")
    with pytest.raises(Stopped):
        tune(classifier(), tmp_path, on_progress=stop_at(2))
    model = classifier(seed=99)
    history = tune(model, tmp_path)
    assert same(weights(model.model), weights(whole.model))
    for name in ("loss", "eval_loss", "eval_accuracy", "learning_rate"):
        assert [row[name] for row in history] == [row[name] for row in expected]


def test_the_best_epoch_is_kept(tmp_path):
    model = classifier()
    history = tune(model, tmp_path, replace(SETTINGS, epochs=4, learning_rate=5e-3, select_by="loss"))
    best = min(row["eval_loss"] for row in history)
    assert best < history[-1]["eval_loss"], "the last epoch is worse, or nothing is tested here"
    batch = COLLATE([VALIDATION[i] for i in range(len(VALIDATION))])
    with torch.no_grad():
        assert float(model.model(**batch).loss) == pytest.approx(best, rel=1e-5)


def test_optimizer_is_transformers_own(tmp_path, monkeypatch):
    made = []
    own = Trainer.create_optimizer
    monkeypatch.setattr(Trainer, "create_optimizer", lambda self, model=None: made.append(own(self, model)) or made[-1])
    tune(classifier(), tmp_path, replace(SETTINGS, epochs=1))
    assert {type(optimizer) for optimizer in made} == {torch.optim.AdamW}
    decays = [group["weight_decay"] for group in made[0].param_groups]
    assert decays == [0.01, 0.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be positive, but is 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive, but is nan"),
        ({"warmup_ratio": 1.0}, "warmup_ratio must lie from 0 to below 1, but is 1.0"),
        ({"weight_decay": -1.0}, "weight_decay must be 0 or more"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be positive"),
        ({"head": "old"}, "Unknown head 'old'"),
        ({"select_by": "acuracy"}, "'accuracy'"),
        ({"select_on": "train"}, "'train'"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(InputError, match=message):
        FineTuneSettings(**settings)
