"""Commands of the pages: run in process, or checked where they would wait for the Hub, train for long or install."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from accelerate.commands.launch import launch_command_parser

import attn_faithful.cli.evaluating as evaluating
import attn_faithful.cli.stock_training as stock_training
import attn_faithful.cli.training as training
from attn_faithful.cli import main
from attn_faithful.cli.parser import parse
from tests.project.blocks import ROOT

OWN = "attn-faithful"
SETTING = re.compile(r"^[A-Z_]+=")
OFTEN = {"train": 2, "attefa": 1, "run": 1}  # so many of these, on one kind of model, are trained in all
SMALLER = {  # what is added to a command so that it takes a second
    "train": ("--smoke", "--seeds", "10"),
    "attefa": ("--smoke", "--seeds", "10"),
    "run": ("--smoke", "--seeds", "10"),
    "evaluate": ("--limit", "3"),
}
LONG = {"bench": "makes or measures a set of models, for minutes"}


PLACEHOLDERS = {"MODEL": "bert-finetuned", "DATA": "reviews.csv", "FOLDER": "runs/bench/set"}


@dataclass
class Session:
    """What the commands of all pages came to.

    Attributes:
        done: a command's words -> why it was not run, "" where it was; none is run twice.
        ran: kind of command -> how many were run.
    """

    done: dict[tuple[str, ...], str] = field(default_factory=dict)
    ran: Counter[str] = field(default_factory=Counter)


class Refused(Exception):  # noqa: N818 (a command that the test does not know is a fault of the page)
    """A command that is neither run nor checked."""


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a block, as words, with what is set before them.

    Example:
        >>> list(commands("A=1 make x && ls \\\\\\n  runs  # all\\n# no more"))
        [['A=1', 'make', 'x'], ['ls', 'runs']]
    """
    for line in text.replace("\\\n", " ").splitlines():
        command: list[str] = []
        for word in shlex.split(line, comments=True):
            if word != "&&":
                command.append(word)
                continue
            yield command
            command = []
        if command:
            yield command


def found(word: str) -> str:
    """A word that stands for another: ``MODEL``, or dots for what differs from run to run, as the newest such path."""
    word = PLACEHOLDERS.get(word, word)
    if "..." not in word and "*" not in word:
        return word
    if not word.startswith("runs"):
        return word
    matches = [*Path().glob(word.replace("...", "*"))] or [*Path().glob(word.replace("/...", "/**"))]
    if not matches:
        raise Refused(f"there is nothing of the form {word}")
    return str(max(matches, key=lambda path: path.stat().st_mtime))


def carry_out(words: list[str], session: Session, reason: str = "") -> str:
    """Run or check one command; returns why it was not run, "" where it was.

    Args:
        words: of the command.
        session: commands of before.
        reason: why it is not to be run.
    """
    settings = [word for word in words if SETTING.match(word)]
    words = words[len(settings) :]
    if not reason:
        words = [found(word) for word in words]
    key = tuple(words)
    if key not in session.done:
        with patch.dict(os.environ, dict(word.split("=", 1) for word in settings)):
            session.done[key] = _carry_out(words, session, reason)
    return session.done[key]


def _carry_out(words: list[str], session: Session, reason: str) -> str:
    program, arguments = words[0], words[1:]
    if program == OWN:
        reason = reason or why_checked(arguments) or enough(arguments, session)
        if reason:
            check(arguments)
        else:
            run([*arguments, *fewer_tests(arguments, session), *fewer_files(arguments, session)])
        return reason
    if program not in CHECKS:
        raise Refused(f"{shlex.join(words)}: a program that the test neither runs nor checks; known: {sorted(CHECKS)}")
    checked, reason = CHECKS[program]
    checked(arguments)
    return reason


# the package's own commands


def why_checked(arguments: list[str]) -> str:
    """Why a command of the package is checked and not run; "" where it is run."""
    given = parse(arguments)
    command = arguments[0]
    if command in LONG:
        return LONG[command]
    if any(word.startswith("roar.") for word in arguments):
        return "trains a model for each share of the words"
    if command == "push" and given.into is None:
        return "needs the Hub"
    recipe = getattr(given, "recipe", None) or (given.what if command == "check" else "")
    if recipe and not Path(recipe).exists() and not recipe.startswith("mock-"):
        return "a recipe of trainings of minutes and more"
    if str(recipe).startswith(("recipes", "docs")):
        return "a recipe of trainings of minutes and more"
    for source in (getattr(given, "data", None), getattr(given, "model", None)):
        if source and not Path(source).exists() and not source.startswith("mock-"):
            return "needs the Hub"
    return ""


def enough(arguments: list[str], session: Session) -> str:
    """Why a command that trains is checked: so many were run before; "" where it is to be run."""
    command = arguments[0]
    if command not in OFTEN or "--name" in arguments:
        return ""
    kind = f"{command} --model" if "--model" in arguments else command
    session.ran[kind] += 1
    return f"{OFTEN[command]} of its kind were run before" if session.ran[kind] > OFTEN[command] else ""


