"""Run folders of any texts with invented numbers, as `attn-faithful evaluate` would write them."""

from __future__ import annotations

import math
import re
from itertools import chain
from pathlib import Path

import numpy as np

from attn_faithful.reports.figures import FIGURES
from attn_faithful.reports.run import Run
from attn_faithful.schema import columns
from attn_faithful.store import RunFolder

LN2 = math.log(2)
# the figures that the tests which run unasked have the numbers for
DRAWN = [
    name for name, figure in FIGURES.items() if "setting" not in name and figure.test not in ("randomisation", "roar")
]
TESTS = ("correlation", "permutation", "adversarial", "flips")
SOURCES = ("input_x_gradient", "leave_one_out")
PARTS = ("classifier", "encoder.layer.1", "encoder.layer.0")  # of a model whose weights were drawn anew
MARKUP = [
    "</script><script>alert(1)</script> is a <b>bad</b> joke",
    'an <img src=x onerror="alert(2)"> & a "quote" \'here\'',
    "$x^2$ | a_b | 100% {{ 7 * 7 }} {% raw %} \\ <!-- ]]>",
]
ARABIC, CHINESE = "هذا الفيلم جميل جدا جدا", "这 部 电影 非常 好看"


def made(  # noqa: PLR0913 -- what a run folder can have
    path: str | Path,
    texts: list[str],
    *,
    sites=("pool",),
    tests=TESTS,
    labels=("negative", "positive"),
    gold=None,
    right=False,
    undefined=None,
    twins=False,
    constant=0.4,
    queries=None,
    shift=0.0,
    seed=0,
    **axes,
) -> Run:
    """A finished run.

    Args:
        path: of the folder.
        texts: their words are what lies between blanks.
        sites: where attention was tested.
        tests: that ran.
        labels: names of the classes.
        gold: labels of the texts; None for every other class.
        right: whether the labels are the predicted classes, but for every tenth.
        undefined: the reason why every score is undefined; None for scores that are not.
        twins: whether there is a twin.
        constant: TVD of the best constant prediction, beside it.
        queries: of pairs, one a text.
        shift: added to what the tests find: large numbers speak against attention.
        seed: of all numbers.
    """
    rng, folder, n = np.random.default_rng(seed), RunFolder(path), len(texts)
    ids = [f"t{i}" for i in range(n)]
    probabilities = rng.dirichlet(np.ones(len(labels)), n)  # (B, C)
    if right:
        gold = _nearly_right(probabilities)
    elif gold is None:
        gold = [i % len(labels) for i in range(n)]
    predictions = {"example": ids, "label": gold, "probabilities": probabilities.tolist()}
    if queries is not None:
        predictions["query"] = queries
    folder.write_table("predictions", predictions)

    tokens, variants, scores = _columns("tokens"), _columns("variants"), _columns("scores")
    for site in sites:
        for example, text in zip(ids, texts, strict=True):
            row = {"example": example, "site": site, "slot": 0}
            spans = [match.span() for match in re.finditer(r"\S+", text)]
            words = [text[start:end] for start, end in spans]
            _put(tokens, **row, tokens=words, offsets=list(chain.from_iterable(spans)), **_importance(rng, len(words)))
            for score in _scores(rng, len(words), shift, tests, undefined):
                _put(scores, **row, **score)
            moved = {"attention_jsd": 0.6, "output_tvd": 0.009, "attention": _shares(rng, len(words), 0.2)}
            if "adversarial" in tests and undefined is None:
                _put(variants, **row, test="adversarial", variant="exact-1", exact=True, **moved)
                _put(variants, **row, test="adversarial", variant="random exact-1", exact=True, **moved)
            if "flips" in tests and undefined is None:
                removed = [len(words) - 1] if words else []
                _put(variants, **row, test="flips", variant="smallest_set", removed=removed, exact=True)
                core = [0] if len(words) > 1 else []
                _put(variants, **row, test="flips", variant="certified_core", core=core, exact=True)
            if twins:
                _put(variants, **row, test="attefa", variant="attefa-10", **moved)
                _put(scores, **row, source="attefa-10", metric="jsd", value=0.6)
                _put(scores, **row, source="attefa-10", metric="tvd", value=0.01)
    for name, table in (("tokens", tokens), ("variants", variants), ("scores", scores)):
        if table["example"]:
            folder.write_table(name, _filled(table))
    folder.write_summary(
        {
            "base": {"accuracy": 0.8, "f1": 0.82, "roc_auc": None},
            "twins": {"attefa-10": _twin(n, constant)} if twins else {},
            "tests": _records(scores),
            "metrics": {},
            "facts": [],
            "informative_mass": None,
            "controls": {},
        }
    )
    folder.write_meta(
        {
            "axes": {"data": "reviews", "model": "lstm", **axes},
            "seed": seed,
            "label_names": list(labels),
            "split": "test",
            "evaluation": {"tests": list(tests), "units": "word", "settings": {}},
            "versions": {"attn_faithful": "0.1.0"},
            "data": {"notes": [], "fingerprint": "none", "vocabulary": 9, "vector_coverage": None},
        }
    )
    return Run(path)


def _nearly_right(probabilities):
    """The predicted classes as labels, another one for every tenth text."""
    gold = probabilities.argmax(1)
    gold[::10] = (gold[::10] + 1) % probabilities.shape[1]
    return gold.tolist()


