"""A MiniLM that was fine-tuned for a minute, texts of three lengths, and what ours does with them.

The model is fine-tuned on SST-2 where ``../shared/data`` has it, once, into ``build/minilm-sst2``; elsewhere its head
is random and its texts are made of its vocabulary's words.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import torch
from setups import weights_folder

import attn_faithful as af
from attn_faithful.data.rows import Rows
from attn_faithful.evaluators.base import Block
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.inputs import encoded_for
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.run_block import Tester
from attn_faithful.models.inference import planned

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
FOLDER = ROOT / "build" / "minilm-sst2"
STEPS, BATCH, RATE = 48, 32, 1e-4
# length -> data set, fewest and most words; about 24, 190 and 380 pieces
LENGTHS = {"SST": ("sst2", 10, 30), "Yelp": ("yelp5", 140, 170), "IMDB": ("imdb", 260, 330)}


@dataclass(frozen=True)
class Text:
    """A text as a loop by hand reads it.

    Attributes:
        ids: with special tokens.
        items: of each word the places of its pieces.
    """

    ids: list[int]
    items: list[list[int]]

    def without(self, item: int) -> list[int]:
        """The ids without one item."""
        gone = set(self.items[item])
        return [token for place, token in enumerate(self.ids) if place not in gone]

    def keeping(self, kept: list[int]) -> list[int]:
        """The ids of some items and of no item."""
        gone = {place for item, places in enumerate(self.items) if item not in set(kept) for place in places}
        return [token for place, token in enumerate(self.ids) if place not in gone]


@dataclass(frozen=True)
class StockSetup:
    """MiniLM and some texts.

    Attributes:
        model: wrapped; ``model.model`` is transformers' own.
        tokenizer: its.
        strings: the texts.
        rows: encoded, with words as items.
    """

    model: Any
    tokenizer: Any
    strings: list[str]
    rows: Rows

    def __len__(self) -> int:
        return len(self.strings)

    @property
    def pieces(self) -> float:
        """The mean number of pieces, special tokens included."""
        return sum(len(ids) for ids in self.rows["input_ids"]) / len(self)

    @functools.cached_property
    def texts(self) -> list[Text]:
        texts = []
        for ids, words in zip(self.rows["input_ids"], self.rows["word_ids"], strict=True):
            items: dict[int, list[int]] = {}
            for place, word in enumerate(words):
                if word >= 0:
                    items.setdefault(int(word), []).append(place)
            texts.append(Text([int(token) for token in ids], list(items.values())))
        return texts

    def ours(self, **settings: Any) -> Callable[[], list[Any]]:
        """The sources and tests of an evaluation, block after block, without what is written.

        Args:
            settings: fields of `EvaluationSettings`.
        """
        tester = Tester(self.evaluated, self.rows, EvaluationSettings(**{"controls": [], **settings}))
        blocks = planned(self.model, self.rows)
        return lambda: [tester.measure(block) for block in blocks]

    @property
    def evaluated(self) -> EvaluatedModel:
        collate = collator(self.rows, (), self.model.pad_token_id)
        return EvaluatedModel.of(self.model, self.tokenizer, collate, ["negative", "positive"])

    def blocks(self) -> list[Block]:
        """The texts at the last layer, as a test sees them."""
        site = self.model.sites[-2]
        evaluated = self.evaluated
        found = []
        for block in planned(self.model, self.rows):
            _, encoded = evaluated.encode_block(self.rows, block, site)
            found.append(Block(block.keys, block.keys, 0, site, encoded))
        return found


def importance(results: list[Any], source: str) -> dict[int, list[float]]:
    """What ours gave by a source: the place of a text -> a number an item."""
    return {place: by_source[source] for block in results for place, by_source in block.tested[0].importance.items()}


def stock_setup(length: str, count: int) -> StockSetup:
    """MiniLM and so many texts of a length."""
    model, tokenizer = af.load(minilm_folder())
    return setup_of(model, tokenizer, strings(length, count))


def setup_of(model: Any, tokenizer: Any, texts: list[str]) -> StockSetup:
    """A model and texts, encoded."""
    names = [f"t{number}" for number in range(len(texts))]
    table = datasets.Dataset.from_dict({"example": names, "text": texts, "label": [0] * len(texts)})
    return StockSetup(model, tokenizer, texts, Rows.of(encoded_for(model, tokenizer, table)))


def strings(length: str, count: int) -> list[str]:
    """So many texts of a length, drawn once and for all."""
    name, least, most = LENGTHS[length]
    path = DATA / name / "test.parquet"
    generator = random.Random(0)
    if not path.is_file():
        return [made_text(generator.randint(least, most), generator) for _ in range(count)]
    texts = [text.replace("<br />", " ") for text in pq.read_table(path).column("text").to_pylist()]
    fitting = [text for text in texts if least <= len(text.split()) <= most]
    return generator.sample(fitting, count)


def made_text(words: int, generator: random.Random) -> str:
    """A text of so many words that are one piece each."""
    return " ".join(generator.choices(_single_pieces(), k=words))


@functools.cache
def _single_pieces() -> list[str]:
    from transformers import AutoTokenizer

    vocabulary = AutoTokenizer.from_pretrained(weights_folder()).get_vocab()
    return [word for word in sorted(vocabulary) if word.isascii() and word.isalpha() and len(word) > 3]


def minilm_folder() -> Path:
    """The fine-tuned model's folder; it is made where it is not there.

    Raises:
        AbsentError: MiniLM's weights are not installed.
    """
    if FOLDER.is_dir():
        return FOLDER
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(weights_folder())
    names = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
    model = AutoModelForSequenceClassification.from_pretrained(weights_folder(), num_labels=2, **names)
    path = DATA / "sst2" / "train.parquet"
    if path.is_file():
        rows = pq.read_table(path, columns=["text", "label"]).to_pylist()
        fine_tune(model, tokenizer, random.Random(0).sample(rows, STEPS * BATCH))
    else:
        torch.nn.init.normal_(model.classifier.weight, std=0.5)
    unfinished = FOLDER.with_suffix(".part")
    model.eval().save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    unfinished.rename(FOLDER)
    return FOLDER


def fine_tune(model: Any, tokenizer: Any, rows: list[dict[str, Any]]) -> None:
    """Train on rows once, a batch a step, at a rate that rises and falls."""
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    model.train()
    for step in range(STEPS):
        batch = rows[step * BATCH : (step + 1) * BATCH]
        inputs = tokenizer([row["text"] for row in batch], padding=True, truncation=True, return_tensors="pt")
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 8) * (1 - step / STEPS)
        loss = model(**inputs, labels=torch.tensor([row["label"] for row in batch])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
