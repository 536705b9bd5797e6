"""Callers who switched gradients off: tests and sources that need some take them all the same, and find the same."""

from __future__ import annotations

import pytest
import torch

import attn_faithful as af
from attn_faithful.evaluators.adversarial import AdversarialSettings, run
from attn_faithful.evaluators.adversarial_search import SearchSettings, search
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier
from tests.data.pieces import wordpiece
from tests.evaluators.blocks import random_block
from tests.experiments.test_evaluation_stock import NAMES, SMALL, bert

TEXTS = ["good movies, not bad", "unbelievably bad", ""]
ON_EMBEDDINGS = ["saliency", "input_x_gradient", "integrated_gradients"]
ON_STATES = ["state_saliency", "state_leave_one_out", "hidden_gradient", "occlusion"]
ON_LAYERS = ["attention_relevance", "value_norm", "value_zeroing", "rollout"]


def both_models():
    tokenizer = wordpiece()
    torch.manual_seed(0)
    config = AttentionClassifierConfig(
        vocab_size=len(tokenizer), encoder="lstm", embedding_size=8, hidden_size=8, id2label=NAMES["id2label"]
    )
    return tokenizer, (
        (AttentionClassifier(config), [*ON_EMBEDDINGS, *ON_STATES]),
        (af.wrap(bert(tokenizer, **NAMES)), [*ON_EMBEDDINGS, *ON_LAYERS]),
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """(model, mode) -> all tables of a whole evaluation in that mode."""
    tokenizer, models = both_models()
    tables = {}
    for place, (model, sources) in enumerate(models):
        asked = {"test_settings": SMALL, "extra_sources": sources, "controls": []}
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode():
                folder = tmp_path_factory.mktemp("run")
                result = af.evaluate_attention(model, tokenizer, TEXTS, output=folder, settings=asked)
                assert torch.is_grad_enabled() == (mode is torch.enable_grad)  # the caller's mode is left alone
            tables[place, mode] = [result.examples, result.tokens, result.variants]
    return tables


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("model", [0, 1], ids=["own", "stock"])
def test_an_evaluation_finds_the_same_without_gradients(found, model, mode):
    for table, expected in zip(found[model, mode], found[model, torch.enable_grad], strict=True):
        assert len(expected)
        assert table.equals(expected)


@pytest.mark.parametrize("affine", [True, False])
def test_the_search_alone_finds_the_same_without_gradients(affine):
    block = random_block((5, 4), classes=3, affine=affine)
    settings = SearchSettings(k=2, steps=5)
    expected = search(block, settings)
    with torch.no_grad():
        torch.testing.assert_close(search(block, settings), expected, rtol=0, atol=0)
        run(block, AdversarialSettings(search=settings))
    assert not expected.requires_grad
