"""Push to the Hub: models with their cards, metrics and reports as Spaces, tables as data sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError, check_choice
from attn_faithful.hub import _MODULES, metric_names
from attn_faithful.hub.model_files import model_files
from attn_faithful.hub.upload import Files, Repository, static_space_card, upload, write_files


def push_model(
    run_or_folder: str | Path,
    to: str,
    *,
    card: str | None = None,
    licence: str | None = None,
    private: bool = False,
    token: str | None = None,
    wait: float = 60,
) -> str:
    """Push a model with its card: weights, configuration, tokenizer, and the module that finds its class.

    With the package installed but not imported, ``trust_remote_code=True`` loads it; without the package, transformers
    says in one line what to install. No code runs without that argument.

    Args:
        run_or_folder: a run folder, of which ``model`` is taken, or the folder of a saved model.
        to: "user/name"; what is there already is overwritten, file by file.
        card: text of the README.md; by default the folder's own, or a short one. Of a run:
            `attn_faithful.reports.model_card.model_card`.
        licence: of a short card; None for "unknown".
        private: hide it from others; what is public already is refused.
        token: of the Hub; by default the one of ``hf auth login`` or of HF_TOKEN.
        wait: seconds that the Hub may take for an answer.

    Returns:
        the address of the repository.

    Raises:
        InputError: no saved model, a card that is not valid, no token, a name that is not yours, a Hub that cannot be
            reached or does not answer. Where an upload was lost, all files lie in the folder that the message names.
    """
    folder = Path(run_or_folder)
    files = model_files(folder, to, card, licence)
    beside = folder if (folder / "model").is_dir() else folder.parent
    aside = beside / "hub" / f"model-{to.rpartition('/')[2]}"
    return upload(Repository("model", to, private=private, token=token, wait=wait), files, aside)


def write_model(
    run_or_folder: str | Path, to: str, into: str | Path, *, card: str | None = None, licence: str | None = None
) -> Path:
    """Write the files that :func:`push_model` would push into a folder.

    Args:
        run_or_folder, to, card, licence: see :func:`push_model`.
        into: a folder that is new or empty.

    Returns:
        the folder.

    Raises:
        InputError: no saved model, a card that is not valid, or a folder that holds something.
    """
    return write_files(model_files(Path(run_or_folder), to, card, licence), to, into)


def push_metric(name: str, to: str, *, private: bool = False, token: str | None = None, wait: float = 60) -> str:
    """Push a metric as a Space, so that ``evaluate.load("user/name")`` finds it and its page computes it.

    Args:
        name: of the metric, such as "attefa".
        to: "user/name".
        private, token, wait: see :func:`push_model`.

    Returns:
        the address of the Space.

    Raises:
        InputError: an unknown metric, or see :func:`push_model`.
    """
    folder = _MODULES / check_choice("metric", name, metric_names())
    files: Files = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix != ".pyc":
            files[path.name] = path
    script = _stamped(folder / f"{name}.py").encode()
    repository_name = to.rpartition("/")[2]
    files[f"{name}.py"] = script
    files[f"{repository_name}.py"] = script  # evaluate looks for a script of the repository's name
    files["requirements.txt"] = _pinned(folder / "requirements.txt").encode()
    repository = Repository("space", to, sdk="gradio", private=private, token=token, wait=wait)
    return upload(repository, files, Path("hub") / f"metric-{name}")


def _pinned(requirements: Path) -> str:
    """The requirements of a metric, with this version of the package: others may lack what its script calls."""
    lines = []
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if line == "attn-faithful":
            line = f"{line}~={version(line)}"
        lines.append(line)
    return "\n".join([*lines, ""])


def _stamped(script: Path) -> str:
    """The code of a metric outside the package, with a check that stops it under another version of the package."""
    release = version("attn-faithful")
    check = f"""import attn_faithful

