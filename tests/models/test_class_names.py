"""The names of classes and the sizes of vocabularies: whatever is set, whenever, model and file agree with it."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from attn_faithful._checks import InputError
from attn_faithful.api import evaluate_attention, explain
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.loading import wrap
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.models.pooled import AttentionClassifier
from tests.models.examples import SMALL, small_batch, small_model

THREE = {0: "a", 1: "b", 2: "c"}
INVERSE = {"a": 0, "b": 1, "c": 2}
GIVEN = [
    {"id2label": THREE},
    {"id2label": {"2": "c", "0": "a", "1": "b"}},
    {"id2label": ["a", "b", "c"]},
    {"label2id": INVERSE},
    {"label2id": INVERSE, "num_labels": 3},
    {"id2label": THREE, "label2id": INVERSE},
    {"id2label": THREE, "label2id": {"LABEL_0": 0, "LABEL_1": 1}},
]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("kind", [AttentionClassifierConfig, HANConfig])
def test_either_mapping_says_the_other(kind, given, tmp_path):
    config = kind(vocab_size=20, **given)
    config.save_pretrained(tmp_path)
    for each in (config, kind.from_pretrained(tmp_path)):
        assert (each.id2label, each.label2id, each.num_labels, each.output) == (THREE, INVERSE, 3, "softmax")


@pytest.mark.parametrize("name", ["id2label", "label2id", "num_labels"])
def test_names_that_are_set_afterwards_are_those_of_a_new_configuration(name):
    value = {"id2label": THREE, "label2id": INVERSE, "num_labels": 3}[name]
    new, changed = AttentionClassifierConfig(**SMALL, **{name: value}), AttentionClassifierConfig(**SMALL)
    setattr(changed, name, value)
    assert changed.to_dict() == new.to_dict()
    assert AttentionClassifier(changed)(**small_batch()).logits.shape == (4, 3)
    changed.num_labels = 2
    assert AttentionClassifier(changed).readout.weight.shape[0] == 1  # one logit again
    both = AttentionClassifierConfig(**SMALL)
    both.label2id, both.id2label = INVERSE, THREE
    assert both.to_dict() == AttentionClassifierConfig(**SMALL, id2label=THREE).to_dict()


def test_names_stand_with_a_chosen_output():
    config = AttentionClassifierConfig(**SMALL, output="multi_label", num_labels=3)
    config.id2label = {**THREE, 3: "d"}
    assert (config.output, config.num_labels) == ("multi_label", 4)
    config = AttentionClassifierConfig(**SMALL, class_weights=[1.0, 2.0])
    config.id2label = THREE
    with pytest.raises(InputError, match="Expected 3 class_weights"):
        AttentionClassifier(config)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id2label": {1: "a", 2: "b"}}, "id2label to name each of the classes 0, 1, ... once"),
        ({"id2label": {0: "a", 1: "a"}}, "every class differently"),
        ({"id2label": 3}, "id2label to map"),
        ({"label2id": {"a": 0, "b": 0}}, "label2id to name each"),
        ({"label2id": {"a": "x"}}, "label2id to map"),
        ({"id2label": THREE, "label2id": {"a": 0, "b": 2, "c": 1}}, "id2label says .* but label2id says"),
        ({"id2label": THREE, "num_labels": 2}, "num_labels is 2, but id2label names 3"),
        ({"label2id": INVERSE, "num_labels": 4}, "num_labels is 4, but label2id names 3"),
    ],
)
def test_names_that_contradict_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        AttentionClassifierConfig(**given)


@pytest.mark.parametrize("train", [False, True])
def test_another_number_of_names_than_the_model_has_logits_is_refused(train):
    model = small_model(encoder="mlp", dropout=0.0).train(train)
    before = model(**small_batch()).logits
    model.config.id2label = {0: "x", 1: "y"}
    assert torch.equal(model(**small_batch()).logits, before)
    model.config.id2label = THREE
    for way in (lambda: model(**small_batch(), labels=torch.zeros(4).long()), lambda: model.encode(small_batch())):
        with pytest.raises(InputError, match="names 3 classes, but the model was built with 2"):
            way()


def test_classes_of_a_transformers_model_are_counted_from_0():
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(vocab_size=9, id2label={1: "a", 2: "b"}, **small))
    with pytest.raises(InputError, match="name its classes 0 to 1, but its id2label is"):
        wrap(model)


# vocabularies


@pytest.mark.parametrize("frozen", [False, True])
def test_every_embedding_of_words_is_resized(tmp_path, frozen):
    model, batch = small_model(query=True, freeze_embeddings=frozen), small_batch(queries=(3, 2, 1, 1))
    expected = model(**batch).logits
    model.resize_token_embeddings(25)
    assert model.config.vocab_size == 25
    for table in model.embeddings():
        assert table.weight.shape == (25, 6)
        assert table.padding_idx == 0
        assert table.weight.requires_grad is not frozen
    assert torch.equal(model(**batch).logits, expected)
    batch["query_input_ids"][0, 0] = 24
    expected = model(**batch).logits
    model.save_pretrained(tmp_path)
    assert torch.equal(AttentionClassifier.from_pretrained(tmp_path)(**batch).logits, expected)
    model.resize_token_embeddings(22)
    assert [table.num_embeddings for table in model.embeddings()] == [22, 22]


def test_embeddings_of_a_hierarchical_model_are_resized(tmp_path):
    model = HANClassifier(HANConfig(vocab_size=20, embedding_size=6, hidden_size=4)).eval()
    model.resize_token_embeddings(25)
    model.save_pretrained(tmp_path)
    assert HANClassifier.from_pretrained(tmp_path).embedding.num_embeddings == 25


@pytest.mark.parametrize("padding", [-1, 20, 99, "0", True])
def test_a_padding_id_outside_the_vocabulary_is_refused(padding):
    with pytest.raises(InputError, match=f"one of the vocabulary's 20 ids, from 0, but it is {padding!r}"):
        AttentionClassifierConfig(vocab_size=20, pad_token_id=padding)
    config = AttentionClassifierConfig(vocab_size=20)
    if isinstance(padding, int) and not isinstance(padding, bool):
        config.pad_token_id = padding
        with pytest.raises(InputError, match="pad_token_id"):
            AttentionClassifier(config)
    assert AttentionClassifier(AttentionClassifierConfig(**SMALL, pad_token_id=None)).embedding.padding_idx is None


def test_tokens_that_were_added_to_a_tokenizer_are_named(tmp_path):
    tokenizer = train_tokenizer(["good film", "bad film"])
    model = AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp")).eval()
    tokenizer.add_tokens(["blockbuster", "flop"])
    named = r"'blockbuster' \(5\), 'flop' \(6\); if they were added .*resize_token_embeddings"
    with pytest.raises(InputError, match=named):
        evaluate_attention(model, tokenizer, ["a flop"], ["entropy"], output=tmp_path)
    with pytest.raises(InputError, match=named):
        explain(model, tokenizer, "a flop")
    batch = tokenizer(["flop"], return_tensors="pt")
    for way in (lambda: model(**batch), lambda: model.encode(batch), lambda: model.train()(**batch)):
        with pytest.raises(InputError, match=r"embeds 5 tokens, but the text has the id 6.*resize_token_embeddings"):
            way()
    model.eval().resize_token_embeddings(len(tokenizer))
    result = evaluate_attention(model, tokenizer, ["a flop"], ["entropy"], output=tmp_path, settings={"controls": []})
    assert list(result.tokens["tokens"][0]) == ["a", "flop"]


@pytest.mark.parametrize("settings", [{}, {"query": True}])
def test_a_config_that_asks_for_tuples_changes_no_analysis(settings, tmp_path):
    model, batch = small_model(**settings), small_batch(queries=(3, 2, 1, 1) if settings else None)
    expected = model.encode(batch).logits
    model.config.return_dict = False
    assert torch.equal(model.encode(batch).logits, expected)
    assert torch.equal(model(**batch).logits, model(**batch, return_dict=True).logits)
