"""Attention over words: sums, and weights dealt back to the tokens, against a slow reference; case C25."""

import copy
import doctest
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, attribute, by_item
from attn_faithful.evaluators.attention_removal import Removal
from attn_faithful.evaluators.base import Block
from attn_faithful.functional.rankings import kendall_tau_b
from attn_faithful.models import words as words_module
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.models.protocol import Affine, Encoded
from attn_faithful.models.words import in_words
from tests.checks import EXACT, alternatives
from tests.models.examples import small_batch, small_model
from tests.reference import words as reference

TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def made(attention, allowed, content, logs=None, pooled=False, affine=False, seed=0):
    """Encoded over tokens with a read-out of its own, not affine unless asked for."""
    attention = torch.as_tensor(attention)
    generator = torch.Generator().manual_seed(seed)
    examples, slots, tokens = attention.shape
    values = torch.randn(examples, slots, tokens, 3, generator=generator, dtype=torch.float64).to(attention.dtype)

    def decode(weights):
        sums = (weights[..., None] * values[:, None].to(weights.dtype)).sum((2, 3))
        return sums if affine else sums.tanh() + sums**2

    return Encoded(
        attention=attention,
        allowed=torch.as_tensor(allowed),
        content=torch.as_tensor(content),
        items="token",
        logits=decode(attention[:, None])[:, 0],
        decode=decode,
        affine=Affine(values[:, 0], torch.zeros(examples, 3, dtype=attention.dtype)) if affine else None,
        log_weights=None if logs is None else torch.as_tensor(logs),
        pooled=attention.mean(1) if pooled else None,
    )


def random_texts(seed, slots=None, sparse=False, logs=False, affine=False):
    """Texts of random words with special positions, padding, and positions that single slots may not reach."""
    rng = np.random.default_rng(seed)
    examples, tokens = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    slots = slots or int(rng.integers(1, 4))
    word_ids = np.full((examples, tokens), -1)
    content, read = np.zeros((2, examples, tokens), dtype=bool)
    for b in range(examples):
        length = int(rng.integers(0, tokens + 1))
        start = int(rng.integers(0, tokens - length + 1))  # padding on either side
        read[b, start : start + length] = True
        content[b] = read[b] & (rng.random(tokens) < 0.75)
        word_ids[b, content[b]] = np.cumsum(rng.random(content[b].sum()) < 0.6)
        if content[b].any():
            word_ids[b, content[b]] -= word_ids[b, content[b]].min()
    allowed = read[:, None] & (rng.random((examples, slots, tokens)) < 0.8)
    scores = np.where(allowed, rng.normal(0, 2, allowed.shape), -np.inf)
    weights = np.exp(scores)
    if sparse:
        weights *= rng.random(weights.shape) < 0.4
    mass = weights.sum(-1, keepdims=True)
    attention = np.divide(weights, mass, out=np.zeros_like(weights), where=mass > 0)
    encoded = made(attention, allowed, content, scores if logs else None, slots > 1, affine, seed)
    return encoded, torch.as_tensor(word_ids)


def by_hand(encoded, word_ids, b):
    return reference.items_of(encoded.allowed[b].tolist(), encoded.content[b].tolist(), word_ids[b].tolist())


def test_examples_in_docstrings():
    assert doctest.testmod(words_module).failed == 0


# --- values


def test_a_word_has_the_sum_of_its_tokens_c25():
    attention = torch.tensor([[[0.1, 0.2, 0.3, 0.15, 0.25]]])
    gradient = torch.tensor([[0.05, 0.3, -0.2, 0.1, 0.15]], dtype=torch.float64)
    word_ids = torch.tensor([[0, 1, 1, 1, 2]])
    encoded = made(attention, attention > 0, attention[:, 0] > 0)
    words = in_words(replace(encoded, states=torch.ones(1, 5, 2)), word_ids)
    torch.testing.assert_close(words.attention, torch.tensor([[[0.1, 0.65, 0.25]]]))
    assert words.items == "word"
    assert words.states is None  # which are of tokens
    assert words.members.tolist() == word_ids.tolist()

    of_words = by_item(Request(None, {}, words), gradient)
    assert kendall_tau_b(attention[0, 0].tolist(), gradient[0].tolist()).value == pytest.approx(0.0, abs=1e-12)
    assert kendall_tau_b(words.attention[0, 0].tolist(), of_words[0].tolist()).value == pytest.approx(1.0)


