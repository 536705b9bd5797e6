"""Writes the tables of build/bench.json into docs/benchmarks.md, each between its marks.

python benchmarks/publish.py

The marks of a table are ``<!-- name -->`` and ``<!-- /name -->``.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tables import sections

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
PLACE = re.compile(r"(<!-- (?P<name>[\w ]+) -->\n).*?(<!-- /(?P=name) -->)", re.DOTALL)


def filled(page: str, texts: Mapping[str, str]) -> str:
    """A page with the texts in their places; a place without a text stays as it is.

    Example:
        >>> filled("<!-- a -->\\nold\\n<!-- /a -->", {"a": "new"})
        '<!-- a -->\\nnew\\n<!-- /a -->'
    """

    def place(found: re.Match[str]) -> str:
        text = texts.get(found["name"])
        return found[0] if text is None else f"{found[1]}{text}\n{found[3]}"

    return PLACE.sub(place, page)


def machines(results: Mapping[str, Any]) -> str:
    """What the parts were measured on, a line each where they differ."""
    parts: dict[str, list[str]] = {}
    for part, told in results["machines"].items():
        known = {name: told["versions"].get(name) for name in ("torch", "transformers", "captum", "interpreto")}
        versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in known.items())
        memory = f"{told['memory'] / 2**30:.0f} GB"
        facts = [told["date"], f"{told['cpus']} cores", told["architecture"], told["instructions"], memory]
        facts += [f"{told['threads']} thread", f"Python {told['python']}", versions]
        parts.setdefault(", ".join(facts), []).append(part)
    lines = [f"- {', '.join(names) if len(parts) > 1 else 'all'}: {facts}" for facts, names in parts.items()]
    if "all" in results["seconds"]:
        lines.append(f"- in all {results['seconds']['all'] / 60:.0f} minutes, two parts at a time, one a core")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("build/bench.json"), help="what bench.py wrote")
    results = json.loads(parser.parse_args().results.read_text())
    texts = {**sections(results), "machines": machines(results)}
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(old, texts), encoding="utf-8")


if __name__ == "__main__":
    main()
