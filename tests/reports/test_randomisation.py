"""What is said of weights that were drawn anew: sentence, tables, figure and card."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from html import unescape

import pytest

from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.figures import FIGURES, Missing, cells, draw, letters, style
from attn_faithful.reports.figures.means import Line, _last_of, by_depth
from attn_faithful.reports.html.cards import cards
from attn_faithful.reports.randomisation import curves, ignoring
from attn_faithful.reports.report import report
from attn_faithful.reports.tables.catalogue import tables_of_group
from tests.reports.made import PARTS, long_texts, made

FIGURE = FIGURES["randomisation_by_depth"]
TEXTS = ["good film", "a very bad film", "so so", "not a film that one forgets"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("run"), long_texts(40), tests=("randomisation",))


def test_a_sentence_says_what_falls_and_what_ignores_the_model(run):
    (statement,) = answer(run).statements
    attention, gradient = (
        run.scores("randomisation_tau", source).mean() for source in ("attention", "input_x_gradient")
    )
    assert statement == (
        f"With all weights drawn anew attention keeps a tau of {attention:.2f} with itself, input x gradient "
        f"{gradient:.2f}; random ignores the model (1.00), over 40 texts."
    )


def test_a_source_ignores_the_model_where_tau_is_1_everywhere(run):
    records = run.records
    assert ignoring(records, "pool") == ["random"]
    once = []
    for record in records:
        is_one = (record.metric, record.source) == ("randomisation_single", f"random@{PARTS[1]}")
        once.append(replace(record, mean=0.999) if is_one else record)
    assert ignoring(once, "pool") == []
    undefined = [replace(record, n=0, mean=float("nan")) for record in records]
    assert ignoring(undefined, "pool") == []


def test_tables_have_a_row_a_part(run):
    (group,) = aggregate([run])
    tables = {table.name: table for table in tables_of_group(group)}
    assert {"randomisation_cascading", "randomisation_single"} <= tables.keys()
    table = tables["randomisation_cascading"]
    assert table.head == ["part", "attention", "input x gradient", "random"]
    assert [row[0] for row in table.rows] == list(PARTS)
    assert [row[3] for row in table.rows] == ["1.000 [1.000, 1.000]"] * 3
    record = curves(run.records, "pool", "cascading")[0].by_step[PARTS[1]]
    assert table.rows[1][1] == f"{record.mean:.3f} [{record.low:.3f}, {record.high:.3f}]"
    notes = " ".join(table.notes)
    assert "random ignores the model: tau is 1 in every text" in notes
    assert "n 40." in notes
    assert "input x gradient -0.20 to 0.00" in notes
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert len(rows) == 9
    assert float(rows[1]["mean"]) == record.mean


def test_several_sites_have_tables_and_panels_of_their_own(tmp_path):
    run = made(tmp_path, TEXTS, sites=("layer.0", "layer.1"), tests=("randomisation",))
    (group,) = aggregate([run])
    names = [table.name for table in tables_of_group(group)]
    assert names[-4:] == [f"randomisation_{mode}-layer.{i}" for i in (0, 1) for mode in ("cascading", "single")]
    titles = [panel.title for panel in FIGURE.read(cells([group]))]
    assert titles[0] == "layer.0, all parts from the output down"
    assert titles[3] == "layer.1, one part alone"


def test_the_figure_has_a_line_a_source_in_two_panels(run):
    models = cells(aggregate([run]))
    panels = FIGURE.read(models)
    assert [panel.title for panel in panels] == ["all parts from the output down", "one part alone"]
    with style(letters(models)):
        page = draw(FIGURE, panels)
        page.draw_without_rendering()
    for ax, mode in zip(page.axes, ("cascading", "single"), strict=True):
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["classifier", "layer.1", "layer.0"]
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert labels == ["attention", "input x gradient", "random (ignores the model)"]
        drawn = [container.lines[0].get_ydata().tolist() for container in ax.containers]
        expected = [[r.mean for r in curve.by_step.values()] for curve in curves(run.records, "pool", mode)]
        assert drawn == expected
    assert page.axes[0].get_ylim() == page.axes[1].get_ylim()


@pytest.mark.parametrize(("parts", "turned"), [(14, 40), (15, 90)])
def test_names_of_many_parts_stand_upright(parts, turned):
    from matplotlib.figure import Figure as Page

    values = [0.5] * parts
    line = Line("given", "given importance (ignores the model)", values, values, values)
    ax = by_depth(Page().subplots(), [f"layer.{i}" for i in range(parts)], [line], lowest=0.5, note="")
    assert {tick.get_rotation() for tick in ax.get_xticklabels()} == {turned}
    (label,) = ax.get_legend().get_texts()
    assert label.get_text() == line.title


def test_the_figure_says_why_it_is_missing(tmp_path):
    with pytest.raises(Missing, match="needs the test randomisation, which was not run: attn-faithful evaluate"):
        FIGURE.read(cells(aggregate([made(tmp_path / "other", TEXTS)])))
    undefined = made(tmp_path / "undefined", TEXTS, tests=("randomisation",), undefined="constant attention")
    with pytest.raises(Missing, match="constant attention"):
        FIGURE.read(cells(aggregate([undefined])))
    assert answer(undefined).statements == [
        "The test randomisation says nothing of these texts: constant attention (4)."
    ]


def test_the_card_tells_attention_and_the_others(run, tmp_path):
    (card,), missing = cards(run, "pool")
    assert card.key == "weights"
    assert "random 1.00 (ignores the model)" in card.reading
    assert "input x gradient" in card.reading
    assert "randomisation" not in [test for tests in missing.values() for test in tests]
    other = made(tmp_path, TEXTS)
    assert "weights" not in [card.key for card in cards(other, "pool")[0]]
    assert "randomisation" not in [test for tests in cards(other, "pool")[1].values() for test in tests]


def test_it_stands_in_the_report(run, tmp_path):
    written = report([run.path], tmp_path / "report")
    assert set(written.figures) == {"randomisation_by_depth"}
    assert "tests/randomisation_cascading" in written.tables
    assert FIGURE.title in unescape(written.pages[0].read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        ("encoder.layers.1", "encoder.layers.1"),  # the decoder has one too
        ("encoder.layernorm_embedding", "layernorm_embedding"),
        ("classification_head", "classification_head"),
        ("h.2", "h.2"),
    ],
)
def test_names_of_parts_are_as_short_as_tells_them_apart(step, shown):
    steps = ["classification_head", "decoder.layers.1", "encoder.layers.1", "encoder.layernorm_embedding", "h.2"]
    assert _last_of(step, steps) == shown
