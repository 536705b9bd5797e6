"""A hierarchical model from a recipe through every test, at its words and at its sentences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, SourceSettings, attribute
from attn_faithful.cli import main
from attn_faithful.store import find_runs
from tests.experiments.tiny import cells, run
from tests.models.test_han import documents, small_han
from tests.reference import conicity as reference

SETTINGS = {"architecture": "hierarchical", "encoder": "gru", "embedding_size": 8, "hidden_size": 4}
TEXTS = [
    {"id": "a", "text": "good good awful. superb!\nhorrible", "label": "positive"},
    {"id": "b", "text": "awful", "label": "negative"},
    {"id": "c", "text": "", "label": "negative"},
    {"id": "d", "text": "great something. awful awful. horrible horrible", "label": "negative"},
    {"id": "e", "text": "superb great good. something awful good", "label": "positive"},
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The run of a small hierarchical model with its twin."""
    return run(cells(model=SETTINGS)[0], tmp_path_factory.mktemp("han") / "cell")


@pytest.fixture(scope="module")
def evaluated(trained, tmp_path_factory):
    """All tests at both sites."""
    model, tokenizer = af.load(trained / "model")
    output = tmp_path_factory.mktemp("evaluated")
    return af.evaluate_attention(model, tokenizer, TEXTS, output=output, settings={"sites": ["word", "sentence"]})


def test_a_recipe_trains_a_hierarchical_model_and_its_twin(trained):
    summary = trained.read_summary()
    (twin,) = summary["twins"].values()
    assert math.isfinite(twin["attefa"]["value"])
    assert trained.read_meta()["data"]["test"]["sentences_mean"] == 1
    tokens = trained.read_table("tokens").to_pydict()
    assert set(tokens["site"]) == {"word"}  # nothing was tested
    assert sum(tokens["attention"][0]) == pytest.approx(1, abs=1e-6)


def test_words_and_sentences_are_stored(evaluated):
    tokens = evaluated.tokens
    row = {(r.example, r.site): r for r in tokens.itertuples()}
    assert len(row) == 2 * len(TEXTS)
    assert list(row["a", "sentence"].tokens) == ["good good awful.", "superb!", "horrible"]
    assert list(row["a", "word"].tokens) == ["good", "good", "awful.", "superb!", "horrible"]  # as mock data is split
    assert len(row["c", "sentence"].tokens) == 0
    for (example, site), found in row.items():
        if example != "c":
            assert sum(found.attention) == pytest.approx(1, abs=1e-5), (example, site)
        for source in ("input_x_gradient", "leave_one_out", "attention_gradient"):
            assert len(getattr(found, source)) == len(found.tokens), (example, site, source)
    text = TEXTS[0]["text"]
    spans = np.asarray(row["a", "sentence"].offsets).reshape(-1, 2)
    assert [text[a:b] for a, b in spans] == ["good good awful.", "superb!", "horrible"]


def test_every_test_says_something_at_both_sites(evaluated):
    table = evaluated.table()
    assert set(table["site"]) == {"word", "sentence"}
    metrics = {
        "attention_correlation",
        "attention_permutation",
        "adversarial_attention",
        "decision_flip",
        "comprehensiveness",
        "importance_entropy",
    }
    for metric in sorted(metrics):
        for site in ("word", "sentence"):
            found = table[(table.metric == metric) & (table.site == site)]
            assert len(found), (metric, site)
            assert (found.n + found.n_undefined == len(TEXTS)).all()
    # of one sentence nothing can be said, of one word neither
    undefined = table[(table.metric == "flip_neither") & (table.source == "attention")].set_index("site")
    assert undefined.n["sentence"] == undefined.n["word"] == 3
    ways = set(table[table.metric == "decision_flip"].source)
    assert {"smallest_set", "greedy_set"} <= ways  # exact over sentences, a bound over words


def test_conicity_of_words_and_of_sentences_equals_a_loop(trained, evaluated):
    """Of the words the mean over the sentences of two or more; the model itself gives the states."""
    model, tokenizer = af.load(trained / "model")
    table = evaluated.folder.read_table("scores").to_pandas()
    found = table[table.metric == "conicity"].set_index(["example", "site"])
    assert len(found) == 2 * len(TEXTS)
    for text in TEXTS:
        if not text["text"]:
            assert set(found.loc[text["id"]].reason) == {"no content token"}
            continue
        batch = {name: torch.tensor([ids]) for name, ids in tokenizer(text["text"]).items()}
        output = model(**batch, output_hidden_states=True)
        of_sentence = batch["sentence_ids"][0]
        words = [output.hidden_states[0][of_sentence == s].detach().numpy() for s in of_sentence.unique()]
        expected = {
            "word": reference.mean_conicity(words),
            "sentence": reference.conicity(output.sentence_states[0].detach().numpy()),
        }
        for site, value in expected.items():
            row = found.loc[text["id"], site]
            if value is None:
                assert math.isnan(row.value)
                assert row.reason == "n<2"
            else:
                assert row.value == pytest.approx(value, abs=1e-6)  # float32 states
    assert found.value.notna().sum() == 6


