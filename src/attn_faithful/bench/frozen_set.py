"""The set as a folder: the manifest, the texts, the models; made once, then read and checked against its digests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from attn_faithful._atomic import write_folder, write_text
from attn_faithful._checks import InputError
from attn_faithful._digests import check_digests, digest_of_file
from attn_faithful.bench import stock
from attn_faithful.bench.channels import ENCODERS
from attn_faithful.bench.fitting import Batch, batch_of
from attn_faithful.bench.kinds import KINDS
from attn_faithful.bench.making import Family, kinds_of, word_ids
from attn_faithful.bench.proofs import Case, Proof, proof_of
from attn_faithful.bench.stock_proofs import stock_proof
from attn_faithful.bench.texts import DATA, SEVERAL, SINGLE, TEXTS_OF_A_LENGTH, BenchText, frozen_texts
from attn_faithful.bench_files import MANIFEST, check_set, read_manifest
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.models.entry import as_attention_model
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.records.bench import BenchManifest, BenchModel

SET_VERSION = 1  # raised when a set made anew has other texts, kinds or truths
TEXTS, MODELS = "texts", "models"
_MADE = ".made"  # entries of models that are finished, while others are not
ENOUGH = 0.8  # share of a model's texts that has to be proven
ATTEMPTS = 20  # trainings with other seeds until that is reached
PACKAGES = ("attn-faithful", "torch", "transformers", "numpy")


@dataclass(frozen=True)
class Plan:
    """Which models a set has.

    Attributes:
        encoders: name -> the kinds to make of it; those that cannot be made of it are left out.
        data, seeds: every kind is made for each combination.
        of_a_length: texts of each length.
    """

    encoders: Mapping[str, Sequence[str]]
    data: Sequence[str]
    seeds: Sequence[int]
    of_a_length: int = TEXTS_OF_A_LENGTH

    def families(self) -> list[Family]:
        """Each combination, those with the first seed first."""
        listed = []
        for seed in self.seeds:
            for data in self.data:
                listed += [Family(encoder, DATA[data], seed) for encoder in self.encoders]
        return listed

    def kinds(self, family: Family) -> list[str]:
        """The kinds to make of a combination."""
        return [kind for kind in kinds_of(family) if kind in self.encoders[family.encoder]]


_ALL = tuple(KINDS)
WHOLE = Plan(dict.fromkeys((*ENCODERS, stock.ENCODER), _ALL), (SINGLE.name, SEVERAL.name), (0, 1))
SMALL = Plan(
    {"none": _ALL, "cnn": ("faithful", "free"), stock.ENCODER: ("faithful", "leaky")},
    (SINGLE.name,),
    (0,),
    of_a_length=6,
)


@dataclass(frozen=True)
class FrozenSet:
    """A set that was read.

    Attributes:
        folder: where it lies.
        manifest: what it holds.
        sha256: of the manifest.
    """

    folder: Path
    manifest: BenchManifest
    sha256: str

    def model_folder(self, model: BenchModel) -> Path:
        """Where a model lies."""
        return self.folder / MODELS / model.name

    @cached_property
    def texts(self) -> dict[str, list[BenchText]]:
        """Data set -> its texts."""
        return {Path(file).stem: _read_texts(self.folder / TEXTS / file) for file in self.manifest.texts}


def read_set(folder: str | Path) -> FrozenSet:
    """Read a set, and check every file against the manifest.

    Raises:
        InputError: no manifest, one of another version, or a file that is missing, changed or not in it.
    """
    path = Path(folder)
    manifest = read_manifest(path)
    if manifest.version != SET_VERSION:
        raise InputError(
            f"{folder} is a set of version {manifest.version}, and this package measures on version {SET_VERSION}; "
            "make the set anew, or use the version of attn_faithful that made it: "
            f"{manifest.versions.get('attn-faithful', 'unknown')}."
        )
    check_set(path, manifest)
    return FrozenSet(path, manifest, digest_of_file(path / MANIFEST))


def make_set(
    folder: str | Path,
    plan: Plan = WHOLE,
    on_progress: Callable[[int, int], None] = lambda done, n: None,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> FrozenSet:
    """Train the models of a plan, prove what is said of them, and freeze them; one that is finished is kept.

    Args:
        folder: of the set.
        plan: its models.
        on_progress: ``on_progress(done, n)`` in models of this process.
        processes: that share the models.

    Raises:
        InputError: a model whose truth could not be proven.
    """
    path = Path(folder)
    texts = {data: frozen_texts(DATA[data], of_a_length=plan.of_a_length) for data in plan.data}
    own = plan.families()[processes.rank :: processes.world]
    n = sum(len(plan.kinds(family)) for family in own)
    done = 0
    for family in own:
        for kind in plan.kinds(family):
            on_progress(done, n)
            _made(path, family, kind, texts[family.data.name])
            done += 1
    on_progress(n, n)
    processes.wait("made")
    if processes.main:
        _freeze(path, plan, texts)
    processes.wait("frozen")
    return read_set(path)


def _freeze(path: Path, plan: Plan, texts: Mapping[str, Sequence[BenchText]]) -> None:
    """Write the texts, and the manifest of all models, which are there by now."""
    digests = {}
    for data, of_data in texts.items():
        file = path / TEXTS / f"{data}.jsonl"
        _write_texts(file, of_data)
        digests[file.name] = digest_of_file(file)
    models = []
    for family in plan.families():
        models += [_made(path, family, kind, texts[family.data.name]) for kind in plan.kinds(family)]
    versions = {package: version(package) for package in PACKAGES}
    manifest = BenchManifest(models, digests, SET_VERSION, versions)
    _write_json(path / MANIFEST, manifest.as_json())
    shutil.rmtree(path / _MADE, ignore_errors=True)


def _made(path: Path, family: Family, kind: str, texts: Sequence[BenchText]) -> BenchModel:
    """The entry of a model: an earlier one's whose files are as they were, or a new one's."""
    name = f"{kind}-{family.encoder}-{family.data.name}-{family.seed}"
    entry_file = path / _MADE / f"{name}.json"
    folder = path / MODELS / name
    if entry_file.is_file():
        entry = BenchModel.from_json(json.loads(entry_file.read_text(encoding="utf-8")))
        if not check_digests(folder, entry.sha256):
            return entry
    model, proof = _proven(family, kind, texts)
    write_folder(folder, partial(_save, model, family.tokenizer))
    unproven = [text.example for text, proven in zip(texts, proof.proven.tolist(), strict=True) if not proven]
    entry = BenchModel(
        name=name,
        kind=kind,
        explains=KINDS[kind].explains,
        encoder=family.encoder,
        data=family.data.name,
        seed=family.seed,
        truth=family.truth(kind),
        proof=proof.shares,
        unproven=unproven,
        sha256={file.name: digest_of_file(file) for file in sorted(folder.iterdir())},
    )
    _write_json(entry_file, asdict(entry))
    return entry


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _proven(family: Family, kind: str, texts: Sequence[BenchText]) -> tuple[Any, Proof]:
    """The first of several trainings that is proven for enough texts."""
    most = 0.0
    for attempt in range(ATTEMPTS):
        model = family.make(kind, attempt)
        proof = proof_on(kind, model, texts)
        share = float(proof.proven.double().mean())
        if share >= ENOUGH:
            return model, proof
        most = max(most, share)
    raise InputError(
        f"The kind {kind} of the encoder {family.encoder} on {family.data.name} was proven for {most:.2f} of "
        f"the texts at most in {ATTEMPTS} trainings, and {ENOUGH} was expected; choose another seed."
    )


def proof_on(kind: str, model: Any, texts: Sequence[BenchText]) -> Proof:
    """What is shown of a model on some texts.

    Args:
        kind: what it is said to be.
        model: of ours, or one of transformers, as it is or wrapped.
        texts: of the set.
    """
    if not isinstance(model, AttentionClassifier):
        return stock_proof(kind, as_attention_model(model), stock.stock_tokenizer(), texts)
    ids = word_ids()

    def encode(chosen: Sequence[str]) -> dict[str, torch.Tensor]:
        changed = [replace(text, text=words) for text, words in zip(texts, chosen, strict=True)]
        return _inputs(batch_of(changed, ids))

    batch = batch_of(texts, ids)
    inputs = _inputs(batch)
    site = model.sites[0]
    with torch.no_grad():
        encoded = model.encode(inputs, site)
        case = Case(model, site, inputs, encoded, batch.decisive, batch.labels)
        return proof_of(kind, case, texts, encode)


def _inputs(batch: Batch) -> dict[str, torch.Tensor]:
    return {"input_ids": batch.ids, "attention_mask": batch.mask.long()}


# files


def _write_json(file: Path, value: Any) -> None:
    write_text(file, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _write_texts(file: Path, texts: Sequence[BenchText]) -> None:
    lines = [json.dumps({**asdict(text), "length": text.length}) for text in texts]
    write_text(file, "\n".join(lines) + "\n")


def _read_texts(file: Path) -> list[BenchText]:
    return list(_texts_in(file.read_text(encoding="utf-8")))


def _texts_in(content: str) -> Iterator[BenchText]:
    for line in content.splitlines():
        values = json.loads(line)
        values.pop("length")
        yield BenchText(**values)
