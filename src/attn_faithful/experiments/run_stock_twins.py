"""AtteFa of a stock model: twins are trained and compared with it head by head, and a run folder is written."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.rows import Rows
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.sources import TextData
from attn_faithful.evaluators import attefa
from attn_faithful.experiments.data_facts import split_facts
from attn_faithful.experiments.descriptions import attention_read, kind_and_weights, model_name
from attn_faithful.experiments.identity import NUMBERS_VERSION, run_identity
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.processes import SINGLE_PROCESS
from attn_faithful.experiments.readable_texts import Split, read_split
from attn_faithful.experiments.run_cell import quiet
from attn_faithful.experiments.run_evaluation import labelled_texts
from attn_faithful.experiments.run_tables import hardware, long_history, versions
from attn_faithful.experiments.scoring import by_prediction, metric_facts, score_records
from attn_faithful.experiments.stock_twin_tables import write_tables
from attn_faithful.experiments.strict_settings import build
from attn_faithful.experiments.threads import computing_weights, threads_for
from attn_faithful.experiments.trained_models import trained
from attn_faithful.experiments.undefined_texts import UndefinedTextWarning, failures, warn_of
from attn_faithful.functional import attefa as faithfulness
from attn_faithful.functional.reasons import NEVER_MOVED
from attn_faithful.models.entry import as_stock_model
from attn_faithful.models.protocol import JOINT
from attn_faithful.models.stock.model import StockModel
from attn_faithful.store import RunFolder, weights
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import recipe_precision
from attn_faithful.training.stock_pair import StockOutputs, stock_twin_outputs
from attn_faithful.training.stock_twin import StockTwinSettings, train_stock_twin
from attn_faithful.training.task import TrainingTask

Tell = Callable[[str, int, int, dict[str, Any]], None]


def twin_settings(given: Mapping[str, Any]) -> StockTwinSettings:
    """Settings of a stock model's twin by name.

    Raises:
        InputError: a name that does not exist, or a value out of range.
    """
    return build(StockTwinSettings, given, "attefa: twin")


def stock_attefa(
    model: Any,
    tokenizer: Any,
    data: DataSettings,
    settings: StockTwinSettings | None = None,
    *,
    rows: Any = None,
    seeds: Sequence[int] = (0,),
    output: str | Path = "runs/attefa",
    name: str | None = None,
    origin: str | None = None,
    on_progress: Tell = lambda stage, epoch, epochs, metrics: None,
) -> RunFolder:
    """Train twins of a stock model and write what they say of its attention; a finished run is taken as it is.

    Args:
        model: a transformers classifier, or a `StockModel` of one; it stays as it is.
        tokenizer: the model's.
        data: where the texts come from. Twins are trained on "train" and compared on "test"; a split that the source
            lacks is cut out of "train".
        settings: how twins are trained; None for the defaults.
        rows: the data itself, where it is not read from a source.
        seeds: a twin each.
        output: folder of the run folder.
        name: what tables call the model; None for its folder or Hub id, see `described.model_name`.
        origin: where the model came from.
        tell: ``tell(stage, epoch, epochs, metrics)`` after every epoch.

    Returns:
        the run folder: ``predictions`` of the model, ``tokens`` with its attention (see `stock_tables`), ``scores``
        and ``variants`` with TVD and JSD of each twin and example, over all layers (site "joint") and by layer;
        ``history``; each twin in a folder of its own, which loads alone; in summary.json under ``twins`` the records of
        `evaluators.attefa.score` and of each layer JSD, the mass on content tokens of both and the assignment of heads.

    A text that the model cannot read (see `readable`) is left out of training, as a note says; in the tables its
    numbers are undefined for that reason, and meta.json names it under ``failed``.

    Raises:
        InputError: a model that cannot be wrapped, what is wrong with the data or a setting, an empty split or one of
            which the model can read no text, another process that writes there.
    """
    settings = settings or StockTwinSettings()
    if not seeds or len(set(seeds)) != len(seeds):
        raise InputError(f"seeds must be a list of different numbers, but is {list(seeds)}.")
    base = as_stock_model(model)
    for name_of in ("queries", "heads"):
        if base.asked[name_of] is not None:
            raise InputError(
                f"AtteFa compares all heads of a layer in all rows of a text, but the model was wrapped with "
                f"{name_of}={base.asked[name_of]!r}; wrap it without."
            )
    both = settings.layers is not None and base.asked["layers"] is not None
    if both and base.choosing(layers=settings.layers).layers != base.layers:
        raise InputError(
            f"The model was wrapped with layers={base.layers}, but the settings ask for {settings.layers}; leave one "
            "of the two out."
        )
    texts = labelled_texts(base, data, rows)
    called = name or kind_and_weights(base)
    name = name or model_name(base, origin)
    identity = run_identity("attefa", base, tokenizer, texts, "test", asdict(settings), seeds=list(seeds))
    folder = RunFolder(Path(output) / identity.folder([texts.name, called, "attefa"]))
    if folder.done:
        return folder
    start = time.time()
    encoded = {
        split: Rows.of(encode_texts(tokenizer, found, base.max_tokens, joined=True))
        for split, found in texts.splits.items()
    }
    for split in ("test", settings.select_on):
        if not len(encoded.get(split, ())):
            raise InputError(f"The split {split!r} of {texts.name} is empty; twins need texts beside those of train.")
    with quiet(), recipe_precision(), threads_for(computing_weights(base)), folder.writing():
        splits = {
            split: read_split(base, split, encoded[split], collator(encoded[split], pad_token_id=base.pad_token_id))
            for split in dict.fromkeys(("train", settings.select_on, "test"))
        }
        left_out = [note for split in ("train", settings.select_on) for note in splits[split].note(split)]
        notes = [*_notes(settings), *left_out]
        failed = splits["test"].failed
        _compare(base, tokenizer, settings, splits, texts, folder, list(seeds), on_progress)
        folder.write_meta(
            {
                "axes": {"data": texts.name, "model": name},
                "seed": seeds[0],
                "numbers": NUMBERS_VERSION,
                "identity": identity.short,
                "model": origin,
                "attention": {**(attention_read(base) or {}), "rows": {}, "heads": None},
                "weights": weights(Path(origin)) if origin and Path(origin).is_dir() else None,
                "split": "test",
                "twin": asdict(settings),
                "label_names": texts.label_names,
                "data": {
                    "source": data.source,
                    "fingerprint": texts.fingerprint,
                    "notes": [*texts.notes, *notes],
                    "vocabulary": len(tokenizer),
                    "vector_coverage": None,
                    **{split: split_facts(texts, split, found) for split, found in encoded.items()},
                },
                "seconds": round(time.time() - start, 1),
                "versions": versions(),
                "hardware": hardware(SINGLE_PROCESS),
                **failures(failed),
            }
        )
        for note in left_out:
            warnings.warn(note, UndefinedTextWarning, stacklevel=2)
        warn_of(failed, len(encoded["test"]))
    return folder


def _compare(
    base: StockModel,
    tokenizer: Any,
    settings: StockTwinSettings,
    splits: dict[str, Split],
    texts: TextData,
    folder: RunFolder,
    seeds: list[int],
    on_progress: Tell,
) -> None:
    """All twins of a model, and the tables of what they say."""
    rows = {name: split.readable for name, split in splits.items()}
    test, failed = splits["test"].rows, splits["test"].failed
    labels = np.asarray(test["labels"])
    collate = collator(test, pad_token_id=base.pad_token_id)
    twins: dict[str, Any] = {}
    history: dict[str, Any] = {}
    records: list[dict[str, Any]] = []
    scores, variants = _Columns(), _Columns()
    for seed in seeds:
        twin, record = _twin(base, tokenizer, settings, rows, texts, folder, seed, on_progress)
        name = f"{settings.variant}-{seed}"
        history[name] = record["history"]
        found = stock_twin_outputs(base, twin, rows["test"], collate, settings.layers, settings.keys)
        found = found.among(len(test), splits["test"].places)
        own = _Columns()
        joint = _variants(test["example"], JOINT, name, found, found.jsd)
        own.extend(attefa.per_example(joint))
        variants.extend({key: column for key, column in joint.items() if key != "attention"})
        for place, layer in enumerate(found.layers):
            columns = _variants(test["example"], f"layer.{layer}", name, found, found.by_layer[:, place])
            own.extend(_of_metric("jsd", attefa.per_example(columns)))
        own["reason"] = [failed.get(example, why) for example, why in zip(own["example"], own["reason"], strict=True)]
        scores.extend(own)
        groups = by_prediction(found.base, texts.label_names, base.multi_label)
        records += _records(own, found, test["example"], groups)
        limit = settings.max_tvd if settings.objective == "constrained" else None
        numbers = attefa.score(found.tvd, found.jsd, found.base, limit, base.multi_label)
        twins[name] = {
            "variant": settings.variant,
            "seed": seed,
            "epoch": record["epoch"],
            "seconds": record["seconds"],
            **classification_metrics(found.twin, labels, base.multi_label),
            **{called: number.as_json() for called, number in numbers.items()},
            "layers": _layers(found, base.multi_label),
        }
    chosen = base.choosing(base.queries, base.heads, base.layers if settings.layers is None else settings.layers)
    write_tables(folder, chosen, tokenizer, splits["test"], texts.splits["test"], found.base, scores, variants)
    folder.write_table("history", long_history(history))
    folder.write_summary(
        {
            "base": classification_metrics(found.base, labels, base.multi_label),
            "twins": twins,
            "controls": {},
            "informative_mass": None,
            "tests": records,
            "metrics": metric_facts(records),
            "facts": [],
        }
    )


class _Columns(dict[str, list[Any]]):
    """Columns that grow together."""

    def extend(self, columns: Mapping[str, Sequence[Any]]) -> None:
        for name, values in columns.items():
            self.setdefault(name, []).extend(values)


def _of_metric(name: str, rows: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    kept = [i for i, metric in enumerate(rows["metric"]) if metric == name]
    return {column: [values[i] for i in kept] for column, values in rows.items()}


def _variants(
    examples: Sequence[str], site: str, name: str, found: StockOutputs, jsd: np.ndarray
) -> dict[str, list[Any]]:
    n = len(examples)
    return {
        "example": list(examples),
        "site": [site] * n,
        "slot": [0] * n,
        "test": ["attefa"] * n,
        "variant": [name] * n,
        "attention_jsd": jsd.tolist(),
        "output_tvd": found.tvd.tolist(),
        "probabilities": found.twin.tolist(),
        "attention": [[]] * n,  # of heads and rows, and too much to keep; where it is empty the reason is no content
    }


def _records(
    scores: Mapping[str, list[Any]], found: StockOutputs, examples: Sequence[str], groups: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """Records by site and class; AtteFa is that of the means, not the mean of the texts' own ratios."""
    records = score_records(scores, examples, (), (), groups)
    for record in records:
        if record["metric"] == "attefa":
            of = groups[record["class"]]
            tvd, jsd = found.tvd[of], found.jsd[of]
            whole = faithfulness.attefa(tvd, jsd)
            low, high = faithfulness.bootstrap_attefa([tvd], [jsd])
            reasons = {whole.reason: whole.n_undefined}
            if whole.reason is None:
                reasons = {why: n for why, n in record["reasons"].items() if why != NEVER_MOVED}
            record |= {"mean": whole.attefa, "std": math.nan, "low": low, "high": high, "reasons": reasons}
            record |= {"n": whole.n, "n_undefined": whole.n_undefined}
    return records


