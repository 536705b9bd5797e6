"""How many threads a process computes with: one for small models, unless somebody chose.

Threads meet after every operation. Where an operation takes microseconds they wait longer than they compute, and on
cores that are busy with other work each meeting waits for the slowest: measured on two busy cores, a training step of
models of 0.02 to 5 million weights was 4 to 100 times slower with two threads than with one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attn_faithful._checks import InputError

ENVIRONMENT = "ATTN_FAITHFUL_THREADS"
SMALL = 5_000_000  # weights beside the embeddings; an idle core more is worth something from there on
_CHOSEN_ELSEWHERE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")

_asked: ContextVar[int | None] = ContextVar("attn_faithful_threads", default=None)
_log = logging.getLogger("attn_faithful")
_told: set[str] = set()


@contextmanager
def asked_for(threads: int | None) -> Iterator[None]:
    """Inside, work is done with so many threads; None leaves it to what the environment or the model says.

    Raises:
        InputError: not a positive number.
    """
    if threads is None:
        yield
        return
    if threads < 1:
        raise InputError(f"Expected one thread or more, but got {threads}.")
    token = _asked.set(threads)
    try:
        yield
    finally:
        _asked.reset(token)


@contextmanager
def threads_for(weights: int) -> Iterator[None]:
    """Inside, torch computes with the threads that suit a model; afterwards with as many as before.

    A number that was asked for comes first, then ATTN_FAITHFUL_THREADS. What OMP_NUM_THREADS, MKL_NUM_THREADS or
    ``torch.set_num_threads`` say is left as it is. Otherwise a small model gets one.

    Args:
        weights: of `computing_weights`.
    """
    import torch

    before = torch.get_num_threads()
    number = _asked.get() or _of_environment()
    if number is None and weights <= SMALL and not _chosen(before):
        number = 1
        if before > 1:
            _tell(weights)
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def computing_weights(model: Any) -> int:
    """Weights of a model beside its embeddings, of which a text uses a few rows."""
    import torch

    from attn_faithful.models.adapted import computing_module

    inner = computing_module(model)
    if inner is None:
        return SMALL + 1  # nothing is known of it
    in_embeddings: set[int] = set()
    for module in inner.modules():
        if isinstance(module, torch.nn.Embedding):
            in_embeddings.update(id(weight) for weight in module.parameters())
    return sum(weight.numel() for weight in inner.parameters() if id(weight) not in in_embeddings)


def weights_of(model: Mapping[str, Any]) -> int:
    """`computing_weights` of the model that a recipe's part ``model`` describes; nothing is initialized."""
    import torch

    from attn_faithful.models.architectures import FLAT, config_class, new_model

    settings = dict(model)
    config = config_class(settings.pop("architecture", FLAT))(vocab_size=2, **settings)
    with torch.device("meta"):
        return computing_weights(new_model(config))


def _of_environment() -> int | None:
    text = os.environ.get(ENVIRONMENT)
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"Expected a number of threads in {ENVIRONMENT}, but it is {text!r}.")
    return int(text)


def _chosen(number: int) -> bool:
    """Whether the user chose the number of torch's threads: by the environment, or another than torch's own."""
    return any(map(os.environ.get, _CHOSEN_ELSEWHERE)) or number not in _defaults()


def _defaults() -> set[int]:
    """What torch may start with: logical cores, or physical ones, all or those that this process may use."""
    import psutil

    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    physical = psutil.cpu_count(logical=False) or cores
    return {cores, usable, physical, min(usable, physical)}


def _tell(weights: int) -> None:
    if "small" not in _told:
        _told.add("small")
        _log.warning(
            "One thread, since the model is small (%s weights beside its embeddings): more would slow it down. "
            "--threads N, %s or OMP_NUM_THREADS choose another number.",
            f"{weights:,}",
            ENVIRONMENT,
        )
