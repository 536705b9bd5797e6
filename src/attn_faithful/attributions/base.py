"""Sources of importance: their settings, what a source is given (`Request`) and what it returns (`Attribution`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice
from attn_faithful._registry import Registry
from attn_faithful.functional.rollout import HEADS
from attn_faithful.models.adapted import adapted
from attn_faithful.models.distinct_deletions import alike
from attn_faithful.models.label_view import label_view, no_and_yes
from attn_faithful.models.protocol import Batch, Encoded, precise, probabilities

REDUCTIONS = ("xxex", "l1", "l2", "sum")
ATTENTION_PATHS = ("auto", "detached", "attached")
OPERATORS = ("delete", "mask", "unk", "pad", "zero")
SIGNS = ("magnitude", "signed")
OUTCOMES = ("probability", "logit")
BASELINES = ("zero", "pad")
LAYERS = ("last", "all")
# sources that say something of one site; the others say the same of every site with the same items
AT_A_SITE = (
    "attention",
    "attention_gradient",
    "attention_x_gradient",
    "state_leave_one_out",
    "raw_attention",
    "value_norm",
    "value_zeroing",
)
DRAWN = ("random",)  # sources that tell equal tokens of a bag of words apart


@dataclass(frozen=True)
class SourceSettings:
    """How importance is computed; the defaults are those of Jain and Wallace (2019), section 4.1.

    Attributes:
        reduction: of gradients, how the axis of the embedding becomes one number a token. "xxex" is the gradient with
            respect to the token's own entry of the one-hot text, ``g . e``, and the sum where the gradient is already
            multiplied by the embedding; "l1" and "l2" are norms; in "sum" positive and negative parts cancel.
        attention_path: of gradients, "detached" keeps the attention fixed, "attached" lets it move with the embeddings;
            "auto" takes the model's own path: "attached" for transformers models, else "detached" by default.
        operator: of leave-one-out, "delete" runs the shorter text; the others keep the token's place: the token becomes
            the tokenizer's "mask", "unk" or "pad", or its embedding becomes "zero".
        sign: "magnitude" to compare with attention, which has no sign; "signed" importance is positive where the token
            speaks for the target.
        outcome: the "probability" of the target, or "logit", its log-odds ``ln p / (1 - p)``.
        baseline: of integrated gradients, the embeddings of the content tokens at the start: "zero", or those of "pad".
        n_steps: of integrated gradients, points of the quadrature.
        heads: of raw attention, rollout and flow, how the heads of a layer become one: their "mean", "max" or "min".
        layers: of raw attention, value norms and value zeroing at a site of several layers, the "last" one, or the mean
            over "all".
    """

    reduction: str = "xxex"
    attention_path: str = "auto"
    operator: str = "delete"
    sign: str = "magnitude"
    outcome: str = "probability"
    baseline: str = "zero"
    n_steps: int = 50
    heads: str = "mean"
    layers: str = "last"

    def __post_init__(self) -> None:
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_choice("attention_path", self.attention_path, ATTENTION_PATHS)
        check_choice("operator", self.operator, OPERATORS)
        check_choice("sign", self.sign, SIGNS)
        check_choice("outcome", self.outcome, OUTCOMES)
        check_choice("baseline", self.baseline, BASELINES)
        check_choice("heads", self.heads, HEADS)
        check_choice("layers", self.layers, LAYERS)
        if isinstance(self.n_steps, bool) or not isinstance(self.n_steps, int) or self.n_steps < 1:
            raise InputError(f"n_steps must be an integer of at least 1, but is {self.n_steps!r}.")

    @property
    def is_magnitude(self) -> bool:
        """Whether importance has no sign."""
        return self.sign == "magnitude"


@dataclass(frozen=True, eq=False)
class Request:
    """What a source is given: a block of examples, and what importance is computed for.

    Attributes:
        model: an attention model (`models.protocol`).
        batch: its inputs.
        encoded: what the model did with them at one site.
        settings: how importance is computed.
        target: (B,) the index of the class that importance is for, or of the label of a multi-label model; None for the
            predicted class, the lowest index among equal ones.
        keys: one an example; random choices depend on it.
        seed: of all random choices.
        token_ids: "mask", "unk" and "pad" -> id, where the tokenizer has them.
        site: the name of the site; only sources of several layers need it.
        label: of a multi-label model, the index of the one label that is judged; its two classes are no and yes.
        memory: values that a source keeps for the same request of another label.
        deletions: ``deletions(keep (B, K, T)) -> logits (B, K, C)`` of some items alone, which tests share as well;
            None to ask the model.
        head_weights: (L, H) of the heads of each layer, for the source "learned_heads"; None where none were fitted.

    Raises:
        InputError: a target of another shape, or of a class that does not exist.
    """

    model: Any
    batch: Batch
    encoded: Encoded
    settings: SourceSettings = field(default_factory=SourceSettings)
    target: Tensor | None = None
    keys: Sequence[str] = ()
    seed: int = 0
    token_ids: Mapping[str, int | None] = field(default_factory=dict)
    site: str = ""
    label: int | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    deletions: Callable[[Tensor], Tensor] | None = None
    head_weights: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", adapted(self.model))
        if self.target is None:
            return
        examples, classes = self.view.logits.shape
        if tuple(self.target.shape) != (examples,):
            raise InputError(
                f"Expected a `target` a text, of shape ({examples},), but got {tuple(self.target.shape)}; "
                "give the index of one class, or of one label, for each."
            )
        outside = (self.target < 0) | (self.target >= classes)
        if bool(outside.any()):
            raise InputError(f"Expected `target` in 0 to {classes - 1}, but got {self.target.tolist()}.")

    @property
    def view(self) -> Encoded:
        """`encoded`, as that of one label where one is judged."""
        return self.encoded if self.label is None else label_view(self.encoded, self.label)

    def read(self, logits: Tensor) -> Tensor:
        """The logits of `view`, from the model's logits (..., C)."""
        return logits if self.label is None else no_and_yes(logits, self.label)

    @property
    def classes(self) -> Tensor:
        """The target of each example, (B,)."""
        logits = self.view.logits
        return logits.argmax(-1) if self.target is None else self.target.to(logits.device)

    @property
    def attention_path(self) -> str:
        """How gradients pass the attention: the path of the settings, or the model's own where that is "auto"."""
        path = self.settings.attention_path
        return self.model.attention_path if path == "auto" else path

    @property
    def multi_label(self) -> bool:
        """Whether several labels are judged at once."""
        return self.encoded.multi_label and self.label is None

    def outcome(self, logits: Tensor, of: str | None = None) -> Tensor:
        """The outcome of the target, see :func:`outcome`.

        Args:
            logits: (B, C) or (B, K, C), those of `view`.
            of: "probability" or "logit"; None for that of the settings.
        """
        return outcome(logits, self.classes, of or self.settings.outcome, self.multi_label)


