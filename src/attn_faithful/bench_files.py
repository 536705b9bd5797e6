"""The files of AttentionBench's set: what its manifest says, and whether they are still what it says."""

from __future__ import annotations

import json
from pathlib import Path

from attn_faithful._checks import InputError
from attn_faithful._digests import EXTRA, check_digests, refuse_faults
from attn_faithful.records.bench import BenchManifest

MANIFEST = "manifest.json"

_HOLDS = ("texts/", "models/")  # folders of a set; what lies beside them is not read


def read_manifest(folder: str | Path) -> BenchManifest:
    """The manifest of a set's folder, whatever its files are like.

    Raises:
        InputError: no set, or a manifest that cannot be read.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder} holds no {MANIFEST}, so it is no set; attn-faithful bench makes one.")
    try:
        manifest = BenchManifest.from_json(json.loads(path.read_text(encoding="utf-8")))
        manifest.files()  # the digests are mappings
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} cannot be read ({why}); make the set anew, or load it again.") from error
    return manifest


def check_set(folder: str | Path, manifest: BenchManifest) -> None:
    """Raise unless the texts and models of a set are those that its manifest was written for.

    Args:
        folder: of the set; files beside ``texts`` and ``models`` are left alone.
        manifest: see `read_manifest`.

    Raises:
        InputError: a file is missing, changed or extra; the first is named, and how many others there are.
    """
    faults = []
    for fault in check_digests(folder, manifest.files()):
        if fault.fault != EXTRA or fault.file.startswith(_HOLDS):
            faults.append(fault)
    refuse_faults(folder, faults, "make the set anew, or load it again")
