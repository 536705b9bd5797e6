"""What the documentation names exists: files of the code, pages it links to, and the tests and sources it lists."""

import re
from pathlib import Path

import pytest

from attn_faithful.names import SOURCES, TESTS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGE = ROOT / "src" / "attn_faithful"
CODE = re.compile(r"`((?:src/attn_faithful/|tests/|benchmarks/|recipes/)?[\w/]+\.py|[\w/]+/)`")
LINK = re.compile(r"\]\((?!http|#)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize(
    "page", [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "design.md"], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_named_files_exist(page):
    named = CODE.findall(page.read_text(encoding="utf-8"))
    assert named
    assert not [name for name in named if not (ROOT / name).exists() and not (PACKAGE / name).exists()]


@pytest.mark.parametrize("names", [TESTS, SOURCES], ids=["tests", "sources"])
def test_every_test_and_source_is_documented(names):
    page = (ROOT / "docs" / "tests" / "index.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(\w+)`", page))
    undocumented = set(names) - documented - {"attention", "given"}  # attention is what is tested; given is a file's
    assert not undocumented
