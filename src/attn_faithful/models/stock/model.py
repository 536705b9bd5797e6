"""Any transformers classifier behind the protocol: its heads are read, replaced and the rest run again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError, check_choice, check_shape
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.protocol import JOINT, QUERIES, Batch, Encoded
from attn_faithful.models.stock.changed_row import ChangedRow
from attn_faithful.models.stock.decoder import Decoder, Reading
from attn_faithful.models.stock.deletion import logits_without
from attn_faithful.models.stock.embedding import embedding
from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import Alter, Call, Trace, register
from attn_faithful.models.stock.last_block import can_end_early, logits_by_one_row
from attn_faithful.models.stock.packing import load_of, packed, widest
from attn_faithful.models.stock.probe import Probe, tried
from attn_faithful.models.stock.slots import Slots
from attn_faithful.models.stock.thread_local import lock_of
from attn_faithful.models.supported import check_ids, check_model, unwrapped
from attn_faithful.models.words import in_words

READ = ("input_ids", "attention_mask", "token_type_ids")
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # within which logits past a shortcut are those of the whole model


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


class StockModel(StockForward):
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

    Attributes:
        sites: "layer.0" and so on, in the order of their calls, and "joint", the heads of all of them at once.
        asked: what was chosen of queries, heads and layers; None for what was left to the defaults.
        skips: whether blocks whose outputs are known may be left out.
        single: whether at the last layer all tokens but the one that the classifier reads may be left out too.
        ends_early: whether the last block may be run for that token alone where no attention is asked for.
        rows: whether behind a layer below the last all rows but that token's keep queries, keys and values.

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
    ) -> None:
        register()
        outer, inner = unwrapped(model)
        check_model(inner)
        with lock_of(inner):  # what another thread puts in place of forwards is not what is looked at here
            super().__init__(inner)
            self.width = widest(inner)
            self.probe: Probe = tried(self, outer)
            self._choose("auto", None, None)
            self._try_shortcuts()
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

    @torch.no_grad()
    def _try_shortcuts(self) -> None:
        """Set `skips`, `single`, `ends_early` and `rows` where the logits by a shortcut are those of the whole model."""
        self.skips = True
        self.single = True
        self.ends_early = False
        self.rows = False
        complete_of = {}
        for site in self.sites[:-1]:
            # the decoder asks these two whenever it is called
            self.skips = False
            self.single = False
            complete = self._logits_of_first_positions(site)  # (B, 1, C)
            complete_of[site] = complete
            self.skips = True
            shortened = self._logits_of_first_positions(site)
            if not torch.allclose(shortened, complete, **CLOSE):
                self.skips = False
                return
        # of the last layer
        self.single = True
        shortened = self._logits_of_first_positions(site)
        self.single = torch.allclose(shortened, complete, **CLOSE)
        calls = len(self.probe.heads)
        if not (self.needs_one_token(calls - 1) and can_end_early(self, calls)):
            return
        self.ends_early = True
        self.ends_early = self._agrees(lambda: self.logits_of(self.probe.texts), self.run_whole(self.probe.texts))
        self.rows = True
        for site in self.sites[:-2]:
            self.rows = self.rows and self._agrees(partial(self._logits_of_first_positions, site), complete_of[site])

    @staticmethod
    def _agrees(shortcut: Callable[[], Tensor], complete: Tensor) -> bool:
        """Whether a shortcut gives the logits of the whole model; a model whose code cannot take it raises something."""
        try:
            return torch.allclose(shortcut().to(complete.dtype), complete, **CLOSE)
        except Exception:
            return False

    def run_whole(self, inputs: dict[str, Tensor]) -> Tensor:
        """Logits (B, C) of one whole forward in eval mode."""
        with self.analysing():
            return self.run(inputs, Trace())

    def _logits_of_first_positions(self, site: str) -> Tensor:
        """Logits of the probe's texts where each head of a site sees only the first position that it may."""
        encoded = self.encode(self.probe.texts, site)
        first = encoded.allowed & (encoded.allowed.cumsum(-1) == 1)  # (B, S, T)
        attention = first.to(encoded.attention.dtype)
        return encoded.decode(attention[:, None])

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

    @property
    def attention_layers(self) -> int:
        """How many attention layers a gradient passes."""
        return len(self.probe.heads)

    def cost(self, length: int) -> int:
        """Cells that a text of so many tokens takes, see `blocks.CELLS`: its attention beside its tokens."""
        return length * max(1, max(self.probe.heads) * length // 1024)

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
            if attention_weights is None and not (self.model.training or torch.is_grad_enabled()):
                return StockOutput(self.predicted(padded))
            return StockOutput(self.run(padded, trace))

    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """What the model reads of a batch."""
        inputs = {}
        for name in READ:
            if name in self.takes and batch.get(name) is not None:
                inputs[name] = batch[name]
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

    def needs_one_token(self, call: int) -> bool:
        """Whether after a layer's attention nothing but the token that the classifier reads is needed."""
        is_last = call == len(self.probe.heads) - 1
        if not is_last or not (self.single and self.skips):
            return False
        before = self.blocks.before(call)
        following = self.blocks.steps[before:]
        starts_block = bool(following) and following[0].first == call
        return starts_block and before > 0 and self.reading(call) == "token"

    def predicted(self, inputs: dict[str, Tensor]) -> Tensor:
        """Logits (B, C) of what the model reads, by the shortest way; to be called under `analysing`."""
        if not self.ends_early:
            return self.run(inputs, Trace())
        place = self.probe.place(inputs, self.config)
        return logits_by_one_row(self, inputs, len(self.probe.heads), place)

    @torch.no_grad()
    def logits_of(self, batch: Batch) -> Tensor:
        """Logits (B, C) of texts whose attention nobody asks for, cut behind their last tokens."""
        inputs = self.inputs(batch)
        length = inputs["input_ids"].shape[1]
        places = torch.arange(1, length + 1, device=self.device)
        lengths = (places * inputs["attention_mask"].bool()).amax(1)  # (B,)

        def cut(rows: Tensor, longest: int) -> dict[str, Tensor]:
            return {name: values[rows, :longest] for name, values in inputs.items()}

        with self.analysing():
            return self.predicted_in_parts(lengths, cut)

    def texts_together(self, length: int) -> int:
        """How many texts of so many tokens are run together: what the device's cache, and its memory, hold."""
        by_width = load_of(self.device).activations // (self.width * length)
        by_attention = CELLS // self.cost(length)
        return max(1, min(by_width, by_attention))

    def predicted_in_parts(self, lengths: Tensor, inputs_of: Callable[[Tensor, int], dict[str, Tensor]]) -> Tensor:
        """Logits (R, C) of texts with so many tokens (R,), run with others of nearly their length.

        Args:
            lengths: of each text.
            inputs_of: what the model reads of some of them (P,), in so many places.
        """
        load = load_of(self.device)
        logits = torch.zeros(len(lengths), self.config.num_labels, device=self.device, dtype=torch.float64)
        for rows in packed(lengths, self.texts_together, load.padding):
            longest = max(1, int(lengths[rows[0]]))
            logits[rows] = self.predicted(inputs_of(rows, longest)).double()
        return logits

    def changes_one_row(self, call: int) -> bool:
        """Whether behind a layer below the last only the row of the token that the classifier reads is another."""
        if not (self.ends_early and self.rows) or self.reading(call) != "token":
            return False
        steps = self.blocks.steps[self.blocks.before(call) :]
        one_call_each = all(step.last == step.first + 1 for step in steps)
        one_stack = len({step.stack for step in steps}) == 1
        return one_call_each and one_stack and steps[0].first == call

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
        trace = Trace(read=set(calls))
        with self.analysing(), self.blocks.keeping(count, outputs):
            logits = self.run(inputs, trace)
        seen = {call: trace.seen[call] for call in calls}
        reading = Reading(inputs, logits, seen, count, outputs)
        slots = [self._slots(seen[call], call, inputs) for call in calls]
        place = changed_row = None
        if len(calls) == 1 and self.needs_one_token(calls[0]):
            place = self.probe.place(inputs, self.config)
        elif len(calls) == 1 and self.changes_one_row(calls[0]):
            place_of_row = self.probe.place(inputs, self.config)
            changed_row = ChangedRow(self, inputs, outputs, count, place_of_row)
        decode = Decoder(self, reading, slots, place, changed_row, self.cost)
        encoded = self._encoded(batch, reading, slots, decode)
        words = batch.get("word_ids")
        if words is None:
            return encoded
        return in_words(encoded, words)

    def _slots(self, call: Call, number: int, inputs: dict[str, Tensor]) -> Slots:
        rows = inputs["attention_mask"].bool()  # (B, Q)
        reading = self.reading(number)
        if reading == "token":
            place = self.probe.place(inputs, self.config)  # (B,)
            rows = torch.zeros_like(rows).scatter(1, place[:, None], True)
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
            content = content & ~special.bool()
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
        )

    @torch.no_grad()
    def without(self, batch: Batch, keep: Tensor) -> Tensor:
        """Logits (B, K, C) with the tokens outside ``keep`` (B, K, T) deleted and the shorter text read as any other.

        Special tokens stay where they are kept. The result does not depend on how many are run together, and equal
        shortened texts have equal logits.
        """
        check_shape("keep", keep, "B K T")
        with self.analysing():
            return logits_without(self.inputs(batch), keep, self.predicted_in_parts, self.pad_token_id)


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
