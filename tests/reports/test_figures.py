"""Figures: axes in, axes out; small, odd and missing data; any text; each drawn from the committed runs."""

from __future__ import annotations

import itertools
import math
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure as Page

from attn_faithful.records.facts import FlipContingency
from attn_faithful.reports import palette
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.figures import FIGURES, Missing, cells, common_title, draw, letters, style, write
from attn_faithful.reports.figures.base import Panel
from attn_faithful.reports.figures.compose import columns_of, sheets
from attn_faithful.reports.figures.distributions import Group, boxes, histogram_by_class, stacked, violins
from attn_faithful.reports.figures.marks import Classes
from attn_faithful.reports.figures.means import Line, Twin, curves, tradeoff
from attn_faithful.reports.figures.relations import counts_by_bin, scatter_by_class
from attn_faithful.reports.figures.style import safe
from attn_faithful.reports.run_search import read_runs
from tests.reports.altered import CELLS, EVIL, FOREIGN, LSTM, copied, relabelled, two_sites, undefined
from tests.reports.made import DRAWN

NAMES = ["no", "yes"]


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def ax():
    with style():
        yield Page(figsize=(4, 3)).add_subplot()


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def said(ax):
    return [text.get_text() for text in ax.texts]


def rendered(ax):
    """The axes drawn as for a file: what cannot be drawn fails here."""
    ax.figure.draw_without_rendering()
    return ax


# --- one by one


def histogram(ax, values, classes, names=NAMES):
    return histogram_by_class(ax, values, Classes(classes, names), "#2f6f73", limits=(-1.0, 1.0), label="tau")


def test_histogram_counts_each_class_by_itself(ax):
    values = np.array([-1.0, -0.99, 1.0, 0.5, math.nan, 0.5])
    assert histogram(ax, values, np.array([0, 0, 0, 1, 1, 1])) is ax
    assert legend(ax) == ["no: mean -0.33, n = 3", "yes: mean 0.50, n = 2"]
    assert said(ax) == ["n = 5 (1 undefined)"]
    outlines = [patch for patch in ax.patches if not patch.get_fill()]
    heights = [max(y for _, y in patch.get_xy()) for patch in outlines]
    assert heights == pytest.approx([200 / 3, 100])  # percent of the class, the rims included


def test_a_class_that_is_never_predicted_is_named(ax):
    histogram(rendered(ax), np.array([0.1, 0.2]), np.array([0, 0]))
    assert legend(ax) == ["no: mean 0.15, n = 2", "yes: no text"]


def test_many_classes_are_drawn_as_one(ax):
    histogram(ax, np.array([0.1, 0.3]), np.array([0, 5]), [str(i) for i in range(9)])
    assert legend(ax) == ["all texts: mean 0.20, n = 2"]


def scatter(ax, x, y, classes, names=NAMES):
    labels = ("largest weight", "TVD")
    return scatter_by_class(ax, x, y, Classes(classes, names), "#2f6f73", labels=labels, y_limits=(0, 1))


def test_scatter_shows_what_has_both(ax):
    x, y = np.array([0.1, 0.2, math.nan, 0.4]), np.array([0.5, math.nan, 0.5, 0.5])
    assert scatter(ax, x, y, np.array([0, 0, 0, 1])) is ax
    assert [points.get_offsets().tolist() for points in ax.collections[:2]] == [[[0.1, 0.5]], [[0.4, 0.5]]]
    assert legend(ax) == ["no, n = 1", "yes, n = 1"]
    assert said(ax) == ["n = 2 (2 undefined)"]
    assert not ax.lines  # too few for a median


def test_scatter_draws_medians_of_bins(ax):
    x = np.repeat([0.05, 0.95], 7)
    y = np.concatenate([np.arange(7) / 10, np.full(7, 0.9)])
    scatter(rendered(ax), x, y, np.zeros(14, dtype=int), ["all"])
    (line,) = (line for line in ax.lines if len(line.get_xdata()) == 2)
    assert line.get_ydata() == pytest.approx([0.3, 0.9])


