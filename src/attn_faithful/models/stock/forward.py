"""Forwards of a transformers classifier with a trace: its attention is read or replaced, all else stays as it is."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.models.modes import evaluating
from attn_faithful.models.protocol import AttentionModel, at_least_float32
from attn_faithful.models.stock.interface import KEYWORD, Trace, configs_of, projection_of, traced
from attn_faithful.models.stock.layers import Blocks, computing_in, repeated, taken
from attn_faithful.models.stock.thread_local import lock_of, overriding
from attn_faithful.models.supported import check_logits


class StockForward(nn.Module, AttentionModel):
    """A transformers classifier whose forwards can be given a `Trace`.

    Args:
        model: as `supported.check_model` takes it.

    Attributes:
        configs: all of its configurations that name an attention implementation.
        takes: the names of its forward's arguments.
        blocks: the members of its stacks.
        backbone: the half type that the blocks compute in, see `half`; None for the model's own.
        rounding: the largest difference that this made to a probability; None without it.
    """

    backbone: torch.dtype | None = None
    rounding: float | None = None

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.configs = configs_of(model)
        self.takes = set(inspect.signature(model.forward).parameters)
        self.blocks = Blocks(model)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def multi_label(self) -> bool:
        return self.config.problem_type == "multi_label_classification"

    @property
    def projection(self) -> str:
        """What makes its attention of scores."""
        return projection_of(self.configs[0]._attn_implementation)

    @property
    def pad_token_id(self) -> int:
        """What padding is filled with."""
        padding = self.config.get_text_config().pad_token_id
        if padding is None:
            return 0
        return int(padding)

    @property
    def max_tokens(self) -> int | None:
        """The longest text that it can read, in tokens; None for any."""
        limit = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        if limit is None:
            return None
        before_text = [0]  # positions that no token of a text has
        for name, module in self.model.named_modules():
            if not name.endswith("position_embeddings"):
                continue
            padding = getattr(module, "padding_idx", None)
            if padding is not None:
                before_text.append(padding + 1)
        return limit - max(before_text)

    @property
    def training_texts(self) -> Any:
        """The texts that it was trained on; None where unknown."""
        return getattr(self.model, "training_texts", None)

    def get_input_embeddings(self) -> nn.Module:
        return self.model.get_input_embeddings()

    @contextmanager
    def analysing(self) -> Iterator[None]:
        """Eval mode and full precision inside, for one thread at a time."""
        with lock_of(self.model), evaluating(self.model), torch.autocast(self.device.type, enabled=False):
            yield

    def run(self, inputs: dict[str, Tensor], trace: Trace) -> Tensor:
        """Logits (B, C) of one forward with a trace."""
        with self.tracing(trace):
            return self._logits(self.model, inputs, {KEYWORD: trace})

    @contextmanager
    def tracing(self, trace: Trace) -> Iterator[None]:
        """Inside, a forward of the model or of a wrapper around it that is given the trace computes attention by it."""
        trace.projection = self.projection
        trace.in_float32 = self.backbone is not None
        with lock_of(self.model), traced(self.configs):
            yield

    def continued(
        self,
        inputs: dict[str, Tensor],
        count: int,
        outputs: Mapping[int, Any],
        trace: Trace,
        text: Tensor,
        place: Tensor | None = None,
    ) -> Tensor:
        """Logits (R, C) of some texts, or of one position of each, from the known blocks on.

        Args:
            inputs: of all texts, (B, T).
            count: how many blocks are known.
            outputs: of each stack the output of the last of these blocks.
            trace: of what comes after them.
            text: which texts, (R,).
            place: the one position of each, (R,); None for all.
        """
        texts = len(inputs["input_ids"])
        known = {stack: taken(output, text, texts, place) for stack, output in outputs.items()}
        with self.blocks.skipping(count, known, trace):
            return self.run(repeated(inputs, text, place), trace)

    def left_to_itself(self, inputs: dict[str, Tensor], outer: Any) -> Tensor:
        """Logits (B, C) of one forward as the user's model has it, under its own attention implementation."""
        with lock_of(self.model):
            return self._logits(outer, inputs, {})

    def _logits(
        self,
        model: Any,
        inputs: dict[str, Tensor],
        arguments: dict[str, Any],
    ) -> Tensor:
        if "use_cache" in self.takes:
            arguments["use_cache"] = False
        as_told = overriding(self.configs, return_dict=True)
        with as_told, self.padded(inputs) as padded, self._uncompiled(), self._in_half():
            output = model(**padded, **arguments)
        return at_least_float32(check_logits(self.model, output, len(inputs["input_ids"])))

    def _uncompiled(self) -> AbstractContextManager[Any]:
        """What was compiled in place (model.compile()) runs as it was written, where it can be read."""
        for module in self.model.modules():
            if getattr(module, "_compiled_call_impl", None) is not None:
                return torch.compiler.set_stance("force_eager")
        return nullcontext()

    def _in_half(self) -> AbstractContextManager[None]:
        """Inside, the blocks compute in the type of the backbone."""
        if self.backbone is None:
            return nullcontext()
        return computing_in(self.backbone, list(self.blocks.members), self.device.type)

    @contextmanager
    def padded(self, inputs: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """A padding id for models without one, which would refuse several texts: one that no text holds."""
        config = self.config.get_text_config()
        if config.pad_token_id is not None:
            yield inputs
            return
        ids = inputs["input_ids"]
        read = inputs["attention_mask"].bool()
        used = torch.zeros(config.vocab_size + 1, dtype=torch.bool, device=ids.device)
        used[ids[read]] = True
        free = int((~used).int().argmax())  # the first; one beyond the vocabulary where all are used
        if free >= config.vocab_size:
            raise InputError("The model has no padding id, and the texts leave no other to stand for it.")
        with overriding([config], pad_token_id=free):
            yield {**inputs, "input_ids": torch.where(read, ids, free)}
