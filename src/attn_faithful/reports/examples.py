"""What a run says of single texts: their items and, a line each, every importance over them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attn_faithful.reports.list_column import ListColumn, one_an_item
from attn_faithful.reports.numbers import counted, number
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import ATTENTION, Run
from attn_faithful.reports.scores import SETS
from attn_faithful.schema import TABLES

_BEST = re.compile(r"(exact|interval|adam)-1")  # variants that are the best adversarial attention
PLANTED = "informative"
_NO_SOURCE = ("example", "site", "slot", "tokens", "offsets", ATTENTION, PLANTED)
_AT_FIRST = ("leave_one_out", "saliency", "input_x_gradient")  # lines that stand there before anyone asks for more
_UNREAD = ("changes", "probabilities")  # large columns that no line needs


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

    @property
    def of_variants(self) -> bool:
        """Whether it is read from the table of variants."""
        return self.hue in ("adversarial", "smallest")


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
        first_source: the importance that attention is compared with first, a gradient where there is one.
    """

    def __init__(self, run: Run, site: str | None = None) -> None:
        self.run = run
        self.site = run.main_site if site is None else site
        self.noun = run.noun(self.site)
        self.first_source = run.first_source(self.site)
        self._tokens = _columns_at(run, "tokens", self.site)
        self._variants = _columns_at(run, "variants", self.site)
        self._token_lists, self._variant_lists = _ListColumns(self._tokens), _ListColumns(self._variants)
        self._row = {str(example): row for row, example in enumerate(self._tokens.get("example", []))}
        self._notes = _Notes(run, self.site)
        self.kinds = list(self._kinds())

    def __len__(self) -> int:
        return len(self.run.ids)

    # the text

    def words(self, i: int) -> list[str]:
        """The items of a text, as they stand there."""
        row = self._row.get(self.run.ids[i])
        return [] if row is None else self._words[row]

    @cached_property
    def _words(self) -> list[list[str]]:
        return [[str(word) for word in words or []] for words in self._tokens["tokens"].to_pylist()]

    def joined(self, i: int) -> list[bool]:
        """Of each item whether no blank stands between it and the one before."""
        row, n = self._row.get(self.run.ids[i]), len(self.words(i))
        if row is None or "offsets" not in self._tokens:
            return [False] * n
        offsets = self._token_lists["offsets"][row]
        if offsets is None or len(offsets) != 2 * n or not n:
            return [False] * n
        starts, ends = offsets[2::2], offsets[1:-1:2]
        return [False, *(starts <= ends).tolist()]

    def text(self, i: int) -> str:
        """The items in a row, with one blank where there was any."""
        pieces = zip(self.words(i), self.joined(i), strict=True)
        return "".join(word if joined else f" {word}" for word, joined in pieces).strip()

    def query(self, i: int) -> str | None:
        """Of pairs, the text that asks."""
        return self._queries[i]

    @cached_property
    def _queries(self) -> list[str | None]:
        table = self.run.read("predictions", ["example", "query"])
        if "query" not in table.column_names:
            return [None] * len(self)
        return table.column("query").to_pylist()

    # the lines

    def lines(self, i: int) -> list[Line]:
        """Every line that this text has."""
        lines = [self.line(kind, i) for kind in self.kinds]
        return [line for line in lines if line is not None]

    def line(self, kind: Kind, i: int) -> Line | None:
        """One line; None where this text has none."""
        lists, rows = self.stored(kind)
        row = rows.get(self.run.ids[i])
        stored = None if row is None else lists[row]
        if stored is None:
            return None
        if kind.outlined:
            places = np.flatnonzero(stored > 0) if kind.key == PLANTED else stored.astype(int)
            return Line(kind, None, places.tolist(), self.note(kind, i))
        values = one_an_item(stored, len(self.words(i)))
        if values is None or np.isnan(values).all():
            return None
        return Line(kind, values, None, self.note(kind, i))

    def stored(self, kind: Kind) -> tuple[ListColumn, dict[str, int]]:
        """The column that a kind is read from, and the row of each text in it."""
        if not kind.of_variants:
            return self._token_lists[kind.key], self._row
        column = "removed" if kind.outlined else ATTENTION
        return self._variant_lists[column], self._variant_rows[kind.key]

    def note(self, kind: Kind, i: int) -> str:
        """What to say beside a line."""
        if kind.key == ATTENTION:
            return "what the model attends to"
        if not kind.of_variants:
            return self._notes.on_source(kind.key, i)
        if kind.outlined:
            return self._notes.on_set(kind.key, i)
        row = self._variant_rows[kind.key].get(self.run.ids[i])
        facts = {name: None if row is None else column[row] for name, column in self._variant_facts.items()}
        return self._notes.on_alternative(kind.key, facts, i)

    @cached_property
    def _variant_facts(self) -> dict[str, list[Any]]:
        """What is known of each alternative, by row."""
        facts = {}
        for name in ("attention_jsd", "output_tvd", "exact"):
            column = self._variants.get(name)
            facts[name] = [None] * self._n_variants if column is None else column.to_pylist()
        return facts

    @property
    def _n_variants(self) -> int:
        return len(next(iter(self._variants.values()), ()))

    # which lines there are

    def _kinds(self) -> Iterator[Kind]:
        yield from self._of_tokens(ATTENTION, shown=True)
        yield from self._alternatives()
        for key in TABLES["tokens"]:
            if key not in _NO_SOURCE:
                yield from self._of_tokens(key, self._shown_at_first(key))
        for key, title in zip(SETS, ("smallest flip set", "a small flip set"), strict=True):
            if key in self._variant_rows:
                yield Kind(key, title, "smallest", outlined=True)
        if PLANTED in self._tokens:
            yield Kind(PLANTED, "planted words", PLANTED, outlined=True)

    def _alternatives(self) -> Iterator[Kind]:
        titles = {"adversarial": "as good an attention", "flip": "nearest that flips it"}
        titles |= {key: key for key in self._variant_rows if key.startswith("twin ")}
        for key, title in titles.items():
            if key in self._variant_rows:
                yield Kind(key, title, "adversarial", shown=key != "flip")

    def _of_tokens(self, key: str, shown: bool) -> Iterator[Kind]:
        """The kind of a column of the tokens, if it holds a number."""
        if key not in self._tokens or not len(self._tokens[key]):
            return
        flat = self._token_lists[key].flat
        if np.isfinite(flat).any():
            yield Kind(key, title_of(key), key, shown=shown, signed=bool((flat < 0).any()))

    def _shown_at_first(self, key: str) -> bool:
        if key in (self.first_source, "leave_one_out", "given"):
            return True
        return self.first_source is None and key in _AT_FIRST

    @cached_property
    def _variant_rows(self) -> dict[str, dict[str, int]]:
        """Line -> text -> its row among the variants."""
        rows: dict[str, dict[str, int]] = defaultdict(dict)
        if any(name not in self._variants for name in ("example", "test", "variant")):
            return {}
        examples, tests, variants = (self._variants[name].to_pylist() for name in ("example", "test", "variant"))
        labels = self._variants["label"].to_pylist() if "label" in self._variants else [None] * len(examples)
        for row, (example, test, variant, label) in enumerate(zip(examples, tests, variants, labels, strict=True)):
            key = _line_of(test, variant)
            if label is not None or key is None:  # of one label of several: a text has as many
                continue
            if ("removed" if key in SETS else ATTENTION) in self._variants:
                rows[key][str(example)] = row
        return {key: rows[key] for key in sorted(rows)}


