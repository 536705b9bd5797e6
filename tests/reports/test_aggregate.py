"""From run folders to the records of tables: means over seeds, pairs of bases, undefined values."""

import math

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.evaluators import attefa
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.groups import OverSeeds
from attn_faithful.reports.run import Run
from attn_faithful.store import RunFolder
from tests.reference import divergences as slow
from tests.reference import faithfulness as reference

LENGTHS = [3, 0, 5, 2]
EXAMPLES = [f"test-{i}" for i in range(4)]


def outputs(seed):
    generator = np.random.default_rng(seed)
    return generator.dirichlet([1, 1], size=4), [generator.dirichlet(np.ones(n)) if n else np.zeros(0) for n in LENGTHS]


def finished(  # noqa: PLR0913 -- what a run folder can have
    path,
    seed,
    f1=0.5,
    axes=None,
    fingerprint="same",
    twins=(5,),
    examples=EXAMPLES,
    max_tvd=None,
    multi_label=False,
    tests=None,
    controls=None,
):
    """A run folder as the stages leave it, with random outputs."""
    run, base = RunFolder(path), outputs(seed)
    run.write_table("predictions", {"example": examples, "label": [0] * 4, "probabilities": base[0].tolist()})
    attention = [weights.tolist() for weights in base[1]]
    run.write_table("tokens", {"example": examples, "site": ["pool"] * len(examples), "attention": attention})
    summary = {
        "base": {"f1": f1, "accuracy": 0.5, "roc_auc": None},
        "informative_mass": None,
        "controls": controls or {},
        "twins": {},
        "tests": tests or [],
        "metrics": {},
    }
    columns = {}
    for twin_seed in twins:
        variant = "attefa" if max_tvd is None else f"constrained-{max_tvd}"
        found = attefa.run(examples, base, outputs(100 * seed + twin_seed), f"{variant}-{twin_seed}")
        for name, values in found.items():
            columns.setdefault(name, []).extend(values)
        scores = attefa.score(np.asarray(found["output_tvd"]), np.asarray(found["attention_jsd"]), base[0], max_tvd)
        summary["twins"][f"{variant}-{twin_seed}"] = {
            "variant": variant,
            "seed": twin_seed,
            "epoch": 2,
            "f1": f1,
            **{name: number.as_json() for name, number in scores.items()},
        }
    if columns:
        run.write_table("variants", columns)
    run.write_summary(summary)
    recipe = {"train": {"select_on": "validation"}, "twin": {"select_on": "test"}, "data": {"multi_label": multi_label}}
    data = {"fingerprint": fingerprint}
    axes = axes or {"data": "a", "encoder": "mlp"}
    run.write_meta({"axes": axes, "seed": seed, "recipe": recipe, "data": data, "label_names": ["no", "yes"]})
    return Run(path)


def test_tests_over_seeds(tmp_path):
    def tested(mean, n, n_undefined=0, **reasons):
        where = {"test": "correlation", "metric": "tau", "site": "pool", "source": "a~b", "class": "all"}
        return [
            {
                **where,
                "mean": mean,
                "std": 0.1,
                "low": 0.0,
                "high": 1.0,
                "n": n,
                "n_undefined": n_undefined,
                "reasons": reasons,
            }
        ]

    runs = [
        finished(tmp_path / "a", 1, tests=tested(0.2, 3, 1, short=1)),
        finished(tmp_path / "b", 2, tests=tested(0.4, 4)),
        finished(tmp_path / "c", 3, tests=tested(None, 0, 4, short=4)),
    ]
    (record,) = aggregate(runs)
    (found,) = record.tests
    assert found.mean == pytest.approx(0.3)
    assert (found.std_seeds, found.n_seeds) == (pytest.approx(0.1), 2)
    assert (found.n, found.n_undefined, found.reasons) == (7, 5, {"short": 5})


def test_a_seed_without_a_number_is_counted(tmp_path):
    runs = [finished(tmp_path / str(seed), seed, f1) for seed, f1 in ((1, 0.5), (2, None), (3, 0.7))]
    (record,) = aggregate(runs)
    assert record.base.f1.mean == pytest.approx(0.6)
    assert (record.base.f1.n, record.base.f1.n_undefined) == (2, 1)


