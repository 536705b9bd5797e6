"""What a model must say of itself: the base with its defaults, a subclass of a user's, and a model without the base."""

from __future__ import annotations

import doctest
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.models import adapted as adapting
from attn_faithful.models import protocol
from attn_faithful.models.adapted import adapted, class_name, network_of, original
from attn_faithful.models.entry import as_attention_model
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.models.protocol import AttentionModel, Encoded
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.wrapped import OwnModel
from tests.models.examples import small_batch, small_model

TEXTS = ["good movie, not bad", "bad movie bad", "unbelievably good"]


class Words(nn.Module):
    """Attention over words, each read alone, with the members of the protocol that have no default."""

    sites = ("pool",)

    def __init__(self, words: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.score, self.says = nn.Embedding(words, 1), nn.Embedding(words, 2)
        self.config = SimpleNamespace(num_labels=2, id2label={0: "negative", 1: "positive"})

    def encode(self, batch, site="pool"):
        content = batch["attention_mask"].bool()
        scores = self.score(batch["input_ids"])[..., 0]
        attention = scores.masked_fill(~content, -torch.inf).softmax(-1)[:, None]
        values = self.says(batch["input_ids"])

        def decode(weights):
            return weights[:, :, 0] @ values

        return Encoded(attention, content[:, None], content, "token", decode(attention[:, None])[:, 0], decode)


class Deleting(Words):
    embedding_gradients = False

    def without(self, batch, keep):
        logits = []
        for alternative in keep.unbind(1):
            mask = batch["attention_mask"].bool() & alternative
            logits.append(self.encode({**batch, "attention_mask": mask}).logits)
        return torch.stack(logits, dim=1)


class Derived(Deleting, AttentionModel):
    pass


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS)


def test_our_models_derive_from_the_base():
    for kind in (AttentionClassifier, HANClassifier, StockModel, OwnModel):
        assert issubclass(kind, AttentionModel)
    assert af.AttentionModel is AttentionModel
    model = small_model(encoder="mlp")
    assert adapted(model) is as_attention_model(model) is original(model) is model
    assert model.reads_alone
    assert not model.reads_pairs


def test_members_of_a_model_take_the_place_of_defaults():
    class Mine(AttentionModel):
        sites = ("pool",)
        same_items = True

        def __init__(self):
            self.max_tokens = 7

    model = Mine()
    assert (model.same_items, model.max_tokens, model.pad_token_id, model.cost(5)) == (True, 7, 0, 5)
    assert not model.deletes
    with pytest.raises(InputError, match="Mine cannot delete tokens"):
        model.without({}, torch.ones(1, 1, 1))
    model.without = lambda batch, keep: keep
    assert model.deletes


@pytest.mark.parametrize("kind", [Derived, Deleting])
def test_a_model_of_a_user_is_tested_with_the_base_and_without(tokenizer, tmp_path, kind):
    results = [
        af.evaluate_attention(
            made(len(tokenizer)),
            tokenizer,
            TEXTS,
            ["permutation", "erasure"],
            output=tmp_path / made.__name__,
            settings={"controls": []},
        )
        for made in (Derived, kind)
    ]
    expected, found = (result.folder.read_table("scores").to_pandas() for result in results)
    assert {"permutation", "erasure"} <= set(results[0].table()["test"])
    assert found.equals(expected)


def test_a_model_without_the_base_says_what_it_defines(tokenizer):
    words = Words(len(tokenizer))
    model = as_attention_model(words)
    assert isinstance(model, AttentionModel)
    assert original(model) is network_of(model) is words
    assert class_name(model) == "Words"
    assert not model.deletes
    assert as_attention_model(Deleting(len(tokenizer))).deletes
    assert model.config is words.config
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert torch.equal(model.encode(batch, "pool").logits, words.encode(batch).logits)
    assert as_attention_model(model) is adapted(model) is model


def test_what_a_model_lacks_is_told():
    class Silent(AttentionModel):
        sites = ("pool",)

    with pytest.raises(InputError, match="Silent has no encode, config, parameters"):
        as_attention_model(Silent())


def test_a_subclass_of_a_transformers_model_keeps_its_embeddings():
    model = small_model()
    assert model.get_input_embeddings() is model.embedding
    assert model.max_tokens is None
    learned = small_model(encoder="transformer", positions="learned", max_positions=9)
    assert learned.max_tokens == 9
    encoded = learned.encode(small_batch((5,)))
    # one sums its products in another order than the other, and whether a last bit goes with it is the processor's
    torch.testing.assert_close(learned(**small_batch((5,))).logits, encoded.logits, atol=1e-6, rtol=0)


def test_examples():
    for module in (protocol, adapting):
        assert doctest.testmod(module).failed == 0
