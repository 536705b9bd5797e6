"""The plan of the stock models: what is fine-tuned on which texts, and which tests are asked of it (stock.yaml)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from attn_faithful.experiments.identity import slug
from evidence.schedule import written

PLAN = Path(__file__).with_name("stock.yaml")
MODELS = "train"  # folder of the run folders of fine-tunings; those of evaluations are called by their part
_RANDOM = "random"  # a ranking of these tests; `flips` draws its own
_RANKING = ("erasure", "polarity", "stability", "plausibility", "randomisation")


@dataclass(frozen=True)
class FineTuned:
    """A model that is fine-tuned on a data set.

    Attributes:
        data: what tables call the data set.
        folder: of its files, below the folder of data sets.
        limit: split -> at most how many of its texts.
        epochs: passes over the training texts.
        learning_rate: the largest one.
        minutes: that it is expected to take on one core.
    """

    data: str
    folder: str
    limit: Mapping[str, int]
    epochs: int
    learning_rate: float
    minutes: float

    @property
    def name(self) -> str:
        return f"{self.data} model"

    def command(self, data_dir: Path, pretrained: Path, seed: int) -> list[str]:
        """The words after ``attn-faithful``."""
        words = ["train", "--model", str(pretrained), "--data", str(data_dir / self.folder), "--name", MODELS]
        words += ["--epochs", str(self.epochs), "--learning-rate", str(self.learning_rate), "--seeds", str(seed)]
        return [*words, "--set", f"data.limit={written(dict(self.limit))}"]

    def folder_of(self, output: Path) -> Path:
        """The folder of the model once it is fine-tuned.

        Raises:
            ValueError: there is none, or there are several, of other settings.
        """
        name = slug([self.folder])
        found = sorted((output / MODELS).glob(f"{name}-*/model"))
        if len(found) != 1:
            raise ValueError(f"expected one model of {self.folder} below {output / MODELS}, but got {len(found)}")
        return found[0]


@dataclass(frozen=True)
class Evaluation:
    """Tests that are asked of a fine-tuned model.

    Attributes:
        data: of the model.
        part: what is asked, a key of `parts`.
        tests: names of tests.
        texts: at most how many of the test split.
        minutes: that it is expected to take on one core.
        against: sources that `correlation` compares with attention and with one another.
        rankings: sources that every test which ranks words compares, those of gradients and words left out with their
            sign.
        fit_texts: training texts that learned heads are fitted on; None where they are not asked for.
        set: further keys of the evaluation, dotted.
        left_out: why it is not run; None where it is.
    """

    data: str
    part: str
    tests: Sequence[str]
    texts: int
    minutes: float
    against: Sequence[str] = ()
    rankings: Sequence[str] = ()
    fit_texts: int | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    left_out: str | None = None

    @property
    def name(self) -> str:
        return f"{self.data} {self.part}"

    def settings(self) -> dict[str, Any]:
        """The dotted keys that differ from the defaults."""
        settings = {"data.limit": {"test": self.texts}}
        if self.against:
            settings["evaluation.tests.correlation.against"] = list(self.against)
        for test in self.tests if self.rankings else ():
            if test == "flips":
                settings["evaluation.tests.flips.rankings"] = list(self.rankings)
            if test in _RANKING:
                settings[f"evaluation.tests.{test}.rankings"] = [*self.rankings, _RANDOM]
        return {**settings, **self.set}

    def command(self, data: Path, model: Path) -> list[str]:
        """The words after ``attn-faithful``."""
        words = ["evaluate", str(model), "--data", str(data), "--name", self.part, "--tests", ",".join(self.tests)]
        if self.fit_texts is not None:
            words += ["--fit-texts", str(self.fit_texts)]
        for key, value in self.settings().items():
            words += ["--set", f"{key}={written(value)}"]
        return words


@dataclass(frozen=True)
class Plan:
    """Everything that is done with stock models.

    Attributes:
        tokens: that a text has at most.
        seed: of the fine-tuning.
        models: in the order in which they are made.
        evaluations: in the order in which they run.
    """

    tokens: int
    seed: int
    models: Sequence[FineTuned]
    evaluations: Sequence[Evaluation]

    def of(self, data: str) -> list[Evaluation]:
        """What is asked of the model of a data set, without what is left out."""
        return [each for each in self.evaluations if each.data == data and each.left_out is None]


def read_plan(path: Path = PLAN) -> Plan:
    """The plan of a file; an evaluation has the keys of its part, its own in their place, and its own `set` on top."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    evaluations = []
    for given in content["evaluations"]:
        part = content["parts"][given["part"]]
        settings = {**part.get("set", {}), **given.get("set", {})}
        evaluations.append(Evaluation(**{**part, **given, "set": settings}))
    models = [FineTuned(**given) for given in content["models"]]
    return Plan(content["tokens"], content["seed"], models, evaluations)
