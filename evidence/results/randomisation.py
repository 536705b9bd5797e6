"""The tables of docs/results/randomisation.md."""

from __future__ import annotations

from evidence.markdown import table
from evidence.measured import Column, about, by_seed, cells_of, measured_table, with_interval

TOPIC = "randomisation"
_SOURCES = {
    "attention": "attention",
    "attention_x_gradient": "attention x gradient",
    "input_x_gradient": "input x gradient",
    "leave_one_out": "leave-one-out",
    "rollout": "rollout",
    "random": "random",
    "given": "file",
}
_OF_LSTM = ("readout", "attention", "encoder", "embedding")
_OF_MINILM = ("classifier", "pooler", *(f"encoder.layer.{layer}" for layer in range(5, -1, -1)), "embeddings")
_CASCADING, _SINGLE = "randomisation_cascading", "randomisation_single"


def _table(model: str, seed: int, parts: tuple[str, ...], single: tuple[str, ...] = ()) -> str:
    """A row a part of the model down to which weights are new, then those of parts that are new alone."""
    cells = [cell for cell in cells_of(TOPIC, model=model) if cell.seed == seed]
    lines = []
    for metric, of_metric, words in ((_CASCADING, parts, "down to"), (_SINGLE, single, "alone:")):
        for part in of_metric:
            columns = [Column(title, metric, f"{source}@{part}", 3) for source, title in _SOURCES.items()]
            lines.append([f"{words} {part}", *(with_interval(column.of(cells), 3) for column in columns)])
    head = ["drawn anew", *_SOURCES.values()]
    asked = [place for place in range(len(head)) if any(line[place] for line in lines)]
    return table([head[place] for place in asked], [[line[place] for place in asked] for line in lines])


def _of_trainings() -> str:
    columns = [Column(title, "randomisation_tau", source, 3) for source, title in _SOURCES.items()]
    return measured_table(
        "BiLSTM", by_seed(TOPIC, "model", ("lstm",)), [column for column in columns if column.title != "rollout"]
    )


def _of_draws() -> str:
    """The means of single draws of weights."""
    lines = []
    for label, cells in by_seed(TOPIC, "model", ("lstm", "minilm")).items():
        for source, title in _SOURCES.items():
            draws = []
            for draw in range(3):
                draws.append(Column("", "randomisation_draw", f"{source}@{draw}", 3).of(cells))
            if any(draw.seeds for draw in draws):
                lines.append([label, title, *(with_interval(draw, 3) for draw in draws)])
    return table(["model", "importance", "draw 1", "draw 2", "draw 3"], lines)


TABLES = {
    "about": lambda: about(cells_of(TOPIC)),
    "bilstm": lambda: _table("lstm", 2, _OF_LSTM),
    "trainings": _of_trainings,
    "minilm": lambda: _table("minilm", 1, _OF_MINILM, ("encoder.layer.3", "embeddings")),
    "draws": _of_draws,
}
