"""Tables of what was measured, in Markdown: those of docs/benchmarks.md, by the name of their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from records import Record, cell_text, markdown, megabytes, of_floor, ratio_text, ratio_to, seconds_text

CAPTUM = ("Captum", "Captum, batched")
SPOKEN = {"loop": "the loop", "Captum": "Captum", "interpreto": "interpreto", "authors": "the authors' way"}
SLOWER = 0.95  # a ratio below it is told as slower
SHOWN = ("SST", "Yelp")  # lengths of MiniLM in the short table
# stages of own models in the short table
IN_SHORT = (
    ("training step", "BiLSTM"),
    ("gradients", "MLP"),
    ("leave-one-out", "MLP"),
    ("leave-one-out", "BiLSTM"),
    ("leave-one-out", "Transformer"),
    ("permutations", "BiLSTM"),
    ("adversary", "BiLSTM"),
    ("erasure", "BiLSTM"),
    ("encode to disk", "MLP"),
)


def line(record: Record) -> str:
    """A record in a line."""
    names = [str(record[key]) for key in ("stage", "model", "length", "layers", "case") if key in record]
    return "  ".join([*names, cell_text(record)])


def grid(records: Sequence[Record], keys: Sequence[str], cell: Callable[[Record], str]) -> str:
    """A row for each value of the keys, a column a length."""
    lengths = list(dict.fromkeys(record["length"] for record in records))
    cells: dict[tuple[str, ...], dict[Any, str]] = {}
    for record in records:
        names = tuple(str(record[key]) for key in keys)
        cells.setdefault(names, {})[record["length"]] = cell(record)
    rows = [[*names, *(by_length.get(length, "") for length in lengths)] for names, by_length in cells.items()]
    return markdown([*keys, *(f"{length:,}" if isinstance(length, int) else length for length in lengths)], rows)


def own(records: Sequence[Record]) -> str:
    """Stages of own models: time, times faster than each peer, memory."""
    return grid(records, ("stage", "model"), cell_text)


def fastest_captum(record: Record) -> tuple[float | None, bool]:
    """The ratio to the faster of Captum's ways."""
    ratios = [ratio_to(record, name) for name in CAPTUM]
    known = [(ratio, at_least) for ratio, at_least in ratios if ratio is not None]
    return min(known, default=(None, False))


def peers_of(record: Record) -> dict[str, tuple[float | None, bool]]:
    """The ratio to each peer, Captum's ways as one."""
    return {
        "loop": ratio_to(record, "loop"),
        "Captum": fastest_captum(record),
        "interpreto": ratio_to(record, "interpreto"),
        "authors": ratio_to(record, "authors"),
    }


def share_text(share: float | None) -> str:
    return "" if share is None else f"{share:.2f}"


def minilm(records: Sequence[Record]) -> str:
    """Stages of MiniLM: time, times faster than each peer, share of the floor."""
    head = ["stage", "texts", "pieces", "time", "loop", "Captum", "interpreto", "authors", "of the floor", "memory"]
    rows = []
    for record in records:
        names = [record["stage"], record["length"], f"{record.get('pieces', 0):.0f}"]
        if "seconds" not in record:
            rows.append([*names, record["skipped"], *[""] * 6])
            continue
        ratios = [ratio_text(*ratio) for ratio in peers_of(record).values()]
        rest = [share_text(of_floor(record)), megabytes(record["bytes"])]
        rows.append([*names, seconds_text(record["seconds"]), *ratios, *rest])
    return markdown(head, rows)


def forward(records: Sequence[Record]) -> str:
    """How near whole forwards come to the rate of matrix products."""
    if "skipped" in records[0]:
        return records[0]["skipped"]
    rows = [[str(record["pieces"]), str(record["texts"]), share_text(record["share"])] for record in records]
    return markdown(["pieces", "texts in a batch", "of the rate"], rows)


def minilm_growth(records: Sequence[Record]) -> str:
    """Time, rows and memory of one text."""

    def cell(record: Record) -> str:
        if "seconds" not in record:
            return record["skipped"]
        return f"{seconds_text(record['seconds'])}, {record['rows']:,} rows, {megabytes(record['bytes'])}"

    return grid(records, ("stage", "layers"), cell)


def growth_by_length(records: Sequence[Record]) -> str:
    """Time and memory of own models on one text."""

    def cell(record: Record) -> str:
        memory = megabytes(record.get("bytes", 0))
        if "seconds" in record:
            return f"{seconds_text(record['seconds'])}, {memory}"
        return f"{record['skipped']}, {memory}" if record.get("bytes") else record["skipped"]

    return grid(records, ("stage", "model"), cell)


def growth_by_examples(records: Sequence[Record]) -> str:
    """A row a number of examples and tests."""
    rows = []
    for record in records:
        memory = [megabytes(record["own bytes"]), megabytes(record["bytes"])]
        rows.append([f"{record['examples']:,}", record["tests"], seconds_text(record["seconds"]), *memory])
    return markdown(["examples", "tests", "time", "peak memory", "with mapped files"], rows)


