"""What a run says of single texts: their items and, a line each, every importance over them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attn_faithful.reports.answer.head_statements import HeadStatements
from attn_faithful.reports.heads import slots_of
from attn_faithful.reports.line_notes import Alternative, LineNotes
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import ATTENTION, Run
from attn_faithful.reports.scores import CORE, SETS
from attn_faithful.reports.site_columns import ListColumn, SiteColumns, one_an_item
from attn_faithful.schema import TABLES

_BEST = re.compile(r"(exact|interval|adam)-1")  # variants that are the best adversarial attention
# what the test adversarial finds, by line, and the words for it
_ALTERNATIVES = {
    "adversarial": "as good an attention",
    "flip": "nearest that flips it",
    "head-flip": "one head flips it",
    "joint-flip": "all heads flip it",
}
PLANTED = "informative"
_NO_SOURCE = ("example", "site", "slot", "tokens", "offsets", ATTENTION, PLANTED)
_AT_FIRST = ("leave_one_out", "saliency", "input_x_gradient")  # lines that stand there before anyone asks for more


@dataclass(frozen=True)
class Kind:
    """One line that may stand under a text.

    Attributes:
        key: "attention", a source, "adversarial", "flip", "head-flip", "joint-flip", "twin <variant>", "smallest_set",
            "certified_core", "informative".
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
        self._tokens = SiteColumns(run, "tokens", self.site)
        self._variants = SiteColumns(run, "variants", self.site)
        self._row = {str(example): row for row, example in enumerate(self._tokens.values("example"))}
        self._notes = LineNotes(run, self.site)
        self.kinds = list(self._kinds())

    def __len__(self) -> int:
        return len(self.run.ids)

    # the text

    def words(self, i: int) -> list[str]:
        """The items of a text, as they stand there."""
        row = self._row.get(self.run.ids[i])
        if row is None:
            return []
        return self._words[row]

    @cached_property
    def _words(self) -> list[list[str]]:
        return [list(map(str, words or [])) for words in self._tokens.values("tokens")]

    def joined(self, i: int) -> list[bool]:
        """Of each item whether no blank stands between it and the one before."""
        spans = self.spans(i)
        if spans is None or not len(spans):
            return [False] * len(self.words(i))
        joined = spans[1:, 0] <= spans[:-1, 1]  # (items - 1,)
        return [False, *joined.tolist()]

    def spans(self, i: int) -> np.ndarray | None:
        """Start and end of each item in the text (items, 2); None where the run does not hold one an item."""
        row = self._row.get(self.run.ids[i])
        if row is None or "offsets" not in self._tokens:
            return None
        offsets = self._tokens.lists("offsets")[row]  # start and end of each item in turn
        if offsets is None or len(offsets) != 2 * len(self.words(i)):
            return None
        return offsets.reshape(-1, 2).astype(int)

    def text(self, i: int) -> str:
        """The items in a row, with one blank where there was any."""
        text = ""
        for word, joined in zip(self.words(i), self.joined(i), strict=True):
            text += word if joined else f" {word}"
        return text.strip()

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
        lines = []
        for kind in self.kinds:
            line = self.line(kind, i)
            if line is not None:
                lines.append(line)
        return lines

    def line(self, kind: Kind, i: int) -> Line | None:
        """One line; None where this text has none."""
        found = self._row_of(kind, i)
        if found is None:
            return None
        _, stored = found
        if kind.key == PLANTED:
            places = np.flatnonzero(stored > 0)
            return Line(kind, None, places.tolist(), self.note(kind, i))
        if kind.outlined:
            places = stored.astype(int)
            return Line(kind, None, places.tolist(), self.note(kind, i))
        values = self.values(kind, i)
        if values is None or np.isnan(values).all():
            return None
        return Line(kind, values, None, self.note(kind, i))

    def values(self, kind: Kind, i: int) -> np.ndarray | None:
        """The numbers of a kind that weighs items, one an item of a text; None where this text has none."""
        found = self._row_of(kind, i)
        if found is None:
            return None
        return one_an_item(self._of_one_head(kind, *found), len(self.words(i)))

    def _row_of(self, kind: Kind, i: int) -> tuple[int, np.ndarray] | None:
        """The row that a kind of a text is read from, and the list there; None where this text has none."""
        lists, rows = self.stored(kind)
        row = rows.get(self.run.ids[i])
        if row is None:
            return None
        stored = lists[row]
        if stored is None:
            return None
        return row, stored

    def _of_one_head(self, kind: Kind, row: int, stored: np.ndarray) -> np.ndarray:
        """The weights of the one head that was changed, of a line of one head; else all that is stored."""
        if kind.key != "head-flip" or len(stored) % self._slots:
            return stored
        return stored.reshape(self._slots, -1)[self._alternatives[row].slot]

    @cached_property
    def _slots(self) -> int:
        """How many heads were searched one by one."""
        return slots_of(self.run, self.site)

    def stored(self, kind: Kind) -> tuple[ListColumn, dict[str, int]]:
        """The column that a kind is read from, and the row of each text in it."""
        if not kind.of_variants:
            return self._tokens.lists(kind.key), self._row
        return self._variants.lists(_column_of(kind.key)), self._variant_rows[kind.key]

    def note(self, kind: Kind, i: int) -> str:
        """What to say beside a line."""
        if kind.key == ATTENTION:
            return "what the model attends to"
        if not kind.of_variants:
            return self._notes.on_source(kind.key, i)
        if kind.key == CORE:
            return self._notes.on_core(i)
        if kind.outlined:
            return self._notes.on_set(kind.key, i)
        row = self._variant_rows[kind.key].get(self.run.ids[i])
        alternative = Alternative()
        if row is not None:
            alternative = self._alternatives[row]
        return self._notes.on_alternative(kind.key, alternative, i)

    def about_heads(self, i: int) -> str:
        """What is proved and found of each head in a text, in words; empty where nothing is known."""
        return self._about_heads[i]

    @cached_property
    def _about_heads(self) -> HeadStatements:
        return HeadStatements(self.run, self.site)

    @cached_property
    def _alternatives(self) -> list[Alternative]:
        """What is known of each row of the variants."""
        columns = ("output_tvd", "attention_jsd", "exact", "slot")
        return list(map(Alternative, *map(self._variants.values, columns)))

    # which lines there are

    def _kinds(self) -> Iterator[Kind]:
        yield from self._of_tokens(ATTENTION, shown=True)
        yield from self._of_alternatives()
        for key in TABLES["tokens"]:
            if key not in _NO_SOURCE:
                yield from self._of_tokens(key, self._shown_at_first(key))
        for key, title in zip(SETS, ("smallest flip set", "a small flip set"), strict=True):
            if key in self._variant_rows:
                yield Kind(key, title, "smallest", outlined=True)
        if CORE in self._variant_rows:
            yield Kind(CORE, title_of(CORE), "smallest", outlined=True)
        if PLANTED in self._tokens:
            yield Kind(PLANTED, "planted words", PLANTED, outlined=True)

    def _of_alternatives(self) -> Iterator[Kind]:
        for key, title in _ALTERNATIVES.items():
            if key in self._variant_rows:
                yield Kind(key, title, "adversarial", shown=key != "flip")
        for key in self._variant_rows:
            if key.startswith("twin "):
                yield Kind(key, key, "adversarial")

    def _of_tokens(self, key: str, shown: bool) -> Iterator[Kind]:
        """The kind of a column of the tokens, if it holds a number."""
        if key not in self._tokens:
            return
        flat = self._tokens.lists(key).flat
        if np.isfinite(flat).any():
            signed = bool((flat < 0).any())
            yield Kind(key, title_of(key), key, shown=shown, signed=signed)

    def _shown_at_first(self, key: str) -> bool:
        if key in (self.first_source, "leave_one_out", "given"):
            return True
        return self.first_source is None and key in _AT_FIRST

    @cached_property
    def _variant_rows(self) -> dict[str, dict[str, int]]:
        """Line -> text -> its row among the variants."""
        rows: dict[str, dict[str, int]] = {}
        columns = map(self._variants.values, ("example", "test", "variant", "label"))
        for row, (example, test, variant, label) in enumerate(zip(*columns, strict=True)):
            key = _line_of(test, variant)
            if label is not None or key is None:  # of one label of several: a text has as many
                continue
            if _column_of(key) in self._variants:
                rows.setdefault(key, {})[str(example)] = row
        return dict(sorted(rows.items()))


def _line_of(test: str | None, variant: str) -> str | None:
    """The line that a row of the variants makes; None for controls and what is no attention."""
    if test == "adversarial":
        if variant in _ALTERNATIVES:
            return variant
        if _BEST.fullmatch(variant):
            return "adversarial"
    elif test == "flips" and variant in (*SETS, CORE):
        return variant
    elif test == "attefa":
        return f"twin {variant}"
    return None


def _column_of(key: str) -> str:
    """The column of the variants that a line is read from."""
    if key in SETS:
        return "removed"
    if key == CORE:
        return "core"
    return ATTENTION
