"""What a model's repository on the Hub holds: weights, configuration, tokenizer, code, and a card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attn_faithful._checks import InputError, check_licence
from attn_faithful.hub.upload import Files

# weights, configuration, tokenizer, card, licence and fingerprints of the texts that the model was trained on; other
# files of the folder are not pushed
_PUSHED = (
    "model*.safetensors",
    "adapter_model*.safetensors",
    "model*.safetensors.index.json",
    "pytorch_model*.bin",
    "pytorch_model*.bin.index.json",
    "adapter_model.bin",
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*",
    "*_vocab.json",
    "merges.txt",
    "bpe.codes",
    "dict.txt",
    "*.model",
    "*.spm",
    "normalizer.json",
    "chat_template.j*",
    "README.md",
    "LICENSE*",
    "LICENCE*",
    "NOTICE*",
    "training_texts.parquet",  # fingerprints, by which evaluate leaves out what the model was trained on
)
_MAPS = ("config.json", "tokenizer_config.json")  # which name the modules of a model's own classes


def model_files(run_or_folder: Path, to: str, card: str | None, licence: str | None) -> Files:
    """The files of a model's repository.

    Args:
        run_or_folder: a run folder, of which ``model`` is taken, or the folder of a saved model.
        to: "user/name".
        card: text of the README.md; None for the folder's own, or a short one.
        licence: of a short card; None for "unknown".

    Raises:
        InputError: no saved model, no weights, or a licence beside a card that names one.
    """
    model = run_or_folder
    if (model / "model" / "config.json").is_file():
        model = model / "model"
    if not (model / "config.json").is_file():
        raise InputError(
            f"{run_or_folder} holds no saved model; give a run that trained one, or the folder of a model."
        )
    files = _pushed_files(model)
    if not any(Path(name).suffix in (".safetensors", ".bin") for name in files):
        raise InputError(f"{model} holds no weights (model.safetensors); save the model again before pushing it.")
    files |= _as_saved_now(model)
    if card is None:
        card = _card_of(model, to, licence)
    files["README.md"] = card.encode()
    return files


def _pushed_files(model: Path) -> Files:
    """The files of a model's folder that go with it."""
    code = _code_of(model)
    files: Files = {}
    for path in sorted(model.iterdir()):
        is_known = any(fnmatchcase(path.name, pattern) for pattern in _PUSHED)
        if path.is_file() and (is_known or path in code):
            files[path.name] = path
    return files


def _code_of(model: Path) -> set[Path]:
    """The modules that the configuration names for the model's classes, and those beside them that they import."""
    from transformers.dynamic_module_utils import get_relative_import_files

    code = set()
    for name in sorted(set(_module_names(model))):
        path = model / f"{name}.py"
        if path.is_file():
            code.add(path)
            code.update(Path(imported) for imported in get_relative_import_files(path))
    return code


def _module_names(model: Path) -> Iterator[str]:
    """The modules of "auto_map", which maps an Auto class to "module.Class", "repository--module.Class" or a list."""
    for name in _MAPS:
        path = model / name
        if not path.is_file():
            continue
        auto_map = json.loads(path.read_text(encoding="utf-8")).get("auto_map", {})
        for entry in auto_map.values():
            places = entry if isinstance(entry, list) else [entry]
            for place in places:
                module_and_class = str(place or "").rpartition("--")[2]
                yield module_and_class.partition(".")[0]


def _as_saved_now(model: Path) -> Files:
    """The configuration with the module that finds the classes, for a model that an earlier version saved without."""
    config_json = _read_json(model / "config.json")
    if "auto_map" in config_json or not str(config_json.get("model_type")).endswith("attention_classifier"):
        return {}
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model)
    with TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        files: Files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    tokenizer = model / "tokenizer_config.json"
    if config.model_type.startswith("hierarchical") and tokenizer.is_file():
        tokenizer_config = _read_json(tokenizer) | {"tokenizer_class": "SentenceTokenizer"}
        files[tokenizer.name] = json.dumps(tokenizer_config, indent=2).encode()
    return files


def _read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _card_of(model: Path, to: str, licence: str | None) -> str:
    """The card in a model's folder; a short one where there is none."""
    card = model / "README.md"
    if not card.is_file():
        return _short_card(to, licence)
    if licence is not None:
        raise InputError(f"{card} is the model's card; name the licence there, or remove it.")
    return card.read_text(encoding="utf-8")


def _short_card(to: str, licence: str | None) -> str:
    identifier = "unknown" if licence is None else check_licence(licence)
    return (
        f"---\nlicense: {identifier}\n"
        "library_name: transformers\npipeline_tag: text-classification\ntags:\n- attention\n- attn_faithful\n"
        "---\n\n"
        f"# {to.rpartition('/')[2]}\n\nA text classifier with attention.\n\n```python\nimport attn_faithful\n\n"
        f'model, tokenizer = attn_faithful.load("{to}")\n```\n'
    )
