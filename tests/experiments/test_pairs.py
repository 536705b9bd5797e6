"""Pairs from a file to a score: the query and the candidates reach base, twins and controls; bAbI is learned."""

import json
from pathlib import Path

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.model_settings import model_keys
from attn_faithful.experiments.prepare import collator, prepare
from attn_faithful.experiments.recipe import make_recipe
from attn_faithful.models.inference import run_over
from attn_faithful.models.pooled import AttentionClassifier
from tests.data.test_sources import folder
from tests.experiments.tiny import run

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
PEOPLE, PLACES = ("ann", "bob", "cy"), ("attic", "barn", "cellar", "den")


def stories(n, seed, candidates):
    """Who is where, in any order; the question is about one of them, and nothing but the query says about whom."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        places = [PLACES[i] for i in generator.integers(len(PLACES), size=len(PEOPLE))]
        said = [f"{person}-{place}" for person, place in zip(PEOPLE, places, strict=True)] + ["so"] * 2
        asked = int(generator.integers(len(PEOPLE)))
        row = {
            "passage": " ".join(generator.permutation(said)),
            "question": f"where is {PEOPLE[asked]} ?",
            "answer": places[asked],
        }
        if candidates:
            row["candidates"] = sorted({places[asked], *places[:2]})
        rows.append(row)
    return rows


def planted(path, candidates=False):
    splits = {"train": 240, "validation": 40, "test": 40}
    return folder(path, **{split: stories(n, seed, candidates) for seed, (split, n) in enumerate(splits.items())})


def cell(source, **changes):
    raw = {
        "name": "pairs",
        "data": {"source": source},
        "tokenizer": {"pre_tokenizer": "whitespace"},
        "model": {"encoder": "mlp", "embedding_size": 16, "hidden_size": 16},
        "train": {"epochs": 12, "batch_size": 16, "learning_rate": 2e-2, "select_by": "accuracy"},
        "twin": {"epochs": 3, "batch_size": 16, "learning_rate": 1e-2},
        **changes,
    }
    return expand(make_recipe(raw, "pairs"))[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A cell on planted pairs with three objectives, the control of uniform attention and the tanh read-out."""
    base = tmp_path_factory.mktemp("pairs")
    model = {"encoder": "mlp", "embedding_size": 16, "hidden_size": 16, "readout": "tanh"}
    variants = [{"objective": "constrained", "max_tvd": 0.2}, {"objective": "kl", "weight": 0.1}]
    one = cell(planted(base / "data"), model=model, variants=variants, wiegreffe_pinter=["uniform", "imposed"])
    return one, run(one, base / "cell")


def test_base_and_twins_of_pairs(whole):
    written = whole[1]
    summary = written.read_summary()
    assert summary["base"]["accuracy"] > 0.9
    assert set(summary["twins"]) == {"attefa-2", "constrained-0.2-2", "kl-0.1-2"}
    for twin in summary["twins"].values():
        assert 0 < twin["jsd"]["value"] < np.log(2)
        assert 0 <= twin["tvd"]["value"] <= 1
    table = written.read_table("predictions").to_pydict()
    assert np.sum(table["probabilities"], axis=1) == pytest.approx(np.ones(40), abs=1e-6)


def test_the_query_decides_where_the_model_looks(whole):
    tokens = whole[1].read_table("tokens").to_pydict()
    asked = [row["question"].split()[2] for row in stories(40, 2, False)]
    looked = [
        tokens["tokens"][i][int(np.argmax(weights))].startswith(f"{asked[i]}-")
        for i, weights in enumerate(tokens["attention"])
    ]
    assert np.mean(looked) > 0.9


def test_controls_of_pairs(whole):
    # with every token weighing the same, "ann-attic bob-barn" does not tell who was asked for: the read-out must know
    controls = whole[1].read_summary()["controls"]
    assert set(controls) == {"uniform", "imposed"}
    assert controls["imposed"]["accuracy"] > 0.8  # the base's attention alone says which token counts


