"""The fenced blocks of the pages, and the reason that may stand before one which is not to be run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w+-]*)(?P<rest>.*)$")
REASON = re.compile(r"^\s*<!-- checked: (?P<reason>.+?) -->\s*$")
FILE = re.compile(r"^# (?P<name>[\w.-]+\.(?:py|yaml|yml))\s*$")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: from the root of the project.
        line: of its fence, from 1.
        language: "" where none is named.
        text: without the fences and without their indent.
        reason: why it is checked and not run, of a comment ``<!-- checked: REASON -->`` before it; "" without one.
    """

    page: str
    line: int
    language: str
    text: str
    reason: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that the block is to be saved as: its first line says so, ``# mine.yaml``."""
        found = FILE.match(self.text.partition("\n")[0])
        return found and found["name"]


def pages() -> list[Path]:
    """README, what contributors read, and all pages of docs."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    name = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name
    return read_blocks(page.read_text(encoding="utf-8"), name)


def read_blocks(text: str, page: str) -> list[Block]:
    """The blocks of a page's text.

    Example:
        >>> read_blocks("<!-- checked: long -->\\n\\n```bash\\nls\\n```\\n", "p.md")
        [Block(page='p.md', line=3, language='bash', text='ls', reason='long')]
    """
    found: list[Block] = []
    opened: re.Match[str] | None = None
    start, reason = 0, ""
    held: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened, start, held = fence, number, []
            elif line.strip():
                told = REASON.match(line)
                reason = told["reason"] if told else ""
        elif fence and not fence["language"] and len(fence["fence"]) >= len(opened["fence"]):
            found.append(Block(page, start, opened["language"], "\n".join(held), reason))
            opened, reason = None, ""
        else:
            held.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise ValueError(f"{page}:{start}: the block is not closed")
    return found
