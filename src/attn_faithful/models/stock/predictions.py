"""Logits of texts whose attention nobody asks for, by the shortest way that is known to give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError, check_shape
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.protocol import Batch, largest
from attn_faithful.models.stock.deletion import logits_without
from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import Reach, Trace
from attn_faithful.models.stock.last_block import LastBlock
from attn_faithful.models.stock.packing import lengths_of, load_of, packed, widest
from attn_faithful.models.stock.prefix import (
    PrefixCache,
    SharedPrefixes,
    are_plain,
    from_place,
    groups,
    prefixes_of_rows,
)
from attn_faithful.models.stock.probe import Probe
from attn_faithful.models.supported import check_ids

InputsOf = Callable[[Tensor, int], dict[str, Tensor]]
READ = ("input_ids", "attention_mask", "token_type_ids")


class StockPredictions(StockForward):
    """A transformers classifier whose forwards leave out what its logits do not need.

    Args:
        model: as `supported.check_model` takes it.

    Attributes:
        probe: how it is built.
        width: numbers a token in its widest layer.
        skips: whether blocks whose outputs are known may be left out.
        single: whether at the last layer all tokens but the one that the classifier reads may be left out too.
        ends_early: whether the last block may be run for that token alone where no other attention is asked for.
        gradients_end_early: whether gradients with respect to embeddings are then those of the whole forward.
        one_row_changes: whether behind another attention of that token at a lower layer, the others keep their queries,
            keys and values in the next block.
        shares_prefixes: whether rows that begin like a text may be run from where they differ, see `prefix`.
        query_layers: the linear layers of the last block that give queries alone.
    """

    probe: Probe
    skips = False
    single = False
    ends_early = False
    gradients_end_early = False
    one_row_changes = False
    shares_prefixes = False
    query_layers: Sequence[nn.Module] = ()

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.width = widest(model)

    @property
    def attention_layers(self) -> int:
        """How many attention layers a gradient passes."""
        return len(self.probe.heads)

    def cost(self, length: int) -> int:
        """Cells that a text of so many tokens takes, see `blocks.CELLS`: its attention beside its tokens."""
        return length * max(1, max(self.probe.heads) * length // 1024)

    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """What the model reads of a batch."""
        inputs = {}
        for name in READ:
            if name in self.takes and batch.get(name) is not None:
                inputs[name] = batch[name].to(self.device)
        ids = inputs.get("input_ids")
        if ids is None:
            raise InputError("Expected `input_ids` (B, T) in the batch.")
        check_ids(self.model, ids)
        mask = inputs.setdefault("attention_mask", torch.ones_like(ids))
        padded_on_the_left = (mask[:, :1] == 0) & mask.any(1, keepdim=True)
        if not self.probe.left and bool(padded_on_the_left.any()):
            raise InputError(
                f"{type(self.model).__name__} reads texts padded on the left as its attention implementation "
                f"{self.configs[0]._attn_implementation!r} has it and no other; pad on the right "
                "(tokenizer.padding_side), or call its set_attn_implementation('sdpa') first."
            )
        return inputs

    def needs_one_token(self, call: int) -> bool:
        """Whether after a layer's attention nothing but the token that the classifier reads is needed."""
        is_last = call == len(self.probe.heads) - 1
        if not is_last or not (self.single and self.skips):
            return False
        before = self.blocks.before(call)
        following = self.blocks.steps[before:]
        starts_block = bool(following) and following[0].first == call
        return starts_block and before > 0 and self.reads_one_token(call)

    def reads_one_token(self, call: int) -> bool:
        """Whether the classifier reads one token, whose row a layer of its stack has."""
        return self.probe.reads in ("first", "last") and not self.probe.encoder[call]

    def changes_one_row(self, call: int) -> bool:
        """Whether behind a layer below the last only the row of the token that the classifier reads is another."""
        if not (self.skips and self.ends_early and self.one_row_changes and self.reads_one_token(call)):
            return False
        steps = self.blocks.steps[self.blocks.before(call) :]
        one_call_each = all(step.last == step.first + 1 for step in steps)
        one_stack = len({step.stack for step in steps}) == 1
        return one_call_each and one_stack and steps[0].first == call

    def predicted(self, inputs: dict[str, Tensor], reach: Reach | None = None) -> Tensor:
        """Logits (B, C) of what the model reads, by the shortest way; to be called under `analysing`.

        Args:
            inputs: of texts.
            reach: what else their tokens attend to, see `Trace`.
        """
        ends_early = self.gradients_end_early if torch.is_grad_enabled() else self.ends_early
        if not ends_early:
            return self.run(inputs, Trace(reach=reach))
        place = self.probe.place(inputs, self.config)
        last_block = LastBlock(self, inputs, place, self.query_layers)
        last_block.trace.reach = reach
        return last_block.logits()

    @property
    def padding_read(self) -> int | None:
        """The id by which the classifier tells its last token from padding; None where it asks the mask."""
        padding: int | None = self.config.get_text_config().pad_token_id
        return padding

    @torch.no_grad()
    def logits_of(self, batch: Batch, texts: Tensor | None = None) -> Tensor:
        """Logits (B, C) of texts whose attention nobody asks for, cut behind their last tokens.

        Args:
            batch: of texts (B, T).
            texts: which text each is made of, by number (B,): those that begin alike share what is computed of it.
        """
        inputs = self.inputs(batch)
        lengths = lengths_of(inputs["attention_mask"])  # (B,)
        prefixes = None
        if texts is not None and self.shares_prefixes:
            plain = are_plain(inputs, self.padding_read)
            prefixes = prefixes_of_rows(inputs, texts.to(self.device)).where(plain)

        def cut(rows: Tensor, longest: int) -> dict[str, Tensor]:
            return {name: values[rows, :longest] for name, values in inputs.items()}

        with self.analysing():
            return self.predicted_in_parts(lengths, cut, prefixes)

    @torch.no_grad()
    def largest_activations(self, batch: Batch) -> list[Tensor]:
        """Of what each block gives, the largest value of each unit over a text's tokens, (B, U), special ones too."""
        inputs = self.inputs(batch)
        read = inputs["attention_mask"].bool()  # (B, T)
        outputs: list[Any] = []
        with self.analysing(), self.blocks.noting(outputs):
            self.left_to_itself(inputs, self.model)
        states = [output[0] if isinstance(output, tuple) else output for output in outputs]
        return [largest(each, read) for each in states if each.shape[:2] == read.shape]

    def texts_together(self, length: int) -> int:
        """How many texts of so many tokens are run together: what the device's cache, and its memory, hold."""
        by_width = load_of(self.device).activations // (self.width * length)
        by_attention = CELLS // self.cost(length)
        return max(1, min(by_width, by_attention))

    def predicted_in_parts(
        self,
        lengths: Tensor,
        inputs_of: InputsOf,
        prefixes: SharedPrefixes | None = None,
    ) -> Tensor:
        """Logits (R, C) of texts with so many tokens (R,), run with others of nearly their length.

        Args:
            lengths: of each text.
            inputs_of: what the model reads of some of them (P,), in so many places.
            prefixes: of each text another one that it begins like.
        """
        load = load_of(self.device)
        logits = torch.zeros(len(lengths), self.config.num_labels, device=self.device, dtype=torch.float64)
        sizes = lengths.cpu()  # one transfer from a device, and not one a part
        whole = torch.ones(len(sizes), dtype=torch.bool)
        if prefixes is not None and self.shares_prefixes:
            for part, part_logits in self._behind_prefixes(sizes, inputs_of, prefixes):
                logits[part.to(self.device)] = part_logits
                whole[part] = False
        places = whole.nonzero()[:, 0]
        for chosen in packed(sizes[places], self.texts_together, load.padding):
            part = places[chosen]
            longest = max(1, int(sizes[part[0]]))
            rows = part.to(self.device)
            logits[rows] = self.predicted(inputs_of(rows, longest)).double()
        return logits

    def _behind_prefixes(
        self,
        sizes: Tensor,
        inputs_of: InputsOf,
        prefixes: SharedPrefixes,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Texts that are run from where they differ from another: by number (P,), and their logits (P, C)."""
        plain = are_plain(prefixes.inputs, self.padding_read)  # (B,)
        prefixes = prefixes.where(plain[prefixes.text])
        shared = prefixes.length.cpu()
        place = torch.zeros(len(prefixes.inputs["input_ids"]), dtype=torch.long, device=self.device)
        for group in groups(prefixes, sizes, self.texts_together, load_of(self.device).padding):
            texts = group.texts.to(self.device)
            place[texts] = torch.arange(len(texts), device=self.device)
            cache = PrefixCache(self, {name: values[texts, : group.tokens] for name, values in prefixes.inputs.items()})
            for part in group.parts:
                rows = part.to(self.device)
                start = int(shared[part[0]])
                inputs = from_place(inputs_of(rows, int(sizes[part].max())), start)
                reach = cache.before(place[prefixes.text[rows]], start)
                yield part, self.predicted(inputs, reach).double()

    @torch.no_grad()
    def without(self, batch: Batch, keep: Tensor) -> Tensor:
        """Logits (B, K, C) with the tokens outside ``keep`` (B, K, T) deleted and the shorter text read as any other.

        Special tokens stay where they are kept. The result does not depend on how many are run together, and equal
        shortened texts have equal logits.
        """
        check_shape("keep", keep, "B K T")
        with self.analysing():
            return logits_without(self.inputs(batch), keep, self.predicted_in_parts, self.pad_token_id)