def _importance(rng, n):
    """Attention and every source of importance of a text."""
    weights = {name: _shares(rng, n) for name in ("attention", *SOURCES)}
    weights["attention_gradient"] = (rng.normal(size=n) / 10).tolist()
    return weights


def _filled(table):
    """The columns that hold a value, and that of the reasons."""
    filled = {}
    for name, values in table.items():
        if name == "reason" or any(value is not None for value in values):
            filled[name] = values
    return filled


def _twin(n, constant):
    """The record of a twin whose base a constant prediction comes as near as `constant`."""
    counts = {"n": n, "n_undefined": 0, "reason": None}
    return {
        "variant": "attefa",
        "seed": 10,
        "epoch": 1,
        "f1": 0.8,
        "collapsed": {"value": False},
        "attefa": {"value": 0.03, "low": 0.02, "high": 0.04, **counts},
        "tvd": {"value": 0.01, **counts},
        "jsd": {"value": 0.6, **counts},
        "constant_tvd": {"value": constant, **counts},
    }


def _scores(rng, n, shift, tests, undefined):
    """What the tests that ran find in a text, NaN with the reason where it is undefined."""
    for test, metric, source, value in _found(rng, n, shift):
        if test in tests:
            value_or_nan = value if undefined is None else math.nan
            yield {"metric": metric, "source": source, "value": value_or_nan, "reason": undefined}


def _found(rng, n, shift):
    """Test, metric, source and value of everything that the page asks for."""
    for source in SOURCES:
        tau = float(np.clip(rng.normal(0.4 - shift, 0.2), -1, 1))
        yield "correlation", "attention_correlation", f"attention~{source}", tau
    yield "correlation", "attention_correlation", "input_x_gradient~leave_one_out", 0.6
    yield "correlation", "attention_correlation", "random~input_x_gradient", float(rng.normal(0, 0.1))
    jsd = float(np.clip(rng.beta(6, 2) * LN2 + shift, 0, LN2))
    for name, value in (
        ("adversarial_attention", jsd),
        ("adversarial_upper", jsd),
        ("jsd_reachable", LN2),
        ("attention_proof", 0.0),
    ):
        yield "adversarial", name, "attention", value
    yield "permutation", "attention_permutation", "attention", float(rng.beta(1, 8)) * max(0.0, 1 - 2 * shift)
    yield "permutation", "permutation_certified", "attention", float(rng.random() < 0.5)
    size = 1 + int(rng.integers(max(1, n)))
    for name, value in (("decision_flip", size / max(1, n)), ("flip_size", size), ("flip_never", 0.0)):
        yield "flips", name, "attention", float(value)
    for name, value in (("decision_flip", min(1.0, 1 / max(1, n))), ("flip_size", 1.0)):
        yield "flips", name, "smallest_set", value
    core = float(n > 1)
    for name, value in (("core_size", core), ("core_size_lower", core), ("core_share", core / max(1, n))):
        yield "flips", name, "certified_core", value
    yield "flips", "core_is_top", "attention", 1.0 if core else math.nan
    for metric, source, tau in _randomised(n):
        yield "randomisation", metric, source, tau


def _randomised(n):
    """Of attention, which falls below the read-out, of a source that falls at once, and of one that stays."""
    less = 0.01 * (n % 3)
    for source, taus in (
        ("attention", (1.0, 0.4 - less, 0.3 - less)),
        ("input_x_gradient", (0.2 - less, 0.1, -0.1)),
        ("random", (1.0, 1.0, 1.0)),
    ):
        for part, tau in zip(PARTS, taus, strict=True):
            yield "randomisation_cascading", f"{source}@{part}", tau
            yield "randomisation_single", f"{source}@{part}", tau
        yield "randomisation_tau", source, taus[-1]
        for draw, beside in enumerate((-0.1, 0.1)):
            yield "randomisation_draw", f"{source}@{draw}", 1.0 if source == "random" else taus[-1] + beside


def _records(scores):
    """One a site, source and metric over all texts, with an interval of two standard errors."""
    groups = {}
    columns_read = (scores["site"], scores["source"], scores["metric"], scores["value"])
    for site, source, metric, value in zip(*columns_read, strict=True):
        if source != "attefa-10":
            groups.setdefault((site, source, metric), []).append(value)
    records = []
    for (site, source, metric), values in groups.items():
        known = [value for value in values if not math.isnan(value)]
        mean, error = math.nan, math.nan
        if known:
            mean, error = np.mean(known), 2 * np.std(known) / math.sqrt(len(known))
        gone = len(values) - len(known)
        records.append(
            {
                "test": None,
                "metric": metric,
                "site": site,
                "source": source,
                "class": "all",
                "mean": mean,
                "std": None,
                "low": mean - error,
                "high": mean + error,
                "n": len(known),
                "n_undefined": gone,
                "reasons": {"constant attention": gone} if gone else {},
            }
        )
    return records


def _shares(rng, n, spread=1.0):
    return rng.dirichlet(np.full(n, spread)).tolist() if n else []


def _columns(name):
    return {column: [] for column in columns(name)}


def _put(table, **values):
    for name, held in table.items():
        held.append(values.get(name))


def long_texts(n: int, words: int = 40, seed: int = 0) -> list[str]:
    """Texts that differ, of about as many words."""
    rng = np.random.default_rng(seed)
    vocabulary = ["good", "film", "the", "a", "waste", "of", "hours", "superb", "acting", "plot", ",", "dull", "and"]
    return [f"text {i} " + " ".join(rng.choice(vocabulary, rng.integers(3, 2 * words - 6))) for i in range(n)]