@dataclass(frozen=True)
class Attribution:
    """Importance of the tokens of B examples.

    Attributes:
        values: (B, T) float64 on the CPU, NaN outside content tokens.
        extra: further metrics of the source, name -> (B,) float64, NaN where undefined.
        reasons: why the values of an example are not reliable; None where they are. Empty if all are reliable.
    """

    values: Tensor
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    reasons: Sequence[str | None] = ()


Source = Callable[[Request], Attribution]

SOURCES: Registry[Source] = Registry("source")


def attribute(name: str, request: Request) -> Attribution:
    """Importance by the source called ``name``; parameters, gradients, modes and random states stay as they were.

    Args:
        name: one of `SOURCES`.
        request: the block of examples and the target.

    Returns:
        importance of each content token, (B, T).

    Raises:
        InputError: an unknown source, or a request that the source refuses.
    """
    attribution = SOURCES[name](request)
    content = request.encoded.content.cpu()
    values = torch.where(content, _as_stored(attribution.values), torch.nan)
    if request.model.reads_alone and name not in DRAWN:
        # equal words of a bag of words have one importance
        values = values.gather(1, alike(request.batch))
    undefined = ~content.any(1)
    extra = {}
    for metric, column in attribution.extra.items():
        extra[metric] = _as_stored(column).masked_fill(undefined, torch.nan)
    return Attribution(values, extra, attribution.reasons)


