"""The card of a model that goes to the Hub: what it is, how it was trained, how faithful its attention is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attn_faithful._checks import InputError
from attn_faithful.records.scores import ALL
from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.answer.verdict import constant_base, few
from attn_faithful.reports.card_metadata import front_matter, licence_of
from attn_faithful.reports.escaping import markdown
from attn_faithful.reports.html.page import TEMPLATES
from attn_faithful.reports.numbers import number
from attn_faithful.reports.run import Run
from attn_faithful.reports.tables.sources import arrow, is_control
from attn_faithful.store import META, strict, weights

_TASK = "text-classification"
# of the configuration, as far as they say what the model is
_SETTINGS = (
    "model_type",
    "encoder",
    "embedding_size",
    "hidden_size",
    "num_layers",
    "attention",
    "projection",
    "temperature",
    "sparsegen_lambda",
    "entmax_alpha",
    "readout",
    "output",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
)
_ONLY_OF = {"temperature": "softmax", "sparsegen_lambda": "sparsegen", "entmax_alpha": "entmax"}
_TRAINING = ("epochs", "batch_size", "learning_rate", "weight_decay", "patience", "select_by", "select_on")
_OF_CLASSIFIER = {
    "accuracy": ("accuracy", "share of the texts that are classified right"),
    "f1": ("F1", "of the classification"),
    "roc_auc": ("ROC AUC", "how well the probabilities rank the classes; 0.5 is chance"),
}
_OF_TWIN = {
    "attefa": ("AtteFa", "0: a second model predicts the same with other attention, 1: it cannot", "higher"),
    "tvd": ("TVD of the twin", "how far the second model's predictions are from the model's, 0 to 1", None),
    "jsd": ("JSD of the twin", "how far its attention is from the model's, nats, 0 to 0.693", None),
}


@dataclass(frozen=True)
class Row:
    """One number of the card.

    Attributes:
        key: of the metric in the metadata.
        title: of the metric.
        name: the title with what was scored, and where.
        meaning: a sentence without its stop.
        value, low, high: mean and interval, None where there is none.
        n: examples that it is over.
        direction: which way speaks for faithful attention.
        reason: why the value is undefined.
        dataset: type, name and split; None where the data set has no name.
    """

    key: str
    title: str
    name: str
    meaning: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    direction: str | None = None
    reason: str = ""
    dataset: tuple[str, str, str] | None = None

    @property
    def shown(self) -> str:
        return number(self.value)

    @property
    def interval(self) -> str:
        return "" if self.low is None or self.high is None else f"{number(self.low)} to {number(self.high)}"

    @property
    def count(self) -> str:
        if self.n is None:
            return ""
        return f"{self.n:,} ({few(self.n)})" if few(self.n) else f"{self.n:,}"

    @property
    def arrow(self) -> str:
        """Which direction speaks for faithful attention; rows of controls and other importance are not in the card."""
        return arrow(self.direction)


def model_card(
    run: Run,
    *others: Run,
    to: str = "user/name",
    model: str | Path | None = None,
    licence: str | None = None,
) -> str:
    """The text of README.md for a model.

    The numbers are those of the runs' summaries; where two runs have the same number of the same data, the first one's.
    What is undefined stands with its reason in the text, and not in the metadata.

    Args:
        run: the run that trained the model, or one of ``attn-faithful evaluate`` on it.
        others: further runs of ``attn-faithful evaluate`` on it.
        to: its place on the Hub.
        model: its folder; None for the one in `run`.
        licence: its identifier, such as "apache-2.0"; None for that of the folder's own card, or "unknown".

    Returns:
        metadata with a model-index, and the card in Markdown.

    Raises:
        InputError: a run that tested another model, or of which that cannot be told; see `check_tested`.
    """
    from huggingface_hub import EvalResult, ModelCardData
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = run.path / "model" if model is None else Path(model)
    for each in (run, *others):
        if each is not run or model is not None:
            check_tested(folder, each)
    every = [row for each in (run, *others) for row in _rows(each)]
    rows = list({(row.name, row.dataset): row for row in reversed(every)}.values())[::-1]  # the first of its name
    defined = [row for row in rows if row.value is not None]
    tested = any(row.key not in _OF_CLASSIFIER for row in rows)
    results = [
        EvalResult(
            task_type=_TASK,
            dataset_type=row.dataset[0],
            dataset_name=row.dataset[1],
            dataset_split=row.dataset[2],
            metric_type=row.key,
            metric_name=row.name,
            metric_value=row.value,
            metric_args=_arguments(row),
        )
        for row in defined
        if row.dataset is not None
    ]
    data = ModelCardData(
        license=licence_of(folder, licence),
        library_name="transformers",
        pipeline_tag=_TASK,
        tags=["attention", "faithfulness", "attn_faithful"],
        **({"model_name": to.rpartition("/")[2], "eval_results": results} if results else {}),
    )
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_as_text,
    )
    body = environment.get_template("model_card.md.j2").render(
        title=to.rpartition("/")[2],
        to=Markup(to),
        about=_about(run, folder, tested),
        tested=tested,
        settings=_settings(folder),
        classes=run.label_names,
        data=_data(run, others),
        training=_training(run),
        rows=defined,
        meanings=list({row.title: row.meaning for row in defined}.items()),
        undefined=[row for row in rows if row.value is None],
        answers=[answer(each).lines for each in (run, *others) if each.records],
        unnamed=bool(defined) and not results,
        versions=_versions(run),
        ours="attention" in _configuration(folder),
    )
    return f"{front_matter(data.to_dict())}\n\n{body}"


def check_tested(model: Path, run: Run) -> None:
    """Raise unless a run trained or tested the model that lies in a folder.

    A run that holds the digests of the weights it tested is matched by these; one that does not, by the folder that it
    read the model from, whose weights must be no newer than the run.

    Raises:
        InputError: other weights, another folder, or weights that were written after the run.
    """
    if (run.path / "model").resolve() == model.resolve():
        return
    held = run.info.weights
    again = f"leave it out, or run attn-faithful evaluate {model} again"
    if held is not None:
        if held != weights(model):
            raise InputError(f"{run.path} tested a model whose weights are not those of {model}; {again}.")
        return
    origin = run.info.model
    if origin is None or Path(origin).resolve() != model.resolve():
        told = "does not say which model it tested" if origin is None else f"tested the model {origin}, not {model}"
        raise InputError(f"{run.path} {told}; {again}.")
    done = (run.path / META).stat().st_mtime
    if any((model / name).stat().st_mtime > done for name in weights(model)):
        raise InputError(f"{run.path} is older than the weights of {model}; {again}.")


def _as_text(value: Any) -> Any:
    """Whatever stands in a name is text; what is `Markup` stays as it is."""
    return value if isinstance(value, Markup) else markdown(str(value))


def _arguments(row: Row) -> dict[str, Any] | None:
    given = {"low": row.low, "high": row.high, "n": row.n}
    return {name: value for name, value in given.items() if value is not None} or None


def _rows(run: Run) -> Iterator[Row]:
    dataset = _dataset(run)
    base: Mapping[str, Any] = strict(run.summary.base)
    for key, (title, meaning) in _OF_CLASSIFIER.items():
        if base.get(key) is not None:
            yield Row(key, title, title, meaning, base[key], dataset=dataset)
    for record in run.records:
        metric = run.metrics.get(record.metric)
        if metric is None or not metric.shown or record.group != ALL or is_control(record.source):
            continue
        sources = record.source.split("~")
        if "attention" not in sources:
            continue
        what = [f"with {source}" for source in sources if source != "attention"]
        if len(run.sites) > 1:
            what.append(record.site)
        yield Row(
            record.metric,
            metric.title,
            f"{metric.title} ({', '.join(what)})" if what else metric.title,
            metric.meaning,
            strict(record.mean),
            strict(record.low),
            strict(record.high),
            record.n,
            metric.direction,
            ", ".join(f"{reason} ({n})" for reason, n in record.reasons.items()) or "no defined example",
            dataset,
        )
    for which, twin in run.summary.twins.items():
        gave_up = ", gave up predicting" if twin.collapsed else ""
        if constant_base(twin):
            gave_up = ", of a base that is nearly constant"
        for key, (title, meaning, direction) in _OF_TWIN.items():
            measured = twin.numbers.get(key)
            if measured is None:
                continue
            yield Row(
                key,
                title,
                f"{title} ({which}{gave_up})",
                meaning,
                strict(measured.value),
                strict(measured.low),
                strict(measured.high),
                measured.n,
                None if gave_up else direction,
                measured.reason or "no defined example",
                dataset,
            )


def _dataset(run: Run) -> tuple[str, str, str] | None:
    """Type, name and split; the type is a Hub id where the data are from there."""
    settings = run.recipe.get("data") or {}
    name = settings.get("name") or run.axes.get("data")
    if not name:
        return None
    source = settings.get("source") or name
    return Path(source).name if Path(source).is_absolute() else source, name, run.split


def _about(run: Run, model: Path, tested: bool) -> str:
    configuration = _configuration(model)
    encoder, attention = configuration.get("encoder"), configuration.get("attention")
    what = f" ({configuration['model_type']})" if configuration.get("model_type") else ""
    if encoder and attention:
        levels = "at two levels, words and sentences, " if "hierarchical" in what else ""
        what = f" with {attention} attention {levels}over a {encoder} encoder"
    on = f" on {run.axes['data']}" if run.axes.get("data") else ""
    told = "tested for how faithful its attention is"
    if run.recipe:
        then = f" and {told}." if tested else ". How faithful its attention is was not tested."
        return f"A text classifier{what}, trained{on} (seed {run.seed}){then}"
    if not tested:
        return f"A text classifier{what}. How faithful its attention is was not tested."
    return f"A text classifier{what}, tested{on} for how faithful its attention is."


def _configuration(model: Path) -> dict[str, Any]:
    path = model / "config.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _settings(model: Path) -> list[tuple[str, Any]]:
    found = _configuration(model)
    used = [name for name in _SETTINGS if _ONLY_OF.get(name, found.get("projection")) == found.get("projection")]
    return [(name, found[name]) for name in used if found.get(name) is not None]


def _versions(run: Run) -> str:
    found = run.info.versions
    return ", ".join(f"{name} {found[name]}" for name in ("attn_faithful", "torch", "transformers") if name in found)


def _training(run: Run) -> list[tuple[str, Any]]:
    recipe = run.recipe
    twin = (
        [(f"{name} of the twins", recipe["twin"].get(name)) for name in ("objective", "epochs")]
        if (run.summary.twins and recipe.get("twin"))
        else []
    )
    train = [(name, (recipe.get("train") or {}).get(name)) for name in _TRAINING]
    return [(name, value) for name, value in [*train, *twin] if value is not None]


def _data(run: Run, others: Sequence[Run]) -> list[str]:
    """A line a split that was used, and what was noted about the data; those of other runs by the data's name."""
    lines = []
    for each in (run, *others):
        data, of = each.info.data, "" if each is run else f" of {each.axes.get('data', 'other data')}"
        splits = dict.fromkeys(("train", "validation", "test", each.info.split))
        for split in splits:
            if facts := data.splits.get(split):
                classes = ", ".join(f"{name} {n:,}" for name, n in (facts.get("classes") or {}).items())
                told = f"{facts['n']:,} texts of {facts['tokens_mean']:.1f} tokens ({classes})"
                lines.append(f"{split}{of}{'' if each is run else ', for the tests'}: {told}")
        # a run of evaluate reads one split; what was taken of the others says nothing
        told = each.info.split
        lines += [n for n in data.notes if not _of_another_split(n, told)]
    return list(dict.fromkeys(lines)) or ["not known"]


def _of_another_split(note: str, split: str | None) -> bool:
    named = note.partition(":")[0]
    return split is not None and named != split and named in ("train", "validation", "test")
