"""The wheel of dist/ holds every file of the package, installs, and runs: ``python .ci/check_dist.py``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "attn_faithful"


def main() -> int:
    (wheel,) = (ROOT / "dist").glob("*.whl")
    missing = sorted(files_of_source() - files_of_wheel(wheel))
    if missing:
        print(f"{wheel.name} lacks {', '.join(missing)}")
        return 1
    with tempfile.TemporaryDirectory() as place:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place, str(wheel)]
        subprocess.run(install, check=True)
        run_from(place, "-c", f"import {PACKAGE}; assert {PACKAGE}.__file__.startswith({place!r})")
        run_from(place, "-m", f"{PACKAGE}.cli", "--help")
        run_from(place, "-m", f"{PACKAGE}.cli", "check", "quickstart")  # a recipe that the wheel brings
    print(f"{wheel.name}: all files of the package are in it, and it runs")
    return 0


def files_of_source() -> set[str]:
    """The files of the package, as a wheel names them; of the recipes those that a command takes by name."""
    names = set()
    for folder, _, files in os.walk(ROOT / "src" / PACKAGE, followlinks=True):  # recipes is a link
        place = Path(folder).relative_to(ROOT / "src")
        for file in files:
            is_script = "recipes" in place.parts and file.endswith(".py")
            if "__pycache__" not in place.parts and not is_script:
                names.add((place / file).as_posix())
    return names


def files_of_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as held:
        return set(held.namelist())


def run_from(place: str, *arguments: str) -> None:
    """Run Python elsewhere with what was installed there, and with the dependencies of this environment."""
    environment = {**os.environ, "PYTHONPATH": place}
    subprocess.run([sys.executable, *arguments], check=True, cwd=place, env=environment, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
