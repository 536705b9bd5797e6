"""AtteFa of a stock model: twins are trained and compared with it head by head, and a run folder is written."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.data.sources import TextData
from attn_faithful.experiments.cell_training import StageProgress
from attn_faithful.experiments.data_facts import data_facts
from attn_faithful.experiments.descriptions import attention_read
from attn_faithful.experiments.identity import Identity, run_identity
from attn_faithful.experiments.inputs import DataInput, ModelInput, labelled_texts
from attn_faithful.experiments.processes import SINGLE_PROCESS
from attn_faithful.experiments.quiet import quiet
from attn_faithful.experiments.readable_texts import Split
from attn_faithful.experiments.run_facts import long_history, run_meta, weights_of_origin
from attn_faithful.experiments.scoring import metric_facts
from attn_faithful.experiments.stock_texts import StockTexts
from attn_faithful.experiments.stock_twin_scores import ComparedTwins
from attn_faithful.experiments.stock_twin_tables import write_tables
from attn_faithful.experiments.strict_settings import build
from attn_faithful.experiments.threads import computing_weights, threads_for
from attn_faithful.experiments.trained_models import History, ModelStore, TrainedModel
from attn_faithful.experiments.twin_plan import TwinPlan
from attn_faithful.experiments.undefined_texts import UndefinedTextWarning, warn_of
from attn_faithful.models.entry import as_stock_model
from attn_faithful.models.stock.model import StockModel
from attn_faithful.records.meta import TWIN_KEYS, RunMeta
from attn_faithful.records.summary import RunSummary
from attn_faithful.store import RunFolder
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import recipe_precision
from attn_faithful.training.placement import training_on
from attn_faithful.training.stock_pair import StockOutputs, stock_twin_outputs
from attn_faithful.training.stock_twin import StockTwinSettings, train_stock_twin
from attn_faithful.training.task import TrainingTask


def twin_settings(values: Mapping[str, Any]) -> StockTwinSettings:
    """Settings of a stock model's twin by name.

    Raises:
        InputError: a name that does not exist, or a value out of range.
    """
    return build(StockTwinSettings, values, "attefa: twin")


def stock_attefa(
    model_input: ModelInput,
    data: DataInput,
    settings: StockTwinSettings | None = None,
    *,
    seeds: Sequence[int] = (0,),
    output: str | Path = "runs/attefa",
    on_progress: StageProgress = lambda stage, epoch, epochs, metrics: None,
) -> RunFolder:
    """Train twins of a stock model and write how they compare with it; a finished run is taken as it is.

    Args:
        model_input: a transformers classifier, or a `StockModel` of one; it stays as it is.
        data: where the texts come from. Twins are trained on "train" and compared on "test"; a split that the source
            lacks is cut out of "train".
        settings: how twins are trained; None for the defaults.
        seeds: a twin each.
        output: folder of the run folder.
        on_progress: ``on_progress(stage, epoch, epochs, metrics)`` after every epoch.

    Returns:
        the run folder: ``predictions`` of the model, ``tokens`` with its attention (see `stock_twin_tables`),
        ``scores`` and ``variants`` with TVD and JSD of each twin and example, over all layers (site "joint") and by
        layer; ``history``; each twin in a folder of its own, which loads alone; in summary.json under ``twins`` the
        records of `evaluators.attefa.score` and of each layer JSD, the mass on content tokens of both and the
        assignment of heads.

    A text that the model cannot read (see `readable_texts`) is left out of training, as a note says; in the tables its
    numbers are undefined for that reason, and meta.json names it under ``failed``.

    Raises:
        InputError: a model that cannot be wrapped, what is wrong with the data or a setting, an empty split or one of
            which the model can read no text, another process that writes there.
    """
    settings = settings or StockTwinSettings()
    if not seeds or len(set(seeds)) != len(seeds):
        raise InputError(f"seeds must be a list of different numbers, but is {list(seeds)}.")
    base = as_stock_model(model_input.model)
    _check_wrapping(base, settings)
    texts = labelled_texts(base, data)
    identity = run_identity("attefa", base, model_input.tokenizer, texts, "test", asdict(settings), seeds=list(seeds))
    names = model_input.names(base, identity.facts["weights"])
    name = identity.folder([texts.name, names.in_folder, "attefa"])
    folder = RunFolder(Path(output) / name)
    if folder.done:
        return folder
    encoded = StockTexts.encode(base, model_input.tokenizer, texts, settings.select_on, "twins")
    run = StockTwinRun(base, model_input, encoded, settings, list(seeds), folder, on_progress)
    training = training_on(str(base.device))
    with quiet(), recipe_precision(), threads_for(computing_weights(base)), training, folder.writing():
        run.run(identity, data.settings.source)
    return folder


def _check_wrapping(base: StockModel, settings: StockTwinSettings) -> None:
    """Raise where the model was wrapped with other heads, rows or layers than twins are compared on."""
    for name in ("queries", "heads"):
        if base.asked[name] is not None:
            raise InputError(
                f"AtteFa compares all heads of a layer in all rows of a text, but the model was wrapped with "
                f"{name}={base.asked[name]!r}; wrap it without."
            )
    if settings.layers is None or base.asked["layers"] is None:
        return
    if base.choosing(layers=settings.layers).layers != base.layers:
        raise InputError(
            f"The model was wrapped with layers={base.layers}, but the settings ask for {settings.layers}; leave one "
            "of the two out."
        )


@dataclass
class StockTwinRun:
    """The stages of a comparison of a stock model with its twins.

    Attributes:
        base: the model.
        model_input: the model as the user named it.
        data: the texts.
        settings: how twins are trained.
        seeds: a twin each.
        folder: of the run.
        on_progress: ``on_progress(stage, epoch, epochs, metrics)``.
        start: when the run began.
        histories: of each training, by name.
    """

    base: StockModel
    model_input: ModelInput
    data: StockTexts
    settings: StockTwinSettings
    seeds: list[int]
    folder: RunFolder
    on_progress: StageProgress
    start: float = field(default_factory=time.time)
    histories: dict[str, History] = field(default_factory=dict)

    @property
    def texts(self) -> TextData:
        """The data set."""
        return self.data.texts

    def run(self, identity: Identity, source: str) -> None:
        """All stages.

        Args:
            identity: of the run.
            source: where the texts came from, as the user named it.
        """
        encoded = self.data.encoded
        splits = self.data.read(list(dict.fromkeys((*self.data.training, "test"))))
        left_out = []
        for name in self.data.training:
            left_out += splits[name].note(name)
        failed = splits["test"].failed
        self.compare(splits)
        data = data_facts(self.texts, encoded, self.model_input.tokenizer, source=source)
        data = replace(data, notes=[*data.notes, *self._notes(), *left_out])
        meta = self.meta(identity, data=data, failed=failed)
        self.folder.write_meta(meta.as_json(TWIN_KEYS))
        for note in left_out:
            warnings.warn(note, UndefinedTextWarning, stacklevel=3)
        warn_of(failed, len(encoded["test"]))

    def compare(self, splits: dict[str, Split]) -> None:
        """Train all twins, compare them with the model, and write the tables and summary.json."""
        test = splits["test"]
        compared = ComparedTwins(self.base, test, self.texts.label_names)
        for seed in self.seeds:
            plan = TwinPlan(self.settings, seed)
            twin = self.train_twin(plan, splits)
            self.histories[plan.name] = twin.record.history
            compared.add(plan, twin.record, self._outputs(twin.model, test))
        layers = self.base.layers if self.settings.layers is None else self.settings.layers
        tested = self.base.choosing(self.base.queries, self.base.heads, layers)
        write_tables(
            self.folder,
            tested,
            self.model_input.tokenizer,
            test,
            self.texts.splits["test"],
            compared,
        )
        self.folder.write_table("history", long_history(self.histories))
        labels = np.asarray(test.rows.labels)
        summary = RunSummary(
            base=classification_metrics(compared.probabilities, labels, self.base.multi_label),
            tests=compared.records,
            metrics=metric_facts(compared.records),
            twins=compared.twins,
        )
        self.folder.write_summary(summary.as_json())

    def train_twin(self, plan: TwinPlan, splits: dict[str, Split]) -> TrainedModel:
        """A twin with its record: from the folder where it was finished, else trained."""
        train = splits["train"].readable
        selection = splits[self.settings.select_on].readable

        def fit(checkpoints: Path) -> tuple[Any, History]:
            self.on_progress(plan.folder_name, 0, self.settings.epochs, {})
            task = TrainingTask(
                train,
                selection,
                self.data.collate("train"),
                self.settings,
                seed_for(plan.seed, "twin") % 2**31,
                checkpoints,
                partial(self.on_progress, plan.folder_name),
            )
            return train_stock_twin(self.base, task)

        models = ModelStore(self.folder, self.model_input.tokenizer, self.texts, SINGLE_PROCESS)
        return models.get(plan.folder_name, fit, rank=lambda row: row["eval_selection"], load=self._load)

    def _load(self, path: Path) -> StockModel:
        network = self.base.model
        twin = type(network).from_pretrained(path, dtype=network.dtype).to(self.base.device).eval()
        return StockModel(twin, self.base.queries, self.base.heads, self.base.layers)

    def _outputs(self, twin: StockModel, test: Split) -> StockOutputs:
        """Base and twin on all texts of the test split; NaN for those that the model cannot read."""
        outputs = stock_twin_outputs(
            self.base, twin, test.readable, self.data.collate("test"), self.settings.layers, self.settings.keys
        )
        return outputs.among(len(test.rows), test.places)

    def _notes(self) -> list[str]:
        keys = "the content tokens" if self.settings.keys == "content" else "all tokens, special ones too"
        notes = [f"JSD over matched heads and every row of a text, of attention among {keys}."]
        if self.settings.select_on == "test":
            notes.append("The epoch of the twins was chosen on the TEST split.")
        return notes

    def meta(self, identity: Identity, **facts: Any) -> RunMeta:
        """How the numbers came about; ``facts`` are further fields."""
        origin = self.model_input.origin
        names = self.model_input.names(self.base, identity.facts["weights"])
        return run_meta(
            self.start,
            SINGLE_PROCESS,
            self.base.device,
            axes={"data": self.texts.name, "model": names.in_tables},
            seed=self.seeds[0],
            identity=identity.short,
            model=origin,
            attention={**(attention_read(self.base) or {}), "rows": {}, "heads": None},
            weights=weights_of_origin(origin),
            split="test",
            twin=asdict(self.settings),
            label_names=self.texts.label_names,
            **facts,
        )
