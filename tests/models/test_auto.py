"""Models of ours through transformers' Auto classes, in a process of its own (case C32)."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier

TEXTS = ["good film", "an awful bad film indeed", ""]
SCRIPT = """
import json, sys
{imports}
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
batch = tokenizer({texts!r}, padding=True, return_tensors="pt")
output = model(**batch)
named = pipeline("text-classification", model=sys.argv[1])({texts!r}[:2])
print(json.dumps([output.logits.softmax(-1).tolist(), output.attentions.tolist(), [row["label"] for row in named]]))
"""
OURS = "import attn_faithful"
THEIRS = "from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline"
ORDERS = {
    "ours first": [OURS, THEIRS],
    "ours last": [THEIRS, OURS],
    "model base first": [OURS, "from transformers import PreTrainedModel", THEIRS],
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    tokenizer = train_tokenizer(TEXTS)
    torch.manual_seed(0)
    config = AttentionClassifierConfig(
        vocab_size=len(tokenizer),
        embedding_size=6,
        hidden_size=4,
        projection="sparsegen",
        sparsegen_lambda=0.3,
        id2label={0: "bad", 1: "good"},
    )
    model = AttentionClassifier(config).eval()
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return model, tokenizer, path


@pytest.mark.parametrize("order", ORDERS)
def test_a_fresh_process_gives_the_same_numbers(saved, order):
    model, tokenizer, path = saved
    script = SCRIPT.format(imports="\n".join(ORDERS[order]), texts=TEXTS)
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    probabilities, attention, labels = json.loads(done.stdout.splitlines()[-1])
    with torch.no_grad():
        output = model(**tokenizer(TEXTS, padding=True, return_tensors="pt"))
    np.testing.assert_allclose(probabilities, output.logits.softmax(-1), atol=1e-6)
    np.testing.assert_allclose(attention, output.attentions, atol=1e-6)
    assert labels == [model.config.id2label[i] for i in output.logits[:2].argmax(-1).tolist()]


def test_load_checks_what_it_loads(saved, tmp_path):
    import attn_faithful as af

    model, tokenizer, path = saved
    loaded, read = af.load(path)
    assert all(torch.equal(v, loaded.state_dict()[k]) for k, v in model.state_dict().items())
    assert read(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]
    assert (loaded.config.projection, loaded.config.sparsegen_lambda) == ("sparsegen", 0.3)
    with pytest.raises(af.InputError, match="no folder"):
        af.load(tmp_path / "nowhere")
    model.save_pretrained(tmp_path / "other")
    train_tokenizer([" ".join(f"w{chr(97 + i)}" for i in range(20))]).save_pretrained(tmp_path / "other")
    with pytest.raises(af.InputError, match="vocab_size"):
        af.load(tmp_path / "other")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"encodr": "mlp"}, r"Unknown setting 'encodr' of AttentionClassifierConfig\. Did you mean 'encoder'\?"),
        ({"blend": 2}, r"Unknown setting 'blend'.*Known: activation, .*pip install -U attn-faithful"),
        ({"mixing": 2, "attn_faithful_version": "99.0"}, r"sets mixing, .*attn_faithful 99\.0 wrote it, .*install -U"),
        ({"projection": "cubemax", "attn_faithful_version": "99.0"}, r"'cubemax'.*attn_faithful 99\.0 wrote it"),
        ({"projecton": "softmax", "attn_faithful_version": "0.0.1"}, "Did you mean 'projection'"),
    ],
)
def test_settings_of_no_version_are_refused(given, says):
    """Case C32, a newer configuration: the name, and what to do."""
    import attn_faithful as af

    with pytest.raises(af.InputError, match=says):
        AttentionClassifierConfig(vocab_size=9, **given)


def test_a_users_own_note_survives(saved, tmp_path):
    """In a configuration that this version wrote, and so do the numbers; nothing is left of how classes are found."""
    model, _, _ = saved
    model.config.note = "of mine"
    try:
        model.save_pretrained(tmp_path)
    finally:
        del model.config.note
    loaded = AttentionClassifier.from_pretrained(tmp_path)
    assert loaded.config.note == "of mine"
    written = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert written["auto_map"]["AutoConfig"] == "attn_faithful_model.AttentionClassifierConfig"
    assert (tmp_path / "attn_faithful_model.py").is_file()
    assert loaded.config.to_dict().keys() - {"note"} == model.config.to_dict().keys()


EARLIER_CODE = """from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.modeling import AttentionClassifier

__all__ = ["AttentionClassifierConfig", "AttentionClassifier"]
"""
LOAD = """
import sys
from transformers import AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], trust_remote_code=True)
print(type(model).__module__, sum(float(weight.double().sum()) for weight in model.parameters()))
"""


def test_the_module_that_an_earlier_version_saved_finds_the_classes(saved, tmp_path):
    """It names the module in which the class stood then; nothing of ours is imported before."""
    model, _, path = saved
    folder = tmp_path / "model"
    shutil.copytree(path, folder)
    (folder / "attn_faithful_model.py").write_text(EARLIER_CODE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    module, total = done.stdout.split()
    assert module == "attn_faithful.models.pooled"
    assert float(total) == sum(float(weight.double().sum()) for weight in model.parameters())


def test_a_checkpoint_of_a_stock_model_without_its_head(tmp_path):
    """Case C32: transformers prints a report and goes on with a random head."""
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    import attn_faithful as af

    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = BertConfig(vocab_size=9, **small)
    BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(af.InputError, match="BertModel is a model without a head"):
        af.load(tmp_path)
    (tmp_path / "config.json").write_text((tmp_path / "config.json").read_text().replace('"BertModel"', ""))
    with pytest.raises(af.InputError, match=r"lacks the weights classifier\.bias, classifier\.weight"):
        af.load(tmp_path)
    assert BertForSequenceClassification.from_pretrained(tmp_path) is not None


def test_a_wrapped_model_speaks_the_protocol():
    import attn_faithful as af

    inner = AttentionClassifier(AttentionClassifierConfig(vocab_size=9, embedding_size=4, hidden_size=4, encoder="mlp"))
    batch = {"input_ids": torch.tensor([[2, 3, 4]])}
    outer = af.wrap(encode=lambda batch: inner.encode(batch, "pool"))
    assert torch.equal(outer.encode(batch, "pool").logits, inner.encode(batch, "pool").logits)
    with pytest.raises(af.InputError, match="site"):
        outer.encode(batch, "word")
    with pytest.raises(af.InputError, match="without"):
        outer.without(batch, torch.ones(1, 1, 3, dtype=torch.bool))


def test_public_names_exist():
    import attn_faithful as af

    for name in af.__all__:
        assert getattr(af, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = af.nothing


def test_a_model_folder_without_its_tokenizer_is_refused(tmp_path):
    from transformers import BertConfig, BertForSequenceClassification

    import attn_faithful as af

    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertForSequenceClassification(BertConfig(vocab_size=30, **small)).save_pretrained(tmp_path)
    with pytest.raises(af.InputError, match=r"holds a model and no tokenizer .*tokenizer\.save_pretrained"):
        af.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(af.InputError, match="knows no word, only special tokens"):
        af.load(tmp_path)
