"""What is measured of the stages that write: an encoded data set, and a report."""

from __future__ import annotations

import copy
import itertools
import shutil
import string
import tempfile
from pathlib import Path
from typing import Any

import datasets
import plain
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from measure import Case, Peer
from setups import VOCABULARY, Setup, weights_folder
from stages import stage

from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.sentence_tokenizer import with_sentences
from attn_faithful.data.sources import TextData
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.evaluation_task import Task
from attn_faithful.experiments.run_evaluation import evaluate_task
from attn_faithful.reports.report import report


def texts_of(setup: Setup) -> tuple[Any, datasets.Dataset]:
    """The tokenizer, and the set-up's texts as words."""
    tokenizer, words = _stock_words() if setup.stock else _made_words()
    special_tokens = 2 if setup.stock else 0
    lengths = [n - special_tokens for n in setup.batch["attention_mask"].sum(1).tolist()]
    chosen = torch.randint(len(words), (sum(lengths),), generator=torch.Generator().manual_seed(0)).tolist()
    stream = (words[i] for i in chosen)
    texts = []
    for n in lengths:
        words_of_text = list(itertools.islice(stream, n))
        if setup.name == "HAN":
            words_of_text[5::6] = ["."] * len(words_of_text[5::6])
        texts.append(" ".join(words_of_text))
    ids = [f"test-{i}" for i in range(len(texts))]
    labels = [i % 2 for i in range(len(texts))]
    return tokenizer, datasets.Dataset.from_dict({"example": ids, "text": texts, "label": labels})


def _stock_words() -> tuple[Any, list[str]]:
    """MiniLM's tokenizer, and words that are one token each."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(weights_folder())
    return tokenizer, [word for word in sorted(tokenizer.get_vocab()) if word.isalpha() and len(word) > 3]


def _made_words() -> tuple[Any, list[str]]:
    """A tokenizer of words of three letters after a "w"."""
    letters = itertools.product(string.ascii_lowercase, repeat=3)
    words = ["w" + "".join(ending) for ending in itertools.islice(letters, VOCABULARY - 3)]
    return train_tokenizer([" ".join([*words, "."])]), words


def task_of(setup: Setup, tests: list[str]) -> Task:
    """An evaluation of the set-up's model on its texts; without tests it encodes and writes."""
    tokenizer, rows = texts_of(setup)
    if setup.name == "HAN":
        tokenizer = with_sentences(tokenizer)
    texts = TextData("texts", {"test": rows}, ["no", "yes"], "words", fingerprint="0")
    settings = EvaluationSettings(tests=tests, controls=[])
    return Task(setup.model, tokenizer, setup.name, texts, "test", settings)


@stage("encode to disk")
def encode_to_disk(setup: Setup) -> Case:
    task = task_of(setup, [])
    if setup.stock:
        model = copy.deepcopy(setup.model.model)
        model.set_attn_implementation("eager")  # the only one that gives its attention
    else:
        model = setup.plain()
    tokenizer, rows = texts_of(setup)
    target = Path(tempfile.mkdtemp())

    def ours() -> None:
        shutil.rmtree(target / "ours", ignore_errors=True)
        evaluate_task(task, target / "ours")

    plainly = Peer("loop", lambda: _plainly(setup, model, tokenizer, rows, target / "plain.parquet"))
    return Case(len(setup), ours, [plainly])


@torch.no_grad()
def _plainly(setup: Setup, model: Any, tokenizer: Any, rows: datasets.Dataset, path: Path) -> None:
    """Tokenize, run 32 texts at a time, keep tokens, attention and probabilities, write one table."""
    encoded = encode_texts(tokenizer, rows, sentences=setup.name == "HAN")
    table: dict[str, list[Any]] = {"example": [], "tokens": [], "attention": [], "probabilities": []}
    for start in range(0, len(rows), plain.ROWS):
        part = encoded[start : start + plain.ROWS]
        probabilities, attention = _run(setup, model, plain.joined(_single_rows(part)))
        texts = zip(part["example"], part["input_ids"], attention, probabilities, strict=True)
        for example, ids, weights, probability in texts:
            table["example"].append(example)
            table["tokens"].append(tokenizer.convert_ids_to_tokens(ids))
            table["attention"].append(weights.tolist())
            table["probabilities"].append([1 - float(probability), float(probability)])
    pq.write_table(pa.table(table), path)


def _single_rows(part: dict[str, list[Any]]) -> list[plain.Batch]:
    """A batch of one row a text."""
    names = [name for name in ("input_ids", "sentence_ids") if name in part]
    texts = []
    for values in zip(*(part[name] for name in names), strict=True):
        text = {name: torch.tensor(value)[None] for name, value in zip(names, values, strict=True)}
        text["attention_mask"] = torch.ones_like(text["input_ids"])
        texts.append(text)
    return texts


def _run(setup: Setup, model: Any, batch: plain.Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Probability of the second class, (B,), and attention (B, items)."""
    if not setup.stock:
        return model.attended(batch)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    outputs = model(**inputs, output_attentions=True)
    return outputs.logits.softmax(-1)[:, 1], outputs.attentions[-1].mean(1)[:, 0]


@stage("report")
def reporting(setup: Setup) -> Case:
    """Tables, figures and a page of a run with three tests; what they are made of does not depend on the encoder."""
    folder = Path(tempfile.mkdtemp())
    run = evaluate_task(task_of(setup, ["correlation", "permutation", "entropy"]), folder)
    return Case(len(setup), lambda: report([run.path], folder / "report"))
