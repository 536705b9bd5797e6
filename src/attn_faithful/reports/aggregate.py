"""From finished run folders to the rows that a table shows: means over seeds, intervals, the spread between bases."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.functional.attefa import bootstrap_attefa
from attn_faithful.reports.divergences import jsd_of_lists, tvd
from attn_faithful.reports.run_differences import comparable, tails, told_apart
from attn_faithful.store import RunFolder

FOLDER = "folder"  # the axis that tells runs apart which nothing else does

Member = tuple[RunFolder, dict[str, Any]]


def aggregate(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """One record a group of runs that differ in nothing but the seed.

    Returns:
        records with ``axes`` (see `reports.run_differences.told_apart`), ``named`` (the axes as the run itself tells
        them), ``comparable`` (what two records must share to be compared), ``seeds``, ``runs``, ``base`` (means over
        seeds), ``twins`` (variant -> record, with one entry a seed in ``by_seed``), ``base_pairs`` (TVD and JSD between
        bases of different seeds: the yardstick beside the twins), ``informative_mass``, ``tests``, ``metrics``,
        ``facts``, ``label_names``, ``controls``, ``data`` and ``select_on``.
    """
    return [_group(axes, members) for axes, members in _groups([(run, run.read_meta()) for run in runs])]


def _groups(members: Sequence[Member]) -> list[tuple[dict[str, str], list[Member]]]:
    """Axes and runs that differ in nothing but seeds. Where a seed stands twice, the folder's name is an axis too."""
    axes = told_apart([meta for _, meta in members])
    by_axes: dict[tuple[Any, ...], list[Member]] = {}
    for own, member in zip(axes, members, strict=True):
        by_axes.setdefault(tuple(own.items()), []).append(member)
    groups: list[tuple[dict[str, str], list[Member]]] = []
    for key, found in by_axes.items():
        seeds = [meta["seed"] for _, meta in found]
        if len(set(seeds)) == len(seeds):
            groups.append((dict(key), found))
            continue
        names = [run.path.name for run, _ in found]
        if len(set(names)) < len(names):
            names = tails([str(run.path) for run, _ in found])
        groups += [({**dict(key), FOLDER: name}, [member]) for name, member in zip(names, found, strict=True)]
    return groups


def _group(axes: dict[str, str], members: list[Member]) -> dict[str, Any]:
    members = sorted(members, key=lambda member: member[1]["seed"])
    summaries = [run.read_summary() for run, _ in members]
    masses = [s["informative_mass"] for s in summaries if s["informative_mass"] is not None]
    controls = {name for s in summaries for name in s["controls"]}
    return {
        "axes": axes,
        "named": members[0][1]["axes"],
        "comparable": comparable(members[0][1]),
        "seeds": [meta["seed"] for _, meta in members],
        "runs": [str(run.path) for run, _ in members],
        "base": {name: _over([s["base"].get(name) for s in summaries]) for name in ("accuracy", "f1", "roc_auc")},
        "twins": _twins(members, summaries),
        "base_pairs": _base_pairs(members),
        "informative_mass": _over(masses),
        "tests": _tests(summaries),
        "metrics": {name: facts for s in summaries for name, facts in s.get("metrics", {}).items()},
        "facts": _facts(members, summaries),
        "label_names": members[0][1]["label_names"],
        "controls": {
            name: _over([s["controls"][name]["f1"] for s in summaries if name in s["controls"]])
            for name in sorted(controls)
        },
        "data": members[0][1]["data"],
        "select_on": _select_on(members[0][1].get("recipe", {})),
    }


