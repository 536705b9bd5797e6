"""Captum's attributions on the right words, and records that its visualization shows."""

import numpy as np
import pytest
import torch
from captum.attr import LayerIntegratedGradients, LLMAttributionResult, visualization

import attn_faithful as af
from attn_faithful._checks import InputError
from tests.data.pieces import Slow
from tests.explanations.tiny import NAMES, SPANS, TEXTS, WORDS, word_sums


@pytest.fixture(scope="module")
def attributed(bert):
    """Layer integrated gradients of both texts at once, (2, T, N)."""
    model, tokenizer = bert
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)

    def forward(input_ids, attention_mask):
        return model(input_ids=input_ids, attention_mask=attention_mask).logits.softmax(-1)

    gradients = LayerIntegratedGradients(forward, model.bert.embeddings.word_embeddings)
    found = gradients.attribute(
        batch["input_ids"], target=1, additional_forward_args=(batch["attention_mask"],), n_steps=4
    )
    return found, batch["input_ids"]


def expected(attributed, place):
    return word_sums(attributed[0][place].double().sum(-1), place)


def test_a_batch_of_embeddings(bert, attributed):
    found = af.explanations.from_captum(attributed[0], TEXTS, bert[1])
    for place, words in enumerate(found.words(*bert)):
        assert (list(words.words), list(words.spans)) == (WORDS[place], SPANS[place])
        np.testing.assert_allclose(words.scores, expected(attributed, place), atol=1e-12)
        assert words.n_unplaced == 2  # of [CLS] and [SEP]


def test_other_shapes_say_the_same(bert, attributed):
    tensor, ids = attributed
    length = len(bert[1](TEXTS[1])["input_ids"])
    by_batch = af.explanations.from_captum(tensor, TEXTS, bert[1])
    token_sums = tensor.double().sum(-1)
    for found in (
        af.explanations.from_captum(token_sums, TEXTS, bert[1]),
        af.explanations.from_captum([tensor[:1], tensor[1:, :length]], TEXTS, bert[1]),
        af.explanations.from_captum([token_sums[0], token_sums[1, :length]], TEXTS, bert[1]),
        af.explanations.from_captum(tensor, TEXTS, bert[1], input_ids=ids),
    ):
        assert [one.scores for one in found.words(*bert)] == [one.scores for one in by_batch.words(*bert)]
    one = af.explanations.from_captum(token_sums[1, :length], TEXTS[1], bert[1])
    assert one.words(*bert)[0].scores == by_batch.words(*bert)[1].scores


def test_padding_on_the_left(bert, attributed):
    model, tokenizer = bert
    tokenizer.padding_side = "left"
    try:
        tensor = torch.flip(torch.arange(17.0), [0]).repeat(2, 1)  # (2, T)
        found = af.explanations.from_captum(tensor, TEXTS, tokenizer)
        assert found.words(model, tokenizer)[1].scores == (3.0, 2.0, 1.0)
    finally:
        tokenizer.padding_side = "right"


def test_inputs_that_were_cut_or_have_no_special_tokens(bert):
    model, tokenizer = bert
    ids = tokenizer(TEXTS[1], add_special_tokens=False)["input_ids"]
    with pytest.raises(
        InputError, match=r"each of the 5 tokens of 'bad good  bad', padding counted, but got 3; .*input_ids="
    ):
        af.explanations.from_captum(torch.ones(1, 3), [TEXTS[1]], tokenizer)
    found = af.explanations.from_captum(torch.tensor([[1.0, 2.0, 4.0]]), [TEXTS[1]], tokenizer, input_ids=[ids])
    assert found.words(model, tokenizer)[0].scores == (1.0, 2.0, 4.0)
    cut = tokenizer(TEXTS[1], truncation=True, max_length=4)["input_ids"]
    found = af.explanations.from_captum(torch.tensor([[0.0, 1.0, 2.0, 0.0]]), [TEXTS[1]], tokenizer, input_ids=[cut])
    (words,) = found.words(model, tokenizer)
    assert words.scores[:2] == (1.0, 2.0)
    assert np.isnan(words.scores[2])


def test_records_of_the_visualization(bert, attributed):
    tokenizer = bert[1]
    records = []
    for place, text in enumerate(TEXTS):
        ids = tokenizer(text)["input_ids"]
        scores = attributed[0][place, : len(ids)].sum(-1)
        tokens = tokenizer.convert_ids_to_tokens(ids)
        records.append(visualization.VisualizationDataRecord(scores, 0.5, 1, 1, "positive", 0.1, tokens, 0.0))
    for known in (tokenizer, None):
        found = af.explanations.from_captum(records, TEXTS, known)
        assert [one.target for one in found] == ["positive", "positive"]
        for place, words in enumerate(found.words(*bert)):
            np.testing.assert_allclose(words.scores, expected(attributed, place), atol=1e-6)


def test_a_result_of_a_language_model(bert):
    result = LLMAttributionResult(
        input_tokens=["\u2581bad", "\u2581good", "\u2581bad"], output_tokens=["\u2581yes"], seq_attr=[1.0, 2.0, 3.0]
    )
    found = af.explanations.from_captum(result, TEXTS[1])
    assert found.words(*bert)[0].scores == (1.0, 2.0, 3.0)
    assert found[0].target == "\u2581yes"


def test_a_slow_tokenizer(bert):
    found = af.explanations.from_captum(torch.tensor([9.0, 1.0, 2.0, 9.0]), "good bad", Slow())
    assert found[0].spans == ((0, 0), (0, 4), (5, 8), (0, 0))


@pytest.mark.parametrize(
    ("given", "texts", "message"),
    [
        (torch.ones(2, 3), ["one"], "`texts` has 1, `attributions` has 2"),
        (torch.ones(1, 1, 3, 3), ["one"], r"\(B, T, N\), \(B, T\) or \(T,\), but got \(1, 1, 3, 3\)"),
        (torch.ones(1, 3), ["one"], "Expected the tokenizer that made the model's inputs"),
        ("scores", ["one"] * 6, "or a LLMAttributionResult, but got a str"),
    ],
)
def test_what_does_not_fit_is_said(given, texts, message):
    with pytest.raises(InputError, match=message):
        af.explanations.from_captum(given, texts)


def test_a_run_goes_to_captum_and_back(bert, tmp_path):
    data = {"text": TEXTS, "label": ["positive", "negative"]}
    settings = {"controls": []}
    keys = {"output": tmp_path, "settings": settings, "progress": False}
    result = af.evaluate_attention(*bert, data, ["correlation"], **keys)
    tokens = result.tokens
    for source in ("attention", "leave_one_out"):
        records = result.to_captum(source)
        for place, record in enumerate(records):
            row = tokens.iloc[place]
            np.testing.assert_array_equal(record.word_attributions, row[source])
            assert record.raw_input_ids == WORDS[place]
            probabilities = result.probabilities[place]
            assert (record.pred_prob, record.pred_class) == (probabilities.max(), NAMES[probabilities.argmax()])
            assert record.true_class == data["label"][place]
            assert record.attr_score == pytest.approx(sum(row[source]))
        back = af.explanations.from_captum(records, TEXTS)
        for place, words in enumerate(back.words(*bert)):
            np.testing.assert_array_equal(words.scores, tokens.iloc[place][source])
    assert "unbelievably" in visualization.visualize_text(records).data
    with pytest.raises(InputError, match="Did you mean 'leave_one_out'"):
        result.to_captum("leave_one_ot")
