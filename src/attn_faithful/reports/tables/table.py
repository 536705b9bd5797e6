"""Tables from the records of `aggregate`: rows of text for a terminal, Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from attn_faithful.reports.answer.verdict import TWIN_LINE, constant_base
from attn_faithful.reports.escaping import latex, markdown, preamble
from attn_faithful.reports.run_differences import told_apart
from attn_faithful.reports.tables.layout import TableLayout

_LONG = 60  # letters of a name, from which its column is set in several lines
_WIDE = r"p{0.4\linewidth}"


@dataclass
class Table:
    """A title, a head, rows of text and notes below.

    Attributes:
        title, head, rows, notes: as a person reads them. Columns whose head begins with a small letter are names.
        name: of its files.
        best: (row, column) of the cells that are marked.
        data: head and rows for CSV where these hold more than the shown rows: unrounded numbers.
        named: how many columns, from the left, are names; None for those whose head begins with a small letter.
    """

    title: str
    head: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    name: str = ""
    best: set[tuple[int, int]] = field(default_factory=set)
    data: tuple[list[str], list[list[Any]]] | None = None
    named: int | None = None

    @property
    def names(self) -> int:
        """How many of the columns, from the left, are names."""
        if self.named is not None:
            return self.named
        return len(list(itertools.takewhile(lambda name: name[:1].islower(), self.head)))

    def markdown(self) -> str:
        """The table in Markdown; whatever a cell holds is text and no markup."""
        align = ("---" if i < self.names else "--:" for i in range(len(self.head)))
        lines = [f"**{markdown(self.title)}**", "", _row(map(markdown, self.head)), _row(align)]
        lines += [_row(row) for row in self._marked(markdown, "**{}**")]
        return "\n".join([*lines, "", *(f"{markdown(note)}\n" for note in self.notes)]) + "\n"

    def html(self) -> Markup:
        """The table for a notebook; whatever a cell holds is text and no markup."""
        head = Markup("").join(Markup("<th>{}</th>").format(name) for name in self.head)
        rows = [Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row) for row in self.rows]
        body = Markup("").join(Markup("<tr>{}</tr>").format(row) for row in rows)
        notes = Markup("").join(Markup("<p>{}</p>").format(note) for note in self.notes)
        frame = Markup("<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}")
        return frame.format(self.title, head, body, notes)

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs; whatever a cell holds is text and no markup."""
        rows = [_latex_row(row) for row in self._marked(latex, r"\textbf{{{}}}")]
        columns = zip(self.head, *self.rows, strict=True)
        names = (_WIDE if max(map(len, c)) > _LONG else "l" for c in itertools.islice(columns, self.names))
        body = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex(self.title)}}}",
            rf"\begin{{tabular}}{{{''.join(names)}{'r' * (len(self.head) - self.names)}}}",
            r"\toprule",
            _latex_row(map(latex, self.head)),
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\smallskip{{\footnotesize {latex(note)}\par}}" for note in self.notes),
            r"\end{table}",
        ]
        return "\n".join([*preamble(body), *body]) + "\n"

    def csv(self) -> str:
        """The head and rows as CSV."""
        head, rows = self.data or (self.head, self.rows)
        text = io.StringIO()
        csv.writer(text).writerows([head, *rows])
        return text.getvalue()

    def _marked(self, escape: Callable[[str], str], mark: str) -> list[list[str]]:
        return [
            [mark.format(escape(cell)) if (i, j) in self.best else escape(cell) for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]

    def rich(self) -> TableLayout:
        """The table for a terminal of any width."""
        return TableLayout(self)


def _latex_row(cells: Iterable[str]) -> str:
    r"""A row; what follows ``\\`` or a rule and begins with "[" or "*" would be taken for its argument."""
    row = " & ".join(cells) + r" \\"
    return "{}" + row if row[0] in "[*" else row


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def number(value: float | None, digits: int = 3) -> str:
    """Three digits after the point; a dash for an undefined value, never -0.

    Example:
        >>> number(0.51234), number(float("nan")), number(-0.0001)
        ('0.512', '-', '0.000')
    """
    if value is None or not math.isfinite(value):
        return "-"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def p_value(value: float | None) -> str:
    """A p-value: three digits, or the power of ten where it is small; "-" where there is none.

    Example:
        >>> p_value(0.0321), p_value(1e-9), p_value(0.0), p_value(float("nan")), p_value(None)
        ('0.032', '1e-09', '<1e-300', '-', '-')
    """
    if value is None or value != value:
        return "-"
    if value >= 0.001:
        return f"{value:.3f}"
    return f"{value:.0e}" if value > 0 else "<1e-300"


def spread(record: dict[str, Any] | None, digits: int = 3) -> str:
    """Mean, with the standard deviation over seeds where there are several."""
    if record is None or not record["n"]:
        return "-"
    text = number(record["mean"], digits)
    return f"{text} ±{number(record['std'], digits)}" if record["n"] > 1 else text


def collapsed(twin: dict[str, Any]) -> str:
    """How many of a variant's twins collapsed, and whether a base is so nearly constant that this says nothing."""
    return f"{twin['collapsed']} of {len(twin['by_seed'])}" + (" (base constant)" if base_constant(twin) else "")


def base_constant(twin: dict[str, Any]) -> bool:
    """Whether a base of a variant's twins predicts so nearly the same for every text that its twins say nothing."""
    constants = [row.get("constant_tvd") for row in twin["by_seed"]]
    return any(constant is not None and constant < TWIN_LINE for constant in constants)


def attefa_table(records: Sequence[dict[str, Any]], title: str = "AtteFa") -> Table | None:
    """Base, twin, distances and AtteFa of every group and variant; None where nothing has a twin."""
    axes = _axes(records)
    rows = []
    for record in records:
        for variant, twin in record["twins"].items():
            if variant.startswith("constrained"):
                continue
            ratio = twin["attefa"]
            interval = f"[{number(ratio['low'])}, {number(ratio['high'])}]" if ratio["n"] else "-"
            rows.append(
                [
                    *(record["axes"].get(axis, "-") for axis in axes),
                    variant,
                    spread(record["base"]["f1"]),
                    spread(twin["f1"]),
                    spread(twin["tvd"]),
                    number(twin["constant_tvd"]["mean"]),
                    spread(twin["jsd"]),
                    spread(ratio),
                    interval,
                    collapsed(twin),
                    f"{twin['n_examples']}" + (f" (+{u})" if (u := twin["n_undefined_examples"]) else ""),
                ]
            )
    if not rows:
        return None
    seeds = max(len(t["by_seed"]) for r in records for t in r["twins"].values())
    over = f"±: standard deviation over {seeds} seeds. " if seeds > 1 else ""
    notes = [
        "TVD: mean distance of class probabilities between twin and base (0 to 1); JSD: of their attention (nats, up "
        "to 0.693). AtteFa = TVD / (JSD / ln 2), at most 1: near 0, another attention gives the same predictions.",
        "const. TVD: of the best constant prediction. A twin within 10% of it counts as collapsed: it gave up "
        "predicting, and its AtteFa says that no other attention was found that keeps the predictions.",
        f"{over}[]: 95% bootstrap interval over test examples, drawn once for all seeds. (+k): k examples without a "
        "content token, left out.",
    ]
    if any(base_constant(twin) for record in records for twin in record["twins"].values()):
        notes.append(
            f"(base constant): the best constant prediction lies within {TWIN_LINE:g} of the base, which predicts "
            "nearly the same for every text: its twins say nothing."
        )
    notes += _select_notes(records)
    head = [*axes, "twin", "Base F1", "Twin F1", "TVD", "const. TVD", "JSD", "AtteFa", "95%", "Collapsed", "N"]
    return Table(title, head, rows, notes, "attefa")


def constrained_table(records: Sequence[dict[str, Any]]) -> Table | None:
    """The largest JSD at a limited TVD, with the TVD that was reached; None without constrained twins."""
    axes = _axes(records)
    rows, notes = [], []
    for record in records:
        for variant, twin in record["twins"].items():
            if variant.startswith("constrained"):
                limit = variant.removeprefix("constrained-")
                rows.append(
                    [
                        *(record["axes"].get(axis, "-") for axis in axes),
                        limit,
                        spread(twin["f1"]),
                        spread(twin["tvd"]),
                        spread(twin["jsd"]),
                        spread(twin["jsd_at_tvd"]),
                        collapsed(twin),
                    ]
                )
                notes += [
                    f"{' '.join(record['axes'].values())}, {limit}: {row['reason']}"
                    for row in twin["by_seed"]
                    if row["reason"]
                ]
    if not rows:
        return None
    head = [*axes, "max TVD", "Twin F1", "TVD on test", "JSD", "JSD at TVD", "Collapsed"]
    return Table("Constrained twins: the largest JSD found at a limited TVD", head, rows, notes, "constrained_twins")


def pairs_table(records: Sequence[dict[str, Any]]) -> Table | None:
    """How far bases of different seeds lie apart: what chance alone does to attention and predictions."""
    axes = _axes(records)
    rows = [
        [
            *(r["axes"].get(axis, "-") for axis in axes),
            spread(r["base_pairs"]["tvd"]),
            spread(r["base_pairs"]["jsd"]),
            str(r["base_pairs"]["tvd"]["n"]),
        ]
        for r in records
        if r["base_pairs"]["tvd"]["n"]
    ]
    note = "The yardstick beside the twins: two bases that differ in their seed alone."
    head = [*axes, "TVD", "JSD", "Pairs"]
    return Table("Bases of different seeds", head, rows, [note], "base_pairs") if rows else None


def base_table(records: Sequence[dict[str, Any]]) -> Table:
    """Accuracy, F1, ROC-AUC, planted attention mass and the controls of every group."""
    axes = _axes(records)
    controls = sorted({name for record in records for name in record["controls"]})
    planted = any(record["informative_mass"]["n"] for record in records)
    head = [*axes, "Accuracy", "Majority", "F1", "ROC-AUC"]
    head += ["Planted mass"] if planted else []
    head += [f"F1 {control}" for control in controls]
    rows = []
    for record in records:
        row = [record["axes"].get(axis, "-") for axis in axes]
        row += [spread(record["base"]["accuracy"]), _majority(record.get("data", {}))]
        row += [spread(record["base"][measure]) for measure in ("f1", "roc_auc")]
        row += [spread(record["informative_mass"])] if planted else []
        row += [spread(record["controls"].get(control)) for control in controls]
        rows.append(row)
    notes = ["Majority: accuracy of always saying the test split's largest class."]
    notes += ["Planted mass: mean attention on the planted words."] if planted else []
    if "uniform" in controls:
        notes.append("F1 uniform: the same model with every token weighing the same.")
    if "imposed" in controls:
        notes.append("F1 imposed: an MLP under the base's attention.")
    return Table("Base models on the test split", head, rows, notes + _select_notes(records), "base_models")


def _majority(data: dict[str, Any]) -> str:
    """The share of the largest class; a dash where texts have several labels or none."""
    facts = data.get("test") or {}
    counts = list((facts.get("classes") or {}).values())
    if not counts or not facts["n"] or sum(counts) != facts["n"]:
        return "-"
    return number(max(counts) / facts["n"])


def data_table(records: Sequence[dict[str, Any]]) -> Table:
    """Texts, classes and length of every data set and split: the paper's table 1."""
    rows, notes, seen = [], [], set()
    for record in records:
        data, name = record["data"], record["axes"]["data"]
        splits = {split: facts for split, facts in data.items() if isinstance(facts, dict)}
        new = {split: facts for split, facts in splits.items() if (data["fingerprint"], split) not in seen}
        if not new:
            continue
        seen |= {(data["fingerprint"], split) for split in new}
        notes += [told for note in data["notes"] if (told := f"{name}: {note}") not in notes]
        found = data["vector_coverage"]
        held = "" if found is None else f", {100 * found:.0f}% of them in the word vectors"
        notes.append(f"{name}: {data['vocabulary']} words in the vocabulary{held}.")
        for split, facts in new.items():
            classes = " / ".join(f"{label} {n}" for label, n in facts["classes"].items())
            rows.append(
                [
                    name,
                    split,
                    str(facts["n"]),
                    classes,
                    number(facts["tokens_mean"], 1),
                    number(facts["tokens_std"], 1),
                    str(facts["truncated"]),
                    str(facts["empty"]),
                ]
            )
    return Table("Data", ["data", "split", "Texts", "Classes", "Tokens", "SD", "Cut", "Empty"], rows, notes, "data")


def seeds_table(records: Sequence[dict[str, Any]]) -> Table | None:
    """Every twin by itself: the tables of the paper's appendix."""
    axes = _axes(records)
    rows = [
        [
            *(r["axes"].get(axis, "-") for axis in axes),
            variant,
            str(row["base_seed"]),
            str(row["seed"]),
            str(row["epoch"]),
            *(number(row[m]) for m in ("f1", "tvd", "jsd", "attefa")),
            "yes" if row["collapsed"] else "no",
        ]
        for r in records
        for variant, twin in r["twins"].items()
        for row in twin["by_seed"]
    ]
    head = [*axes, "twin", "Base seed", "Twin seed", "Epoch", "F1", "TVD", "JSD", "AtteFa", "Collapsed"]
    return Table("Twins by seed", head, rows, name="twins_by_seed") if rows else None


def _axes(records: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(axis for record in records for axis in record["axes"]))


def _select_notes(records: Sequence[dict[str, Any]]) -> list[str]:
    chosen = {stage for record in records for stage in record["select_on"]}
    if not chosen:
        return []
    models = " and the ".join(name for stage, name in (("train", "base"), ("twin", "twins")) if stage in chosen)
    return [f"The epoch of the {models} was chosen on the TEST split, as in the paper."]


def plan_table(name: str, cells: Sequence[tuple[str, str, float, float]]) -> Table:
    """What a recipe will take: title, folder, minutes and megabytes of each cell."""
    rows = [[title, folder, number(minutes, 1), number(size, 0)] for title, folder, minutes, size in cells]
    minutes, size = (sum(cell[i] for cell in cells) for i in (2, 3))
    rows.append([f"{len(cells)} cells", "", number(minutes, 1), number(size, 0)])
    notes = ["Minutes on this machine with all epochs; early stopping makes it less."]
    return Table(f"Plan of {name}", ["cell", "folder", "Minutes", "MB"], rows, notes)


def runs_table(runs: Sequence[Any]) -> Table:
    """What lies in finished run folders: one row each."""
    metas = [(run, run.read_meta(), run.read_summary()) for run in runs]
    named = told_apart([meta for _, meta, _ in metas])
    axes = list(dict.fromkeys(axis for own in named for axis in own))
    rows = []
    for (run, meta, summary), told in zip(metas, named, strict=True):
        twins = list(summary["twins"].values())
        own = [twin for twin in twins if twin["variant"] == twins[0]["variant"]]
        attefa = [twin["attefa"]["value"] for twin in own]
        shown = number(sum(attefa) / len(attefa)) if attefa and all(v is not None for v in attefa) else "-"
        if any(constant_base(twin) for twin in own):
            shown += " (base constant)"
        elif given := sum(twin["collapsed"]["value"] for twin in own):
            shown += f" ({given} of {len(own)} collapsed)"
        rows.append(
            [
                *(told.get(axis, "-") for axis in axes),
                str(meta["seed"]),
                number(summary["base"]["f1"]),
                shown,
                f"{meta['seconds']:.0f} s",
                str(run.path),
            ]
        )
    return Table(f"{len(rows)} finished runs", [*axes, "seed", "Base F1", "AtteFa", "Took", "Folder"], rows)
