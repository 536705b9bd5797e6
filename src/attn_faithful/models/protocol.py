"""The protocol that every model speaks and every test listens to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.divergences import multilabel_tvd, tvd
from attn_faithful.functional.tail import Tail, TailUnknownError, check_steps

Batch = Mapping[str, Tensor]

JOINT = "joint"  # the site of all layers of a stock model at once
AMONG_CANDIDATES = "Logits of classes that are no candidates are -inf, which follows from no attention."
QUERIES = ("auto", "token", "mean", "all")  # whose rows of a stock model's attention are its slots


@dataclass(frozen=True)
class Affine:
    """A read-out that is affine in its attention: ``logits = attention @ token_logits + bias``, exactly.

    Attributes:
        token_logits: what each token alone would say, without the bias, (B, T, C).
        bias: (B, C).
    """

    token_logits: Tensor
    bias: Tensor

    def logits(self, attention: Tensor) -> Tensor:
        """Logits (B, K, C) of attention (B, K, T)."""
        return attention @ self.token_logits + self.bias[:, None]

    def tail(self, texts: Tensor) -> Tail:
        """The tail without steps of some texts (R,).

        Raises:
            TailUnknownError: some classes are no candidates.

        Example:
            >>> affine = Affine(torch.tensor([[[1.0, 0.0], [0.0, 3.0]]]), torch.zeros(1, 2))
            >>> affine.tail(torch.tensor([0])).values.shape, affine.tail(torch.tensor([0])).steps
            (torch.Size([1, 1, 2, 2]), ())
        """
        bias = self.bias[texts].detach().double()  # (R, C)
        if bool(bias.isneginf().any()):
            raise TailUnknownError(AMONG_CANDIDATES, "some classes are no candidates")
        return Tail(bias, self.token_logits[texts, None].detach().double(), ())


@dataclass(frozen=True)
class Encoded:
    """What a model did at one attention site, and how its logits follow from any other attention there.

    Attributes:
        attention: the weights that the model used, (B, S, T); a slot sums to 1 over `allowed`, 0 where nothing is.
        allowed: positions that attention may reach, bool (B, S, T).
        content: positions that a test may move, rank and report, bool (B, T); the others keep their weight.
        items: what a position is, "token" or "sentence".
        logits: (B, C); a one-logit model is stored as (0, z).
        scores: before the projection, (B, S, T); None where unknown.
        project: ``project(scores, allowed) -> attention``; None where unknown.
        decode: ``decode(attention (B, K, S, T)) -> logits (B, K, C)``, differentiable; the model's own attention
            gives the model's own logits; a slot of zeros is legal.
        affine: only where S is 1 and the read-out is exactly affine.
        multi_label: whether the logits are one independent yes-or-no a label.
        log_weights: the logarithm of the attention up to a constant a slot, (B, S, T), -inf for a weight of 0; None for
            that of `attention` itself. Weights too small for their type keep their ratios here.
        pooled: attention over all items, (B, T), where several slots share them; None where S is 1.
        members: which item each token belongs to, (B, tokens), -1 for none; None where the items are the tokens.
        tail: ``tail(texts (R,)) -> Tail`` of these texts, whose logits are those of `decode` but for rounding, or a
            `TailUnknownError`; None where the model has none, or the read-out is affine. To be asked by `tail_of`.
        states: of the encoder, which the attention weighs, one a position, (B, T, N); None where a position has no
            state of its own.
    """

    attention: Tensor
    allowed: Tensor
    content: Tensor
    items: str
    logits: Tensor
    decode: Callable[[Tensor], Tensor]
    scores: Tensor | None = None
    project: Callable[[Tensor, Tensor], Tensor] | None = None
    affine: Affine | None = None
    multi_label: bool = False
    log_weights: Tensor | None = None
    pooled: Tensor | None = None
    members: Tensor | None = None
    tail: Callable[[Tensor], Tail] | None = None
    states: Tensor | None = None

    def tail_of(self, texts: Tensor) -> Tail:
        """What comes after the attention of some texts (R,), as data in float64.

        Made anew at each call. Memory grows with texts, slots, items and the width of the model, so few texts are to be
        asked for at once.

        Raises:
            TailUnknownError: it is not known; the message says why.
            InputError: a weight that is NaN or infinite.
        """
        if self.affine is not None:
            tail = self.affine.tail(texts)
        elif self.tail is not None:
            tail = self.tail(texts)
        else:
            raise TailUnknownError(
                "What comes after the attention is not known as data, only by decode.", "the model has decode alone"
            )
        check_steps(tail.steps)
        if not bool(tail.base.isfinite().all() and tail.values.isfinite().all()):
            raise InputError(
                "What the attention adds up is not finite: a weight of the model is NaN or infinite; nothing can be "
                "certified."
            )
        return tail

    @property
    def over_items(self) -> Tensor:
        """Attention over the items as a whole, (B, T); it sums to 1 over what is allowed, special tokens included."""
        if self.pooled is None:
            return self.attention[:, 0]
        return self.pooled

    @property
    def probabilities(self) -> Tensor:
        """Class probabilities, (B, C): softmax over the classes, or a sigmoid a label."""
        return probabilities(self.logits, self.multi_label)


class AttentionModel:
    """Base of the models whose attention can be read and replaced.

    A model of your own derives from it, alone or as the last of its bases, and defines `sites`, `config`, `encode` and
    `parameters` (a torch module has them), and `without` where tokens can be deleted from its texts. All other members
    have the defaults below; an attribute of the class or of the model takes their place. A model that has the members
    without deriving from this class is taken too.

    Attributes:
        sites: the names of its attention sites; the first is the usual one.
        config: has `num_labels` and `id2label`; `problem_type`, `vocab_size` and `pad_token_id` are read where present.
        attention_path: how gradients pass the attention under the setting "auto": "detached" or "attached".
        same_items: whether all sites attend to the same items.
        layered: whether it is a stack of attention layers, of which `choosing` selects heads, layers and rows.
        attention_layers: how many attention layers a gradient passes.
        embedding_gradients: whether gradients with respect to embeddings are computed where no source is named.
        has_query: whether a second text, read apart from the first, asks the attention.
        reads_pairs: whether a pair of texts is read as one text of two segments.
        reads_sentences: whether a batch needs `sentence_ids`.
        reads_alone: whether each token is read alone, so that a text is a bag of tokens to the model.
        reads_ids: whether the forward takes `input_ids` beside the `inputs_embeds` in their place.
        reach: how many tokens on each side the state of a token depends on; None for all of the text.
        pad_token_id: the id that padding is filled with.
        max_tokens: the longest text that it reads, in tokens; None for any.
        training_texts: the texts that it was trained on, as saved beside it; None where unknown.

    Example:
        >>> class Uniform(AttentionModel):
        ...     sites = ("pool",)
        ...
        ...     def encode(self, batch, site="pool"):
        ...         content = batch["attention_mask"].bool()
        ...         attention = (content / content.sum(1, keepdim=True))[:, None]
        ...         values = torch.stack([batch["input_ids"].float(), 3 - batch["input_ids"].float()], dim=-1)
        ...
        ...         def decode(weights):
        ...             return weights[:, :, 0] @ values
        ...
        ...         logits = decode(attention[:, None])[:, 0]
        ...         return Encoded(attention, content[:, None], content, "token", logits, decode)
        >>> batch = {"input_ids": torch.tensor([[2, 4]]), "attention_mask": torch.ones(1, 2)}
        >>> model = Uniform()
        >>> model.encode(batch).logits, model.cost(2), model.deletes
        (tensor([[3., 0.]]), 2, False)
    """

    sites: tuple[str, ...]
    config: Any

    attention_path: str = "detached"
    same_items: bool = False
    layered: bool = False
    attention_layers: int = 1
    embedding_gradients: bool = True
    has_query: bool = False
    reads_pairs: bool = False
    reads_sentences: bool = False
    reads_alone: bool = False
    reads_ids: bool = False
    reach: int | None = None
    pad_token_id: int = 0
    max_tokens: int | None = None
    training_texts: Any = None

    def encode(self, batch: Batch, site: str) -> Encoded:
        """Run the model once and return what it did at ``site``."""
        raise TypeError("a model defines encode")

    def logits_of(self, batch: Batch, texts: Tensor | None = None) -> Tensor:
        """Logits (B, C) of texts whose attention nobody asks for.

        Args:
            batch: of texts.
            texts: where they are altered ones, the number of the text that each is made of, (B,): such as begin alike
                may share what is computed of it.
        """
        return self.encode(batch, self.sites[0]).logits

    @torch.no_grad()
    def largest_activations(self, batch: Batch) -> list[Tensor]:
        """Of each layer the largest value of each unit over a text's tokens, (B, U); -inf for a text without any.

        Empty where no states are known.
        """
        encoded = self.encode(batch, self.sites[0])
        if encoded.states is None:
            return []
        return [largest(encoded.states, encoded.allowed.any(1))]

    def without(self, batch: Batch, keep: Tensor) -> Tensor:
        """Logits (B, K, C) with the tokens outside ``keep`` (B, K, T) deleted and the model run again.

        Equal shortened texts have equal logits, to the last bit: see `attn_faithful.models.distinct_deletions`.
        """
        raise InputError(f"{type(self).__name__} cannot delete tokens from its texts, as it has no `without`.")

    @property
    def deletes(self) -> bool:
        """Whether tokens can be deleted from its texts."""
        return getattr(self.without, "__func__", None) is not AttentionModel.without

    def cost(self, length: int) -> int:
        """Cells that a text of so many tokens takes, see `blocks.CELLS`."""
        return length

    def fixed_attention(self, batch: Batch) -> Mapping[str, Tensor] | None:
        """Arguments of the forward that hold all of the model's attention as it is.

        None where that is ``attention_weights`` (B, T), the attention of the one slot of `encode`.
        """
        return None

    def in_full(self) -> AttentionModel:
        """The model itself, or of weights in half precision a copy in float32, in which everything is measured."""
        return self

    def choosing(
        self,
        queries: str = "auto",
        heads: Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
    ) -> AttentionModel:
        """The same model, of which other rows, heads or layers are slots; of layered models."""
        raise TypeError("a layered model defines choosing")


def check_alternatives(weights: Tensor) -> None:
    """Raise unless weights have the shape that `Encoded.decode` takes, (B, K, S, T)."""
    check_shape("attention", weights, "B K S T", "pass attention[:, None] for one alternative an example")


def largest(states: Tensor, read: Tensor) -> Tensor:
    """The largest of states (B, T, N) over the positions ``read`` (B, T), (B, N), float32 at least; -inf without any.

    Example:
        >>> largest(torch.tensor([[[1.0, -2.0], [0.0, 5.0]]]), torch.tensor([[True, False]]))
        tensor([[ 1., -2.]])
    """
    return at_least_float32(states).masked_fill(~read[:, :, None], -torch.inf).amax(1)


def at_least_float32(values: Tensor) -> Tensor:
    """Values in float32, or in float64 where they are in it."""
    if values.dtype == torch.float64:
        return values
    return values.float()


def probabilities(logits: Tensor, multi_label: bool = False) -> Tensor:
    """Probabilities of logits (..., C), in float32 at least.

    Example:
        >>> probabilities(torch.tensor([[0.0, 1.2]]))
        tensor([[0.2315, 0.7685]])
    """
    logits = at_least_float32(logits)
    if multi_label:
        return logits.sigmoid()
    return logits.softmax(-1)


def precise(values: Tensor) -> Tensor:
    """In float64 where the device has it."""
    return values if values.device.type == "mps" else values.double()


def prediction_change(encoded: Encoded, logits: Tensor) -> Tensor:
    """TVD (B, K) of the predictions of other logits (B, K, C) from the model's; of several labels their mean."""
    distance = multilabel_tvd if encoded.multi_label else tvd
    before = probabilities(precise(encoded.logits[:, None]), encoded.multi_label)
    after = probabilities(precise(logits), encoded.multi_label)
    return distance(before, after, validate_args=False)
