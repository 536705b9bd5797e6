"""Faults that are measured by training twins: losses with known values, and the choice of the epoch."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from evidence.published_faults.comparing import compared
from evidence.published_faults.kl_arguments import ExchangedTrainer, mean_kl
from evidence.published_faults.selection_on_test import Epochs, WatchedTrainer, best, ratio
from evidence.published_faults.twins import Base, Distances, trained_twin

from attn_faithful.functional.attefa import attefa
from attn_faithful.training.settings import TwinSettings
from attn_faithful.training.trainer import arguments
from attn_faithful.training.twin import TwinTrainer
from tests.training.planted import WITH_BASE, classifier, texts
from tests.training.test_twin import Fixed

BASE, TWIN = [0.9, 0.05, 0.05], [0.2, 0.4, 0.4]


def loss(trainer_class, folder):
    """The loss at lambda 1 of a twin whose TVD from the base is 0.3."""
    settings = TwinSettings(objective="kl", weight=1.0)
    twin = Fixed([[0.4, 0.6]], [TWIN])
    args = arguments(settings, 0, folder, "eval_selection", False)
    trainer = trainer_class(
        model=twin, args=args, eval_dataset=texts(4), data_collator=WITH_BASE, callbacks=[], settings=settings
    )
    batch = {
        "input_ids": torch.zeros(1, 1),
        "base_probabilities": torch.tensor([[0.7, 0.3]], dtype=torch.float64),
        "base_attention": torch.tensor([BASE], dtype=torch.float64),
    }
    return trainer.compute_loss(twin, batch)


def test_the_losses_are_those_of_both_orders(tmp_path):
    assert float(loss(TwinTrainer, tmp_path)) == pytest.approx(-1.062738, abs=1e-6)
    exchanged = loss(ExchangedTrainer, tmp_path)
    assert float(exchanged) == pytest.approx(-0.845726, abs=1e-6)
    exchanged.backward()  # the twin's attention gets a gradient in this place too


def test_the_published_call_is_the_formula_of_the_paper():
    """torch's KLDivLoss(input, target) is KL(target || exp input): the base's logarithms come first."""
    base, twin = torch.tensor(BASE, dtype=torch.float64), torch.tensor(TWIN, dtype=torch.float64)
    published = torch.nn.KLDivLoss(reduction="sum")(base.log(), twin)
    assert float(published) == pytest.approx(1.362738, abs=1e-6)
    exchanged = torch.nn.KLDivLoss(reduction="sum")(twin.log(), base)
    assert float(exchanged) == pytest.approx(1.145726, abs=1e-6)


# --- twins of a tiny base

SETTINGS = TwinSettings(objective="kl", weight=0.5, start="base", epochs=2, batch_size=16)


@pytest.fixture(scope="module")
def base():
    model = classifier(seed=1, encoder="mlp")
    with torch.no_grad():
        for value in model.parameters():
            value *= 6
    rows = {"train": texts(32), "validation": texts(12, seed=1), "test": texts(20, seed=2)}
    return Base.on(model, 3, rows)


def test_an_untrained_twin_with_the_base_s_weights_is_at_no_distance(base):
    found = base.distances(base.model)
    assert np.allclose(found.tvd, 0, atol=1e-7)
    assert np.allclose(found.jsd, 0, atol=1e-7)


def test_the_exchanged_twin_chooses_its_epoch_by_its_own_loss(base):
    seen = []

    class Seen(ExchangedTrainer):
        def measured(self, dataset):
            metrics = super().measured(dataset)
            twin = base.outputs_of(self.accelerator.unwrap_model(self.model), "validation")
            expected = metrics["tvd"] - 0.5 * mean_kl(base.outputs["validation"], twin)
            seen.append((metrics["selection"], expected))
            return metrics

    exchanged = base.distances(trained_twin(Seen, base, SETTINGS))
    published = base.distances(trained_twin(TwinTrainer, base, SETTINGS))
    assert len(seen) == 2
    for selection, expected in seen:
        assert selection == pytest.approx(expected)
    assert not np.allclose(exchanged.jsd, published.jsd)


def test_mean_kl_is_of_the_first_from_the_second(base):
    one = replace(base.outputs["test"], attention=[np.array(BASE), np.zeros(0)])
    other = replace(base.outputs["test"], attention=[np.array(TWIN), np.zeros(0)])
    assert mean_kl(one, other) == pytest.approx(1.145726, abs=1e-6)


def test_every_epoch_is_watched_and_training_goes_on_as_without(base):
    epochs = Epochs(base)
    settings = replace(SETTINGS, objective="attefa", weight=1.0)
    twin = trained_twin(WatchedTrainer, base, settings, watch=epochs.add)
    plain = trained_twin(TwinTrainer, base, settings)
    assert len(epochs.test) == len(epochs.validation) == 2
    found = base.distances(twin)
    assert np.array_equal(found.tvd, base.distances(plain).tvd)
    assert np.array_equal(found.tvd, epochs.test[best(epochs.validation)].tvd)


def test_the_epoch_is_chosen_on_each_split_and_measured_on_test(base):
    """The test texts would take the second epoch, validation takes the first."""
    near, far = (
        Distances(np.array([0.1, 0.2]), np.array([0.2, 0.2])),
        Distances(np.array([0.1, 0.1]), np.array([0.5, 0.4])),
    )
    epochs = Epochs(base, validation=[far, near], test=[near, far])
    columns = epochs.columns()
    assert columns.tolist() == [*map(list, (far.tvd, far.jsd, near.tvd, near.jsd))]
    found = compared([columns], lambda means: ratio(means[0], means[1]), lambda means: ratio(means[2], means[3]))
    assert found.as_published.value == pytest.approx(attefa(far.tvd, far.jsd).attefa)
    assert found.as_printed.value == pytest.approx(attefa(near.tvd, near.jsd).attefa)
    assert found.difference.value < 0
    assert not math.isnan(found.difference.low)
