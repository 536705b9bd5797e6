"""The tables of docs/replications/stock.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from attn_faithful.reports.palette import title_of
from evidence.cells import CellSummary, Number
from evidence.collect_stock import MODEL, SECONDS, SHOWN
from evidence.markdown import number, table
from evidence.stock_cells import cell_of, cells_of, layers_of, pair_of, shown, shown_of
from evidence.stock_plan import read_plan

_STEP = "randomisation_cascading"
_SIGNED = {  # how words are ranked where they are erased
    "input_x_gradient": "signed_input_x_gradient",
    "integrated_gradients": "signed_integrated_gradients",
    "leave_one_out": "signed_leave_one_out",
}
_LEFT_OUT, _GRADIENT = "leave_one_out", "input_x_gradient"
_SOURCES = (
    "attention",
    "attention_gradient",
    "attention_x_gradient",
    "input_x_gradient",
    "integrated_gradients",
    "leave_one_out",
    "value_norm",
    "value_zeroing",
    "rollout",
    "attention_flow",
    "attention_relevance",
    "learned_heads",
    "random",
)
_ERASED = {
    "comprehensiveness": "comprehensiveness",
    "sufficiency": "sufficiency",
    "naopc": "NAOPC",
    "naopc_removal": "NAOPC by removal",
    "polarity_violation": "polarity violated",
    "stability_tau": "stability",
}
_FAILS = {
    "order": "order not near the best",
    "chance": "order no better than a random one",
    "polarity": "first word against the decision",
    "stability": "not stable",
    "unmeasured": "not all measured",
}
_PARTS = {
    MODEL: "fine-tuning",
    "layers": "every layer",
    "sources": "every source",
    "tests": "all tests by default",
    "ranked": "sources ranked by default",
    "randomisation": "weights drawn anew",
}


# models and what everything took


def _models() -> str:
    """How well each model predicts: on its test texts, or on those of the largest evaluation of a given one."""
    lines = []
    for model in read_plan().models:
        trained = cell_of(model.data, MODEL)
        cells = [trained] if trained else cells_of(model.data)
        if not cells:
            lines.append([model.data, "not run", "", "", "", ""])
            continue
        cell = max(cells, key=lambda each: each.data["test"]["n"])
        train = str(cell.data["train"]["n"]) if trained else "fine-tuned before"
        (accuracy,) = cell.find("base_accuracy")
        test = cell.data["test"]
        start = [model.data, str(len(cell.label_names)), train, str(test["n"]), number(test["tokens_mean"], 0)]
        lines.append([*start, shown(accuracy, 3)])
    return table(["data", "classes", "training texts", "test texts", "pieces a text", "accuracy"], lines)


def _times() -> str:
    """What each part took, and what three seeds would take."""
    lines = []
    plan = read_plan()
    for model in plan.models:
        lines.append(_time(model.data, MODEL, model.minutes))
        for each in plan.evaluations:
            if each.data == model.data:
                lines.append(_time(each.data, each.part, each.minutes))
    return table(["data", "part", "texts", "minutes", "three seeds"], lines)


def _time(data: str, part: str, expected: float) -> list[str]:
    """The minutes of a part; those that are expected where it was not run."""
    cell = cell_of(data, part)
    if cell is None:
        return [data, _PARTS[part], "not run", f"about {expected:g}", f"about {3 * expected:g}"]
    texts = str(cell.data["test"]["n"])
    return [data, _PARTS[part], texts, number(cell.minutes, 1), number(3 * cell.minutes, 0)]


# sources of importance at the last layer


def _sources(data: str) -> str:
    """Every source of a data set: agreement with leave-one-out and gradients, erasure, polarity, stability, cost."""
    ranked, compared = cell_of(data, "sources"), cell_of(data, "layers")
    if ranked is None and compared is None:
        return "Not run."
    head = ["source", "tau, leave-one-out", "tau, gradient", *_ERASED.values(), "ms a text"]
    lines = []
    for source in _SOURCES:
        taus = [shown(pair_of(compared, source, other)) for other in (_LEFT_OUT, _GRADIENT)]
        line = [*taus, *_erased(ranked, source)]
        if any(line):
            lines.append([title_of(source), *line, _milliseconds(ranked or compared, source)])
    return table(*_without_empty(head, lines))


def _erased(cell: CellSummary | None, source: str) -> list[str]:
    """What erasing, polarity and stability say of a source, which has its sign there."""
    ranked = _SIGNED.get(source, source)
    numbers = []
    for metric in _ERASED:
        of_random = "random_ranking" if metric == "naopc_removal" else "random"
        numbers.append(shown_of(cell, metric, of_random if source == "random" else ranked))
    return numbers


def _milliseconds(cell: CellSummary | None, source: str) -> str:
    """Of a source a text, with two digits that count."""
    if cell is None:
        return ""
    for found in [*cell.find(SECONDS, _SIGNED.get(source, source)), *cell.find(SECONDS, source)]:
        return f"{float(f'{1000 * found.value:.2g}'):g}"
    return ""


def _by_default() -> str:
    """The sources that tests rank by default, of all data sets."""
    lines = []
    for model in read_plan().models:
        cell = cell_of(model.data, "ranked") or cell_of(model.data, "tests")
        if cell is None:
            lines.append([model.data, "not run", *[""] * (1 + len(_ERASED))])
            continue
        for source in _SOURCES:
            line = _erased(cell, source)
            if any(line):
                lines.append([model.data, str(cell.data["test"]["n"]), title_of(source), *line])
    return table(["data", "texts", "source", *_ERASED.values()], lines)


def _controls() -> str:
    """Attention without information in the place of the model's, beside the model's own."""
    metrics = ("attention_permutation", "importance_entropy")
    lines = []
    for model in read_plan().models:
        cell = cell_of(model.data, "tests")
        if cell is None:
            lines.append([model.data, "not run", *[""] * (2 + len(metrics))])
            continue
        for attention in ("attention", "random", "uniform"):
            name = "the model's" if attention == "attention" else attention
            taus = [shown(pair_of(cell, attention, other)) for other in (_LEFT_OUT, _GRADIENT)]
            lines.append([model.data, name, *taus, *[shown_of(cell, metric, attention) for metric in metrics]])
    head = ["data", "attention", "tau, leave-one-out", "tau, gradient", "permutation TVD", "entropy"]
    return table(head, lines)


# layers, other attention, weights drawn anew


def _layers() -> str:
    """Every layer once."""
    lines = []
    for model in read_plan().models:
        cell = cell_of(model.data, "layers")
        if cell is None:
            lines.append([model.data, "not run", "", "", "", "", ""])
            continue
        for layer in layers_of(cell):
            line = [shown(pair_of(cell, "attention", other, layer)) for other in (_LEFT_OUT, _GRADIENT)]
            for metric in ("attention_permutation", "permutation_flips", "importance_entropy"):
                line.append(shown_of(cell, metric, "attention", layer))
            lines.append([model.data, layer.removeprefix("layer."), *line])
    head = ["data", "layer", "tau, leave-one-out", "tau, gradient", "permutation TVD", "decision changed", "entropy"]
    return table(head, lines)


def _other_attention() -> str:
    """What other attention of the last layer does to the decision."""
    metrics = {
        "adversarial_attention": "eps-max JSD",
        "permutation_flips": "permutations that change the decision",
        "head_certified": "heads certified",
        "head_flipped": "heads flipped",
        "head_open": "heads open",
        "joint_flip": "all heads together flip",
    }
    lines = []
    for model in read_plan().models:
        cell = cell_of(model.data, "tests")
        if cell is None:
            lines.append([model.data, "not run", *[""] * len(metrics)])
            continue
        texts = str(cell.data["test"]["n"])
        lines.append([model.data, texts, *[shown_of(cell, metric, "attention") for metric in metrics]])
    return table(["data", "texts", *metrics.values()], lines)


def _randomisation() -> str:
    """How alike a source stays once weights are drawn anew, from the output down."""
    known = [(model.data, cell_of(model.data, "randomisation")) for model in read_plan().models]
    steps = next((_steps(cell) for _, cell in known if cell is not None), [])
    lines = []
    for data, cell in known:
        if cell is None:
            lines.append([data, "not run", *[""] * (len(steps) + 1)])
            continue
        for whole in cell.numbers:
            if whole.metric == "randomisation_tau":
                taus = [shown_of(cell, _STEP, f"{whole.source}@{step}", ends=False) for step in steps]
                lines.append([data, title_of(whole.source), *taus, shown(whole)])
    titles = [step.replace("encoder.layer.", "layer ") for step in steps]
    return table(["data", "source", *titles, "all weights, 95%"], lines)


def _steps(cell: CellSummary) -> list[str]:
    """The parts whose weights are drawn anew, from the output down."""
    return list(dict.fromkeys(each.source.partition("@")[2] for each in cell.numbers if each.metric == _STEP))


# what may be shown


def _may_be_shown() -> str:
    """The recommendation of each data set: what passes every line, and by what the others fail."""
    lines = []
    for model in read_plan().models:
        cell = cell_of(model.data, "sources") or cell_of(model.data, "tests")
        if cell is None:
            lines.append([model.data, "not run", "", "", ""])
            continue
        for found in cell.numbers:
            if found.metric == SHOWN:
                measured = [shown_of(cell, found.site, found.source), str(found.n)]
                lines.append([model.data, title_of(found.source), *measured, _answer(found)])
    return table(["data", "source", "NAOPC", "texts", "may be shown"], lines)


def _answer(found: Number) -> str:
    if math.isnan(found.value):
        return "too few texts to say"
    fails = ", ".join(_FAILS[name] for name in found.reasons)
    return f"no: {fails}" if fails else "yes"


def _without_empty(head: Sequence[str], lines: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """A table without columns in which nothing stands."""
    kept = [place for place in range(len(head)) if any(line[place] for line in lines)]
    return [head[place] for place in kept], [[line[place] for place in kept] for line in lines]


def _by_data() -> Mapping[str, Callable[[], str]]:
    tables = {}
    for model in read_plan().models:
        tables[f"sources-{model.folder.replace('_', '-')}"] = partial(_sources, model.data)
    return tables


TABLES: dict[str, Callable[[], str]] = {
    "models": _models,
    **_by_data(),
    "by-default": _by_default,
    "layers": _layers,
    "controls": _controls,
    "other-attention": _other_attention,
    "randomisation": _randomisation,
    "may-be-shown": _may_be_shown,
    "times": _times,
}
