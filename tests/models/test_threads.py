"""Threads that share a model, as the workers of a web server do: right numbers, and the model as it was."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import BertConfig

from attn_faithful.api import explain
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.thread_local import overriding
from tests.data.pieces import wordpiece
from tests.experiments.test_evaluation_stock import NAMES, bert
from tests.models.examples import small_batch, small_model
from tests.models.stock_families import build, read, texts
from tests.models.test_stock_untouched import check_untouched, state

ROUNDS = 6


@pytest.fixture(autouse=True)
def impatient():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def all_gather(works: list[Callable[[], Any]], rounds: int = ROUNDS) -> list[list[Any]]:
    """What each work gives in a thread of its own, several times; the first error is raised here."""
    found: list[list[Any]] = [[] for _ in works]
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(place: int) -> None:
        start.wait()
        try:
            found[place] += [works[place]() for _ in range(rounds)]
        except BaseException as error:  # told to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def check_together(works: list[Callable[[], torch.Tensor]], rounds: int = ROUNDS) -> None:
    """Each work gives in threads what it gives alone, bit for bit."""
    alone = [work() for work in works]
    for expected, found in zip(alone, all_gather(works, rounds), strict=True):
        assert all(torch.equal(each, expected) for each in found)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_threads_that_share_a_wrapped_model_get_the_numbers_of_one(name):
    """One of them runs the plain model, with attention that reads a mask of its own kind, in the midst of it."""
    plain = build(name, **({"pad_token_id": None} if name == "gpt2" else {}))
    plain.set_attn_implementation("eager")
    plain.train()
    for part in plain.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    before = state(plain)
    first, second = StockModel(plain), StockModel(plain, queries="mean")
    one, two, alone = read(texts((9, 6))), read(texts((5, 4), seed=1)), read(texts((8,), seed=2))
    keep = torch.rand(2, 3, 9, generator=torch.Generator().manual_seed(0)) < 0.7
    embedded = first.get_input_embeddings()(one["input_ids"]).detach() * 0.5

    def gradient() -> torch.Tensor:
        encoded = second.encode(two, "layer.1")
        many = encoded.attention.detach()[:, None].requires_grad_()
        return torch.autograd.grad(encoded.decode(many).sum(), many)[0]

    check_together(
        [
            lambda: first.encode(one, "layer.1").logits.detach(),
            lambda: first.choosing(heads=[0]).encode(two, "joint").attention.detach(),
            lambda: first.without(one, keep),
            lambda: first(**one, inputs_embeds=embedded).logits.detach(),
            lambda: plain(**alone).logits.detach(),
            lambda: StockModel(plain, layers=[1]).encode(alone, "joint").attention.detach(),
            gradient,
        ]
    )
    check_untouched(plain, before)


def test_threads_that_share_an_own_model_leave_it_in_its_mode():
    model = small_model(dropout=0.5).train()
    batches = [small_batch(lengths) for lengths in ((7, 3), (5, 4), (6, 2))]
    check_together([lambda batch=batch: model.encode(batch).logits.detach() for batch in batches])
    assert all(module.training for module in model.modules())


def test_threads_explain_texts_with_one_model_and_tokenizer():
    """As the workers of a demo do; each call wraps the model anew."""
    tokenizer = wordpiece()
    model = bert(tokenizer, **NAMES)

    def explained(text: str) -> torch.Tensor:
        (found,) = explain(model, tokenizer, text, tests="permutation", sources="leave_one_out")
        return torch.cat([torch.as_tensor(line.values) for line in found.lines if line.values is not None])

    texts = ("good movie", "bad movie bad bad", "unbelievably not bad")
    check_together([lambda text=text: explained(text) for text in texts], rounds=2)
    assert model.config._attn_implementation == "sdpa"


def test_an_error_in_one_thread_frees_the_model_for_the_others():
    model, batch = StockModel(build("bert")), read(texts())

    def wrong() -> bool:
        with pytest.raises(ValueError, match="shape"):
            model.encode(batch, "layer.1").decode(torch.zeros(1, 1, 1, 1))
        return True

    right = model.encode(batch, "layer.1").logits
    found = all_gather([wrong, lambda: model.encode(batch, "layer.1").logits])
    assert all(found[0])
    assert all(torch.equal(each, right) for each in found[1])
    assert model.model.config._attn_implementation == "sdpa"
    assert type(model.model.config).__mro__[0].__module__ == "transformers.models.bert.configuration_bert"


def test_a_configuration_whose_class_is_given_back_meanwhile_is_still_read():
    config = BertConfig(hidden_size=12)
    with overriding([config], hidden_size=7):
        reads = type(config).__getattribute__
        assert reads(config, "hidden_size") == 7
    assert type(config) is BertConfig  # as where another thread ends between the lookup of the class and the reading
    assert reads(config, "hidden_size") == 12
