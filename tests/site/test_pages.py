"""The documentation site in a browser: `make docs` builds it and runs this; without it there is nothing to look at."""

import os
from pathlib import Path

import pytest

from tests.reports.html.conftest import LOOKS, browser, windows  # noqa: F401 -- fixtures

SITE = os.environ.get("ATTN_FAITHFUL_SITE")
if SITE is None:
    pytest.skip("no site was built: make docs builds it and looks at it", allow_module_level=True)

FOLDER = Path(SITE).resolve()
# one of each kind
PAGES = ("index", "guides/data", "tests/erasure", "results", "gallery/index", "reference/store", "changelog")
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}


def shut_out(page):
    """What of a page shuts somebody out, or might, by axe."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options = {"resultTypes": ["violations"], "preload": False}  # a page that was opened from a folder has no requests
    found = axe.run(page, options=options).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_everyone_can_read_it(windows, name, look, width):  # noqa: F811
    pages, wrong = windows
    wrong.clear()
    page = pages[look]
    wide, high = WIDTHS[width]
    page.set_viewport_size({"width": wide, "height": high})
    page.goto((FOLDER / f"{name}.html").as_uri())
    page.wait_for_selector("html.js", state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= wide
    assert page.evaluate("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[look]
    assert shut_out(page) == []
    assert wrong == []


def test_search_finds_a_page_without_a_server(windows):  # noqa: F811
    pages, wrong = windows
    wrong.clear()
    page = pages["light"]
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto((FOLDER / "index.html").as_uri())
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("comprehensiveness")
    found = page.locator(".md-search-result__item")
    found.first.wait_for()
    assert any("comprehensiveness" in text.lower() for text in found.all_inner_texts())
    assert wrong == []
