"""What is wrong with a table in LaTeX, where no TeX is installed to say so."""

from __future__ import annotations

import re
from itertools import accumulate

RULES = [r"\toprule", r"\midrule", r"\bottomrule"]
PREAMBLE = r"\providecommand{\unicodetext}"


def faults(source: str) -> list[str]:
    """Braces, environments, rules, cells a row, and signs that LaTeX would read."""
    lines = [line for line in source.splitlines() if not line.startswith(PREAMBLE)]
    body = "\n".join(lines)
    found = []
    bare = re.sub(r"\\[{}$&%_#\\]", "", body)
    depth = list(accumulate((c == "{") - (c == "}") for c in bare))
    if min(depth) < 0 or depth[-1] != 0:
        found.append("braces are not balanced")
    opened = re.findall(r"\\(begin|end)\{(\w+)\}", body)
    if opened != [("begin", "table"), ("begin", "tabular"), ("end", "tabular"), ("end", "table")]:
        found.append(f"environments: {opened}")
    if [line for line in lines if line in RULES] != RULES:
        found.append("rules")
    (columns,) = re.findall(r"\\begin\{tabular\}\{(.*)\}", body)
    n = len(re.sub(r"p\{[^}]*\}", "p", columns))
    for line in lines[lines.index(RULES[0]) + 1 : lines.index(RULES[2])]:
        if line not in RULES:
            if not line.endswith(r" \\") or len(re.split(r"(?<!\\)&", line)) != n:
                found.append(f"not {n} cells: {line}")
            if line.startswith(("[", "*")):
                found.append(f"read as an argument of what stands before it: {line}")
    left = re.sub(r"\\[A-Za-z]+|\\[{}$%_#&]|\\\\$", "", body, flags=re.MULTILINE)
    left = re.sub(r"&", "", left)
    if signs := set(left) & set('$#%_^\\"<>|'):
        found.append(f"signs that are read: {signs}")
    return found
