"""What a model says of texts without some of their tokens, by the shortest way that its encoder allows.

- Encoders that read each token alone: the states stay, and the scores that are left are projected again.
- One recurrent layer, one token left out: only the states behind it change ahead, and those before it back.
- Convolutions, one token left out: only the windows that span it change.
- All else: each shortened text is run as it is, with others that are about as long.

The answers are the same but for rounding; which way is taken follows from the encoder and from what is left out. Of
shortened texts that are equal one is run, so that a tie stays one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.models.distinct_deletions import asked_once, first_equal, handed
from attn_faithful.models.encoders import CNNEncoder, RecurrentEncoder, TransformerEncoder

if TYPE_CHECKING:
    from attn_faithful.models.pooled import AttentionClassifier
    from attn_faithful.models.protocol import Encoded

STATES = 2**24  # numbers that the states of texts with one token left out may hold
RUN = 2**19  # the same of texts that are run again: what a processor's cache holds
ATTENDED = 2**22  # the same of a transformer's attention
BY_TOKEN = {"input_ids", "special_tokens_mask"}  # inputs of a number a token
WEIGHTS = 2**20  # attention weights projected together
LEFT = 1e-20  # attention left below which its ratios may be lost: float32 ends at 1e-38
SCORED = 512  # states scored together: what a processor's cache holds
PERIOD = 8  # columns between two looks at which rows have come back to their text's own states
ROUNDING = 4  # epsilons within which they have

Changed = tuple[Tensor, Tensor, Tensor]  # states (P, n), and the row and the token (P,) of each


def logits_without(model: AttentionClassifier, inputs: Mapping[str, Tensor], keep: Tensor, rows: int) -> Tensor:
    """Logits (B, K, C), in float32 at least, of a model in eval mode; see `AttentionClassifier.without`."""
    if ("input_ids" in inputs) == ("inputs_embeds" in inputs):
        raise InputError("Expected either `input_ids` or `inputs_embeds`, and not both.")
    first = first_equal(inputs, keep, ordered=not model.reads_alone)  # (B, K)
    if model.reads_alone:
        return handed(_projected_again(model, inputs, keep), first)
    asked = asked_once(first)
    mask = inputs.get("attention_mask")
    read = keep.new_ones(keep.shape[0], keep.shape[2]) if mask is None else mask.bool()
    left_out = (read[:, None] & ~keep).sum(-1)  # (B, K)
    kind = _kind(model)
    whole = left_out == 0
    single = (left_out == 1) & (kind is not None) & asked
    precise = torch.float64 if model.dtype == torch.float64 else torch.float32
    logits = torch.empty(*keep.shape[:2], model.config.num_labels, dtype=precise, device=keep.device)
    texts = None
    if kind is not None and bool(single.any()):
        texts = kind(model, inputs, read)
        logits[single] = _one_left_out(texts, read, keep, single).to(precise)
    if bool(whole.any()):
        own = model(**inputs).logits if texts is None else texts.whole()
        logits[whole] = own.to(precise)[whole.nonzero()[:, 0]]
    several = asked & ~(whole | single)
    if bool(several.any()):
        logits[several] = _run_again(model, inputs, read, keep, several, rows).to(precise)
    return handed(logits, first)


def _projected_again(model: AttentionClassifier, inputs: Mapping[str, Tensor], keep: Tensor) -> Tensor:
    encoded = model.encode(inputs)
    project = _renormalized if model.attention.projection == "softmax" else _projected
    parts = keep.split(max(1, WEIGHTS // max(1, keep.shape[0] * keep.shape[2])), dim=1)
    return torch.cat([encoded.decode(project(encoded, part)[:, :, None]) for part in parts], dim=1)


def _projected(encoded: Encoded, keep: Tensor) -> Tensor:
    attention = encoded.project(encoded.scores.expand(keep.shape), encoded.allowed & keep)
    return attention.to(encoded.attention.dtype)


def _renormalized(encoded: Encoded, keep: Tensor) -> Tensor:
    """Softmax of the scores that are left: the share of each weight, unless hardly any weight is left."""
    attention = encoded.attention * keep
    mass = attention.sum(-1, keepdim=True)
    attention /= mass.clamp(min=LEFT)
    if bool((little := mass[..., 0] < LEFT).any()):
        b, k = little.nonzero(as_tuple=True)
        again = encoded.project(encoded.scores[b, 0], encoded.allowed[b, 0] & keep[b, k])
        attention[b, k] = again.to(attention.dtype)
    return attention


def _run_again(
    model: AttentionClassifier, inputs: Mapping[str, Tensor], read: Tensor, keep: Tensor, asked: Tensor, rows: int
) -> Tensor:
    text, alternative = asked.nonzero(as_tuple=True)
    kept = read[text] & keep[text, alternative]  # (R, T)
    lengths = kept.sum(1)
    order = lengths.argsort(descending=True, stable=True)
    heads = model.config.num_heads if isinstance(model.encoder, TransformerEncoder) else 0
    logits, done = [], 0
    while done < len(order):
        longest = max(1, int(lengths[order[done]]))
        size = min(rows, RUN // (longest * model.encoder.width), ATTENDED // max(1, heads * longest**2))
        part = order[done : done + max(1, size)]
        first = torch.argsort(~kept[part], dim=1, stable=True)[:, :longest]
        chunk = {name: value[text[part]] for name, value in inputs.items()}
        for name in BY_TOKEN & chunk.keys():
            chunk[name] = chunk[name].gather(1, first)
        if "inputs_embeds" in chunk:
            chunk["inputs_embeds"] = _take(chunk["inputs_embeds"], first)
        chunk["attention_mask"] = kept[part].gather(1, first)
        logits.append(model(**chunk).logits)
        done += len(part)
    return torch.cat(logits)[order.argsort()]


def _one_left_out(texts: _Texts, read: Tensor, keep: Tensor, asked: Tensor) -> Tensor:
    text, alternative = asked.nonzero(as_tuple=True)
    place = (read[text] & ~keep[text, alternative]).int().argmax(1)
    size = max(1, STATES // texts.states[0].numel())
    return torch.cat([texts.without(*part) for part in zip(text.split(size), place.split(size), strict=True)])


def _kind(model: AttentionClassifier) -> type[_Texts] | None:
    encoder = model.encoder
    if isinstance(encoder, RecurrentEncoder):
        return _RecurrentTexts if len(encoder.ahead) == 1 else None
    return _ConvolvedTexts if isinstance(encoder, CNNEncoder) else None


class _Texts:
    """Texts of which one token is left out at a time; gaps are closed and padding stands behind.

    Args:
        model: in eval mode.
        inputs: of its forward.
        read: (B, T) bool.
    """

    def __init__(self, model: AttentionClassifier, inputs: Mapping[str, Tensor], read: Tensor) -> None:
        self.model = model
        self.query = model._ask(inputs.get("query_input_ids"), inputs.get("query_attention_mask"))
        self.candidates = inputs.get("candidates")
        special = inputs.get("special_tokens_mask")
        order = torch.argsort(~read, dim=1, stable=True)
        self.compact = torch.argsort(order, dim=1)  # where each position of the batch went
        self.lengths = read.sum(1)
        self.content = (read if special is None else read & ~special.bool()).gather(1, order)
        embedded = inputs["inputs_embeds"] if "inputs_embeds" in inputs else model.embedding(inputs["input_ids"].long())
        self.states = self.read(_take(embedded, order), read.gather(1, order))  # (B, T, N)
        scorer = model.attention.scorer
        features = scorer.features(self.states, self.query)  # (B, T, size)
        self.scores = scorer.of(features)  # (B, T)
        # the features without what each half of the states adds
        self.rest = [features - scorer.part(self.states[..., half], self.query, half) for half in self.halves]

    @property
    def halves(self) -> tuple[slice, ...]:
        """Columns of the states that change apart from one another."""
        raise TypeError("texts define halves")

    def read(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """States (B, T, N) of the whole texts."""
        raise TypeError("texts define read")

    def changed(self, text: Tensor, place: Tensor) -> list[Changed]:
        """For each half the states that are others in the texts (R,) without the token at each place (R,)."""
        raise TypeError("texts define changed")

    def whole(self) -> Tensor:
        """Logits (B, C) of the whole texts."""
        attention = self._project(self.scores, self.content)
        return self.model.read_out((attention[:, None] @ self.states)[:, 0], self.query, self.candidates)

    def without(self, text: Tensor, place: Tensor) -> Tensor:
        """Logits (R, C) of the texts (R,), in order, without the token at each place (R,) of the batch."""
        place = self.compact[text, place]
        changed = self.changed(text, place)
        scores = self.scores[text]  # (R, T)
        for half, rest, (states, row, token) in zip(self.halves, self.rest, changed, strict=True):
            scores[row, token] = self._score(half, rest, states, text[row], token)
        allowed = self.content[text]
        allowed[torch.arange(len(text), device=text.device), place] = False
        attention = self._project(scores, allowed)
        count = torch.bincount(text, minlength=len(self.states)).tolist()
        context = []
        for half, (states, row, token) in zip(self.halves, changed, strict=True):
            own = attention.clone()
            own[row, token] = 0
            mixed = torch.cat([a @ s for a, s in zip(own.split(count), self.states[..., half], strict=True)])
            context.append(mixed.index_add_(0, row, states.mul_(attention[row, token, None])))
        query, candidates = (None if v is None else v[text] for v in (self.query, self.candidates))
        return self.model.read_out(torch.cat(context, dim=-1), query, candidates)

    def _score(self, half: slice, rest: Tensor, states: Tensor, text: Tensor, token: Tensor) -> Tensor:
        scorer, index = self.model.attention.scorer, text * rest.shape[1] + token
        scores = [states.new_empty(0)]
        for s, b, i in zip(states.split(SCORED), text.split(SCORED), index.split(SCORED), strict=True):
            shape = (1, -1) if self.query is None else (-1, 1)  # as one text of many tokens, or each with its query
            features = scorer.part(s.unflatten(0, shape), None if self.query is None else self.query[b], half)
            features += rest.flatten(0, 1).index_select(0, i).unflatten(0, shape)
            scores.append(scorer.of(features).flatten())
        return torch.cat(scores)

    def _project(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return self.model.attention.project(scores, allowed).to(self.states.dtype)


class _ConvolvedTexts(_Texts):
    halves = (slice(None),)

    def read(self, embedded: Tensor, mask: Tensor) -> Tensor:
        inputs, convolutions = embedded * mask[:, :, None], self.model.encoder.convolutions
        # what each token adds to each filter from each place in its window; behind them a row for no token
        taps = [torch.einsum("bte,fek->btkf", inputs, c.weight).flatten(0, 2) for c in convolutions]
        self.taps = [F.pad(t, (0, 0, 0, 1)) for t in taps]
        return self.model.encoder(embedded, mask)

    def changed(self, text: Tensor, place: Tensor) -> list[Changed]:
        convolutions, size = self.model.encoder.convolutions, self.content.shape[1]
        reach = max(c.kernel_size[0] for c in convolutions) // 2
        # positions in the shortened text: from `place` on they belong to the token behind
        centre = place[:, None] + torch.arange(-reach, reach, device=place.device)
        row, column = ((centre >= 0) & (centre < self.lengths[text, None] - 1)).nonzero(as_tuple=True)
        centre, text, place = centre[row, column, None], text[row, None], place[row, None]
        states = []
        for convolution, taps in zip(convolutions, self.taps, strict=True):
            width = convolution.kernel_size[0]
            steps = torch.arange(width, device=place.device)
            window = centre + steps - width // 2  # (P, width)
            index = ((text * size) + window + (window >= place)) * width + steps
            there = (window >= 0) & (window < self.lengths[text] - 1)
            index = torch.where(there, index, len(taps) - 1)
            states.append(F.embedding_bag(index, taps, mode="sum") + convolution.bias)
        return [(torch.cat(states, dim=1).relu_(), row, (centre + (centre >= place))[:, 0])]


class _RecurrentTexts(_Texts):
    @property
    def halves(self) -> tuple[slice, ...]:
        n = self.model.encoder.width // 2
        return slice(0, n), slice(n, 2 * n)

    def read(self, embedded: Tensor, mask: Tensor) -> Tensor:
        size, encoder = mask.shape[1], self.model.encoder
        columns, first = torch.arange(size, device=mask.device), size - self.lengths
        ahead, back = (columns + self.lengths[:, None]) % size, (size - 1 - columns).expand_as(mask)
        self.ways = [
            _Way(net, embedded, token, first) for net, token in ((encoder.ahead[0], ahead), (encoder.back[0], back))
        ]
        return torch.cat([way.states for way in self.ways], dim=-1)

    def changed(self, text: Tensor, place: Tensor) -> list[Changed]:
        return [way.changed(text, place) for way in self.ways]


class _Way:
    """One direction of a recurrent layer over texts that end together, at the last column.

    Args:
        net: one way, one layer.
        embedded: (B, T, E).
        token: (B, T), which token each column reads.
        first: (B,), the column at which a text begins.
    """

    def __init__(self, net: nn.RNNBase, embedded: Tensor, token: Tensor, first: Tensor) -> None:
        self.cell = _LSTMCell(net) if isinstance(net, nn.LSTM) else _GRUCell(net)
        self.token, self.column, self.size = token, torch.argsort(token, dim=1), token.shape[1]
        self.inputs = self.cell.inputs(_take(embedded, token).transpose(0, 1).contiguous())  # (T, B, G)
        order = torch.argsort(first)
        state = [embedded.new_zeros(len(token), net.hidden_size) for _ in range(self.cell.parts)]
        self.own = [s.new_zeros(self.size + 1, *s.shape) for s in state]  # the text's own, before each column
        for column, _, high in self._steps(state, order, first[order], whole=True):
            for own, s in zip(self.own, state, strict=True):
                own[column + 1, order[:high]] = s[:high]

    @property
    def states(self) -> Tensor:
        """Of the whole texts, by token, (B, T, n)."""
        return _take(self.own[0][1:].transpose(0, 1), self.column)

    def changed(self, text: Tensor, place: Tensor) -> Changed:
        """The states behind the token at each place, on this way, without it."""
        left_out = self.column[text, place]
        order = torch.argsort(left_out, stable=True)
        text, left_out = text[order], left_out[order]
        state = [own[left_out, text] for own in self.own]
        states = state[0].new_empty(int((self.size - 1 - left_out).sum()), state[0].shape[1])
        spans, done = [], 0
        for column, low, high in self._steps(state, text, left_out + 1):
            states[done : done + high - low] = state[0][low:high]
            spans.append((column, low - done, high - low))
            done += high - low
        column, shift, count = torch.tensor(spans, dtype=torch.long, device=text.device).reshape(-1, 3).unbind(1)
        rank = torch.arange(done, device=text.device) + shift.repeat_interleave(count)
        return states[:done], order[rank], self.token[text[rank], column.repeat_interleave(count)]

    def _steps(
        self, state: list[Tensor], text: Tensor, start: Tensor, whole: bool = False
    ) -> Iterator[tuple[int, int, int]]:
        """Read column by column; rows `low` to `high` are under way, and `state` is theirs after `column`.

        Rows are in order of their start. A row whose states have come back to those of the whole text, but for
        rounding, would read on as the whole text did: it is left behind as soon as all before it are.
        """
        begun = torch.bincount(start, minlength=self.size + 1).cumsum(0).tolist()
        low = 0
        for column in range(self.size):
            high = begun[column]
            if low == high:
                continue
            now = [s[low:high] for s in state]
            self.cell.step(self.inputs[column], text[low:high], now)
            yield column, low, high
            if not whole and column % PERIOD == 0 and column >= 2 * PERIOD:
                old = max(0, begun[column - 2 * PERIOD] - low)
                low += self._come_back(column, [s[:old] for s in now], text[low : low + old])

    def _come_back(self, column: int, state: list[Tensor], text: Tensor) -> int:
        """How many rows, counted from the first to one that has not."""
        back = torch.ones_like(text, dtype=torch.bool)
        for own, s in zip(self.own, state, strict=True):
            whole = own[column + 1].index_select(0, text)
            near = ROUNDING * torch.finfo(s.dtype).eps * whole.abs().clamp_(min=1)
            back &= ((s - whole).abs_() <= near).all(1)
        return int(back.int().cumprod(0).sum())


class _Cell:
    """A recurrent cell whose inputs are mapped beforehand, once for all rows that read the same text."""

    parts: int  # tensors of the state; the first is what others see
    weight: Tensor
    bias: Tensor

    def __init__(self) -> None:
        self._held = torch.empty(0)

    def inputs(self, embedded: Tensor) -> Tensor:
        return F.linear(embedded, self.weight, self.bias)

    def gathered(self, inputs: Tensor, text: Tensor) -> Tensor:
        """``inputs[text]`` in memory that is used again: new memory for each column takes longer than the column."""
        if len(self._held) < len(text):
            self._held = inputs.new_empty(len(text), inputs.shape[1])
        return torch.index_select(inputs, 0, text, out=self._held[: len(text)])

    def step(self, inputs: Tensor, text: Tensor, state: list[Tensor]) -> None:
        """Read one token, of ``inputs`` (B, G) that of each row's text (R,); changes the states (R, n) in place."""
        raise TypeError("a cell defines step")


