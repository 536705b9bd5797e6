"""Any transformers classifier behind the protocol: its heads are read, replaced and the rest run again."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError, check_choice
from attn_faithful.models.protocol import JOINT, QUERIES, Batch, Encoded
from attn_faithful.models.stock.changed_row import ChangedRow
from attn_faithful.models.stock.decoder import Decoder, Reading
from attn_faithful.models.stock.embedding import embedding
from attn_faithful.models.stock.half import DTYPES, put_in_half
from attn_faithful.models.stock.interface import Alter, Call, Trace, register
from attn_faithful.models.stock.last_block import LastBlock
from attn_faithful.models.stock.predictions import StockPredictions
from attn_faithful.models.stock.probe import Probe, tried
from attn_faithful.models.stock.shortcuts import try_shortcuts
from attn_faithful.models.stock.slots import Slots
from attn_faithful.models.stock.tail import StockTail
from attn_faithful.models.stock.thread_local import lock_of
from attn_faithful.models.supported import check_model, unwrapped
from attn_faithful.models.words import in_words


@dataclass
class StockOutput:
    """What the wrapper's forward gives: logits (B, C)."""

    logits: Tensor
    hidden_states: None = None


@dataclass
class Seen:
    """One forward: its logits, and the attention calls that were read."""

    logits: Tensor
    calls: dict[int, Call]


