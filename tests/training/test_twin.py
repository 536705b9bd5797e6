"""Twins: their objectives against the papers' equations, the base's outputs as columns, training, resuming."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.data.collate import Collator
from attn_faithful.functional.divergences import LN2
from attn_faithful.models.inference import Outputs, run_over
from attn_faithful.training.base_outputs import with_base
from attn_faithful.training.callbacks import Multiplier
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import arguments
from attn_faithful.training.twin import (
    TwinSettings,
    TwinTrainer,
    distances,
    new_twin,
    summarize,
    train_twin,
)
from tests.reference import divergences as slow
from tests.reference import faithfulness as slow_faithfulness
from tests.training.planted import (
    COLLATE,
    WITH_BASE,
    Stopped,
    classifier,
    random_outputs,
    same,
    stop_at,
    texts,
    weights,
    with_labels,
)

ROWS, HELD_OUT = texts(48), texts(24, seed=1)
EPS = 1e-10


@pytest.fixture(scope="module")
def data():
    """Both splits with the outputs of a base of random weights that are large enough to tell texts apart."""
    base = classifier(seed=1, encoder="lstm")
    with torch.no_grad():
        for value in base.parameters():
            value *= 6
    return tuple(with_base(rows, run_over(base, rows, COLLATE)) for rows in (ROWS, HELD_OUT))


def train(twin, data, folder, settings, seed=3, on_progress=None):
    task = TrainingTask(*data, WITH_BASE, settings, seed, folder / "checkpoints", on_progress)
    return train_twin(twin, task)


def trainer_of(model, settings, folder, callbacks=()):
    args = arguments(settings, 0, folder, "eval_selection", False)
    trainer = TwinTrainer(
        model=model,
        args=args,
        eval_dataset=HELD_OUT,
        data_collator=WITH_BASE,
        callbacks=list(callbacks),
        settings=settings,
    )
    trainer.args.report_to = []
    return trainer


class Fixed(torch.nn.Module):
    """A twin that predicts and attends as it is told."""

    def __init__(self, probabilities, attention, multi_label=False):
        super().__init__()
        chances = torch.tensor(probabilities, dtype=torch.float64)
        self.logits = torch.nn.Parameter(chances.logit() if multi_label else chances.log())
        self.attention = torch.nn.Parameter(torch.tensor(attention, dtype=torch.float64))
        self.config = SimpleNamespace(multi_label=multi_label)

    def forward(self, input_ids=None):
        return SimpleNamespace(logits=self.logits, attentions=self.attention)


def loss_of(twin, base_probabilities, base_attention, settings, folder, price=None):
    """The loss of a batch under a trainer of ``settings``; a price sets the multiplier's value."""
    multiplier = [] if price is None else [Multiplier(settings.max_tvd)]
    trainer = trainer_of(twin, settings, folder, multiplier)
    if multiplier:
        trainer.multiplier.value = price
    batch = {
        "input_ids": torch.zeros(len(base_attention), 1),
        "labels": torch.zeros(len(base_attention)),
        "base_probabilities": torch.tensor(base_probabilities, dtype=torch.float64),
        "base_attention": torch.tensor(base_attention, dtype=torch.float64),
    }
    return trainer.compute_loss(twin, batch)


# --- objectives


def _batch(seed=0, n=5, tokens=6, classes=3):
    generator = np.random.default_rng(seed)
    p, q = generator.dirichlet(np.ones(classes), size=(2, n))
    a, b = np.zeros((2, n, tokens))
    for i in range(n):
        length = generator.integers(1, tokens + 1)
        a[i, :length], b[i, :length] = generator.dirichlet(np.ones(length), size=2)
    a[0], b[0] = np.eye(tokens)[0], np.eye(tokens)[1]  # exact zeros on both sides, as sparse maps give
    return p, q, a, b


@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize("objective", ["attefa", "kl", "constrained"])
def test_loss_equals_the_equations(tmp_path, objective, weight):
    p, q, a, b = _batch()
    price = 2.5 if objective == "constrained" else None
    settings = TwinSettings(objective=objective, weight=weight)
    loss = loss_of(Fixed(p, a).eval(), q, b, settings, tmp_path, price)
    rows = []
    for i in range(len(p)):
        tvd = slow.tvd(p[i], q[i])
        s_jsd = slow.jsd(a[i], b[i], EPS) / math.log(2)  # Amini and Kosseim, equations 1 to 4
        kl = slow.kl(a[i], b[i], EPS)  # Wiegreffe and Pinter, section 4
        rows.append(
            {
                "attefa": tvd - weight * s_jsd,
                "kl": tvd - weight * kl,
                "constrained": (2.5 * tvd - s_jsd) / 3.5,
            }[objective]
        )
    assert loss.item() == pytest.approx(sum(rows) / len(rows), abs=1e-10)


