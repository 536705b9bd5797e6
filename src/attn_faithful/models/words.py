"""Words as the items of attention: what a model did over sub-word tokens, seen over the words that they spell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.projections import softmax
from attn_faithful.functional.tail import Tail
from attn_faithful.models.protocol import Affine, Encoded, check_alternatives
from attn_faithful.models.row_decoding import decode_rows


def in_words(encoded: Encoded, word_ids: Tensor) -> Encoded:
    """Attention over words: the weight of a word is the sum of its tokens' weights, ``A_w = sum_{t in w} a_t``.

    Items are the words of a text in order, and behind them one item for each other position that attention reaches
    (special tokens), no content. Another attention over words is dealt to the tokens before the model decodes it: a
    word's weight in the proportions of its tokens' own weights in that slot, ``a_t = A_w own_t / own_w``, evenly over
    the allowed ones where all of them are 0. So the own attention gives the own logits, an affine read-out stays
    affine, and a softmax stays one, whose scores are ``log sum_{t in w} exp s_t``.

    Args:
        encoded: over tokens.
        word_ids: (B, T), the word of each content token, numbered from 0 without gaps; -1 where there is none.

    Returns:
        an `Encoded` whose items are words, with `members` saying which word each token belongs to.

    Raises:
        InputError: another shape, a content token without a word, or items that are no tokens.

    Example:
        >>> weights, logits = torch.tensor([[[0.1, 0.2, 0.3, 0.15, 0.25]]]), torch.zeros(1, 2)
        >>> tokens = Encoded(
        ...     weights, weights > 0, weights[:, 0] > 0, "token", logits, lambda a: a.sum(-1).expand(-1, -1, 2))
        >>> words = in_words(tokens, torch.tensor([[0, 1, 1, 1, 2]]))
        >>> words.attention.round(decimals=2)
        tensor([[[0.1000, 0.6500, 0.2500]]])
    """
    _check_words(encoded, word_ids)
    members = torch.where(encoded.content, word_ids.long(), -1)  # (B, T)
    apart = encoded.allowed.any(1) & ~encoded.content  # (B, T), such as special tokens
    items = _Items.of(members, apart)
    # (B, S, items) each
    attention = items.sum(encoded.attention)
    log_weights = None
    if encoded.log_weights is not None:
        log_weights = items.log_sum(encoded.log_weights)
    count = items.sum(encoded.allowed.to(attention.dtype))  # of allowed tokens
    share = _shares(encoded, items, attention, log_weights, count)  # (B, S, T)

    def project(scores: Tensor, allowed: Tensor) -> Tensor:
        return softmax(scores, allowed).to(attention.dtype)

    pooled = None
    if encoded.pooled is not None:
        pooled = items.sum(encoded.pooled[:, None])[:, 0]  # (B, items)
    affine = None
    if encoded.affine is not None:
        affine = _over_items(encoded.affine, items, share)
    content_tokens = items.sum(encoded.content[:, None].to(attention.dtype))[:, 0]  # how many, (B, items)
    return replace(
        encoded,
        attention=attention,
        allowed=count > 0,
        content=content_tokens > 0,
        items="word",
        decode=_WordDecode(encoded.decode, items, share),
        scores=log_weights,
        project=None if log_weights is None else project,
        affine=affine,
        log_weights=log_weights,
        pooled=pooled,
        members=members,
        tail=None if encoded.tail is None else _WordTail(encoded.tail, items, share),
        states=None,
    )


@dataclass(frozen=True)
class _WordTail:
    """The tail over items: what weight 1 on an item adds is the sum over its tokens of what their shares add.

    Attributes:
        of_tokens: the tail over tokens.
        items, share: as of `_WordDecode`.
    """

    of_tokens: Callable[[Tensor], Tail]
    items: _Items
    share: Tensor

    def __call__(self, texts: Tensor) -> Tail:
        """Of some texts (R,)."""
        tail = self.of_tokens(texts)
        items = _Items(self.items.index[texts], self.items.size)
        share = self.share[texts].detach().to(tail.values.dtype)  # (R, S, T)
        by_slot = []
        for of_slot in (tail.values * share[..., None]).unbind(1):  # (R, T, D) each
            by_slot.append(items.sum(of_slot.transpose(1, 2)).transpose(1, 2))  # (R, items, D)
        return replace(tail, values=torch.stack(by_slot, dim=1))


@dataclass(frozen=True)
class _WordDecode:
    """Logits under other attention over items, dealt to the tokens that a model decodes.

    Attributes:
        of_tokens: `decode` of the attention over tokens.
        items: which token belongs to which.
        share: (B, S, T), what each token gets of its item's weight.
    """

    of_tokens: Callable[[Tensor], Tensor]
    items: _Items
    share: Tensor

    def __call__(self, weights: Tensor) -> Tensor:
        """(B, K, S, items) -> (B, K, C)."""
        check_alternatives(weights)
        dealt = self.items.at_tokens(weights) * self.share[:, None].to(weights.dtype)  # (B, K, S, T)
        return self.of_tokens(dealt)

    def rows(self, weights: Tensor, text: Tensor) -> Tensor:
        """Logits (R, C) under weights (R, S, items) of some texts (R,), see `row_decoding.decode_rows`."""
        items = _Items(self.items.index[text], self.items.size)
        dealt = items.at_tokens(weights) * self.share[text].to(weights.dtype)  # (R, S, T)
        return decode_rows(self.of_tokens, dealt, text, len(self.share))


def _check_words(encoded: Encoded, word_ids: Tensor) -> None:
    """Raise unless every content token has a word."""
    if encoded.members is not None:
        raise InputError(f"Words are made of tokens, but this site attends to {encoded.items}s; choose another site.")
    check_shape("word_ids", word_ids, "B T")
    if word_ids.shape != encoded.content.shape:
        raise InputError(
            f"Expected `word_ids` of shape {tuple(encoded.content.shape)}, but got {tuple(word_ids.shape)}."
        )
    if bool((encoded.content & (word_ids < 0)).any()):
        raise InputError("Expected a word for every content token, but `word_ids` is below 0 at one.")


def _over_items(affine: Affine, items: _Items, share: Tensor) -> Affine:
    """A read-out that is affine in the attention to tokens, as one that is affine in the attention to items."""
    token_logits = affine.token_logits.transpose(1, 2)  # (B, C, T)
    by_share = token_logits * share.to(token_logits.dtype)  # (B, C, T), as S is 1
    item_logits = items.sum(by_share).transpose(1, 2)  # (B, items, C)
    return Affine(item_logits, affine.bias)


def _shares(
    encoded: Encoded,
    items: _Items,
    attention: Tensor,
    log_weights: Tensor | None,
    count: Tensor,
) -> Tensor:
    """What each token gets of its item's weight, (B, S, T); over the allowed tokens of an item they sum to 1."""
    if log_weights is None:
        of_item = items.at_tokens(attention)  # (B, S, T), the weight of each token's item
        positive = of_item > 0
        share = encoded.attention / torch.where(positive, of_item, 1)
    else:  # logarithms know the proportions of weights that are too small for their type
        of_item = items.at_tokens(log_weights)
        positive = of_item > -torch.inf
        share = (encoded.log_weights - torch.where(positive, of_item, 0)).exp()
    even_share = 1 / items.at_tokens(count).clamp(min=1)
    share = torch.where(positive, share, even_share)
    return torch.where(encoded.allowed & items.has_item[:, None], share, 0)


