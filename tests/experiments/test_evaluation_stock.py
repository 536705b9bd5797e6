"""Stock transformers models through every test, as a user meets them: a folder, a data set, one call."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2ForSequenceClassification

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from tests.data.pieces import bytes_of, wordpiece
from tests.experiments.tiny import DEFAULT_TESTS

TEXTS = [
    {"id": "a", "text": "good movies, not bad", "label": "positive"},
    {"id": "b", "text": "unbelievably bad", "label": "negative"},
    {"id": "c", "text": "", "label": "negative"},
    {"id": "d", "text": "bad bad good movie unbelievably good", "label": "positive"},
]
NAMES = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
SMALL = {
    "adversarial": {"search": {"steps": 3, "k": 2}},
    "permutation": {"permutations": 4},
    "flips": {"random": 1},
}


def bert(tokenizer, **settings):
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=16,
            pad_token_id=tokenizer.pad_token_id,
            **settings,
        )
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(5 if weight.dim() > 1 else 1)  # attention that is far from uniform
    return model.eval()


@pytest.fixture(scope="module")
def tokenizer():
    return wordpiece()


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("bert")
    bert(tokenizer, **NAMES).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def loaded(folder):
    return af.load(folder)


def evaluate(loaded, output, texts=TEXTS, tests=None, columns=None, **more):
    settings = {"controls": ["uniform"], "test_settings": SMALL, **more}
    return af.evaluate_attention(*loaded, texts, tests, output=output, settings=settings, **(columns or {}))


@pytest.fixture(scope="module")
def evaluated(loaded, tmp_path_factory):
    return evaluate(loaded, tmp_path_factory.mktemp("all"), sites=["all"])


def test_every_test_runs_at_every_layer(evaluated):
    table = evaluated.table()
    assert set(table["site"]) == {"layer.0", "layer.1"}
    tests = set(DEFAULT_TESTS)
    assert set(table["test"]) == tests
    defined = table[table["n"] > 0]
    assert set(defined["test"]) == tests
    for site in ("layer.0", "layer.1"):
        here = defined[defined["site"] == site].set_index(["metric", "source"])
        assert here.loc[("attention_permutation", "attention"), "n"] == 3  # an empty text says nothing
        assert 0 <= here.loc[("attention_permutation", "attention"), "mean"] <= 1
        assert -1 <= here.loc[("attention_correlation", "attention~leave_one_out"), "mean"] <= 1


def test_each_head_of_the_last_layer_has_its_answer(evaluated):
    scores = evaluated.read("scores").to_pandas()
    of_heads = scores[(scores["site"] == "layer.1") & (scores["source"] == "attention")]
    known = of_heads.pivot_table(index=["example", "slot"], columns="metric", values="value", dropna=False)
    known = known[["head_certified", "head_flipped", "head_open"]].loc[["a", "b", "d"]].dropna()
    assert known.index.get_level_values("slot").tolist() == [0, 1] * 3
    assert set(np.unique(known)) <= {0, 1}
    assert (known.sum(axis=1) == 1).all()
    shares = evaluated.table().set_index(["site", "metric", "source"])["mean"]
    assert shares["layer.1", "head_certified", "attention"] == pytest.approx(known["head_certified"].mean())
    assert evaluated.answer.statements[0] == (
        "In all 3 texts no attention of any one of the 2 heads could change the decision, the others keeping theirs "
        "(proved)."
    )


def test_tables_have_a_column_a_layer(evaluated):
    shown = [table for table in evaluated.tables() if "by site" in table.title]
    assert len(shown) == len(DEFAULT_TESTS)
    assert all(table.head[2:4] == ["layer.0", "layer.1"] for table in shown)
    assert {"layer.0 attention", "layer.1 attention"} <= {
        row[0] for table in evaluated.tables() if table.head[0] == "ranking" for row in table.rows
    }


def test_items_are_words_and_special_tokens_stand_outside(evaluated):
    tokens = evaluated.tokens.set_index(["example", "site"])
    row = tokens.loc[("b", "layer.1")]
    assert list(row["tokens"]) == ["unbelievably", "bad"]
    assert list(row["offsets"]) == [0, 12, 13, 16]
    assert 0 < sum(row["attention"]) < 1  # [CLS] and [SEP] hold the rest
    assert len(row["leave_one_out"]) == 2
    assert len(tokens.loc[("c", "layer.0")]["tokens"]) == 0


def test_importance_that_knows_no_site_is_the_same_at_each(evaluated):
    tokens = evaluated.tokens
    first, second = (tokens[tokens["site"] == f"layer.{i}"].set_index("example") for i in (0, 1))
    for name in ("leave_one_out", "input_x_gradient"):
        for example in first.index:
            assert np.array_equal(first.loc[example, name], second.loc[example, name])
    assert not all(np.array_equal(first.loc[e, "attention"], second.loc[e, "attention"]) for e in ("a", "b", "d"))


def test_numbers_do_not_depend_on_order_or_on_other_sites(loaded, evaluated, tmp_path):
    again = evaluate(loaded, tmp_path, TEXTS[::-1], sites=["layer.1"])
    before = evaluated.folder.read_table("scores").to_pandas()
    keys = ["example", "source", "metric", "slot"]
    before = before[before["site"] == "layer.1"].set_index(keys)["value"].sort_index()
    after = again.folder.read_table("scores").to_pandas().set_index(keys)["value"].sort_index()
    assert before.index.equals(after.index)
    assert np.allclose(before, after, atol=1e-6, equal_nan=True)


def test_leave_one_out_removes_all_pieces_of_a_word(loaded, tmp_path):
    result = evaluate(loaded, tmp_path, tests=["correlation"])
    model, tokenizer = loaded
    row = result.tokens.set_index("example").loc["b"]
    chances = result.examples.set_index("example").loc["b", "probabilities"]
    for word, rest in enumerate(("bad", "unbelievably")):
        with torch.no_grad():
            left = model.model(**tokenizer(rest, return_tensors="pt")).logits.softmax(-1)[0]
        assert row["leave_one_out"][word] == pytest.approx(abs(float(left[0]) - chances[0]), abs=1e-6)


def test_tokens_as_units_and_special_tokens_kept(loaded, tmp_path):
    tokens = evaluate(loaded, tmp_path / "t", tests=["entropy"], units="token").tokens.set_index("example")
    assert list(tokens.loc["b", "tokens"]) == ["un", "believ", "ably", "bad"]
    kept = evaluate(loaded, tmp_path / "k", tests=["entropy"], units="token", special_tokens="keep")
    row = kept.tokens.set_index("example").loc["b"]
    assert list(row["tokens"]) == ["[CLS]", "un", "##believ", "##ably", "bad", "[SEP]"]
    assert sum(row["attention"]) == pytest.approx(1, abs=1e-6)
    with pytest.raises(InputError, match="units to token"):
        evaluate(loaded, tmp_path, special_tokens="keep")


def test_sources_of_layers(loaded, tmp_path):
    named = ["raw_attention", "value_norm", "value_zeroing", "rollout", "attention_flow", "attention_relevance"]
    settings = {"correlation": {"against": named}}
    result = evaluate(loaded, tmp_path, tests=["correlation"], test_settings=settings, sites=["all"])
    rows = result.tokens.set_index(["example", "site"])
    for name in named:
        assert len(rows.loc[("a", "layer.0"), name]) == len(rows.loc[("a", "layer.0"), "tokens"])
        same = np.allclose(rows.loc[("a", "layer.0"), name], rows.loc[("a", "layer.1"), name])
        assert same == (name not in ("raw_attention", "value_norm", "value_zeroing"))


def test_all_layers_at_once(loaded, tmp_path):
    table = evaluate(loaded, tmp_path, tests=["permutation"], sites=["joint"]).table().set_index(["metric", "source"])
    assert table.loc[("attention_permutation", "attention"), "n"] == 3


def test_pairs_are_read_as_one_text(loaded, tmp_path):
    pairs = [{"id": "p", "context": "good movie", "query": "unbelievably bad", "label": "negative"}]
    result = evaluate(loaded, tmp_path, pairs, ["erasure", "correlation"])
    row = result.tokens.set_index("example").loc["p"]
    assert list(row["tokens"]) == ["good", "movie", "unbelievably", "bad"]
    model, tokenizer = loaded
    with torch.no_grad():
        expected = model.model(**tokenizer("good movie", "unbelievably bad", return_tensors="pt")).logits.softmax(-1)
    assert np.allclose(result.examples["probabilities"][0], expected[0], atol=1e-6)
    assert result.examples["query"][0] == "unbelievably bad"


def test_a_long_text_is_cut_and_counted(tokenizer, tmp_path):  # C24
    model = bert(tokenizer, max_position_embeddings=12, **NAMES)
    long = [{"id": "long", "text": "good bad " * 300, "label": "positive"}]
    result = evaluate((af.wrap(model), tokenizer), tmp_path, long, ["entropy"])
    assert result.meta["data"]["test"]["truncated"] == 1
    assert len(result.tokens["tokens"][0]) == 10


def test_a_model_without_padding_and_without_names(tmp_path):
    tokenizer = bytes_of()
    tokenizer.pad_token = None
    torch.manual_seed(0)
    model = GPT2ForSequenceClassification(
        GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=64)
    )
    chinese = [
        {"id": "zh", "text": "我喜欢电影", "label": "positive"},
        {"id": "ar", "text": "مرحبا", "label": "negative"},
        {"id": "en", "text": "a 😀 b", "label": "positive"},
        {"id": "none", "text": "", "label": "negative"},
    ]
    result = evaluate((af.wrap(model), tokenizer), tmp_path, chinese, ["correlation", "permutation", "erasure"])
    assert "have no names" in " ".join(result.meta["data"]["notes"])
    rows = result.tokens.set_index("example")
    assert list(rows.loc["zh", "tokens"]) == ["我", "喜欢", "电影"]  # by a segmenter: the tokenizer leaves it whole
    assert list(rows.loc["ar", "tokens"]) == ["مرحبا"]  # one word: its correlation is undefined, and says so
    assert list(rows.loc["en", "tokens"]) == ["a", "😀", "b"]
    scores = result.folder.read_table("scores").to_pandas()
    taus = scores[(scores["metric"] == "attention_correlation") & (scores["example"] == "ar")]
    assert taus["value"].isna().all()
    assert set(taus["reason"]) == {"n<2"}
    assert model.config.pad_token_id is None


def test_the_command_line_prints_a_table_by_layer(folder, tmp_path, capsys):
    (tmp_path / "d.csv").write_text("text,label\n" + "".join(f'"{t["text"]}",{t["label"]}\n' for t in TEXTS))
    given = ["evaluate", str(folder), "--data", str(tmp_path / "d.csv"), "--tests", "permutation,entropy"]
    assert main([*given, "--layers", "all", "--output", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().out
    assert "layer.0" in said
    assert "layer.1" in said
    few = ["--set", "evaluation.tests.adversarial.search.steps=1", "--set", "evaluation.controls=[]"]
    every = [*given[:4], "--tests", "all", *few, "--output", str(tmp_path / "runs")]
    assert main(every) == 0
    assert "adversarial" in capsys.readouterr().out
    assert main([*given, "--layers", "7", "--output", str(tmp_path / "runs")]) == 2
    assert "layer.7" in capsys.readouterr().err


def test_texts_without_labels_need_no_names(tokenizer, tmp_path):
    result = evaluate((af.wrap(bert(tokenizer)), tokenizer), tmp_path, ["good movie"], ["entropy"])
    assert result.meta["label_names"] == ["LABEL_0", "LABEL_1"]


def test_classes_that_cannot_be_told_apart_are_refused(tokenizer, tmp_path):
    with pytest.raises(InputError, match="id2label"):
        evaluate((af.wrap(bert(tokenizer, num_labels=3)), tokenizer), tmp_path)


def test_wrap_takes_one_or_the_other():
    with pytest.raises(InputError, match="not both"):
        af.wrap()


def test_a_document_is_bounded_in_memory(loaded):  # C27: one forward row a token, in parts
    model, tokenizer = loaded
    text = tokenizer("good bad " * 200, return_tensors="pt", return_special_tokens_mask=True)
    n = text["input_ids"].shape[1]
    keep = ~torch.eye(n, dtype=torch.bool)[None]
    rows = []
    own = model.model.forward

    def counted(*args, **kwargs):
        rows.append(tuple(kwargs["input_ids"].shape))
        return own(*args, **kwargs)

    model.model.forward = counted
    try:
        model.without(text, keep)
    finally:
        del model.model.forward
    whole = [texts for texts, length in rows if length > 1]  # the last block goes on with one token a text
    assert sum(whole) <= n + 1
    assert all(b * t * t * 2 <= 2**25 for b, t in rows)
    assert math.prod(keep.shape) > max(b * t for b, t in rows)


@pytest.mark.parametrize("units", ["word", "token"])
def test_importance_from_a_file_is_of_the_items(loaded, units, tmp_path):
    first = evaluate(loaded, tmp_path / "first", tests=["entropy"], units=units).tokens.set_index("example")
    given = tmp_path / "given.jsonl"
    lines = []
    for example, row in first.iterrows():
        lines.append({"example": example, "tokens": list(row["tokens"]), "scores": list(row["attention"])})
    given.write_text("\n".join(map(json.dumps, lines)))
    tests = ["correlation", "flips", "erasure", "polarity", "stability"]
    again = evaluate(loaded, tmp_path / "again", tests=tests, units=units, columns={"source_file": given})
    stored = again.tokens.set_index("example")["given"]
    for example, row in first.iterrows():
        assert list(stored[example]) == list(row["attention"]), example
    assert again.examples["attention_correlation attention~given"].notna().any()
    ranked = again.examples.set_index("example")
    for metric in ("flip_never", "comprehensiveness", "polarity_violation"):
        of_given, of_attention = ranked[f"{metric} given"], ranked[f"{metric} attention"]
        assert of_given.equals(of_attention.rename(of_given.name)), metric
    (stability,) = [record for record in again.records if record.place[:3] == ("stability_tau", "layer.1", "given")][:1]
    assert stability.n == 0
    assert "known of the whole text alone" in stability.reasons
    ranked_sources = {source.source for source in again.summary.recommendation[0].sources}
    assert "given" in ranked_sources
