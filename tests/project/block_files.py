"""Small stand-ins for the files, models and runs that the pages name."""

from __future__ import annotations

import csv
import gzip
import json
import random
import shutil
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoModelForSequenceClassification,
    BartConfig,
    BertConfig,
    GPT2Config,
    PreTrainedTokenizerFast,
)

from attn_faithful.cli import main

CLASSES = ("negative", "positive")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TEXTS = 28
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
SMALL = ("--smoke", "--seeds", "10", "--set", "model.hidden_size=8", "--set", "model.embedding_size=8")


def sentences(n: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts of a few words, of which one says the label, in turns of both; no two are equal."""
    generator = random.Random(seed)
    rows: dict[str, str] = {}
    while len(rows) < n:
        label = len(rows) % 2
        words = ["the", "film", "was", *generator.choices(["long", "short", "loud"], k=2)]
        told = generator.choice((["bad", "awful"], ["good", "superb"])[label])
        words.insert(generator.randrange(len(words)), told)
        rows.setdefault(" ".join(words), CLASSES[label])
    return list(rows.items())


def write_csv(path: Path, columns: list[str], rows: list[tuple[str, ...]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def write_data(folder: Path) -> None:
    """The tables: reviews, the same with other columns, with marks, in splits, and pairs."""
    rows = sentences(TEXTS)
    write_csv(folder / "reviews.csv", ["text", "label"], rows)
    write_csv(folder / "shop.csv", ["body", "stars"], rows)
    for split, seed, n in (("train", 1, 32), ("test", 2, 8)):
        write_csv(folder / "imdb" / f"{split}.csv", ["text", "label"], sentences(n, seed))
    pairs = [(text, f"was it {CLASSES[i % 2]}", label) for i, (text, label) in enumerate(rows)]
    write_csv(folder / "pairs.csv", ["premise", "hypothesis", "label"], pairs)
    documents = [(f"{text}. It was {text.split()[-1]} too. That is all.", label) for text, label in rows]
    write_csv(folder / "documents.csv", ["text", "label"], documents)
    with open(folder / "marked.jsonl", "w", encoding="utf-8") as file:
        for i, (text, label) in enumerate(rows):
            words = [("he", "she")[i % 2], "said", *text.split()]
            marks = [int(word in ("bad", "awful", "good", "superb")) for word in words]
            hidden = [int(word in ("he", "she")) for word in words]
            row = {"id": i, "text": " ".join(words), "label": label, "rationale": marks, "hidden": hidden}
            file.write(json.dumps(row) + "\n")
    with open(folder / "mine.jsonl", "w", encoding="utf-8") as file:
        for i, (text, _) in enumerate(rows):
            scores = [len(word) for word in text.split()]
            file.write(json.dumps({"example": f"test-{i}", "scores": scores}) + "\n")
    words = sorted({word for text, _ in rows for word in text.split()})
    lines = [" ".join([word, *(f"{(i + j) % 7 / 7:.3f}" for j in range(50))]) for i, word in enumerate(words)]
    for name in ("glove.6B.50d.txt.gz", "glove.6B.50d.top50k.txt.gz"):
        with gzip.open(folder / name, "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def tokenizer_of(texts: list[str]) -> PreTrainedTokenizerFast:
    """Every word of the texts is a token."""
    words = [*SPECIAL, *sorted({word for text in texts for word in text.replace(".", " .").split()})]
    ids = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")],
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]", "eos": "[SEP]"}
    named = {f"{name}_token": token for name, token in names.items()}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=48, **named)


def write_models(folder: Path) -> None:
    """A BERT, one of pairs, a GPT-2 and a BART, all with two layers and weights as drawn."""
    texts = [text for text, _ in sentences(TEXTS)] + [
        "was it negative",
        "was it positive",
        "that is all . it too",
        "he she said",
    ]
    tokenizer = tokenizer_of(texts)
    common = {
        "vocab_size": len(tokenizer),
        "id2label": dict(enumerate(CLASSES)),
        "label2id": {name: i for i, name in enumerate(CLASSES)},
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    bert = BertConfig(**common, **SIZES, max_position_embeddings=48)
    gpt2 = GPT2Config(**common, n_embd=16, n_layer=2, n_head=2, n_positions=48)
    bart = BartConfig(
        **common,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=48,
    )
    configs = {"bert-finetuned": bert, "nli-finetuned": bert, "gpt2-finetuned": gpt2, "bart-finetuned": bart}
    for name, config in configs.items():
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_config(config).eval()
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)


def write_runs() -> None:
    """A model of the quickstart's data, one of the reviews, and an evaluation of each kind of model."""
    main(["attefa", "--data", "mock-1", "--encoder", "lstm", "--name", "quickstart", *SMALL])
    main(["train", "--data", "reviews.csv", "--encoder", "lstm", *SMALL])
    (trained,) = Path("runs/train").glob("*/model")
    for model in (str(trained), "bert-finetuned"):
        main(["evaluate", model, "--data", "reviews.csv", "--limit", "4"])


def write_all(folder: Path) -> None:
    """Everything, in a folder that is the present one."""
    write_data(folder)
    write_models(folder)
    (folder / "runs" / "bench" / "set").mkdir(parents=True)
    shutil.copytree(Path(__file__).parents[2] / "recipes", folder / "recipes")
    shutil.copytree(Path(__file__).parents[2] / "docs" / "gallery", folder / "docs" / "gallery")
    write_runs()
