"""One push: the card checked, the repository made, all files sent in one commit, within a bounded time."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError

Files = dict[str, Path | bytes]  # name in the repository -> where it lies, or what it holds

_TRIES = 3  # of a push whose connection is lost


def upload(
    kind: str,
    to: str,
    files: Files,
    aside: Path | None,
    sdk: str | None = None,
    *,
    private: bool,
    token: str | None,
    wait: float,
) -> str:
    """Push files to a repository of the Hub, which is made where it is not there.

    Args:
        kind: "model", "dataset" or "space".
        to: "user/name".
        files: all of them, with README.md, whose metadata are checked before anything is sent.
        aside: the folder that the files are put into if the Hub is lost; None where they lie together already.
        sdk: of a Space.
        private: hide it from others; a repository that is public already is refused.
        token: None for the one that the user has logged in with.
        wait: seconds that the Hub may take for an answer.

    Returns:
        the address of the repository.

    Raises:
        InputError: no token, no such place, a card that is not valid, no permission, or a Hub that is lost.
    """
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
    from huggingface_hub.utils import get_session

    check_place(to)
    token = token or get_token()
    if token is None:
        raise InputError("There is no token for the Hub; log in with `hf auth login`, set HF_TOKEN, or pass token=.")
    check_card(card_of(files))
    api = HfApi(token=token)
    http = import_module(type(get_session()).__module__.partition(".")[0])  # httpx, or what has followed it
    with _bounded(get_session(), http.Timeout(wait)):
        for attempt in range(_TRIES):
            time.sleep(2**attempt - 1)
            try:
                return _send(api, kind, to, files, sdk, private)
            except http.TimeoutException:
                lost = f"the Hub at {api.endpoint} did not answer within {wait:g} seconds"
                break
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
    if aside is not None:
        put_aside(files, aside)
    whole = "the run folder is as it was" if aside is None else f"all files of the repository lie in {aside}"
    raise InputError(f"{to} was not pushed: {lost}; {whole}, and the same command tries again.")


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
    """Raise unless a card's metadata are what the Hub takes, as far as that can be told without it.

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
    if found := [name for name, value in _leaves(metadata) if isinstance(value, float) and not math.isfinite(value)]:
        raise InputError(f"The card's metadata hold a number that is not finite ({found[0]}); leave it out.")


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{name}[{place}]")
    else:
        yield name, value


def _send(api: Any, kind: str, to: str, files: Files, sdk: str | None, private: bool) -> str:
    from huggingface_hub import CommitOperationAdd, RepoCard

    RepoCard(card_of(files)).validate(repo_type=kind)  # before there is a repository
    url = api.create_repo(to, repo_type=kind, private=private or None, exist_ok=True, space_sdk=sdk)
    if private and not api.repo_info(to, repo_type=kind).private:
        raise InputError(f"{to} exists already and is public; choose another name, or make it private on the Hub.")
    operations = [
        CommitOperationAdd(name, held if isinstance(held, bytes) else str(held)) for name, held in files.items()
    ]
    api.create_commit(to, operations, commit_message="Pushed with attn_faithful", repo_type=kind)
    return str(url)


def card_of(files: Files) -> str:
    """The text of README.md."""
    held = files["README.md"]
    return (held if isinstance(held, bytes) else held.read_bytes()).decode("utf-8")


@contextmanager
def _bounded(session: Any, timeout: Any) -> Iterator[None]:
    """The Hub's library waits without end for most answers; inside, it waits this long for the next byte."""
    before, session.timeout = session.timeout, timeout
    try:
        yield
    finally:
        session.timeout = before


def _refused(to: str, error: Any) -> str:
    status = error.response.status_code
    said = re.split(r"\n|\. ", str(error).strip())[0]
    if status == 401:
        return f"The Hub does not know this token; log in with `hf auth login` or set HF_TOKEN. ({said})"
    if status in (403, 404, 409):
        return (
            f"{to} is taken by somebody else, or your token may not write there; choose a name of your own, or a token "
            f"with the permission to write. ({said})"
        )
    return f"The Hub refused {to}: {' '.join(str(error).split())}"


def put_aside(files: Files, folder: Path) -> None:
    """All files of the repository in a folder that ``hf upload`` could push."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, held in files.items():
        if isinstance(held, bytes):
            (folder / name).write_bytes(held)
        else:
            shutil.copyfile(held, folder / name)
