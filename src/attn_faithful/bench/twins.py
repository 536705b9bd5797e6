"""AtteFa of the models of the set: a twin of each is trained, and compared with its model on the frozen texts.

A twin has its model's architecture and new weights, all of which are trained: it need not keep to the two channels that
its model was built of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from attn_faithful._seeds import seed_for
from attn_faithful.bench.frozen_set import FrozenSet
from attn_faithful.bench.kept import keep, read_kept
from attn_faithful.bench.making import word_ids
from attn_faithful.bench.measured import TWIN_METRICS, Measured, TextValues, numbers_of_twins
from attn_faithful.bench.running import OnProgress
from attn_faithful.bench.texts import DATA, BenchText, training_texts
from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.evaluators import attefa
from attn_faithful.experiments.quiet import quiet
from attn_faithful.loading import load
from attn_faithful.models.inference import run_over
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.records.bench import BenchModel
from attn_faithful.training.base_outputs import with_base
from attn_faithful.training.placement import training_on
from attn_faithful.training.settings import TwinSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.twin import new_twin, train_twin

OTHER_ARCHITECTURE = "no twin of this architecture"
NO_WEIGHTS_OF_ATTENTION = "no twin: attention has no weights"


@dataclass(frozen=True)
class TwinTraining:
    """How a twin is trained; the objective and its weight are the paper's.

    What was chosen, with the TVD of a twin that attention leaves free as the measure (kind "free", LSTM):

    - 8000 texts seen 8 times: .04. Of 2000 texts it learns the base's predictions by heart, and stays at .1 on others,
      however often it sees them.
    - a learning rate of 0.02: with 0.001, the paper's, it is still at .43, as far as a constant is.
    - batches of 250, since the loop around a step costs as much as a step of so small a model.

    These 256 steps take 1.6 s (no encoder, MLP) to 5 s (GRU) on one core. Four times as many halve that TVD to .02 and
    change nothing where no twin was found: those of faithful and pinned models that read each word alone keep a TVD
    near .45, and many count as collapsed.

    Attributes:
        settings: of the trainer.
        n_texts: to train on, drawn as those of the base are.
        n_selection: further ones, on which the best epoch is chosen.
    """

    settings: TwinSettings = field(
        default_factory=lambda: TwinSettings(epochs=8, batch_size=250, learning_rate=0.02, patience=8)
    )
    n_texts: int = 8000
    n_selection: int = 400


TRAINING = TwinTraining()


@dataclass(frozen=True)
class ComparedTwin:
    """The twin of a model of the set beside its model, on the frozen texts.

    Attributes:
        model: of the set.
        examples: ids of the texts.
        numbers: metric -> its values, a value a text; NaN with a reason where there is no twin.
        collapsed: whether the twin predicts no better than a constant does; None where there is no twin.
    """

    model: BenchModel
    examples: Sequence[str]
    numbers: Mapping[str, TextValues]
    collapsed: bool | None


def compare_twins(
    frozen: FrozenSet,
    output: str | Path,
    on_progress: OnProgress = lambda done, n: None,
    share: slice = slice(None),
    training: TwinTraining = TRAINING,
) -> list[ComparedTwin]:
    """Train a twin of each model of a set and compare the two; numbers of a twin that is finished are kept.

    Twins are trained on the CPU, wherever the tests compute: so small a model is not faster elsewhere.

    Args:
        frozen: the set.
        output: folder of the kept numbers, a file a model; they are computed anew when the set, the model's files or
            the training change.
        on_progress: ``on_progress(done, n)`` in models.
        share: which of the models.
        training: how twins are trained.
    """
    models = frozen.manifest.models[share]
    found = []
    for done, model in enumerate(models):
        on_progress(done, len(models))
        state = {"set": frozen.sha256, "model": dict(model.sha256), "training": asdict(training)}
        file = Path(output) / f"{model.name}.json"
        twin = _read(frozen, model, read_kept(file, state))
        if twin is None:
            twin = _compared(frozen, model, training)
            keep(file, state, _content(twin))
        found.append(twin)
    on_progress(len(models), len(models))
    return found


def with_twins(measured: Sequence[Measured], twins: Sequence[ComparedTwin]) -> list[Measured]:
    """Measurements with AtteFa, TVD and JSD of the models' twins beside the numbers that they have.

    Args:
        measured: one a model.
        twins: of the same models, in the same order.
    """
    source = TRAINING.settings.variant
    found = []
    for one, twin in zip(measured, twins, strict=True):
        place = {example: i for i, example in enumerate(twin.examples)}
        order = [place[example] for example in one.examples]
        sorted_numbers = {metric: _taken(column, order) for metric, column in twin.numbers.items()}
        of_texts, ratio = numbers_of_twins([sorted_numbers], one.is_proven)
        numbers = {(metric, source): column for metric, column in of_texts.items()}
        of_model = {(attefa.ATTEFA.name, source): ratio}
        found.append(replace(one, numbers={**one.numbers, **numbers}, of_model={**one.of_model, **of_model}))
    return found


def _taken(column: TextValues, places: Sequence[int]) -> TextValues:
    return TextValues(column.values[list(places)], [column.reasons[place] for place in places])


def reason_without_twin(base: Any) -> str | None:
    """Why a model has no twin; None where it can have one."""
    if not isinstance(base, AttentionClassifier):
        return OTHER_ARCHITECTURE
    if not any(True for _ in base.attention.parameters()):
        return NO_WEIGHTS_OF_ATTENTION
    return None


def trained_twin(model: BenchModel, base: Any, training: TwinTraining = TRAINING) -> Any:
    """The twin of a model of the set at its best epoch, in eval mode; the same one each time.

    Args:
        model: of the set.
        base: the same model, loaded; see `reason_without_twin`.
        training: how it is trained.
    """
    train, selection = _training_rows(model.data, model.seed, training.n_texts, training.n_selection)
    seed = seed_for("bench", "twin", model.name) % 2**31  # small enough for every library
    twin = new_twin(base, seed)
    with TemporaryDirectory() as folder, training_on("cpu"), quiet():
        task = TrainingTask(
            train=with_base(train, run_over(base, train, Collator())),
            selection=with_base(selection, run_over(base, selection, Collator())),
            collate=Collator(columns=("base_attention", "base_probabilities")),
            settings=training.settings,
            seed=seed,
            checkpoints=Path(folder) / "checkpoints",
        )
        train_twin(twin, task)
    return twin


@lru_cache(maxsize=1)  # models of one data set and seed follow each other
def _training_rows(data: str, seed: int, n_texts: int, n_selection: int) -> tuple[Rows, Rows]:
    """Texts to train on and others to select on, drawn as those that the bases of a seed were trained on."""
    texts = training_texts(DATA[data], n_texts + n_selection, seed)
    return _rows(texts[:n_texts]), _rows(texts[n_texts:])


def _rows(texts: Sequence[BenchText]) -> Rows:
    """Texts as the models read them."""
    ids = word_ids()
    return Rows(
        {
            "example": [text.example for text in texts],
            "input_ids": [[ids[word] for word in text.text.split()] for text in texts],
            "length": [text.length for text in texts],
            "labels": [text.label for text in texts],
        }
    )


def _compared(frozen: FrozenSet, model: BenchModel, training: TwinTraining) -> ComparedTwin:
    """A model's twin, trained anew, beside it; undefined where it can have none."""
    texts = frozen.texts[model.data]
    examples = [text.example for text in texts]
    base, _ = load(frozen.model_folder(model))
    reason = reason_without_twin(base)
    if reason is not None:
        missing = TextValues(np.full(len(texts), math.nan), [reason] * len(texts))
        return ComparedTwin(model, examples, dict.fromkeys(TWIN_METRICS, missing), None)
    twin = trained_twin(model, base, training)
    rows = _rows(texts)
    of_base, of_twin = run_over(base, rows, Collator()), run_over(twin, rows, Collator())
    columns = attefa.run(
        examples,
        (of_base.probabilities, of_base.attention),
        (of_twin.probabilities, of_twin.attention),
        training.settings.variant,
    )
    tvd, jsd = np.array(columns["output_tvd"]), np.array(columns["attention_jsd"])
    collapsed = bool(attefa.score(tvd, jsd, of_base.probabilities)["collapsed"].value)
    return ComparedTwin(model, examples, _by_metric(attefa.per_example(columns)), collapsed)


