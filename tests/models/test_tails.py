"""What comes after the attention of own models as data: its logits against their decode."""

from __future__ import annotations

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.tail import TailUnknownError
from attn_faithful.models.label_view import label_view
from attn_faithful.models.protocol import Encoded
from attn_faithful.models.words import in_words
from tests.models.examples import small_batch, small_model

SETTINGS = {
    "affine": {},
    "tanh": {"readout": "tanh"},
    "one logit": {"readout": "tanh", "output": "sigmoid", "num_labels": 2},
    "one logit, affine": {"output": "sigmoid", "num_labels": 2},
    "labels": {"readout": "tanh", "output": "multi_label", "num_labels": 3},
}


def encoded_by(candidates=None, query=False, **settings) -> Encoded:
    model = small_model(encoder="lstm", query=query, **settings).double()
    batch = small_batch(queries=(2, 3, 1, 2) if query else None)
    if candidates is not None:
        batch["candidates"] = candidates
    with torch.no_grad():
        return model.encode(batch)


def check_tail(encoded: Encoded) -> None:
    texts = torch.tensor([2, 0, 1])
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(4, 5, *encoded.attention.shape[1:], generator=generator, dtype=torch.float64)
    attention = torch.cat([encoded.attention[:, None], weights * encoded.allowed[:, None]], dim=1)
    found = encoded.tail_of(texts).logits(attention[texts])
    with torch.no_grad():
        expected = encoded.decode(attention)[texts]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("query", [False, True], ids=["alone", "query"])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_tail_has_the_logits_of_the_model(name, query):
    encoded = encoded_by(query=query, **SETTINGS[name])
    check_tail(encoded)
    kinds = [type(step).__name__ for step in encoded.tail_of(torch.tensor([0])).steps]
    assert kinds == ([] if encoded.affine else ["Activation", "Linear"])


@pytest.mark.parametrize("name", ["affine", "tanh"])
def test_of_words(name):
    words = torch.tensor([[0, 0, 1, 2, 2, 2, 3], [0, 1, 1, -1, -1, -1, -1], [0, *[-1] * 6], [-1] * 7])
    check_tail(in_words(encoded_by(**SETTINGS[name]), words))


@pytest.mark.parametrize("label", range(3))
def test_of_one_label(label):
    check_tail(label_view(encoded_by(**SETTINGS["labels"]), label))


@pytest.mark.parametrize("readout", ["affine", "tanh"])
def test_candidates_have_none(readout):
    candidates = torch.tensor([[1, 0, 1]] * 4)
    with pytest.raises(TailUnknownError, match="no candidates"):
        encoded_by(candidates, readout=readout, num_labels=3).tail_of(torch.tensor([0]))


@pytest.mark.parametrize("readout", ["affine", "tanh"])
def test_a_weight_that_is_no_number_is_refused(readout):
    model = small_model(readout=readout)
    output = model.readout if readout == "affine" else model.readout.output
    with torch.no_grad():
        output.weight[0, 0] = torch.nan
    with pytest.raises(InputError, match="not finite"):
        model.encode(small_batch()).tail_of(torch.tensor([0]))


def test_models_that_tell_their_decode_alone_have_none():
    attention = torch.ones(1, 1, 2) / 2
    encoded = Encoded(
        attention, attention > 0, attention[:, 0] > 0, "token", torch.zeros(1, 2), lambda weights: weights
    )
    with pytest.raises(TailUnknownError, match="only by decode"):
        encoded.tail_of(torch.tensor([0]))
