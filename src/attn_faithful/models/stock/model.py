"""Any transformers classifier behind the protocol: its heads are read, replaced and the rest run again."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError, check_choice, check_shape
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.distinct_deletions import first_equal, from_first, is_first
from attn_faithful.models.protocol import JOINT, QUERIES, AttentionModel, Batch, Encoded, evaluating
from attn_faithful.models.stock.decoder import Decoder
from attn_faithful.models.stock.embedding import embedding
from attn_faithful.models.stock.interface import (
    KEYWORD,
    Alter,
    Call,
    Trace,
    configs_of,
    projection_of,
    register,
    traced,
)
from attn_faithful.models.stock.layers import Blocks
from attn_faithful.models.stock.probe import Probe, tried
from attn_faithful.models.stock.shortcuts import try_shortcuts
from attn_faithful.models.stock.slots import Slots
from attn_faithful.models.stock.thread_local import lock_of, told
from attn_faithful.models.supported import check_ids, check_logits, check_model, unwrapped
from attn_faithful.models.words import in_words

READ = ("input_ids", "attention_mask", "token_type_ids")


@dataclass
class StockOutput:
    """What the adapter's forward gives: logits (B, C)."""

    logits: Tensor
    hidden_states: None = None


@dataclass
class Seen:
    """One forward: its logits, and the attention calls that were read."""

    logits: Tensor
    calls: dict[int, Call]


