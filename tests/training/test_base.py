"""Training of base models: against a loop written by hand, resumed, seeded, and with wrong input."""

import copy
import random
import shutil
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from sklearn.utils.class_weight import compute_class_weight

from attn_faithful._checks import InputError
from attn_faithful.models.inference import run_over
from attn_faithful.training.base import train_base
from attn_faithful.training.callbacks import Patience
from attn_faithful.training.checkpoints import last_checkpoint
from attn_faithful.training.metrics import balanced_weights, classification_metrics
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import (
    AttentionTrainer,
    LengthGroups,
    arguments,
    check_trackers,
    seeded,
)
from tests.training.planted import COLLATE, Stopped, classifier, same, stop_at, texts, weights, with_labels

TRAIN, VALIDATION = texts(48), texts(24, seed=1)
SETTINGS = TrainSettings(epochs=4, batch_size=16, learning_rate=1e-2)


def train(model, folder, settings=SETTINGS, seed=3, on_progress=None, rows=TRAIN, selection=VALIDATION):
    task = TrainingTask(rows, selection, COLLATE, settings, seed, folder / "checkpoints", on_progress)
    return train_base(model, task)


# --- what training does


def test_loss_falls_and_the_best_epoch_stays(tmp_path):
    model, told = classifier(), []
    settings = TrainSettings(epochs=12, batch_size=16, learning_rate=0.1, select_by="accuracy")
    history = train(model, tmp_path, settings, on_progress=lambda *args: told.append(args))
    assert [row["epoch"] for row in history] == list(range(1, 13))
    assert history[-1]["loss"] < history[0]["loss"] / 4
    assert [(epoch, epochs) for epoch, epochs, _ in told] == [(i, 12) for i in range(1, 13)]
    assert [metrics["eval_accuracy"] for *_, metrics in told] == [row["eval_accuracy"] for row in history]
    found = classification_metrics(run_over(model, VALIDATION, COLLATE).probabilities, VALIDATION["labels"])
    assert found["accuracy"] == max(row["eval_accuracy"] for row in history) > 0.9
    assert not model.training
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("encoder", ["mlp", "lstm", "gru", "cnn", "transformer"])
def test_mixed_precision_is_of_training_alone(tmp_path, encoder):
    seen = {True: set(), False: set()}
    found = []
    for mixed in (False, True):
        model = classifier(encoder=encoder)
        if mixed:
            model.readout.register_forward_hook(lambda module, given, made: seen[module.training].add(made.dtype))
        settings = replace(SETTINGS, epochs=2, mixed_precision=mixed)
        history = train(model, tmp_path / str(mixed), settings)
        found.append((weights(model), [row["eval_loss"] for row in history]))
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        outputs = run_over(model, VALIDATION, COLLATE)
        assert all(abs(row.sum() - 1) < 1e-6 for row in outputs.attention if len(row))
    assert seen[True] == {torch.bfloat16}
    assert seen[False] <= {torch.float32}
    (plain, losses), (mixed, others) = found
    assert not same(plain, mixed)
    assert others == pytest.approx(losses, rel=0.05)


def test_best_epoch_is_not_the_last_where_training_breaks(tmp_path):
    # a rate of 30 throws the weights about: the loss of the best epoch is that of the model left behind
    model, settings = classifier(), TrainSettings(epochs=5, batch_size=16, learning_rate=30.0, select_by="loss")
    history = train(model, tmp_path, settings)
    losses = [row["eval_loss"] for row in history]
    assert min(losses) < losses[-1]
    batch = COLLATE([VALIDATION[i] for i in range(len(VALIDATION))])
    assert float(model(**batch).loss.detach()) == pytest.approx(min(losses), rel=1e-5)