def _by_metric(scores: Mapping[str, Sequence[Any]]) -> dict[str, TextValues]:
    """Rows of the table "scores", whose texts stand in one order for each metric."""
    metrics = np.array(scores["metric"])
    found = {}
    for metric in TWIN_METRICS:
        places = np.flatnonzero(metrics == metric)
        values = np.array([scores["value"][place] for place in places], dtype=float)  # (B,)
        found[metric] = TextValues(values, [scores["reason"][place] for place in places])
    return found


# kept numbers


def _content(twin: ComparedTwin) -> dict[str, Any]:
    numbers = {}
    for metric, column in twin.numbers.items():
        numbers[metric] = {"values": column.values.tolist(), "reasons": list(column.reasons)}
    return {"numbers": numbers, "collapsed": twin.collapsed}


def _read(frozen: FrozenSet, model: BenchModel, entry: Mapping[str, Any] | None) -> ComparedTwin | None:
    """A twin whose numbers were kept; None where they were not."""
    if entry is None:
        return None
    numbers = {}
    for metric, column in entry["numbers"].items():
        values = np.array(column["values"], dtype=float)  # None becomes NaN
        numbers[metric] = TextValues(values, column["reasons"])
    examples = [text.example for text in frozen.texts[model.data]]
    return ComparedTwin(model, examples, numbers, entry["collapsed"])