def recurrent(records: Sequence[Record]) -> str:
    """The BiLSTM's encoder against packing, and its training step against matrix products."""
    head = ("tokens", "encoder", "packed", "ratio", "training step", "of products of like shape", "of a square product")
    rows = []
    for record in records:
        encoder, packed, step = (record[f"{name} seconds"] for name in ("encoder", "packed", "step"))
        speed = record["operations"] / step
        shares = [speed / record[f"rate of {what}"] for what in ("like shape", "a square")]
        times = [seconds_text(encoder), seconds_text(packed), ratio_text(packed / encoder), seconds_text(step)]
        rows.append([str(record["length"]), *times, *map(share_text, shares)])
    return markdown(head, rows)


def trainer(record: Record) -> str:
    step, times = seconds_text(record["seconds"]), record["seconds"] / record["plain seconds"]
    return f"Trainer, MLP of embedding 50: {step} a step with all that is around it, {times:.2f} times the bare step."


def against(records: Sequence[Record]) -> str:
    """Whole evaluations beside those of an earlier commit."""
    if "skipped" in records[0]:
        return records[0]["skipped"]
    rows = []
    for record in records:
        times = [seconds_text(record[f"{side} seconds"] / record["texts"]) for side in ("old", "new")]
        ratio = ratio_text(record["old seconds"] / record["new seconds"])
        rows.append([record["case"], f"{record['texts']:,}", *times, ratio])
    return markdown(["evaluation", "texts", records[0]["commit"], "now", "times faster"], rows)


def slower(results: dict[str, Any], most: int | None = None) -> str:
    """What is slower than a peer, the worst first."""
    found = []
    for record in [*results["minilm"], *results["own"]]:
        where = f"{record['stage']} ({record['model']}, {record['length']})"
        for peer, (ratio, _) in peers_of(record).items():
            if ratio is not None and ratio < SLOWER:
                found.append((ratio, f"{where} {ratio:.2f} times {SPOKEN[peer]}"))
    texts = [text for _, text in sorted(found)[:most]]
    return "; ".join(texts) + "." if texts else "Nothing that was measured."


def speed(results: dict[str, Any]) -> str:
    """The short table: MiniLM at two lengths, own models at the longer one, and what loses."""
    parts = [speed_of_minilm(results["minilm"]), speed_of_own(results["own"])]
    parts.append("Slower than a peer, the worst first: " + slower(results, most=8))
    return "\n\n".join(parts)


def speed_of_minilm(records: Sequence[Record]) -> str:
    by_stage: dict[str, dict[str, Record]] = {}
    for record in records:
        by_stage.setdefault(record["stage"], {})[record["length"]] = record
    rows = []
    for stage, by_length in by_stage.items():
        both = [by_length.get(length, {"skipped": ""}) for length in SHOWN]
        times = [seconds_text(record["seconds"]) if "seconds" in record else record["skipped"] for record in both]
        columns = [times]
        for peer in ("loop", "Captum", "interpreto", "authors"):
            columns.append([ratio_text(*peers_of(record)[peer]) for record in both])
        columns.append([share_text(of_floor(record)) for record in both])
        rows.append([stage, *(" / ".join(text or "-" for text in column) if any(column) else "" for column in columns)])
    pieces = [f"{by_length[length]['pieces']:.0f}" for length in SHOWN if "pieces" in by_length.get(length, {})]
    head = [f"MiniLM, {' / '.join(pieces)} pieces", "time", "loop", "Captum", "interpreto", "authors", "of the floor"]
    return markdown(head, rows)


def speed_of_own(records: Sequence[Record]) -> str:
    longest = max(record["length"] for record in records)
    known = {(record["stage"], record["model"]): record for record in records if record["length"] == longest}
    rows = []
    for stage, model in IN_SHORT:
        record = known.get((stage, model), {"skipped": "-"})
        if "seconds" in record:
            ratios = [ratio_text(*ratio_to(record, peer)) for peer in ("loop", "authors")]
            rows.append([stage, model, seconds_text(record["seconds"]), *ratios])
    return markdown([f"own models, {longest} tokens", "model", "time", "loop", "authors"], rows)


WRITERS: dict[str, Callable[[Any], str]] = {
    "minilm": minilm,
    "forward": forward,
    "own": own,
    "against": against,
    "recurrent": recurrent,
    "trainer": trainer,
    "growth of minilm": minilm_growth,
    "growth by length": growth_by_length,
    "growth by examples": growth_by_examples,
}


def sections(results: dict[str, Any]) -> dict[str, str]:
    """The tables of what was measured, by the name of their place."""
    found = {name: write(results[name]) for name, write in WRITERS.items() if results.get(name)}
    if results.get("minilm") and results.get("own"):
        found["speed"] = speed(results)
        found["slower"] = slower(results)
    return found


def everything(results: dict[str, Any]) -> str:
    """All tables."""
    return "\n\n".join(f"{name}\n\n{text}" for name, text in sections(results).items())
