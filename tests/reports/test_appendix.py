"""The method appendix: its numbers are the summary's, its formulas and works hold together, and pdflatex sets it."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess

import pytest

from attn_faithful._checks import InputError
from attn_faithful.evaluators.metric_table import all_tests, metric_table
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.reports import report as module
from attn_faithful.reports.appendix import bibliography
from attn_faithful.reports.appendix.appendix import Appendix, appendix
from attn_faithful.reports.appendix.as_latex import as_sections
from attn_faithful.reports.appendix.definitions import DEFINITIONS, SOURCE_WORKS
from attn_faithful.reports.appendix.document import Cited, Grid, Maths, Name, Paragraph, Section
from attn_faithful.reports.appendix.tests_run import OF_TWINS
from attn_faithful.reports.report import report
from attn_faithful.reports.result import Result
from tests.reports.altered import CELLS, EVIL, FOREIGN, LSTM, MLP, copied, edit, relabelled, undefined
from tests.reports.test_escaping import TEXTS


def shown(value):
    """A number as a reader sees it: three digits, "-" where it is undefined."""
    if value is None or not math.isfinite(value):
        return "-"
    text = f"{value:.3f}"
    return text.lstrip("-") if float(text) == 0 else text


def ends(record):
    if record["low"] is None:
        return "-"
    return f"[{shown(record['low'])}, {shown(record['high'])}]"


def table(text, heading, rule="|"):
    """The cells of the first table of a section, without its head."""
    section = text[text.index(heading) :]
    lines = [line for line in section[: section.find("\n## ", 1)].splitlines() if line.startswith(rule)]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return rows[2:]


# --- numbers


@pytest.mark.parametrize("cell", [LSTM, MLP])
def test_numbers_are_those_of_the_summary(cell):
    summary = json.loads((cell / "summary.json").read_text(encoding="utf-8"))
    metrics, seen = summary["metrics"], set()
    rows = {row[0]: row[1:] for row in table(Result(cell).appendix().markdown, "## Numbers")}
    for record in summary["tests"]:
        first, sign, other = record["source"].partition("~")
        if record["class"] != "all" or record["metric"] not in DEFINITIONS or first != "attention" or not record["n"]:
            continue
        names = {"input_x_gradient": "input x gradient", "leave_one_out": "leave-one-out"}
        title = metrics[record["metric"]]["title"] + (f" with {names[other]}" if sign else "")
        title = title.replace("<", "&lt;")
        expected = [shown(record["mean"]), shown(record["std"]), ends(record), str(record["n"])]
        assert rows[title][:5] == [*expected, str(record["n_undefined"])], title
        seen.add(title)
    for name, twin in summary["twins"].items():
        for key, title in (("attefa", "AtteFa"), ("tvd", "TVD"), ("jsd", "JSD")):
            cells = next(row for first, row in rows.items() if first.startswith(f"{title} of the twin {name}"))
            assert cells[0] == shown(twin[key]["value"])
            assert cells[2:4] == [ends(twin[key]), str(twin[key]["n"])]
            seen.add(title)
    assert len(seen) > 15
    for record in summary["tests"]:
        if (record["metric"], record["source"], record["class"]) == ("attention_permutation", "random", "all"):
            assert rows["median TVD"][5] == shown(record["mean"])


def test_latex_has_the_numbers_of_the_markdown():
    made = Result(LSTM).appendix()
    for row in table(made.markdown, "## Numbers"):
        numbers = " & ".join(cell if cell != "-" else "-" for cell in row[1:])
        assert numbers + r" \\" in made.latex, row


def test_how_well_it_predicts_is_that_of_the_summary():
    base = json.loads((LSTM / "summary.json").read_text(encoding="utf-8"))["base"]
    (row,) = table(Result(LSTM).appendix().markdown, "## Data and models")
    assert row[4].split()[0] == shown(base["accuracy"])
    assert row[5] == shown(base["f1"])


def test_undefined_values_are_counted_with_their_reasons(tmp_path):
    path = copied(tmp_path / "cell")
    summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    for record in summary["tests"]:
        if record["metric"] == "attention_permutation" and record["source"] == "attention":
            record |= {"n": 7, "n_undefined": 3, "reasons": {"n<2": 3}}
    edit(path / "summary.json", tests=summary["tests"])
    text = Result(path).appendix().markdown
    (row,) = (row for row in table(text, "## Numbers") if row[0] == "median TVD")
    assert row[4:6] == ["7", "3"]
    assert re.search(r"Undefined, by reason\..*n&lt;2: median TVD 3", text)


def test_without_a_number_there_is_no_table_of_numbers(tmp_path):
    titles = [section.title for section in Result(undefined(tmp_path / "cell")).appendix().sections]
    assert "Numbers" not in titles
    assert "Tests and definitions" not in titles


# --- definitions and works


def test_every_definition_is_of_a_metric_and_every_test_has_one():
    names = {metric.name for metric in metric_table()}
    assert DEFINITIONS.keys() <= names
    for test in all_tests().values():
        assert DEFINITIONS.keys() & {metric.name for metric in test.metrics}, test.name


def test_numbers_of_twins_are_those_of_the_metric_table():
    metrics = {metric.name: metric for metric in metric_table()}
    for facts in OF_TWINS:
        metric = metrics[facts.name]
        assert (facts.title, facts.low, facts.direction) == (metric.title, metric.low, metric.direction)
        assert facts.high == pytest.approx(metric.high)


def test_formulas_are_whole():
    for name, definition in DEFINITIONS.items():
        bare = re.sub(r"\\[{}]", "", definition.formula)
        depth = 0
        for letter in bare:
            depth += (letter == "{") - (letter == "}")
            assert depth >= 0, name
        assert depth == 0, name
        assert "|" not in definition.formula, name


def test_every_work_that_is_cited_exists():
    for definition in DEFINITIONS.values():
        for key in definition.works:
            assert bibliography.work(key).key == key
    for keys in SOURCE_WORKS.values():
        for key in keys:
            assert bibliography.work(key).pages or bibliography.work(key).venue
    with pytest.raises(ValueError, match="Expected the key of a work, but got 'nobody-1999'"):
        bibliography.work("nobody-1999")


def test_the_appendix_cites_what_its_bib_holds():
    made = appendix([Result(LSTM), Result(MLP)])
    in_text = {key for keys in re.findall(r"\\cite\{([^}]*)\}", made.latex) for key in keys.split(",")}
    in_bib = set(re.findall(r"^@\w+\{([^,]*),", made.bibtex, re.MULTILINE))
    assert in_text == in_bib
    assert {"jain-wallace-2019", "serrano-smith-2019", "amini-kosseim-2022", "holm-1979"} <= in_bib
    assert "Jain and Wallace 2019" in made.markdown
    assert "- Sarthak Jain and Byron C. Wallace. Attention is not Explanation." in made.markdown


# --- settings and several runs


def test_settings_hold_what_nobody_gave(tmp_path):
    in_full = EvaluationSettings(tests=["permutation", "adversarial"]).in_full()
    assert in_full["permutation"] == {"permutations": 100, "identity": False}
    path = copied(tmp_path / "cell", test_settings=json.loads(json.dumps(in_full)))
    rows = dict(table(Result(path).appendix().markdown, "## Settings"))
    assert rows["test permutation"] == "permutations = 100; identity = false"
    assert "eps = 0.01" in rows["test adversarial"]
    older = Result(LSTM).appendix().markdown
    assert "All other settings of the tests are the defaults of attn_faithful" in older


def test_what_runs_share_is_said_once():
    text = appendix([Result(LSTM), Result(MLP)]).markdown
    assert text.count("Versions:") == 1
    assert text.count("SHA-256 of texts and labels") == 1
    assert re.search(r"Model \([^)]*lstm[^)]*\): .*encoder = lstm", text)
    assert re.search(r"Model \([^)]*mlp[^)]*\): .*encoder = mlp", text)


def test_many_runs_have_one_number_a_test():
    runs = [Result(LSTM), Result(MLP)] * 3
    text = appendix(runs).markdown
    assert "Of more than 4 runs one number a test." in text
    assert "permutation" in text
    first = [row[0] for row in table(text, "## Numbers")]
    assert "median TVD" in first
    assert "flips" not in first


# --- files, and what shows itself


def test_report_writes_it_and_takes_it_away(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FIGURES", {})
    made = report([CELLS], tmp_path / "report", pages=False, appendix=True)
    names = ["appendix.tex", "sections.tex", "appendix.md", "references.bib"]
    assert [path.name for path in made.appendix] == names
    for name in names:
        assert (tmp_path / "report" / "appendix" / name).is_file()
    assert "[appendix.tex](appendix/appendix.tex)" in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert f"Appendix: {made.appendix[0]}" in str(made)
    again = report([CELLS], tmp_path / "report", pages=False)
    assert again.appendix == []
    assert not (tmp_path / "report" / "appendix").exists()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "paper").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=r"Expected a folder for the appendix, but .* is a file"):
        Result(LSTM).appendix().write(tmp_path / "paper")
    assert (tmp_path / "paper").read_text(encoding="utf-8") == "mine"


def test_it_shows_itself():
    made = Result(LSTM).appendix()
    assert made._repr_markdown_() == repr(made) == str(made) == made.markdown
    assert made.markdown.startswith("# Method appendix: how attention was tested\n")


# --- LaTeX


def every_formula():
    """A section with every formula and work there is."""
    rows = []
    for name, definition in DEFINITIONS.items():
        rows.append(((name,), (Maths(definition.formula),), (Cited(definition.works),) if definition.works else ("",)))
    rows += [((source,), ("",), (Cited(works),)) for source, works in SOURCE_WORKS.items()]
    rows.append((("",), ("",), (Cited(("efron-tibshirani-1993", "wilson-1927", "wiegreffe-pinter-2019")),)))
    return Section("Every formula", (Grid(("name", "formula", "works"), tuple(rows), (0.25, 0.5, 0.15)),))


def hostile(path):
    """A run whose names are what LaTeX and Markdown read."""
    target = relabelled(path, EVIL, data=EVIL[0], encoder=FOREIGN[0])
    meta = json.loads((target / "meta.json").read_text(encoding="utf-8"))
    meta["data"]["source"] = "C:\\data\\" + "x" * 300 + "/ my%file$.csv"
    meta["data"]["notes"] = TEXTS
    meta["data"]["test"]["classes"] = {**dict.fromkeys(EVIL, 5), "l" * 200: 1}
    meta["recipe"]["model"]["encoder"] = "#&%_{"
    edit(target / "meta.json", **meta, model="~/runs/~ ^&#1/" + "y" * 200)
    return target


def test_names_are_text(tmp_path):
    made = Result(hostile(tmp_path / "cell")).appendix()
    assert "<b>" not in made.markdown
    assert r"\textless{}b\textgreater{}" in made.latex.replace(r"\allowbreak{}", "")


def test_names_break_where_they_may():
    made = as_sections([Section("Names", (Paragraph((Name("a_b select by"), ": ", Name("c" * 30))),))])
    assert r"a\_\allowbreak{}b select by: cccccccccccc\allowbreak{}cccccccccccc\allowbreak{}cccccc" in made


def test_pdflatex_sets_it(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex is installed; on Debian: apt-get install texlive-latex-recommended")
    runs = [Result(hostile(tmp_path / "cell")), Result(MLP)]
    made = Appendix((*appendix(runs).sections, every_formula()))
    folder = tmp_path / "paper"
    made.write(folder)
    for command in (["pdflatex"], ["bibtex"], ["pdflatex"], ["pdflatex"]):
        options = [] if command == ["bibtex"] else ["-interaction=nonstopmode", "-halt-on-error", "-draftmode"]
        run = subprocess.run([*command, *options, "appendix"], capture_output=True, cwd=folder, timeout=120)
        said = run.stdout.decode("utf-8", "replace")
        assert run.returncode == 0, said[-2000:]
        assert "Warning--" not in said, said
    assert "undefined" not in said
    assert "Missing character" not in said
    too_wide = [float(width) for width in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", said)]
    assert max(too_wide, default=0.0) < 10, said