class StockModel(nn.Module, AttentionModel):
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

    attention_path = "attached"  # of gradients, unless they are asked for otherwise
    reads_ids = True  # beside embeddings in their place
    reads_pairs = True  # as one text of two segments
    same_items = True
    layered = True

    def __init__(
        self,
        model: nn.Module,
        queries: str = "auto",
        heads: Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        register()
        outer, model = unwrapped(model)
        check_model(model)
        self.model = model
        self.config = model.config
        with lock_of(model):  # what another thread puts in place of forwards is not what is looked at here
            self.configs = configs_of(model)
            self.takes = set(inspect.signature(model.forward).parameters)
            self.blocks = Blocks(model)
            self.probe: Probe = tried(self, outer)
            self._choose("auto", None, None)
            self.skips = self.single = True
            try_shortcuts(self)
        self._choose(queries, heads, layers)

    @contextmanager
    def analysing(self) -> Iterator[None]:
        """Eval mode and full precision inside, for one thread at a time."""
        with lock_of(self.model), evaluating(self.model), torch.autocast(self.device.type, enabled=False):
            yield

    def _choose(self, queries: str, heads: Sequence[int] | None, layers: Sequence[int] | None) -> None:
        self.asked = {"queries": None if queries == "auto" else queries, "heads": heads, "layers": layers}
        self.queries = check_choice("queries", queries, QUERIES)
        self.layers = _chosen("layer", layers, len(self.probe.heads))
        self.heads = None if heads is None else _chosen("head", heads, min(self.probe.heads))
        self.sites = (*(f"layer.{i}" for i in self.layers), JOINT)

    def choosing(
        self, queries: str = "auto", heads: Sequence[int] | None = None, layers: Sequence[int] | None = None
    ) -> StockModel:
        """The same model, of which other rows, heads or layers are slots."""
        other = copy.copy(self)
        other._choose(queries, heads, layers)
        return other

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
        found = self.config.get_text_config().pad_token_id
        return 0 if found is None else int(found)

    @property
    def max_tokens(self) -> int | None:
        """The longest text that it can read, in tokens; None for any."""
        limit = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        tables = [m for name, m in self.model.named_modules() if name.endswith("position_embeddings")]
        before = [t.padding_idx + 1 for t in tables if getattr(t, "padding_idx", None) is not None]
        return limit if limit is None or not before else limit - max(before)

    @property
    def training_texts(self) -> Any:
        """The texts that it was trained on; None where unknown."""
        return getattr(self.model, "training_texts", None)

    @property
    def attention_layers(self) -> int:
        """How many attention layers a gradient passes."""
        return len(self.probe.heads)

    def get_input_embeddings(self) -> nn.Module:
        return self.model.get_input_embeddings()

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
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
        inputs = self.inputs({name: value for name, value in given.items() if value is not None})
        trace = Trace()
        if attention_weights is not None:
            held = attention_weights.unbind(1)
            trace.alter = {n: _instead(weights) for n, weights in enumerate(held)}
        with (
            lock_of(self.model),
            self._padded(inputs) as whole,
            embedding(self.model, whole["input_ids"], inputs_embeds),
        ):
            return StockOutput(self.run(whole, trace))

    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """What the model reads of a batch."""
        found = {name: batch[name] for name in READ if batch.get(name) is not None and name in self.takes}
        if "input_ids" not in found:
            raise InputError("Expected `input_ids` (B, T) in the batch.")
        check_ids(self.model, found["input_ids"])
        mask = found.setdefault("attention_mask", torch.ones_like(found["input_ids"]))
        if not self.probe.left and bool(((mask[:, :1] == 0) & mask.any(1, keepdim=True)).any()):
            raise InputError(
                f"{type(self.model).__name__} reads texts padded on the left as its attention implementation "
                f"{self.configs[0]._attn_implementation!r} has it and no other; pad on the right "
                "(tokenizer.padding_side), or call its set_attn_implementation('sdpa') first."
            )
        return found

    def run(self, inputs: dict[str, Tensor], trace: Trace) -> Tensor:
        """Logits (B, C) of one forward with a trace."""
        trace.projection = self.projection
        with lock_of(self.model), traced(self.configs):
            return self._logits(self.model, inputs, {KEYWORD: trace})

    def left_to_itself(self, inputs: dict[str, Tensor], outer: Any) -> Tensor:
        """Logits (B, C) of one forward as the user's model has it, under its own attention implementation."""
        with lock_of(self.model):
            return self._logits(outer, inputs, {})

    def _logits(self, model: Any, inputs: dict[str, Tensor], further: dict[str, Any]) -> Tensor:
        if "use_cache" in self.takes:
            further["use_cache"] = False
        with told(self.configs, return_dict=True), self._padded(inputs) as whole, self._uncompiled():
            output = model(**whole, **further)
        logits = check_logits(self.model, output, len(inputs["input_ids"]))
        return logits if logits.dtype == torch.float64 else logits.float()

    def _uncompiled(self) -> AbstractContextManager[Any]:
        """What was compiled in place (model.compile()) runs as it was written, where it can be read."""
        compiled = any(getattr(module, "_compiled_call_impl", None) is not None for module in self.model.modules())
        return torch.compiler.set_stance("force_eager") if compiled else nullcontext()

    @contextmanager
    def _padded(self, inputs: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """A padding id for models without one, which would refuse several texts: one that no text holds."""
        config = self.config.get_text_config()
        if config.pad_token_id is not None:
            yield inputs
            return
        ids, read = inputs["input_ids"], inputs["attention_mask"].bool()
        used = torch.zeros(config.vocab_size + 1, dtype=torch.bool, device=ids.device)
        used[ids[read]] = True
        free = int((~used).int().argmax())
        if free >= config.vocab_size:
            raise InputError("The model has no padding id, and the texts leave no other to stand for it.")
        with told([config], pad_token_id=free):
            yield {**inputs, "input_ids": torch.where(read, ids, free)}

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
        return {"attention_weights": torch.stack([calls[n].attention for n in sorted(calls)], dim=1)}

    def calls(self, site: str) -> list[int]:
        """The layers of a site, by number.

        Raises:
            InputError: there is no such site.
        """
        place = self.sites.index(check_choice("site", site, self.sites))
        return list(self.layers) if site == JOINT else [self.layers[place]]

    def reading(self, call: int) -> str:
        """Whose rows make the slots of a layer: "token", "mean" or "all"."""
        if self.queries != "auto":
            return self.queries
        return "token" if self.probe.reads in ("first", "last") and not self.probe.encoder[call] else "mean"

    def alone(self, call: int) -> bool:
        """Whether after a layer's attention nothing but the token that the classifier reads is needed."""
        steps = self.blocks.steps[self.blocks.before(call) :]
        last = call == len(self.probe.heads) - 1 and bool(steps) and steps[0].first == call
        return self.single and self.skips and last and self.blocks.before(call) > 0 and self.reading(call) == "token"

    def encode(self, batch: Batch, site: str) -> Encoded:
        """Run the model once in eval mode and return what the heads did at one layer, or at all.

        Args:
            batch: `input_ids`, `attention_mask`, perhaps `token_type_ids`; `special_tokens_mask` (B, T), 1 at tokens
                that no test may move; `word_ids` (B, T), the word of each token, for words as units.
            site: one of `sites`.
        """
        calls, inputs = self.calls(site), self.inputs(batch)
        count = self.blocks.before(calls[0]) if self.skips else 0
        kept: dict[int, Any] = {}
        trace = Trace(read=set(calls))
        with self.analysing(), self.blocks.keeping(count, kept):
            logits = self.run(inputs, trace)
        slots = [self._slots(trace.seen[n], n, inputs) for n in calls]
        decoder = Decoder(self, inputs, calls, slots, count, kept, trace.seen)
        encoded = self._encoded(batch, inputs, slots, logits, decoder)
        words = batch.get("word_ids")
        return encoded if words is None else in_words(encoded, words)

    def _slots(self, call: Call, n: int, inputs: dict[str, Tensor]) -> Slots:
        rows = inputs["attention_mask"].bool()
        reading = self.reading(n)
        if reading == "token":
            place = self.probe.place(inputs, self.config)
            rows = torch.zeros_like(rows).scatter(1, place[:, None], True)
        heads = list(range(self.probe.heads[n])) if self.heads is None else list(self.heads)
        return Slots(call, rows, reading, heads, self.probe.shifted[n], self.projection)

    def _encoded(
        self, batch: Batch, inputs: dict[str, Tensor], slots: list[Slots], logits: Tensor, decoder: Decoder
    ) -> Encoded:
        content = inputs["attention_mask"].bool()
        if batch.get("special_tokens_mask") is not None:
            content = content & ~batch["special_tokens_mask"].bool()
        attention, allowed = (torch.cat([getattr(s, name) for s in slots], dim=1) for name in ("attention", "allowed"))
        scores = [s.scores for s in slots]
        known = all(s is not None for s in scores)
        project = slots[0].project if known else None
        softmax = known and self.projection == "softmax"
        every = torch.cat(scores, dim=1) if known else None
        logs = every.masked_fill(~allowed, -torch.inf).log_softmax(-1) if softmax else None
        return Encoded(
            attention=attention,
            allowed=allowed,
            content=content,
            items="token",
            logits=logits,
            decode=decoder,
            scores=every,
            project=project,
            multi_label=self.multi_label,
            log_weights=None if logs is None else torch.where(allowed, logs, -torch.inf),
            pooled=torch.stack([s.pooled for s in slots]).mean(0),
        )

    @torch.no_grad()
    def without(self, batch: Batch, keep: Tensor) -> Tensor:
        """Logits (B, K, C) with the tokens outside ``keep`` (B, K, T) deleted and the shorter text read as any other.

        Special tokens stay where they are kept. The result does not depend on how many are run together, and equal
        shortened texts have equal logits.
        """
        check_shape("keep", keep, "B K T")
        inputs = self.inputs(batch)
        read = inputs["attention_mask"].bool()[:, None] & keep  # (B, K, T)
        first = first_equal(inputs, keep)  # (B, K)
        lengths = read.sum(-1).flatten()
        texts = torch.arange(len(keep), device=keep.device).repeat_interleave(keep.shape[1])
        order = lengths.argsort(descending=True, stable=True)
        order = order[is_first(first).flatten()[order]]
        logits = torch.zeros(len(lengths), self.config.num_labels, device=keep.device, dtype=torch.float64)
        at = 0
        with self.analysing():
            while at < len(order):
                size = max(1, int(lengths[order[at]]))
                rows = order[at : at + max(1, CELLS // self.cost(size))]
                kept = read.flatten(0, 1)[rows]
                ahead = torch.argsort(~kept, dim=1, stable=True)[:, :size]
                own = {name: values[texts[rows]].gather(1, ahead) for name, values in inputs.items()}
                there = kept.gather(1, ahead)
                own["attention_mask"] = there.to(own["attention_mask"].dtype)
                own["input_ids"] = torch.where(there, own["input_ids"], self.pad_token_id)
                logits[rows] = self.run(own, Trace()).double()
                at += len(rows)
        return from_first(logits.view(*keep.shape[:2], self.config.num_labels), first)


def _instead(weights: Tensor) -> Alter:
    return lambda own, allowed: weights.to(own.dtype)


def _chosen(what: str, asked: Sequence[int] | int | None, count: int) -> list[int]:
    if asked is None:
        return list(range(count))
    asked = [asked] if isinstance(asked, int) else asked
    if isinstance(asked, str) or not all(isinstance(n, int) for n in asked):
        raise InputError(f"Expected {what}s by number, such as [0, {count - 1}], but got {asked!r}.")
    found = sorted({n + count if n < 0 else n for n in asked})
    if not found or found[0] < 0 or found[-1] >= count:
        raise InputError(f"Expected {what}s of 0 to {count - 1}, but got {list(asked)}.")
    return found
