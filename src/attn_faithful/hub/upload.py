"""One push: check the card, create the repository, send all files in one commit, within a bounded time."""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError

Files = dict[str, Path | bytes]  # name in the repository -> where it lies, or what it holds

_TRIES = 3  # of a push whose connection is lost


@dataclass(frozen=True)
class Repository:
    """Where a push goes, and how.

    Attributes:
        kind: "model", "dataset" or "space".
        to: "user/name".
        sdk: of a Space.
        private: hide it from others; a repository that is public already is refused.
        token: None for the one that the user has logged in with.
        wait: seconds that the Hub may take for an answer.
    """

    kind: str
    to: str
    sdk: str | None = None
    private: bool = False
    token: str | None = field(default=None, repr=False)
    wait: float = 60


def upload(repository: Repository, files: Files, aside: Path | None) -> str:
    """Push files to a repository of the Hub, and create it where it does not exist.

    Args:
        repository: where to.
        files: all of them, with README.md, whose metadata are checked before anything is sent.
        aside: the folder for the files if the Hub cannot be reached; None where they lie together already.

    Returns:
        the address of the repository.

    Raises:
        InputError: no token, no such place, a card that is not valid, no permission, or a Hub that is lost.
    """
    from huggingface_hub import get_token

    check_place(repository.to)
    token = repository.token or get_token()
    if token is None:
        raise InputError("There is no token for the Hub; log in with `hf auth login`, set HF_TOKEN, or pass token=.")
    check_card(card_of(files))
    try:
        return _send_patiently(repository, token, files)
    except _HubLostError as error:
        lost = str(error)
    if aside is None:
        rest = "the run folder is as it was"
    else:
        put_aside(files, aside)
        rest = f"all files of the repository lie in {aside}"
    raise InputError(f"{repository.to} was not pushed: {lost}; {rest}, and the same command tries again.")


class _HubLostError(Exception):
    """The Hub cannot be reached, or does not answer."""


def _send_patiently(repository: Repository, token: str, files: Files) -> str:
    """Send files, and try again where the connection is lost.

    Raises:
        InputError: the Hub refuses them.
        _HubLostError: it cannot be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
    from huggingface_hub.utils import get_session

    to, wait = repository.to, repository.wait
    api = HfApi(token=token)
    http = import_module(type(get_session()).__module__.partition(".")[0])  # httpx, or what has followed it
    lost = ""
    with _bounded(get_session(), http.Timeout(wait)):
        for attempt in range(_TRIES):
            time.sleep(2**attempt - 1)
            try:
                return _send(api, repository, files)
            except http.TimeoutException as error:
                raise _HubLostError(f"the Hub at {api.endpoint} did not answer within {wait:g} seconds") from error
            except http.TransportError as error:
                lost = f"the connection to {api.endpoint} was lost {_TRIES} times ({error or type(error).__name__})"
            except HfHubHTTPError as error:
                if error.response.status_code < 500:
                    raise InputError(_refused(to, error)) from error
                lost = f"the Hub at {api.endpoint} failed {_TRIES} times (status {error.response.status_code})"
            except OfflineModeIsEnabled as error:
                raise InputError(f"{to} was not pushed: HF_HUB_OFFLINE forbids it; unset it.") from error
            except InputError:
                raise
            except ValueError as error:  # the Hub's own check of the card
                raise InputError(f"{to} was not pushed: {' '.join(str(error).split())}") from error
    raise _HubLostError(lost)


def check_place(to: str) -> None:
    """Raise unless ``to`` can be a repository's name with its owner's."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(to)
        fits = to.count("/") == 1
    except HFValidationError:
        fits = False
    if not fits:
        raise InputError(
            f'Expected a place on the Hub as "user/name", of letters, digits, "-", "_", ".", but got {to!r}.'
        )