def test_special_positions_stand_behind_the_words_c05():
    """[CLS] a ##b c [SEP] and padding: the special ones keep their weight, whatever happens to the words."""
    attention = torch.tensor([[[0.4, 0.1, 0.2, 0.05, 0.25, 0.0]]])
    content = torch.tensor([[False, True, True, True, False, False]])
    encoded = made(attention, attention > 0, content)
    words = in_words(encoded, torch.tensor([[-1, 0, 0, 1, -1, -1]]))
    torch.testing.assert_close(words.attention, torch.tensor([[[0.3, 0.05, 0.4, 0.25]]]))
    assert words.content.tolist() == [[True, True, False, False]]
    assert words.allowed.all()
    assert words.members.tolist() == [[-1, 0, 0, 1, -1, -1]]
    found = dealt_by(encoded, words.members, torch.tensor([[[[0.06, 0.29, 0.25, 0.4]]]]))
    torch.testing.assert_close(found, torch.tensor([[[[0.25, 0.02, 0.04, 0.29, 0.4, 0.0]]]]))


@pytest.mark.parametrize(("logs", "sparse"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("seed", range(12))
def test_random_texts_against_the_reference(seed, logs, sparse):
    encoded, word_ids = random_texts(seed, sparse=sparse, logs=logs)
    words = in_words(encoded, word_ids)
    generator = torch.Generator().manual_seed(seed)
    slots, size = words.attention.shape[1:]
    other = torch.rand(len(word_ids), 2, *words.attention.shape[1:], generator=generator, dtype=torch.float64)
    other *= words.allowed[:, None]
    found = dealt_by(encoded, word_ids, other)
    widest = 1
    for b in range(len(word_ids)):
        items, allowed = by_hand(encoded, word_ids, b), encoded.allowed[b].tolist()
        own = encoded.attention[b].tolist()
        n, widest = len(items), max(widest, len(items))
        expected = {"attention": reference.summed(own, items), "allowed": reference.summed(allowed, items)}
        np.testing.assert_allclose(words.attention[b, :, :n], np.reshape(expected["attention"], (slots, n)), atol=1e-12)
        np.testing.assert_array_equal(words.allowed[b, :, :n], np.reshape(expected["allowed"], (slots, n)) > 0)
        assert words.content[b, :n].tolist() == [bool(encoded.content[b, held[0]]) for held in items]
        assert not words.allowed[b, :, n:].any()
        assert not words.content[b, n:].any()
        assert not words.attention[b, :, n:].any()
        for t in range(word_ids.shape[1]):
            at = int(words.members[b, t])
            assert (t in items[at]) if encoded.content[b, t] else at == -1
        if encoded.pooled is not None:
            pooled = reference.summed([encoded.pooled[b].tolist()], items)[0]
            np.testing.assert_allclose(words.pooled[b, :n], pooled, atol=1e-12)
        if logs:
            expected = reference.log_summed(encoded.log_weights[b].tolist(), items)
            np.testing.assert_allclose(words.log_weights[b, :, :n], np.reshape(expected, (slots, n)), rtol=1e-10)
        for k in range(2):
            expected = reference.dealt(other[b, k, :, :n].tolist(), own, allowed, items)
            np.testing.assert_allclose(found[b, k], expected, rtol=1e-10, atol=1e-12)
    assert size == widest
    torch.testing.assert_close(words.decode(words.attention[:, None])[:, 0], encoded.logits, **TIGHT)


def dealt_by(encoded, word_ids, weights):
    """What the tokens get."""
    seen = []
    listening = copy.copy(encoded)
    object.__setattr__(listening, "decode", lambda w: seen.append(w) or encoded.decode(w))
    in_words(listening, word_ids).decode(weights)
    return seen[0]


def test_a_word_without_weight_is_dealt_evenly_over_what_its_slot_may_reach():
    attention = torch.tensor([[[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]]])
    allowed = torch.tensor([[[True, True, True, True], [True, True, True, False]]])  # a later token is out of reach
    encoded = made(attention, allowed, torch.ones(1, 4, dtype=torch.bool))
    found = dealt_by(encoded, torch.tensor([[0, 1, 1, 1]]), torch.tensor([[[[0.4, 0.6], [0.4, 0.6]]]]))
    torch.testing.assert_close(found, torch.tensor([[[[0.4, 0.2, 0.2, 0.2], [0.4, 0.6, 0.0, 0.0]]]]))
    found = dealt_by(encoded, torch.tensor([[0, 0, 1, 1]]), torch.tensor([[[[0.4, 0.6], [0.4, 0.6]]]]))
    torch.testing.assert_close(found, torch.tensor([[[[0.4, 0.0, 0.3, 0.3], [0.2, 0.2, 0.6, 0.0]]]]))


def test_logarithms_know_proportions_that_weights_have_lost():
    scores = torch.tensor([[[0.0, -120.0, -121.0]]], dtype=torch.float64)
    attention = scores.softmax(-1).float()
    assert float(attention[0, 0, 1]) == 0
    encoded = made(attention, attention >= 0, torch.ones(1, 3, dtype=torch.bool), logs=scores)
    word_ids = torch.tensor([[0, 1, 1]])
    found = dealt_by(encoded, word_ids, torch.tensor([[[[0.0, 1.0]]]]))
    torch.testing.assert_close(found, torch.tensor([[[[0.0, 0.7310586, 0.2689414]]]]))
    words = in_words(encoded, word_ids)
    assert float(words.scores[0, 0, 1]) == pytest.approx(-120 + math.log1p(math.exp(-1)))
    torch.testing.assert_close(words.project(words.scores, words.allowed), words.attention)
    left = words.project(words.scores, torch.tensor([[[False, True]]]))
    assert left.tolist() == [[[0.0, 1.0]]]


def test_gradients_go_through_decode():
    for seed, logs in ((1, False), (2, True), (3, False)):
        encoded, word_ids = random_texts(seed, logs=logs)
        words = in_words(encoded, word_ids)
        many = alternatives(words, 2).requires_grad_()
        assert torch.autograd.gradcheck(words.decode, (many,))
        assert words.decode(many.detach().float()).dtype == torch.float32


def test_gradients_go_through_the_own_attention():
    """Also where a word has no weight."""
    attention = torch.tensor([[[0.7, 0.3, 0.0, 0.0]]], dtype=torch.float64, requires_grad=True)
    encoded = made(attention, torch.ones(1, 1, 4, dtype=torch.bool), torch.ones(1, 4, dtype=torch.bool))
    words = in_words(encoded, torch.tensor([[0, 0, 1, 1]]))
    words.decode(words.attention[:, None]).sum().backward()
    assert attention.grad.isfinite().all()


def test_affine_stays_affine():
    for seed in range(6):
        encoded, word_ids = random_texts(seed, slots=1, affine=True, sparse=seed % 2)
        words = in_words(encoded, word_ids)
        many = alternatives(words, 3)
        found = torch.einsum("bkt,btc->bkc", many[:, :, 0], words.affine.token_logits) + words.affine.bias[:, None]
        torch.testing.assert_close(found, words.decode(many), **TIGHT)


def test_no_words_no_tokens_no_texts():
    special = torch.tensor([[[0.5, 0.5]]])
    encoded = made(special, special > 0, torch.zeros(1, 2, dtype=torch.bool))
    words = in_words(encoded, torch.full((1, 2), -1))
    assert words.attention.tolist() == [[[0.5, 0.5]]]
    assert not words.content.any()
    torch.testing.assert_close(words.decode(words.attention[:, None])[:, 0], encoded.logits)
    for shape in ((1, 1, 1), (2, 3, 4), (0, 1, 3)):
        nothing = made(torch.zeros(shape), torch.zeros(shape).bool(), torch.zeros(shape[0], shape[2]).bool())
        words = in_words(nothing, torch.full((shape[0], shape[2]), -1))
        assert words.attention.shape == (*shape[:2], 1)
        assert not words.allowed.any()
        torch.testing.assert_close(words.decode(words.attention[:, None])[:, 0], nothing.logits)


def test_what_is_refused():
    encoded = made(torch.ones(1, 1, 2) / 2, torch.ones(1, 1, 2).bool(), torch.ones(1, 2).bool())
    with pytest.raises(InputError, match="of shape"):
        in_words(encoded, torch.tensor([[0, 1, 1]]))
    with pytest.raises(InputError, match="a word for every content token"):
        in_words(encoded, torch.tensor([[0, -1]]))
    with pytest.raises(InputError, match="made of tokens, but this site attends to words"):
        in_words(in_words(encoded, torch.tensor([[0, 0]])), torch.tensor([[0]]))


# --- real models


WORDS = torch.tensor([[0, 0, 1, 2, 2, 2, 3], [0, 1, 1, -1, -1, -1, -1], [0] + [-1] * 6, [-1] * 7])


@pytest.mark.parametrize("projection", ["softmax", "sparsemax"])
@pytest.mark.parametrize("readout", ["affine", "tanh"])
def test_pooled_models(projection, readout):
    model, batch = small_model(projection=projection, readout=readout), small_batch()
    encoded = model.encode(batch)
    words = in_words(encoded, WORDS)
    torch.testing.assert_close(words.decode(words.attention[:, None])[:, 0], encoded.logits, **EXACT)
    assert words.attention.shape == (4, 1, 4)
    assert (words.project is None) == (projection != "softmax")
    assert (words.affine is None) == (readout == "tanh")
    if words.project is not None:
        torch.testing.assert_close(words.project(words.scores, words.allowed), words.attention, **EXACT)
    if words.affine is not None:
        many = alternatives(words, 3)
        found = torch.einsum("bkt,btc->bkc", many[:, :, 0], words.affine.token_logits) + words.affine.bias[:, None]
        torch.testing.assert_close(found, words.decode(many), **EXACT)


def test_removing_a_word_removes_its_tokens_from_the_attention():
    """Of a softmax: what is left over tokens, projected again, is what is left over words."""
    model, batch = small_model(readout="tanh"), small_batch()
    encoded = model.encode(batch)
    words = in_words(encoded, WORDS)
    keep = torch.ones(4, 4, dtype=torch.bool)
    keep[:, 0] = False
    every_text = torch.arange(4)
    found = Removal(block_of(words), "recompute").after(keep, every_text)
    of_tokens = keep.gather(1, WORDS.clamp(min=0)) | (WORDS < 0)
    expected = Removal(block_of(encoded), "recompute").after(of_tokens, every_text)
    torch.testing.assert_close(found, expected, **EXACT)


def block_of(encoded):
    names = [str(row) for row in range(len(encoded.logits))]
    return Block(names, names, 0, "pool", encoded)


@torch.no_grad()
def test_sources_give_words_their_importance():
    model, batch = small_model(), small_batch()
    encoded = model.encode(batch)
    words = in_words(encoded, WORDS)
    keys = ["a", "b", "c", "d"]
    found = attribute("leave_one_out", Request(model, batch, words, keys=keys)).values
    for row, word in ((0, 2), (1, 1)):
        keep = (word != WORDS)[:, None]
        left = model.without(batch, keep)[row, 0].double().softmax(-1)
        whole, target = encoded.logits[row].double().softmax(-1), int(encoded.logits[row].argmax())
        assert float(found[row, word]) == pytest.approx(abs(float(whole[target] - left[target])), abs=1e-6)
    assert found.isnan().tolist() == (~words.content).tolist()


def test_several_slots_keep_their_own_proportions():
    torch.manual_seed(0)
    model = HANClassifier(HANConfig(vocab_size=20, embedding_size=6, hidden_size=4, num_labels=3)).eval()
    batch = {**small_batch(), "sentence_ids": torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0] * 7, [0] * 7, [0] * 7])}
    encoded = model.encode(batch, "word")
    words = in_words(encoded, WORDS)
    torch.testing.assert_close(words.decode(words.attention[:, None])[:, 0], encoded.logits, **EXACT)
    torch.testing.assert_close(words.over_items.sum(1), encoded.over_items.sum(1), **EXACT)
    with pytest.raises(InputError, match="attends to sentences"):
        in_words(model.encode(batch, "sentence"), WORDS)
