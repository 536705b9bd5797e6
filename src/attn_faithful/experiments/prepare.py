"""From a cell's settings to what a model reads: texts, tokenizer, encoded rows, word vectors."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attn_faithful._checks import InputError
from attn_faithful.data.collate import MODEL_COLUMNS, Collator
from attn_faithful.data.encoding import check_tokenizer_fits, encode_texts, train_tokenizer
from attn_faithful.data.rows import Rows
from attn_faithful.data.sources import TextData, load_texts
from attn_faithful.data.word_vectors import load_vectors
from attn_faithful.experiments.recipe import Recipe
from attn_faithful.models.architectures import FLAT, config_class, model_class
from attn_faithful.training.metrics import balanced_weights


@dataclass
class Prepared:
    """What a cell trains on.

    Attributes:
        texts: the data set; `rows` are its splits, encoded.
        tokenizer: fitted on the training split.
        config: of the model.
        vectors: (V, E) that the embeddings begin with; None for random ones.
        coverage: share of the vocabulary that the vector file holds; None without one.
    """

    texts: TextData
    rows: dict[str, Rows]
    tokenizer: Any
    config: Any
    vectors: torch.Tensor | None
    coverage: float | None


def prepare(recipe: Recipe, tokenizer: Any = None) -> Prepared:
    """Read, encode and check everything a cell needs, before any training.

    Args:
        recipe: of one cell.
        tokenizer: that of a model trained earlier; None fits one on the training split.

    Raises:
        InputError: what is wrong with the data, the vectors or the model's settings.
    """
    texts = load_texts(recipe.data)
    settings, train = recipe.tokenizer, texts.splits["train"]
    query = "query" in train.column_names
    tokenizer = tokenizer or train_tokenizer(
        [text for name in ("text", "query") if name in train.column_names for text in train[name]],
        pre_tokenizer=settings.pre_tokenizer or texts.pre_tokenizer,
        min_df=settings.min_df,
        lowercase=settings.lowercase,
        digits=settings.digits,
        max_vocabulary=settings.max_vocabulary,
    )
    given = dict(recipe.model)
    kind = config_class(given.pop("architecture", FLAT))
    max_length = settings.max_length
    if given.get("encoder") == "transformer" and given.get("positions") == "learned":
        positions = given.get("max_positions", kind.max_positions)
        max_length = min(max_length or positions, positions)
    sentences = model_class(kind).reads_sentences
    rows = {
        split: Rows.of(encode_texts(tokenizer, data, max_length, sentences)) for split, data in texts.splits.items()
    }
    vectors, coverage = None, None
    if recipe.vectors.path is not None:
        read = load_vectors(recipe.vectors.path, tokenizer, missing=recipe.vectors.missing)
        vectors, coverage = torch.from_numpy(read.matrix), read.coverage
        if given.setdefault("embedding_size", vectors.shape[1]) != vectors.shape[1]:
            raise InputError(
                f"model.embedding_size is {given['embedding_size']}, but the vectors of {recipe.vectors.path} have "
                f"{vectors.shape[1]} numbers; leave embedding_size out."
            )
    config = kind(
        vocab_size=len(tokenizer),
        id2label=dict(enumerate(texts.label_names)),
        label2id={name: i for i, name in enumerate(texts.label_names)},
        class_weights=_class_weights(recipe, rows["train"], texts),
        query=query,
        **{**({"output": "multi_label"} if recipe.data.multi_label else {}), **given},
    )
    check_tokenizer_fits(tokenizer, config.vocab_size, config.pad_token_id)
    return Prepared(texts, rows, tokenizer, config, vectors, coverage)


def _class_weights(recipe: Recipe, train: Rows, texts: TextData) -> list[float] | None:
    weights = recipe.train.class_weights
    if weights == "balanced":
        labels = np.asarray(train["labels"])
        if recipe.data.multi_label:  # the positive term of each label by #negative / #positive
            positive = labels.sum(0)
            return [float((len(labels) - p) / p) if p else 1.0 for p in positive]
        return balanced_weights(labels.tolist(), len(texts.label_names))
    return weights if weights is None else list(weights)


def statistics(prepared: Prepared) -> dict[str, Any]:
    """Facts of the data for meta.json: fingerprint, notes, vocabulary, and of each split classes and lengths."""
    facts: dict[str, Any] = {
        "fingerprint": prepared.texts.fingerprint,
        "notes": prepared.texts.notes,
        "vocabulary": len(prepared.tokenizer),
        "vector_coverage": prepared.coverage,
    }
    for split, rows in prepared.rows.items():
        facts[split] = split_facts(prepared.texts, split, rows)
    return facts


def split_facts(texts: TextData, split: str, rows: Rows) -> dict[str, Any]:
    """Classes and lengths of one split."""
    lengths = np.asarray(rows["length"])
    facts = {
        "n": len(rows),
        "classes": texts.class_counts(split),
        "tokens_mean": float(lengths.mean()) if len(rows) else None,
        "tokens_std": float(lengths.std()) if len(rows) else None,
        "truncated": int(np.sum(rows["truncated"])),
        "empty": int((lengths == 0).sum()),
        "distinct": _distinct(rows),
    }
    if "n_sentences" in rows.column_names:
        counts = np.asarray(rows["n_sentences"], dtype=float)
        facts |= {
            "sentences_mean": float(counts.mean()) if len(rows) else None,
            "sentences_std": float(counts.std()) if len(rows) else None,
        }
    if "query_input_ids" in rows.column_names:
        asked = np.asarray([len(ids) for ids in rows["query_input_ids"]])
        facts |= {
            "query_tokens_mean": float(asked.mean()) if len(rows) else None,
            "query_tokens_std": float(asked.std()) if len(rows) else None,
            "query_truncated": int(np.sum(rows["query_truncated"])),
            "query_empty": int((asked == 0).sum()),
        }
    return facts


def _distinct(rows: Rows) -> int:
    """How many different texts there are, of pairs how many different pairs, as the model reads them."""
    read = [name for name in ("input_ids", "query_input_ids") if name in rows.column_names]
    seen = set()
    for ids in zip(*(rows[name] for name in read), strict=True):
        seen.add(hashlib.blake2b(repr([list(one) for one in ids]).encode(), digest_size=16).digest())
    return len(seen)


def collator(rows: Rows, columns: tuple[str, ...] = (), pad_token_id: int = 0) -> Collator:
    """Makes batches of all that a model reads of the rows, with further columns."""
    return Collator(pad_token_id, (*(name for name in MODEL_COLUMNS if name in rows.column_names), *columns))
