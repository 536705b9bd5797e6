"""What stands around the code: citation, workflow, issue forms, what a wheel takes along, Python versions."""

import fnmatch
import os
import re
import tomllib
from pathlib import Path

import yaml

import attn_faithful

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
CFF_KEYS = {"cff-version", "message", "title", "abstract", "type", "authors", "version", "license", "keywords"}


def read(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_citation_is_of_this_version():
    citation = read("CITATION.cff")
    assert citation.keys() <= CFF_KEYS
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == attn_faithful.__version__ == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["keywords"] == PROJECT["project"]["keywords"]
    assert citation["authors"] == [{"name": "The attn_faithful developers"}]


def test_a_wheel_takes_every_file_of_the_package():
    globs = PROJECT["tool"]["setuptools"]["package-data"]["attn_faithful"]
    package = Path(attn_faithful.__file__).parent
    files = []
    for folder, _, names in os.walk(package, followlinks=True):
        files += [(Path(folder) / name).relative_to(package).as_posix() for name in names]
    data = [name for name in files if "__pycache__" not in name and not name.endswith(".py")]
    assert "py.typed" in data
    assert len([name for name in data if name.startswith("recipes/papers/")]) >= 6
    left = [name for name in data if not any(fnmatch.fnmatch(name, glob) for glob in globs)]
    assert left == []


def test_python_versions_are_those_that_were_tried():
    tried = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    matrix = read(".github/workflows/ci.yml")["jobs"]["run"]["strategy"]["matrix"]["python"]
    assert matrix == tried
    assert PROJECT["project"]["requires-python"] == f">={min(tried)}"


def test_the_workflow_runs_the_one_check_with_pinned_actions():
    workflow = read(".github/workflows/ci.yml")
    steps = workflow["jobs"]["run"]["steps"]
    for action in (step["uses"] for step in steps if "uses" in step):
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action), action
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert workflow["permissions"] == {"contents": "read"}


def test_issue_forms_are_whole():
    forms = [path for path in FORMS if path.name != "config.yml"]
    assert [path.stem for path in forms] == ["bug", "new_test", "wrong_number"]
    for path in forms:
        form = read(path)
        assert form.keys() == {"name", "description", "labels", "body"}, path.name
        asked = [entry for entry in form["body"] if entry["type"] != "markdown"]
        ids = [entry["id"] for entry in asked]
        assert len(set(ids)) == len(ids), path.name
        for entry in asked:
            assert entry["type"] in ("textarea", "input", "checkboxes"), path.name
            assert entry["attributes"]["label"], path.name
        assert any(entry.get("validations", {}).get("required") for entry in asked), path.name