def test_loaded_models_agree_bit_for_bit(trained):
    first, tokenizer = af.load(trained / "model")
    second, _ = af.load(trained / "model")
    weights = second.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in first.state_dict().items())
    assert type(first).__name__ == "HANClassifier"
    assert tokenizer("good")["input_ids"]


def test_the_command_line_takes_sites(trained, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,label\n" + "\n".join(f'"{t["text"]}",{t["label"]}' for t in TEXTS))
    command = ["evaluate", str(trained / "model"), "--data", str(tmp_path / "a.csv"), "--output", str(tmp_path)]
    assert main([*command, "--tests", "flips", "--set", "evaluation.sites=[sentence]"]) == 0
    (folder,) = find_runs([tmp_path])
    scores = folder.read_table("scores").to_pydict()
    assert set(scores["site"]) == {"sentence"}
    assert "smallest_set" in scores["source"]
    capsys.readouterr()
    assert main([*command, "--tests", "flips", "--set", "evaluation.sites=[sentense]"]) == 2
    assert "sentence" in capsys.readouterr().err


def test_importance_from_a_file_is_by_token(trained, tmp_path):
    model, tokenizer = af.load(trained / "model")
    given = tmp_path / "given.jsonl"
    given.write_text('{"example": "b", "importance": [1.0]}\n')
    with pytest.raises(InputError, match=r"by token.*sites"):
        af.evaluate_attention(model, tokenizer, TEXTS, ["correlation"], output=tmp_path, source_file=given)


SUMMED = ("input_x_gradient", "integrated_gradients", "saliency")


@pytest.mark.parametrize("name", SUMMED)
@pytest.mark.parametrize("reduction", ["sum", "l1", "l2"])
def test_a_sentence_s_gradient_is_that_of_its_words(name, reduction):
    model, batch = small_han(), documents()
    settings = SourceSettings(reduction=reduction, sign="signed", outcome="logit", n_steps=5)
    values = {}
    for site in model.sites:
        request = Request(model, batch, model.encode(batch, site), settings, keys=["k"] * 4)
        values[site] = attribute(name, request).values
    for row, ids in enumerate(batch["sentence_ids"]):
        for sentence in range(4):
            held = values["word"][row][(ids == sentence) & batch["attention_mask"][row].bool()]
            total = {"sum": held.sum(), "l1": held.sum(), "l2": held.square().sum().sqrt()}[reduction]
            found = values["sentence"][row, sentence]
            assert bool(found.isnan()) if not len(held) else float(found) == pytest.approx(float(total), abs=1e-6)


@pytest.mark.parametrize("operator", ["delete", "zero"])
def test_a_sentence_left_out_is_one_that_is_not_there(operator):
    model, batch = small_han(), documents()
    encoded = model.encode(batch, "sentence")
    settings = SourceSettings(operator=operator, sign="signed", outcome="logit")
    found = attribute("leave_one_out", Request(model, batch, encoded, settings)).values
    target = encoded.logits.argmax(-1)
    for row, ids in enumerate(batch["sentence_ids"]):
        for sentence in encoded.content[row].nonzero()[:, 0].tolist():
            if operator == "delete":
                mask = batch["attention_mask"].clone()
                mask[row, ids == sentence] = 0
                after = model(**{**batch, "attention_mask": mask}).logits
            else:
                embedded = model.embedding(batch["input_ids"]).detach()
                embedded[row, ids == sentence] = 0
                given = {n: v for n, v in batch.items() if n != "input_ids"}
                after = model(inputs_embeds=embedded, **given).logits
            odds = [odd(z[row].double(), int(target[row])) for z in (encoded.logits, after)]
            assert float(found[row, sentence]) == pytest.approx(odds[0] - odds[1], abs=1e-5)
    occluded = attribute("occlusion", Request(model, batch, encoded, settings)).values
    if operator == "zero":
        torch.testing.assert_close(occluded, found, equal_nan=True, rtol=1e-5, atol=1e-5)


def odd(logits, target):
    others = torch.cat([logits[:target], logits[target + 1 :]])
    return float((logits[target] - others.logsumexp(0)).detach())


def test_a_document_s_numbers_do_not_depend_on_the_others(trained, evaluated, tmp_path):
    model, tokenizer = af.load(trained / "model")
    alone = af.evaluate_attention(
        model, tokenizer, TEXTS[:1], output=tmp_path, settings={"sites": ["word", "sentence"]}
    )
    tables = [result.folder.read_table("scores").to_pandas() for result in (evaluated, alone)]
    key = ["site", "slot", "source", "metric"]
    first, second = (t[t.example == "a"].set_index(key)["value"] for t in tables)
    assert len(second) > 200
    found = first.reindex(second.index)  # slots that others alone have are no rows of this one
    # other rows beside a row round a matrix product otherwise, and 500 steps of a search carry that on
    searched = second.index.get_level_values("metric").str.startswith("adversarial") & (
        second.index.get_level_values("site") == "word"
    )
    np.testing.assert_allclose(found[~searched], second[~searched], atol=1e-4)
    np.testing.assert_allclose(found[searched], second[searched], atol=2e-2)
