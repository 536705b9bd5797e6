"""A real browser for pages: it is watched, and axe looks for whom a page shuts out."""

from __future__ import annotations

import shutil

import pytest

CHROMIUM = next(
    (found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None
)
WHY = "no Chromium is installed; on Debian: apt-get install chromium"
LOOKS = ("light", "dark")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip(WHY)
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[test]'")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def windows(browser):
    """One a look, shared by all tests, and what they complain of: loading a page takes it back to its beginning."""
    wrong, found = [], {}
    for look in LOOKS:
        page = browser.new_page(color_scheme=look, reduced_motion="reduce")
        page.set_default_timeout(10_000)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or wrong.append(request.url))
        found[look] = page
    return found, wrong


@pytest.fixture
def opened(windows, folder):
    """Opens a page of the module's ``folder`` and watches it: nothing may be logged, nor asked of any network."""
    pages, wrong = windows

    def open_page(name, look="light"):
        page = pages[look]
        page.emulate_media(media="screen")
        page.set_viewport_size({"width": 1100, "height": 900})
        page.goto((folder / f"{name}.html").as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    wrong.clear()
    yield open_page
    for page in pages.values():
        if page.url.startswith("file:"):
            page.evaluate("localStorage.clear()")  # the look that was chosen
    assert wrong == []


@pytest.fixture
def shut_out():
    """``shut_out(page)``: what of a page shuts somebody out, by axe."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def look(page):
        found = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
        return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]

    return look
