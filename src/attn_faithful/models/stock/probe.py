"""What is found out about a stock model before its attention is read, by running short texts through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.models.stock.coverage import Coverage
from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import Call, Trace
from attn_faithful.models.supported import SUPPORTED, WORKING

LENGTHS = (5, 7)
LONG = 96  # a text beside which a short one has more padding than a window of local attention is wide


@dataclass(frozen=True)
class Probe:
    """How a model is built.

    Attributes:
        heads: of each attention call, in order.
        encoder: of each call, whether it stands in the encoder of a model whose decoder classifies.
        shifted: of each call, whether its keys are the decoder's input: the text one position later.
        reads: which rows of the last call the classifier reads: "first", "last" (of each text), "every" or "other".
        texts: the inputs that it was found out with.
        left: whether texts padded on the left are read as the model itself reads them.
    """

    heads: Sequence[int]
    encoder: Sequence[bool]
    shifted: Sequence[bool]
    reads: str
    texts: dict[str, Tensor]
    left: bool

    def place(self, inputs: dict[str, Tensor], config: Any) -> Tensor:
        """The position (B,) of the token that the classifier reads, by transformers' own rules.

        Args:
            inputs: `input_ids`, `attention_mask` (B, T).
            config: the model's.

        Raises:
            InputError: it reads none alone.
        """
        ids = inputs["input_ids"]
        if self.reads == "first":
            return torch.zeros(len(ids), dtype=torch.long, device=ids.device)
        if self.reads != "last":
            raise InputError(
                "The classifier reads no single token, so there is no row of it; choose queries mean or all."
            )
        padding = config.get_text_config().pad_token_id
        rows = inputs["attention_mask"].bool()  # (B, T)
        if any(self.encoder):
            rows = ids == config.eos_token_id
        elif padding is not None:  # by ids, whatever the mask says
            rows = ids != padding
        positions = torch.arange(ids.shape[1], device=ids.device)
        return (positions * rows).argmax(1)


def tried(model: StockForward, outer: Any) -> Probe:
    """What :func:`probe` finds; an error that the model itself raises on short texts is raised with its name.

    Raises:
        InputError: see :func:`probe`; or the model cannot be run.
    """
    try:
        return probe(model, outer)
    except InputError:
        raise
    except Exception as error:  # whatever the model's code raises
        message = " ".join(str(error).split())
        reason = f"{type(error).__name__}: {message}"
        raise InputError(
            f"{type(model.model).__name__} cannot be run on a short text ({reason}); see that "
            "model(**tokenizer(text, return_tensors='pt')) works, and that its configuration is that of its weights."
        ) from error


def probe(model: StockForward, outer: Any) -> Probe:
    """Run short texts, see what the attention function is asked for, and compare with the model left to itself.

    Args:
        model: whose attention is to be read.
        outer: what the user gave, such as the wrapper of peft around the model; its logits are the right ones.

    Raises:
        InputError: the interface is not asked at all, or not by every layer with attention; other logits than the
            model's own.
    """
    texts = made_texts(model)
    with model.analysing(), torch.no_grad():
        calls = _calls(model, texts)
        left = _says_the_same(model, outer)
        gradient = _gradient_of_last(model, texts, calls)  # (B, H, Q, T)
    shifted = _shifted(model, calls)
    first_of_decoder = shifted.index(True) if any(shifted) else 0
    changes_logits = gradient.abs().amax((1, 3)) > 0  # (B, Q)
    return Probe(
        heads=[call.attention.shape[1] for call in calls],
        encoder=[number < first_of_decoder for number in range(len(calls))],
        shifted=shifted,
        reads=_reads(changes_logits, texts["attention_mask"].bool()),
        texts=texts,
        left=left,
    )


def _shifted(model: StockForward, calls: list[Call]) -> list[bool]:
    """Of each call, whether its keys are the decoder's input: only a decoder's own attention does not look ahead."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return [False] * len(calls)
    return [not bool(call.allowed[0, 0, 0, 1]) for call in calls]


def _calls(model: StockForward, texts: dict[str, Tensor]) -> list[Call]:
    """All attention calls of a forward, in order; the model's blocks learn their steps on the way.

    Raises:
        InputError: there are none, or attention passes by the interface.
    """
    trace = Trace(read=None)
    coverage = Coverage(model.model, list(model.blocks.members), max(LENGTHS))
    with coverage.watching(trace), model.blocks.learning(trace):
        model.run(texts, trace)
    if not trace.seen:
        raise InputError(
            f"{type(model.model).__name__} never called the attention interface, so its attention cannot be "
            f"replaced; {WORKING}"
        )
    coverage.check(trace)
    return [trace.seen[number] for number in sorted(trace.seen)]


