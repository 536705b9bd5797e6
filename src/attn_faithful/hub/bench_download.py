"""Read a set of AttentionBench from the Hub."""

from __future__ import annotations

from pathlib import Path

from attn_faithful._checks import InputError
from attn_faithful.bench_files import MANIFEST, read_manifest
from attn_faithful.hub.upload import check_place


def download_set(name: str, *, revision: str | None = None, token: str | None = None) -> Path:
    """The folder of a set that lies on the Hub as a data set; what is in the cache already is not fetched again.

    Only the manifest and the files that it names are fetched. Whether they are what it says, `check_set` sees.

    Args:
        name: "user/name".
        revision: a branch, tag or commit; None for the newest.
        token: of the Hub; by default the one of ``hf auth login`` or of HF_TOKEN.

    Returns:
        a folder in the Hub's cache, which is only read.

    Raises:
        InputError: no such data set, one that is no set, or a Hub that cannot be reached.
    """
    check_place(name)
    try:
        return _fetch(name, revision, token)
    except InputError:
        raise
    except Exception as error:  # whatever the Hub's library and its transport raise: told with the name
        raise InputError(_why(name, revision, error)) from error


def _fetch(name: str, revision: str | None, token: str | None) -> Path:
    from huggingface_hub import hf_hub_download, snapshot_download

    manifest = Path(hf_hub_download(name, MANIFEST, repo_type="dataset", revision=revision, token=token))
    snapshot = manifest.parent
    files = [MANIFEST, *read_manifest(snapshot).files()]
    commit = snapshot.name  # of the manifest, or files of a later one would stand beside it
    return Path(snapshot_download(name, repo_type="dataset", revision=commit, allow_patterns=files, token=token))


def _why(name: str, revision: str | None, error: Exception) -> str:
    """What to say of an error of the Hub's library."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        EntryNotFoundError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, LocalEntryNotFoundError):
        if constants.HF_HUB_OFFLINE:
            return (
                f"The set {name} is not whole in the Hub's cache, and HF_HUB_OFFLINE forbids to fetch it; unset it, or "
                "give the folder of a set."
            )
        return _lost(name, "it cannot be reached")
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"There is no data set {name} on the Hub, or you may not read it; check the name, log in with "
            "`hf auth login`, or give the folder of a set."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"The data set {name} has no revision {revision!r}; leave it out for the newest."
    if isinstance(error, EntryNotFoundError):
        return f"The data set {name} on the Hub is no set of AttentionBench: it holds no {MANIFEST}."
    return _lost(name, f"{type(error).__name__}: {' '.join(str(error).split())}")


def _lost(name: str, why: str) -> str:
    from huggingface_hub import constants

    return (
        f"The set {name} was not fetched from the Hub at {constants.ENDPOINT} ({why}); try again, or give the folder "
        "of a set."
    )
