"""One hue a source of importance, the same in every figure, table and page, and safe for colour-blind readers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Hue:
    """The colour of one source.

    Attributes:
        name: what a reader calls the source.
        light: on a light ground, as ``#rrggbb``.
        dark: on a dark ground.
    """

    name: str
    light: str
    dark: str


HUES: dict[str, Hue] = {
    "attention": Hue("attention", "#2f6f73", "#7fc4c8"),
    "adversarial": Hue("another attention", "#a8441f", "#e2834f"),
    "saliency": Hue("gradient", "#5b5ea6", "#a9acef"),
    "input_x_gradient": Hue("input x gradient", "#8286cf", "#c3c5f5"),
    "integrated_gradients": Hue("integrated gradients", "#3a3d78", "#8f93dc"),
    "attention_gradient": Hue("gradient of attention", "#5b5ea6", "#a9acef"),
    "attention_x_gradient": Hue("attention x gradient", "#c2649e", "#b85f9a"),
    "leave_one_out": Hue("leave-one-out", "#a5842a", "#e0c878"),
    "state_saliency": Hue("gradient of states", "#8f92d6", "#cfd0fb"),
    "state_leave_one_out": Hue("states left out", "#cdb268", "#f4e6b8"),
    "hidden_gradient": Hue("what states depend on", "#47682a", "#7fae4e"),
    "occlusion": Hue("occlusion", "#c08a3e", "#e6bd83"),
    "signed_input_x_gradient": Hue("signed input x gradient", "#8286cf", "#c3c5f5"),
    "signed_integrated_gradients": Hue("signed integrated gradients", "#3a3d78", "#8f93dc"),
    "signed_leave_one_out": Hue("signed leave-one-out", "#a5842a", "#e0c878"),
    "given": Hue("given importance", "#3a7ca8", "#86c0e6"),
    "smallest": Hue("smallest set", "#26262b", "#f2f2f5"),
    "smallest_set": Hue("smallest set", "#26262b", "#f2f2f5"),
    "certified_core": Hue("certified core", "#26262b", "#f2f2f5"),
    "greedy_set": Hue("a small set", "#55555e", "#c4c4cc"),
    "rollout": Hue("rollout", "#4f9194", "#9ad4d7"),
    "raw_attention": Hue("raw attention", "#4f9194", "#9ad4d7"),
    "attention_flow": Hue("attention flow", "#1d4a4d", "#5da9ad"),
    "value_norm": Hue("attention x value norm", "#7a9f5a", "#b9d99b"),
    "value_zeroing": Hue("value zeroing", "#4f6d35", "#9fc07e"),
    "attention_relevance": Hue("attention relevance", "#c2649e", "#b85f9a"),
    "learned_heads": Hue("learned heads", "#7d4fa3", "#c39be6"),
    "informative": Hue("planted words", "#26262b", "#f2f2f5"),
    "random": Hue("random", "#8c8c8c", "#96969b"),
    "random_ranking": Hue("random ranking", "#8c8c8c", "#96969b"),
    "uniform": Hue("uniform", "#b3b3b3", "#7d7d7d"),
}
OTHER = Hue("other", "#6b6b76", "#a3a3ad")

_OF_DARK = 0.15  # text is read and weak shades are seen, on white and on black: tests/reports/html/test_contrast.py
INK, PAPER, RULE = "#22252e", "#fbfaf7", "#d9d6cd"  # text, ground and lines of the page's light look
MUTED = "#666a75"


def hue_of(source: str) -> Hue:
    """The hue of a source; of a comparison such as "attention~saliency" that of what attention is compared with.

    Example:
        >>> hue_of("attention~leave_one_out").name, hue_of("random~saliency").name, hue_of("attention").light
        ('leave-one-out', 'random', '#2f6f73')
    """
    parts = source.replace("-", "~").split("~")
    for control in ("random", "uniform"):
        if control in parts:
            return HUES[control]
    named = [part for part in parts if part in HUES]
    if not named:
        return OTHER
    others = [part for part in named if part != "attention"]
    return HUES[(others or named)[0]]


def title_of(source: str) -> str:
    """A source in words.

    Example:
        >>> title_of("attention~saliency"), title_of("leave_one_out-attention~saliency"), title_of("twin-3")
        ('attention ~ gradient', 'leave-one-out - attention ~ gradient', 'twin-3')
    """
    if not any(part in HUES for part in source.replace("-", "~").split("~")):
        return source
    for sign in ("~", "-"):
        if sign in source:
            return f" {sign} ".join(title_of(part) for part in source.split(sign))
    if source in HUES:
        return HUES[source].name
    return source


def between(hue: Hue) -> str:
    """The colour for light grounds, mixed with some of that for dark ones, where the ground is not known.

    Example:
        >>> between(Hue("", "#000000", "#804020"))
        '#130a05'
    """
    pairs = zip(channels(hue.light), channels(hue.dark), strict=True)
    return _colour(light + (dark - light) * _OF_DARK for light, dark in pairs)


def tint(colour: str, share: float) -> str:
    """A colour mixed with white: 1 leaves it as it is, 0 is white.

    Example:
        >>> tint("#2f6f73", 1), tint("#000000", 0.5), tint("#123456", 0)
        ('#2f6f73', '#808080', '#ffffff')
    """
    return _colour(255 - (255 - channel) * share for channel in channels(colour))


def channels(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of ``#rrggbb``, 0 to 255.

    Example:
        >>> channels("#ff8000")
        (255, 128, 0)
    """
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _colour(parts: Iterable[float]) -> str:
    return "#" + "".join(f"{round(part):02x}" for part in parts)