def test_meta_counts_both_texts(whole):
    meta = whole[1].read_meta()["data"]
    assert any("Pairs: attention goes over 'passage', asked by 'question'." in note for note in meta["notes"])
    test = meta["test"]
    assert (test["tokens_mean"], test["query_tokens_mean"], test["query_tokens_std"]) == (5, 4, 0)
    assert (test["query_truncated"], test["query_empty"]) == (0, 0)


def test_a_model_that_was_saved_reads_pairs(whole):
    one, written = whole
    data = prepare(one.recipe)
    assert data.config.query
    assert (data.config.output, data.config.readout) == ("softmax", "tanh")
    model = AttentionClassifier.from_pretrained(written / "model")
    again = run_over(model, data.rows["test"], collator(data.rows["test"]))
    stored = written.read_table("predictions").to_pydict()["probabilities"]
    assert again.probabilities == pytest.approx(np.asarray(stored), abs=1e-6)


@pytest.mark.parametrize("control", ["uniform", "mlp", "imposed_uniform", "imposed"])
def test_controls_of_an_affine_readout_have_no_query_but_for_an_mlp_of_its_own_attention(tmp_path, control):
    train = {"epochs": 1, "batch_size": 16, "select_by": "accuracy"}
    one = cell(planted(tmp_path / "data", candidates=True), train=train, twin=None, wiegreffe_pinter=[control])
    assert set(run(one, tmp_path / "cell").read_summary()["controls"]) == {control}


@pytest.mark.parametrize("readout", ["affine", "tanh"])
def test_candidates_reach_every_model(tmp_path, readout):
    model = {"encoder": "mlp", "embedding_size": 8, "hidden_size": 8, "readout": readout}
    train = {"epochs": 1, "batch_size": 16, "select_by": "accuracy"}
    twin = {"epochs": 1, "batch_size": 16}
    one = cell(planted(tmp_path / "data", candidates=True), model=model, train=train, twin=twin)
    written = run(one, tmp_path / "cell")
    chances = np.asarray(written.read_table("predictions").to_pydict()["probabilities"])
    allowed = np.asarray(prepare(one.recipe).texts.splits["test"]["candidates"][:])
    assert 0 < allowed.mean() < 1
    assert np.array_equal(chances > 0, allowed > 0)
    variants = np.asarray(written.read_table("variants").to_pydict()["probabilities"])
    assert np.array_equal(variants > 0, allowed > 0)
    history = json.loads((written / "model" / "training.json").read_text())["history"]
    assert all(np.isfinite(row["loss"]) and np.isfinite(row["eval_loss"]) for row in history)


def test_vectors_begin_both_embeddings_and_frozen_ones_are_the_twins_too(tmp_path):
    rows = ["ann-attic 1 0", "so 0 1", "where 0.5 0.5", "ann 2 2"]
    (tmp_path / "v.txt").write_text("\n".join(rows))
    model = {"encoder": "mlp", "hidden_size": 8, "freeze_embeddings": True}
    train = {"epochs": 1, "batch_size": 16, "select_by": "accuracy"}
    twin = {"epochs": 1, "batch_size": 16}
    one = cell(
        planted(tmp_path / "data"), model=model, train=train, twin=twin, vectors={"path": str(tmp_path / "v.txt")}
    )
    written = run(one, tmp_path / "cell")
    base, other = (AttentionClassifier.from_pretrained(written / name) for name in ("model", "twin-2"))
    for model in (base, other):
        assert (model.embedding.weight == model.query_embedding.weight).all()
        assert (model.embedding.weight == base.embedding.weight).all()


def test_a_new_twin_of_frozen_random_embeddings_takes_both_from_its_base(tmp_path):
    model = {"encoder": "mlp", "embedding_size": 8, "hidden_size": 8, "freeze_embeddings": True}
    train = {"epochs": 1, "batch_size": 16, "select_by": "accuracy"}
    one = cell(planted(tmp_path / "data"), model=model, train=train, twin={"epochs": 1, "batch_size": 16})
    written = run(one, tmp_path / "cell")
    base, twin = (AttentionClassifier.from_pretrained(written / name) for name in ("model", "twin-2"))
    assert (twin.embedding.weight == base.embedding.weight).all()
    assert (twin.query_embedding.weight == base.query_embedding.weight).all()
    assert not (base.embedding.weight == base.query_embedding.weight).all()


