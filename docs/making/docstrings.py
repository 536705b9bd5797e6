"""How the site reads the docstrings: public names where the package hands them out, examples, references to names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

PACKAGE = "attn_faithful"
PAGES = Path(__file__).parents[1] / "reference"

_DOCUMENTED = re.compile(r"^::: ([\w.]+)", re.MULTILINE)
_EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)
_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):`~?(?P<name>[\w.]+)`")
_TOGETHER = re.compile(r"^(?P<indent> +)(?P<names>\w+(?:, \w+)+): (?P<text>.*(?:\n(?P=indent) +.*)*)", re.MULTILINE)
_CODE = re.compile(r"``([^`]+)``")


class ProjectDocstrings(griffe.Extension):
    """Adds the names that ``attn_faithful`` hands out lazily, and turns the docstrings' marks into Markdown."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Works on the whole package, once it is read."""
        if pkg.path != PACKAGE:
            return
        public = add_public_names(pkg)
        documented = set()
        for page in sorted(PAGES.glob("*.md")):
            documented.update(_DOCUMENTED.findall(page.read_text(encoding="utf-8")))
        for found in every_object(pkg):
            if found.docstring is not None:
                found.docstring.value = as_markdown(found.docstring.value, found, public, documented)


def add_public_names(pkg: griffe.Module) -> dict[str, str]:
    """Gives the package the names that its ``__init__`` lists; where each lies -> what users call it."""
    listed = pkg["_PUBLIC"].value
    if not isinstance(listed, griffe.ExprDict):
        raise TypeError(f"Expected `_PUBLIC` to be written as a dict, but got {listed}")
    public = {}
    for key, module in zip(listed.keys, listed.values, strict=True):
        name, place = str(key).strip("'\""), str(module).strip("'\"")
        target = f"{PACKAGE}.{place}.{name}"
        pkg.set_member(name, griffe.Alias(name, target))
        public[target] = f"{PACKAGE}.{name}"
    return public


def every_object(found: griffe.Object) -> Iterator[griffe.Object]:
    """An object and all that it holds, without what it imports."""
    yield found
    for member in found.members.values():
        if isinstance(member, griffe.Object):
            yield from every_object(member)


def as_markdown(text: str, found: griffe.Object, public: dict[str, str], documented: set[str]) -> str:
    """A docstring with examples, code and references as Markdown has them; a name without a place here stays code."""

    def reference(role: re.Match[str]) -> str:
        name = role["name"]
        path = resolved(name, found)
        path = public.get(path, path)
        shown = name.split(".")[-1]
        if any(path == place or path.startswith(f"{place}.") for place in documented):
            return f"[`{shown}`][{path}]"
        return f"`{shown}`"

    text = _TOGETHER.sub(one_by_one, text)
    text = _EXAMPLE.sub(r"\1Examples:", text)
    return _CODE.sub(r"`\1`", _ROLE.sub(reference, text))


def one_by_one(together: re.Match[str]) -> str:
    """Arguments that a docstring describes together, each with that description."""
    names = together["names"].split(", ")
    return "\n".join(f"{together['indent']}{name}: {together['text']}" for name in names)


def resolved(name: str, found: griffe.Object) -> str:
    """The full name of what a docstring calls by a short one; "" where it has none."""
    if name.startswith("."):
        return f"{found.module.path.rpartition('.')[0]}{name}"
    try:
        return str(found.resolve(name))
    except griffe.NameResolutionError:
        return f"{name}" if name.startswith(f"{PACKAGE}.") else ""
