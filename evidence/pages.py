"""Fills the tables of the documentation from the summaries; again, nothing changes.

    python -m evidence.pages            # writes
    python -m evidence.pages --check    # fails where a page is not what the summaries say

Both fail where somebody typed a number into such a page. A table stands between ``<!-- evidence: NAME -->`` and
``<!-- /evidence -->``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from evidence import (
    page_amini_kosseim,
    page_index,
    page_jain_wallace,
    page_meister,
    page_serrano_smith,
    page_stock,
    page_wiegreffe_pinter,
)
from evidence.results.pages import RESULTS
from evidence.typed import typed_numbers

DOCS = Path(__file__).parents[1] / "docs"
_BLOCK = re.compile(r"<!-- evidence: ([\w-]+) -->\n.*?<!-- /evidence -->", re.DOTALL)

# page below docs -> name of a table -> its Markdown
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "replications/index.md": page_index.TABLES,
    "replications/amini_kosseim.md": page_amini_kosseim.TABLES,
    "replications/jain_wallace.md": page_jain_wallace.TABLES,
    "replications/meister.md": page_meister.TABLES,
    "replications/serrano_smith.md": page_serrano_smith.TABLES,
    "replications/stock.md": page_stock.TABLES,
    "replications/wiegreffe_pinter.md": page_wiegreffe_pinter.TABLES,
    **RESULTS,
}


def filled(page: str, tables: dict[str, Callable[[], str]]) -> str:
    """A page with its tables made anew.

    Raises:
        ValueError: a table is named that there is not, or one that there is stands nowhere.
    """
    named = [match.group(1) for match in _BLOCK.finditer(page)]
    if sorted(named) != sorted(tables):
        raise ValueError(f"expected the tables {sorted(tables)}, but the page has {sorted(named)}")

    def made(match: re.Match[str]) -> str:
        name = match.group(1)
        return f"<!-- evidence: {name} -->\n\n{tables[name]()}\n\n<!-- /evidence -->"

    return _BLOCK.sub(made, page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where something would change")
    check = parser.parse_args().check
    changed = []
    typed = []
    for name, tables in PAGES.items():
        path = DOCS / name
        old = path.read_text(encoding="utf-8")
        new = filled(old, tables)
        typed += [f"{name}: {found}" for found in typed_numbers(new)]
        if new == old:
            continue
        changed.append(name)
        if not check:
            path.write_text(new, encoding="utf-8")
    print(f"{len(changed)} of {len(PAGES)} pages changed {' '.join(changed)}".rstrip())
    if typed:
        sys.exit(f"expected no number outside tables and code, but {', '.join(typed)}; say it in words or in a table")
    if check and changed:
        sys.exit(1)


if __name__ == "__main__":
    main()