class _ListColumns(dict[str, ListColumn]):
    """Columns of lists by name, each read once."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__()
        self.columns = columns

    def __missing__(self, name: str) -> ListColumn:
        self[name] = ListColumn(self.columns[name])
        return self[name]


class _Notes:
    """What is said beside the lines of a run at one site."""

    def __init__(self, run: Run, site: str | None) -> None:
        self.run, self.site = run, site
        self.noun = run.noun(site)
        self._scores: dict[tuple[str, str], tuple[np.ndarray, list[str | None]]] = {}

    def on_source(self, key: str, i: int) -> str:
        """How far an importance agrees with attention; empty where they were not compared."""
        pair = f"attention~{key}"
        if pair not in self._compared:
            return ""
        tau, reason = self._score("attention_correlation", pair, i)
        return f"tau with attention {number(tau, 2)}" if reason is None else f"tau undefined: {reason}"

    @cached_property
    def _compared(self) -> list[str]:
        return self.run.sources("attention_correlation", self.site)

    def on_alternative(self, key: str, facts: Mapping[str, Any], i: int) -> str:
        """What another attention changes, and whether a better one may be there."""
        parts = []
        if facts["output_tvd"] is not None:
            parts.append(f"p changes by {number(facts['output_tvd'], 3)}")
        moved = facts["attention_jsd"]
        if moved is not None and not math.isnan(moved):
            parts.append(f"JSD {number(moved, 2)}")
        text = ", ".join(parts)
        if key == "flip":
            return f"{text}: the least that flips it"
        if key != "adversarial":
            return text
        if facts["exact"]:
            return f"{text} (exact)"
        upper, _ = self._score("adversarial_upper", ATTENTION, i)
        return f"{text} (the best found)" if math.isnan(upper) else f"{text} (found; at most {number(upper, 2)})"

    def on_set(self, key: str, i: int) -> str:
        """How many items a set has, and how many attention's order needs."""
        size, reason = self._score("flip_size", key, i)
        if math.isnan(size):
            return reason or ""
        by_attention, never = self._score("flip_size", ATTENTION, i)
        needs = f"attention order needs {by_attention:.0f}" if never is None else f"attention order: {never}"
        return f"{counted(size, self.noun)}; {needs}"

    def _score(self, metric: str, source: str, i: int) -> tuple[float, str | None]:
        """A number of one text, and why it is undefined."""
        key = (metric, source)
        if key not in self._scores:
            values = self.run.scores(metric, source, self.site).to_numpy()
            self._scores[key] = values, self.run.reasons(metric, source, self.site)
        values, reasons = self._scores[key]
        return float(values[i]), reasons[i]


def _line_of(test: str, variant: str) -> str | None:
    """The line that a row of the variants makes; None for controls and what is no attention."""
    if test == "adversarial":
        if variant == "flip":
            return "flip"
        return "adversarial" if _BEST.fullmatch(variant) else None
    if test == "flips":
        return variant if variant in SETS else None
    return f"twin {variant}" if test == "attefa" else None


def _columns_at(run: Run, name: str, site: str | None) -> dict[str, Any]:
    """The columns of a table's rows at a site."""
    import pyarrow.compute as pc

    if not run.has(name):
        return {}
    table = run.read(name, [column for column in TABLES[name] if column not in _UNREAD])
    if site is not None and "site" in table.column_names:
        table = table.filter(pc.equal(table.column("site"), site))
    return {column: table.column(column) for column in table.column_names}
