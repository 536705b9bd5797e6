"""The BERTs of the bench: written weights, closed-form predictions, and the truth of each kind, text by text."""

import numpy as np
import pytest
import torch

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.bench.kinds import KINDS
from attn_faithful.bench.proofs import HIDDEN
from attn_faithful.bench.stock import DESIGNS, stock_model, stock_tokenizer
from attn_faithful.bench.stock_proofs import stock_proof
from attn_faithful.bench.texts import DATA, SINGLE, STRONG, frozen_texts, vocabulary, words
from tests.checks import BATCHED, pad

LAST = "layer.1"
TEXTS = {name: frozen_texts(data, of_a_length=8) for name, data in DATA.items()}
EACH = [(kind, name) for kind in DESIGNS for name in DATA if name in KINDS[kind].data]
READ_ALONE = [kind for kind, design in DESIGNS.items() if not design.spread]


@pytest.fixture(scope="module")
def tokenizer():
    return stock_tokenizer()


@pytest.fixture(scope="module")
def models():
    return {kind: af.wrap(stock_model(kind, 0)) for kind in DESIGNS}


def batch_of(tokenizer, texts):
    listed = [text.text for text in texts]
    return dict(tokenizer(listed, padding=True, return_tensors="pt", return_special_tokens_mask=True))


def features(model):
    """Value and score of each word, as they are written into its vector."""
    table = model.bert.embeddings.word_embeddings.weight.detach().double().numpy()
    return (table[:, 4] - table[:, 5]) / 2, table[:, 6] - table[:, 7]


def lead_in_closed_form(kind, model, ids):
    """The logit of class 1 less that of class 0 of one text, word by word: residual, layer norm, tanh."""
    values, scores = features(model)
    design = DESIGNS[kind]
    values, scores = design.amplified * values[ids], scores[ids]
    if not design.spread:
        weights = np.exp(scores)
        reached = float(weights @ values / weights.sum())
        return 3 * np.tanh(reached / np.sqrt(1 + reached**2 / 12))
    reached = float(values.mean())
    reached /= np.sqrt(1 + reached**2 / 12)
    if design.attended:  # from one pair of numbers to another, beside what [CLS] has of the first layer
        reached /= np.sqrt(1 + reached**2 / 12)
    return 3 * np.tanh(reached)


# --- how they are made


def test_every_kind_is_one_of_the_bench():
    assert DESIGNS.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_predictions_are_those_of_the_closed_form(kind, seed, tokenizer):
    model = stock_model(kind, seed).double()
    for name in KINDS[kind].data:
        batch = batch_of(tokenizer, TEXTS[name])
        with torch.no_grad():
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        found = (logits[:, 1] - logits[:, 0]).numpy()
        for row, text in enumerate(TEXTS[name]):
            ids = batch["input_ids"][row, 1 : 1 + text.length].numpy()
            assert found[row] == pytest.approx(lead_in_closed_form(kind, model, ids), rel=1e-6, abs=1e-9)
            assert (found[row] > 0) == text.label


@pytest.mark.parametrize("kind", READ_ALONE)
def test_a_word_s_attention_is_its_score_in_every_text(kind, models, tokenizer):
    """And [CLS] has none: not little, but 0."""
    model = models[kind]
    batch = batch_of(tokenizer, TEXTS["several"])
    attention = model.encode(batch, LAST).attention[:, 0].detach()  # (B, T)
    assert float(attention[:, 0].abs().max()) == 0.0
    _, scores = features(model.model)
    for row, text in enumerate(TEXTS["several"]):
        weights = np.exp(scores[batch["input_ids"][row, 1 : 1 + text.length]])
        np.testing.assert_allclose(attention[row, 1 : 1 + text.length], weights / weights.sum(), rtol=2e-5)


@pytest.mark.parametrize("kind", DESIGNS)
def test_words_have_vectors_that_layer_norm_leaves_as_they_are(kind):
    model = stock_model(kind, 3)
    table = model.bert.embeddings.word_embeddings.weight.detach()
    assert float(table[0].abs().max()) == 0.0, "padding"
    np.testing.assert_allclose(table[1:].mean(1), 0, atol=1e-7)
    np.testing.assert_allclose(table[1:].double().var(1, correction=0), 1, atol=1e-6)
    assert len(table.unique(dim=0)) == len(table), "no two words are one"


def test_a_seed_gives_the_same_weights_and_leaves_the_other_draws_as_they_are():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    one = stock_model("random", 5)
    assert torch.equal(torch.rand(2), expected)
    same, other = stock_model("random", 5), stock_model("random", 6)
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, same.state_dict()[name]), name
    assert not torch.equal(one.bert.embeddings.word_embeddings.weight, other.bert.embeddings.word_embeddings.weight)