if attn_faithful.__version__.split(".")[:2] != "{release}".split(".")[:2]:
    raise ImportError(
        f"The metric {script.stem} was made with attn-faithful {release}, "
        f"but {{attn_faithful.__version__}} is installed: "
        "pip install attn-faithful~={release}, or attn-faithful install-metrics for the metric that fits."
    )
"""
    head, first_import, rest = script.read_text(encoding="utf-8").partition("import attn_faithful.")
    return head + check + first_import + rest


def push_data(run: str | Path, to: str, *, private: bool = False, token: str | None = None, wait: float = 60) -> str:
    """Push a run's tables as a data set with a configuration a table; all files together are a run folder again.

    The texts are among them, as tokens. Absolute paths in meta.json and summary.json are cut to their last part.

    Args:
        run: a finished run folder.
        to: "user/name".
        private, token, wait: see :func:`push_model`.

    Returns:
        the address of the data set.

    Raises:
        InputError: a run that is not finished, or see :func:`push_model`.
    """
    folder = Path(run)
    tables = sorted(path for path in folder.glob("*.parquet") if path.name[0] != ".")
    if not (folder / "meta.json").is_file() or not tables:
        raise InputError(f"{folder} is no finished run with tables; attn-faithful ls lists the finished ones.")
    files: Files = {path.name: path for path in tables}
    for path in (folder / "meta.json", folder / "summary.json"):
        if path.is_file():
            record = json.loads(path.read_text(encoding="utf-8"))
            text = json.dumps(_portable(record), indent=1, ensure_ascii=False)
            files[path.name] = text.encode()
    table_names = [path.stem for path in tables]
    files["README.md"] = _data_card(to, table_names).encode()
    return upload(Repository("dataset", to, private=private, token=token, wait=wait), files, None)


def _data_card(to: str, tables: Sequence[str]) -> str:
    configs = "\n".join(f"- config_name: {table}\n  data_files: {table}.parquet" for table in tables)
    names = ", ".join(f"`{table}`" for table in tables)
    return (
        f"---\ntags:\n- attention\n- faithfulness\n- attn_faithful\nconfigs:\n{configs}\n---\n\n"
        f"# {to.rpartition('/')[2]}\n\nThe tables of a faithfulness run of attn_faithful: {names}; "
        "`meta.json` says how they were made, `summary.json` what came out.\n\n```python\nimport datasets\n\n"
        f'datasets.load_dataset("{to}", "{tables[0]}")\n```\n'
    )


def _portable(value: Any) -> Any:
    """A JSON value with absolute paths cut to their last part."""
    if isinstance(value, dict):
        return {name: _portable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_portable(inner) for inner in value]
    if isinstance(value, str) and Path(value).is_absolute():
        return Path(value).name
    return value


def push_report(page: str | Path, to: str, *, private: bool = False, token: str | None = None, wait: float = 60) -> str:
    """Push a report's HTML page as a static Space.

    Args:
        page: the HTML file, or a folder with one; it holds all that it shows.
        to: "user/name".
        private, token, wait: see :func:`push_model`.

    Returns:
        the address of the Space.

    Raises:
        InputError: no page, or see :func:`push_model`.
    """
    path = Path(page)
    if path.is_dir():
        pages = sorted(path.glob("*.html"))
        if len(pages) != 1:
            raise InputError(f"Expected one HTML page in {path}, but found {len(pages)}; give the file.")
        path = pages[0]
    if not path.is_file() or path.suffix != ".html":
        raise InputError(f"{path} is no HTML page; attn-faithful report RUN makes one.")
    name = to.rpartition("/")[2]
    card = static_space_card(name, "A faithfulness report of attn_faithful.", emoji="🔦")
    files: Files = {"index.html": path, "README.md": card.encode()}
    repository = Repository("space", to, sdk="static", private=private, token=token, wait=wait)
    return upload(repository, files, path.parent / "hub" / f"report-{name}")
