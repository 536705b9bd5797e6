"""A model that somebody wrote by hand, behind the protocol: a function that encodes, and what it does not say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError, check_choice
from attn_faithful.models.distinct_deletions import first_equal, from_first
from attn_faithful.models.modes import evaluating
from attn_faithful.models.protocol import AttentionModel, Batch, Encoded
from attn_faithful.models.words import in_words

TOLERANCE = 1e-3  # of the logits' size, by which decoding the model's own attention may miss them


@dataclass
class OwnConfig:
    """What an evaluation asks a configuration: the classes in order, their kind, and what the model is called."""

    labels: Sequence[str]
    multi_label: bool
    model_type: str

    @property
    def num_labels(self) -> int:
        return len(self.labels)

    @property
    def id2label(self) -> dict[int, str]:
        return dict(enumerate(self.labels))

    @property
    def problem_type(self) -> str:
        if self.multi_label:
            return "multi_label_classification"
        return "single_label_classification"


class OwnModel(AttentionModel):
    """A hand-written model behind the protocol.

    Args:
        encode: ``encode(batch) -> Encoded`` (with several sites ``encode(batch, site)``), in eval mode. The batch holds
            ``input_ids`` and ``attention_mask`` (B, T), and ``special_tokens_mask`` where the tokenizer adds any.
        without: ``without(batch, keep) -> logits (B, K, C)``; None where tokens cannot be deleted.
        sites: names of its attention sites.
        labels: the names of its classes in the order of its logits; evaluations need them.
        multi_label: whether its logits are one yes-or-no a label.
        name: what tables call it.
        version: what stands for its weights and code in the name of a run folder: a text that changes when the model
            does. None reads what `encode` and `without` use (functions, tensors, modules); of anything else nothing
            is known, and then no finished run is taken for this one.
        module: the torch module that does the work, for its device, mode and weights; None finds it where `encode`
            is its method, or a function that holds it.
        pad_token_id: what padding is filled with.
        max_tokens: the longest text that it reads; None for any.
    """

    embedding_gradients = False  # of its embeddings nothing is known

    def __init__(  # noqa: PLR0913 -- what a user may say of a model, by keyword
        self,
        encode: Callable[..., Any],
        without: Callable[..., Any] | None = None,
        sites: Sequence[str] = ("pool",),
        *,
        labels: Sequence[str] | None = None,
        multi_label: bool = False,
        name: str | None = None,
        version: str | None = None,
        module: nn.Module | None = None,
        pad_token_id: int = 0,
        max_tokens: int | None = None,
    ) -> None:
        if not callable(encode):
            raise InputError(f"Expected `encode` to be a function of a batch, but got {type(encode).__name__}.")
        self.sites = (sites,) if isinstance(sites, str) else tuple(sites)
        self.labels = None if labels is None else _labels(labels)
        self.multi_label = multi_label
        self.name = name
        self.version = version
        self.pad_token_id = pad_token_id
        self.max_tokens = max_tokens
        self.module = _module_of(encode) if module is None else module
        self._encode = encode
        self._without = without
        self._checked_sites: set[str] = set()

    @property
    def config(self) -> OwnConfig:
        """What is asked of a configuration.

        Raises:
            InputError: the model was wrapped without the names of its classes.
        """
        if self.labels is None:
            raise InputError(
                "This model was wrapped without the names of its classes, in the order of its logits: "
                'af.wrap(encode=..., labels=["negative", "positive"]).'
            )
        return OwnConfig(self.labels, self.multi_label, self.name or "own")

    @property
    def facts(self) -> list[Any]:
        """What it is, for the name of a run folder: its version where it has one, else all that it uses."""
        settings = [self.sites, self.labels, self.multi_label, self.name, self.max_tokens, self.pad_token_id]
        if self.version is not None:
            return [*settings, self.version]
        return [*settings, self._encode, self._without, self.module]

    @property
    def deletes(self) -> bool:
        """Whether tokens can be deleted from its texts."""
        return self._without is not None

    def parameters(self) -> Iterator[Tensor]:
        """Those of its module; without one an empty tensor on the CPU, which says where it is."""
        parameters = [] if self.module is None else list(self.module.parameters())
        yield from parameters or [torch.zeros(0)]

    def encode(self, batch: Batch, site: str | None = None) -> Encoded:
        """What the model did at a site; over words where the batch says which tokens spell them."""
        site = self.sites[0] if site is None else check_choice("site", site, self.sites)
        inputs = _inputs(batch)
        if len(self.sites) > 1:
            encoded = self._in_eval_mode(self._encode, inputs, site)
        else:
            encoded = self._in_eval_mode(self._encode, inputs)
        if site not in self._checked_sites:
            _check(encoded, inputs)
            self._checked_sites.add(site)
        words = batch.get("word_ids")
        if words is None or encoded.items != "token":
            return encoded
        return in_words(encoded, words)

    def without(self, batch: Batch, keep: Tensor) -> Tensor:
        """Logits (B, K, C) with the tokens outside ``keep`` (B, K, T) deleted; equal ones of equal shortened texts."""
        if self._without is None:
            raise InputError("This model was wrapped without a function for deleting tokens; pass without= to wrap.")
        inputs = _inputs(batch)
        logits: Tensor = self._in_eval_mode(self._without, inputs, keep)
        if "input_ids" not in inputs:
            return logits
        return from_first(logits, first_equal(inputs, keep))

    def _in_eval_mode(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self.module is None:
            return function(*arguments)
        with evaluating(self.module):
            return function(*arguments)


def _inputs(batch: Batch) -> dict[str, Tensor]:
    """What a hand-written function gets of a batch."""
    return {name: value for name, value in batch.items() if name not in ("word_ids", "labels")}


def _labels(labels: Sequence[str]) -> list[str]:
    are_different = len(set(labels)) == len(labels)
    if isinstance(labels, str) or not are_different or len(labels) < 2:
        raise InputError(f"Expected `labels` to be a list of two or more different names, but got {labels!r}.")
    return [str(label) for label in labels]


def _module_of(encode: Callable[..., Any]) -> nn.Module | None:
    """The module that a function is a method of, or the only one that it holds."""
    values: list[Any] = [getattr(encode, "__self__", None), encode]
    if isinstance(encode, partial):
        values += [*encode.args, *encode.keywords.values(), _module_of(encode.func)]
    if inspect.isfunction(encode):
        variables = inspect.getclosurevars(encode)
        values += [*variables.nonlocals.values(), *variables.globals.values()]
    modules = {id(value): value for value in values if isinstance(value, nn.Module)}
    if len(modules) != 1:
        return None
    (module,) = modules.values()
    return module


def _check(encoded: Any, batch: Mapping[str, Tensor]) -> None:
    """Raise where what `encode` gave is not what tests need."""
    if not isinstance(encoded, Encoded):
        raise InputError(f"Expected `encode` to return an attn_faithful Encoded, but got {type(encoded).__name__}.")
    wrong = _of_wrong_shape(encoded, len(batch["input_ids"]))
    if wrong is not None:
        raise InputError(
            f"Expected `encode` to give attention and allowed (B, S, T), content (B, T) and logits (B, C), but "
            f"{wrong} has the shape {tuple(getattr(encoded, wrong).shape)}."
        )
    logits = encoded.logits.detach()  # (B, C)
    with torch.no_grad():
        decoded = encoded.decode(encoded.attention.detach()[:, None])  # (B, 1, C)
    if decoded.shape != (len(logits), 1, logits.shape[1]):
        raise InputError(f"Expected `decode` to give logits (B, K, C), but got some of shape {tuple(decoded.shape)}.")
    gap = float((decoded[:, 0] - logits).abs().max())
    size = max(1.0, float(logits.abs().max()))
    if not gap <= TOLERANCE * size:  # nor where it is NaN
        raise InputError(
            f"Expected `decode` to give the model's own logits for its own attention, but they differ by {gap:.2g}."
        )


def _of_wrong_shape(encoded: Encoded, texts: int) -> str | None:
    """The first attribute whose shape does not fit the others; None where all fit."""
    attention = encoded.attention
    if encoded.allowed.shape != attention.shape:
        return "allowed"
    if encoded.logits.dim() != 2:
        return "logits"
    if encoded.content.shape != (len(attention), attention.shape[-1]):
        return "content"
    if attention.dim() != 3 or len(attention) != texts:
        return "attention"
    return None