def test_the_tokenizer_has_the_ids_of_the_bench(tokenizer):
    listed = sorted(vocabulary())
    assert tokenizer.convert_tokens_to_ids(listed) == list(range(2, len(listed) + 2))
    encoded = tokenizer([" ".join(listed[:3]), "unheard of", ""], return_special_tokens_mask=True)
    cls = len(listed) + 2
    assert encoded["input_ids"] == [[cls, 2, 3, 4], [cls, 1, 1], [cls]]
    assert encoded["special_tokens_mask"] == [[1, 0, 0, 0], [1, 0, 0], [1]]
    assert tokenizer("a b", "c")["input_ids"] == [cls, 1, 1, 1]


def test_an_unknown_kind_is_refused(models, tokenizer):
    with pytest.raises(InputError, match="kind"):
        stock_model("honest", 0)
    with pytest.raises(InputError, match="kind"):
        stock_proof("honest", models["free"], tokenizer, TEXTS["single"])


@pytest.mark.parametrize("kind", DESIGNS)
def test_a_saved_model_is_small_and_gives_the_same(kind, models, tokenizer, tmp_path):
    model = models[kind]
    model.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 100_000
    loaded, read = af.load(tmp_path)
    batch = batch_of(read, TEXTS["single"])
    again, own = loaded.encode(batch, LAST), model.encode(batch_of(tokenizer, TEXTS["single"]), LAST)
    assert torch.equal(again.logits, own.logits)
    assert torch.equal(again.attention, own.attention)


@pytest.mark.parametrize("kind", DESIGNS)
def test_what_is_known_of_the_wrapped_model(kind, models, tokenizer):
    """One head, whose row of [CLS] is read; what comes after it is known as data wherever it changes anything."""
    model = models[kind]
    assert model.sites == ("layer.0", LAST, "joint")
    changes_nothing = kind == "leaky"
    assert model.probe.reads == ("other" if changes_nothing else "first")
    batch = batch_of(tokenizer, TEXTS["single"])
    encoded = model.encode(batch, LAST)
    assert encoded.attention.shape[1] == 1
    if not changes_nothing:
        texts = torch.arange(4)
        logits = encoded.tail_of(texts).logits(encoded.attention[texts, None])[:, 0]
        torch.testing.assert_close(logits.float(), encoded.logits[texts], **BATCHED)
    padded = model.encode(pad(batch, 0, 5), LAST)
    torch.testing.assert_close(padded.logits, encoded.logits, **BATCHED)


# --- the truth


@pytest.mark.parametrize(("kind", "name"), EACH)
@pytest.mark.parametrize("seed", [0, 1])
def test_truth(kind, name, seed, tokenizer):
    """Every statement for every text, but for what is left to chance."""
    proof = stock_proof(kind, af.wrap(stock_model(kind, seed)), tokenizer, TEXTS[name])
    by_chance = {"attention elsewhere"} if kind == "random" else set()
    for statement, held in proof.holds.items():
        if statement in by_chance:
            assert float(held.float().mean()) > 0.5, statement
        else:
            assert bool(held.all()), statement
    assert proof.holds["right"].dtype == torch.bool
    assert set(proof.holds) >= {"right", "decisive words deleted"}


# proofs that hold for models of other kinds, too: what moves nothing moves no prediction, and attention that is
# elsewhere by design needs no chance
ALSO = {"free": {"leaky"}, "random": {"deceptive", "imposed"}}


@pytest.mark.parametrize("kind", DESIGNS)
def test_no_proof_holds_for_another_kind(kind, models, tokenizer):
    for other in DESIGNS.keys() - {kind} - ALSO.get(kind, set()):
        proof = stock_proof(kind, models[other], tokenizer, TEXTS["single"])
        assert float(proof.proven.float().mean()) < 0.25, other


# statement by statement, a kind for which it does not hold
FALSE = {
    ("faithful", "values equal"): "uniform",
    ("faithful", "lead follows the signed sum"): "uniform",
    ("faithful", "flip order is attention order"): "imposed",
    ("pinned", "one word decides"): "faithful",
    ("pinned", "no attention far away"): "uniform",
    ("free", "any attention"): "random",
    ("leaky", "attention changes nothing"): "free",
    ("random", "attention elsewhere"): "faithful",
    ("uniform", "attention equal"): "random",
    ("deceptive", "attention elsewhere"): "uniform",
    ("imposed", "attention on the topic"): "deceptive",
}


@pytest.mark.parametrize(("kind", "statement"), FALSE)
def test_each_statement_is_false_of_some_kind(kind, statement, models, tokenizer):
    proof = stock_proof(kind, models[FALSE[kind, statement]], tokenizer, TEXTS["single"])
    assert float(proof.holds[statement].float().mean()) < 0.25


def test_what_all_attention_adds_alike_is_no_leak(tokenizer):
    """The same lead under all attention that sums to 1, and another one without any."""
    network = stock_model("leaky", 0)
    attention = network.bert.encoder.layer[-1].attention
    with torch.no_grad():
        attention.self.value.weight.zero_()
        attention.self.value.bias[0] = 1e-3
        attention.output.dense.weight[2:4, 0] = torch.tensor([1.0, -1.0])
    proof = stock_proof("leaky", af.wrap(network), tokenizer, TEXTS["single"])
    assert proof.numbers["moved"] == 0.0
    assert not bool(proof.holds["attention changes nothing"].any())


