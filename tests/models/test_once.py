"""Each distinct text is run once, and so are shortened texts that are equal: a tie stays a tie on any processor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import attn_faithful as af
import attn_faithful.attributions  # registers the sources
from attn_faithful.attributions.base import Request, SourceSettings, attribute
from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.models.blocks import distinct_blocks
from attn_faithful.models.distinct_deletions import Naming, first_equal
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.models.inference import run_over
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.models.stock.model import StockModel
from tests.models.examples import small_model
from tests.models.stock_families import wrapped

OWN = ("lstm", "gru", "orthogonal_lstm", "cnn", "transformer", "mlp", "average")
REPEATED = ((5, 5, 6, 5, 7, 7, 7, 8), (9, 5, 5, 5), (6, 6), (7, 8, 7, 8, 8, 9, 9, 9))
BAGS = ("leave_one_out", "occlusion", "input_x_gradient", "saliency", "integrated_gradients", "state_leave_one_out")


def batch_of(texts=REPEATED):
    return Collator()([{"input_ids": list(ids)} for ids in texts])


def one_left_out(batch):
    size = batch["input_ids"].shape[1]
    return ~torch.eye(size, dtype=torch.bool).expand(len(batch["input_ids"]), size, size)


def han():
    torch.manual_seed(0)
    return HANClassifier(HANConfig(vocab_size=20, embedding_size=6, hidden_size=5, num_labels=3)).eval()


def read(ids, mask):
    """The texts of one forward, as the model reads them."""
    return [tuple(row[kept].tolist()) for row, kept in zip(ids, mask.bool(), strict=True)]


def shortened(batch, keep):
    """The texts that are left, and the sentences of their tokens, numbered anew."""
    mask = batch["attention_mask"].bool()
    texts = []
    for row in range(len(keep)):
        for flags in keep[row]:
            kept = mask[row] & flags
            sentences = batch.get("sentence_ids", torch.zeros_like(batch["input_ids"]))[row][kept].tolist()
            order = sorted(set(sentences))
            texts.append((tuple(batch["input_ids"][row][kept].tolist()), tuple(order.index(s) for s in sentences)))
    return texts


def check_ties(model, batch, keep, bag=False):
    logits = model.without(batch, keep).flatten(0, 1)
    texts = shortened(batch, keep)
    if bag:
        texts = [(tuple(sorted(ids)), sentences) for ids, sentences in texts]
    assert len(set(texts)) < len(texts)
    for text in set(texts):
        equal = logits[[i for i, other in enumerate(texts) if other == text]]
        assert torch.equal(equal, equal[:1].expand_as(equal)), text


@pytest.mark.parametrize("encoder", OWN)
def test_equal_shortened_texts_have_equal_logits(encoder):
    batch = batch_of()
    drawn = torch.rand(4, 40, 8, generator=torch.Generator().manual_seed(1)) < 0.6
    model = small_model(encoder=encoder)
    check_ties(model, batch, one_left_out(batch), bag=model.reads_alone)
    check_ties(model, batch, drawn, bag=model.reads_alone)


def test_equal_shortened_documents_have_equal_logits():
    batch = batch_of() | {"sentence_ids": torch.tensor([[0, 0, 1, 1, 2, 2, 3, 3]] * 4)}
    check_ties(han(), batch, one_left_out(batch))
    sentence = torch.arange(8) // 2
    repeated = batch_of(((5, 6, 5, 6, 5, 6, 7, 8),) * 2) | {"sentence_ids": sentence.expand(2, 8)}
    check_ties(han(), repeated, (sentence != torch.arange(4)[:, None]).expand(2, 4, 8))  # a sentence at a time


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart", "t5"])
def test_equal_shortened_texts_of_stock_models_have_equal_logits(name):
    model, batch = wrapped(name), batch_of()
    batch["input_ids"] += 10 * batch["attention_mask"]
    batch["input_ids"][batch["attention_mask"] == 0] = model.pad_token_id
    if name in ("bart", "t5"):  # each text ends as the model wants it to
        batch["input_ids"][torch.arange(4), batch["attention_mask"].sum(1) - 1] = 2
    keep = one_left_out(batch)
    keep[torch.arange(4), :, batch["attention_mask"].sum(1) - 1] = True
    check_ties(model, batch, keep)


@pytest.mark.parametrize("encoder", ["lstm", "cnn", "transformer"])
def test_no_forward_of_shortened_texts_holds_a_text_twice(encoder, monkeypatch):
    model, batch, asked = small_model(encoder=encoder), batch_of(), []
    forward = AttentionClassifier.forward
    monkeypatch.setattr(
        AttentionClassifier,
        "forward",
        lambda self, **inputs: (
            asked.append(read(inputs["input_ids"], inputs["attention_mask"])) or forward(self, **inputs)
        ),
    )
    keep = torch.ones(4, 9, 8, dtype=torch.bool)
    keep[:, 0, :2] = keep[:, 1, 1:3] = keep[:, 2, :3] = keep[:, 3, 4:] = keep[:, 4, 2:4] = False
    model.without(batch, keep)
    assert sum(map(len, asked)) > 10
    for texts in asked:
        assert len(set(texts)) == len(texts)


def test_no_forward_of_a_stock_model_holds_a_text_twice(monkeypatch):
    model, batch, asked = wrapped("bert"), batch_of(), []
    predicted = StockModel.predicted

    def counted(self, inputs):
        asked.append(read(inputs["input_ids"], inputs["attention_mask"]))
        return predicted(self, inputs)

    monkeypatch.setattr(StockModel, "predicted", counted)
    model.without(batch, one_left_out(batch))
    assert sum(map(len, asked)) > 10
    for texts in asked:
        assert len(set(texts)) == len(texts)


def test_blocks_hold_each_text_once_and_all_places_of_its_copies():
    generator = np.random.default_rng(0)
    texts = [generator.integers(2, 20, n).tolist() for n in generator.integers(1, 9, 90)]
    order = generator.permutation(270)
    thrice = Rows({"input_ids": [(texts * 3)[i] for i in order]})
    blocks, once = distinct_blocks(thrice), distinct_blocks(Rows({"input_ids": texts}))
    assert sorted(place for block in blocks for place in block.places) == list(range(270))
    assert [block.keys for block in blocks] == [block.keys for block in once]
    for block in blocks:
        for places, row in zip(block.copies, block.first, strict=True):
            assert {tuple(thrice["input_ids"][i]) for i in places} == {tuple(thrice["input_ids"][row])}


def test_texts_that_differ_in_anything_a_model_reads_are_two():
    same = {"input_ids": [[5, 6], [5, 6]]}
    assert [block.copies for block in distinct_blocks(Rows(same))] == [[[0, 1]]]
    for name, values in {
        "sentence_ids": [[0, 0], [0, 1]],
        "special_tokens_mask": [[0, 0], [1, 0]],
        "token_type_ids": [[0, 0], [0, 1]],
        "word_ids": [[0, 0], [0, 1]],
        "query_input_ids": [[7], [8]],
        "candidates": [[1, 0], [0, 1]],
    }.items():
        (block,) = distinct_blocks(Rows(same | {name: values}))
        assert sorted(block.copies) == [[0], [1]], name


@pytest.mark.parametrize("encoder", ["lstm", "mlp"])
def test_copies_change_no_bit_of_a_pass(encoder):
    generator = np.random.default_rng(2)
    texts = [generator.integers(2, 20, n).tolist() for n in generator.integers(0, 9, 70)]
    texts = [list(text) for text in dict.fromkeys(map(tuple, texts))]
    model, asked = small_model(encoder=encoder), []
    once = run_over(model, Rows({"input_ids": texts}), Collator())
    collate = Collator()
    places = [i for i in range(len(texts)) for _ in range(i % 4 + 1)][::-1]
    many = run_over(
        model,
        Rows({"input_ids": [texts[i] for i in places]}),
        lambda rows: asked.append([tuple(row["input_ids"]) for row in rows]) or collate(rows),
    )
    np.testing.assert_array_equal(many.probabilities, once.probabilities[places])
    for weights, i in zip(many.attention, places, strict=True):
        np.testing.assert_array_equal(weights, once.attention[i])
    every = [text for texts in asked for text in texts]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("encoder", ["lstm", "cnn", "transformer"])
def test_leave_one_out_of_repeated_neighbours_is_a_tie(encoder):
    model, batch = small_model(encoder=encoder), batch_of()
    found = attribute("leave_one_out", Request(model, batch, model.encode(batch))).values
    for row, ids in enumerate(REPEATED):
        for t in range(len(ids) - 1):
            assert (found[row, t] == found[row, t + 1]) or ids[t] != ids[t + 1]


@pytest.mark.parametrize("name", BAGS)
def test_equal_words_of_a_bag_of_words_are_a_tie(name):
    model, batch = small_model(encoder="mlp", dropout=0.0), batch_of()
    found = attribute(name, Request(model, batch, model.encode(batch))).values
    for row, ids in enumerate(REPEATED):
        for word in set(ids):
            own = found[row, [t for t, other in enumerate(ids) if other == word]]
            assert torch.equal(own, own[:1].expand_as(own))
    assert len(found[0, :8].unique()) > 2


def test_draws_of_equal_words_differ():
    model, batch = small_model(encoder="mlp"), batch_of()
    found = attribute("random", Request(model, batch, model.encode(batch), keys=list("abcd"))).values
    assert len(found[2, :2].unique()) == 2


@pytest.mark.parametrize("operator", ["unk", "mask", "pad"])
def test_a_token_that_is_already_what_takes_its_place_changes_nothing(operator):
    model, batch = small_model(), batch_of(((1, 5, 1, 6), (5, 6, 7, 8)))
    settings = SourceSettings(operator=operator)
    request = Request(model, batch, model.encode(batch), settings, token_ids={operator: 1})
    found = attribute("leave_one_out", request).values
    assert found[0, 0] == found[0, 2] == 0
    assert (found[1] > 0).all()


def test_a_zero_embedding_set_to_zero_changes_nothing():
    model, batch = small_model(), batch_of(((3, 5, 3, 6), (5, 6, 7, 8)))
    with torch.no_grad():
        model.embedding.weight[3] = 0
    for name, settings in (("occlusion", SourceSettings()), ("leave_one_out", SourceSettings(operator="zero"))):
        found = attribute(name, Request(model, batch, model.encode(batch), settings)).values
        assert found[0, 0] == found[0, 2] == 0
        assert (found[1] > 0).all()


def test_a_hand_written_model_keeps_ties_too():
    """Its own function gives another number each time it is asked."""
    model, batch = small_model(), batch_of()
    drawn = torch.Generator().manual_seed(0)
    noisy = af.wrap(encode=model.encode, without=lambda batch, keep: torch.rand(*keep.shape[:2], 2, generator=drawn))
    check_ties(noisy, batch, one_left_out(batch))


def test_which_shortened_texts_are_equal():
    batch = {"input_ids": torch.tensor([[5, 5, 6], [5, 6, 0]]), "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])}
    keep = torch.tensor([[[0, 1, 1], [1, 0, 1], [1, 1, 0]], [[1, 1, 1], [1, 1, 0], [0, 0, 0]]]).bool()
    assert first_equal(batch, keep).tolist() == [[0, 0, 2], [0, 0, 5]]
    assert first_equal(batch | {"query_input_ids": torch.tensor([[1], [2]])}, keep).tolist() == [[0, 0, 2], [3, 3, 5]]
    assert first_equal(batch | {"candidates": torch.tensor([[1, 0], [0, 1]])}, keep).tolist() == [[0, 0, 2], [3, 3, 5]]
    turned = {"input_ids": torch.tensor([[5, 6, 5]])}
    keep = torch.tensor([[[0, 1, 1], [1, 1, 0]]]).bool()
    assert first_equal(turned, keep).tolist() == [[0, 1]]
    assert first_equal(turned, keep, ordered=False).tolist() == [[0, 0]]


def said_by(batch, row, kept, ordered):
    """All that a model reads of the tokens that are left, as lists."""
    mask = batch.get("attention_mask", torch.ones_like(batch["input_ids"]))[row]
    places = [t for t, flag in enumerate(kept) if flag and mask[t]]
    columns = [batch[n] for n in ("input_ids", "token_type_ids", "inputs_embeds") if n in batch]
    tokens = [tuple(tuple(column[row][t].flatten().tolist()) for column in columns) for t in places]
    if "sentence_ids" in batch:
        own = [int(batch["sentence_ids"][row][t]) for t in places]
        tokens = [(token, sorted(set(own)).index(number)) for token, number in zip(tokens, own, strict=True)]
    elif not ordered:
        tokens = sorted(tokens)
    beside = batch["query_input_ids"][row].tolist() if "query_input_ids" in batch else None
    return repr((beside, tokens))


FURTHER = {
    "padded": {"attention_mask": lambda drawn: drawn(2).long()},
    "segments": {"token_type_ids": lambda drawn: drawn(2)},
    "sentences": {"sentence_ids": lambda drawn: drawn(3)},
    "rising sentences": {"sentence_ids": lambda drawn: 300 * drawn(3).sort(1).values},
    "queries": {"query_input_ids": lambda drawn: drawn(2)[:, :1]},
    "vectors": {"inputs_embeds": lambda drawn: torch.stack([drawn(2), drawn(2)], dim=-1).float()},
}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("further", FURTHER)
@pytest.mark.parametrize("words", [2, 60_000])  # of one byte, and of two
def test_names_are_equal_for_equal_texts_alone(words, further, ordered):
    generator = torch.Generator().manual_seed(3)
    b, t = (4, 6) if words == 2 else (2, 300)
    drawn = lambda most: torch.randint(0, most, (b, t), generator=generator)  # noqa: E731
    batch = {"input_ids": drawn(words)} | {name: make(drawn) for name, make in FURTHER[further].items()}
    keep = torch.rand(b, 40, t, generator=generator) < 0.5
    keep[:, 0], keep[:, 1], keep[:, 2:4] = False, True, keep[:, 4:6]
    naming = Naming.of(batch, ordered)
    texts, names = [], []
    for asked in (keep, keep[:, ::3]):  # one after the other
        texts += [said_by(batch, row, kept, ordered) for row in range(b) for kept in asked[row]]
        names += [name for row in naming.names(asked) for name in row]
    assert len(set(names)) == len(set(texts)) == len(set(zip(names, texts, strict=True)))
    assert len(set(texts)) < len(texts)
    first = first_equal(batch, keep, ordered).flatten().tolist()
    assert first == [texts.index(text) for text in texts[: len(first)]]