class _LSTMCell(_Cell):
    parts = 2

    def __init__(self, net: nn.LSTM) -> None:
        super().__init__()
        self.weight, self.bias = self._laid_out(net.weight_ih_l0), self._laid_out(net.bias_ih_l0 + net.bias_hh_l0)
        self.hidden = self._laid_out(net.weight_hh_l0).T.contiguous()

    @staticmethod
    def _laid_out(weight: Tensor) -> Tensor:
        # tanh(x) = 2 sigmoid(2 x) - 1: with the candidate doubled one sigmoid, three times as fast, does for all
        enter, forget, candidate, leave = weight.chunk(4)
        return torch.cat([enter, forget, 2 * candidate, leave])

    def step(self, inputs: Tensor, text: Tensor, state: list[Tensor]) -> None:
        hidden, memory = state
        gates = self.gathered(inputs, text).addmm_(hidden, self.hidden).sigmoid_()
        enter, forget, candidate, leave = gates.chunk(4, dim=1)
        memory.mul_(forget).addcmul_(enter, candidate, value=2).sub_(enter)
        torch.mul(memory, 2, out=hidden).sigmoid_().mul_(2).sub_(1).mul_(leave)


class _GRUCell(_Cell):
    parts = 1

    def __init__(self, net: nn.GRU) -> None:
        super().__init__()
        self.n = n = net.hidden_size
        self.weight, self.bias = net.weight_ih_l0, net.bias_ih_l0 + F.pad(net.bias_hh_l0[: 2 * n], (0, n))
        self.hidden, self.hidden_bias = net.weight_hh_l0.T.contiguous(), net.bias_hh_l0[2 * n :]

    def step(self, inputs: Tensor, text: Tensor, state: list[Tensor]) -> None:
        hidden, n = state[0], self.n
        gates, recurrent = self.gathered(inputs, text), hidden @ self.hidden
        reset, stay = gates[:, : 2 * n].add_(recurrent[:, : 2 * n]).sigmoid_().chunk(2, dim=1)
        candidate = gates[:, 2 * n :].addcmul_(reset, recurrent[:, 2 * n :].add_(self.hidden_bias)).tanh_()
        torch.lerp(candidate, hidden, stay, out=hidden)


def _take(values: Tensor, index: Tensor) -> Tensor:
    """``values`` (B, T, N) at the positions ``index`` (B, T) of each text."""
    flat = index + torch.arange(len(index), device=index.device)[:, None] * values.shape[1]
    return values.flatten(0, 1).index_select(0, flat.flatten()).unflatten(0, index.shape)