def test_means_over_seeds(tmp_path):
    values = (0.5, 0.7, 0.9)
    runs = [finished(tmp_path / str(s), s, f1, twins=(5, 6)) for s, f1 in zip((3, 1, 2), values, strict=True)]
    (record,) = aggregate(runs)
    assert record.seeds == [1, 2, 3]
    assert record.base.f1 == OverSeeds(pytest.approx(np.mean(values)), pytest.approx(np.std(values, ddof=0)), 3, 0)
    assert math.isnan(record.base.roc_auc.mean)
    assert record.base.roc_auc.n_undefined == 3
    twin = record.twins["attefa"]
    each = [run.summary.twins[name] for run in runs for name in ("attefa-5", "attefa-6")]
    for measure in ("attefa", "tvd", "jsd", "constant_tvd"):
        found, over_seeds = [one.numbers[measure].value for one in each], getattr(twin, measure)
        assert over_seeds.mean == pytest.approx(np.mean(found), abs=1e-12)
        assert over_seeds.std == pytest.approx(np.std(found, ddof=0), abs=1e-12)
        assert over_seeds.n == 6
    assert [(row.base_seed, row.seed) for row in twin.by_seed] == [(b, t) for b in (1, 2, 3) for t in (5, 6)]
    assert (twin.n_examples, twin.n_undefined_examples) == (3, 1)
    assert twin.collapsed == sum(one.collapsed for one in each)
    assert record.select_on == ["twin"]


def test_interval_draws_each_text_once_for_all_twins(tmp_path):
    runs = [finished(tmp_path / str(seed), seed, twins=(5, 6)) for seed in (1, 2)]
    (record,) = aggregate(runs)
    twins = []
    for run in runs:
        rows = run.read("variants").to_pydict()
        for name in sorted(set(rows["variant"])):
            kept = [i for i, variant in enumerate(rows["variant"]) if variant == name]
            values = {rows["example"][i]: (rows["output_tvd"][i], rows["attention_jsd"][i]) for i in kept}
            twins.append({text: pair for text, pair in values.items() if not any(map(math.isnan, pair))})
    assert len(twins) == 4
    expected = reference.bootstrap_attefa(twins, 1000, 0.95, 0)
    found = record.twins["attefa"]
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("multi_label", [False, True])
def test_pairs_of_bases_equal_loops(tmp_path, multi_label):
    runs = [finished(tmp_path / str(seed), seed, multi_label=multi_label) for seed in (1, 2, 3)]
    (record,) = aggregate(runs)
    tvd, jsd = [], []
    for one, two in ((1, 2), (1, 3), (2, 3)):
        a, b = outputs(one), outputs(two)
        kept = [i for i, n in enumerate(LENGTHS) if n]
        distance = slow.multilabel_tvd if multi_label else slow.tvd
        tvd.append({i: distance(a[0][i], b[0][i]) for i in kept})
        jsd.append({i: slow.jsd(a[1][i], b[1][i]) for i in kept})
    pairs = record.base_pairs
    for found, ends, by_pair in ((pairs.tvd, pairs.tvd_interval, tvd), (pairs.jsd, pairs.jsd_interval, jsd)):
        values = [np.mean(list(of_pair.values())) for of_pair in by_pair]
        assert found.mean == pytest.approx(np.mean(values), abs=1e-10)
        assert found.std == pytest.approx(np.std(values), abs=1e-10)
        assert found.n == 3
        assert ends == pytest.approx(reference.bootstrap_mean(by_pair, 1000, 0.95, 0), abs=1e-10)
    assert pairs.n_examples == 3  # one is empty


