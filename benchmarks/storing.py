"""What is measured of the stages that write: an encoded data set, and a report."""

from __future__ import annotations

import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

import datasets
import plain
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from measure import AbsentError, Case
from setups import VOCABULARY, Setup, minilm_folder
from stages import stage

from attn_faithful.data.encoding import encode_texts, train_tokenizer
from attn_faithful.data.sentence_tokenizer import with_sentences
from attn_faithful.data.sources import TextData
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.run_evaluation import Task, evaluate_task
from attn_faithful.reports.report import report


def texts_of(setup: Setup) -> tuple[Any, datasets.Dataset]:
    """The tokenizer, and the set-up's texts as words."""
    lengths = setup.batch["attention_mask"].sum(1).tolist()
    if setup.stock:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(minilm_folder())
        words = [word for word in sorted(tokenizer.get_vocab()) if word.isalpha() and len(word) > 3]
        lengths = [n - 2 for n in lengths]
    else:
        words = [f"w{chr(97 + i // 676 % 26)}{chr(97 + i // 26 % 26)}{chr(97 + i % 26)}" for i in range(VOCABULARY - 3)]
        tokenizer = train_tokenizer([" ".join([*words, "."])])
    chosen = torch.randint(len(words), (sum(lengths),), generator=torch.Generator().manual_seed(0)).tolist()
    texts, at = [], 0
    for n in lengths:
        own = [words[i] for i in chosen[at : at + n]]
        if setup.name == "HAN":
            own[5::6] = ["."] * len(own[5::6])
        texts.append(" ".join(own))
        at += n
    names = [f"test-{i}" for i in range(len(texts))]
    return tokenizer, datasets.Dataset.from_dict(
        {"example": names, "text": texts, "label": [i % 2 for i in range(len(texts))]}
    )


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
    task, model = task_of(setup, []), setup.plain()
    if setup.stock:
        model.model = copy.deepcopy(model.model)
        model.model.set_attn_implementation("eager")  # the only one that gives its attention
    tokenizer, rows = texts_of(setup)
    target = Path(tempfile.mkdtemp())

    def ours() -> None:
        shutil.rmtree(target / "ours", ignore_errors=True)
        evaluate_task(task, target / "ours")

    return Case(len(setup), ours, lambda: _plainly(setup, model, tokenizer, rows, target / "plain.parquet"))


@torch.no_grad()
def _plainly(setup: Setup, model: Any, tokenizer: Any, rows: datasets.Dataset, path: Path) -> None:
    """Tokenize, run 32 texts at a time, keep tokens, attention and probabilities, write one table."""
    encoded = encode_texts(tokenizer, rows, sentences=setup.name == "HAN")
    table: dict[str, list[Any]] = {"example": [], "tokens": [], "attention": [], "probabilities": []}
    for start in range(0, len(rows), plain.ROWS):
        part = encoded[start : start + plain.ROWS]
        names = [n for n in ("input_ids", "sentence_ids") if n in part]
        texts = [{n: torch.tensor(part[n][i])[None] for n in names} for i in range(len(part["input_ids"]))]
        batch = plain.joined([{**text, "attention_mask": torch.ones_like(text["input_ids"])} for text in texts])
        if setup.stock:
            inputs = {n: batch[n] for n in ("input_ids", "attention_mask")}
            found = model.model(**inputs, output_attentions=True)
            chances, attention = found.logits.softmax(-1)[:, 1], found.attentions[-1].mean(1)[:, 0]
        else:
            chances, attention = model.attended(batch)
        for i, ids in enumerate(part["input_ids"]):
            table["example"].append(part["example"][i])
            table["tokens"].append(tokenizer.convert_ids_to_tokens(ids))
            table["attention"].append(attention[i].tolist())
            table["probabilities"].append([1 - float(chances[i]), float(chances[i])])
    pq.write_table(pa.table(table), path)


@stage("report")
def reporting(setup: Setup) -> Case:
    """Tables, figures and a page of a run with three tests; what they are made of does not depend on the encoder."""
    if setup.name != "MLP":
        raise AbsentError("as for the MLP")
    folder = Path(tempfile.mkdtemp())
    run = evaluate_task(task_of(setup, ["correlation", "permutation", "entropy"]), folder)
    return Case(len(setup), lambda: report([run.path], folder / "report"))
