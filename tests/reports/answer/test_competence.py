"""How well a model predicts: accuracy, F1 and the best constant prediction, with intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest

from attn_faithful.reports.answer.competence import competence
from attn_faithful.training.metrics import classification_metrics
from tests.reference.competence import bootstrap_f1, f1, wilson_ends

NAMES = ["no", "yes", "perhaps"]


def drawn(n, classes, right, seed=0):
    """Probabilities and labels; a share of the predictions is right."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    said = np.where(rng.random(n) < right, labels, rng.integers(classes, size=n))
    chances = np.full((n, classes), 0.1)
    chances[np.arange(n), said] = 1
    return chances / chances.sum(1, keepdims=True), labels.tolist(), said.tolist()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("right", [0.0, 0.5, 1.0])
def test_numbers_are_those_of_loops(classes, right):
    chances, labels, said = drawn(40, classes, right)
    found = competence(chances, labels, NAMES[:classes])
    hits = sum(g == s for g, s in zip(labels, said, strict=True))
    assert found.accuracy == pytest.approx(hits / 40, abs=1e-12)
    assert (found.low, found.high) == pytest.approx(wilson_ends(hits, 40), abs=1e-6)  # z has seven digits there
    assert found.f1 == pytest.approx(f1(labels, said, classes), abs=1e-12)
    assert found.f1 == pytest.approx(classification_metrics(chances, np.array(labels))["f1"], abs=1e-12)
    assert found.majority == max(labels.count(c) for c in range(classes)) / 40


def test_the_interval_of_f1_is_that_of_drawing_texts():
    chances, labels, said = drawn(60, 3, 0.6, seed=3)
    found = competence(chances, labels, NAMES)
    # two bootstraps of 1000 and 2000 draws: the ends differ by their own error, below .01 each
    assert (found.f1_low, found.f1_high) == pytest.approx(bootstrap_f1(labels, said, 3, 2000, 1), abs=0.03)


def test_neither_order_nor_a_class_that_never_is_changes_anything():
    chances, labels, _ = drawn(50, 3, 0.7)
    order = np.random.default_rng(5).permutation(50)
    assert competence(chances, labels, NAMES) == competence(chances[order], [labels[i] for i in order], NAMES)
    wider = np.concatenate([chances, np.zeros((50, 1))], axis=1)
    assert competence(wider, labels, [*NAMES, "never"]) == competence(chances, labels, NAMES)


@pytest.mark.parametrize(
    ("hits", "n", "competent"),
    [(51, 100, False), (59, 100, False), (60, 100, True), (100, 100, True), (3, 3, False), (40, 100, False)],
)
def test_the_line_of_competence(hits, n, competent):
    """Half of the texts are of each class; with 60 of 100 the interval begins at .502."""
    labels = [i % 2 for i in range(n)]
    said = [label if i < hits else 1 - label for i, label in enumerate(labels)]
    found = competence(np.eye(2)[said], labels, NAMES[:2])
    assert found.competent is competent
    assert (found.why_not is None) is competent


def test_constant_predictions_are_not_competent():
    labels = [0] * 90 + [1] * 10
    found = competence(np.tile([0.9, 0.1], (100, 1)), labels, NAMES[:2])
    assert (found.accuracy, found.majority, found.competent) == (0.9, 0.9, False)
    assert 'always "no"' in found.why_not
    assert "0.90" in found.sentence


def test_one_class_alone_shows_nothing():
    found = competence(np.tile([0.9, 0.1], (50, 1)), [0] * 50, NAMES[:2])
    assert not found.competent
    assert "of one class" in found.why_not


def test_labels_that_are_unknown():
    chances, labels, _ = drawn(40, 2, 1.0)
    none = competence(chances, [-1] * 40, NAMES[:2])
    assert (none.known, none.competent, none.why_not) == (False, False, None)
    assert none.sentence == "How well the model predicts is unknown: none of 40 texts has a known label."
    some = competence(chances, [label if i < 35 else -1 for i, label in enumerate(labels)], NAMES[:2])
    assert some.n == 35
    assert some.sentence.startswith("On the 35 of 40 texts with a known label the model has accuracy 1.00 (0.90 to")


def test_all_right_has_no_interval_without_width():
    chances, labels, _ = drawn(5, 2, 1.0)
    found = competence(chances, labels, NAMES[:2])
    assert found.f1 == 1
    assert found.f1_low == found.low < 0.6


def test_several_labels_a_text():
    rng = np.random.default_rng(0)
    labels = (rng.random((200, 3)) < [0.5, 0.2, 0.1]).astype(int)
    said = np.where(rng.random((200, 3)) < 0.9, labels, 1 - labels)
    found = competence(said * 0.8 + 0.1, labels.tolist(), NAMES)
    assert found.multi_label
    assert found.accuracy == pytest.approx((said == labels).mean(), abs=1e-12)
    share = labels.mean(0)
    assert found.majority == pytest.approx(np.maximum(share, 1 - share).mean(), abs=1e-12)
    assert found.f1 == pytest.approx(classification_metrics(said * 0.8 + 0.1, labels, True)["f1"], abs=1e-12)
    # the standard error of a mean over texts, times 1.96; a bootstrap of 1000 draws is within a tenth of it
    error = 1.96 * (said == labels).mean(1).std() / np.sqrt(200)
    assert found.high - found.low == pytest.approx(2 * error, rel=0.1)
    assert found.competent
    nothing = competence(np.full((200, 3), 0.1), labels.tolist(), NAMES)
    assert not nothing.competent
    assert "each label's commoner side" in nothing.why_not


def test_labels_of_which_one_is_unknown_are_left_out():
    found = competence(np.full((3, 2), 0.9), [[1, 1], [-1, -1], [1, 1]], NAMES[:2])
    assert (found.n, found.n_texts, found.accuracy) == (2, 3, 1.0)


@pytest.mark.parametrize("several", [False, True])
def test_texts_that_the_model_could_not_read_are_no_predictions(several):
    chances, labels, _ = drawn(30, 3, 0.7)
    if several:
        labels = [[int(c == label) for c in range(3)] for label in labels]
    broken = chances.copy()
    broken[:4] = np.nan
    found, expected = competence(broken, labels, NAMES), competence(chances[4:], labels[4:], NAMES)
    assert (found.accuracy, found.low, found.f1) == (expected.accuracy, expected.low, expected.f1)
    assert (found.majority, found.n, found.n_unread) == (expected.majority, 26, 4)
    assert "the 26 of 30 texts that it could read the model" in found.sentence
    labels[29] = [-1] * 3 if several else -1
    assert (
        "the 25 of 30 texts that it could read and whose label is known" in competence(broken, labels, NAMES).sentence
    )
    assert not competence(np.full((2, 3), np.nan), labels[:2], NAMES).known
