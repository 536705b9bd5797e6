"""What goes to the Hub: models with their cards, metrics and reports as Spaces, tables as data sets."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attn_faithful._checks import InputError, check_choice, check_licence
from attn_faithful.hub import _MODULES, metric_names
from attn_faithful.hub.upload import Files, card_of, check_card, check_place, put_aside, upload

# what a model's repository holds: weights, configuration, tokenizer, card, licence, fingerprints of the texts it was
# trained on, and nothing else that training or anybody else left beside them
_PUSHED = (
    "model*.safetensors",
    "adapter_model*.safetensors",
    "model*.safetensors.index.json",
    "pytorch_model*.bin",
    "pytorch_model*.bin.index.json",
    "adapter_model.bin",
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*",
    "*_vocab.json",
    "merges.txt",
    "bpe.codes",
    "dict.txt",
    "*.model",
    "*.spm",
    "normalizer.json",
    "chat_template.j*",
    "README.md",
    "LICENSE*",
    "LICENCE*",
    "NOTICE*",
    "training_texts.parquet",  # fingerprints, by which evaluate leaves out what the model was trained on
)
_MAPS = ("config.json", "tokenizer_config.json")  # which name the modules of a model's own classes


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

    Whoever has the package installed can load it with ``trust_remote_code=True`` and without importing the package;
    without the package, transformers says in one line what to install. Nobody runs code without asking for it.

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
    given = Path(run_or_folder)
    files = _model_files(given, to, card, licence)
    aside = (given if (given / "model").is_dir() else given.parent) / "hub" / f"model-{to.rpartition('/')[2]}"
    return upload("model", to, files, aside, private=private, token=token, wait=wait)


def write_model(
    run_or_folder: str | Path, to: str, into: str | Path, *, card: str | None = None, licence: str | None = None
) -> Path:
    """Write what :func:`push_model` would push into a folder, and push nothing.

    Args:
        run_or_folder, to, card, licence: see :func:`push_model`.
        into: a folder that is new or empty.

    Returns:
        the folder.

    Raises:
        InputError: no saved model, a card that is not valid, or a folder that holds something.
    """
    check_place(to)
    folder = Path(into)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"Expected a new or empty folder to write into, but {folder} is there already.")
    files = _model_files(Path(run_or_folder), to, card, licence)
    check_card(card_of(files))
    put_aside(files, folder)
    return folder


def _model_files(given: Path, to: str, card: str | None, licence: str | None) -> Files:
    """What a model's repository holds."""
    model = given / "model" if (given / "model" / "config.json").is_file() else given
    if not (model / "config.json").is_file():
        raise InputError(f"{given} holds no saved model; give a run that trained one, or the folder of a model.")
    code = _code_of(model)
    found = sorted(path for path in model.iterdir() if path.is_file() and (_is_pushed(path.name) or path in code))
    if not any(path.suffix in (".safetensors", ".bin") for path in found):
        raise InputError(f"{model} holds no weights (model.safetensors); save the model again before pushing it.")
    files: Files = {path.name: path for path in found}
    files |= _as_saved_now(model)
    if card is None:
        own = model / "README.md"
        if own.is_file() and licence is not None:
            raise InputError(f"{own} is the model's card; name the licence there, or remove it.")
        card = own.read_text(encoding="utf-8") if own.is_file() else _short_card(to, licence)
    return files | {"README.md": card.encode()}


def _is_pushed(name: str) -> bool:
    """Whether a file of a model's folder goes with it."""
    return any(fnmatchcase(name, pattern) for pattern in _PUSHED)


def _code_of(model: Path) -> set[Path]:
    """The modules that the configuration names for the model's classes, and those beside them that they import."""
    from transformers.dynamic_module_utils import get_relative_import_files

    named: set[str] = set()
    for name in _MAPS:
        path = model / name
        told = json.loads(path.read_text(encoding="utf-8")).get("auto_map", {}) if path.is_file() else {}
        for places in told.values():
            for place in places if isinstance(places, list) else [places]:
                named.add(str(place or "").rpartition("--")[2].partition(".")[0])
    files = [model / f"{name}.py" for name in named if (model / f"{name}.py").is_file()]
    return {*files, *(Path(other) for file in files for other in get_relative_import_files(file))}


