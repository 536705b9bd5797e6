"""The page of each metric's Space starts and answers a request. gradio belongs to the Spaces, not to the package."""

import importlib.util
import math

import pytest

import attn_faithful.hub as hub

NAMES = hub.metric_names()


@pytest.mark.parametrize("name", NAMES)
def test_space_is_whole_and_short(name):
    folder = hub._MODULES / name
    needs = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert needs[0] == "attn-faithful"  # a push pins the version
    assert any(line.startswith("gradio") for line in needs)
    assert "app_file: app.py" in (folder / "README.md").read_text(encoding="utf-8")
    assert len((folder / "app.py").read_text(encoding="utf-8").splitlines()) <= 40


@pytest.fixture
def app(cache, name):
    pytest.importorskip("gradio", reason="gradio is not installed; only the Spaces need it")
    spec = importlib.util.spec_from_file_location(f"app_of_{name}", hub._MODULES / name / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_app_computes_its_own_tables(app, name):
    found = app.compute(app.FIRST, app.SECOND)
    first = next(iter(found.values()))
    assert math.isfinite(first)
    assert found["n"] >= 1
    with pytest.raises(Exception, match="Expected rows with the columns"):
        app.compute(app.FIRST.split("\n")[0], app.SECOND)


@pytest.mark.parametrize("name", ["attefa"])
def test_app_answers_a_request(app):
    client = pytest.importorskip("gradio_client", reason="gradio is not installed; only the Spaces need it")
    app.page.launch(prevent_thread_lock=True, server_name="127.0.0.1", quiet=True)
    try:
        asked = client.Client(app.page.local_url, verbose=False)
        assert asked.predict(app.FIRST, app.SECOND, api_name="/compute")["attefa"] == pytest.approx(0.1074, abs=1e-4)
        with pytest.raises(Exception, match="could not convert"):
            asked.predict(app.FIRST, "references\nno number", api_name="/compute")
    finally:
        app.page.close()
