"""The records of AttentionBench: what the set holds, and what was measured on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from attn_faithful.records.json_values import NAN, Json, known_fields, numbers_defined

EVERY = "all"  # kinds, or lengths
MODEL, TEXT, TOKEN = "model", "text", "token"  # levels
TEST, EXPLANATION = "test", "explanation"  # what is entered


@dataclass(frozen=True)
class BenchModel:
    """A frozen model of the set, and what is known of it.

    Attributes:
        name: of its folder below ``models``; unique.
        kind: how it was made: "faithful", "pinned", or how its attention fails to explain: "free", "deceptive" ...
        explains: whether its attention explains its decisions.
        encoder, data, seed: what else tells it from others.
        truth: why that is so, in a sentence.
        proof: name -> number, what its proof found on the texts of `data`; see `attn_faithful.bench.proofs`.
        unproven: ids of the texts for which the truth could not be proven; nothing is measured on them.
        sha256: file of its folder -> digest.
    """

    name: str
    kind: str
    explains: bool
    encoder: str
    data: str
    seed: int
    truth: str
    proof: Mapping[str, float] = field(default_factory=dict)
    unproven: Sequence[str] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Json) -> BenchModel:
        return cls(**known_fields(cls, values))


@dataclass(frozen=True)
class BenchManifest:
    """What a set of frozen models and texts holds: manifest.json.

    Attributes:
        models: of the set.
        texts: file below ``texts`` -> digest.
        version: of the way the set is made; sets of another version are not comparable.
        versions: package -> version with which it was made.
    """

    models: Sequence[BenchModel]
    texts: Mapping[str, str]
    version: int
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Json) -> BenchManifest:
        models = [BenchModel.from_json(entry) for entry in values["models"]]
        return cls(**{**known_fields(cls, values), "models": models})

    def files(self) -> dict[str, str]:
        """The digest of every file of the set but manifest.json, by its path below the set's folder.

        Example:
            >>> model = BenchModel("a", "free", False, "bilstm", "single", 0, "a twin", sha256={"config.json": "3f"})
            >>> BenchManifest([model], {"single.jsonl": "e1"}, version=1).files()
            {'texts/single.jsonl': 'e1', 'models/a/config.json': '3f'}
        """
        digests = {f"texts/{file}": digest for file, digest in self.texts.items()}
        for model in self.models:
            for file, digest in model.sha256.items():
                digests[f"models/{model.name}/{file}"] = digest
        return digests

    def as_json(self) -> dict[str, Any]:
        """The content of manifest.json."""
        return asdict(self)


@dataclass(frozen=True)
class BenchScore:
    """How well one number tells what explains from what does not.

    Attributes:
        metric, source: of the number, as in the table "scores" of a run; of an explanation the metric is "decisive".
        kind: of the models whose attention does not explain; "all" for all of them. Of an explanation: of the models
            whose texts it explains.
        level: "model" (the mean of a model's texts is its number), "text" (each text has its own), or "token" (of an
            explanation: decisive tokens against the others of a text).
        length: of the texts, in tokens; "all" for all of them.
        auc: the share of pairs in which the number is the more faithful one for what explains, ties counted half: 0.5
            tells nothing, 1 tells all. Which of two numbers is the more faithful one the metric table says; of a number
            of which it does not, the higher one.
        low, high: its 95% interval.
        n_explains, n_other: models, texts or tokens with a number, on either side.
        n_undefined: those without.
        reasons: why they have none -> how many.
    """

    metric: str
    source: str
    kind: str
    level: str
    length: str
    auc: float = NAN
    low: float = NAN
    high: float = NAN
    n_explains: int = 0
    n_other: int = 0
    n_undefined: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Json) -> BenchScore:
        return cls(**numbers_defined(cls, known_fields(cls, values)))


@dataclass(frozen=True)
class BenchLine:
    """The line on a number that tells best which models' attention explains.

    Attributes:
        metric, source: of the number.
        line: its value.
        faithful: "above" or "below": on which side attention explains.
        balanced_accuracy: the mean of the shares of explaining and of other models on their own side.
        low, high: its 95% interval.
        missed: share of the explaining models on the wrong side.
        passed: kind -> share of its models on the side of those that explain.
        n_explains, n_other: models with a number.
    """

    metric: str
    source: str
    line: float
    faithful: str
    balanced_accuracy: float
    low: float = NAN
    high: float = NAN
    missed: float = NAN
    passed: Mapping[str, float] = field(default_factory=dict)
    n_explains: int = 0
    n_other: int = 0

    @classmethod
    def from_json(cls, values: Json) -> BenchLine:
        return cls(**numbers_defined(cls, known_fields(cls, values)))


@dataclass(frozen=True)
class BenchVerdict:
    """What was said of the models of a kind.

    Attributes:
        kind: of the models.
        test: name of a test, or "verdict" for what all of them say together.
        says: "against", "for", "open", "mixed" or "nothing" -> models of which it is said.
    """

    kind: str
    test: str
    says: Mapping[str, int]

    @classmethod
    def from_json(cls, values: Json) -> BenchVerdict:
        return cls(**known_fields(cls, values))


@dataclass(frozen=True)
class BenchResult:
    """What one submission reached on a set: a result file.

    Attributes:
        name: of the submission, as the leaderboard calls it.
        entry: "test" (numbers of attention) or "explanation" (importance of tokens).
        origin: where it comes from: "attn_faithful", "module:function" or the name of a file.
        set_sha256: of the manifest that it was measured on.
        scores: by metric, kind, level and length.
        lines: of tests, the best line on each number.
        verdicts: of the package's own tests, what they say of each kind.
        file_sha256: of the file with the explanation; None where there is none.
        versions: package -> version it was measured with.
        date: the day, as 2026-01-31.
        seconds: how long it took; of a run that was taken up again what was left.
    """

    name: str
    entry: str
    origin: str
    set_sha256: str
    scores: Sequence[BenchScore]
    lines: Sequence[BenchLine] = ()
    verdicts: Sequence[BenchVerdict] = ()
    file_sha256: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""
    seconds: float = NAN

    @classmethod
    def from_json(cls, values: Json) -> BenchResult:
        known = numbers_defined(cls, known_fields(cls, values))
        scores = [BenchScore.from_json(entry) for entry in values["scores"]]
        lines = [BenchLine.from_json(entry) for entry in values.get("lines", ())]
        verdicts = [BenchVerdict.from_json(entry) for entry in values.get("verdicts", ())]
        return cls(**{**known, "scores": scores, "lines": lines, "verdicts": verdicts})

    def as_json(self) -> dict[str, Any]:
        """The content of a result file."""
        return asdict(self)
