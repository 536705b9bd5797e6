"""What is found out about a stock model before its attention is read, by running short texts through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.models.stock.coverage import Coverage
from attn_faithful.models.stock.interface import Trace
from attn_faithful.models.supported import SUPPORTED, WORKING

if TYPE_CHECKING:
    from attn_faithful.models.stock.model import StockModel

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
        texts: the inputs that told.
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
        ids, rows = inputs["input_ids"], inputs["attention_mask"].bool()
        if self.reads == "first":
            return torch.zeros(len(ids), dtype=torch.long, device=ids.device)
        if self.reads == "last":
            padding = config.get_text_config().pad_token_id
            if any(self.encoder):
                rows = ids == config.eos_token_id
            elif padding is not None:  # by ids, whatever the mask says
                rows = ids != padding
            return (torch.arange(ids.shape[1], device=ids.device) * rows).argmax(1)
        raise InputError("The classifier reads no single token, so there is no row of it; choose queries mean or all.")


def tried(model: StockModel, outer: Any) -> Probe:
    """What :func:`probe` finds; what a model itself raises on short texts is told with its name.

    Raises:
        InputError: see :func:`probe`; or the model cannot be run.
    """
    try:
        return probe(model, outer)
    except InputError:
        raise
    except Exception as error:  # whatever the model's code raises
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(
            f"{type(model.model).__name__} cannot be run on a short text ({reason}); see that "
            "model(**tokenizer(text, return_tensors='pt')) works, and that its configuration is that of its weights."
        ) from error


def probe(model: StockModel, outer: Any) -> Probe:
    """Run short texts, see what the attention function is asked for, and compare with the model left to itself.

    Args:
        model: whose attention is to be read.
        outer: what the user gave, such as the wrapper of peft around the model; its logits are the right ones.

    Raises:
        InputError: the interface is not asked at all, or not by every layer with attention; other logits than the
            model's own.
    """
    texts = _texts(model)
    with model.analysing(), torch.no_grad():
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
        left = _says_the_same(model, outer)
        calls = [trace.seen[n] for n in sorted(trace.seen)]
        last = calls[-1].attention.clone().requires_grad_()
        again = Trace(alter={len(calls) - 1: lambda own, allowed: last})
        with torch.enable_grad():
            logits = model.run(texts, again)
            weights = torch.linspace(1.0, 2.0, logits.shape[-1], device=logits.device, dtype=logits.dtype)
            gradient = torch.autograd.grad((logits.log_softmax(-1) * weights).sum(), last)[0]
    decoded = bool(getattr(model.config, "is_encoder_decoder", False))
    causal = [decoded and not bool(call.allowed[0, 0, 0, 1]) for call in calls]
    first = causal.index(True) if any(causal) else 0
    return Probe(
        heads=[call.attention.shape[1] for call in calls],
        encoder=[n < first for n in range(len(calls))],
        shifted=causal,
        reads=_reads(gradient.abs().amax((1, 3)) > 0, texts["attention_mask"].bool()),
        texts=texts,
        left=left,
    )


def _no_numbers(model: StockModel) -> str:
    """What to say of a model that gives NaN or infinity for ordinary texts."""
    broken = [name for name, weight in model.model.named_parameters() if not bool(weight.isfinite().all())]
    what = f"{type(model.model).__name__} gives logits that are no finite numbers for ordinary texts"
    if not broken:
        return f"{what}; see that model(**tokenizer(text, return_tensors='pt')) gives some, and load the model again."
    more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
    return f"{what}: its weights {broken[0]}{more} hold NaN or infinity; take another checkpoint."


def _says_the_same(model: StockModel, outer: Any) -> bool:
    """Compare logits of padded texts with those of the model left to itself.

    Returns:
        whether they are equal under padding on the left too. Where they are not, texts may still be padded on the
        right: a model whose first token is padding, with a window that holds nothing else, has no attention there.

    Raises:
        InputError: they differ under padding on the right, or are no numbers there.
    """
    lengths = (2, 7, min(LONG, model.max_tokens or LONG))
    equal = {}
    for left in (False, True):
        texts = _texts(model, lengths, left)
        own = model.left_to_itself(texts, outer)
        if not left and not bool(own.isfinite().all()):
            raise InputError(_no_numbers(model))
        found = [model.run(texts, Trace(read=read)) for read in (set(), None)]
        allowed = _tolerance(own) * float(own.abs().max())
        equal[left] = all(bool(((each - own).abs() <= allowed).all()) for each in found)
        if not left and not equal[left]:
            gap = max(float((each - own).abs().max()) for each in found)
            raise InputError(
                f"{type(model.model).__name__} gives other logits for padded texts when its attention is read through "
                f"transformers' attention interface (by up to {gap:.2g} of {float(own.abs().max()):.2g}): part of it "
                f"reads the padding mask in a way of its own. {SUPPORTED}."
            )
    return equal[True]


def _tolerance(logits: Tensor) -> float:
    """How far two ways to the same logits may be apart, of their size: rounding, and no more."""
    coarse = logits.device.type == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return 1e-2 if coarse else 1e-4


def _reads(found: Tensor, rows: Tensor) -> str:
    last = torch.nn.functional.one_hot(rows.sum(1) - 1, rows.shape[1]).bool()
    first = torch.zeros_like(rows)
    first[:, 0] = True
    known = {"first": first, "last": last, "every": rows}
    return next((name for name, pattern in known.items() if torch.equal(found, pattern)), "other")


def _texts(model: StockModel, lengths: Sequence[int] = LENGTHS, left: bool = False) -> dict[str, Tensor]:
    """Texts of different length, of ids that mean nothing special, padded on one side."""
    config = model.config.get_text_config()
    taken = {config.pad_token_id, *_ids(config.eos_token_id), *_ids(config.bos_token_id)}
    free = [i for i in range(min(config.vocab_size, 64)) if i not in taken]
    if len(free) < 2:
        raise InputError(f"A vocabulary of {config.vocab_size} leaves no ids to try the model with.")
    ids = torch.full((len(lengths), max(lengths)), model.pad_token_id)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        start = max(lengths) - length if left else 0
        ids[row, start : start + length] = torch.tensor([free[(3 * row + 5 * t) % len(free)] for t in range(length)])
        mask[row, start : start + length] = 1
        if getattr(model.config, "is_encoder_decoder", False) and _ids(config.eos_token_id):
            ids[row, start + length - 1] = _ids(config.eos_token_id)[0]
    return {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}


def _ids(given: int | Sequence[int] | None) -> list[int]:
    return [] if given is None else [given] if isinstance(given, int) else list(given)
