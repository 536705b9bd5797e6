"""Every ``--help`` says what the command does and ends with two examples, which the program takes."""

import argparse
import shlex

import pytest

from attn_faithful.cli.examples import EXAMPLES, PROGRAM
from attn_faithful.cli.parser import parse, whole_parser


def commands():
    """Name -> parser of every command; "" is the program itself."""
    parser = whole_parser()
    (choices,) = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {"": parser, **choices}


def test_every_command_has_examples():
    assert commands().keys() == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("columns", ["80", "120"])
def test_help_ends_with_two_examples_and_fits(monkeypatch, name, columns):
    monkeypatch.setenv("COLUMNS", columns)
    lines = commands()[name].format_help().splitlines()
    assert lines[-3:] == ["examples:", *(f"  {example}" for example in EXAMPLES[name])]
    assert max(map(len, lines)) <= int(columns)
    described = [line for line in lines if line and line[0].isupper() and line.endswith((".", "?"))]
    assert described, "nothing says what it does"


@pytest.mark.parametrize("example", [line for two in EXAMPLES.values() for line in two])
def test_the_program_takes_every_example(example):
    program, *arguments = shlex.split(example)
    assert program == PROGRAM
    given = parse(arguments)
    assert callable(given.command)


def test_examples_show_different_things():
    for name, (first, second) in EXAMPLES.items():
        assert first != second
        for example in (first, second):
            assert not name or example.split()[1] == name