@pytest.mark.parametrize("draw_rows", [boxes, violins])
def test_rows_name_groups_and_say_what_is_not_there(ax, draw_rows):
    groups = [
        Group("many", np.linspace(0, 1, 50), "#2f6f73", mark=0.5),
        Group("few", np.array([0.1, math.nan]), "#5b5ea6"),
        Group("none", np.array([math.nan, math.nan]), "#b5532a"),
        Group("equal", np.full(20, 0.25), "#8a6d1f"),
        Group("told", np.zeros(0), "#8a6d1f", "never flips"),
    ]
    assert draw_rows(ax, groups, limits=(0.0, 1.0), label="share") is ax
    rendered(ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["many", "few", "none", "equal", "told"]
    assert said(ax) == ["n = 50", "n = 1 (1 undefined)", "no defined text", "n = 20", "never flips"]
    assert ax.yaxis_inverted()


def test_violins_stay_within_their_limits(ax):
    violins(
        ax,
        [Group("all at the rim", np.concatenate([np.zeros(90), [0.01] * 10]), "#2f6f73")],
        limits=(0.0, 1.0),
        label="share",
    )
    corners = ax.collections[0].get_paths()[0].vertices
    assert (corners[:, 0].min(), corners[:, 0].max()) == (0.0, 1.0)
    assert np.abs(corners[:, 1]).max() == pytest.approx(0.42)


def test_counts_by_bin(ax):
    labels = ("difference", "texts")
    assert counts_by_bin(ax, [0.0, 0.1], [0.1, 0.2], [2, 0], [5, 1000], "#2f6f73", labels=labels) is ax
    assert [bar.get_height() for bar in ax.patches] == [2, 0]
    assert said(ax) == ["2 of\n5", "0 of\n1,000", "n = 1,005"]


def test_stacked_parts_make_a_whole(ax):
    parts = [("both", "#000000"), ("neither", "#eeeeee")]
    shares = np.array([[25.0, 75.0], [0.0, 100.0]])
    assert stacked(ax, ["one", "$two$"], shares, ["n = 4", "n = 3"], parts, label="texts, %") is ax
    rendered(ax)
    assert [(bar.get_x(), bar.get_width()) for bar in ax.patches] == [(0, 25), (0, 0), (25, 75), (0, 100)]
    assert [(t.get_text(), t.get_color()) for t in ax.texts[:3]] == [
        ("25", "white"),
        ("75", palette.INK),
        ("100", palette.INK),
    ]
    assert said(ax)[3:] == ["n = 4", "n = 3"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", r"\$two\$"]
    assert legend(ax) == ["both", "neither"]


def test_outcomes_are_the_shares_of_the_run(golden):
    (panel, _) = FIGURES["flip_outcomes"].read(golden)
    facts = {fact.source: fact for fact in golden[0].group.facts if isinstance(fact, FlipContingency)}
    assert len(panel.data["shares"]) == len(facts)
    names = ("flip_both", "flip_top_only", "flip_random_only", "flip_neither")
    for shares, fact in zip(panel.data["shares"], facts.values(), strict=True):
        assert shares.tolist() == pytest.approx([100 * getattr(fact, name) for name in names])
        assert shares.sum() == pytest.approx(100)


def test_tradeoff_joins_weights_of_a_seed_and_draws_the_spread_of_bases(ax):
    twins = [
        Twin("weight 1", "2, 5", 1.0, 0.6, 0.3, False),
        Twin("weight 0.1", "2, 5", 0.1, 0.65, 0.1, True),
        Twin("constrained-0.05", "2, 5", math.nan, 0.3, 0.05, False),
    ]
    assert tradeoff(ax, twins, [(0.1, 0.2), (0.3, 0.4)], 0.45) is ax
    rendered(ax)
    joined = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 2]
    assert (0.65, 0.6) in [tuple(x) for x in joined]  # by weight, not by JSD
    named = [
        "weight 1",
        "weight 0.1",
        "constrained-0.05",
        "hollow: collapsed",
        "bases of other seeds, mean ± sd of 2 pairs",
    ]
    assert legend(ax) == named
    assert any(line.get_marker() == "P" and list(line.get_xdata()) == [0.2] for line in ax.lines)
    assert tradeoff(Page().add_subplot(), twins[:1]) is not None


def test_curves_leave_undefined_means_out(ax):
    line = Line("saliency", "gradient", [0.5, math.nan, 0.7], [0.4, math.nan, math.nan], [0.6, math.nan, math.nan])
    assert curves(ax, [-100, 0, 0.5], [line], labels=("lambda", "entropy"), limits=(0, 1)) is ax
    rendered(ax)
    assert ax.get_xscale() == "symlog"
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["-100", "0", "0.5"]
    assert list(ax.lines[0].get_ydata()) == [0.5, 0.7]


# --- text


def test_text_is_no_formula_and_no_missing_glyph(tmp_path):
    with style():
        assert safe("$x$") == r"\$x\$"
        assert safe("\U0010fffd") == r"\U0010fffd"
        assert safe("a\nb\u202e") == "a b"
        assert safe("x" * 99) == "x" * 31 + "…"
        page = Page()
        page.text(0.5, 0.5, safe(r"$\frac{1$ $ \$x$", 99))
        page.savefig(tmp_path / "page.svg")
    (shown,) = ElementTree.parse(tmp_path / "page.svg").getroot().iter("{http://www.w3.org/2000/svg}text")
    assert shown.text == r"$\frac{1$ $ \$x$"


@pytest.mark.parametrize("labels", [EVIL, FOREIGN])
def test_any_label_can_be_drawn(tmp_path, labels):
    path = relabelled(tmp_path / "cell", labels, data=labels[0], encoder=labels[1])
    found = cells(aggregate(read_runs([path])))
    panels = FIGURES["adversarial_histogram"].read(found)
    (png,) = write(FIGURES["adversarial_histogram"], panels, tmp_path, "figure", found)
    words = " ".join(text.text for text in ElementTree.parse(png.with_suffix(".svg")).getroot().iter() if text.text)
    with style(letters(found)):
        shown = [safe(label).replace(r"\$", "$") for label in labels]
    assert all(label in words for label in shown)


# --- from runs


@pytest.fixture(scope="module")
def golden():
    return cells(aggregate(read_runs([CELLS])))


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_is_drawn(golden, name):
    figure = FIGURES[name]
    panels = figure.read(golden)
    with style(letters(golden)):
        page = draw(figure, panels, common_title(golden))
        page.draw_without_rendering()
    texts = [text.get_text() for text in page.texts]
    assert texts[0].replace("\n", " ") == figure.title
    assert texts[1:] == ["Mock-1", figure.paper]
    assert len(page.axes) == len(panels)
    for ax in page.axes:  # nothing lies outside the page or is squeezed
        assert ax.get_position().width * page.get_figwidth() == pytest.approx(figure.size[0])
        assert ax.get_xlabel()


def test_panels_do_not_overlap(golden):
    figure = FIGURES["tau_histograms"]
    with style(letters(golden)):
        page = draw(figure, figure.read(golden), "")
        page.draw_without_rendering()
        boxes = [ax.get_tightbbox() for ax in page.axes]
    for i, one in enumerate(boxes):
        assert page.bbox.x0 <= one.x0
        assert one.x1 <= page.bbox.x1
        assert page.bbox.y0 <= one.y0
        assert one.y1 <= page.bbox.y1
        assert not any(one.overlaps(two) for two in boxes[:i])


def test_figures_name_what_they_lack(golden, tmp_path):
    with pytest.raises(Missing, match="needs the test entropy, which was not run: attn-faithful evaluate"):
        FIGURES["entropy_by_setting"].read(golden)
    with pytest.raises(Missing, match="3 models or more that differ in one number"):
        FIGURES["correlation_by_setting"].read(golden)
    bare = cells(aggregate(read_runs([undefined(tmp_path / "cell")])))
    for name in ("tau_histograms", "permutation", "adversarial_histogram", "fraction_removed", "correlation_by_model"):
        with pytest.raises(Missing, match=r"undefined|constant attention"):
            FIGURES[name].read(bare)
    with pytest.raises(Missing, match="needs twins, which were not trained: attn-faithful attefa"):
        FIGURES["twin_tradeoff"].read(bare)


def test_sites_are_panels(tmp_path):
    found = cells(aggregate(read_runs([two_sites(tmp_path / "cell")])))
    titles = [panel.title for panel in FIGURES["tau_histograms"].read(found)]
    sources = ("input x gradient", "leave-one-out")
    assert titles == [f"{site}, {name}" for site in ("layer.0", "layer.1") for name in sources]
    for name in ("permutation", "removal_difference", "fraction_removed", "negative_differences"):
        assert [panel.title for panel in FIGURES[name].read(found)] == ["layer.0", "layer.1"]


def test_seeds_are_pooled_and_settings_make_curves(tmp_path):
    for i, label in enumerate(("sparsegen -10", "sparsegen 0", "sparsegen 0.5")):
        for seed in (1, 2):
            copied(tmp_path / f"{i}-{seed}", seed=seed, axes={"data": "a", "encoder": "lstm", "projection": label})
    found = cells(aggregate(read_runs([tmp_path])))
    assert [cell.name for cell in found] == ["sparsegen -10", "sparsegen 0", "sparsegen 0.5"]
    assert common_title(found) == "a, lstm, 2 seeds"
    assert len(FIGURES["adversarial_histogram"].read(found)[0].data["values"]) == 20
    (panel,) = FIGURES["correlation_by_setting"].read(found)
    assert panel.data["x"] == [-10, 0, 0.5]
    assert [line.title for line in panel.data["lines"]] == ["input x gradient", "leave-one-out"]
    figure = FIGURES["correlation_by_setting"]
    with style(letters(found)):
        draw(figure, [panel], common_title(found)).draw_without_rendering()


def test_weights_that_were_not_stored_are_read_from_the_attention(golden):
    from attn_faithful.reports.figures.jain_wallace import _largest, largest_attention

    run = golden[0].runs[0]
    stored = largest_attention(golden[0], run.sites[0])
    assert _largest(run, run.sites[0]) == pytest.approx(stored, abs=1e-6)


def test_panels_go_on_further_pages():
    panels = [Panel(str(i), {}) for i in range(40)]
    assert (columns_of(panels), [len(sheet) for sheet in sheets(panels)]) == (3, [18, 18, 4])
    rows = [Panel("", {}, group=str(i // 4)) for i in range(12)]
    assert columns_of(rows) == 4
    assert columns_of(panels[:4]) == 2
    assert columns_of(panels[:1]) == 1


def test_files_are_the_same_every_time(golden, tmp_path):
    figure = FIGURES["negative_differences"]
    found = [write(figure, figure.read(golden), tmp_path / name, "figure", golden)[0] for name in "ab"]
    for ending in (".png", ".svg"):
        one, two = (path.with_suffix(ending).read_bytes() for path in found)
        assert one == two


# --- hues


def test_sources_that_stand_together_can_be_told_apart():
    """By lightness or by hue, for people who see all colours and for those without red or green cones."""
    all_gather = [
        ("attention", "attention_gradient", "attention_x_gradient", "random", "smallest_set"),
        ("attention", "adversarial", "input_x_gradient", "leave_one_out", "random"),
        ("attention", "adversarial", "saliency", "leave_one_out", "random"),
        ("attention", "saliency", "leave_one_out", "state_saliency", "state_leave_one_out", "hidden_gradient"),
    ]
    # Machado et al. (2009), severity 1, on linear RGB
    red = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    green = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    for names, ground, matrix in itertools.product(all_gather, ("light", "dark"), (np.eye(3), red, green)):
        found = {name: lab(getattr(palette.HUES[name], ground), np.asarray(matrix)) for name in names}
        for one, two in itertools.combinations(names, 2):
            assert np.linalg.norm(found[one] - found[two]) > 10, (one, two, ground)


def lab(colour, matrix):
    """CIE L*a*b* of a colour as someone sees it."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(matrix @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_one_hue_a_source():
    assert palette.hue_of("attention~input_x_gradient") == palette.HUES["input_x_gradient"]
    assert palette.hue_of("saliency-attention~leave_one_out").name == "gradient"
    assert palette.hue_of("random~saliency").name == "random"
    assert palette.hue_of("somebody's own") == palette.OTHER
    assert palette.title_of("attefa-10") == "attefa-10"


def test_a_run_of_its_own_is_no_comparison():
    found = cells(aggregate(read_runs([LSTM])))
    assert (found[0].name, common_title(found)) == ("", "Mock-1, lstm")
    assert [panel.title for panel in FIGURES["correlation_by_model"].read(found)] == [""]
