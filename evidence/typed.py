"""Numbers that somebody typed into a page: decimals and percentages outside generated tables and code.

Settings stand in code; 95% is a word of the field; numbers of sections, tables and of arXiv name places.
"""

from __future__ import annotations

import re

_LEFT_OUT = (
    re.compile(r"<!-- evidence: [\w-]+ -->\n.*?<!-- /evidence -->", re.DOTALL),
    re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE),
    re.compile(r"`[^`]*`"),
    re.compile(r"\]\([^)]*\)"),  # where links lead
    re.compile(r"arXiv:\S+"),
    re.compile(r"\b(?:[Ss]ection|[Tt]able|[Ff]igure|[Aa]ppendix)s? [\w.]+"),
    re.compile(r"\b95%"),
)
_TYPED = re.compile(r"(?<![\w.])\d*\.\d+(?!\w|\.\d)|\d+\s?%")


def typed_numbers(page: str) -> list[str]:
    """The decimals and percentages of a page that nothing generates.

    Args:
        page: its Markdown.

    Example:
        >>> typed_numbers("tau is .38, 32% of the texts; see section 4.1, `--lr 0.1` and a 95% interval")
        ['.38', '32%']
    """
    for pattern in _LEFT_OUT:
        page = pattern.sub("", page)
    return _TYPED.findall(page)