def _layers(found: StockOutputs, multi_label: bool) -> list[dict[str, Any]]:
    """Of each layer: JSD, the mass on content tokens, and for each head of the twin its head of the base."""
    rows = []
    for place, layer in enumerate(found.layers):
        jsd = attefa.score(found.tvd, found.by_layer[:, place], found.base, None, multi_label)["jsd"]
        base, twin = np.nanmean(found.content_mass[:, place], axis=0)  # but for texts that the model cannot read
        rows.append(
            {
                "layer": layer,
                "jsd": jsd.as_json(),
                "content_mass": {"base": base, "twin": twin},
                "assignment": found.assignments[place].tolist(),
            }
        )
    return rows


def _twin(
    base: StockModel,
    tokenizer: Any,
    settings: StockTwinSettings,
    rows: dict[str, Rows],
    texts: TextData,
    folder: RunFolder,
    seed: int,
    on_progress: Tell,
) -> tuple[StockModel, dict[str, Any]]:
    """A twin with its record: from the folder where it was finished, else trained."""
    name = f"twin-{seed}" if settings.variant == "attefa" else f"twin-{settings.variant}-{seed}"
    collate = collator(rows["train"], pad_token_id=base.pad_token_id)

    def fit(checkpoints: Path) -> tuple[Any, list[dict[str, Any]]]:
        on_progress(name, 0, settings.epochs, {})
        task = TrainingTask(
            rows["train"],
            rows[settings.select_on],
            collate,
            settings,
            seed_for(seed, "twin") % 2**31,
            checkpoints,
            lambda epoch, epochs, metrics: on_progress(name, epoch, epochs, metrics),
        )
        twin, history = train_stock_twin(base, task)
        return twin.model, history

    def load(path: Path) -> StockModel:
        saved = type(base.model).from_pretrained(path, dtype=base.model.dtype).to(base.device).eval()
        return StockModel(saved, base.queries, base.heads, base.layers)

    return trained(name, folder, tokenizer, fit, lambda row: row["eval_selection"], SINGLE_PROCESS, load, texts)


def _notes(settings: StockTwinSettings) -> list[str]:
    over = "the content tokens" if settings.keys == "content" else "all tokens, special ones too"
    notes = [f"JSD over matched heads and every row of a text, of attention among {over}."]
    if settings.select_on == "test":
        notes.append("The epoch of the twins was chosen on the TEST split.")
    return notes
