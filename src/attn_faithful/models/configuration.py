"""Configuration of the pooled attention classifiers."""

from __future__ import annotations

import json
from dataclasses import fields
from difflib import get_close_matches
from inspect import get_annotations
from pathlib import Path
from typing import Any, ClassVar

from packaging.version import InvalidVersion, Version
from transformers import PreTrainedConfig

from attn_faithful import __version__
from attn_faithful._checks import InputError, did_you_mean
from attn_faithful.models.class_names import class_names, inverse

_CODE = "attn_faithful_model"  # the module that travels with the weights
_WRITER = "attn_faithful_version"  # in config.json: who wrote it
_UPGRADE = "pip install -U attn-faithful"
# what transformers takes beside the fields of a configuration
_OF_TRANSFORMERS = (
    "model_type",
    "num_labels",
    "name_or_path",
    "torch_dtype",
    "attn_implementation",
    "experts_implementation",
    "output_attentions",
    "use_cache",
    "quantization_config",
    "tie_word_embeddings",
    "per_layer_config",
)


class AttentionClassifierConfig(PreTrainedConfig):
    """Embedding, encoder, attention that pools the tokens, read-out.

    The defaults are those of Jain and Wallace (2019), section 3.1, and Amini and Kosseim, section 5.

    Args:
        vocab_size: rows of the embedding.
        embedding_size: its width.
        encoder: "lstm", "gru", "orthogonal_lstm", "mlp", "average", "cnn", "transformer" or "none".
        hidden_size: units a direction for recurrent encoders, the whole width for the others ("none" keeps the
            embedding's).
        num_layers: recurrent or transformer layers.
        bidirectional: whether "lstm" and "gru" read in both directions, with states of twice `hidden_size`; False: from
            the first token on alone, with states of `hidden_size`, as "orthogonal_lstm" always does.
        num_heads: transformer heads.
        kernel_sizes: odd widths of the CNN's filters, an equal share of `hidden_size` each.
        activation: "tanh" or "relu", of the encoder "average"; "mlp" is always tanh and "cnn" relu.
        positions: "learned" or "sinusoidal", transformer only.
        max_positions: longest text for learned positions; other encoders take any length.
        attention: "additive" (Bahdanau et al. 2015), "dot" (Vaswani et al. 2017) or "uniform" (no scores: every
            allowed token weighs the same).
        attention_size: width of the additive layer; None for half the encoder's width.
        projection: "softmax", "sparsemax", "sparsegen", "entmax15" or "entmax".
        temperature: softmax only; scores are divided by it.
        sparsegen_lambda: sparsegen only, below 1; 0 is sparsemax, larger is sparser.
        entmax_alpha: entmax only; 1 is softmax, 2 is sparsemax.
        learn_alpha: train entmax's alpha, between 1 and 2.
        scale: None, or "tasc_lin": what attention weighs is multiplied by a learned number a word times the sum of its
            embedding (Chrysostomou and Aletras 2021); attention itself stays as it is.
        query: whether a second text (a question, a hypothesis), read by an encoder of its own, asks the attention.
        readout: "affine" (``W c + b`` of the context c; a query speaks through the attention alone) or "tanh"
            (``W2 tanh(Wp c + Wq q) + b2``: what Jain and Wallace use for question answering).
        output: "sigmoid" (two classes, one weight row, logits given as (0, z)), "softmax" or "multi_label"; None
            chooses "sigmoid" for two classes and "softmax" otherwise.
        id2label, label2id: the names of the classes; either says the other, and both how many there are.
        dropout: on embeddings and on the context, in training only.
        classifier_dropout: on the context instead; None for `dropout`.
        freeze_embeddings: keep the word vectors as they were given.
        masking: "half" for a model trained on masked texts too (`train.masking`), which says so.
        class_weights: a factor a class on its examples' loss; for "multi_label" on the positive term of each label.

    Raises:
        InputError: a name that does not exist or a value out of range, with what is allowed; of a file that a newer
            version of the package wrote, that it is to be upgraded.

    Example:
        >>> AttentionClassifierConfig(encoder="mlp", vocab_size=100).output
        'sigmoid'
    """

    model_type = "attention_classifier"
    model_class = "attn_faithful.models.pooled.AttentionClassifier"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["attentions", "hidden_states", "sentence_attentions"]
    # settings that came later, each with what all models were before: run folders of those keep their names
    later_settings: ClassVar[dict[str, Any]] = {"bidirectional": True, "scale": None, "masking": None}

    vocab_size: int = 2
    embedding_size: int = 300
    encoder: str = "lstm"
    hidden_size: int = 128
    num_layers: int = 1
    bidirectional: bool = True
    num_heads: int = 4
    kernel_sizes: list[int] | tuple[int, ...] = (1, 3, 5, 7)
    activation: str = "tanh"
    positions: str = "sinusoidal"
    max_positions: int = 512
    attention: str = "additive"
    attention_size: int | None = None
    projection: str = "softmax"
    temperature: float = 1.0
    sparsegen_lambda: float = 0.0
    entmax_alpha: float = 1.5
    learn_alpha: bool = False
    scale: str | None = None
    query: bool = False
    readout: str = "affine"
    output: str | None = None
    dropout: float = 0.0
    classifier_dropout: float | None = None
    freeze_embeddings: bool = False
    class_weights: list[float] | None = None
    masking: str | None = None
    pad_token_id: int | None = 0

    def __post_init__(self, **kwargs: Any) -> None:
        kwargs.pop("auto_map", None)
        writer = kwargs.pop(_WRITER, None)
        self._check_known(kwargs, writer)
        names = class_names(self.id2label, self.label2id, kwargs.get("num_labels"))
        if names is not None:
            self.id2label = names
            self.label2id = inverse(names)
            kwargs.pop("num_labels", None)  # which transformers would ask again
        super().__post_init__(**kwargs)
        self.kernel_sizes = list(self.kernel_sizes)
        if self.output is None:
            self.output = _usual_output(self.num_labels)
        self.problem_type = "multi_label_classification" if self.multi_label else "single_label_classification"
        try:
            self.check_settings()
        except InputError as error:
            if not _newer(writer):
                raise
            raise InputError(f"{error} {_too_old(writer)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Names of classes that are set afterwards: the other mapping follows, and an output that was the usual one.

        A model that was built before keeps its logits, and says so when it is run.
        """
        names_classes = name in ("id2label", "label2id") and value is not None
        if not names_classes or not self.__dict__.get("_post_init_done"):
            super().__setattr__(name, value)
            return
        usual = self.output == _usual_output(self.num_labels)
        names = class_names(value, None) if name == "id2label" else class_names(None, value)
        super().__setattr__("id2label", names)
        super().__setattr__("label2id", None if names is None else inverse(names))
        if usual:
            super().__setattr__("output", _usual_output(self.num_labels))

    @classmethod
    def _check_known(cls, arguments: dict[str, Any], writer: str | None) -> None:
        """Raise for names that are no settings, which transformers would keep without an error."""
        unknown = []
        for name in sorted(arguments):
            if name not in _OF_TRANSFORMERS and not name.startswith("_"):
                unknown.append(name)
        if unknown and _newer(writer):
            raise InputError(
                f"The configuration sets {', '.join(unknown)}, which is not known here. {_too_old(writer)}"
            )
        known = cls._own_settings()
        if writer is not None:  # we wrote it, so that what is like none of ours is a note of the user's
            unknown = [name for name in unknown if get_close_matches(name, known, 1, 0.8)]
        if unknown:
            raise InputError(
                f"Unknown setting {unknown[0]!r} of {cls.__name__}.{did_you_mean(unknown[0], known)} "
                f"If it stands in a file of a newer version of attn_faithful: {_UPGRADE}."
            )

    @classmethod
    def _own_settings(cls) -> list[str]:
        """The names of the fields that this package adds to those of transformers."""
        names: set[str] = set()
        for part in cls.__mro__:
            if hasattr(part, "model_class"):
                names.update(get_annotations(part))
        return [field.name for field in fields(cls) if field.name in names]

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = "AutoConfig") -> None:
        """Nothing to do: what finds the classes is saved with every model, see `to_json_file`."""

    def to_json_file(self, json_file_path: Any, use_diff: bool = True) -> None:
        """Write config.json, and beside it the module by which ``trust_remote_code=True`` finds the classes.

        It needs the package installed, not imported; where it is not installed, transformers says so in one line.
        """
        path = Path(json_file_path)
        content = json.loads(self.to_json_string(use_diff=use_diff))
        content[_WRITER] = __version__
        own_class = f"{type(self).__module__}.{type(self).__name__}"
        if own_class.startswith("attn_faithful."):
            addresses = {"AutoConfig": own_class, "AutoModelForSequenceClassification": self.model_class}
            auto_map = {}
            for auto_class, address in addresses.items():
                _, name = _split(address)
                auto_map[auto_class] = f"{_CODE}.{name}"
            content["auto_map"] = auto_map
            _write_code(path.with_name(f"{_CODE}.py"), list(addresses.values()))
        path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")

    @property
    def multi_label(self) -> bool:
        return self.output == "multi_label"

    @property
    def projection_parameters(self) -> dict[str, float]:
        """The keyword arguments that `projection` takes, by the names of `functional.projections`."""
        if self.projection == "softmax":
            return {"temperature": self.temperature}
        if self.projection == "sparsegen":
            return {"lam": self.sparsegen_lambda}
        if self.projection == "entmax":
            return {"alpha": self.entmax_alpha}
        return {}

    def attention_width(self, width: int) -> int:
        """Width of the layer inside additive attention over states of the given width."""
        return self.attention_size or max(1, width // 2)

    def check_settings(self) -> None:
        """Raise for a name that does not exist or a value out of range; models are built of what passes."""
        # imported here: the registries live beside the torch modules, and a configuration must load without them
        from attn_faithful.models.configuration_checks import check_configuration

        check_configuration(self)


def _split(address: str) -> tuple[str, str]:
    """The module and the name of a class."""
    module, _, name = address.rpartition(".")
    return module, name


def _write_code(path: Path, addresses: list[str]) -> None:
    """Write the module that imports these classes from the package."""
    lines = ['"""Finds the classes in the package attn_faithful (pip install attn-faithful)."""', ""]
    names = []
    for address in addresses:
        module, name = _split(address)
        lines.append(f"from {module} import {name}")
        names.append(name)
    lines += ["", f"__all__ = {json.dumps(names)}", ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def _usual_output(labels: int | None) -> str:
    """The output of a model that names none: one logit for two classes."""
    if labels == 2:
        return "sigmoid"
    return "softmax"


def _newer(writer: str | None) -> bool:
    """Whether a later version of the package than this one wrote a configuration."""
    try:
        return writer is not None and Version(writer) > Version(__version__)
    except InvalidVersion:
        return False


def _too_old(writer: str | None) -> str:
    return f"attn_faithful {writer} wrote it, and this is {__version__}: {_UPGRADE}."
