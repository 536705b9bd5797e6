"""The pages of the tests say what the code says: every number, setting and paper, with a picture and its text."""

import re

import pytest
from docs.making.tables import FOLDER, filled, settings_classes

from attn_faithful.names import TESTS

PAGES = [*settings_classes(), "learned_heads"]
PARTS = ("## How to read it", "## What it does not mean", "## Settings", "## Papers")
PICTURE = re.compile(r"^!\[(?P<text>[^\]]+)\]\((?P<file>[^)]+\.svg)\)$", re.MULTILINE)


def test_every_test_has_a_page():
    assert set(TESTS) <= set(PAGES)
    assert {path.stem for path in FOLDER.glob("*.md")} == {*PAGES, "index"}


@pytest.mark.parametrize("name", settings_classes())
def test_tables_are_those_of_the_code(name):
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert page == filled(page, name), "python -m docs.making.tables writes them anew"


@pytest.mark.parametrize("name", settings_classes())
def test_every_setting_stands_on_its_page(name):
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    for setting in TESTS.get(name, ()):
        assert f"| `{setting}` |" in page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_all_its_parts(name):
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert [part for part in PARTS if part not in page] == []
    assert "```math" in page
    picture = PICTURE.search(page)
    assert (FOLDER / picture["file"]).is_file()
