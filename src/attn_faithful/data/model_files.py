"""The files beside a saved model's weights: its tokenizer, and fingerprints of the texts that it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.training_texts import FILE, TrainingTexts

# what tokenizers of transformers are saved as; tokenizer_config.json alone is the settings of one
_TOKENIZER_FILES = ("tokenizer.json", "vocab*", "*.model", "*.vocab", "*.bpe", "*.tiktoken", "tokenizer_config.json")


def saved_training_texts(path: str | Path) -> TrainingTexts | None:
    """Fingerprints of the texts that a model was trained on, where they are beside it; else None."""
    from transformers.utils import cached_file

    try:
        file = cached_file(str(path), FILE, _raise_exceptions_for_missing_entries=False)
    except OSError:
        return None
    return None if file is None else TrainingTexts.read(Path(file))


def saved_tokenizer(path: str | Path, trust_remote_code: bool) -> Any:
    """The tokenizer beside a model; where there is none, transformers may raise what a user cannot read."""
    from transformers import AutoTokenizer

    if Path(path).is_dir() and not _holds_tokenizer(Path(path)):
        raise InputError(
            f"{path} holds a model and no tokenizer ({', '.join(_TOKENIZER_FILES)}); save the one that it was trained "
            "with there: tokenizer.save_pretrained(folder)."
        )
    try:
        return AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
    except Exception as error:  # whatever transformers or the files raise: told with the path
        raise InputError(f"The tokenizer of {path} cannot be loaded: {' '.join(str(error).split())}") from error


def _holds_tokenizer(folder: Path) -> bool:
    return any(any(folder.glob(name)) for name in _TOKENIZER_FILES)