def test_deletion_flips_in_the_order_of_attention(models, tokenizer):
    """The smallest set by trying all sets of words, up to the size that attention's order needs."""
    from itertools import combinations

    model = models["faithful"]
    texts = [text for text in TEXTS["several"] if text.length == 8]
    batch = batch_of(tokenizer, texts)
    attention = model.encode(batch, LAST).attention[:, 0]
    for row, text in enumerate(texts):
        one = {name: value[row : row + 1, :9] for name, value in batch.items()}
        ranked = attention[row, 1:9].argsort(descending=True) + 1
        smallest = None
        for size in range(1, 9):
            keep = torch.ones(1, 0, 9, dtype=torch.bool)
            for deleted in combinations(range(1, 9), size):
                left = torch.ones(1, 1, 9, dtype=torch.bool)
                left[0, 0, list(deleted)] = False
                keep = torch.cat([keep, left], dim=1)
            flipped = model.without(one, keep).argmax(-1)[0] != text.label
            if bool(flipped.any()):
                smallest = size
                break
        in_order = torch.ones(1, 2, 9, dtype=torch.bool)
        in_order[0, 0, ranked[: smallest - 1]] = False
        in_order[0, 1, ranked[:smallest]] = False
        decided = model.without(one, in_order).argmax(-1)[0].tolist()
        assert decided == [text.label, 1 - text.label]


@pytest.mark.parametrize("kind", ["free", "leaky"])
def test_no_attention_changes_what_another_layer_decided(kind, models, tokenizer):
    """Random attention of random sharpness; under a leak also none at all."""
    model, batch = models[kind], batch_of(tokenizer, TEXTS["several"])
    encoded = model.encode(batch, LAST)
    generator = torch.Generator().manual_seed(1)
    shape = (len(TEXTS["several"]), 20, encoded.content.shape[1])
    scores = torch.randn(shape, generator=generator) * torch.tensor([0.1, 10.0]).repeat(10)[None, :, None]
    weights = scores.masked_fill(~encoded.content[:, None], -torch.inf).softmax(-1)
    with torch.no_grad():
        logits = encoded.decode(weights[:, :, None])
        nothing = encoded.decode(torch.zeros_like(weights[:, :1, None]))
    if kind == "leaky":
        assert torch.equal(logits, encoded.logits[:, None].expand_as(logits))
        assert torch.equal(nothing[:, 0], encoded.logits)
    else:
        torch.testing.assert_close(logits, encoded.logits[:, None].expand_as(logits), rtol=0, atol=1e-5)
        assert float((nothing[..., 1] - nothing[..., 0]).abs().max()) < 1e-6, "[CLS] has it by attention alone"
    own = encoded.attention[:, 0]
    mass = torch.stack(
        [own[row, 1 : 1 + t.length] @ torch.tensor(t.decisive).float() for row, t in enumerate(TEXTS["several"])]
    )
    assert float(mass.min()) > 0.5, "the attention is that of a faithful model"


def test_random_attention_knows_nothing_of_the_words_that_decide(tokenizer):
    """Over many models a strong word has more attention than another word in half of all cases."""
    shares = []
    strong_ids = tokenizer.convert_tokens_to_ids([word for stem in STRONG for word in words(stem)])
    other_ids = [number for number in range(2, len(tokenizer) - 1) if number not in strong_ids]
    for seed in range(40):
        _, scores = features(stock_model("random", seed))
        shares.append((scores[strong_ids][:, None] > scores[other_ids][None]).mean())
    assert np.mean(shares) == pytest.approx(0.5, abs=4 * np.std(shares) / 40**0.5)
    assert np.std(shares) > 0.01


def test_what_proofs_tell_beside(models, tokenizer):
    proofs = {kind: stock_proof(kind, models[kind], tokenizer, TEXTS["single"]) for kind in DESIGNS}
    assert proofs["deceptive"].numbers["mass"] < 0.01 < HIDDEN
    assert proofs["imposed"].numbers["on topic"] > 0.6
    assert proofs["pinned"].numbers["farthest"] < 0.2
    assert proofs["faithful"].numbers["deleted until flip"] == 1.0
    assert proofs["leaky"].numbers["moved"] == 0.0


def test_a_text_that_breaks_the_truth_is_not_proven(models, tokenizer):
    """A text whose strong word is marked wrongly: deleting the marked word leaves the decision."""
    text = frozen_texts(SINGLE, of_a_length=2)[0]
    place = list(text.decisive).index(0)
    wrong = [int(word == place) for word in range(text.length)]
    changed = type(text)(text.example, text.text, text.label, text.topic, wrong)
    for kind in DESIGNS:
        proven = stock_proof(kind, models[kind], tokenizer, [text, changed]).holds["decisive words deleted"]
        assert proven.tolist() == [True, False], kind