def _adam(model, settings, seed, epochs):
    """Adam after Kingma and Ba (2015), algorithm 1, with ``g + decay * w`` as the gradient of all but the attention."""
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in model.named_parameters()}
    order, step, norms = LengthGroups(TRAIN["length"], settings.batch_size, seed), 0, []
    for epoch in range(epochs):
        order.set_epoch(epoch)
        index = list(order)
        for start in range(0, len(index), settings.batch_size):
            batch = COLLATE([TRAIN[i] for i in index[start : start + settings.batch_size]])
            labels = batch.pop("labels")
            model.zero_grad()
            losses = F.cross_entropy(model(**batch).logits, labels, reduction="none")
            (losses * torch.tensor(model.config.class_weights).double()[labels]).mean().backward()
            norms.append(float(torch.cat([p.grad.flatten() for p in model.parameters()]).norm()))
            step += 1
            for name, p in model.named_parameters():
                decay = 0.0 if "attention" in name else settings.weight_decay
                gradient = p.grad + decay * p.data
                first, second = moments[name]
                first.mul_(0.9).add_(0.1 * gradient)
                second.mul_(0.999).add_(0.001 * gradient**2)
                update = (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
                p.data -= settings.learning_rate * update
    return norms


def test_steps_equal_a_loop_written_by_hand(tmp_path):
    # heavy decay, so that its kind shows; heavy class weights, so that clipping at Trainer's norm of 1 would show
    model = classifier(class_weights=[40.0, 60.0]).double()
    by_hand = copy.deepcopy(model)
    settings = TrainSettings(epochs=2, batch_size=16, learning_rate=1e-2, weight_decay=0.3, select_by="loss")
    train(model, tmp_path, settings)
    norms = _adam(by_hand, settings, seed=3, epochs=2)
    assert min(norms) > 1.5
    for name, value in by_hand.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-10, atol=1e-10)