def _as_stored(values: Tensor) -> Tensor:
    return values.detach().cpu().double()


def outcome(logits: Tensor, target: Tensor, of: str, multi_label: bool) -> Tensor:
    """The number that importance explains: one a text, in float64, where 1 - p of a confident model is not yet 0.

    A model with one logit z gives (0, z): the outcomes of its two classes differ in sign.

    Args:
        logits: (B, C) or (B, K, C).
        target: (B,).
        of: "probability" or "logit", the log-odds ``ln p / (1 - p)``.
        multi_label: whether the logits are one yes-or-no a label.

    Returns:
        (B,) or (B, K).

    Example:
        >>> logits = torch.tensor([[0.0, 1.2], [0.0, 1.2]])
        >>> outcome(logits, torch.tensor([0, 1]), "logit", multi_label=False)
        tensor([-1.2000,  1.2000], dtype=torch.float64)
    """
    logits = precise(logits)
    other_axes = [1] * (logits.dim() - 1)
    index = target.view(-1, *other_axes).expand(*logits.shape[:-1], 1)
    if of == "probability":
        p = probabilities(logits, multi_label)
        return p.gather(-1, index)[..., 0]
    chosen = logits.gather(-1, index)[..., 0]
    if multi_label:
        return chosen
    others = logits.scatter(-1, index, -torch.inf)
    return chosen - others.logsumexp(-1)


def norms(values: Tensor, order: int = 2) -> Tensor:
    """Norms of vectors (..., N), in float64."""
    return torch.linalg.vector_norm(values, ord=order, dim=-1, dtype=torch.float64)


def by_item(request: Request, values: Tensor, norm: int = 1) -> Tensor:
    """Values of tokens (B, tokens) as those of the items that attention reaches, (B, T): sums, or 2-norms.

    Example:
        >>> logits, members = torch.zeros(1, 2), torch.tensor([[0, 0, 1]])
        >>> encoded = Encoded(torch.ones(1, 1, 2) / 2, torch.ones(1, 1, 2).bool(), torch.ones(1, 2).bool(), "sentence",
        ...     logits, lambda weights: logits[:, None], members=members)
        >>> by_item(Request(None, {}, encoded), torch.tensor([[3.0, 4.0, 1.0]])).tolist()
        [[7.0, 1.0]]
    """
    members = request.encoded.members
    if members is None:
        return values
    items = request.encoded.content.shape[1]
    index = torch.where(members < 0, items, members).to(values.device)
    # the last column takes what belongs to no item
    sums = values.new_zeros(len(values), items + 1)
    sums = sums.scatter_add(1, index, values**norm)
    return sums[:, :items] ** (1 / norm)


def cells(model: Any, length: int) -> int:
    """Cells of a text of so many tokens, at least one; see `attn_faithful.models.blocks`."""
    return max(1, model.cost(length))


def reached(request: Request) -> Tensor:
    """Tokens that belong to an item, bool (B, tokens)."""
    members = request.encoded.members
    return request.encoded.content if members is None else members >= 0


def one_attention(request: Request, source: str) -> Tensor:
    """The attention (B, T) of a model with one distribution a text.

    Raises:
        InputError: the site has several.
    """
    attention = request.encoded.attention
    if attention.shape[1] != 1:
        raise InputError(
            f"The source {source!r} needs one attention distribution a text, but the site has {attention.shape[1]}."
        )
    return attention[:, 0]
