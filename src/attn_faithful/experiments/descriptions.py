"""What tables call a model, which of its attention was read, and what it was trained on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.experiments.identity import weights_digest
from attn_faithful.models.adapted import class_name, network_of
from attn_faithful.models.configurations import kind_of, origin_of
from attn_faithful.store import RunFolder

_LONGEST = 60  # letters of a name
_WHICH = re.compile(r"model|checkpoint-\d+|twin.*|best|last|final")  # folders that are named by what they lie in


@dataclass(frozen=True)
class ModelNames:
    """What a model is called, with six digits of its weights' digest.

    The digest tells apart what has the same name: two checkpoints, or a model before and after it was trained further.

    Attributes:
        in_tables: its folder or Hub id, else its encoder or type.
        in_folder: the model's part of the name of a run folder: its encoder or type, wherever it lies.
    """

    in_tables: str
    in_folder: str

    @classmethod
    def of(cls, model: Any, origin: str | None = None, weights: str | None = None) -> ModelNames:
        """The names of a model that speaks the protocol.

        Args:
            model: speaks the protocol.
            origin: folder or Hub id that it came from; None takes what transformers noted when it was loaded.
            weights: the digest, see `digest_of`; None makes it.
        """
        weights = weights or digest_of(model)
        digits = [] if weights is None else [weights[:6]]
        kind = kind_of(model.config) or class_name(model)
        place = origin or origin_of(model.config)
        name = _of_place(str(place)) if place else kind
        return cls(" ".join([name, *digits]), " ".join([kind, *digits]))


def digest_of(model: Any) -> str | None:
    """A digest of a model's weights, which takes a pass over them; None for a model that is no module."""
    network = network_of(model)
    if network is None:
        return None
    return weights_digest(network)


def _of_place(place: str) -> str:
    """A Hub id as it is; of a folder its name, with that of the one around it where it only says which part it is.

    The folder of a run stands for the model in it.
    """
    is_hub_id = place.count("/") == 1 and not place.startswith((".", "/", "~")) and not Path(place).exists()
    if is_hub_id:
        return place
    path = Path(place).resolve()
    if path.name == "model":
        return path.parent.name[-_LONGEST:]
    if _WHICH.fullmatch(path.name):
        return f"{path.parent.name}/{path.name}"[-_LONGEST:]
    return path.name[-_LONGEST:]


def attention_read(model: Any) -> dict[str, Any] | None:
    """Of a transformers model: whose rows ("token", "mean", "all") of each layer and which heads were read, of how many
    layers, and how many tokens of a text it reads.

    None for models of which the site says it all.
    """
    if not model.layered:
        return None
    return {
        "rows": {f"layer.{layer}": model.reading(layer) for layer in model.layers},
        "heads": None if model.heads is None else list(model.heads),
        "heads_in_all": min(model.probe.heads),
        "layers": len(model.probe.heads),
        "max_tokens": model.max_tokens,
    }


def trained_on(origin: str | None) -> Mapping[str, Any] | None:
    """The facts of the texts that a model was trained on, where the run that trained it lies around its folder."""
    if origin is None or not Path(origin).is_dir():
        return None
    run = RunFolder(Path(origin).resolve().parent)
    if not run.done:
        return None
    try:
        data = run.read_meta().get("data") or {}
    except InputError:
        return None
    train = data.get("train")
    return train if isinstance(train, Mapping) else None