class StockModel(StockPredictions):
    """A transformers classifier that speaks the protocol of attention models.

    The model itself stays as it is: its weights, mode, hooks and attention implementation. Its attention is computed
    by one function registered with transformers, see `attn_faithful.models.stock.interface`.

    Args:
        model: a classifier that uses transformers' attention interface, in float32; it may be inside of
            `torch.compile`, `DataParallel` or adapters of peft.
        queries: whose attention the slots of a site are. "token": the row of the token that the classifier reads, a
            slot a head; "mean": the mean over the text's rows, a slot a head (a change of the mean is dealt to each
            row in proportion); "all": a slot a head and row. "auto" is "token" where the classifier reads one token,
            and "mean" elsewhere.
        heads: only these, by number; None for all. The others keep their attention whatever a test does.
        layers: only these, by number; None for all.
        dtype: what the blocks of the transformer compute in: "float32", or with numbers that are a little off
            "bfloat16" or "float16", see `attn_faithful.models.stock.half`. Attention, the classifier and all that is
            measured stay float32.

    Attributes:
        sites: "layer.0" and so on, in the order of their calls, and "joint", the heads of all of them at once.
        asked: what was chosen of queries, heads and layers; None for what was left to the defaults.

    Raises:
        InputError: a model that does not use the interface, or only in part, no classifier, half precision (see
            `attn_faithful.models.supported`), a layer or head that does not exist.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> bert = BertForSequenceClassification(BertConfig(
        ...     vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16))
        >>> model = StockModel(bert)
        >>> batch = {"input_ids": torch.tensor([[2, 7, 8, 3]]), "attention_mask": torch.ones(1, 4).long(),
        ...     "special_tokens_mask": torch.tensor([[1, 0, 0, 1]])}
        >>> model.sites, model.encode(batch, "layer.1").attention.shape
        (('layer.0', 'layer.1', 'joint'), torch.Size([1, 2, 4]))
    """

    attention_path = "attached"
    reads_ids = True
    reads_pairs = True
    same_items = True
    layered = True

    def __init__(
        self,
        model: nn.Module,
        queries: str = "auto",
        heads: Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
        dtype: str = "float32",
    ) -> None:
        register()
        outer, inner = unwrapped(model)
        check_model(inner)
        with lock_of(inner):  # what another thread puts in place of forwards is not what is looked at here
            super().__init__(inner)
            self.probe: Probe = tried(self, outer)
            self._choose("auto", None, None)
            try_shortcuts(self)
            if check_choice("dtype", dtype, DTYPES) != "float32":
                put_in_half(self, dtype)
        self._choose(queries, heads, layers)

    def _choose(
        self,
        queries: str,
        heads: Sequence[int] | None,
        layers: Sequence[int] | None,
    ) -> None:
        asked_queries = None if queries == "auto" else queries
        self.asked = {"queries": asked_queries, "heads": heads, "layers": layers}
        self.queries = check_choice("queries", queries, QUERIES)
        self.layers = _chosen("layer", layers, len(self.probe.heads))
        self.heads = None
        if heads is not None:
            self.heads = _chosen("head", heads, min(self.probe.heads))
        names = [f"layer.{layer}" for layer in self.layers]
        self.sites = (*names, JOINT)

    def choosing(
        self,
        queries: str = "auto",
        heads: Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
    ) -> StockModel:
        """The same model, of which other rows, heads or layers are slots."""
        other = copy.copy(self)
        other._choose(queries, heads, layers)
        return other

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        attention_weights: Tensor | None = None,
    ) -> StockOutput:
        """Logits of a batch.

        Args:
            input_ids, attention_mask, token_type_ids: (B, T).
            inputs_embeds: (B, T, E), in place of the embeddings of `input_ids`; positions are added as ever.
            attention_weights: (B, L, H, T, T), in place of the attention of every layer, see `fixed_attention`.
        """
        batch = {"input_ids": input_ids}
        if attention_mask is not None:
            batch["attention_mask"] = attention_mask
        if token_type_ids is not None:
            batch["token_type_ids"] = token_type_ids
        inputs = self.inputs(batch)
        trace = Trace()
        if attention_weights is not None:
            of_layers = attention_weights.unbind(1)  # (B, H, T, T) each
            trace.alter = {layer: _replaced_by(weights) for layer, weights in enumerate(of_layers)}
        with (
            lock_of(self.model),
            self.padded(inputs) as padded,
            embedding(self.model, padded["input_ids"], inputs_embeds),
        ):
            if attention_weights is None and not self.model.training:
                return StockOutput(self.predicted(padded))
            return StockOutput(self.run(padded, trace))

    def seen(self, batch: Batch, calls: set[int] | None = None) -> Seen:
        """One forward in eval mode, with the attention calls asked for (all for None), gradients as outside."""
        trace = Trace(read=calls)
        with self.analysing():
            logits = self.run(self.inputs(batch), trace)
        return Seen(logits, trace.seen)

    def fixed_attention(self, batch: Batch) -> dict[str, Tensor]:
        """Arguments of the forward that hold all of the model's attention as it is."""
        with torch.no_grad():
            calls = self.seen(batch).calls
        attention = [calls[number].attention for number in sorted(calls)]  # (B, H, T, T) each
        return {"attention_weights": torch.stack(attention, dim=1)}

    def calls(self, site: str) -> list[int]:
        """The layers of a site, by number.

        Raises:
            InputError: there is no such site.
        """
        place = self.sites.index(check_choice("site", site, self.sites))
        if site == JOINT:
            return list(self.layers)
        return [self.layers[place]]

    def reading(self, call: int) -> str:
        """Whose rows make the slots of a layer: "token", "mean" or "all"."""
        if self.queries != "auto":
            return self.queries
        one_token = self.probe.reads in ("first", "last")
        if one_token and not self.probe.encoder[call]:
            return "token"
        return "mean"

    def encode(self, batch: Batch, site: str) -> Encoded:
        """Run the model once and return what the heads did at one layer, or at all.

        Args:
            batch: `input_ids`, `attention_mask`, perhaps `token_type_ids`; `special_tokens_mask` (B, T), 1 at tokens
                that no test may move; `word_ids` (B, T), the word of each token, for words as units.
            site: one of `sites`.
        """
        calls = self.calls(site)
        inputs = self.inputs(batch)
        count = self.blocks.before(calls[0]) if self.skips else 0
        outputs: dict[int, Any] = {}
        place = changed_row = None
        of_one_row = len(calls) == 1 and self.reading(calls[0]) == "token"
        if of_one_row and self.needs_one_token(calls[0]):
            place = self.probe.place(inputs, self.config)
        with self.analysing(), self.blocks.keeping(count, outputs):
            if place is not None and self.ends_early:
                last_block = LastBlock(self, inputs, place, self.query_layers, read=True)
                logits = last_block.logits()
                trace = last_block.trace
            else:
                trace = Trace(read=set(calls))
                logits = self.run(inputs, trace)
        seen = {call: trace.seen[call] for call in calls}
        reading = Reading(inputs, logits, seen, count, outputs)
        slots = [self.slots_of(seen[call], call, inputs) for call in calls]
        if of_one_row and self.changes_one_row(calls[0]):
            place_of_row = self.probe.place(inputs, self.config)
            changed_row = ChangedRow(self, inputs, outputs, count, place_of_row, self.query_layers)
        decode = Decoder(self, reading, slots, place, changed_row, self.cost)
        encoded = self._encoded(batch, reading, slots, decode)
        words = batch.get("word_ids")
        if words is None:
            return encoded
        return in_words(encoded, words)

    def slots_of(self, call: Call, number: int, inputs: dict[str, Tensor]) -> Slots:
        """What a layer's heads did in a forward as slots."""
        rows = inputs["attention_mask"].bool()  # (B, Q)
        reading = self.reading(number)
        if reading == "token":
            place = self.probe.place(inputs, self.config)  # (B,)
            rows = torch.zeros_like(rows).scatter(1, place[:, None], True)
            if call.attention.shape[2] == 1:  # the row of this token alone
                rows = torch.ones_like(place[:, None], dtype=torch.bool)
        heads = self.heads
        if heads is None:
            heads = list(range(self.probe.heads[number]))
        return Slots(call, rows, reading, heads, self.probe.shifted[number], self.projection)

    def _encoded(
        self,
        batch: Batch,
        reading: Reading,
        slots: list[Slots],
        decode: Decoder,
    ) -> Encoded:
        content = reading.inputs["attention_mask"].bool()  # (B, T)
        special = batch.get("special_tokens_mask")
        if special is not None:
            content = content & ~special.to(content.device).bool()
        # (B, S, T) each, of all layers
        attention = torch.cat([each.attention for each in slots], dim=1)
        allowed = torch.cat([each.allowed for each in slots], dim=1)
        scores = None
        project = None
        log_weights = None
        if all(each.scores is not None for each in slots):
            scores = torch.cat([each.scores for each in slots], dim=1)
            project = slots[0].project
            if self.projection == "softmax":
                log_weights = scores.masked_fill(~allowed, -torch.inf).log_softmax(-1)
                log_weights = torch.where(allowed, log_weights, -torch.inf)
        return Encoded(
            attention=attention,
            allowed=allowed,
            content=content,
            items="token",
            logits=reading.logits,
            decode=decode,
            scores=scores,
            project=project,
            multi_label=self.multi_label,
            log_weights=log_weights,
            pooled=torch.stack([each.pooled for each in slots]).mean(0),
            tail=StockTail(decode),
        )


def _replaced_by(weights: Tensor) -> Alter:
    return lambda own, allowed: weights.to(own.dtype)


def _chosen(
    what: str,
    numbers: Sequence[int] | int | None,
    count: int,
) -> list[int]:
    """Layers or heads by number from 0, in order, without those that are named twice; all for None."""
    if numbers is None:
        return list(range(count))
    if isinstance(numbers, int):
        numbers = [numbers]
    all_numbers = all(isinstance(number, int) for number in numbers)
    if isinstance(numbers, str) or not all_numbers:
        raise InputError(f"Expected {what}s by number, such as [0, {count - 1}], but got {numbers!r}.")
    # -1 is the last
    from_zero = {number + count if number < 0 else number for number in numbers}
    chosen = sorted(from_zero)
    if not chosen or chosen[0] < 0 or chosen[-1] >= count:
        raise InputError(f"Expected {what}s of 0 to {count - 1}, but got {list(numbers)}.")
    return chosen
