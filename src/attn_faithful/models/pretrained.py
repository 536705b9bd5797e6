"""Classifiers of transformers as a folder or the Hub holds them, and with a new head for other classes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attn_faithful._checks import InputError
from attn_faithful.models.entry import shown
from attn_faithful.models.stock.sparse import restore_projection

_POOLER = "pooler"  # between encoder and head: checkpoints of language models lack it


def read_classifier(path: str | Path, **kwargs: Any) -> tuple[Any, list[str]]:
    """A classifier, and the names of the weights that the folder lacks, which transformers then draws at random.

    Args:
        path: a folder or a Hub id.
        kwargs: for ``from_pretrained``. Unless they say otherwise weights are read from safetensors alone, and no code
            of the folder's is run.

    Raises:
        InputError: it cannot be loaded.
    """
    from transformers import AutoModelForSequenceClassification

    kwargs = {"trust_remote_code": False, "use_safetensors": True, **kwargs}
    try:
        model, info = AutoModelForSequenceClassification.from_pretrained(path, output_loading_info=True, **kwargs)
    except InputError:
        raise
    except Exception as error:  # whatever transformers, torch or the file raise: told with the path
        raise InputError(f"{path} cannot be loaded: {shown(error)}") from error
    return model, sorted(info["missing_keys"])


def incomplete(path: str | Path, missing: Sequence[str]) -> InputError:
    """What to say of a model whose weights are not all there."""
    return InputError(f"{path} lacks the weights {', '.join(missing)}; it is incomplete.")


@dataclass(frozen=True)
class Pretrained:
    """What fine-tuning starts from: a classifier with its head, or an encoder without one.

    Attributes:
        network: a classifier of transformers in float32; the weights that the folder lacks are random.
        missing: their names.
    """

    network: Any
    missing: Sequence[str]

    @classmethod
    def read(cls, path: str | Path) -> Pretrained:
        """The model of a folder or a Hub id.

        Raises:
            InputError: it cannot be loaded, or lacks other weights than those of the head.
        """
        network, missing = read_classifier(path, dtype=torch.float32)
        found = cls(restore_projection(network).eval(), missing)
        lacking = [name for name in missing if not (found.in_head(name) or _POOLER in name)]
        if lacking or (missing and _saved_with_head(network)):
            raise incomplete(path, lacking or missing)
        return found

    @property
    def has_head(self) -> bool:
        """Whether the folder holds the head for classes."""
        return not any(map(self.in_head, self.missing))

    def in_head(self, weight: str) -> bool:
        """Whether a weight, by its dotted name, is one of the head and not of the encoder below."""
        return not weight.startswith(f"{self.network.base_model_prefix}.")

    def as_it_is(self, label_names: Sequence[str]) -> Any:
        """A copy of the classifier, its classes by these names."""
        network = copy.deepcopy(self.network)
        _name_classes(network.config, label_names)
        return network

    def with_new_head(self, label_names: Sequence[str], multi_label: bool) -> Any:
        """A copy whose head is drawn anew, by torch's generator of random numbers.

        Args:
            label_names: a class each.
            multi_label: whether a text may have several.
        """
        from transformers import AutoModelForSequenceClassification

        config = copy.deepcopy(self.network.config)
        _name_classes(config, label_names)
        config.problem_type = "multi_label_classification" if multi_label else "single_label_classification"
        network = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
        new = set(self.missing)
        if self.has_head:
            new = set(filter(self.in_head, self.network.state_dict()))
        kept = {name: value for name, value in self.network.state_dict().items() if name not in new}
        network.load_state_dict(kept, strict=False)
        return restore_projection(network).eval()


def _saved_with_head(network: Any) -> bool:
    """Whether a configuration says that it was saved with a head for classes."""
    return type(network).__name__ in (network.config.architectures or ())


def _name_classes(config: Any, label_names: Sequence[str]) -> None:
    config.id2label = dict(enumerate(label_names))  # which says how many there are
    config.label2id = {name: number for number, name in enumerate(label_names)}