def check_card(text: str) -> None:
    """Raise unless a card's metadata are valid, as far as that can be checked without the Hub.

    Raises:
        InputError: metadata that are no YAML mapping, a model-index that lacks what it needs, NaN.

    Example:
        >>> check_card("---\\ntags: [attention]\\n---\\n# A model\\n")
    """
    from huggingface_hub import ModelCard
    from yaml import YAMLError

    try:
        metadata = ModelCard(text, ignore_metadata_errors=False).data.to_dict()  # it knows a model-index
    except (ValueError, KeyError, TypeError, YAMLError) as error:
        raise InputError(f"The card's metadata cannot be read: {' '.join(str(error).split())}.") from error
    for name, value in _leaves(metadata):
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"The card's metadata hold a number that is not finite ({name}); leave it out.")


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested mappings and lists, with its name such as "model-index[0].name"."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{name}[{place}]")
    else:
        yield name, value


def _send(api: Any, repository: Repository, files: Files) -> str:
    from huggingface_hub import CommitOperationAdd, RepoCard

    to, kind, private = repository.to, repository.kind, repository.private
    RepoCard(card_of(files)).validate(repo_type=kind)  # before there is a repository
    url = api.create_repo(to, repo_type=kind, private=private or None, exist_ok=True, space_sdk=repository.sdk)
    if private and not api.repo_info(to, repo_type=kind).private:
        raise InputError(f"{to} exists already and is public; choose another name, or make it private on the Hub.")
    operations = []
    for name, content in files.items():
        source = str(content) if isinstance(content, Path) else content
        operations.append(CommitOperationAdd(name, source))
    api.create_commit(to, operations, commit_message="Pushed with attn_faithful", repo_type=kind)
    return str(url)


def static_space_card(name: str, about: str, emoji: str) -> str:
    """The README.md of a static Space that shows index.html.

    Args:
        name: of the Space.
        about: what it shows, in Markdown.
        emoji: on its tile.
    """
    return (
        f"---\ntitle: {json.dumps(name)}\nemoji: {emoji}\ncolorFrom: indigo\ncolorTo: yellow\nsdk: static\n"
        f"app_file: index.html\npinned: false\n---\n\n# {name}\n\n{about}\n"
    )


def card_of(files: Files) -> str:
    """The text of README.md."""
    card = files["README.md"]
    if isinstance(card, Path):
        card = card.read_bytes()
    return card.decode("utf-8")


@contextmanager
def _bounded(session: Any, timeout: Any) -> Iterator[None]:
    """Limit the wait for the next byte; without it, the Hub's library waits for most answers without end."""
    before, session.timeout = session.timeout, timeout
    try:
        yield
    finally:
        session.timeout = before


def _refused(to: str, error: Any) -> str:
    """What to do about a refusal of the Hub, with the first sentence of its answer."""
    status = error.response.status_code
    answer = re.split(r"\n|\. ", str(error).strip())[0]
    if status == 401:
        return f"The Hub does not know this token; log in with `hf auth login` or set HF_TOKEN. ({answer})"
    if status in (403, 404, 409):
        return (
            f"{to} is taken by somebody else, or your token may not write there; choose a name of your own, or a token "
            f"with the permission to write. ({answer})"
        )
    return f"The Hub refused {to}: {' '.join(str(error).split())}"


def put_aside(files: Files, folder: Path) -> None:
    """Write all files of the repository into a folder, which ``hf upload`` could push."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        target = folder / name  # a name may hold folders
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            shutil.copyfile(content, target)


def write_files(files: Files, to: str, into: str | Path) -> Path:
    """Write all files of the repository ``to`` into a folder, and push nothing.

    Args:
        files: see `upload`; the card's metadata are checked.
        to: "user/name".
        into: a folder that is new or empty.

    Returns:
        the folder.

    Raises:
        InputError: no such place, a card that is not valid, or a folder that holds something.
    """
    check_place(to)
    folder = Path(into)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"Expected a new or empty folder to write into, but {folder} is there already.")
    check_card(card_of(files))
    put_aside(files, folder)
    return folder
