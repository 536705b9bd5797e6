"""Shades of heat maps on light and dark grounds: what counts can be seen, and the words over it can be read."""

import re

import pytest

from attn_faithful.reports.html.heatmap import SHADED, _depth
from attn_faithful.reports.html.shell import TEMPLATES
from attn_faithful.reports.palette import HUES, INK, OTHER, between

SEEN, READ = 1.12, 4.5  # ratios: of a patch that stands out from its ground; of text (WCAG 2, level AA)
STYLES = (TEMPLATES / "page.css.j2").read_text(encoding="utf-8")
SCRIPT = (TEMPLATES / "heat.js").read_text(encoding="utf-8")


def channels(colour):
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def ratio(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def over(colour, ground, share):
    return [share * c + (1 - share) * g for c, g in zip(channels(colour), channels(ground), strict=True)]


def number(pattern, text):
    return float(re.search(pattern, text)[1])


def look(name):
    """Ground, ink and depth of the page's look."""
    light, dark = STYLES.split("{% else %}")[:2][::-1]
    text = dark if name == "dark" else light
    ink = re.search("--ink: (#[0-9a-f]{6})", text)
    return (
        re.search("--raised: (#[0-9a-f]{6})", text)[1],
        ink[1] if ink else INK,
        number(r"--depth: (\d+)%", text) / 100,
    )


HUED = [
    pytest.param(hue, id=key) for key, hue in {**HUES, "other": OTHER}.items() if key not in ("smallest", "informative")
]
SETS = ("smallest_set", "greedy_set", "certified_core")  # outlined, never shaded


@pytest.mark.parametrize("name", ["light", "dark"])
@pytest.mark.parametrize("hue", [p for p in HUED if p.id not in SETS])
def test_the_page_s_shades(hue, name):
    ground, ink, depth = look(name)
    faint, weakest = number(r"FAINT = ([\d.]+)", SCRIPT), number(r"WEAKEST = ([\d.]+)", SCRIPT)
    colour = getattr(hue, name)
    least = over(colour, ground, depth * (weakest + (1 - weakest) * faint))
    most = over(colour, ground, depth)
    assert ratio(least, channels(ground)) >= SEEN
    assert ratio(most, channels(ink)) >= READ
    assert (luminance(most) < luminance(least)) == (name == "light"), "as the legend says"


@pytest.mark.parametrize(("ground", "ink"), [("#ffffff", "#22252e"), ("#1e1e1e", "#e8e6df"), ("#111111", "#ffffff")])
@pytest.mark.parametrize("hue", [p for p in HUED if p.id not in SETS])
def test_a_notebook_s_shades_on_either_ground(hue, ground, ink):
    colour = between(hue)
    assert ratio(over(colour, ground, _depth(SHADED)), channels(ground)) >= SEEN
    assert ratio(over(colour, ground, _depth(1.0)), channels(ink)) >= READ
