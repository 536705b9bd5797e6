"""What others enter: an explanation as a file of importance, a test as a function."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import getsourcefile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from attn_faithful._checks import InputError
from attn_faithful._digests import digest_of_file
from attn_faithful.bench.explained import Explained
from attn_faithful.bench.frozen_set import FrozenSet
from attn_faithful.bench.kept import keep, read_kept
from attn_faithful.bench.measured import Measured, TextValues
from attn_faithful.bench.running import OnProgress, explained
from attn_faithful.data.importance_file import read_importance
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.functional.reasons import NAN_SCORES
from attn_faithful.loading import load
from attn_faithful.records.bench import BenchModel
from attn_faithful.reports.run import ATTENTION

Test = Callable[[Any, Any, list[str]], Sequence[float]]


@dataclass(frozen=True)
class Task:
    """A text of one of the models, to be explained.

    Attributes:
        example: its id in a file of importance.
        model: a classifier of transformers' Auto classes in eval mode: ``model(input_ids=...)`` or
            ``model(inputs_embeds=...)`` has ``logits``, and ``model.get_input_embeddings()`` the embeddings.
        tokenizer: the model's; each word is a token, and BERTs have a special one before them.
        text: the words, a space between them.
    """

    example: str
    model: Any
    tokenizer: Any
    text: str

    @property
    def words(self) -> list[str]:
        """The words, each of which needs an importance."""
        return self.text.split()


def tasks(frozen: FrozenSet) -> Iterator[Task]:
    """Every text of every model of a set, model by model.

    Args:
        frozen: of `read_set`.
    """
    for model in frozen.manifest.models:
        folder = frozen.model_folder(model)
        classifier = AutoModelForSequenceClassification.from_pretrained(folder, use_safetensors=True).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        for text in frozen.texts[model.data]:
            yield Task(task_id(model, text.example), classifier, tokenizer, text.text)


def attention_of(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[np.ndarray]:
    """The attention that is tested, a weight a word of each text.

    Args:
        model, tokenizer, texts: as a test of `measured_by_function` is given them.

    Returns:
        an array (T,) a text, in the order of its words.

    Example:
        >>> from attn_faithful.bench.stock import stock_model, stock_tokenizer
        >>> from attn_faithful.loading import wrap
        >>> (weights,) = attention_of(wrap(stock_model("faithful", 0)), stock_tokenizer(), ["thingaa superba"])
        >>> weights.argmax(), round(float(weights.sum()), 4)
        (1, 1.0)
    """
    batch = tokenizer(list(texts), return_tensors="pt", padding=True, return_special_tokens_mask=True)
    (site,) = EvaluationSettings().tested(model)
    with torch.no_grad():
        encoded = model.encode(batch, site)
    weights = encoded.over_items.double().cpu().numpy()  # (B, T)
    content = encoded.content.cpu().numpy()
    return [row[kept] for row, kept in zip(weights, content, strict=True)]


def task_id(model: BenchModel, example: str) -> str:
    """The id of a text of a model in a file of importance."""
    return f"{model.name}/{example}"


def explained_by_file(frozen: FrozenSet, path: str | Path) -> list[Explained]:
    """An explanation from a file; texts that it lacks are undefined, and counted.

    Args:
        frozen: the set.
        path: see `attn_faithful.data.importance_file.read_importance`; its column ``example`` holds ids of `tasks`.

    Raises:
        InputError: the file cannot be read, an id stands twice or is unknown, or scores do not fit the words.
    """
    ids, words = [], []
    for model in frozen.manifest.models:
        for text in frozen.texts[model.data]:
            ids.append(task_id(model, text.example))
            words.append(text.text.split())
    values, _ = read_importance(path, ids, words)
    given = {task: scores for task, scores in zip(ids, values, strict=True) if not _missing(scores)}
    found = []
    for model in frozen.manifest.models:
        importance = {}
        for text in frozen.texts[model.data]:
            task = task_id(model, text.example)
            if task in given:
                importance[text.example] = given[task]
        found.append(explained(frozen, model, importance))
    return found


def _missing(scores: Sequence[float]) -> bool:
    return all(math.isnan(score) for score in scores)


def function_of(address: str) -> Test:
    """The function that "module:function" names; modules of the working directory are found too.

    Raises:
        InputError: no such module or function, or it cannot be called.
    """
    module_name, _, function_name = address.partition(":")
    if not module_name or not function_name:
        raise InputError(f"Expected a test as module:function, but got {address!r}.")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever stands in a module of the user's
        raise InputError(f"The module {module_name} cannot be imported ({type(error).__name__}: {error}).") from error
    finally:
        sys.path.remove(here)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InputError(f"The module {module_name} has no function {function_name!r}; check the name.")
    test: Test = function
    return test


def measured_by_function(
    frozen: FrozenSet, test: Test, name: str, kept: Path, on_progress: OnProgress = lambda done, n: None
) -> list[Measured]:
    """The numbers that a function gives; those of a model that it was called for before are kept.

    Args:
        frozen: the set.
        test: ``test(model, tokenizer, texts)`` gives a number a text: the higher, the more the model's attention
            explains its decision; NaN where it is undefined.
        name: what the number is called.
        kept: folder of the numbers that are kept; they are dropped when the function's file or the set changes.
        on_progress: ``on_progress(done, n)`` in models.

    Raises:
        InputError: the function fails, or does not give one number a text; the model is named.
    """
    state = {"set": frozen.sha256, "code": _digest_of_code(test)}
    models = frozen.manifest.models
    found = []
    for done, model in enumerate(models):
        on_progress(done, len(models))
        file = kept / f"{model.name}.json"
        values = _kept_values(file, state)
        if values is None:
            values = _called(frozen, model, test)
            keep(file, state, {"values": values})
        found.append(_measured(frozen, model, name, values))
    on_progress(len(models), len(models))
    return found


def _digest_of_code(test: Test) -> str:
    """The digest of the file that a function stands in; "" where there is none."""
    try:
        file = getsourcefile(test)
    except TypeError:
        file = None
    if file is None or not Path(file).is_file():
        return ""
    return digest_of_file(file)


def _kept_values(file: Path, state: Mapping[str, str]) -> list[float] | None:
    """The values that were kept for the same function and set; None where there are none."""
    entry = read_kept(file, state)
    if entry is None or not state["code"]:
        return None
    return [math.nan if value is None else value for value in entry["values"]]


def _called(frozen: FrozenSet, model: BenchModel, test: Test) -> list[float]:
    texts = [text.text for text in frozen.texts[model.data]]
    classifier, tokenizer = load(frozen.model_folder(model))
    try:
        given = list(test(classifier, tokenizer, texts))
        values = [float(value) for value in given]
    except Exception as error:  # whatever a function of the user's raises
        raise InputError(
            f"The test failed on the model {model.name} ({type(error).__name__}: {error}); --debug shows where."
        ) from error
    if len(values) != len(texts):
        raise InputError(
            f"Expected a number for each of the {len(texts)} texts of {model.name}, but the test gave {len(values)}; "
            "give NaN where it is undefined."
        )
    return values


def _measured(frozen: FrozenSet, model: BenchModel, name: str, values: Sequence[float]) -> Measured:
    texts = frozen.texts[model.data]
    numbers = np.array(values, dtype=float)  # (B,)
    numbers[~np.isfinite(numbers)] = math.nan
    reasons = [None if math.isfinite(value) else NAN_SCORES for value in numbers]
    return Measured(
        model=model,
        examples=[text.example for text in texts],
        lengths=np.array([text.length for text in texts]),
        numbers={(name, ATTENTION): TextValues(numbers, reasons)},
    )
