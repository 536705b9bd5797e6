"""What every page has: templates, the look in light and dark, and one file that loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attn_faithful._atomic import write_file
from attn_faithful.reports.palette import HUES, INK, MUTED, OTHER, PAPER, RULE

TEMPLATES = Path(__file__).parent / "templates"

_COLOURS = {"hues": HUES, "other": OTHER, "ink": INK, "paper": PAPER, "rule": RULE, "muted": MUTED}


def templates() -> Any:
    """The templates of pages; what is put into them is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def look(environment: Any, *, styles: Sequence[str], scripts: Sequence[str]) -> dict[str, Any]:
    """Styles and scripts of a page, with the hashes by which its policy allows these and no others.

    Args:
        environment: of `templates`.
        styles: templates of CSS.
        scripts: files of JavaScript; the choice of light or dark comes before them.
    """
    css = "".join(environment.get_template(name).render(_COLOURS) for name in styles)
    script = "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("theme.js", *scripts))
    return {"css": Markup(css), "script": Markup(script), "css_hash": _hash(css), "script_hash": _hash(script)}


def _hash(text: str) -> str:
    """The hash of an inline style or script, for the page's content security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def write_html(html: str, path: str | Path) -> Path:
    """Write a page in one step; its folder is made. Nothing half-written stays behind.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(path)
    write_file(target, lambda unfinished: unfinished.write_text(html, encoding="utf-8"))
    return target
