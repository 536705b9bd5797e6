"""What is said of each kind of model is true of the frozen ones: shown again by slow ways that share no code."""

from itertools import combinations

import numpy as np
import pytest
import torch

from attn_faithful.bench.entries import tasks
from attn_faithful.bench.frozen_set import ENOUGH, proof_on
from attn_faithful.bench.kinds import KINDS
from attn_faithful.bench.making import Family, _spread_scores
from attn_faithful.bench.proofs import EPS, FAR, HIDDEN, NEAR
from attn_faithful.bench.stock import ENCODER
from attn_faithful.bench.texts import DATA, STRONG, TOPICS
from attn_faithful.loading import load
from tests.reference.divergences import jsd


class Read:
    """A model of the set, asked by its forward alone."""

    def __init__(self, frozen, entry):
        self.entry = entry
        self.model, self.tokenizer = load(frozen.model_folder(entry))
        self.texts = [text for text in frozen.texts[entry.data] if text.example not in entry.unproven]

    def forward(self, text, attention=None):
        batch = self.tokenizer(text, return_tensors="pt")
        if attention is not None:
            attention = torch.as_tensor(attention, dtype=torch.float32)[None]
        with torch.no_grad():
            return self.model(**batch, attention_weights=attention)

    def attention(self, text):
        return self.forward(text).attentions[0].double().numpy()

    def probability(self, text, attention=None):
        return float(self.forward(text, attention).logits[0].softmax(0)[1])

    def decision(self, text, attention=None):
        return int(self.forward(text, attention).logits[0].argmax())


def of_kind(frozen, kind):
    """The models of ours; those of transformers take no attention, see test_stock_kinds.py."""
    return [Read(frozen, entry) for entry in frozen.manifest.models if entry.kind == kind and entry.encoder != ENCODER]


def random_attention(rng, n):
    """A distribution over n words, near a corner as often as not."""
    return rng.dirichlet(np.full(n, rng.choice([0.05, 0.3, 1.0])))


def test_all_kinds_are_there(small_set):
    assert {entry.kind for entry in small_set.manifest.models} == set(KINDS)
    for entry in small_set.manifest.models:
        assert entry.explains == KINDS[entry.kind].explains


def test_the_frozen_weights_are_proven_again(small_set):
    for entry in small_set.manifest.models:
        model, _ = load(small_set.model_folder(entry))
        texts = small_set.texts[entry.data]
        proof = proof_on(entry.kind, model, texts)
        unproven = [text.example for text, held in zip(texts, proof.proven.tolist(), strict=True) if not held]
        assert unproven == list(entry.unproven), entry.name
        assert len(unproven) <= (1 - ENOUGH) * len(texts)
        assert proof.shares == pytest.approx(dict(entry.proof), abs=1e-6)


def test_decisive_words_decide_in_every_model(small_set):
    """Words of the other class in their place flip the decision, by the tokenizer and the forward."""
    for entry in small_set.manifest.models:
        if entry.encoder == ENCODER:
            continue
        read = Read(small_set, entry)
        for text in read.texts:
            own, other = STRONG[text.label], STRONG[1 - text.label]
            assert read.decision(text.text) == text.label
            assert read.decision(text.text.replace(own, other)) == 1 - text.label


def test_faithful_attention_order_is_that_of_the_smallest_sets(small_set):
    """Of short texts every subset of words is removed: its weights to 0, the others' to their share."""
    for read in of_kind(small_set, "faithful"):
        for text in [text for text in read.texts if text.length == 8]:
            attention = read.attention(text.text)

            def flips(removed, text=text, attention=attention, read=read):
                left = attention.copy()
                left[list(removed)] = 0
                return read.decision(text.text, left / left.sum()) != text.label

            smallest = next(n for n in range(1, 8) if any(map(flips, combinations(range(8), n))))
            order = np.argsort(-attention, kind="stable")
            by_attention = next(n for n in range(1, 8) if flips(order[:n]))
            assert by_attention == smallest


def test_faithful_attention_is_the_size_of_contributions(small_set):
    for read in of_kind(small_set, "faithful"):
        sizes = []
        for text in read.texts[:6]:
            for place in range(text.length):
                alone = np.eye(text.length)[place]
                logits = read.forward(text.text, alone).logits[0]
                sizes.append(abs(float(logits[1] - logits[0])))
        assert np.ptp(sizes) < 1e-4
        assert min(sizes) > 1


def test_no_random_attention_far_from_a_pinned_one_predicts_the_same(small_set):
    rng = np.random.default_rng(0)
    tried = 0
    for read in of_kind(small_set, "pinned"):
        for text in read.texts[:9]:
            attention = read.attention(text.text)
            p = read.probability(text.text)
            for _ in range(60):
                share = rng.uniform()
                other = share * attention + (1 - share) * random_attention(rng, text.length)
                if abs(read.probability(text.text, other) - p) <= EPS:
                    tried += 1
                    assert jsd(attention, other) <= NEAR * np.log(2) + 1e-9
    assert tried > 20


