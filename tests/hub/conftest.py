"""An environment of its own with the built wheel, which other tests of the session use too."""

import os
import shutil
import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

import attn_faithful

ROOT = Path(attn_faithful.__file__).parents[2]


def own_environment():
    """The variables of this process without what leads to the source tree, or to the user's caches."""
    dropped = ("HF_", "HUGGINGFACE_", "TRANSFORMERS_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


@pytest.fixture(scope="session")
def wheel_python(tmp_path_factory):
    """The interpreter of that environment; its other packages are this interpreter's."""
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("the package is not tested from its source tree, so there is no wheel to build")
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip(f"setuptools {version('setuptools')} cannot build the package, which asks for 77")
    place = tmp_path_factory.mktemp("wheel")
    source, wheels = place / "source", place / "wheels"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, source)
    shutil.rmtree(source)
    (wheel,) = wheels.iterdir()
    venv.create(place / "env", with_pip=False, symlinks=os.name != "nt")
    python = place / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip("install", "--no-compile", "--no-deps", "--no-index", wheel, of=python)
    # the .pth files that lie there, such as that of an editable install, are not followed
    (site,) = (place / "env").glob("[Ll]ib/**/site-packages")
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site / "dependencies.pth").write_text("\n".join(others), encoding="utf-8")
    return python


def pip(*arguments, of=None):
    chosen = [] if of is None else ["--python", str(of)]
    command = [sys.executable, "-m", "pip", *chosen, "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    run = subprocess.run(command, env=own_environment(), capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
