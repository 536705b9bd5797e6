"""How long tests will take, from a few texts."""

import doctest

import pytest
import torch

from attn_faithful.data.settings import DataSettings
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.experiments import estimate, estimate_tests, threads
from attn_faithful.experiments.estimate_tests import sample, seconds_of_tests
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.evaluation_task import make_task
from attn_faithful.experiments.inputs import DataInput, ModelInput
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier


def test_the_sample_is_spread_over_the_lengths():
    assert doctest.testmod(estimate_tests).failed == 0
    lengths = [1] * 8 + [100] * 8
    chosen = sample(lengths, 4)
    assert [lengths[place] for place in chosen] == [1, 1, 100, 100]
    assert len(set(chosen)) == 4
    assert sample([3, 2], 16) == [1, 0]
    assert sample([]) == []
    assert sample(list(range(1000)), 2) == [249, 749]


def test_seconds_are_measured_and_scaled(monkeypatch, tmp_path):
    texts = [" ".join(["good", "bad", "film"][i % 3] for i in range(n)) for n in range(1, 65)]
    tokenizer = train_tokenizer(texts)
    model = AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp", hidden_size=8))
    settings = EvaluationSettings(tests=["permutation"], controls=[])
    task = make_task(ModelInput(model, tokenizer), DataInput(DataSettings(source="data"), texts), settings)
    seen = {}

    def timed(few, folder, on_progress):
        seen["lengths"] = [len(text.split()) for text in few.texts.splits[few.split]["text"]]
        seen["folder"] = folder
        for done, now in ((0, 100.0), (8, 101.0), (16, 104.0)):
            monkeypatch.setattr(estimate_tests.time, "perf_counter", lambda now=now: now)
            on_progress(done, 16)

    real = estimate_tests.evaluate_task
    monkeypatch.setattr(estimate_tests, "evaluate_task", timed)
    assert seconds_of_tests(task) == pytest.approx(4 * 64 / 16)
    assert seen["lengths"] == [2 + 4 * i for i in range(16)]
    monkeypatch.undo()
    monkeypatch.setattr(estimate_tests, "evaluate_task", real)
    assert seconds_of_tests(task) > 0
    assert not list(tmp_path.iterdir())


def test_steps_are_timed_with_the_threads_of_the_run(monkeypatch):
    before = torch.get_num_threads()
    for name in (threads.ENVIRONMENT, "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_defaults", lambda: {3})
    used = []
    monkeypatch.setattr(estimate, "_timed", lambda *given: used.append(torch.get_num_threads()) or 0.1)
    monkeypatch.setattr(estimate, "new_model", lambda config: torch.nn.Linear(2, 2))
    torch.set_num_threads(3)
    try:
        from types import SimpleNamespace

        assert estimate._step(SimpleNamespace(config=None), 8) == 0.1
    finally:
        torch.set_num_threads(before)
    assert used == [1]
