"""What a run folder says of single texts: their items and, a line each, every importance over them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import Run
from attn_faithful.reports.tables.table import number
from attn_faithful.schema import TABLES

ADVERSARY = re.compile(r"(exact|interval|adam)-1")
SETS = ("smallest_set", "greedy_set")
PLANTED = "informative"
_NO_SOURCE = ("example", "site", "slot", "tokens", "offsets", "attention", PLANTED)
_AT_FIRST = ("leave_one_out", "saliency", "input_x_gradient")  # lines that stand there before anyone asks for more


@dataclass(frozen=True)
class Kind:
    """One line that may stand under a text.

    Attributes:
        key: "attention", a source, "adversarial", "flip", "twin <variant>", "smallest_set", "informative".
        title: in words.
        hue: the entry of the palette.
        outlined: whether it names items, and does not weigh them.
        shown: whether it is shown at first.
        signed: whether some value is below 0.
    """

    key: str
    title: str
    hue: str
    outlined: bool = False
    shown: bool = True
    signed: bool = False


@dataclass(frozen=True)
class Line:
    """What one kind says of one text.

    Attributes:
        kind: which.
        values: a number an item, NaN where undefined; None for lines that name items.
        places: of the items that it names; None for lines that weigh them.
        note: what to say beside it.
    """

    kind: Kind
    values: np.ndarray | None
    places: list[int] | None
    note: str


class Examples:
    """The texts of a run at one site.

    Args:
        run: the run.
        site: where in the model; None for the one nearest to the output that was tested.

    Attributes:
        site: that site; None where the run holds no tokens.
        kinds: of the lines that some text has.
        noun: what an item is: "word", "token" or "sentence".
    """

    def __init__(self, run: Run, site: str | None = None) -> None:
        self.run = run
        self.site = site if site is not None else (sites_of(run) or [None])[-1]
        self.noun = noun_of(run, self.site)
        self._tokens = _at(run, "tokens", self.site)
        self._variants = _at(run, "variants", self.site)
        self._row = {str(e): i for i, e in enumerate(self._tokens.get("example", []))}
        self._lists: dict[str, Lists] = {}
        self.kinds = list(self._kinds())

    def __len__(self) -> int:
        return len(self.run.examples)

    # the text

    def words(self, i: int) -> list[str]:
        """The items of a text, as they stand there."""
        row = self._row.get(self.run.examples[i])
        return [] if row is None else self._words[row]

    @cached_property
    def _words(self) -> list[list[str]]:
        return [[str(word) for word in words or []] for words in self._tokens["tokens"].to_pylist()]

    def joined(self, i: int) -> list[bool]:
        """Of each item whether no blank stands between it and the one before."""
        row, n = self._row.get(self.run.examples[i]), len(self.words(i))
        offsets = None if row is None or "offsets" not in self._tokens else self._column("tokens", "offsets")[row]
        if offsets is None or len(offsets) != 2 * n or not n:
            return [False] * n
        return [False, *(offsets[2::2] <= offsets[1:-1:2]).tolist()]

    def text(self, i: int) -> str:
        """The items in a row, with one blank where there was any."""
        pieces = zip(self.words(i), self.joined(i), strict=True)
        return "".join(word if joined else f" {word}" for word, joined in pieces).strip()

    def query(self, i: int) -> str | None:
        """Of pairs, the text that asks."""
        return self._queries[i]

    @cached_property
    def _queries(self) -> list[str | None]:
        table = self.run.table("predictions", ["example", "query"])
        if "query" not in table.column_names:
            return [None] * len(self)
        return table.column("query").to_pylist()

    # the lines

    def lines(self, i: int) -> list[Line]:
        """Every line that this text has."""
        return [line for kind in self.kinds if (line := self.line(kind, i)) is not None]

    def line(self, kind: Kind, i: int) -> Line | None:
        """One line; None where this text has none."""
        lists, rows = self.stored(kind)
        row = rows.get(self.run.examples[i])
        held = None if row is None else lists[row]
        if held is None:
            return None
        if kind.outlined:
            places = np.flatnonzero(held > 0) if kind.key == PLANTED else held.astype(int)
            return Line(kind, None, places.tolist(), self.note(kind, i))
        values = one_an_item(held, len(self.words(i)))
        if values is None or np.isnan(values).all():
            return None
        return Line(kind, values, None, self.note(kind, i))

    def stored(self, kind: Kind) -> tuple[Lists, dict[str, int]]:
        """The column that a kind is read from, and the row of each example in it."""
        if kind.key in SETS:
            return self._column("variants", "removed"), self._found[kind.key]
        if kind.hue == "adversarial":
            return self._column("variants", "attention"), self._found[kind.key]
        return self._column("tokens", kind.key), self._row

    def _kinds(self) -> Iterator[Kind]:
        yield from (kind for kind in (self._of_tokens("attention"),) if kind)
        twins = [key for key in self._found if key.startswith("twin ")]
        for key, title in {
            "adversarial": "as good an attention",
            "flip": "nearest that flips it",
            **{twin: twin for twin in twins},
        }.items():
            if key in self._found:
                yield Kind(key, title, "adversarial", shown=key != "flip")
        first = self.first_source
        for key in TABLES["tokens"]:
            if key not in _NO_SOURCE and (kind := self._of_tokens(key, first)):
                yield kind
        for key, title in zip(SETS, ("smallest flip set", "a small flip set"), strict=True):
            if key in self._found:
                yield Kind(key, title, "smallest", outlined=True)
        if PLANTED in self._tokens:
            yield Kind(PLANTED, "planted words", PLANTED, outlined=True)

    def _of_tokens(self, key: str, first: str | None = None) -> Kind | None:
        if key not in self._tokens or not len(self._tokens[key]):
            return None
        flat = self._column("tokens", key).flat
        if not np.isfinite(flat).any():
            return None
        shown = key in ("attention", first, "leave_one_out", "given") or (first is None and key in _AT_FIRST)
        return Kind(key, title_of(key), key, shown=shown, signed=bool((flat < 0).any()))

    @cached_property
    def first_source(self) -> str | None:
        """The importance that attention is compared with first, a gradient where there is one."""
        return first_source(self.run, self.site)

    # alternatives

    @cached_property
    def _found(self) -> dict[str, dict[str, int]]:
        """Line -> example -> its row among the variants."""
        found: dict[str, dict[str, int]] = {}
        columns = ("example", "test", "variant")
        if any(name not in self._variants for name in columns):
            return found
        listed = (self._variants[name].to_pylist() for name in columns)
        labels = self._variants["label"].to_pylist() if "label" in self._variants else None
        for row, (example, test, variant) in enumerate(zip(*listed, strict=True)):
            if labels is not None and labels[row] is not None:
                continue  # of one label of several: a text has as many
            if (key := _line_of(test, variant)) is not None and self._holds(key):
                found.setdefault(key, {})[str(example)] = row
        return {key: found[key] for key in sorted(found)}

    def _holds(self, key: str) -> bool:
        return ("removed" if key in SETS else "attention") in self._variants

    def _column(self, table: str, name: str) -> Lists:
        key = f"{table} {name}"
        if key not in self._lists:
            self._lists[key] = Lists((self._tokens if table == "tokens" else self._variants)[name])
        return self._lists[key]

    def _fact(self, name: str, key: str, i: int) -> Any:
        """A column of the variants for one line of a text."""
        row = self._found[key].get(self.run.examples[i])
        return None if row is None or name not in self._facts else self._facts[name][row]

    @cached_property
    def _facts(self) -> dict[str, list[Any]]:
        names = ("attention_jsd", "output_tvd", "exact")
        return {name: self._variants[name].to_pylist() for name in names if name in self._variants}

    # what is said beside a line

    def _score(self, metric: str, source: str, i: int) -> tuple[float, str | None]:
        key = (metric, source)
        if key not in self._known:
            at = {"source": source, "site": self.site}
            self._known[key] = self.run.scores(metric, **at).to_numpy(), self.run.reasons(metric, **at)
        values, reasons = self._known[key]
        return float(values[i]), reasons[i]

    @cached_property
    def _known(self) -> dict[tuple[str, str], tuple[np.ndarray, list[str | None]]]:
        return {}

    def note(self, kind: Kind, i: int) -> str:
        """What to say beside a line."""
        if kind.key == "attention":
            return "what the model attends to"
        if kind.key in SETS:
            return self._about_set(kind, i)
        if kind.hue == "adversarial":
            return self._about_alternative(kind, i)
        if f"attention~{kind.key}" in self._compared:
            tau, reason = self._score("attention_correlation", f"attention~{kind.key}", i)
            return f"tau with attention {number(tau, 2)}" if reason is None else f"tau undefined: {reason}"
        return ""

    @cached_property
    def _compared(self) -> list[str]:
        return self.run.scored("attention_correlation", self.site)

    def _about_alternative(self, kind: Kind, i: int) -> str:
        moved, change = self._fact("attention_jsd", kind.key, i), self._fact("output_tvd", kind.key, i)
        said = [] if change is None else [f"p changes by {number(change, 3)}"]
        if moved is not None and moved == moved:
            said.append(f"JSD {number(moved, 2)}")
        text = ", ".join(said)
        if kind.key == "flip":
            return f"{text}: the least that flips it"
        if kind.key != "adversarial":
            return text
        if self._fact("exact", kind.key, i):
            return f"{text} (exact)"
        upper, _ = self._score("adversarial_upper", "attention", i)
        return f"{text} (found; at most {number(upper, 2)})" if upper == upper else f"{text} (the best found)"

    def _about_set(self, kind: Kind, i: int) -> str:
        size, reason = self._score("flip_size", kind.key, i)
        if size != size:
            return reason or ""
        by_attention, never = self._score("flip_size", "attention", i)
        needs = f"attention order needs {by_attention:.0f}" if never is None else f"attention order: {never}"
        return f"{counted(size, self.noun)}; {needs}"


def counted(n: float, noun: str) -> str:
    """A number of items in words.

    Example:
        >>> counted(1, "word"), counted(2.5, "word")
        ('1 word', '2.5 words')
    """
    return f"{n:,g} {noun}{'' if n == 1 else 's'}"


def first_source(run: Run, site: str | None) -> str | None:
    """The importance that attention is compared with first at a site, a gradient where there is one."""
    pairs = [pair.split("~") for pair in run.scored("attention_correlation", site)]
    against = [pair[1] for pair in pairs if pair[0] == "attention"]
    gradients = [name for name in against if "gradient" in name or "saliency" in name]
    return (gradients or against or [None])[0]


def sites_of(run: Run) -> list[str]:
    """The sites that were tested, nearest to the output last; of a run without tests those that were stored.

    Where nothing but twins of a stock model was tested, the last is the one that AtteFa is of: all layers at once.
    """
    if run.sites and "twin" in run.meta:
        return sorted(run.sites, key=lambda site: bool(run.scored("tvd", site)))
    if run.sites:
        return run.sites
    if not run.has("tokens"):
        return []
    return [str(site) for site in dict.fromkeys(run.table("tokens", ["site"]).column("site").to_pylist())]


def noun_of(run: Run, site: str | None) -> str:
    """What an item of a site is, in words."""
    return "sentence" if site == "sentence" else "token" if evaluation_of(run).get("units") == "token" else "word"


def evaluation_of(run: Run) -> Mapping[str, Any]:
    """How a run was tested; nothing where it was not."""
    return run.meta.get("evaluation") or (run.meta.get("recipe") or {}).get("evaluation") or {}


def _line_of(test: str, variant: str) -> str | None:
    """The line that a row of the variants makes; None for controls and what is no attention."""
    if test == "adversarial":
        return "adversarial" if ADVERSARY.fullmatch(variant) else "flip" if variant == "flip" else None
    if test == "flips":
        return variant if variant in SETS else None
    return f"twin {variant}" if test == "attefa" else None


def _at(run: Run, name: str, site: str | None) -> dict[str, Any]:
    """The columns of a table's rows at a site."""
    import pyarrow.compute as pc

    if not run.has(name):
        return {}
    table = run.table(name, [column for column in TABLES[name] if column not in ("changes", "probabilities")])
    if site is not None and "site" in table.column_names:
        table = table.filter(pc.equal(table.column("site"), site))
    table = table.combine_chunks()
    return {column: table.column(column) for column in table.column_names}


class Lists:
    """A column of lists of numbers, read at once; a null is None.

    Attributes:
        flat: all numbers in a row.
        starts: where each list begins among them, and the end.
        there: whether each is a list.
    """

    def __init__(self, column: Any) -> None:
        chunks = column.chunks if hasattr(column, "chunks") else [column]
        lists = chunks[0] if len(chunks) == 1 else column.combine_chunks() if chunks else []
        self.there = np.asarray(lists.is_valid()) if len(lists) else np.zeros(0, dtype=bool)
        self.starts = np.asarray(lists.offsets) if len(lists) else np.zeros(1, dtype=int)
        self.flat = np.asarray(lists.values, dtype=float) if len(lists) else np.zeros(0)

    def __getitem__(self, row: int) -> np.ndarray | None:
        return self.flat[self.starts[row] : self.starts[row + 1]] if self.there[row] else None


def one_an_item(values: np.ndarray, n: int) -> np.ndarray | None:
    """Weights of several slots over the same items as their mean; None where slots differ in their items."""
    if not n or len(values) % n:
        return None
    return values.reshape(-1, n).mean(0)