def _tests(summaries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tests' records, each value the mean over seeds, with ``std_seeds`` and ``n`` over all of them."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    names = ("test", "metric", "site", "source", "class")
    for summary in summaries:
        for record in summary.get("tests", []):
            groups.setdefault(tuple(record[name] for name in names), []).append(record)
    found = []
    for key, records in groups.items():
        means = {m: _over([r[m] for r in records])["mean"] for m in ("mean", "std", "low", "high")}
        counts = {name: sum(r[name] for r in records) for name in ("n", "n_undefined")}
        reasons: Counter[str] = Counter()
        for record in records:
            reasons.update(record["reasons"])
        seeds = _over([r["mean"] for r in records])
        spread = {"std_seeds": seeds["std"], "n_seeds": seeds["n"], "reasons": dict(reasons)}
        found.append({**dict(zip(names, key, strict=True)), **means, **counts, **spread})
    return found


def _facts(members: Sequence[Member], summaries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What tests say beside means, with the seed behind the source where there are several."""
    several = len(members) > 1
    return [
        {**fact, "source": f"{fact['source']}, seed {meta['seed']}" if several else fact["source"]}
        for (_, meta), summary in zip(members, summaries, strict=True)
        for fact in summary.get("facts", [])
    ]


def _select_on(recipe: dict[str, Any]) -> list[str]:
    """The stages whose epoch was chosen on test data."""
    return [s for s in ("train", "twin") if recipe.get(s) is not None and recipe[s]["select_on"] == "test"]


def _over(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean and standard deviation (ddof 0) over seeds; undefined ones are counted."""
    defined = [v for v in values if v is not None and math.isfinite(v)]
    if not defined:
        return {"mean": math.nan, "std": math.nan, "n": 0, "n_undefined": len(values)}
    return {
        "mean": float(np.mean(defined)),
        "std": float(np.std(defined)),
        "n": len(defined),
        "n_undefined": len(values) - len(defined),
    }


def _twins(members: Sequence[Member], summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    records: dict[str, dict[str, Any]] = {}
    columns: dict[str, tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]] = {}  # TVD, JSD, ids by twin
    for (run, meta), summary in zip(members, summaries, strict=True):
        if not summary["twins"]:
            continue
        table = run.read_table("variants", ["example", "variant", "output_tvd", "attention_jsd"])
        examples = np.asarray(table.column("example").to_pylist())
        names = np.asarray(table.column("variant").to_pylist())
        moved = [np.asarray(table.column(name).to_pylist(), dtype=float) for name in ("output_tvd", "attention_jsd")]
        for name, twin in summary["twins"].items():
            record = records.setdefault(twin["variant"], {"by_seed": []})
            record["by_seed"].append(_of_seed(twin, meta["seed"]))
            stored = columns.setdefault(twin["variant"], ([], [], []))
            for held, values in zip(stored, (*moved, examples), strict=True):
                held.append(values[names == name])
    for variant, record in records.items():
        rows = record["by_seed"]
        for measure in (m for m in rows[0] if m not in ("base_seed", "seed", "collapsed", "reason")):
            record[measure] = _over([row[measure] for row in rows])
        tvd_by_twin, jsd_by_twin, examples_by_twin = columns[variant]
        low, high = bootstrap_attefa(tvd_by_twin, jsd_by_twin, examples_by_seed=examples_by_twin)
        record["attefa"] |= {"low": low, "high": high}
        record["collapsed"] = sum(row["collapsed"] for row in rows)
        record["n_examples"] = int(np.isfinite(columns[variant][1][0]).sum())
        record["n_undefined_examples"] = int(np.isnan(columns[variant][1][0]).sum())
    return records


def _of_seed(twin: dict[str, Any], base_seed: int) -> dict[str, Any]:
    row = {
        "base_seed": base_seed,
        "seed": twin["seed"],
        "epoch": twin["epoch"],
        "f1": twin["f1"],
        **{name: twin[name]["value"] for name in ("attefa", "tvd", "jsd", "constant_tvd")},
        "collapsed": twin["collapsed"]["value"],
        "reason": twin["attefa"]["reason"],
    }
    if "jsd_at_tvd" in twin:
        row["jsd_at_tvd"] = twin["jsd_at_tvd"]["value"]
        row["reason"] = twin["jsd_at_tvd"]["reason"]
    return row


def _base_pairs(members: Sequence[Member]) -> dict[str, Any]:
    """Mean TVD and JSD of every pair of bases that were trained on the same data with different seeds."""
    pairs: list[tuple[float, float]] = []
    trained = all("recipe" in meta for _, meta in members)  # seeds of an evaluation are of one model
    if trained and len(members) > 1 and len({meta["data"]["fingerprint"] for _, meta in members}) == 1:
        outputs = [_stored(run) for run, _ in members]
        for a, b in itertools.combinations(outputs, 2):
            if a[0] != b[0]:
                raise InputError("Two runs of one data set hold different examples; remove the older run folder.")
            found = tvd(a[1], b[1], _multi_label(members[0][1])), jsd_of_lists(a[2], b[2])
            both = np.isfinite(found[0]) & np.isfinite(found[1])
            pairs.append(tuple(float(v[both].mean()) for v in found) if both.any() else (math.nan, math.nan))
    return {"tvd": _over([first for first, _ in pairs]), "jsd": _over([second for _, second in pairs])}


def _multi_label(meta: dict[str, Any]) -> bool:
    return bool(meta["recipe"]["data"]["multi_label"])


def _stored(run: RunFolder) -> tuple[list[str], np.ndarray, list[list[float]]]:
    predictions = run.read_table("predictions", ["example", "probabilities"])
    tokens = run.read_table("tokens", ["site", "attention"]).to_pydict()  # the first site is that of the tokens
    attention = [a for site, a in zip(*tokens.values(), strict=True) if site == tokens["site"][0]]
    chances = np.asarray(predictions.column("probabilities").to_pylist(), dtype=float)
    return predictions.column("example").to_pylist(), chances, attention