def test_the_query_follows_from_the_data(tmp_path):
    assert "query" not in model_keys()
    assert "readout" in model_keys()
    source = planted(tmp_path / "data")
    assert prepare(cell(source).recipe).config.query
    single = prepare(cell(source, data={"source": source, "text_column": "passage"}).recipe)
    assert not single.config.query
    assert "query_input_ids" not in single.rows["test"].column_names
    turned = {"source": source, "text_column": "question", "query_column": "passage"}
    assert prepare(cell(source, data=turned).recipe).texts.splits["test"]["text"][0].startswith("where is")
    with pytest.raises(InputError, match="a query has no effect on an affine read-out"):
        prepare(cell(source, model={"encoder": "mlp", "attention": "uniform"}).recipe)


def test_the_vocabulary_is_of_both_texts_of_train(tmp_path):
    data = prepare(cell(planted(tmp_path / "data")).recipe)
    words = set(data.tokenizer.get_vocab())
    assert {"where", "is", "?", "so", *PEOPLE} <= words
    assert not any(data.tokenizer.unk_token_id in ids for ids in data.rows["test"]["query_input_ids"])


def test_the_data_is_the_same_cell_however_it_is_named(tmp_path):
    source = planted(tmp_path / "data")
    named = cell(source, data={"source": source, "query_column": "question"})
    assert named.recipe.data.query_column == "question"
    assert prepare(named.recipe).texts.fingerprint == prepare(cell(source).recipe).texts.fingerprint


# --- the whole battery, and real data


@pytest.mark.parametrize("readout", ["affine", "tanh"])
def test_every_test_runs_on_pairs_with_candidates(tmp_path, readout):
    tests = list(EVALUATORS)
    one = cell(
        planted(tmp_path / "data", candidates=True),
        data={"source": str(tmp_path / "data"), "limit": 30},
        model={"encoder": "lstm", "embedding_size": 8, "hidden_size": 8, "readout": readout},
        train={"epochs": 1, "batch_size": 16, "select_by": "accuracy"},
        twin=None,
        evaluation={"tests": tests, "test_settings": {"permutation": {"permutations": 10}}},
    )
    written = run(one, tmp_path / "cell")
    scores = written.read_table("scores").to_pydict()
    assert {EVALUATORS[name].metrics[0].name for name in tests} <= set(scores["metric"])
    for metric, value, reason in zip(scores["metric"], scores["value"], scores["reason"], strict=True):
        assert (reason is None) == bool(np.isfinite(value)), metric


@pytest.fixture
def shared():
    if not SHARED.is_dir():
        pytest.skip(f"needs the real data in {SHARED}")
    return SHARED


def test_babi_is_learned(tmp_path, shared):
    one = cell(
        str(shared / "babi_qa1"),
        tokenizer={},
        model={"encoder": "lstm", "embedding_size": 50, "hidden_size": 32},
        train={"epochs": 4, "learning_rate": 5e-3, "select_by": "accuracy"},
        twin=None,
    )
    written = run(one, tmp_path / "cell")
    assert written.read_summary()["base"]["accuracy"] > 0.4  # of six places: chance is .17, and 30 epochs give .98
    assert written.read_meta()["data"]["train"]["n"] == 900


def test_snli_runs(tmp_path, shared):
    one = cell(
        str(shared / "esnli"),
        data={"source": str(shared / "esnli"), "drop": ["-1"], "limit": 100},
        model={"encoder": "lstm", "embedding_size": 8, "hidden_size": 8, "readout": "tanh"},
        train={"epochs": 1},
        twin={"epochs": 1},
    )
    written = run(one, tmp_path / "cell")
    assert written.read_meta()["label_names"] == ["entailment", "neutral", "contradiction"]
    assert 0 < written.read_summary()["twins"]["attefa-2"]["jsd"]["value"] < np.log(2)
