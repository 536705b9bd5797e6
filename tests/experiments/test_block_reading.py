"""A block that is read again gives what it gave, and what changes with the text or the model changes."""

import pytest
import torch

from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.round_tests import RoundTests
from tests.experiments.tiny import cells, run

SOURCES = ("attention_x_gradient", "input_x_gradient", "leave_one_out", "random")


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    """The longest block of a small trained model, with all sources."""
    seen = []

    def catch(self, test, block, by_label):
        seen.append(block)
        return ScoreRows()

    settings = EvaluationSettings(tests=["entropy"], extra_sources=list(SOURCES), controls=[])
    evaluation = {"tests": settings.tests, "extra_sources": settings.extra_sources, "controls": []}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundTests, "_scores", catch)
        run(cells(twin=None, evaluation=evaluation)[0], tmp_path_factory.mktemp("run"))
    return seen[0]


def test_the_same_text_and_model_give_the_same(block):
    reading = block.rereading.again(["attention", *SOURCES])
    assert torch.equal(reading.encoded.logits, block.encoded.logits)
    for name in SOURCES:
        assert torch.equal(reading.sources[name].nan_to_num(-7), block.sources[name].nan_to_num(-7)), name
    assert torch.equal(reading.sources["attention"], block.importance("attention").double())
    assert list(reading.sources) == ["attention", *SOURCES]


def test_another_key_changes_what_is_random_alone(block):
    keys = [f"{key} altered" for key in block.keys]
    names = ["input_x_gradient", "random"]
    reading = block.rereading.read(block.rereading.batch, keys, names)
    assert torch.equal(reading.sources["input_x_gradient"].nan_to_num(-7), block.sources[names[0]].nan_to_num(-7))
    assert not torch.equal(reading.sources["random"].nan_to_num(-7), block.sources["random"].nan_to_num(-7))


def test_another_word_changes_its_text_alone(block):
    batch = dict(block.rereading.batch)
    ids = batch["input_ids"].clone()
    ids[0, 0] = ids[0].max() + 1
    reading = block.rereading.read({**batch, "input_ids": ids}, block.keys, ["leave_one_out"])
    before = block.sources["leave_one_out"].nan_to_num(-7)
    after = reading.sources["leave_one_out"].nan_to_num(-7)
    changed = (before - after).abs().amax(1) > 1e-6
    assert changed.nonzero()[:, 0].tolist() == [0]


def test_importance_is_about_the_class_that_was_predicted_first(block):
    model = block.rereading.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = block.rereading.again(["attention_x_gradient"])
    try:
        with torch.no_grad():
            # the model that says the opposite of everything
            for parameter in model.readout.parameters():
                parameter.neg_()
        opposite = block.rereading.again(["attention_x_gradient"])
    finally:
        model.load_state_dict(before)
    assert not torch.equal(opposite.encoded.logits.argmax(-1), first.encoded.logits.argmax(-1))
    torch.testing.assert_close(
        -opposite.sources["attention_x_gradient"], first.sources["attention_x_gradient"], equal_nan=True
    )
