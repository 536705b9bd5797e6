"""What names a run: all that shapes its numbers, and nothing else. The one place for every kind of run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor, nn

from attn_faithful.experiments.written_code import (
    configuration_facts,
    is_written,
    structure_digest,
    tensor_parts,
    value_digest,
    without,
)
from attn_faithful.models.adapted import adapted, facts_of, network_of, original
from attn_faithful.models.configurations import attention_implementations
from attn_faithful.schema import SCHEMA_VERSION

# To be raised by one with every change after which some test, source or metric gives another number for the same
# model, texts and settings (see docs/design.md): finished runs of the version before are then not taken for it.
NUMBERS_VERSION = 10

_WHOLE = 2**28  # bytes; larger files (word vectors of millions of words) would take longer to read than to train on
_OF_ADAPTERS = ("active_adapters", "disable_adapters", "merged_adapters", "scaling")
_OF_TOKENIZERS = (
    "model_max_length",
    "truncation_side",
    "padding_side",
    "pad_token_id",
    "unk_token_id",
    "pad_token_type_id",
    "model_input_names",
    "split_special_tokens",
    "add_prefix_space",
    "add_bos_token",
    "add_eos_token",
    "do_lower_case",
    "add_special_tokens",
)
_PATHS = ("name_or_path", "vocab_file", "merges_file", "tokenizer_file", "special_tokens_map_file", "spm_file")
_TOLD_NOTHING = ("tokenizer_object", "chat_template", "local_files_only", "is_local", "_commit_hash", "token")


@dataclass(frozen=True)
class Identity:
    """What a run is.

    Attributes:
        facts: ingredient -> its value or digest: everything that could change a number of the run.
    """

    facts: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits over all facts."""
        text = json.dumps(self.facts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def folder(self, parts: Sequence[str]) -> str:
        """The name of the run's folder: what it is about in words, and the digest."""
        return f"{slug(parts)}-{self.digest}"

    @property
    def short(self) -> dict[str, str]:
        """Ingredient -> eight digits (whole numbers and None as they are), for meta.json."""
        short = {}
        for name, value in self.facts.items():
            is_short = value is None or isinstance(value, int)
            short[name] = value if is_short else _digest(value)[:8]
        return short


def run_identity(
    kind: str,
    model: Any,
    tokenizer: Any,
    texts: Any,
    split: str,
    settings: Mapping[str, Any],
    weights: str | None = None,
    **more: Any,
) -> Identity:
    """The identity of a run on a model that is there.

    Args:
        kind: "evaluate" or "attefa".
        model: speaks the protocol.
        tokenizer: the model's.
        texts: the data set.
        split: the one that is tested.
        settings: all that was asked for.
        weights: the model's `weights_digest` where it is known, which spares a pass over them.
        more: further ingredients, such as the seeds of twins, the digest of a file.
    """
    facts = {
        "kind": kind,
        "schema": SCHEMA_VERSION,
        "numbers": NUMBERS_VERSION,
        **model_facts(model, weights),
        "tokenizer": tokenizer_digest(tokenizer),
        "data": texts_digest(texts, split),
        "split": split,
        "settings": without_trackers(settings),
        **more,
    }
    return Identity(facts)


def cell_identity(settings: Mapping[str, Any]) -> Identity:
    """The identity of a cell of a recipe, whose model is yet to be trained.

    Args:
        settings: of the recipe, with the digest of a file in the place of its path.
    """
    facts = {"kind": "cell", "schema": SCHEMA_VERSION, "numbers": NUMBERS_VERSION, **without_trackers(settings)}
    return Identity(facts)


def without_trackers(settings: Any) -> Any:
    """Settings without what only says who is told of the progress."""
    return without(settings, ("trackers",))


def numbers_of(meta: Mapping[str, Any]) -> int:
    """The version of the numbers of a finished run; runs that do not tell it are of the first."""
    return int(meta.get("numbers", 1))


# the model


def model_facts(model: Any, weights: str | None = None) -> dict[str, Any]:
    """What a model is by ingredient: weights, configuration, structure and code, attention, adapters, what it was told.

    Of transformers models the kind of attention counts beside the configuration, which does not hold it; of those that
    are wrapped also which layers, heads and rows are slots. A digest of the weights is taken where it is known.
    """
    model = adapted(model)
    network = network_of(model)
    if network is None:
        return {
            "weights": value_digest(facts_of(model)),
            "structure": value_digest(type(original(model))),
        }
    config = getattr(network, "config", None)
    told = None
    if model.layered:
        told = {"sites": model.sites, "layers": model.layers, "heads": model.heads, "queries": model.queries}
        if getattr(model, "backbone", None) is not None:
            told["dtype"] = str(model.backbone)
    adapters = []
    for name, module in network.named_modules():
        if _adapts(module):
            adapters.append(_adapters(name, module))
    return {
        "weights": weights or weights_digest(network),
        "configuration": _digest(configuration_facts(config)),
        "structure": structure_digest(network),
        "attention": attention_implementations(config),
        "adapters": adapters,
        "told": told,
        "device": next((weight.device.type for weight in network.parameters()), "cpu"),
    }


def weights_digest(model: nn.Module) -> str:
    """A digest of a model's weights and buffers, with the type that they are stored in."""
    seen = hashlib.sha256()
    values = {**dict(model.named_buffers()), **model.state_dict()}
    for name, value in sorted(values.items()):
        seen.update(name.encode())
        if not isinstance(value, Tensor):
            seen.update(value_digest(value).encode())
            continue
        for part in tensor_parts(value):
            seen.update(part)
    return seen.hexdigest()


def _adapts(module: nn.Module) -> bool:
    return any(name in dir(type(module)) or name in vars(module) for name in ("active_adapters", "merged_adapters"))


def _adapters(name: str, module: nn.Module) -> list[Any]:
    """Which adapters of a layer act, and how strongly."""
    facts: list[Any] = [name]
    for key in _OF_ADAPTERS:
        try:
            value = getattr(module, key, None)
        except (ValueError, RuntimeError):  # transformers models without any adapter
            continue
        if isinstance(value, Mapping):
            value = sorted(value.items())
        if not callable(value):
            facts.append([key, repr(value)])
    return facts


# the tokenizer


def tokenizer_digest(tokenizer: Any) -> str:
    """A digest of how a tokenizer makes ids of texts: vocabulary, normalisation, added tokens, sides, limits.

    Padding and truncation of a fast tokenizer's own are those of its last call and do not count.
    """
    if tokenizer is None:
        return "none"
    kind = type(tokenizer)
    installed_name = f"{kind.__module__}.{kind.__qualname__}"
    facts: list[Any] = [value_digest(kind) if is_written(kind) else installed_name]
    for name in _OF_TOKENIZERS:
        value = getattr(tokenizer, name, None)
        # a method of that name (`add_special_tokens`) shows the folder that the tokenizer was loaded from
        if not callable(value):
            facts.append([name, repr(value)])
    special_tokens = getattr(tokenizer, "special_tokens_map", None) or {}
    facts.append(sorted(map(repr, special_tokens.items())))
    if getattr(tokenizer, "is_fast", False):
        backend = json.loads(tokenizer.backend_tokenizer.to_str())
        facts.append({name: value for name, value in backend.items() if name not in ("padding", "truncation")})
    else:
        facts += _slow_facts(tokenizer)
    return _digest(facts)


def _slow_facts(tokenizer: Any) -> list[Any]:
    """What a tokenizer without a fast backend does: added tokens, vocabulary, arguments, files, attributes."""
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    arguments = getattr(tokenizer, "init_kwargs", None) or {}
    told = {name: value for name, value in arguments.items() if name not in (*_PATHS, *_TOLD_NOTHING)}
    vocabulary = None
    if hasattr(tokenizer, "get_vocab"):
        vocabulary = sorted(tokenizer.get_vocab().items())
    facts: list[Any] = [
        sorted((int(number), repr(token)) for number, token in added.items()),
        vocabulary,
        sorted((name, repr(value)) for name, value in told.items()),
        _own_files(tokenizer),
    ]
    if not hasattr(tokenizer, "init_kwargs"):  # a class of one's own
        facts.append(value_digest(vars(tokenizer)))
    return facts


def _own_files(tokenizer: Any) -> list[str]:
    """Digests of the files that a slow tokenizer saves: merges and models that its vocabulary does not tell."""
    if not hasattr(tokenizer, "save_vocabulary"):
        return []
    with TemporaryDirectory() as place:
        try:
            tokenizer.save_vocabulary(place)
        except (NotImplementedError, OSError, TypeError, ValueError):
            return []
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(place).iterdir())]


