"""What a user hands to an evaluation, or to a comparison with twins: a trained model, and texts for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attn_faithful._checks import Faults, InputError
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.files.in_memory import as_rows
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.sources import TextData, load_texts
from attn_faithful.experiments.descriptions import ModelNames
from attn_faithful.experiments.label_shapes import fit_label_shapes
from attn_faithful.functional.learned_heads import FOLDS
from attn_faithful.models.configurations import is_multi_label


@dataclass(frozen=True)
class ModelInput:
    """A trained model as a user names it.

    Attributes:
        model: speaks the protocol, or a transformers classifier.
        tokenizer: the model's.
        name: what tables call the model; None for its folder or Hub id, see `descriptions.ModelNames`.
        origin: folder or Hub id that it came from; None for a model that only lives in memory.
    """

    model: Any
    tokenizer: Any
    name: str | None = None
    origin: str | None = None

    def names(self, model: Any, weights: str | None) -> ModelNames:
        """What tables and the run folder call a model with this digest of its weights, or as the user named it."""
        if self.name:
            return ModelNames(self.name, self.name)
        return ModelNames.of(model, self.origin, weights)


@dataclass(frozen=True)
class DataInput:
    """Texts as a user names them.

    Attributes:
        settings: where they come from.
        rows: the data itself, where it is not read from a source.
        split: that is tested; None for "test" where there is one, else the last.
        source_file: importance that was computed elsewhere; the source "given" of the test "correlation".
        faults: collects all that is wrong with the rows; None raises the first.
        fit: other texts, that weights of the source "learned_heads" are fitted on; None for the training split of
            these.
        fit_texts: on how many of them, at most; None for `head_fitting.FIT_TEXTS`.

    Raises:
        InputError: too few texts to fit on.
    """

    settings: DataSettings
    rows: Any = None
    split: str | None = None
    source_file: str | None = None
    faults: Faults | None = None
    fit: DataInput | None = None
    fit_texts: int | None = None

    def __post_init__(self) -> None:
        n = self.fit_texts
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < FOLDS):
            raise InputError(f"fit_texts must be an integer of at least {FOLDS}, but is {n!r}.")


def labelled_texts(model: Any, data: DataInput, purpose: str = "train") -> TextData:
    """The texts, with labels by the model's names and in its shape; by the data's names where the model has none.

    Args:
        model: trained.
        data: where the texts come from.
        purpose: "train", which needs a split for it, or "evaluate".

    Raises:
        InputError: what is wrong with the data, or classes of the model that cannot be told apart.
    """
    texts = _with_names_of_model(model, data, purpose)
    fit_label_shapes(texts, is_multi_label(model.config))
    return texts


def _with_names_of_model(model: Any, data: DataInput, purpose: str) -> TextData:
    rows = None if data.rows is None else as_rows(data.rows)  # read twice below, which a generator cannot be
    options = {
        "rows": rows,
        "purpose": purpose,
        "training_texts": model.training_texts,
        "faults": data.faults,
    }
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]
    default_names = [f"LABEL_{i}" for i in range(len(names))]
    if names != default_names:
        return load_texts(data.settings, **options, label_names=names)
    texts = load_texts(data.settings, **options)
    if not texts.label_names or _are_of_model(texts.label_names, names):
        return load_texts(data.settings, **options, label_names=names)
    if len(texts.label_names) != len(names):
        raise InputError(
            f"The model names its classes {names[0]} to {names[-1]}, and {texts.name} has {len(texts.label_names)} "
            "classes, so they cannot be told apart; set the model's config.id2label."
        )
    texts.notes.append(f"The model's classes have no names; taken in the order of the data's: {texts.label_names}.")
    return texts


def _are_of_model(labels: list[str], names: list[str]) -> bool:
    """Whether labels of the data are the model's own terms: its names (LABEL_0, ...), or numbers of its classes."""
    known = set(labels)
    numbers = set(map(str, range(len(names))))
    return known <= set(names) or (known <= numbers and len(known) < len(names))


def encoded_for(model: Any, tokenizer: Any, texts: Any) -> Any:
    """The texts of a split as a model reads them, see `data.encoding.encode_texts`."""
    return encode_texts(tokenizer, texts, model.max_tokens, model.reads_sentences, model.reads_pairs)
