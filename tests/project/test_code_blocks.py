"""Every block of code of README, CONTRIBUTING and docs runs, or is checked with a reason.

Commands run in process, in a folder with small stand-ins for what the pages name (`block_files.py`), with fewer texts,
epochs and seeds than they ask for. What would need the Hub, install, or train for minutes has its flags, names and
recipe checked (`block_commands.py` has the reasons); a page may ask for the same with ``<!-- checked: REASON -->``
before a block. Python blocks of a page run in order, in one namespace. Blocks without a language are output.
"""

import ast
import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from attn_faithful.cli.parser import parse
from attn_faithful.experiments.recipe import make_recipe
from tests.project.block_commands import OWN, Refused, Session, carry_out, check_python_block, commands, found
from tests.project.block_files import write_all
from tests.project.blocks import ROOT, Block, blocks_of, pages, read_blocks
from tests.registries import registered_for_a_while

OUTPUT = ("", "text")
FORMULAS = ("latex", "math")


@pytest.fixture(scope="module")
def place(tmp_path_factory, cache):
    """The folder in which blocks run, and what the commands of all pages came to."""
    folder = tmp_path_factory.mktemp("blocks")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_all(folder)
        yield Session()


@pytest.fixture(autouse=True)
def registries():
    """A page may register a test or a source of its own: other tests must not see it."""
    with registered_for_a_while():
        yield


@pytest.fixture(scope="module")
def counts():
    return Counter()


def carry_out_block(block, session, namespace):
    """Run or check a block; returns the reasons of what was checked only, or None of output."""
    if block.file:
        Path(block.file).write_text(block.text + "\n", encoding="utf-8")
    if block.language == "bash":
        return of_commands(commands(block.text), session, block.reason)
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
        return of_commands(commands("\n".join(lines)), session, block.reason)
    if block.language == "python":
        return of_python(block, namespace)
    if block.language == "yaml":
        return of_yaml(block)
    if block.language in ("csv", "jsonl"):
        return of_rows(block)
    if block.language in FORMULAS:
        assert block.text.count("{") == block.text.count("}")
        return ["braces of formulas are counted"]
    if block.language in OUTPUT:
        return of_output(block)
    raise Refused(f"a block of {block.language!r} is neither run nor checked")


def of_commands(found_commands, session, reason):
    reasons = [carry_out(words, session, reason) for words in found_commands]
    return [told for told in reasons if told]


def of_python(block, namespace):
    if block.reason:
        check_python_block(block.text)
        return [block.reason]
    tree = Paths().visit(ast.parse(block.text))
    namespace["found"] = found
    exec(compile(ast.fix_missing_locations(tree), block.place, "exec"), namespace)
    return []


class Paths(ast.NodeTransformer):
    """Strings with dots for what differs from run to run are looked up when they are needed."""

    def visit_Constant(self, node):
        is_path = isinstance(node.value, str) and re.fullmatch(r"runs/\S*\.\.\.\S*", node.value)
        return ast.parse(f"found({node.value!r})", mode="eval").body if is_path else node


def of_yaml(block):
    """A recipe, or a part of one, by the recipe's schema."""
    keys = yaml.safe_load(block.text)
    make_recipe({"name": "block", "data": {"source": "mock-1"}, **keys}, block.place)
    return ["a recipe is read by its schema"]


def of_rows(block):
    if block.language == "jsonl":
        rows = [json.loads(line) for line in block.text.splitlines()]
    else:
        rows = list(csv.reader(block.text.splitlines()))
    assert len(set(map(len, rows))) == 1
    return ["rows are read"]


def of_output(block):
    """Output may begin with the command that printed it: its flags are checked."""
    lines = block.text.replace("\\\n", " ").splitlines()
    for line in lines:
        line = line.removeprefix("$ ")
        if line.startswith(f"{OWN} "):
            (words, *_) = commands(line)
            parse(words[1:])


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_run(page, place, counts):
    namespace = {"__name__": "page"}
    for block in blocks_of(page):
        try:
            reasons = carry_out_block(block, place, namespace)
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{block.place}: {type(error).__name__}: {error}\n{block.text}") from error
        if reasons is None:
            counts["output"] += 1
        else:
            counts["checked" if reasons else "ran"] += 1
            counts.update(f"  {reason}" for reason in set(reasons))


def test_every_block_is_counted(counts, capsys):
    """After the pages: what ran, what was checked, and the reasons for it."""
    if not counts:
        pytest.skip("no page was run before")
    with capsys.disabled():
        print(f"\nblocks: {counts['ran']} ran, {counts['checked']} were checked, {counts['output']} are output")
        for reason, n in counts.most_common():
            if reason.startswith("  "):
                print(f"{reason}: {n}")
    assert counts["ran"] > counts["checked"] / 2


# --- faults of pages


@pytest.mark.parametrize(
    ("language", "text", "told"),
    [
        ("bash", "attn-faithful evaluate bert-finetuned --data reviews.csv --tets flips", "SystemExit"),
        ("bash", "attn-faithful evaluate bert-finetuned --data nowhere.csv", "nowhere"),
        ("bash", "attn-faithful run papers/nobody_2020", "nobody_2020"),
        ("bash", "attn-faithful train --data reviews.csv --set train.regularizer.tying=1", "failed"),
        ("bash", "attn-faithful attefa --data SetFit/sst5 --encoder lstn", "lstn"),
        ("bash", "attn-faithful report runs/nothing/...", "nothing of the form"),
        ("bash", "accelerate launch --proceses 2 recipes/train.py", "SystemExit"),
        ("bash", "accelerate launch recipes/none.py", "none.py"),
        ("bash", 'pip install -e ".[tests]"', "no extra tests"),
        ("bash", "make tests", "no tests"),
        ("bash", "python benchmarks/bench.py --part minilm", "--part"),
        ("bash", "rm -r runs", "neither runs nor checks"),
        ("console", "$ attn-faithful lst runs\nnothing", "SystemExit"),
        ("python", "import attn_faithful as af\naf.evaluate()", "evaluate"),
        ("python", "model", "model"),
        ("yaml", "evaluation: {test: [flips]}", "test"),
        ("", "$ attn-faithful evaluate MODEL", "SystemExit"),
        ("ruby", "puts 1", "neither run nor checked"),
    ],
)
def test_a_fault_is_found(place, language, text, told):
    block = Block("page.md", 1, language, text)
    with pytest.raises((Exception, SystemExit)) as error:
        carry_out_block(block, Session(), {})
    assert told in f"{error.type.__name__}: {error.value}"


def test_a_reason_is_of_the_block_behind_it():
    text = "<!-- checked: long -->\n\n```bash\nls\n```\n\n```bash\nls\n```\n"
    assert [block.reason for block in read_blocks(text, "p.md")] == ["long", ""]


def test_what_is_checked_alone_has_names_that_are_there():
    with pytest.raises(AttributeError, match="nothing"):
        check_python_block("import attn_faithful as af\naf.nothing(1)")
