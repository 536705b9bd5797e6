"""A fine-tuning before it is run: model, texts and settings that fit together, and what its runs are called."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attn_faithful.data.settings import DataSettings
from attn_faithful.experiments.descriptions import ModelNames
from attn_faithful.experiments.fine_tune_start import FineTuneStart
from attn_faithful.experiments.identity import Identity, run_identity
from attn_faithful.experiments.quiet import quiet
from attn_faithful.experiments.stock_texts import StockTexts
from attn_faithful.experiments.strict_settings import build
from attn_faithful.models.devices import device_named
from attn_faithful.store import RunFolder
from attn_faithful.training.base import check_regularizers
from attn_faithful.training.placement import training_on
from attn_faithful.training.settings import FineTuneSettings, check_trackers


def fine_tune_settings(values: dict[str, Any]) -> FineTuneSettings:
    """Settings of fine-tuning by name.

    Raises:
        InputError: a name that does not exist, a value out of range, a tracker that is not installed.
    """
    settings: FineTuneSettings = build(FineTuneSettings, values, "train --model: train")
    check_trackers(settings.trackers)
    return settings


@dataclass(frozen=True)
class FineTuning:
    """A model and texts that it is to be fine-tuned on, a run a seed.

    Attributes:
        origin: folder or Hub id of the model.
        start: the model as it was read, its tokenizer and texts.
        data: the texts, encoded.
        source: where they come from.
        settings: how it is trained.
        device: where: "auto", "cpu" or "cuda".
    """

    origin: str
    start: FineTuneStart
    data: StockTexts
    source: DataSettings
    settings: FineTuneSettings
    device: str = "auto"

    @classmethod
    def of(cls, origin: str, source: DataSettings, settings: FineTuneSettings, device: str = "auto") -> FineTuning:
        """Read and check model and texts, before any training.

        Raises:
            InputError: what is wrong with them, an empty split, a regularizer that the data cannot have, or a device
                that is not there.
        """
        with quiet(), training_on(device):
            start = FineTuneStart.read(origin, source, settings.head, settings.masking)
            model = start.model(0).to(device_named(device))
            data = StockTexts.encode(model, start.tokenizer, start.texts, settings.select_on, "trained models")
            check_regularizers(model, settings, data.encoded["train"])
        return cls(origin, start, data, source, settings, device)

    @property
    def title(self) -> str:
        """What progress calls it."""
        return f"{self.data.model.config.model_type} on {self.data.texts.name}"

    @property
    def settings_on_disk(self) -> dict[str, Any]:
        """The settings as meta.json and digests hold them, without regularizers or masks where there are none."""
        settings = asdict(self.settings)
        del settings["regularizers"]
        if self.settings.active_regularizers:
            settings["regularizers"] = self.settings.active_regularizers
        if self.settings.masking is None:
            del settings["masking"]
        return settings

    @cached_property
    def identity(self) -> Identity:
        """All that shapes the numbers, but for the seed."""
        return run_identity(
            "train", self.data.model, self.start.tokenizer, self.data.texts, "test", self.settings_on_disk
        )

    @cached_property
    def names(self) -> ModelNames:
        """What tables and folders call the model, by the weights that every seed starts from."""
        return ModelNames.of(self.data.model, self.origin, self.identity.facts["weights"])

    def of_seed(self, seed: int) -> Identity:
        """All that shapes the numbers of one seed."""
        return Identity({**self.identity.facts, "seed": seed})

    def folder(self, seed: int, output: str | Path) -> RunFolder:
        """The run folder of a seed."""
        parts = [self.data.texts.name, self.names.in_folder, str(seed)]
        return RunFolder(Path(output) / self.of_seed(seed).folder(parts))
