"""Models that were never told the names of their classes, on data that has some of them or names them its own way."""

from __future__ import annotations

import pytest

from attn_faithful._checks import InputError
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.evaluation_task import make_task
from attn_faithful.experiments.inputs import DataInput, ModelInput
from tests.models.examples import small_model

TOKENIZER = train_tokenizer(["a good film"])


def read(labels, classes=3):
    model = small_model(num_labels=classes, vocab_size=len(TOKENIZER))
    rows = [{"text": "a good film", "label": label} for label in labels]
    data = DataInput(DataSettings(source="films"), rows)
    texts = make_task(ModelInput(model, TOKENIZER), data, EvaluationSettings(tests=["entropy"])).texts
    return texts.splits["test"]["label"][:], texts.label_names


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 2], [0, 2]),
        ([1, 1], [1, 1]),
        (["2", "0"], [2, 0]),
        ([0, -1, 2], [0, -1, 2]),
        (["LABEL_2", "LABEL_0"], [2, 0]),
        (["LABEL_1"], [1]),
        ([1, 2, 3], [0, 1, 2]),  # as many classes as the model has, in order
        (["b", "a", "c"], [1, 0, 2]),
    ],
)
def test_labels_of_a_model_without_names(labels, expected):
    assert read(labels)[0] == expected


def test_names_are_no_numbers_in_order():
    labels = [f"LABEL_{i}" for i in range(12)]  # sorted as text the last two come second
    assert read(labels, 12) == (list(range(12)), labels)


@pytest.mark.parametrize("labels", [[0, 3], ["a", "b"], [2, 4, 6, 8]])
def test_what_cannot_be_told_apart_is_refused(labels):
    with pytest.raises(InputError, match="cannot be told apart"):
        read(labels)
