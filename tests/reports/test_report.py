"""The report of run folders: golden text, bad input, nothing half-written, and what a notebook shows."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys

import pytest
from markdown_it import MarkdownIt

from attn_faithful._checks import InputError
from attn_faithful.reports import report as module
from attn_faithful.reports.figures import FIGURES, draw, style, write
from attn_faithful.reports.report import Names, Report, report
from attn_faithful.reports.result import Result
from attn_faithful.reports.tables.table import Table
from attn_faithful.store import RunFolder
from tests.reports.altered import CELLS, EVIL, FOREIGN, LSTM, copied, edit, older, relabelled, single, undefined
from tests.reports.golden.make import COMPARED, EXPECTED
from tests.reports.latex import faults
from tests.reports.made import DRAWN
from tests.reports.test_escaping import TEXTS

SAVED = ("tau_histograms", "fraction_removed")


def saved_or_not(figure, panels, folder, stem, found):
    """Two figures as they are; the others, which test_figures.py draws, as files that say nothing."""
    if figure.name in SAVED:
        return write(figure, panels, folder, stem, found)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.svg").write_bytes(b"<?xml")
    (folder / f"{stem}.png").write_bytes(b"\x89PNG")
    return [folder / f"{stem}.png"]


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "write", saved_or_not)
        return report([CELLS], tmp_path_factory.mktemp("golden") / "report", pages=False)


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr(module, "FIGURES", {})


@pytest.fixture
def few_figures(monkeypatch):
    monkeypatch.setattr(module, "write", saved_or_not)


def test_runs_with_a_regularizer_are_told_from_those_without(tmp_path, no_figures):
    recipe = json.loads((LSTM / "meta.json").read_text(encoding="utf-8"))["recipe"]
    tying = {**recipe, "train": {**recipe["train"], "regularizers": {"tying": 0.1}}}
    for seed in (1, 2, 3):
        copied(tmp_path / f"plain-{seed}", seed=seed, recipe={**recipe, "seeds": [seed]})
        copied(tmp_path / f"tying-{seed}", seed=seed, recipe={**tying, "seeds": [seed]})
    made = report([tmp_path], tmp_path / "report", pages=False)
    table = (made.path / "tables" / "telling_apart_tying.md").read_text(encoding="utf-8")
    assert "What tells models trained with 'tying' from those without" in table
    assert "| 0.500 | 0.500 | 3/3 |" in table  # the numbers of the copies are the same
    assert "telling_apart_tying" in read(made, "report.md")


def read(made, name):
    return (made.path / name).read_text(encoding="utf-8")


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# --- golden


@pytest.mark.parametrize("name", COMPARED)
def test_golden(golden, name):
    """See golden/make.py for how to make them anew."""
    assert read(golden, name).replace(str(CELLS), "CELLS") == (EXPECTED / name).read_text(encoding="utf-8")


def test_everything_that_was_written_is_named(golden):
    index = json.loads(read(golden, "index.json"))
    assert files(golden.path) == {*index["files"], "index.json"}
    assert index["runs"] == [str(CELLS / name) for name in ("mock-1-lstm-1", "mock-1-mlp-1")]
    for name in golden.tables:
        for ending in ("md", "tex", "csv"):
            assert (golden.path / "tables" / f"{name}.{ending}").is_file()
    assert set(golden.figures) == set(DRAWN)
    for paths in golden.figures.values():
        for path in paths:
            assert path.read_bytes().startswith(b"\x89PNG")
            assert path.with_suffix(".svg").read_bytes().startswith(b"<?xml")


def test_the_text_links_to_what_is_there(golden):
    links = re.findall(r"\]\(([^)]*)\)", read(golden, "report.md"))
    assert len(links) > 100
    assert {link for link in links if not (golden.path / link).is_file()} == set()


def test_every_table_is_well_formed(golden):
    for name, path in golden.tables.items():
        tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
        assert [token.type for token in tokens].count("table_open") == 1, name
        rows = list(csv.reader(path.with_suffix(".csv").read_text(encoding="utf-8").splitlines()))
        assert len({len(row) for row in rows}) == 1, name
        assert faults(path.with_suffix(".tex").read_text(encoding="utf-8")) == [], name


def test_pdflatex_sets_every_table(golden, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex is installed; on Debian: apt-get install texlive-latex-recommended")
    texts = Table(" ".join(TEXTS), ["data", "text", "F_1"], [[a, a[::-1], "0.5"] for a in TEXTS], TEXTS).latex()
    tables = [texts, *(path.with_suffix(".tex").read_text(encoding="utf-8") for path in golden.tables.values())]
    lines = [r"\documentclass{article}", r"\usepackage[T1]{fontenc}", r"\usepackage{booktabs}", r"\begin{document}"]
    source = "\n".join([*lines, *(table + r"\clearpage" for table in tables), r"\end{document}"])
    (tmp_path / "all.tex").write_text(source, encoding="utf-8")
    run = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "all.tex"],
        capture_output=True,
        cwd=tmp_path,
        timeout=120,
    )
    said = run.stdout.decode("utf-8", "replace")
    assert run.returncode == 0, said[-2000:]
    assert "Missing character" not in said


def test_reports_need_no_torch(tmp_path):
    code = (
        "import sys; from attn_faithful.reports.report import report; report(sys.argv[1:2], sys.argv[2], pages=False); "
        "print({'torch', 'transformers', 'datasets', 'sklearn'} & sys.modules.keys())"
    )
    path = undefined(tmp_path / "cell")  # nearly nothing to draw
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, path, tmp_path / "out"], capture_output=True, text=True, timeout=120
    )
    assert (run.stdout.strip(), run.stderr) == ("set()", "")


# --- bad input


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("labels", [EVIL, FOREIGN])
def test_names_are_text_everywhere(tmp_path, labels, few_figures):
    path = relabelled(tmp_path / "cell", labels, data=labels[0], encoder=labels[1])
    made = report([path], pages=False)
    assert made.path == path / "report"
    assert len(made.figures) == len(DRAWN)
    reader = MarkdownIt("commonmark").enable("table")
    for name in ("report.md", "tables/data.md", "tables/tests/permutation.md"):
        tokens = [token for token in reader.parse(read(made, name)) if token.type == "inline"]
        shown = ["".join(child.content for child in token.children) for token in tokens]
        assert any(labels[0] in text for text in shown)
        assert "<b>" not in reader.render(read(made, name))
    assert labels[0] in {row[0] for row in csv.reader(read(made, "tables/data.csv").splitlines())}


@pytest.mark.filterwarnings("error")
def test_undefined_metrics_are_told_and_not_drawn(tmp_path):
    made = report([undefined(tmp_path / "cell", reason="a | reason")], pages=False)
    assert made.figures == {}
    assert {what for what, _ in made.left_out} >= {f"figure {name}" for name in FIGURES}
    assert "a | reason" in str(made)
    assert "a \\| reason" in read(made, "report.md")
    rows = read(made, "tables/attention_correlation.md").splitlines()
    assert sum("| - | - | - | 0 | 10 |" in row for row in rows) == 3
    assert "Undefined, left out of the means: a \\| reason (10)." in rows


@pytest.mark.filterwarnings("error")
def test_one_text(tmp_path, monkeypatch):
    def drawn(figure, panels, folder, stem, found):
        with style():
            draw(figure, panels)
        return []

    monkeypatch.setattr(module, "write", drawn)
    made = report([single(tmp_path / "cell")], pages=False)
    assert set(made.figures) == set(DRAWN)
    assert "| - | " in read(made, "tables/attention_correlation.md")  # no interval of one text


@pytest.mark.filterwarnings("error")
def test_columns_of_an_older_version(tmp_path, few_figures):
    made = report([older(tmp_path / "cell")])
    assert made.pages[0].is_file()
    lacking = {what for what, _ in made.left_out}
    assert lacking == {"figure negative_differences", *(f"figure {name}" for name in set(FIGURES) - set(DRAWN))}
    assert "an older version wrote the run" in str(made)


def test_some_runs_are_finished(tmp_path, no_figures):
    copied(tmp_path / "done")
    copied(tmp_path / "begun")
    (tmp_path / "begun" / "meta.json").unlink()
    copied(tmp_path / "old", schema=1)
    made = report([tmp_path], pages=False)
    assert {what: why.split(":")[0] for what, why in made.left_out if str(tmp_path) in what} == {
        str(tmp_path / "begun"): "not finished",
        str(
            tmp_path / "old"
        ): f"{tmp_path / 'old'} was written by an older attn-faithful (schema 1, this one reads 2); "
        "run the command that made it again.",
    }
    assert "Left out" in read(made, "report.md")


@pytest.mark.parametrize("missing", ["nothing", "a file"])
def test_no_run_is_an_error_and_leaves_nothing(tmp_path, missing):
    if missing == "a file":
        (tmp_path / missing).write_text("")
    with pytest.raises(InputError):
        report([tmp_path / missing], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(InputError, match=r"expected a folder, but .*out is a file"):
        report([LSTM], tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


# --- files


def test_where_it_goes(tmp_path, no_figures):
    for name in ("runs/a/one", "runs/b/two"):
        copied(tmp_path / name)
    assert report([tmp_path / "runs/a", tmp_path / "runs/b/two"], pages=False).path == tmp_path / "runs" / "report"
    # a report that lies among the runs is none of them
    assert len(json.loads(read(report([tmp_path / "runs"], pages=False), "index.json"))["runs"]) == 2


def test_a_second_report_replaces_the_first_and_nothing_else(tmp_path, no_figures, monkeypatch):
    path, out = copied(tmp_path / "cell"), tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    first = files(report([path], out, pages=False).path)
    summary = json.loads((path / "summary.json").read_text())
    kept = [record for record in summary["tests"] if record["metric"] != "spearman"]
    (path / "summary.json").write_text(json.dumps({**summary, "tests": kept}))
    second = files(report([path], out, pages=False).path)
    assert first - second == {f"tables/spearman.{ending}" for ending in ("md", "tex", "csv")}
    assert second < first
    assert (out / "notes.txt").read_text() == "mine"
    # names in a file that someone wrote do not lead out of the folder
    (tmp_path / "victim").write_text("mine")
    (out / "index.json").write_text(json.dumps({"files": ["../victim", "notes.txt/..", 3]}))
    report([path], out, pages=False)
    assert (tmp_path / "victim").read_text() == "mine"


def test_nothing_half_written_stays(tmp_path, no_figures, monkeypatch):
    path = copied(tmp_path / "cell")
    report([path], pages=False)
    before = {name: (path / "report" / name).read_bytes() for name in files(path / "report")}

    def fail(*given, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write_figures", fail)
    with pytest.raises(OSError, match="No space"):
        report([path], pages=False)
    assert {name: (path / "report" / name).read_bytes() for name in files(path / "report")} == before
    assert [p.name for p in path.iterdir() if p.name.startswith(".")] == []


def test_pages_of_one_run_and_of_several(tmp_path, no_figures):
    copied(tmp_path / "one")
    copied(tmp_path / "two", seed=2)
    single_page = report([tmp_path / "one"])
    assert single_page.pages == [tmp_path / "one" / "report" / "page.html"]
    several = report([tmp_path])
    assert several.pages == [tmp_path / "report" / "pages" / f"{name}.html" for name in ("one", "two")]
    assert all(page.is_file() for page in several.pages)
    assert "[Mock-1 lstm, seed 2](pages/two.html)" in read(several, "report.md")


def test_names_of_files():
    names = Names()
    assert [names(title) for title in ("a b", "A/b", "../..", "", "中文", "x" * 200)] == [
        "a-b",
        "A-b-2",
        "cell",
        "cell-2",
        "cell-3",
        "x" * 80,
    ]


# --- the paper's numbers


def test_numbers_beside_the_paper_come_with_the_recipe(tmp_path, no_figures):
    copied(tmp_path / "cell")
    (tmp_path / "cell" / "recipe.json").unlink()
    made = report([tmp_path], pages=False)
    assert "beside_the_paper" not in made.tables
    assert any("holds no recipe.json; attn-faithful run RECIPE writes it" in why for _, why in made.left_out)
    expected = {"key": ["encoder"], "metrics": ["base_f1"], "band": {}, "rows": {"lstm": [0.5]}}
    made = report([tmp_path], recipe={"claim": "c", "expected": expected}, pages=False)
    assert "| lstm | base_f1 | 1.000 | 0.5000 | - | - | - |" in read(made, "tables/beside_the_paper.md")
    made = report([tmp_path], recipe={"claim": "c", "expected": {**expected, "rows": {"mlp": [0.5]}}}, pages=False)
    assert any("none of its rows was run" in why for _, why in made.left_out)


def test_what_cannot_be_had_says_so_in_its_row(tmp_path, no_figures):
    claim = "Amini and Kosseim, tables 2 and 3"
    path = copied(tmp_path / "cell", recipe={"claim": claim})
    rows = {"Mock-1 lstm": [0.5, 0.03], "SST mlp": [0.8, 0.3], "Anemia mlp": [0.915, None]}
    expected = {"key": ["data", "encoder"], "metrics": ["base_f1", "attefa"], "band": {}, "rows": rows}
    edit(path / "recipe.json", claim=claim, expected=expected)
    made = report([tmp_path], pages=False)
    table = read(made, "tables/beside_the_paper.md")
    command = "attn-faithful run recipes/papers/amini_kosseim.yaml --only data=Anemia --data-dir DIR"
    why = f"not here: MIMIC-III needs PhysioNet credentials; with a folder of it: {command}"
    assert f"| Anemia mlp | {why} | - | - | - | - | - |" in table
    assert "Printed and not run: SST mlp; attn-faithful run recipes/papers/amini_kosseim.yaml runs them." in table
    held = list(csv.DictReader(read(made, "tables/beside_the_paper.csv").splitlines()))
    assert [(row["cell"], row["metric"], row["paper"], row["why"]) for row in held if row["why"]] == [
        ("Anemia mlp", "base_f1", "0.915", why)
    ]
    assert faults(read(made, "tables/beside_the_paper.tex")) == []
    # and every number of the paper is looked for
    assert "## Number by number: Amini and Kosseim" in read(made, "report.md")
    assert re.search(r"\| table 3 \| .* \| \[attefa\]\(tables/attefa.md\), \[beside", read(made, "report.md"))
    assert "| figure 1 | distribution of AtteFa | not here: what it needs was not run |" in read(made, "report.md")


# --- in words and in a notebook


def test_what_is_printed(golden):
    lines = str(golden).splitlines()
    assert lines[0] == "Mock-1 lstm: 10 test texts, seed 1."
    assert lines[1].startswith("On 10 texts the model has accuracy 1.00 (0.72 to 1.00)")
    assert lines[2].startswith("No verdict: few texts, 10 of at least 30")
    assert lines[3].startswith("In 5 of 10 texts (50%) no attention at all could change the decision")
    assert any(line.startswith("Left out: figure entropy_by_setting: needs the test entropy") for line in lines)
    assert lines[-1] == f"Report: {golden.path / 'report.md'} ({len(golden.tables)} tables, 13 figures, 0 pages)"


def test_one_reason_is_told_once(tmp_path):
    made = Report(tmp_path, left_out=[("a", "why"), ("b", "other"), ("c", "why")])
    assert made.reasons() == [("a, c", "why"), ("b", "other")]


def test_a_notebook_shows_figures_and_escapes(tmp_path):
    result = Result(relabelled(tmp_path / "cell", EVIL, data=EVIL[0]))
    figures = result.figures
    assert list(figures) == DRAWN
    assert figures["negative_differences"].startswith(b"\x89PNG")
    assert set(figures.missing) == set(FIGURES) - set(DRAWN)
    assert "nothing" not in figures
    page = figures.draw("negative_differences")
    assert page.axes[0].get_xlabel()
    with pytest.raises(InputError, match="Unknown figure 'tau'"):
        figures.draw("tau")
    with pytest.raises(KeyError, match="Did you mean 'permutation'"):
        figures["permutations"]
    with pytest.raises(KeyError, match="needs ROAR"):
        figures["roar"]
    html = Report(tmp_path, ["<i>line</i>"], left_out=[("<b>x</b>", "a & b")])._repr_html_()
    assert "&lt;i&gt;line&lt;/i&gt;" in html
    assert "&lt;b&gt;x&lt;/b&gt;: a &amp; b" in html


def test_a_result_is_the_view_of_its_run():
    result = Result(LSTM)
    assert result.scores("attention_permutation").index.tolist() == result.ids == list(result.examples["example"])
    assert result.text(0).words == list(result.tokens["tokens"][0])
    assert result.text(-1).title.startswith(f"#{len(result.ids)}, predicted")
    with pytest.raises(IndexError):
        result.text(len(result.ids))


def test_figures_as_html(monkeypatch):
    monkeypatch.setattr("attn_faithful.reports.figures.png", lambda *drawn: b"png")
    figures = Result(LSTM).figures
    assert (
        repr(figures["tau_histograms"]) == f"{figures['tau_histograms']}" == "Picture('tau_histograms', png of 3 bytes)"
    )
    assert figures["tau_histograms"] == b"png"
    html = figures._repr_html_()
    assert figures["tau_histograms"]._repr_html_() in html
    assert html.count("<figure>") == 13
    assert 'src="data:image/png;base64,cG5n"' in html
    assert "Not drawn" in html


def test_a_result_writes_its_report(tmp_path, no_figures):
    made = Result(copied(tmp_path / "cell")).report(tmp_path / "out")
    assert made.path == tmp_path / "out"
    assert (tmp_path / "out" / "page.html").is_file()
    assert RunFolder(tmp_path / "cell").done
