"""Tables in a terminal of any width: nothing of a cell is lost, numbers stay whole, no line is too long."""

import doctest
import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.groups import BasePairs, Performance
from attn_faithful.reports.result import Result
from attn_faithful.reports.run_search import read_runs
from attn_faithful.reports.tables import layout as table_layout
from attn_faithful.reports.tables.by_metric import metric_tables
from attn_faithful.reports.tables.by_test import tables_of_tests
from attn_faithful.reports.tables.controls import controls_table
from attn_faithful.reports.tables.listings import plan_table, runs_table
from attn_faithful.reports.tables.models import base_table, data_table, pairs_table
from attn_faithful.reports.tables.pairs import paired_tables
from attn_faithful.reports.tables.table import Table
from attn_faithful.reports.tables.trends import trend_tables
from attn_faithful.reports.tables.twins import attefa_table, constrained_table, seeds_table
from attn_faithful.store import find_runs
from tests.reports.altered import CELLS, LSTM
from tests.reports.tables.test_table import over, record, twin

WIDTHS = (60, 72, 80, 100, 120, 160)
LONG = "A class whose name goes on and on: politics, world/news_and-opinion"
PATH = "runs/evaluate/a-data-set-with-a-long-name-bert-base-uncased-layer.11-test-0123abcd/model-of-the-second-seed"


def printed(table, width, encoding="utf-8"):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Console(file=file, width=width, force_terminal=False).print(table.rich())
    file.flush()
    return raw.getvalue().decode(encoding)


def joined(text):
    return "".join(text.split())


def read_again(text, table):
    """Head -> all that stands in its column, without blanks."""
    lines = text.split("\n")
    if not any(line.startswith(("┏", "+")) for line in lines):
        return read_blocks(lines, table)
    found, heads, columns, in_head = {}, [], [], False
    for line in lines:
        bars = re.split("[│┃]|^[|]| [|](?: |$)", line)[1:-1]
        if line.startswith(("┏", "+")) and not columns:
            heads, in_head = [], True
        elif line.startswith(("┡", "|-", "|=")):
            in_head, columns = False, [""] * len(heads)
        elif line.startswith(("└", "+")):
            for head, column in zip(heads, columns, strict=True):
                assert found.setdefault(head, column) == column, "names that are repeated are the same"
            columns = []
        elif in_head:
            heads = [head + joined(cell) for head, cell in zip(heads or [""] * len(bars), bars, strict=True)]
        elif columns:
            columns = [column + joined(cell) for column, cell in zip(columns, bars, strict=True)]
    return found


