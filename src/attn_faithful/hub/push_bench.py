"""Push a set of AttentionBench as a data set, and a leaderboard with its result files as a static Space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attn_faithful._checks import InputError, check_licence
from attn_faithful._digests import digest_of_file
from attn_faithful.bench_files import MANIFEST, check_set, read_manifest
from attn_faithful.bench_results import result_files
from attn_faithful.hub.upload import Files, Repository, static_space_card, upload, write_files
from attn_faithful.records.bench import BenchManifest


def push_bench(
    folder: str | Path,
    to: str,
    *,
    licence: str | None = None,
    private: bool = False,
    token: str | None = None,
    wait: float = 60,
) -> str:
    """Push a set as a data set: manifest.json, its texts and models, and a card. ``attn-faithful bench`` reads it.

    Args:
        folder: of the set; files that its manifest does not name are not pushed.
        to: "user/name".
        licence: as the Hub writes them; None for "unknown".
        private, token, wait: see `attn_faithful.hub.push.push_model`.

    Returns:
        the address of the data set.

    Raises:
        InputError: no set, files that are not those of its manifest, or see `push_model`.
    """
    files = bench_repository(folder, to, licence)
    repository = Repository("dataset", to, private=private, token=token, wait=wait)
    return upload(repository, files, Path(folder).parent / "hub" / f"bench-{to.rpartition('/')[2]}")


def write_bench(folder: str | Path, to: str, into: str | Path, *, licence: str | None = None) -> Path:
    """Write the files that :func:`push_bench` would push into a folder that is new or empty; returns it.

    Raises:
        InputError: see :func:`push_bench`; or a folder that holds something.
    """
    return write_files(bench_repository(folder, to, licence), to, into)


def bench_repository(folder: str | Path, to: str, licence: str | None = None) -> Files:
    """The files of a set's repository, once they are seen to be those of its manifest.

    Raises:
        InputError: no set, or a file that is missing, changed or extra; the first is named.
    """
    root = Path(folder)
    manifest = read_manifest(root)
    check_set(root, manifest)
    files: Files = {MANIFEST: root / MANIFEST}
    for name in manifest.files():
        files[name] = root / name
    files["README.md"] = _set_card(manifest, digest_of_file(root / MANIFEST), to, licence).encode()
    return files


def _set_card(manifest: BenchManifest, digest: str, to: str, licence: str | None) -> str:
    """What a set holds, how many models of which kind and encoder, and how to use it."""
    identifier = "unknown" if licence is None else check_licence(licence)
    texts = [file for file in sorted(manifest.texts) if file.endswith(".jsonl")]
    configs = [f"- config_name: {Path(file).stem}\n  data_files: texts/{file}" for file in texts]
    viewer = "\n".join(["configs:", *configs, ""]) if configs else ""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(manifest.versions.items()))
    return f"""---
license: {identifier}
task_categories:
- text-classification
tags:
- attention
- faithfulness
- interpretability
- attn_faithful
{viewer}---

# {to.rpartition("/")[2]}

A set of AttentionBench: {len(manifest.models)} small frozen classifiers whose attention is known, by construction and
with a proof, to explain their decisions or not to. Tests of attention and explanations of decisions are measured on
it: does the number tell the one from the other?

```
pip install attn_faithful
attn-faithful bench {to}
```

`manifest.json` says of each model what it is, why, what its proof found, and the sha256 of every file; `texts` holds
the texts, which are made up, and `models` the models, each as transformers saves it.

## Models by kind and encoder

{_models_table(manifest)}

## Version

The set is version {manifest.version}, sha256 of its manifest `{digest}`: results on sets of another digest are not
comparable.{f" Made with {versions}." if versions else ""}
"""


def _models_table(manifest: BenchManifest) -> str:
    """How many models there are of each kind and encoder, in Markdown."""
    counts = Counter((model.kind, model.encoder) for model in manifest.models)
    kinds = {model.kind: model.explains for model in manifest.models}
    encoders = sorted({model.encoder for model in manifest.models})
    lines = [
        f"| kind | attention explains | {' | '.join(encoders)} | all |",
        "| --- | --- |" + " ---: |" * (len(encoders) + 1),
    ]
    for kind, explains in kinds.items():
        numbers = [counts[kind, encoder] for encoder in encoders]
        cells = [kind, "yes" if explains else "no", *map(str, numbers), str(sum(numbers))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def push_leaderboard(
    page: str,
    results: Sequence[str | Path],
    to: str,
    *,
    private: bool = False,
    token: str | None = None,
    wait: float = 60,
) -> str:
    """Push a leaderboard as a static Space: the page, and the result files that it was made from.

    Args:
        page: HTML, of `attn_faithful.reports.html.leaderboard.leaderboard_page`.
        results: its result files, or folders of them.
        to: "user/name".
        private, token, wait: see `attn_faithful.hub.push.push_model`.

    Returns:
        the address of the Space.

    Raises:
        InputError: no result files, two of one name, or see `push_model`.
    """
    files = leaderboard_space(page, results, to)
    repository = Repository("space", to, sdk="static", private=private, token=token, wait=wait)
    return upload(repository, files, Path("hub") / f"leaderboard-{to.rpartition('/')[2]}")


def write_leaderboard_space(page: str, results: Sequence[str | Path], to: str, into: str | Path) -> Path:
    """Write the files that :func:`push_leaderboard` would push into a folder that is new or empty; returns it.

    Raises:
        InputError: see :func:`push_leaderboard`; or a folder that holds something.
    """
    return write_files(leaderboard_space(page, results, to), to, into)


def leaderboard_space(page: str, results: Sequence[str | Path], to: str) -> Files:
    """The files of a leaderboard's Space.

    Raises:
        InputError: no result files, or two of one name.
    """
    files: Files = {"index.html": page.encode(), "README.md": _leaderboard_card(to).encode()}
    for path in result_files(results):
        name = f"results/{path.name}"
        if name in files:
            raise InputError(f"Two result files are called {path.name}; give one of them another name.")
        files[name] = path
    return files


def _leaderboard_card(to: str) -> str:
    name = to.rpartition("/")[2]
    about = (
        "The leaderboard of AttentionBench: how well tests of attention tell attention that explains a decision from\n"
        "attention that does not, and how well explanations find the decisive words.\n\n"
        "`index.html` is made from the files in `results`, one a submission. To enter, add the file that\n"
        "`attn-faithful bench` writes, and make the page anew:\n\n"
        f"```\nattn-faithful push leaderboard results --to {to}\n```\n"
    )
    return static_space_card(name, about, emoji="📏")
