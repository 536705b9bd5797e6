"""The kinds of models in the set: how each is made, and why its attention explains its decisions or does not."""

from __future__ import annotations

from dataclasses import dataclass

from attn_faithful.bench.texts import SEVERAL, SINGLE


@dataclass(frozen=True)
class Kind:
    """A way to make models whose truth is known.

    Attributes:
        name: in the manifest and in tables.
        explains: whether attention explains the decisions.
        truth: why, in a sentence, of models that are trained.
        encoders: of the models of the set for which it can be made; "bert" is one of transformers' own, whose weights
            are written down, see `stock.DESIGNS`.
        data: names of the data sets for which it can be made.
    """

    name: str
    explains: bool
    truth: str
    encoders: tuple[str, ...]
    data: tuple[str, ...] = (SINGLE.name, SEVERAL.name)


_ENCODERS = ("none", "mlp", "lstm", "gru", "bert")
_WITH_CNN = (*_ENCODERS, "cnn")
_READ_MORE = ("lstm", "gru", "bert", "cnn")  # encoders whose states know of other words

KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "faithful",
            True,
            "Each word is read alone and its value is +1 or -1, so that attention is the size of its contribution; "
            "removed in attention's order, the fewest words flip the decision.",
            _WITH_CNN,
        ),
        Kind(
            "pinned",
            True,
            "Each word is read alone and one word decides: no attention far from the model's gives its prediction.",
            _WITH_CNN,
            (SINGLE.name,),
        ),
        Kind(
            "free",
            False,
            "The state of other words says what the decisive words say: a completely different attention gives the "
            "same prediction. The attention itself is that of a faithful model.",
            _READ_MORE,
        ),
        Kind(
            "deceptive",
            False,
            "Trained to keep attention from the words that decide, which decide nevertheless.",
            _ENCODERS,
        ),
        Kind(
            "random",
            False,
            "Scores are drawn at random for each word and never trained; the rest is trained around them.",
            _ENCODERS,
        ),
        Kind(
            "uniform",
            False,
            "Attention is the same for every word, whichever decides.",
            _ENCODERS,
        ),
        Kind(
            "imposed",
            False,
            "Attention is that of a model for another task, on words that have no part in the decision.",
            _ENCODERS,
        ),
        Kind(
            "leaky",
            False,
            "The label takes a path around the attention, which changes nothing. The attention itself is that of a "
            "faithful model.",
            _WITH_CNN,
        ),
    )
}

TRUTHS = {kind.name: kind.truth for kind in KINDS.values()}
