"""The page of two models: one HTML file that works offline, their differences first and every text to browse."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from attn_faithful.records.twins import TwinRecord
from attn_faithful.reports.compare.compared import Compared
from attn_faithful.reports.compare.differences import of_attention
from attn_faithful.reports.compare.tables import difference_table, distance_table, settings_table
from attn_faithful.reports.html.comparison_packing import pack_comparison
from attn_faithful.reports.html.packing import embedded
from attn_faithful.reports.html.page import BUDGET
from attn_faithful.reports.html.shell import look, templates
from attn_faithful.reports.numbers import number
from attn_faithful.reports.scores import interval_of

_NOTE = 600  # bytes that are kept for the note on what was left out


def comparison_page(compared: Compared, *, budget: int = BUDGET, seed: int = 0) -> str:
    """The page of two models as a string.

    Where not all texts fit into the budget, a sample in the order of a hash of seed and content is shown, and the page
    says so; tables and sentences are over all texts in any case.

    Args:
        compared: two models.
        budget: bytes that the page may take.
        seed: of the sample.

    Returns:
        HTML, which asks for nothing from elsewhere.
    """
    environment = templates()
    found = compared.differences
    of_attention_alone = of_attention(found)
    others = [each for each in found if each not in of_attention_alone]
    facts = {
        "title": compared.title,
        "about": compared.about,
        "notes": compared.notes,
        "sentences": compared.sentences,
        "sides": _sides(compared),
        "settings": settings_table(compared.settings),
        "distances": distance_table(compared.distances),
        "differences": difference_table(of_attention_alone, corrected=compared.n_tests),
        "others": difference_table(others, "Numbers of other sources of importance", compared.n_tests)
        if others
        else None,
        **look(
            environment,
            styles=["page.css.j2", "compare.css.j2"],
            scripts=["elements.js", "list.js", "heat.js", "compare.js"],
        ),
    }
    template = environment.get_template("compare.html.j2")
    empty = template.render(facts, data=Markup("{}"), sample=None)
    packed = pack_comparison(compared, budget - len(empty.encode()) - _NOTE, seed)
    html: str = template.render(facts, data=Markup(embedded(packed.data)), sample=packed.sample)
    return html


def _sides(compared: Compared) -> list[dict[str, Any]]:
    """What is known of each model by itself: its answer, or of a twin its AtteFa."""
    sides = [compared.first, compared.second]
    found: list[dict[str, Any]] = []
    for side, answer in zip(sides, compared.answers, strict=False):
        pill = {"key": answer.verdict.key if answer.verdict else "none", "text": answer.pill}
        lines = [f"{answer.competence_text} {answer.verdict_text}", *answer.doubts, *answer.statements]
        if answer.recommendation:
            lines.append(answer.recommendation)
        about = answer.about
        found.append({"letter": side.letter, "name": side.name, "pill": pill, "about": about, "lines": lines})
    twin = compared.second.twin
    if twin is not None:
        record = compared.first.run.twins[twin]
        about = "The twin: trained to predict what the base predicts, and to attend elsewhere."
        lines = _of_twin(record)
        found.append({"letter": "B", "name": compared.second.name, "pill": None, "about": about, "lines": lines})
    return found


def _of_twin(record: TwinRecord) -> list[str]:
    lines = [
        f"AtteFa {number(record.attefa.value)} ({interval_of(record.attefa) or 'no interval'}): TVD "
        f"{number(record.tvd.value)} over JSD {number(record.jsd.value)} / ln 2. Near 0: other attention, same "
        "predictions."
    ]
    if "f1" in record.metrics:
        lines.append(f"F1 {number(record.metrics['f1'])}.")
    if record.collapsed:
        lines.append("It gave up predicting (collapsed): it shows nothing of its base.")
    return lines
