"""From finished run folders to the rows that a table shows: means over seeds, intervals, the spread between bases."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.functional import faithfulness
from attn_faithful.functional.ragged import per_example_divergences
from attn_faithful.store import RunFolder


def aggregate(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """One record a group of runs that differ in nothing but the seed.

    Returns:
        records with ``axes``, ``seeds``, ``base`` (means over seeds), ``twins`` (variant -> record, with one entry a
        seed in ``by_seed``), ``base_pairs`` (TVD and JSD between bases of different seeds: the yardstick beside the
        twins), ``informative_mass``, ``tests``, ``metrics``, ``facts``, ``controls`` and ``data``.
    """
    groups: dict[tuple[tuple[str, str], ...], list[tuple[RunFolder, dict[str, Any]]]] = {}
    for run in runs:
        meta = run.read_meta()
        groups.setdefault(tuple(meta["axes"].items()), []).append((run, meta))
    return [_group(dict(axes), members) for axes, members in groups.items()]


def _group(axes: dict[str, str], members: list[tuple[RunFolder, dict[str, Any]]]) -> dict[str, Any]:
    members = sorted(members, key=lambda member: member[1]["seed"])
    summaries = [run.read_summary() for run, _ in members]
    masses = [s["informative_mass"] for s in summaries if s["informative_mass"] is not None]
    controls = {name for s in summaries for name in s["controls"]}
    return {
        "axes": axes,
        "seeds": [meta["seed"] for _, meta in members],
        "runs": [str(run.path) for run, _ in members],
        "base": {name: _over([s["base"][name] for s in summaries]) for name in ("accuracy", "f1", "roc_auc")},
        "twins": _twins(members, summaries),
        "base_pairs": _base_pairs(members),
        "informative_mass": _over(masses),
        "tests": _tests(summaries),
        "metrics": {name: facts for s in summaries for name, facts in s["metrics"].items()},
        "facts": _facts(members, summaries),
        "label_names": members[0][1]["label_names"],
        "controls": {
            name: _over([s["controls"][name]["f1"] for s in summaries if name in s["controls"]])
            for name in sorted(controls)
        },
        "data": members[0][1]["data"],
        "select_on": _select_on(members[0][1]["recipe"]),
    }


def _tests(summaries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tests' records, each value the mean over seeds, with ``std_seeds`` and ``n`` over all of them."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    names = ("test", "metric", "site", "source", "class")
    for summary in summaries:
        for record in summary["tests"]:
            groups.setdefault(tuple(record[name] for name in names), []).append(record)
    found = []
    for key, records in groups.items():
        means = {m: _over([r[m] for r in records])["mean"] for m in ("mean", "std", "low", "high")}
        counts = {name: sum(r[name] for r in records) for name in ("n", "n_undefined")}
        reasons = Counter()
        for record in records:
            reasons.update(record["reasons"])
        spread = _over([r["mean"] for r in records])["std"]
        found.append(
            {**dict(zip(names, key, strict=True)), **means, **counts, "reasons": dict(reasons), "std_seeds": spread}
        )
    return found


def _facts(members: Sequence[Any], summaries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What tests say beside means, with the seed behind the source where there are several."""
    several = len(members) > 1
    return [
        {**fact, "source": f"{fact['source']}, seed {meta['seed']}" if several else fact["source"]}
        for (_, meta), summary in zip(members, summaries, strict=True)
        for fact in summary.get("facts", [])
    ]


def _select_on(recipe: dict[str, Any]) -> list[str]:
    """The stages whose epoch was chosen on test data."""
    return [s for s in ("train", "twin") if recipe[s] is not None and recipe[s]["select_on"] == "test"]


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


def _twins(members: list[tuple[RunFolder, dict[str, Any]]], summaries: list[dict[str, Any]]) -> dict[str, Any]:
    records: dict[str, dict[str, Any]] = {}
    columns: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    for (run, meta), summary in zip(members, summaries, strict=True):
        if not summary["twins"]:
            continue
        table = run.read_table("variants", ["variant", "output_tvd", "attention_jsd"])
        names = np.asarray(table.column("variant").to_pylist())
        tvd = np.asarray(table.column("output_tvd").to_pylist(), dtype=float)
        jsd = np.asarray(table.column("attention_jsd").to_pylist(), dtype=float)
        for name, twin in summary["twins"].items():
            record = records.setdefault(twin["variant"], {"by_seed": []})
            record["by_seed"].append(_of_seed(twin, meta["seed"]))
            stored = columns.setdefault(twin["variant"], ([], []))
            stored[0].append(tvd[names == name])
            stored[1].append(jsd[names == name])
    for variant, record in records.items():
        rows = record["by_seed"]
        measures = [m for m in rows[0] if m not in ("base_seed", "seed", "collapsed", "reason")]
        for measure in measures:
            record[measure] = _over([row[measure] for row in rows])
        low, high = faithfulness.bootstrap_attefa(*columns[variant])
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


def _base_pairs(members: list[tuple[RunFolder, dict[str, Any]]]) -> dict[str, Any]:
    """Mean TVD and JSD of every pair of bases that were trained on the same data with different seeds."""
    same = {meta["data"]["fingerprint"] for _, meta in members}
    pairs: list[tuple[float, float]] = []
    if len(same) == 1:
        outputs = [_stored(run) for run, _ in members]
        for a, b in itertools.combinations(outputs, 2):
            if a[0] != b[0]:
                raise InputError("Two runs of one data set hold different examples; remove the older run folder.")
            tvd, jsd, _ = per_example_divergences(a[1], b[1], a[2], b[2], multi_label=_multi_label(members[0][1]))
            both = np.isfinite(tvd) & np.isfinite(jsd)
            pairs.append((float(tvd[both].mean()), float(jsd[both].mean())) if both.any() else (math.nan, math.nan))
    return {"tvd": _over([tvd for tvd, _ in pairs]), "jsd": _over([jsd for _, jsd in pairs])}


def _multi_label(meta: dict[str, Any]) -> bool:
    return bool(meta["recipe"]["data"]["multi_label"])


def _stored(run: RunFolder) -> tuple[list[str], list[list[float]], list[list[float]]]:
    predictions = run.read_table("predictions", ["example", "probabilities"])
    tokens = run.read_table("tokens", ["site", "attention"]).to_pydict()  # the first site is that of the tokens
    attention = [a for site, a in zip(*tokens.values(), strict=True) if site == tokens["site"][0]]
    return predictions.column("example").to_pylist(), predictions.column("probabilities").to_pylist(), attention
