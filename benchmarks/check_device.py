"""Whether a device gives the CPU's numbers, and how fast: a check of minutes for a machine with a GPU.

    python benchmarks/check_device.py                # CUDA against the CPU; without CUDA it says so and exits with 0
    python benchmarks/check_device.py --device cpu   # the CPU against itself: that the check works

MiniLM (where its weights are found), a tiny BERT and a BiLSTM, all with random heads, are evaluated with every test on
both devices. A number may be 1e-5 off; one that hangs on an order or on a decision may be another where the CPU's own
importance, or its two likeliest classes, lie nearer to each other than that. The gradient search for another attention
of transformers models amplifies rounding (weights that differ by 3e-8 move what it finds by 1e-4): what it finds may be
1e-2 off. What was found goes to build/device.json.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from measure import AbsentError
from setups import weights_folder

import attn_faithful as af
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.devices import devices_there
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.schema import TABLES as COLUMNS

ROOT = Path(__file__).parents[1]
FILE = ROOT / "build" / "device.json"
TOLERANCE = 1e-5  # of numbers that are 1 at most, and of larger ones in proportion
SEARCHED = 1e-2  # of what a gradient search finds
TABLES = ("predictions", "tokens", "scores", "variants")
NAMES = {"example", "site", "slot", "source", "label", "metric", "test", "variant"}  # columns that tell rows apart
WORDS = ("the", "film", "plot", "cast", "and", "but", "with", "good", "great", "superb", "bad", "awful", "dull", "not")
LENGTHS = (3, 18)  # words of a text, fewest and most

Model = tuple[Any, Any]  # and its tokenizer


@dataclass
class Found:
    """What a comparison found.

    Attributes:
        numbers: that were compared.
        largest: difference of those that are near.
        searched: the largest difference of what a gradient search finds.
        near_ties: numbers that are others where an order or a decision is near a tie.
        others: what else is another: where, the CPU's number, the device's.
    """

    numbers: int = 0
    largest: float = 0.0
    searched: float = 0.0
    near_ties: int = 0
    others: list[tuple[str, Any, Any]] = field(default_factory=list)


# the models and texts


def texts(n: int) -> list[str]:
    """So many texts of made-up reviews, each another."""
    generator = torch.Generator().manual_seed(0)
    said = []
    for _ in range(n):
        length = int(torch.randint(*LENGTHS, (1,), generator=generator))
        words = torch.randint(len(WORDS), (length,), generator=generator).tolist()
        said.append(" ".join(WORDS[word] for word in words))
    return said


def minilm() -> Model:
    """MiniLM's weights under a random head."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = weights_folder()
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    model.classifier.weight.data.mul_(30)  # predictions that differ from text to text
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def tiny_bert() -> Model:
    """A BERT of two layers, whose weights are large enough for attention far from uniform."""
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = train_tokenizer(texts(50))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        initializer_range=0.3,
        pad_token_id=tokenizer.pad_token_id,
    )
    return BertForSequenceClassification(config).eval(), tokenizer


def bilstm() -> Model:
    """A BiLSTM of this package."""
    tokenizer = train_tokenizer(texts(50))
    torch.manual_seed(0)
    config = AttentionClassifierConfig(
        vocab_size=len(tokenizer),
        encoder="lstm",
        embedding_size=64,
        hidden_size=64,
        pad_token_id=tokenizer.pad_token_id,
    )
    return AttentionClassifier(config).eval(), tokenizer


MODELS: dict[str, Callable[[], Model]] = {"MiniLM": minilm, "tiny BERT": tiny_bert, "BiLSTM": bilstm}


# two runs