def test_a_far_attention_predicts_the_same_in_free_models(small_set):
    for read in of_kind(small_set, "free"):
        found = 0
        texts = read.texts[:6]
        for text in texts:
            attention = read.attention(text.text)
            p = read.probability(text.text)
            corners = np.eye(text.length)
            values = np.array([read.probability(text.text, corner) for corner in corners])
            found += farthest(attention, p, np.log(values / (1 - values))) >= FAR * 0.95 * np.log(2)
        assert found == len(texts)


def farthest(attention, p, logits):
    """JSD of the farthest mixture of two words, or word alone, whose probability is within EPS of p."""
    n = len(logits)
    corners = np.eye(n)
    others = [corners[place] for place in range(n)]
    ends = [np.log(q / (1 - q)) for q in (p - EPS, p, p + EPS) if 0 < q < 1]
    for first, second in combinations(range(n), 2):
        gap = logits[first] - logits[second]
        shares = [(end - logits[second]) / gap for end in ends if gap]
        others += [share * corners[first] + (1 - share) * corners[second] for share in shares if 0 <= share <= 1]
    found = [0.0]
    for other in others:
        logit = other @ logits
        if abs(1 / (1 + np.exp(-logit)) - p) <= EPS + 1e-9:
            found.append(jsd(attention, other))
    return max(found)


def test_no_attention_changes_a_leaky_model(small_set):
    rng = np.random.default_rng(1)
    for read in of_kind(small_set, "leaky"):
        for text in read.texts[:6]:
            own = read.forward(text.text).logits
            for _ in range(5):
                assert torch.equal(read.forward(text.text, random_attention(rng, text.length)).logits, own)


def test_uniform_attention_is_uniform(small_set):
    for read in of_kind(small_set, "uniform"):
        for text in read.texts:
            assert read.attention(text.text) == pytest.approx(np.full(text.length, 1 / text.length))


@pytest.mark.parametrize("kind", ["deceptive", "imposed"])
def test_hidden_words_have_little_attention(small_set, kind):
    for read in of_kind(small_set, kind):
        for text in read.texts:
            attention = read.attention(text.text)
            decisive = np.array(text.decisive, dtype=bool)
            assert attention[decisive].sum() <= HIDDEN
            top = text.text.split()[int(attention.argmax())]
            assert not top.startswith(STRONG)
            if kind == "imposed":
                assert top.startswith(TOPICS)


def test_random_scores_are_those_before_training(small_set):
    """The attention of a model whose scores were drawn and that was never trained is the same to the last bit."""
    for read in of_kind(small_set, "random"):
        entry = read.entry
        untrained = []
        for attempt in range(5):
            untrained.append(_untrained(Family(entry.encoder, DATA[entry.data], entry.seed), attempt))
        same = []
        for model in untrained:
            batch = read.tokenizer(read.texts[0].text, return_tensors="pt")
            with torch.no_grad():
                same.append(torch.equal(model(**batch).attentions, read.model(**batch).attentions))
        assert sum(same) == 1


def _untrained(family, attempt):
    from attn_faithful._seeds import seed_for

    model, _ = family.new("random", attempt, reads_alone=family.reads_alone)
    _spread_scores(model, seed_for(family.seed, "bench", "scores", attempt))
    return model


def test_free_and_leaky_models_have_the_attention_of_a_faithful_one(small_set):
    faithful = {(read.entry.encoder, read.entry.data, read.entry.seed): read for read in of_kind(small_set, "faithful")}
    for kind in ("free", "leaky"):
        for read in of_kind(small_set, kind):
            same = faithful[read.entry.encoder, read.entry.data, read.entry.seed]
            for text in read.texts[:6]:
                assert np.array_equal(read.attention(text.text), same.attention(text.text))


WRONG = {
    "faithful": "deceptive",
    "pinned": "leaky",
    "free": "pinned",
    "deceptive": "faithful",
    "random": "faithful",
    "uniform": "faithful",
    "imposed": "pinned",
    "leaky": "faithful",
}


@pytest.mark.parametrize("kind", list(WRONG))
def test_a_model_of_another_kind_is_not_proven(small_set, kind):
    entry = next(entry for entry in small_set.manifest.models if entry.kind == WRONG[kind])
    model, _ = load(small_set.model_folder(entry))
    proof = proof_on(kind, model, small_set.texts[entry.data])
    assert float(proof.proven.double().mean()) < 0.5


def test_tasks_are_all_texts_of_all_models(small_set):
    listed = list(tasks(small_set))
    texts = sum(len(small_set.texts[entry.data]) for entry in small_set.manifest.models)
    assert len({task.example for task in listed}) == len(listed) == texts
    assert listed[0].words == listed[0].text.split()
