"""The card of a model on the Hub: what it is, how it was trained, how faithful its attention is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attn_faithful._checks import InputError
from attn_faithful.records.learned_heads import LearnedHeads
from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.card_metadata import front_matter, licence_of
from attn_faithful.reports.card_model import about, configuration_of, settings_of, training_of
from attn_faithful.reports.card_rows import CardRow, card_rows, of_classifier
from attn_faithful.reports.escaping import markdown
from attn_faithful.reports.html.shell import TEMPLATES
from attn_faithful.reports.run import Run
from attn_faithful.store import META, weights

_TASK = "text-classification"
_SPLITS = ("train", "validation", "test")
_VERSIONS = ("attn_faithful", "torch", "transformers")


def model_card(
    run: Run,
    *others: Run,
    to: str = "user/name",
    model: str | Path | None = None,
    licence: str | None = None,
) -> str:
    """The text of README.md for a model.

    The numbers are those of the runs' summaries; where two runs have the same number of the same data, that of the
    first run. Undefined numbers are named with their reasons in the text, and left out of the metadata.

    Args:
        run: the run that trained the model, or one of ``attn-faithful evaluate`` on it.
        others: further runs of ``attn-faithful evaluate`` on it.
        to: its place on the Hub.
        model: its folder; None for the one in `run`.
        licence: its identifier, such as "apache-2.0"; None for that of the folder's own card, or "unknown".

    Returns:
        metadata with a model-index, and the card in Markdown.

    Raises:
        InputError: a run that tested another model, or that does not say which; see `check_tested`.
    """
    runs = (run, *others)
    if model is None:
        folder, not_its_own = run.path / "model", others
    else:
        folder, not_its_own = Path(model), runs
    for each in not_its_own:
        check_tested(folder, each)
    rows = _rows(runs)
    defined = [row for row in rows if row.is_defined]
    undefined = [row for row in rows if not row.is_defined]
    meanings = {row.title: row.meaning for row in defined}
    tested = any(not of_classifier(row.key) for row in rows)
    name = to.rpartition("/")[2]
    results = _results(defined)
    configuration = configuration_of(folder)
    body = _template().render(
        title=name,
        to=Markup(to),
        about=about(run, configuration, tested),
        tested=tested,
        settings=settings_of(configuration),
        classes=run.label_names,
        data=_data(runs),
        training=training_of(run),
        rows=defined,
        meanings=list(meanings.items()),
        undefined=undefined,
        answers=[answer(each).lines for each in runs if each.records],
        learned=_learned_heads(runs),
        unnamed=bool(defined) and not results,
        versions=_versions(run),
        ours="attention" in configuration,
    )
    return f"{front_matter(_metadata(name, licence_of(folder, licence), results))}\n\n{body}"


def _rows(runs: Sequence[Run]) -> list[CardRow]:
    """The rows of all runs; of those with the same name and data the first, where the last of them would stand."""
    rows = list(chain.from_iterable(map(card_rows, runs)))
    first = {(row.name, row.dataset): row for row in reversed(rows)}
    return list(first.values())[::-1]


def _learned_heads(runs: Sequence[Run]) -> LearnedHeads | None:
    """The weights of heads of the first run that fitted some."""
    for run in runs:
        if run.learned_heads is not None:
            return run.learned_heads
    return None


def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_as_text,
    )
    return environment.get_template("model_card.md.j2")


def _as_text(value: Any) -> Any:
    """Escape every value but `Markup`."""
    if isinstance(value, Markup):
        return value
    return markdown(str(value))


def _metadata(name: str, licence: str, results: Sequence[Any]) -> dict[str, Any]:
    from huggingface_hub import ModelCardData

    data = ModelCardData(
        license=licence,
        library_name="transformers",
        pipeline_tag=_TASK,
        tags=["attention", "faithfulness", "attn_faithful"],
        model_name=name if results else None,
        eval_results=list(results) or None,
    )
    return data.to_dict()


def _results(rows: Sequence[CardRow]) -> list[Any]:
    """The rows over a data set with a name, as entries of the model-index."""
    from huggingface_hub import EvalResult

    results = []
    for row in rows:
        if row.dataset is None:
            continue
        result = EvalResult(
            task_type=_TASK,
            dataset_type=row.dataset.type,
            dataset_name=row.dataset.name,
            dataset_split=row.dataset.split,
            metric_type=row.key,
            metric_name=row.name,
            metric_value=row.value,
            metric_args=row.arguments or None,
        )
        results.append(result)
    return results


def check_tested(model: Path, run: Run) -> None:
    """Raise unless a run trained or tested the model that lies in a folder.

    A run that holds the digests of the weights it tested is matched by these; one that does not, by the folder that it
    read the model from, whose weights must be no newer than the run.

    Raises:
        InputError: other weights, another folder, or weights that were written after the run.
    """
    if (run.path / "model").resolve() == model.resolve():
        return
    again = f"leave it out, or run attn-faithful evaluate {model} again"
    digests = run.info.weights
    if digests is not None:
        if digests != weights(model):
            raise InputError(f"{run.path} tested a model whose weights are not those of {model}; {again}.")
        return
    origin = run.info.model
    if origin is None:
        raise InputError(f"{run.path} does not say which model it tested; {again}.")
    if Path(origin).resolve() != model.resolve():
        raise InputError(f"{run.path} tested the model {origin}, not {model}; {again}.")
    finished = (run.path / META).stat().st_mtime
    for name in weights(model):
        if (model / name).stat().st_mtime > finished:
            raise InputError(f"{run.path} is older than the weights of {model}; {again}.")


def _versions(run: Run) -> str:
    versions = run.info.versions
    return ", ".join(f"{name} {versions[name]}" for name in _VERSIONS if name in versions)


def _data(runs: Sequence[Run]) -> list[str]:
    """A line a split that was used, and what was noted about the data; those of other runs by the data's name."""
    lines: list[str] = []
    for run in runs:
        suffix = ""
        if run is not runs[0]:
            suffix = f" of {run.axes.get('data', 'other data')}, for the tests"
        for split in dict.fromkeys((*_SPLITS, run.info.split)):
            facts = run.info.data.splits.get(split or "")
            if facts:
                lines.append(f"{split}{suffix}: {_split_text(facts)}")
        for note in run.info.data.notes:
            # a run of evaluate reads one split; what was taken of the others says nothing
            if not _of_another_split(note, run.info.split):
                lines.append(note)
    return list(dict.fromkeys(lines)) or ["not known"]


def _split_text(facts: Mapping[str, Any]) -> str:
    counts = facts.get("classes") or {}
    classes = ", ".join(f"{name} {n:,}" for name, n in counts.items())
    return f"{facts['n']:,} texts of {facts['tokens_mean']:.1f} tokens ({classes})"


def _of_another_split(note: str, split: str | None) -> bool:
    subject = note.partition(":")[0]
    return split is not None and subject != split and subject in _SPLITS