def evaluated(model: Model, said: Sequence[str], device: str) -> tuple[dict[str, list[dict[str, Any]]], float]:
    """The rows of all tables of an evaluation with every test, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as output:
        start = time.perf_counter()
        result = af.evaluate_attention(*model, list(said), output=output, device=device, progress=False)
        seconds = time.perf_counter() - start
        tables = {}
        for name in TABLES:
            tables[name] = result.folder.read_table(name).to_pylist()
        return tables, seconds


def compared(cpu: Mapping[str, Any], other: Mapping[str, Any]) -> Found:
    """The numbers of all tables, side by side."""
    found = Found()
    close_calls = {row["example"] for row in cpu["predictions"] if _near_decision(row["probabilities"])}
    for row in cpu["tokens"]:
        if _near_tie(row):
            close_calls.add(row["example"])
    for name in TABLES:
        if len(cpu[name]) != len(other[name]):
            found.others.append((f"{name}: rows", len(cpu[name]), len(other[name])))
            continue
        for row, beside in zip(cpu[name], other[name], strict=True):
            _compare(name, row, beside, row["example"] in close_calls, found)
    return found


def _compare(table: str, row: dict[str, Any], beside: dict[str, Any], close_call: bool, found: Found) -> None:
    """Compare the columns of one row."""
    where = " ".join(str(row[name]) for name in COLUMNS[table] if name in NAMES and row.get(name) is not None)
    searched = _is_searched(table, row)
    for column, value in row.items():
        if searched and column in ("attention", "probabilities"):
            continue  # of an alternative: two that are as far may be unlike
        pairs = list(_pairs(value, beside.get(column)))
        gaps = [_gap(*pair) for pair in pairs]
        found.numbers += sum(isinstance(number, float) for number, _ in pairs)
        if searched and all(gap <= SEARCHED for gap in gaps):
            found.searched = max([found.searched, *gaps])
        elif all(gap <= TOLERANCE for gap in gaps):
            found.largest = max([found.largest, *gaps])
        elif close_call:
            found.near_ties += 1
        else:
            worst = pairs[max(range(len(gaps)), key=gaps.__getitem__)]
            found.others.append((f"{table}.{column}: {where}", *worst))


def _is_searched(table: str, row: Mapping[str, Any]) -> bool:
    """Whether a row holds what a gradient search found in a layer of a transformers model."""
    of_search = {"scores": row.get("metric"), "variants": row.get("test")}.get(table) or ""
    return of_search.startswith("adversarial") and str(row.get("site")).startswith("layer")


def _pairs(value: Any, beside: Any) -> Iterator[tuple[Any, Any]]:
    """The numbers, or whatever else, of a value and of the one beside it."""
    if isinstance(value, list) and isinstance(beside, list) and len(value) == len(beside):
        for one, other in zip(value, beside, strict=True):
            yield from _pairs(one, other)
        return
    yield value, beside


def _gap(value: Any, beside: Any) -> float:
    """How far two numbers are apart, in proportion where they are large; infinitely where only one is a number."""
    if not (isinstance(value, float) and isinstance(beside, float)):
        return 0.0 if value == beside else math.inf
    if math.isnan(value) or math.isnan(beside) or math.isinf(value):
        same = value == beside or (math.isnan(value) and math.isnan(beside))
        return 0.0 if same else math.inf
    return abs(value - beside) / max(1.0, abs(value))


def _near_decision(probabilities: Sequence[float]) -> bool:
    """Whether the two likeliest classes are nearly as likely."""
    largest = sorted(probabilities)[-2:]
    return largest[1] - largest[0] <= 10 * TOLERANCE


def _near_tie(row: Mapping[str, Any]) -> bool:
    """Whether two items of a text have nearly the same importance, or attention, by any source."""
    for column, values in row.items():
        if column in (*NAMES, "offsets", "tokens", "random") or not values:
            continue
        ranked = sorted(value for value in values if value is not None and math.isfinite(value))
        gaps = [high - low for low, high in pairwise(ranked)]
        size = max(map(abs, ranked), default=0.0)
        if any(0 < gap <= TOLERANCE * max(1.0, size) for gap in gaps):
            return True
    return False


# the check


def check(name: str, device: str, n: int) -> dict[str, Any]:
    """What one model's numbers and times are on both devices."""
    model = MODELS[name]()
    said = texts(n)
    evaluated(model, said[:2], device)  # what a device does once is not timed
    cpu, cpu_seconds = evaluated(model, said, "cpu")
    other, seconds = evaluated(model, said, device)
    found = compared(cpu, other)
    return {
        "model": name,
        "texts": n,
        "numbers": found.numbers,
        "largest difference": found.largest,
        "largest difference of a search": found.searched,
        "near ties": found.near_ties,
        "others": found.others[:20],
        "n others": len(found.others),
        "cpu seconds": round(cpu_seconds, 2),
        "seconds": round(seconds, 2),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Check all models; 1 where a number is another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="that is compared with the CPU (default: cuda)")
    parser.add_argument("--texts", type=int, default=32, metavar="N", help="of each model (default: 32)")
    parser.add_argument("--output", type=Path, default=FILE, metavar="FILE", help="default: build/device.json")
    given = parser.parse_args(argv)
    record: dict[str, Any] = {"device": given.device, "torch": torch.__version__}
    status = 0
    if given.device not in devices_there():
        record["skipped"] = f"this machine has no {given.device}; it has {', '.join(devices_there())}"
        print(f"Skipped: {record['skipped']}.")
    else:
        record |= _checked(given.device, given.texts)
        status = int(any(row.get("n others") for row in record["models"]))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"Written to {given.output}.")
    return status


def _checked(device: str, n: int) -> dict[str, Any]:
    rows = []
    for name in MODELS:
        try:
            row = check(name, device, n)
        except AbsentError as error:
            print(f"{name}: left out, {error}.")
            rows.append({"model": name, "skipped": str(error)})
            continue
        rows.append(row)
        print(
            f"{name}: {row['numbers']:,} numbers, {row['n others']} others, {row['near ties']} others near ties, the "
            f"rest within {row['largest difference']:.1e}; {row['cpu seconds']} s on the CPU, {row['seconds']} s on "
            f"{device}."
        )
        for where, own, beside in row["others"][:5]:
            print(f"  {where}: {own} on the CPU, {beside} on {device}")
    name = torch.cuda.get_device_name() if device.startswith("cuda") else None
    return {"name": name, "tolerance": TOLERANCE, "models": rows}


if __name__ == "__main__":
    sys.exit(main())