@dataclass(frozen=True)
class _Items:
    """Which item each token belongs to: words, and behind them positions that stand for themselves.

    Attributes:
        index: (B, T), the item of each token; `size` for those of none.
        size: how many items there are, at least 1.
    """

    index: Tensor
    size: int

    @classmethod
    def of(cls, members: Tensor, apart: Tensor) -> _Items:
        """Items of words (B, T), -1 for none, and of positions apart from them, bool (B, T)."""
        words = members.amax(1, keepdim=True) + 1  # (B, 1), how many
        sizes = (words[:, 0] + apart.sum(1)).tolist()  # items of each text
        size = max([1, *sizes])
        behind_words = torch.where(apart, words + apart.cumsum(1) - 1, size)  # (B, T)
        index = torch.where(members < 0, behind_words, members)  # (B, T)
        return cls(index, size)

    @property
    def has_item(self) -> Tensor:
        """Tokens that belong to an item, bool (B, T)."""
        return self.index < self.size

    def sum(self, values: Tensor) -> Tensor:
        """Sums of the tokens' values (B, S, T) by item, (B, S, items)."""
        index, empty = self._empty(values, 0)
        sums = empty.scatter_add(2, index, values)  # (B, S, items + 1)
        return sums[..., : self.size]

    def log_sum(self, values: Tensor) -> Tensor:
        """``log sum exp`` of the tokens' values (B, S, T) by item, (B, S, items); -inf for an item of none."""
        index, empty = self._empty(values, -torch.inf)
        top = empty.scatter_reduce(2, index, values.detach(), "amax")  # (B, S, items + 1)
        top = torch.where(top == -torch.inf, 0, top)
        shifted = (values - top.gather(2, index)).exp()  # (B, S, T)
        mass = torch.zeros_like(empty).scatter_add(2, index, shifted)
        return (mass.log() + top)[..., : self.size]

    def at_tokens(self, values: Tensor) -> Tensor:
        """The value of each token's item, (..., items) -> (..., T); of no meaning where there is none."""
        index = self.index.clamp(max=self.size - 1)
        while index.dim() < values.dim():
            index = index.unsqueeze(1)
        return values.gather(-1, index.expand(*values.shape[:-1], -1))

    def _empty(self, values: Tensor, fill: float) -> tuple[Tensor, Tensor]:
        """The index of each value, and a value for each item and one for all that belong to none."""
        index = self.index[:, None].expand(values.shape)
        return index, values.new_full((*values.shape[:2], self.size + 1), fill)
