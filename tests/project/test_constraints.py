"""The tested versions: each dependency once, by a name and a version."""

import re
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"([A-Za-z0-9_.-]+)==[0-9][^\s=]*")


def name_of(requirement):
    """The package of a requirement, spelt as the index compares names."""
    return re.match(r"[A-Za-z0-9_.-]+", requirement)[0].lower().replace("_", "-")


def test_every_dependency_has_one_tested_version():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [PINNED.fullmatch(line) for line in lines if not line.startswith("#")]
    assert all(pinned), "a line that is no NAME==VERSION"
    names = [name_of(found[1]) for found in pinned]
    assert len(set(names)) == len(names), "a package stands twice"
    required = {name_of(requirement) for requirement in requires("attn-faithful")}
    assert required <= set(names)
