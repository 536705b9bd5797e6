"""Whatever stands in a name is text: in Markdown, in LaTeX, in a line."""

from __future__ import annotations

import doctest
import re

import pytest
from markdown_it import MarkdownIt

from attn_faithful.reports import escaping
from attn_faithful.reports.escaping import latex, markdown, plain, preamble
from attn_faithful.reports.tables.table import Table
from tests.reports.altered import EVIL, FOREIGN
from tests.reports.latex import faults

TEXTS = [
    *EVIL,
    *FOREIGN,
    "a|b",
    "a\\|b",
    "**bold** _it_ a_b _x",
    "`code`",
    "<script>alert(1)</script>",
    "&lt;",
    "~~gone~~",
    "[x](http://y)",
    "[x]: http://y",
    "[x][y]",
    "![x](y)",
    "[0.1, 0.2]",
    "# head",
    "- list",
    "> quote",
    "$x$ $$y$$",
    "a  b\nc\td\x00e",
    "--- '' ,, \"q\"",
    "é ß ł ± τ \u2013 … “x” \u2019",
    "emoji 😀",
    "\u202egnp.exe",
    "http://x.y",
    "1 < 2 > 0",
]


def test_examples_in_docstrings():
    assert doctest.testmod(escaping).failed == 0


@pytest.mark.parametrize("text", TEXTS)
def test_markdown_shows_the_text(text):
    """A reader of Markdown gives the text back, as a paragraph and as a cell."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = reader.parse(markdown(text))
    shown = [token for token in tokens if token.type == "inline"]
    assert [token.type for token in tokens if token.nesting >= 0] == ["paragraph_open", "inline"]
    assert "".join(child.content for child in shown[0].children) == plain(text)
    assert {child.type for child in shown[0].children} <= {"text", "text_special"}
    table = Table("t", ["data", "F1"], [[text, "0.5"]]).markdown()
    cells = [token for token in reader.parse(table) if token.type == "inline"]
    assert ["".join(c.content for c in cell.children) for cell in cells][1:5] == ["data", "F1", plain(text), "0.5"]


BACK = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textbar{}": "|",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"{\char34}": '"',
    r"\textasciigrave{}": "`",
    "~": "\u00a0",
    r"\ensuremath{\pm}": "±",
    r"\ensuremath{\tau}": "τ",
    r"\ldots{}": "…",
    "``": "“",
    "{''}": "”",
    "{'}": "\u2019",
    "--": "\u2013",
    "{}": "",
}


def set_by_latex(source):
    """What LaTeX would set, by the few commands that `latex` uses; anything else is left as it is."""
    commands = "|".join(map(re.escape, sorted(BACK, key=len, reverse=True)))
    pattern = rf"\\unicodetext{{(?P<native>[^}}]*)}}{{[^}}]*}}|\\(?P<sign>[{{}}$&%_#])|(?P<command>{commands})"
    return re.sub(pattern, lambda m: m["native"] or m["sign"] or BACK[m["command"]], source)


@pytest.mark.parametrize("text", TEXTS)
def test_latex_sets_the_text(text):
    assert set_by_latex(latex(text)) == plain(text)


@pytest.mark.parametrize("text", TEXTS)
def test_latex_has_no_sign_of_its_own_left(text):
    left = re.sub(r"\\unicodetext\{[^}]*\}|\\[A-Za-z]+34|\\[A-Za-z]+|\\[{}$&%_#]", "", latex(text))
    assert not set(left) & set('\\$&%_#^|<>"`') - {"`"}, left
    assert left.count("{") == left.count("}")
    # pdflatex has a letter for whatever is not given as code points too
    rest = re.sub(r"\\unicodetext\{[^}]*\}\{[^}]*\}", "", latex(text))
    assert all(ord(c) < 0x180 for c in rest)


def test_a_table_of_texts_in_latex():
    table = Table(" ".join(TEXTS), ["data", "text", *TEXTS], [[a, a[::-1], *TEXTS] for a in TEXTS], TEXTS)
    assert faults(table.latex()) == []
    long = Table("t", ["data", "why", "F1"], [["a", "not here: " * 9, "0.5"]])
    assert r"\begin{tabular}{lp{0.4\linewidth}r}" in long.latex()
    assert faults(long.latex()) == []


@pytest.mark.parametrize("cell", ["[x] y", "*"])
def test_a_row_is_no_argument_of_the_rule_before_it(cell):
    lines = Table("t", ["data", "F1"], [[cell, "0.5"]] * 2).latex().splitlines()
    assert lines.count(f"{{}}{cell} & 0.5 \\\\") == 2


def test_the_preamble_stands_where_it_is_needed():
    assert preamble([latex("plain")]) == []
    assert preamble([latex("中")])[0].startswith(r"\providecommand{\unicodetext}")
    assert Table("中", ["data"], [["a"]]).latex().startswith(r"\providecommand{\unicodetext}")


def test_a_table_in_latex():
    table = Table("50%", ["data", "source", "F_1"], [["a&b", "x", "0.5"], ["c", "y", "0.6"]], ["a_note"])
    table.best = {(1, 2)}
    lines = table.latex().splitlines()
    assert r"\begin{tabular}{llr}" in lines
    assert r"data & source & F\_1 \\" in lines
    assert r"a\&b & x & 0.5 \\" in lines
    assert r"c & y & \textbf{0.6} \\" in lines
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert "| c | y | **0.6** |" in table.markdown()


def test_plain_turns_no_direction_and_keeps_one_line():
    assert plain("\u202eabc\u202c\u2066d\u2069") == "abcd"
    assert plain(" a\r\n\u2028b\x07 ") == "a b"
