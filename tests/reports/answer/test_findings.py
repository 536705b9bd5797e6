"""What each test says for the verdict: on which side of the lines of AttentionBench its number lies."""

import numpy as np
import pytest

from attn_faithful.reports.answer.findings import findings
from attn_faithful.reports.answer.verdict import AGAINST, FOR, OPEN
from attn_faithful.reports.run import Run
from attn_faithful.reports.scores import Scores
from tests.reports.made import long_texts, made

N = 60


def with_values(path, tests, values, twins=False, recipe=None):
    """A run of 60 texts whose scores are ``values``: (metric, source) -> of all texts, or one each; no others."""
    run = made(path, long_texts(N, 12), tests=[*tests, "permutation"], right=True, twins=twins)
    stored = run.read("scores").to_pydict()
    kept = [place for place, source in enumerate(stored["source"]) if source.startswith("attefa-")]
    table = {name: [column[place] for place in kept] for name, column in stored.items()}
    records = []
    for (metric, source), value in values.items():
        column = np.broadcast_to(np.asarray(value, dtype=float), N)
        known = column[np.isfinite(column)]
        error = 1.96 * known.std() / np.sqrt(len(known))
        mean = known.mean()
        record = {"test": None, "metric": metric, "site": "pool", "source": source, "class": "all", "std": None}
        counts = {"n": len(known), "n_undefined": N - len(known), "reasons": {}}
        records.append({**record, **counts, "mean": mean, "low": mean - error, "high": mean + error})
        for i, one in enumerate(column):
            row = {"example": f"t{i}", "site": "pool", "slot": 0, "source": source, "metric": metric, "value": one}
            for name in table:
                table[name].append(row.get(name))
    run.folder.write_table("scores", table)
    run.folder.write_summary({**run.folder.read_summary(), "tests": records})
    if recipe is not None:
        run.folder.write_meta({**run.folder.read_meta(), "recipe": recipe})
    run = Run(run.path)
    return {found.test: found.says for found in findings(Scores([run], run.main_site))}


def agreement(**taus):
    return {("attention_correlation", f"attention~{source}"): tau for source, tau in taus.items()}


@pytest.mark.parametrize(
    ("taus", "expected"),
    [
        (agreement(input_x_gradient=0.2, leave_one_out=0.7), FOR),
        (agreement(input_x_gradient=0.9, leave_one_out=0.6), AGAINST),
        (agreement(input_x_gradient=0.5), FOR),  # a gradient's line is lower
        (agreement(input_x_gradient=0.4), AGAINST),
        (agreement(input_x_gradient=0.5, leave_one_out=[0.9] * 20 + [np.nan] * 40), FOR),  # too few texts
        (agreement(leave_one_out=[0.9, 0.4] * 30), OPEN),
    ],
)
def test_agreement_with_leave_one_out_comes_first(tmp_path, taus, expected):
    assert with_values(tmp_path / "run", ["correlation"], taus)["correlation"] == expected


@pytest.mark.parametrize(("change", "expected"), [(0.3, FOR), (0.28, AGAINST), (0.12, AGAINST)])
def test_shuffling_has_to_change_the_probability_by_more_than_that_of_unfaithful_attention(tmp_path, change, expected):
    values = {("attention_permutation", "attention"): change}
    assert with_values(tmp_path / "run", ["permutation"], values)["permutation"] == expected


@pytest.mark.parametrize(("violated", "expected"), [(0, FOR), (1, FOR), (2, OPEN), (6, OPEN), (15, AGAINST)])
def test_polarity_by_removal(tmp_path, violated, expected):
    """Of 60 texts; one of 60 leaves up to 9% within the interval."""
    share = [1.0] * violated + [0.0] * (N - violated)
    says = with_values(tmp_path / "run", ["polarity"], {("polarity_violation_removal", "attention"): share})
    assert says["polarity"] == expected


def test_polarity_by_deletion_says_nothing(tmp_path):
    """It sees what a word says, whether it is attended to or not."""
    assert not with_values(tmp_path / "run", ["polarity"], {("polarity_violation", "attention"): 0.0})


def moves(jsd, upper, proof=0.0):
    return {
        ("adversarial_attention", "attention"): jsd,
        ("adversarial_upper", "attention"): upper,
        ("jsd_reachable", "attention"): np.log(2),
        ("attention_proof", "attention"): proof,
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (moves(0.05, 0.05), FOR),
        (moves(0.69, 0.69), None),  # that there is another attention says nothing
        (moves(0.05, 0.69), None),
        (moves(0.69, 0.69, proof=1.0), AGAINST),  # no attention changes the decision
        (moves(0.69, 0.69, proof=[1.0] * 33 + [0.0] * 27), None),
    ],
)
def test_another_attention_with_the_same_answer_speaks_against_nothing(tmp_path, values, expected):
    assert with_values(tmp_path / "run", ["adversarial"], values).get("adversarial") == expected


@pytest.mark.parametrize(("encoder", "expected"), [("mlp", AGAINST), ("none", AGAINST), ("lstm", None), (None, None)])
def test_a_twin_says_something_only_where_each_token_is_read_alone(tmp_path, encoder, expected):
    recipe = None if encoder is None else {"model": {"encoder": encoder}}
    says = with_values(tmp_path / "run", [], {}, twins=True, recipe=recipe)
    assert says.get("attefa") == expected