def test_controls_are_counted_over_the_seeds_of_bases_and_twins(tmp_path):
    runs = []
    for seed, (f1, accuracy, under_first, under_second) in ((1, (0.5, 0.6, 0.1, 0.2)), (2, (0.7, 0.8, 0.3, None))):
        controls = {"imposed": {"f1": f1, "accuracy": accuracy, "roc_auc": None}}
        for twin_seed, of_twin in ((5, under_first), (6, under_second)):
            entry = {"control": "imposed_twin", "variant": "attefa", "seed": twin_seed}
            controls[f"imposed_twin-attefa-{twin_seed}"] = {**entry, "f1": of_twin, "accuracy": 0.5, "roc_auc": 0.5}
        runs.append(finished(tmp_path / str(seed), seed, twins=(5, 6), controls=controls))
    (record,) = aggregate(runs)
    assert list(record.controls) == ["imposed", "imposed_twin attefa"]
    imposed, under_twins = record.controls.values()
    assert (imposed.f1.mean, imposed.accuracy.mean) == pytest.approx((0.6, 0.7), abs=1e-12)
    assert (imposed.f1.n, imposed.roc_auc.n_undefined) == (2, 2)
    assert under_twins.f1.mean == pytest.approx((0.1 + 0.2 + 0.3) / 3, abs=1e-12)
    assert under_twins.f1.std == pytest.approx(np.std([0.1, 0.2, 0.3]), abs=1e-12)
    assert (under_twins.f1.n, under_twins.f1.n_undefined, under_twins.accuracy.n) == (3, 1, 4)


def test_no_pairs_where_the_data_differ(tmp_path):
    runs = [finished(tmp_path / str(seed), seed, fingerprint=str(seed)) for seed in (1, 2)]
    found = aggregate(runs)
    assert [group.seeds for group in found] == [[1], [2]]
    assert [group.base_pairs.tvd.n for group in found] == [0, 0]
    assert aggregate(runs[:1])[0].base_pairs.tvd.n == 0


def test_runs_that_do_not_fit_each_other(tmp_path):
    runs = [finished(tmp_path / "a", 1), finished(tmp_path / "b", 2, examples=["x", *EXAMPLES[1:]])]
    with pytest.raises(InputError, match="hold different examples"):
        aggregate(runs)


def test_groups(tmp_path):
    axes = [{"data": "a", "encoder": e} for e in ("mlp", "lstm", "mlp")]
    runs = [finished(tmp_path / str(i), i, axes=a, twins=()) for i, a in enumerate(axes)]
    found = aggregate(runs)
    assert [(group.axes["encoder"], group.seeds) for group in found] == [("mlp", [0, 2]), ("lstm", [1])]
    assert found[0].twins == {}


def test_missed_limits_keep_their_reason(tmp_path):
    (record,) = aggregate([finished(tmp_path / "a", 1, max_tvd=0.01)])
    twin = record.twins["constrained-0.01"]
    assert math.isnan(twin.jsd_at_tvd.mean)
    assert twin.jsd_at_tvd.n_undefined == 1
    assert twin.by_seed[0].reason.startswith("missed: mean TVD")


def test_groups_as_plain_values(tmp_path):
    """What `run_recipe` returns: mappings, the seeds and runs named in them."""
    runs = [finished(tmp_path / str(seed), seed) for seed in (1, 2)]
    (record,) = (group.as_record() for group in aggregate(runs))
    assert (record["seeds"], record["runs"]) == ([1, 2], [str(run.path) for run in runs])
    assert set(record["base_pairs"]["jsd"]) == {"mean", "std", "n", "n_undefined", "low", "high"}
    assert record["base_pairs"]["n_examples"] == 3
    twin = record["twins"]["attefa"]
    assert set(twin["attefa"]) == {"mean", "std", "n", "n_undefined", "low", "high"}
    assert "jsd_at_tvd" not in twin["by_seed"][0]
    assert (twin["by_seed"][0]["base_seed"], record["base"]["f1"]["mean"]) == (1, 0.5)
    assert set(record) == {
        *("axes", "named", "comparable", "seeds", "runs", "base", "twins", "base_pairs", "informative_mass", "tests"),
        *("metrics", "facts", "label_names", "controls", "control_differences", "data", "select_on"),
    }
