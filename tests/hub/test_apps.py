"""The page of each metric's Space starts and answers a request. gradio belongs to the Spaces, not to the package.

Where it is not installed, test_hub has what the pages compute, with a stand-in for its three names.
"""

import importlib.util
import json

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
def app(request, name):
    pytest.importorskip("gradio", reason="gradio is not installed; only the Spaces need it")
    request.getfixturevalue("cache")
    spec = importlib.util.spec_from_file_location(f"app_of_{name}", hub._MODULES / name / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_app_answers_a_request(app):
    client = pytest.importorskip("gradio_client", reason="gradio is not installed; only the Spaces need it")
    app.page.launch(prevent_thread_lock=True, server_name="127.0.0.1", quiet=True)
    try:
        asked = client.Client(app.page.local_url, verbose=False)
        found = asked.predict(app.FIRST, app.SECOND, api_name="/compute")
        assert found == json.loads(json.dumps(app.compute(app.FIRST, app.SECOND)))
        with pytest.raises(Exception, match="Expected rows with the columns"):
            asked.predict(app.FIRST.split("\n")[0], app.SECOND, api_name="/compute")
    finally:
        app.page.close()