def test_optimizer_is_adam_with_coupled_decay(tmp_path):
    model = classifier()
    args = arguments(SETTINGS, 0, tmp_path, "eval_loss", False)
    settings = TrainSettings(weight_decay=0.5, amsgrad=True, learning_rate=2e-3)
    optimizer = AttentionTrainer(model=model, args=args, eval_dataset=VALIDATION, settings=settings).create_optimizer()
    assert type(optimizer) is torch.optim.Adam
    assert args.max_grad_norm == 0
    names = {id(p): name for name, p in model.named_parameters()}
    decay = {names[id(p)]: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert decay.keys() == set(names.values())
    assert {name for name, value in decay.items() if value == 0} == {n for n in decay if n.startswith("attention.")}
    assert {value for name, value in decay.items() if not name.startswith("attention.")} == {0.5}
    assert all(
        (group["lr"], group["amsgrad"], group["decoupled_weight_decay"]) == (2e-3, True, False)
        for group in optimizer.param_groups
    )


def test_frozen_embeddings_stay(tmp_path):
    model = classifier(freeze_embeddings=True)
    before = weights(model)
    train(model, tmp_path)
    after = weights(model)
    assert torch.equal(before["embedding.weight"], after["embedding.weight"])
    assert not torch.equal(before["readout.weight"], after["readout.weight"])


@pytest.mark.parametrize("labels", [2, 3])
def test_balanced_classes_and_more_than_two(tmp_path, labels):
    model = classifier(num_labels=labels, class_weights=[1.0] * labels)
    rows, selection = texts(48, classes=labels), texts(24, seed=1, classes=labels)
    history = train(model, tmp_path, rows=rows, selection=selection)
    chances = run_over(model, selection, COLLATE).probabilities
    assert chances.shape == (24, labels)
    best = max(row["eval_roc_auc"] for row in history)
    assert classification_metrics(chances, selection["labels"])["roc_auc"] == best


def test_multi_label(tmp_path):
    rows = with_labels(TRAIN, [[1, 0, 1] if y else [0, 1, 1 - i % 3 // 2] for i, y in enumerate(TRAIN["labels"])])
    model = classifier(num_labels=3, output="multi_label")
    history = train(model, tmp_path, rows=rows, selection=rows)
    assert history[-1]["loss"] < history[0]["loss"]
    assert 0 <= history[-1]["eval_roc_auc"] <= 1


def test_an_empty_text_does_not_stop_training(tmp_path):  # C23
    plain = [ids.tolist() for ids in TRAIN["input_ids"]]
    rows = TRAIN.with_columns(input_ids=[[], *plain[1:]], length=[0, *TRAIN["length"][1:]])
    model = classifier(encoder="lstm")
    history = train(model, tmp_path, rows=rows)
    assert np.isfinite([row["loss"] for row in history]).all()
    assert all(value.isfinite().all() for value in model.state_dict().values())


# --- the same again


@contextmanager
def killed_at_the_end(monkeypatch):
    """Stops where the checkpoints of a finished training are to be removed."""

    def kill(*args, **kwargs):
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr("attn_faithful.training.trainer.shutil", SimpleNamespace(rmtree=kill))
        with pytest.raises(Stopped):
            yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """An LSTM with dropout after four epochs: its weights and history."""
    model = classifier(encoder="lstm", dropout=0.3)
    history = train(model, tmp_path_factory.mktemp("undisturbed"))
    return weights(model), history


def _numbers(history):
    timed = ("runtime", "per_second", "train_loss", "total_flos")  # train_loss covers the last session only
    return [{k: v for k, v in row.items() if not any(part in k for part in timed)} for row in history]


@pytest.mark.parametrize("error", [Stopped, KeyboardInterrupt])
def test_resumed_equals_undisturbed(tmp_path, undisturbed, error):
    with pytest.raises(error):
        train(classifier(encoder="lstm", dropout=0.3), tmp_path, on_progress=stop_at(3, error))
    told = []
    model = classifier(seed=99, encoder="lstm", dropout=0.3)  # whatever it holds, the checkpoint counts
    history = train(model, tmp_path, on_progress=lambda epoch, *rest: told.append(epoch))
    assert told == [3, 4]
    assert same(weights(model), undisturbed[0])
    assert _numbers(history) == _numbers(undisturbed[1])


def test_stopped_after_the_last_epoch(tmp_path, undisturbed, monkeypatch):
    with killed_at_the_end(monkeypatch):
        train(classifier(encoder="lstm", dropout=0.3), tmp_path)
    model, told = classifier(seed=99, encoder="lstm", dropout=0.3), []
    history = train(model, tmp_path, on_progress=lambda *args: told.append(args))
    assert told == []
    assert same(weights(model), undisturbed[0])
    assert _numbers(history) == _numbers(undisturbed[1])


@pytest.mark.parametrize("state", [None, "", '{"epoch": 2.0, "log_his'])
def test_half_written_checkpoint_is_skipped(tmp_path, undisturbed, state):
    with pytest.raises(Stopped):
        train(classifier(encoder="lstm", dropout=0.3), tmp_path, on_progress=stop_at(3))
    folder = tmp_path / "checkpoints"
    whole = last_checkpoint(folder)
    half = folder / "checkpoint-9"
    shutil.copytree(whole, half)
    (half / "model.safetensors").write_bytes(b"half")
    if state is None:
        (half / "trainer_state.json").unlink()
    else:
        (half / "trainer_state.json").write_text(state)
    assert last_checkpoint(folder) == whole
    assert not half.exists()
    shutil.copytree(whole, half)
    (half / "trainer_state.json").write_text("{")
    model = classifier(encoder="lstm", dropout=0.3)
    train(model, tmp_path)
    assert same(weights(model), undisturbed[0])


def test_no_checkpoint(tmp_path):
    assert last_checkpoint(tmp_path / "nowhere") is None
    assert last_checkpoint(tmp_path) is None


def test_seeds(tmp_path, undisturbed):  # C34
    runs = []
    for seed in (3, 4):
        torch.rand(17)  # what ran before must not matter
        np.random.rand(5)
        model = classifier(encoder="lstm", dropout=0.3)
        train(model, tmp_path / str(seed), seed=seed)
        runs.append(weights(model))
    assert same(runs[0], undisturbed[0])
    assert not same(runs[1], undisturbed[0])


@pytest.mark.parametrize("stopped", [False, True])
def test_random_state_of_the_caller_is_left_alone(tmp_path, stopped):  # C34
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = random.random(), np.random.rand(), torch.rand(1)
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    if stopped:
        with pytest.raises(Stopped):
            train(classifier(dropout=0.3), tmp_path, on_progress=stop_at(1))
    else:
        train(classifier(dropout=0.3), tmp_path, TrainSettings(epochs=1, batch_size=16))
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected


def test_seeded_draws():
    with seeded(2**40 + 1):  # numpy takes 32 bits only
        first = torch.rand(1), np.random.rand(), random.random()
    with seeded(2**40 + 1):
        assert (torch.rand(1), np.random.rand(), random.random()) == first


# --- the order of batches


@pytest.mark.parametrize(("n", "size"), [(1, 4), (16, 4), (103, 4), (130, 1), (453, 3)])
def test_length_groups(n, size):
    lengths = np.random.default_rng(0).integers(1, 90, size=n)
    order = LengthGroups(lengths, size, seed=7)
    epochs = []
    for epoch in (0, 1, 0):
        order.set_epoch(epoch)
        epochs.append(list(order))
    assert all(sorted(index) == list(range(n)) for index in epochs)
    assert len(order) == n
    assert epochs[0] == epochs[2] == list(LengthGroups(lengths, size, seed=7))
    assert n == 1 or epochs[0] != epochs[1]
    assert n == 1 or epochs[0] != list(LengthGroups(lengths, size, seed=8))


def test_batches_are_of_like_length():
    lengths = np.random.default_rng(0).permutation(np.repeat(np.arange(20), 10))
    index = np.asarray(list(LengthGroups(lengths, 10, seed=0)))
    batches = lengths[index].reshape(20, 10)
    assert sorted(batches[:, 0]) == list(range(20))  # one length each
    assert (batches == batches[:, :1]).all()
    assert batches[:, 0].tolist() != sorted(batches[:, 0], reverse=True)  # and not the longest first


def test_short_batch_comes_last():
    index = list(LengthGroups([5] * 9 + [1], 4, seed=0))
    assert index[-1] == 9
    assert list(LengthGroups([], 4, seed=0)) == []


# --- stopping


def _stops(values, patience=2, greater=True, collapsed=None):
    """The epoch, 1-based, after which `Patience` stops; None where it does not."""
    patient = Patience(patience, "eval_f1", greater, hold=None if collapsed is None else "eval_collapsed")
    log = []
    for epoch, value in enumerate(values, 1):
        log += [{"loss": 1.0}, {"eval_f1": value, "eval_collapsed": 0.0 if collapsed is None else collapsed[epoch - 1]}]
        control = SimpleNamespace(should_training_stop=False)
        patient.on_evaluate(None, SimpleNamespace(log_history=log), control)
        if control.should_training_stop:
            return epoch
    return None


@pytest.mark.parametrize(
    ("values", "settings", "expected"),
    [
        ([1, 2, 3, 4, 5], {}, None),
        ([1, 3, 2, 2, 9], {}, 4),
        ([3, 3, 3], {}, 3),  # as good is not better
        ([3, 1, 2, 0.5], {"greater": False}, None),
        ([3, 1, 2, 1.5], {"greater": False}, 4),
        ([5, 1, 1, 1], {"patience": 3}, 4),
        ([float("nan"), 1, 2, 1, 1], {}, 5),
        ([2, float("nan"), float("nan")], {}, 3),
        ([5, 1, 1, 1, 1, 1], {"collapsed": [0, 1, 1, 1, 1, 0]}, 6),
        ([5, 1, 1, 1], {"collapsed": [1, 1, 1, 1]}, None),
        ([5, 1, 1, 1], {"collapsed": [0, 0, 0, 0]}, 3),
    ],
)
def test_patience(values, settings, expected):
    assert _stops(values, **settings) == expected


def test_patience_ends_training_and_survives_a_stop(tmp_path):
    # a rate this small moves nothing, so the first epoch stays the best
    settings = TrainSettings(epochs=9, batch_size=16, learning_rate=1e-12, patience=2, select_by="accuracy")
    model = classifier()
    history = train(model, tmp_path / "a", settings)
    assert [row["epoch"] for row in history] == [1, 2, 3]
    with pytest.raises(Stopped):
        train(classifier(), tmp_path / "b", settings, on_progress=stop_at(3))
    resumed = classifier()
    assert [row["epoch"] for row in train(resumed, tmp_path / "b", settings)] == [1, 2, 3]
    assert same(weights(model), weights(resumed))


def test_patience_is_not_forgotten_by_a_stop_at_the_very_end(tmp_path, monkeypatch):
    settings = TrainSettings(epochs=9, batch_size=16, learning_rate=1e-12, patience=2, select_by="accuracy")

    with killed_at_the_end(monkeypatch):
        train(classifier(), tmp_path, settings)
    assert [row["epoch"] for row in train(classifier(), tmp_path, settings)] == [1, 2, 3]


# --- wrong input


def test_unknown_labels_in_training(tmp_path):  # C28
    rows = with_labels(TRAIN, [*TRAIN["labels"][:5], -1, *TRAIN["labels"][6:]])
    with pytest.raises(InputError, match="Row 5 of the training split has no known label"):
        train(classifier(), tmp_path, rows=rows)
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("labels", [[1] * 24, [1] * 20 + [-1] * 4])
def test_selection_with_one_class(tmp_path, labels):  # C29
    selection = with_labels(VALIDATION, labels)
    with pytest.raises(InputError, match=r"ROC-AUC needs texts of all classes.*1 of 2 are there.*select_by=accuracy"):
        train(classifier(), tmp_path, selection=selection)
    settings = TrainSettings(epochs=1, batch_size=16, select_by="accuracy")
    (row,) = train(classifier(), tmp_path, settings, selection=selection)
    assert 0 <= row["eval_accuracy"] <= 1


def test_selection_leaves_out_unknown_labels(tmp_path):  # C28
    labels = VALIDATION["labels"]
    partly = with_labels(VALIDATION, [*labels[:20], -1, -1, -1, -1])
    model, other = classifier(), classifier()
    history = train(model, tmp_path, selection=partly)
    assert _numbers(history) == _numbers(train(other, tmp_path, selection=VALIDATION.take(range(20))))
    assert same(weights(model), weights(other))
    with pytest.raises(InputError, match="holds no labelled text"):
        train(model, tmp_path, selection=with_labels(VALIDATION, [-1] * 24))


def test_trackers(tmp_path):
    from transformers.integrations import integration_utils

    with pytest.raises(InputError, match=r"Unknown tracker 'tensorbord'\. Did you mean 'tensorboard'"):
        check_trackers(["tensorbord"])
    here = set(integration_utils.get_available_reporting_integrations())
    missing = min(set(integration_utils.INTEGRATION_TO_CALLBACK) - here)
    settings = TrainSettings(epochs=1, trackers=[missing])
    with pytest.raises(InputError, match=f"The tracker '{missing}' is not installed"):
        train(classifier(), tmp_path, settings)
    check_trackers(sorted(here))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be positive, but is 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be positive"),
        ({"select_by": "roc_au"}, "Unknown select_by 'roc_au'. Did you mean 'roc_auc'"),
        ({"select_on": "train"}, "Unknown select_on 'train'"),
        ({"class_weights": "balance"}, "Did you mean 'balanced'"),
    ],
)
def test_settings(settings, message):
    with pytest.raises(InputError, match=message):
        TrainSettings(**settings)


# --- metrics


def test_metrics_of_two_classes():
    generator = np.random.default_rng(0)
    chances, labels = generator.dirichlet([1, 1], size=50), generator.integers(0, 2, size=50)
    predicted = chances.argmax(1)
    assert classification_metrics(chances, labels) == {
        "accuracy": pytest.approx(accuracy_score(labels, predicted), abs=1e-10),
        "f1": pytest.approx(f1_score(labels, predicted), abs=1e-10),
        "roc_auc": pytest.approx(roc_auc_score(labels, chances[:, 1]), abs=1e-10),
    }


def test_metrics_of_three_classes():
    generator = np.random.default_rng(1)
    chances, labels = generator.dirichlet([1, 1, 1], size=60), generator.integers(0, 3, size=60)
    found = classification_metrics(chances, labels)
    areas = [roc_auc_score(labels == c, chances[:, c]) for c in range(3)]
    assert found["roc_auc"] == pytest.approx(np.mean(areas), abs=1e-10)
    assert found["f1"] == pytest.approx(f1_score(labels, chances.argmax(1), average="macro"), abs=1e-10)


def test_metrics_of_several_labels():
    generator = np.random.default_rng(2)
    chances, labels = generator.random((40, 3)), generator.integers(0, 2, size=(40, 3))
    found = classification_metrics(chances, labels, multi_label=True)
    each = [f1_score(labels[:, c], chances[:, c] > 0.5) for c in range(3)]
    assert found["f1"] == pytest.approx(np.mean(each), abs=1e-10)
    assert found["accuracy"] == pytest.approx(np.mean((labels == (chances > 0.5)).all(1)), abs=1e-10)
    assert found["roc_auc"] == pytest.approx(roc_auc_score(labels, chances, average="macro"), abs=1e-10)
    labels[:, 1] = 1
    assert np.isnan(classification_metrics(chances, labels, multi_label=True)["roc_auc"])


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_those_of_scikit_learn_where_texts_tie(classes, seed):
    generator = np.random.default_rng(seed)
    chances = generator.integers(1, 4, size=(30, classes)).astype(float)
    chances /= chances.sum(1, keepdims=True)
    labels = generator.integers(0, classes, size=30)
    labels[:classes] = range(classes)
    scores, average = (chances[:, 1], "binary") if classes == 2 else (chances, "macro")
    assert classification_metrics(chances, labels) == {
        "accuracy": pytest.approx(accuracy_score(labels, chances.argmax(1)), abs=1e-12),
        "f1": pytest.approx(f1_score(labels, chances.argmax(1), average=average), abs=1e-12),
        "roc_auc": pytest.approx(roc_auc_score(labels, scores, multi_class="ovr"), abs=1e-12),
    }


def test_a_single_label_is_two_classes():
    chances, labels = np.array([[0.7], [0.2], [0.6], [0.6]]), np.array([[1], [0], [0], [1]])
    found = classification_metrics(chances, labels, multi_label=True)
    assert found["f1"] == pytest.approx(f1_score(labels, chances > 0.5, average="macro"))
    assert found["accuracy"] == 0.75
    assert found["roc_auc"] == pytest.approx(roc_auc_score(labels, chances))


def test_metrics_with_a_class_missing(recwarn):  # C29
    chances = np.array([[0.2, 0.8], [0.4, 0.6], [0.7, 0.3]])
    found = classification_metrics(chances, np.array([1, 1, 1]))
    assert np.isnan(found["roc_auc"])
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["f1"] == pytest.approx(0.8)
    three = np.array([[0.5, 0.4, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]])  # never predicts the third
    found = classification_metrics(three, np.array([0, 1, 1]))
    assert np.isnan(found["roc_auc"])
    assert found["f1"] == pytest.approx(f1_score([0, 1, 1], [0, 1, 0], average="macro"))
    assert not recwarn.list


def test_metrics_leave_out_unknown_labels():  # C28
    chances = np.array([[0.2, 0.8], [0.9, 0.1], [0.3, 0.7]])
    assert classification_metrics(chances, np.array([1, -1, 0])) == classification_metrics(
        chances[[0, 2]], np.array([1, 0])
    )
    assert all(np.isnan(v) for v in classification_metrics(chances, np.array([-1, -1, -1])).values())
    several = classification_metrics(chances, np.array([[1, 0], [-1, -1], [0, 1]]), multi_label=True)
    assert several == classification_metrics(chances[[0, 2]], np.array([[1, 0], [0, 1]]), multi_label=True)


def test_balanced_weights():
    labels = [0] * 6 + [1] * 3 + [2]
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert balanced_weights(labels, 3) == pytest.approx(expected, abs=1e-12)
    assert balanced_weights([0, 0, 2], 4) == pytest.approx([3 / 8, 1.0, 3 / 4, 1.0])