def _gradient_of_last(
    model: StockForward,
    texts: dict[str, Tensor],
    calls: list[Call],
) -> Tensor:
    """The gradient of the logits with respect to the attention of the last call, (B, H, Q, T)."""
    last = calls[-1].attention.clone().requires_grad_()
    trace = Trace(alter={len(calls) - 1: lambda own, allowed: last})
    with torch.enable_grad():
        logits = model.run(texts, trace)
        # of the same weight for all classes the gradient would be 0
        weights = torch.linspace(1.0, 2.0, logits.shape[-1], device=logits.device, dtype=logits.dtype)
        outcome = (logits.log_softmax(-1) * weights).sum()
        return torch.autograd.grad(outcome, last)[0]


def _no_numbers(model: StockForward) -> str:
    """What to say of a model that gives NaN or infinity for ordinary texts."""
    broken = []
    for name, weight in model.model.named_parameters():
        if not bool(weight.isfinite().all()):
            broken.append(name)
    what = f"{type(model.model).__name__} gives logits that are no finite numbers for ordinary texts"
    if not broken:
        return f"{what}; see that model(**tokenizer(text, return_tensors='pt')) gives some, and load the model again."
    more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
    return f"{what}: its weights {broken[0]}{more} hold NaN or infinity; take another checkpoint."


def _says_the_same(model: StockForward, outer: Any) -> bool:
    """Compare logits of padded texts with those of the model left to itself.

    Returns:
        whether they are equal under padding on the left too. Where they are not, texts may still be padded on the
        right: a model whose first token is padding, with a window that holds nothing else, has no attention there.

    Raises:
        InputError: they differ under padding on the right, or are no numbers there.
    """
    lengths = (3, min(LONG, model.max_tokens or LONG))
    texts = made_texts(model, lengths)
    own = model.left_to_itself(texts, outer)
    if not bool(own.isfinite().all()):
        raise InputError(_no_numbers(model))
    both_ways = _both_ways(model, texts)
    if not _equal(both_ways, own):
        gaps = [float((logits - own).abs().max()) for logits in both_ways]
        raise InputError(
            f"{type(model.model).__name__} gives other logits for padded texts when its attention is read through "
            f"transformers' attention interface (by up to {max(gaps):.2g} of {float(own.abs().max()):.2g}): part of it "
            f"reads the padding mask in a way of its own. {SUPPORTED}."
        )
    texts = made_texts(model, lengths, left=True)
    own = model.left_to_itself(texts, outer)
    return _equal(_both_ways(model, texts), own)


def _both_ways(model: StockForward, texts: dict[str, Tensor]) -> list[Tensor]:
    """Logits with no attention read, and with all of it read."""
    return [model.run(texts, Trace(read=read)) for read in (set(), None)]


def _equal(both_ways: list[Tensor], own: Tensor) -> bool:
    """Whether logits are the model's own but for rounding."""
    coarse = own.device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    tolerance = 1e-2 if coarse else 1e-4  # of their size
    allowed = tolerance * float(own.abs().max())
    near = [bool(((logits - own).abs() <= allowed).all()) for logits in both_ways]
    return all(near)


def _reads(changing: Tensor, rows: Tensor) -> str:
    """Which rows of the last attention change the logits.

    Args:
        changing: bool (B, Q), rows whose attention changes the logits.
        rows: bool (B, Q), rows of the text.
    """
    # bool (B, Q) each but for the place
    place_of_last = rows.sum(1) - 1
    last = torch.nn.functional.one_hot(place_of_last, rows.shape[1]).bool()
    first = torch.zeros_like(rows)
    first[:, 0] = True
    patterns = {"first": first, "last": last, "every": rows}
    for name, pattern in patterns.items():
        if torch.equal(changing, pattern):
            return name
    return "other"


def made_texts(
    model: StockForward,
    lengths: Sequence[int] = LENGTHS,
    left: bool = False,
) -> dict[str, Tensor]:
    """Texts of different length, of ids that mean nothing special, padded on one side."""
    config = model.config.get_text_config()
    ends = _ids(config.eos_token_id)
    special = {config.pad_token_id, *ends, *_ids(config.bos_token_id)}
    free = [number for number in range(min(config.vocab_size, 64)) if number not in special]
    if len(free) < 2:
        raise InputError(f"A vocabulary of {config.vocab_size} leaves no ids to try the model with.")
    longest = max(lengths)
    ids = torch.full((len(lengths), longest), model.pad_token_id)  # (B, T)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        start = longest - length if left else 0
        # another order of words in each text
        words = [free[(3 * row + 5 * place) % len(free)] for place in range(length)]
        ids[row, start : start + length] = torch.tensor(words)
        mask[row, start : start + length] = 1
        if getattr(model.config, "is_encoder_decoder", False) and ends:
            ids[row, start + length - 1] = ends[0]
    return {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}


def _ids(numbers: int | Sequence[int] | None) -> list[int]:
    """A configuration's ids of a special token: none, one or several."""
    if numbers is None:
        return []
    if isinstance(numbers, int):
        return [numbers]
    return list(numbers)
