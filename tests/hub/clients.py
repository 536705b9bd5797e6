"""What the client processes of the tests do; each prints one line of JSON at its end.

Run as ``python clients.py NAME FOLDER``: the environment names the Hub and the caches.
"""

import io
import json
import logging
import sys
from contextlib import redirect_stderr
from importlib.abc import MetaPathFinder
from pathlib import Path

TEXTS = ["a good film . not bad at all", "a bad film"]
MODELS = {"pooled": "user/pooled", "han": "user/han"}


def push(folder):
    """Train a step, save two models, push everything there is to push."""
    import attn_faithful as af
    from attn_faithful.data.encoding import train_tokenizer
    from attn_faithful.hub.push import push_data, push_metric, push_model, push_report
    from attn_faithful.models.han import HANClassifier, HANConfig
    from attn_faithful.reports.model_card import model_card
    from attn_faithful.reports.runs import Run

    tokenizer = train_tokenizer(TEXTS)
    labels = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
    small = {"vocab_size": len(tokenizer), "embedding_size": 6, "hidden_size": 4, **labels}
    pooled = af.AttentionClassifier(
        af.AttentionClassifierConfig(encoder="lstm", projection="sparsegen", sparsegen_lambda=0.3, **small)
    )
    step(pooled, tokenizer)
    han = HANClassifier(HANConfig(**small))
    run = folder / "run"
    for place, model in ((run / "model", pooled), (folder / "han", han)):
        model.save_pretrained(place)
        tokenizer.save_pretrained(place)
    card = model_card(Run(run))
    urls = [
        push_model(run, MODELS["pooled"], card=card),
        push_model(folder / "han", MODELS["han"], private=True),
        push_metric("attefa", "user/attefa"),
        push_metric("erasure", "user/my-erasure"),
        push_metric("attention_correlation", "user/tau"),
        push_metric("importance_entropy", "user/entropy"),
        push_data(run, "user/tables"),
        push_report(folder / "page.html", "user/report"),
        push_model(run, "user/drop-once"),
    ]
    return {"urls": urls, "card": card, **outputs({"pooled": pooled.eval(), "han": han.eval()}, tokenizer)}


def step(model, tokenizer):
    import torch

    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    optimizer = torch.optim.Adam(model.parameters())
    model(**batch, labels=torch.tensor([1, 0])).loss.backward()
    optimizer.step()


def outputs(models, tokenizer):
    """Weights as their sums, logits and attention of both models, and what the tokenizer says."""
    import torch

    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    found = {"ids": batch["input_ids"].tolist()}
    for name, model in models.items():
        extra = {"sentence_ids": torch.zeros_like(batch["input_ids"])} if name == "han" else {}
        with torch.no_grad():
            output = model(**batch, **extra)
        weights = {key: value.double().sum().item() for key, value in model.state_dict().items()}
        settings = [model.config.projection, model.config.sparsegen_lambda, model.config.id2label[1]]
        found[name] = [output.logits.tolist(), output.attentions.tolist(), weights, settings]
    return found


def load(folder):
    """Everything that was pushed, with the package imported."""
    import datasets
    import evaluate
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    import attn_faithful as af

    tokenizer = AutoTokenizer.from_pretrained(MODELS["pooled"])
    models = {name: AutoModelForSequenceClassification.from_pretrained(place) for name, place in MODELS.items()}
    own = {name: isinstance(model, af.AttentionClassifier) for name, model in models.items()}
    classify = pipeline("text-classification", model=MODELS["pooled"])
    with redirect_stderr(io.StringIO()):
        of_han = message(lambda: pipeline("text-classification", model=MODELS["han"])(TEXTS))
    columns = {"predictions": [[0.7, 0.3]], "references": [[0.9, 0.1]]}
    attention = {"prediction_attentions": [[0.0, 1.0]], "reference_attentions": [[1.0, 0.0]]}
    attefa = evaluate.load("user/attefa", keep_in_memory=True)
    erasure = evaluate.load("user/my-erasure", keep_in_memory=True)
    several = evaluate.combine([evaluate.load(f"user/{name}", keep_in_memory=True) for name in ("tau", "entropy")])
    tables = datasets.load_dataset("user/tables", "predictions")["train"]
    return {
        **outputs(models, tokenizer),
        "own": own,
        "pipeline": classify(TEXTS),
        "han_pipeline": of_han,
        "attefa": attefa.compute(**columns, **attention)["attefa"],
        "erasure": erasure.compute(predictions=[[0.5]], references=[0.7], sufficient=[[0.6]])["comprehensiveness"],
        "several": several.compute(predictions=[[0.1, 0.9], [0.5, 0.5]], references=[[1.0, 2.0], [1.0, 2.0]]),
        "table": tables.to_dict(),
    }


def without(folder):
    """Loading where the package is not imported, or not there at all."""
    from transformers import AutoModelForSequenceClassification

    def pooled(**options):
        return AutoModelForSequenceClassification.from_pretrained(MODELS["pooled"], **options)

    logging.disable(logging.WARNING)
    found = {"unasked": message(pooled), "imported": "attn_faithful" in sys.modules}
    hidden = Hidden()
    sys.meta_path.insert(0, hidden)
    for name, place in MODELS.items():
        found[f"missing_{name}"] = message(
            lambda place=place: AutoModelForSequenceClassification.from_pretrained(place, trust_remote_code=True)
        )
    sys.meta_path.remove(hidden)
    models = {
        name: AutoModelForSequenceClassification.from_pretrained(place, trust_remote_code=True)
        for name, place in MODELS.items()
    }
    classes = {name: f"{type(model).__module__}.{type(model).__name__}" for name, model in models.items()}
    return {**found, "classes": classes}


class Hidden(MetaPathFinder):
    """As if the package were not installed."""

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "attn_faithful":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def refuse(folder):
    """What cannot be pushed, and what the messages say; needs no transformers."""
    import os

    from attn_faithful.hub.push import push_data, push_metric, push_model, push_report

    os.chdir(folder)
    run, nan = folder / "run", "---\nx:\n- value: .nan\n---\n# A model\n"
    partial = (
        "---\nmodel-index:\n- name: m\n  results:\n  - task: {type: t}\n    dataset: {name: d}\n    metrics: []\n---\n"
    )
    found = {
        "taken": message(lambda: push_model(run, "other/taken")),
        "not_yours": message(lambda: push_metric("attefa", "other/attefa")),
        "public": message(lambda: push_model(run, MODELS["pooled"], private=True)),
        "bad_token": message(lambda: push_metric("attefa", "user/other", token="hf_unknown")),
        "name": message(lambda: push_metric("attefa", "attefa")),
        "metric": message(lambda: push_metric("atefa", "user/attefa")),
        "no_model": message(lambda: push_model(folder, "user/m")),
        "no_run": message(lambda: push_data(folder / "han", "user/d")),
        "no_page": message(lambda: push_report(run, "user/r")),
        "nan": message(lambda: push_model(run, "user/nan", card=nan)),
        "partial": message(lambda: push_model(run, "user/partial", card=partial)),
        "lost": message(lambda: push_model(run, "user/drop-always")),
        "lost_metric": message(lambda: push_metric("attefa", "user/drop-always")),
        "silent": message(lambda: push_metric("erasure", "user/silent", wait=1)),
    }
    os.environ.pop("HF_TOKEN")
    found["no_token"] = message(lambda: push_model(run, "user/m"))
    return found


def message(call):
    """Class and text of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    result = globals()[sys.argv[1]](Path(sys.argv[2]))
    print(f"\n{json.dumps(result)}")  # transformers may have left a question on the line
