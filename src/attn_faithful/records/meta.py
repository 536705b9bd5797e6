"""meta.json: how the numbers of a run came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_faithful.records.json_values import Json, known_fields


@dataclass(frozen=True)
class DataFacts:
    """What the texts of a run are: "data" in meta.json.

    Attributes:
        fingerprint: of the texts and labels.
        notes: what was guessed or left out while they were read.
        splits: split -> n, classes, tokens_mean, tokens_std, truncated, empty, distinct; under its own key on disk.
        source: where they came from; None in runs of recipes, whose recipe says it.
        vocabulary: entries of the tokenizer.
        vector_coverage: share of the vocabulary that has a word vector; None without vectors.
    """

    fingerprint: str | None = None
    notes: list[str] = field(default_factory=list)
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)
    source: str | None = None
    vocabulary: int | None = None
    vector_coverage: Any = None

    @classmethod
    def from_json(cls, values: Json) -> DataFacts:
        splits = {}
        for name, entry in values.items():
            if isinstance(entry, Mapping) and "n" in entry:
                splits[name] = dict(entry)
        known = known_fields(cls, values)
        return cls(**{**known, "notes": list(values.get("notes", [])), "splits": splits})

    def as_json(self) -> dict[str, Any]:
        """The entry "data" of meta.json; the source only where there is one."""
        entry = {
            "source": self.source,
            "fingerprint": self.fingerprint,
            "notes": self.notes,
            "vocabulary": self.vocabulary,
            "vector_coverage": self.vector_coverage,
            **self.splits,
        }
        if self.source is None:
            del entry["source"]
        return entry


CELL_KEYS = (
    "axes",
    "seed",
    "numbers",
    "recipe",
    "label_names",
    "data",
    "parameters",
    "seconds",
    "versions",
    "hardware",
)
EVALUATION_KEYS = (
    "axes",
    "seed",
    "numbers",
    "identity",
    "model",
    "attention",
    "trained_on",
    "weights",
    "split",
    "evaluation",
    "precision",
    "source_file",
    "label_names",
    "data",
    "seconds",
    "versions",
    "hardware",
)
FINE_TUNE_KEYS = (
    "axes",
    "seed",
    "numbers",
    "identity",
    "model",
    "weights",
    "recipe",
    "label_names",
    "data",
    "parameters",
    "seconds",
    "versions",
    "hardware",
)
TWIN_KEYS = (
    "axes",
    "seed",
    "numbers",
    "identity",
    "model",
    "attention",
    "weights",
    "split",
    "twin",
    "label_names",
    "data",
    "seconds",
    "versions",
    "hardware",
)


@dataclass(frozen=True)
class RunMeta:
    """meta.json: how the numbers of a run came about.

    Attributes:
        axes: what tells the run from others beside its seed: data, encoder or model, ... -> label.
        seed: of the base, or of the evaluation.
        label_names: the model's classes, by index.
        data: the texts.
        seconds: that the run took.
        versions: of the libraries that numbers depend on.
        hardware: device (where the tests were computed), machine, threads, cuda, processes.
        numbers: `experiments.identity.NUMBERS_VERSION` at that time; None in folders that are older than it.
        schema: version of the tables.
        recipe: of a recipe's cell: the whole recipe; of fine-tuning its parts ``data`` and ``train``.
        parameters: of a model that was trained: its weights.
        identity: of an evaluation: digests of all that shapes its numbers.
        model: of an evaluation: folder or Hub id; None for a model that was passed in memory.
        attention: of a stock model: rows, heads and layers that were read.
        trained_on: the facts of the texts that the model was trained on, where they are known.
        weights: file -> sha256.
        split: that was evaluated; None for a cell of a recipe, which has "test".
        evaluation: the settings of the tests, as written on disk.
        twin: of a stock model's twins: the settings of their training.
        precision: stored and measured type of the weights; the backbone's half type and how far it moved a probability.
        source_file: importance that was computed elsewhere.
        failed: example -> why it could not be measured.
        source_seconds: source of importance -> seconds a text, beside the forward that predicts.
        test_settings: test that ran -> all its settings, those that nobody gave too.
    """

    axes: dict[str, str]
    seed: int
    label_names: list[str]
    data: DataFacts = field(default_factory=DataFacts)
    seconds: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    numbers: int | None = None
    schema: int | None = None
    recipe: dict[str, Any] | None = None
    parameters: int | None = None
    identity: dict[str, Any] | None = None
    model: str | None = None
    attention: dict[str, Any] | None = None
    trained_on: dict[str, Any] | None = None
    weights: dict[str, str] | None = None
    split: str | None = None
    evaluation: dict[str, Any] | None = None
    twin: dict[str, Any] | None = None
    precision: dict[str, str] | None = None
    source_file: str | None = None
    failed: dict[str, str] = field(default_factory=dict)
    source_seconds: dict[str, float] = field(default_factory=dict)
    test_settings: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Json) -> RunMeta:
        data = DataFacts.from_json(values.get("data") or {})
        label_names = [str(name) for name in values.get("label_names", [])]
        return cls(**{**known_fields(cls, values), "data": data, "label_names": label_names})

    def as_json(self, keys: Sequence[str]) -> dict[str, Any]:
        """The content of meta.json: those keys that this kind of run has, and others where there is something."""
        entry = {name: getattr(self, name) for name in keys}
        if "data" in entry:
            entry["data"] = self.data.as_json()
        if self.failed:
            entry["failed"] = self.failed
        if self.source_seconds:
            entry["source_seconds"] = self.source_seconds
        if self.test_settings:
            entry["test_settings"] = self.test_settings
        return entry
