"""A tiny BERT with random weights, two texts, and the pieces of each word of theirs, written out by hand."""

import torch
from transformers import BertConfig, BertForSequenceClassification

from tests.data.pieces import wordpiece

# repeated words, an accent that is a character of its own, words without blanks, an emoji that is unknown
TEXTS = ["Good cafe\u0301, \u6211\u559c unbelievably good \U0001f642 movies", "bad good  bad"]
WORDS = [
    ["Good", "cafe\u0301", ",", "\u6211", "\u559c", "unbelievably", "good", "\U0001f642", "movies"],
    ["bad", "good", "bad"],
]
# for each word its pieces by their places in tokenizer(text), where 0 is [CLS]
PIECES = [[[1], [2, 3, 4, 5], [6], [7], [8], [9, 10, 11], [12], [13], [14, 15]], [[1], [2], [3]]]
SPANS = [
    [(0, 4), (5, 10), (10, 11), (12, 13), (13, 14), (15, 27), (28, 32), (33, 34), (35, 41)],
    [(0, 3), (4, 8), (10, 13)],
]
NAMES = ["negative", "positive"]


def tiny_bert():
    """The model and its tokenizer."""
    tokenizer = wordpiece()
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
        id2label=dict(enumerate(NAMES)),
        label2id={name: place for place, name in enumerate(NAMES)},
        pad_token_id=tokenizer.pad_token_id,
    )
    return BertForSequenceClassification(config).eval(), tokenizer


def probabilities(model, tokenizer):
    """Of texts, (B, C), as tools that explain a black box ask for them."""

    def predict(texts):
        batch = tokenizer([str(text) for text in texts], return_tensors="pt", padding=True)
        with torch.no_grad():
            return model(**batch).logits.softmax(-1).numpy()

    return predict


def word_sums(scores, place):
    """Scores of the pieces of a text as sums of its words.

    Args:
        scores: one a token of ``tokenizer(text)``.
        place: of the text.
    """
    return [sum(float(scores[piece]) for piece in pieces) for pieces in PIECES[place]]
