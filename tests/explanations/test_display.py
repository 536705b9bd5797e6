"""What a notebook shows of another tool's explanations: the whole text once, shades by score, nothing as markup."""

import math
import re

from attn_faithful.explanations import Explanations, ScoredText
from attn_faithful.explanations.display import SHOWN

EVIL = "<b>bad</b> & caf\u00e9 \U0001f642"


def scored(scores=(-1.0, 0.5, math.nan), spans=((0, 10), (13, 17), (18, 19)), target="<i>no</i>"):
    return ScoredText(EVIL, ("",) * len(spans), spans, scores, target)


def text_of(html):
    """What a reader sees."""
    text = re.sub(r"<[^>]+>", "", html)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def shades(html):
    return [float(share) for share in re.findall(r"rgba\(\d+,\d+,\d+,([\d.]+)\)", html)]


def test_a_text_is_shown_whole_and_as_text():
    html = scored()._repr_html_()
    assert text_of(html) == f"<i>no</i>: {EVIL}"
    assert "<i>" not in html
    assert "<b>bad" not in html


def test_shades_follow_the_scores():
    html = scored()._repr_html_()
    assert shades(html) == [0.45, 0.225, 0.0]
    assert re.findall(r'title="([^"t]*)"', html) == ["-1", "0.5", "undefined"]
    assert html.count("underline") == 1  # the one against the class


def test_what_two_stretches_share_is_shown_once():
    html = scored((1.0, 0.5, 0.25), ((0, 10), (5, 17), (0, 0)), None)._repr_html_()
    assert text_of(html) == EVIL
    assert len(shades(html)) == 2


def test_scores_of_nothing_have_no_shade():
    assert shades(scored((0.0, 0.0, math.nan))._repr_html_()) == [0.0, 0.0, 0.0]


def test_many_texts_are_shown_in_part():
    found = Explanations("shap", (scored(),) * (SHOWN + 5))
    html = found._repr_html_()
    assert html.count('title="undefined"') == SHOWN
    assert "25 texts" in html
    assert "... and 5 more" in html
    assert "more" not in Explanations("shap", (scored(),))._repr_html_()