def fewer_tests(arguments: list[str], session: Session) -> list[str]:
    """All tests are run once on each model; then those that the settings name, or else one."""
    if arguments[0] != "evaluate" or "--tests" in arguments:
        return []
    model = arguments[1].rstrip("/")
    session.ran[model] += 1
    if session.ran[model] == 1:
        return []
    named = [found[1] for word in arguments if (found := re.match(r"evaluation\.tests\.(\w+)\.", word))]
    return ["--tests", ",".join(dict.fromkeys(named or ["entropy"]))]


def fewer_files(arguments: list[str], session: Session) -> list[str]:
    """A report has pages once."""
    if arguments[0] != "report":
        return []
    session.ran["report"] += 1
    return ["--no-pages"] if session.ran["report"] > 1 else []


def run(arguments: list[str]) -> None:
    if arguments[0] == "report":
        arguments = [part for word in arguments for part in newest_runs(word)]
    more = list(SMALLER.get(arguments[0], ()))
    if "--model" in arguments and "--seeds" in more and arguments[0] == "attefa":
        more = more[:1]
    if "--source-file" in arguments:
        more = []  # the file has a row for each text
    if any(word.startswith("seeds=") for word in arguments):
        more = more[:1]
    if main([*arguments, *more]) != 0:
        raise Refused(f"{shlex.join(arguments)} failed")


def newest_runs(word: str) -> list[str]:
    """Of a folder of runs the newest, as pages before left many; of any other word itself."""
    runs = sorted(Path(word).glob("*/meta.json"), key=lambda path: path.stat().st_mtime) if word[0] != "-" else []
    return [str(path.parent) for path in runs[-1:]] or [word]


def check(arguments: list[str]) -> None:
    """Flags, names, keys and recipes, with everything before the work of commands that train."""
    given = parse(arguments)
    given.early(given)
    if arguments[0] == "train" and given.model is not None:
        stock_training._fine_tune_settings(given)
    if given.command is evaluating.evaluate:
        evaluating._data_and_tests(given)
    if arguments[0] in ("run", "train", "attefa") and getattr(given, "model", None) is None:
        with patch.object(training, "_carry_out"):
            given.command(given)


# other programs


def check_accelerate(arguments: list[str]) -> None:
    """The launcher's flags by its own parser, and the command of ours behind them."""
    if arguments[0] != "launch":
        raise Refused(f"accelerate {arguments[0]}")
    given = launch_command_parser().parse_args(arguments[1:])
    script, rest = given.training_script, given.training_script_args
    if given.module:
        assert script == "attn_faithful.cli", script
        check(rest)
        return
    assert (ROOT / script).is_file(), f"there is no {script}"
    if Path(script).stem == "train":
        named = rest if rest and not rest[0].startswith("-") else ["recipes/quickstart.yaml", *rest]
        check(["run", *named])
    else:
        check([Path(script).stem, *rest])


def check_pip(arguments: list[str]) -> None:
    """Files and extras that it installs."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    assert arguments[0] == "install", arguments
    for i, word in enumerate(arguments):
        if word == "-c":
            assert (ROOT / arguments[i + 1]).is_file(), arguments[i + 1]
        extra = re.fullmatch(r"\.\[([\w,-]+)\]", word)
        for name in extra[1].split(",") if extra else ():
            assert re.search(rf"^{name} = \[", extras, re.MULTILINE), f"pyproject.toml has no extra {name}"


def check_make(arguments: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in arguments:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"Makefile has no {target}"


def check_python(arguments: list[str]) -> None:
    """The script is there, and its text knows the flags."""
    if arguments[:2] == ["-m", "attn_faithful.cli"]:
        check(arguments[2:])
        return
    if arguments[0] == "-m":
        arguments = [f"{arguments[1].replace('.', '/')}.py", *arguments[2:]]
    script = ROOT / arguments[0]
    assert script.is_file(), f"there is no {arguments[0]}"
    text = script.read_text(encoding="utf-8")
    for word in arguments[1:]:
        if word.startswith("--"):
            assert f'"{word}"' in text, f"{arguments[0]} has no {word}"


def check_paths(arguments: list[str]) -> None:
    for word in arguments:
        if "/" in word and not word.startswith(("-", "http")) and "*" not in word and "{" not in word:
            path = word.partition("::")[0]
            assert (ROOT / path).exists() or Path(path).exists(), f"there is no {path}"


CHECKS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "accelerate": (check_accelerate, "starts processes of its own"),
    "pip": (check_pip, "installs"),
    "make": (check_make, "runs tests, or measures for minutes"),
    "python": (check_python, "measures for minutes"),
    "pytest": (check_paths, "is what runs this"),
    "cp": (check_paths, "overwrites files of the project"),
    "jupyter": (check_paths, "opens a browser"),
    "docker": (check_paths, "needs a daemon"),
    "mkdocs": (check_paths, "writes the site"),
}


# Python


def check_python_block(text: str) -> None:
    """Its syntax, and that what it imports, and names of the package, are there."""
    tree = ast.parse(text)
    names: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            exec(compile(ast.Module([node], []), "block", "exec"), names)
    for node in ast.walk(tree):
        is_of_package = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "af"
        if is_of_package:
            getattr(names["af"], node.attr)
