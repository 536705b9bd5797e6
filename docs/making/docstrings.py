"""How the site reads the docstrings: public names where the package hands them out, examples, references to names."""

from __future__ import annotations

import re
from typing import Any

import griffe

PACKAGE = "attn_faithful"

_EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)
_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):`~?(?P<name>[\w.]+)`")
_CODE = re.compile(r"``([^`]+)``")


class ProjectDocstrings(griffe.Extension):
    """Adds the names that ``attn_faithful`` hands out lazily, and turns the docstrings' marks into Markdown."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Gives the package the public names that its ``__init__`` lists."""
        if pkg.path != PACKAGE:
            return
        listed = griffe.ExprDict
        value = pkg["_PUBLIC"].value
        if not isinstance(value, listed):
            raise TypeError(f"Expected `_PUBLIC` to be written as a dict, but got {value}")
        for key, module in zip(value.keys, value.values, strict=True):
            name = str(key).strip("'\"")
            target = f"{PACKAGE}.{str(module).strip(chr(39) + chr(34))}.{name}"
            pkg.set_member(name, griffe.Alias(name, target))

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Turns the marks of one docstring into Markdown."""
        if obj.docstring is None:
            return
        text = _EXAMPLE.sub(r"\1Examples:", obj.docstring.value)
        text = _ROLE.sub(r"`\g<name>`", text)
        obj.docstring.value = _CODE.sub(r"`\1`", text)
