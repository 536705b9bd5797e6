"""What the building of the site adds to mkdocs: formulas without a script, and pages that lie outside of docs."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
# file of the repository -> its page of the site
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>\.\./[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")
_EMPTY_HEADING = re.compile(r"<th([^>]*)></th>")
_INTO_DOCS = re.compile(r"\]\(docs/")
_log = get_plugin_logger(__name__)


def on_config(config: Any) -> Any:
    """Lets a block of code in the language "math" be a formula, as it is where the repository is read."""
    fence = {"name": "math", "class": "math", "format": formula}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    return config


def formula(source: str, *_: Any, **__: Any) -> str:
    """LaTeX as MathML, which browsers draw by themselves; it can be reached by the keyboard where it is wide."""
    drawn = convert(source.strip().replace(r"\setminus", r"\smallsetminus"), display="block")  # a sign that fonts have
    if "\\" in html.unescape(drawn):
        _log.warning(f"a formula has a command that is not known: {source.strip()}")
    return f'<div class="formula" data-search-exclude role="group" aria-label="formula" tabindex="0">{drawn}</div>'


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that lie in the root of the repository."""
    for name, page in ROOT_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_INTO_DOCS.sub("](", text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Mends links that leave docs: to a page of the root, or to a file that the site does not have."""
    path = page.file.abs_src_path
    if path is None or ".." not in markdown:
        return markdown
    folder = Path(path).parent
    return _LINK.sub(lambda link: _mended(link, folder), markdown)


def on_page_content(written: str, **_: Any) -> str:
    """An empty corner of a table is no heading."""
    return _EMPTY_HEADING.sub(r"<td\1></td>", written)


def _mended(link: re.Match[str], folder: Path) -> str:
    """A link as it is, to the page of the site that a file has, or its text alone; a missing file is told."""
    target = Path(os.path.normpath(folder / link["target"]))
    docs = ROOT / "docs"
    if target.is_relative_to(docs):
        return link[0]
    if not target.exists():
        _log.warning(f"a link leads to {target.relative_to(ROOT)}, which is not there")
    page = ROOT_PAGES.get(str(target.relative_to(ROOT)))
    if page is None:
        return link["text"]
    return f"[{link['text']}]({os.path.relpath(docs / page, folder)}{link['anchor'] or ''})"