# the data


def texts_digest(texts: Any, split: str) -> str:
    """A digest of a data set: its classes and splits, and of the tested one every column, row by row in order."""
    seen = hashlib.sha256(json.dumps([texts.fingerprint, texts.label_names, split]).encode())
    rows = texts.splits[split].with_format(None)
    names = sorted(rows.column_names)
    for start in range(0, len(rows), 1000):
        batch = rows[start : start + 1000]
        columns = [[name, batch[name]] for name in names]
        seen.update(json.dumps(columns, default=repr).encode())
    return seen.hexdigest()


# names


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=repr).encode()).hexdigest()


def slug(parts: Sequence[str]) -> str:
    """A folder's name from what it is about.

    Example:
        >>> slug(["My data", "lstm", "10"])
        'my-data-lstm-10'
    """
    return re.sub(r"[^a-z0-9.-]+", "-", "-".join(parts).lower()).strip("-.")


def digest(path: Path, named: bool = True) -> str:
    """A digest of a file or of the files in a folder: names, sizes and content; of huge files the two ends.

    Args:
        path: of the file or folder.
        named: whether names count beside what is held.
    """
    seen = hashlib.sha256()
    files = [path]
    if path.is_dir():
        files = sorted(inner for inner in path.rglob("*") if inner.is_file())
    for file in files:
        size = file.stat().st_size
        name = file.name if named else ""
        seen.update(f"{name} {size} ".encode())
        with open(file, "rb") as handle:
            if size <= _WHOLE:
                while part := handle.read(2**20):
                    seen.update(part)
                continue
            seen.update(handle.read(2**20))
            handle.seek(size - 2**20)
            seen.update(handle.read(2**20))
    return seen.hexdigest()