def read_blocks(lines, table):
    start = next(i for i, line in enumerate(lines) if line and set(line) <= {"─", "-"})
    end = len(lines) - 1 - next(i for i, line in enumerate(lines[::-1]) if line and set(line) <= {"─", "-"})
    side = min(max(map(len, table.head)), cell_len(lines[start]) // 3)
    found = {joined(head): "" for head in table.head}
    for block in "\n".join(lines[start + 1 : end]).split(lines[start]):
        head, rest, places = "", "", iter([table.head[place] for place in table.rich().order])
        for line in block.strip("\n").split("\n"):
            if not rest and line[:side].strip():  # the head before is complete: another begins
                head = rest = joined(next(places))
            rest = rest.removeprefix(joined(line[:side]))
            found[head] += joined(line[side:])
        assert next(places, None) is None, "every cell has its line"
    return found


def kinds():
    """Every kind of table that is printed."""
    records = aggregate(read_runs([CELLS]))
    constrained = twin(jsd_at_tvd=over(0.61, 0.02, 3))
    chance = BasePairs([(0.01, 0.1), (0.02, 0.2), (0.03, 0.3)])
    controls = {"uniform": over(0.6, 0.1, 2), "imposed_twin constrained-0.05": over(0.55, 0.1, 18)}
    controls = {kind: Performance(number, number, number) for kind, number in controls.items()}
    several = [
        record("lstm", twins={"attefa": twin(seeds=(10, 50, 257)), "constrained-0.05": constrained}),
        record("transformer", base_pairs=chance, controls=controls),
    ]
    swept = [replace(several[0], axes={"data": "sst", "lambda": number}) for number in ("-10", "0", "0.5", "0.9")]
    return [
        runs_table(find_runs([CELLS])),
        attefa_table(records),
        base_table(records),
        data_table([group.named_data for group in records]),
        seeds_table(records),
        plan_table("sst", [("sst lstm 10", "sst-lstm-10-0a1b2c3d", 12.3, 456.0)] * 3),
        *Result(LSTM).tables(),
        *metric_tables(records),
        attefa_table(several),
        constrained_table(several),
        pairs_table(several),
        base_table(several),
        controls_table(several),
        *trend_tables(swept),
    ]


@pytest.fixture(scope="module")
def every_kind():
    runs = read_runs([CELLS])
    first = runs[0]
    by_site = [replace(record, site=site) for site in ("layer.0", "layer.1", "joint") for record in first.records]
    layers = tables_of_tests(by_site, first.metrics, ["negative", "positive"], "bert")
    records = aggregate(runs)
    found = [*kinds(), *layers, *paired_tables(records)]
    return [replace(table, rows=table.rows[:6]) for table in found]


ODD = [
    Table("A path", ["data", "seed", "F1", "Folder"], [["sst", "1", "0.5", PATH], ["sst", "1", "0.6", PATH + "-2"]]),
    Table("Classes", ["data", LONG, "n"], [["a", "0.123 ±0.456", "500"], ["b", "-", "1000000"]]),
    Table("Names", ["data", "twin", "TVD"], [[LONG, LONG[::-1], "0.985 ±0.013"], ["x" * 70, "y z", "1.000"]]),
    Table("Wide letters", ["data", "Classes"], [["非常に長い名前のデータセット" * 4, "好 250 / 坏 250"], ["é", "ü 1"]]),
    Table("Nothing", ["data", "F1"], []),
    Table("One column", ["Mean"], [["0.1"], ["0.2"]]),
    Table("Many numbers", ["data", *(f"N{i}" for i in range(30))], [[n, *["[0.123, 0.456]"] * 30] for n in "ab"]),
]


def check(table, text, width):
    too_long = [line for line in text.split("\n") if cell_len(line) > width]
    assert not too_long
    found = read_again(text, table)
    expected = {}
    for i, head in enumerate(table.head):
        expected[joined(head)] = joined("".join(row[i] for row in table.rows))
    assert found == expected
    lines = text.split("\n")
    for row in table.rows:
        for cell in row[table.names :]:
            if len(cell) <= 30:
                assert any(cell in line for line in lines), f"{cell!r} is cut or wrapped"


@pytest.mark.parametrize("width", WIDTHS)
def test_every_kind_of_table_is_whole(every_kind, width):
    assert len({table.name for table in every_kind}) >= 12
    for table in every_kind:
        check(table, printed(table, width), width)


@pytest.mark.parametrize("width", [24, *WIDTHS])
@pytest.mark.parametrize("table", ODD, ids=lambda table: table.title)
def test_odd_tables_are_whole(table, width):
    check(table, printed(table, width), width)


@pytest.mark.parametrize("width", [60, 120])
def test_ascii_has_the_same_tables(every_kind, width):
    for table in every_kind:
        text = printed(table, width, "ascii")
        rows = [[cell.replace("±", "+-") for cell in row] for row in table.rows]
        plain = Table(table.title, table.head, rows, named=table.names, first=table.first)
        check(plain, text, width)


def test_what_fits_is_one_grid_and_else_names_are_repeated():
    table = attefa_table([record(), record("mlp")])
    wide, narrow = printed(table, 160), printed(table, 80)
    assert wide.count("┏") == 1
    assert narrow.count("┏") > 1
    assert narrow.count("encoder") == narrow.count("┏"), "each part names its rows"


def test_columns_that_matter_come_first_where_not_all_fit():
    table = attefa_table([record(), record("mlp")])
    wide, narrow = printed(table, 160), printed(table, 80)
    assert wide.index("Base F1") < wide.index("AtteFa ")
    first, second, *_ = narrow.split("┏")[1:]
    assert all(head in first for head in ("AtteFa", "95%", "Collapsed"))
    assert "0.810" not in first, "the base's F1"
    assert "0.810" in second
    best = replace(table, best={(1, table.head.index("AtteFa"))})
    raw = io.StringIO()
    Console(file=raw, width=80, force_terminal=True, color_system="standard").print(best.rich())
    (marked,) = re.findall("\x1b\\[1m([^\x1b]*)", raw.getvalue().split("┡")[1].split("└")[0])
    assert marked.strip() == table.rows[1][table.head.index("AtteFa")]


def test_columns_that_matter_are_columns(every_kind):
    for table in every_kind:
        assert set(table.first) <= set(table.head), table.name


def test_rows_that_names_do_not_tell_apart_stand_by_themselves():
    assert "┏" not in printed(ODD[0], 80)
    assert PATH in joined(printed(ODD[0], 60))
    assert any(PATH in line for line in printed(ODD[0], 160).split("\n"))


def test_a_path_breaks_at_its_separators():
    lines = table_layout.wrapped(PATH, 40)
    assert "".join(lines) == PATH
    assert all(line[-1] in "/-_." for line in lines[:-1])


def test_control_characters_of_a_name_do_nothing():
    table = Table("a\x1b[31m", ["data", "F1\x07"], [["b\x9b\x1b]0;title\x07", "0.5"]], ["c\x00\u202e"])
    text = printed(table, 80)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "b\\x9b␛]0;title␇" in text


def test_examples_in_docstrings():
    assert doctest.testmod(table_layout).failed == 0