def _as_saved_now(model: Path) -> Files:
    """Of a model of ours that an earlier version saved: its configuration with the module that finds the classes."""
    read = json.loads((model / "config.json").read_text(encoding="utf-8"))
    if "auto_map" in read or not str(read.get("model_type")).endswith("attention_classifier"):
        return {}
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model)
    with TemporaryDirectory() as place:
        config.save_pretrained(place)
        files: Files = {path.name: path.read_bytes() for path in Path(place).iterdir()}
    tokenizer = model / "tokenizer_config.json"
    if config.model_type.startswith("hierarchical") and tokenizer.is_file():
        told = json.loads(tokenizer.read_text(encoding="utf-8")) | {"tokenizer_class": "SentenceTokenizer"}
        files[tokenizer.name] = json.dumps(told, indent=2).encode()
    return files


def _short_card(to: str, licence: str | None) -> str:
    named = "unknown" if licence is None else check_licence(licence)
    return (
        f"---\nlicense: {named}\n"
        "library_name: transformers\npipeline_tag: text-classification\ntags:\n- attention\n- attn_faithful\n"
        "---\n\n"
        f"# {to.rpartition('/')[2]}\n\nA text classifier with attention.\n\n```python\nimport attn_faithful\n\n"
        f'model, tokenizer = attn_faithful.load("{to}")\n```\n'
    )


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
    files: Files = {path.name: path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix != ".pyc"}
    # evaluate looks for a script of the repository's name
    files[f"{to.rpartition('/')[2]}.py"] = files[f"{name}.py"] = _stamped(folder / f"{name}.py").encode()
    # the script calls functions that other versions may lack
    needs = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = [f"{line}~={version(line)}" if line == "attn-faithful" else line for line in needs]
    files["requirements.txt"] = "\n".join([*pinned, ""]).encode()
    return upload("space", to, files, Path("hub") / f"metric-{name}", "gradio", private=private, token=token, wait=wait)


def _stamped(script: Path) -> str:
    """The code of a metric that leaves the package: with another version of it the code says so and stops."""
    own = version("attn-faithful")
    check = f"""import attn_faithful

if attn_faithful.__version__.split(".")[:2] != "{own}".split(".")[:2]:
    raise ImportError(
        f"The metric {script.stem} was made with attn-faithful {own}, but {{attn_faithful.__version__}} is installed: "
        "pip install attn-faithful~={own}, or attn-faithful install-metrics for the metric that fits."
    )
"""
    before, found, after = script.read_text(encoding="utf-8").partition("import attn_faithful.")
    return before + check + found + after


def push_data(run: str | Path, to: str, *, private: bool = False, token: str | None = None, wait: float = 60) -> str:
    """Push a run's tables as a data set, a configuration a table; downloaded whole, they are a run folder again.

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
    configs = [f"- config_name: {path.stem}\n  data_files: {path.name}" for path in tables]
    card = (
        "---\ntags:\n- attention\n- faithfulness\n- attn_faithful\nconfigs:\n" + "\n".join(configs) + "\n---\n\n"
        f"# {to.rpartition('/')[2]}\n\nThe tables of a faithfulness run of attn_faithful: "
        f"{', '.join(f'`{path.stem}`' for path in tables)}; `meta.json` says how they were made, `summary.json` what "
        f'came out.\n\n```python\nimport datasets\n\ndatasets.load_dataset("{to}", "{tables[0].stem}")\n```\n'
    )
    files: Files = {path.name: path for path in tables}
    for name in ("meta.json", "summary.json"):
        if (folder / name).is_file():
            portable = _portable(json.loads((folder / name).read_text(encoding="utf-8")))
            files[name] = json.dumps(portable, indent=1, ensure_ascii=False).encode()
    files["README.md"] = card.encode()
    return upload("dataset", to, files, None, private=private, token=token, wait=wait)


def _portable(value: Any) -> Any:
    """Without absolute paths, which are nobody else's."""
    if isinstance(value, dict):
        return {name: _portable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_portable(inner) for inner in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


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
        found = sorted(path.glob("*.html"))
        if len(found) != 1:
            raise InputError(f"Expected one HTML page in {path}, but found {len(found)}; give the file.")
        path = found[0]
    if not path.is_file() or path.suffix != ".html":
        raise InputError(f"{path} is no HTML page; attn-faithful report RUN makes one.")
    name = to.rpartition("/")[2]
    card = (
        f"---\ntitle: {json.dumps(name)}\nemoji: 🔦\ncolorFrom: indigo\ncolorTo: yellow\nsdk: static\n"
        f"app_file: index.html\npinned: false\n---\n\n# {name}\n\nA faithfulness report of attn_faithful.\n"
    )
    files: Files = {"index.html": path, "README.md": card.encode()}
    return upload(
        "space", to, files, path.parent / "hub" / f"report-{name}", "static", private=private, token=token, wait=wait
    )