def test_kl_has_the_direction_and_scale_of_the_paper(tmp_path):  # C09
    settings = TwinSettings(objective="kl")
    loss = loss_of(Fixed([[0.4, 0.6]], [[0.2, 0.4, 0.4]]), [[0.7, 0.3]], [[0.9, 0.05, 0.05]], settings, tmp_path)
    assert loss.item() == pytest.approx(-1.062738, abs=1e-6)
    s_jsd = loss_of(Fixed([[0.4, 0.6]], [[0.2, 0.4, 0.4]]), [[0.7, 0.3]], [[0.9, 0.05, 0.05]], TwinSettings(), tmp_path)
    assert s_jsd.item() == pytest.approx(0.3 - 0.275396 / math.log(2), abs=1e-6)


@pytest.mark.parametrize("objective", ["attefa", "kl"])
def test_loss_and_gradients_are_finite_at_zeros(tmp_path, objective):  # C09
    twin = Fixed([[0.4, 0.6], [0.4, 0.6]], [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    loss = loss_of(
        twin, [[0.7, 0.3]] * 2, [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], TwinSettings(objective=objective), tmp_path
    )
    loss.backward()
    assert loss.isfinite()
    assert twin.attention.grad.isfinite().all()
    assert twin.logits.grad.isfinite().all()


def test_several_labels(tmp_path):
    p, q, a, b = _batch()
    settings = TwinSettings()
    loss = loss_of(Fixed(p, a, multi_label=True), q, b, settings, tmp_path)
    rows = [slow.multilabel_tvd(p[i], q[i]) - slow.jsd(a[i], b[i], EPS) / math.log(2) for i in range(len(p))]
    assert loss.item() == pytest.approx(sum(rows) / len(rows), abs=1e-10)


def test_multiplier_rises_and_falls():
    price = Multiplier(max_tvd=0.1, rate=0.1)
    for _ in range(5):
        price.update(0.4)
    assert price.value == pytest.approx(math.exp(0.5))  # at most one rate a step
    price.update(0.1)
    assert price.value == pytest.approx(math.exp(0.5))
    for _ in range(100):
        price.update(0.0)
    assert price.value == 1e-2
    price.on_evaluate(None, None, None, metrics={"eval_tvd": 0.5})
    assert price.target == pytest.approx(0.07)
    for _ in range(20):
        price.on_evaluate(None, None, None, metrics={"eval_tvd": 0.5})
    assert price.target == pytest.approx(0.01)
    for _ in range(50):
        price.on_evaluate(None, None, None, metrics={"eval_tvd": 0.001})
    assert price.target == pytest.approx(0.1)


# --- the base's outputs


def test_with_base_and_special_tokens_and_empty_texts():
    rows = texts(3).with_columns(
        input_ids=[[8, 5, 6, 9], [8, 9], []], length=[2, 0, 0], special_tokens_mask=[[1, 0, 0, 1], [1, 1], []]
    )
    base = Outputs(np.array([[0.7, 0.3], [0.5, 0.5], [0.1, 0.9]]), [np.array([0.75, 0.25]), np.zeros(0), np.zeros(0)])
    joined = with_base(rows, base)
    assert [weights.tolist() for weights in joined["base_attention"]] == [[0, 0.75, 0.25, 0], [0, 0], []]
    batch = Collator(columns=("special_tokens_mask", "base_attention", "base_probabilities"))(
        [joined[i] for i in range(3)]
    )
    assert batch["base_attention"].tolist() == [[0, 0.75, 0.25, 0], [0] * 4, [0] * 4]
    assert batch["special_tokens_mask"].tolist() == [[1, 0, 0, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert torch.equal(batch["base_probabilities"], torch.tensor([[0.7, 0.3], [0.5, 0.5], [0.1, 0.9]]))
    assert "base_attention" not in rows.column_names


def test_with_base_of_other_rows():
    with pytest.raises(InputError, match="outputs of 48 examples, but got 24"):
        with_base(ROWS, random_outputs(HELD_OUT))


def test_special_tokens_stay_outside(tmp_path):
    """A twin between two special tokens trains and is measured on the content alone."""
    padded = [[12, *ids.tolist(), 13] for ids in ROWS["input_ids"]]
    masks = [[1, *[0] * (len(ids) - 2), 1] for ids in padded]
    rows = ROWS.with_columns(input_ids=padded, special_tokens_mask=masks)
    base = random_outputs(ROWS)
    columns = ("special_tokens_mask", "base_attention", "base_probabilities")
    data = with_base(rows, base)
    settings = TwinSettings(epochs=2, batch_size=16, learning_rate=1e-2)
    twin = classifier(encoder="lstm")
    history = train_twin(twin, TrainingTask(data, data, Collator(columns=columns), settings, 0, tmp_path / "c"))
    found = run_over(twin, rows, Collator(columns=("special_tokens_mask",)))
    assert [len(a) for a in found.attention] == ROWS["length"]
    assert [a.sum() for a in found.attention] == pytest.approx([1.0] * 48, abs=1e-6)
    tvd, jsd = distances(found, base)
    best = min(history, key=lambda row: row["eval_selection"])
    assert best["eval_tvd"] == pytest.approx(tvd.mean(), abs=1e-6)
    assert best["eval_jsd"] == pytest.approx(jsd.mean(), abs=1e-6)


def test_distances_equal_loops_and_are_undefined_without_tokens():  # C23
    rows = texts(6).with_columns(length=[4, 0, 1, 7, 3, 0])
    one, two = random_outputs(rows, 0, classes=3), random_outputs(rows, 1, classes=3)
    tvd, jsd = distances(one, two)
    assert np.isnan(jsd).tolist() == [False, True, False, False, False, True]
    for i in range(6):
        assert tvd[i] == pytest.approx(slow.tvd(one.probabilities[i], two.probabilities[i]), abs=1e-10)
        if rows["length"][i]:
            assert jsd[i] == pytest.approx(slow.jsd(one.attention[i], two.attention[i]), abs=1e-10)


@pytest.mark.parametrize("objective", ["attefa", "kl", "constrained"])
def test_summary_equals_equation_7(objective):
    rows = texts(12).with_columns(length=[0, *[5] * 11])
    one, two = random_outputs(rows, 0), random_outputs(rows, 1)
    settings = TwinSettings(objective=objective, weight=0.5, max_tvd=0.5)
    found = summarize(one, two, np.arange(12) % 2, settings)
    pairs = range(1, 12)
    tvd = [slow.tvd(one.probabilities[i], two.probabilities[i]) for i in pairs]
    jsd = [slow.jsd(one.attention[i], two.attention[i]) for i in pairs]
    assert found["tvd"] == pytest.approx(np.mean(tvd), abs=1e-10)
    assert found["jsd"] == pytest.approx(np.mean(jsd), abs=1e-10)
    assert found["attefa"] == pytest.approx(slow_faithfulness.attefa(tvd, jsd), abs=1e-10)
    kl = np.mean([slow.kl(one.attention[i], two.attention[i], EPS) for i in pairs])
    expected = {
        "attefa": np.mean(tvd) - 0.5 * np.mean(jsd) / LN2,
        "kl": np.mean(tvd) - 0.5 * kl,
        "constrained": -np.mean(jsd) / LN2 if np.mean(tvd) <= 0.5 else 1 + np.mean(tvd),
    }
    assert found["selection"] == pytest.approx(expected[objective], abs=1e-10)
    constant = slow_faithfulness.constant_twin_tvd(two.probabilities)
    assert found["collapsed"] == float(np.mean(tvd) >= 0.9 * constant)


def test_a_constrained_twin_that_keeps_the_limit_beats_one_that_does_not():
    rows = texts(12)
    base = random_outputs(rows, 0)
    near = Outputs(base.probabilities, random_outputs(rows, 1).attention)
    far = random_outputs(rows, 1)
    settings = TwinSettings(objective="constrained", max_tvd=0.05)
    labels = np.arange(12) % 2
    assert (
        summarize(near, base, labels, settings)["selection"] < 0 < summarize(far, base, labels, settings)["selection"]
    )


# --- new twins


def test_a_new_twin():
    base = classifier(seed=1, encoder="lstm")
    state = torch.get_rng_state()
    one, two, other = new_twin(base, 5), new_twin(base, 5), new_twin(base, 6)
    assert torch.equal(torch.get_rng_state(), state)
    assert same(weights(one), weights(two))
    assert all(not torch.equal(a, b) for a, b in zip(one.parameters(), base.parameters(), strict=True))
    assert all(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_twin_from_the_base_has_a_new_attention_only():
    base = classifier(seed=1, encoder="lstm")
    twin = new_twin(base, 5, start="base")
    for name, value in base.named_parameters():
        assert torch.equal(value, twin.state_dict()[name]) == (not name.startswith("attention.")), name
    with torch.no_grad():
        twin.embedding.weight += 1
    assert not torch.equal(twin.embedding.weight, base.embedding.weight)  # copied, not shared (C31)


def test_a_twin_begins_with_the_same_vectors():
    matrix = torch.randn(20, 8)
    assert torch.equal(new_twin(classifier(seed=1), 5, vectors=matrix).embedding.weight, matrix)
    frozen = classifier(seed=1, freeze_embeddings=True)
    twin = new_twin(frozen, 5)
    assert torch.equal(twin.embedding.weight, frozen.embedding.weight)
    assert twin.embedding.weight.data_ptr() != frozen.embedding.weight.data_ptr()
    assert not twin.embedding.weight.requires_grad


# --- training


@pytest.mark.parametrize(
    "settings",
    [{"objective": "attefa"}, {"objective": "kl", "weight": 0.5}, {"objective": "constrained", "max_tvd": 0.2}],
)
def test_training_lowers_the_selection_and_keeps_the_best(tmp_path, data, settings):
    settings = TwinSettings(epochs=10, batch_size=16, learning_rate=2e-2, **settings)
    twin = new_twin(classifier(encoder="lstm"), 5)
    history = train(twin, data, tmp_path, settings)
    selections = [row["eval_selection"] for row in history]
    assert min(selections) < selections[0] - 0.02
    assert history[-1]["loss"] < history[0]["loss"]
    base = Outputs(np.asarray(data[1]["base_probabilities"]), list(data[1]["base_attention"]))
    found = summarize(run_over(twin, HELD_OUT, COLLATE), base, np.asarray(HELD_OUT["labels"]), settings)
    assert found["selection"] == pytest.approx(min(selections), abs=1e-6)
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("objective", ["attefa", "constrained"])
def test_mixed_precision_is_of_training_alone(tmp_path, data, objective):
    seen = {True: set(), False: set()}
    twin = classifier(seed=2, encoder="mlp")
    twin.readout.register_forward_hook(lambda module, given, made: seen[module.training].add(made.dtype))
    settings = TwinSettings(objective=objective, epochs=3, batch_size=16, learning_rate=1e-2, mixed_precision=True)
    history = train(twin, data, tmp_path, settings)
    assert seen[True] == {torch.bfloat16}
    assert seen[False] <= {torch.float32}
    assert {p.dtype for p in twin.parameters()} == {torch.float32}
    found = run_over(twin, HELD_OUT, COLLATE)
    base = Outputs(np.stack(data[1]["base_probabilities"]), list(data[1]["base_attention"]))
    tvd, jsd = distances(found, base)
    best = [row for row in history if row["eval_tvd"] == pytest.approx(np.nanmean(tvd), abs=1e-6)]
    assert best
    assert best[0]["eval_jsd"] == pytest.approx(np.nanmean(jsd), abs=1e-6)


def test_labels_do_not_steer_the_twin(tmp_path, data):
    """They serve the reported F1 only, so unknown ones stop nothing and change no weight."""
    settings = TwinSettings(epochs=2, batch_size=16, learning_rate=1e-2)
    one, two = new_twin(classifier(), 5), new_twin(classifier(), 5)
    blind = tuple(with_labels(rows, [-1] * len(rows)) for rows in data)
    history = train(one, blind, tmp_path / "a", settings)
    assert all(math.isnan(row["eval_f1"]) for row in history)
    assert 0 <= train(two, data, tmp_path / "b", settings)[-1]["eval_f1"] <= 1
    assert same(weights(one), weights(two))


def test_an_empty_text_changes_nothing_else(tmp_path):  # C23
    empty = ROWS.with_columns(
        input_ids=[[], *[ids.tolist() for ids in ROWS["input_ids"]][1:]], length=[0, *ROWS["length"][1:]]
    )
    base = random_outputs(empty)
    twin = new_twin(classifier(encoder="lstm"), 5)
    rows = with_base(empty, base)
    task = TrainingTask(rows, rows, WITH_BASE, TwinSettings(epochs=1, batch_size=16), 0, tmp_path / "c")
    history = train_twin(twin, task)
    found = run_over(twin, empty, COLLATE)
    assert found.probabilities[0].sum() == pytest.approx(1)
    assert len(found.attention[0]) == 0
    _, jsd = distances(found, base)
    assert np.isnan(jsd[0])
    assert history[0]["eval_jsd"] == pytest.approx(jsd[1:].mean(), abs=1e-6)


@pytest.fixture(
    params=[{"objective": "attefa"}, {"objective": "constrained", "max_tvd": 0.1}], ids=lambda p: p["objective"]
)
def settings(request):
    return TwinSettings(epochs=4, batch_size=16, learning_rate=1e-2, **request.param)


def test_resumed_equals_undisturbed(tmp_path, data, settings, monkeypatch):
    prices = []
    update = Multiplier.update
    monkeypatch.setattr(
        Multiplier, "update", lambda self, tvd: (update(self, tvd), prices.append((self.value, self.target)))
    )

    def fresh(seed=5):
        return new_twin(classifier(encoder="lstm", dropout=0.3), seed)

    whole = fresh()
    expected = train(whole, data, tmp_path / "a", settings)
    undisturbed = list(prices)
    with pytest.raises(Stopped):
        train(fresh(), data, tmp_path / "b", settings, on_progress=stop_at(3))
    prices.clear()
    resumed, told = fresh(seed=77), []
    history = train(resumed, data, tmp_path / "b", settings, on_progress=lambda epoch, *rest: told.append(epoch))
    assert told == [3, 4]
    assert same(weights(resumed), weights(whole))
    assert [row["eval_selection"] for row in history] == [row["eval_selection"] for row in expected]
    assert prices == undisturbed[6:]  # three steps an epoch
    assert len(prices) == (6 if settings.objective == "constrained" else 0)


def test_seeds(tmp_path, data, settings):  # C34
    runs = []
    for i, seed in enumerate((3, 3, 4)):
        torch.rand(i)
        twin = new_twin(classifier(dropout=0.3), 5)
        train(twin, data, tmp_path / str(i), settings, seed=seed)
        runs.append(weights(twin))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_random_state_of_the_caller_is_left_alone(tmp_path, data):  # C34
    torch.manual_seed(5), np.random.seed(5)
    expected = torch.rand(1), np.random.rand()
    torch.manual_seed(5), np.random.seed(5)
    train(new_twin(classifier(dropout=0.3), 5), data, tmp_path, TwinSettings(epochs=1, batch_size=16))
    assert (torch.rand(1), np.random.rand()) == expected


def test_no_early_stop_while_collapsed(tmp_path, data):
    settings = TwinSettings(epochs=5, batch_size=16, learning_rate=1e-12, patience=1)
    assert len(train(new_twin(classifier(), 5), data, tmp_path / "a", settings)) == 5  # constant: nothing learned
    twin = new_twin(classifier(), 5)
    own = tuple(
        with_base(rows, run_over(twin, rows, COLLATE)) for rows in (ROWS, HELD_OUT)
    )  # distance 0, not collapsed
    assert len(train(twin, own, tmp_path / "b", settings)) == 2


# --- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "atefa"}, "Unknown objective 'atefa'. Did you mean 'attefa'"),
        ({"start": "old"}, "Unknown start 'old'"),
        ({"max_tvd": 0.0}, "max_tvd must lie between 0 and 1, but is 0"),
        ({"patience": 0}, "patience must be positive, but is 0"),
        ({"select_on": "train"}, "Unknown select_on"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(InputError, match=message):
        TwinSettings(**settings)


def test_names_of_variants():
    names = [
        TwinSettings().variant,
        TwinSettings(weight=0.3).variant,
        TwinSettings(objective="kl", weight=0.3, start="base").variant,
        TwinSettings(objective="constrained", max_tvd=0.05).variant,
    ]
    assert names == ["attefa", "attefa-0.3", "kl-0.3-from-base", "constrained-0.05"]
