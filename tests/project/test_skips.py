"""What is skipped for want of the shared folder is counted at the end of a run, whatever the number of processes."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.skipif(True, reason="no fixtures at /somewhere/shared/fixtures")
@pytest.mark.parametrize("n", range(3))
def test_fixtures(n):
    pass

def test_data():
    pytest.skip("needs the real data in shared/data")

def test_other():
    pytest.skip("no latex")

def test_that_runs():
    pass
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_skipped_tests_are_counted_and_told(tmp_path, processes):
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_terminal_summary\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_one.py").write_text(TESTS)
    (tmp_path / "test_two.py").write_text(TESTS.replace("range(3)", "range(2)"))
    command = [sys.executable, "-m", "pytest", "-n", processes, "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment())
    assert run.returncode == 0, run.stdout + run.stderr
    assert "without the shared folder" in run.stdout
    assert re.search(r"^7 tests on the papers' fixtures and on real data were skipped", run.stdout, re.MULTILINE)
    assert re.search(r"^  test_one.py: 4\n  test_two.py: 3$", run.stdout, re.MULTILINE)
    assert "2 passed, 9 skipped" in run.stdout
    (tmp_path / "test_one.py").write_text("def test_that_runs():\n    pass\n")
    (tmp_path / "test_two.py").unlink()
    if processes == "0":
        run = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment())
        assert "shared folder" not in run.stdout


def environment():
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def test_every_reason_names_the_folder():
    """A file that reads the shared folder skips with a reason that says so, or it would not be counted."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.name in ("project/test_skips.py", "conftest.py") and path.parent.name != "data":
            continue
        if not re.search(r"/ \"shared\"", text):
            continue
        reasons = [
            ast.unparse(word.value)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("skip", "skipif"))
            for word in [*node.keywords, *(ast.keyword("reason", argument) for argument in node.args[:1])]
            if word.arg == "reason" and isinstance(word.value, ast.JoinedStr | ast.Constant)
        ]
        assert any(re.search("shared|FIXTURES|SHARED|DATA", reason) for reason in reasons), path
