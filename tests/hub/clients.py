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
PLAIN = {"pooled": "user/plain", "han": "user/plain-han"}  # by transformers' own push_to_hub
ATTEFA = {
    "predictions": [[0.7, 0.3], [0.2, 0.8], [0.6, 0.4]],
    "references": [[0.9, 0.1], [0.4, 0.6], [0.6, 0.4]],
    "prediction_attentions": [[0.0, 1.0], [0.5, 0.5], [0.3, 0.7]],
    "reference_attentions": [[1.0, 0.0], [0.1, 0.9], [0.9, 0.1]],
}


def push(folder):
    """Train a step, save two models, push everything there is to push; then what is refused."""
    import attn_faithful as af
    from attn_faithful.data.sentence_tokenizer import with_sentences
    from attn_faithful.data.tokenizer import train_tokenizer
    from attn_faithful.hub.push import push_data, push_metric, push_model, push_report
    from attn_faithful.models.han import HANClassifier, HANConfig
    from attn_faithful.reports.model_card import model_card
    from attn_faithful.reports.run import Run

    tokenizer = train_tokenizer(TEXTS)
    labels = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
    small = {"vocab_size": len(tokenizer), "embedding_size": 6, "hidden_size": 4, **labels}
    pooled = af.AttentionClassifier(
        af.AttentionClassifierConfig(encoder="lstm", projection="sparsegen", sparsegen_lambda=0.3, **small)
    )
    step(pooled, tokenizer)
    han = HANClassifier(HANConfig(**small))
    run = folder / "run"
    for place, model, reader in (
        (run / "model", pooled, tokenizer),
        (folder / "han", han, with_sentences(tokenizer)),
        (folder / "old-han", han, tokenizer),
        (folder / "headless", pooled, tokenizer),
    ):
        model.save_pretrained(place)
        reader.save_pretrained(place)
    as_of_old(folder / "old-han" / "config.json")
    behead(folder / "headless" / "model.safetensors")
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
        push_model(folder / "old-han", "user/old-han"),
        push_model(folder / "headless", "user/headless"),
    ]
    for model, reader, place in ((pooled, tokenizer, PLAIN["pooled"]), (han, with_sentences(tokenizer), PLAIN["han"])):
        model.push_to_hub(place)
        reader.push_to_hub(place)
    found = outputs({"pooled": pooled.eval(), "han": han.eval()}, tokenizer)
    train(pooled, tokenizer, folder / "trained")
    return {"urls": urls, "card": card, **found, "refused": refuse(folder)}


def as_of_old(path):
    """A configuration as versions wrote it that saved no code beside it."""
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(
        json.dumps({key: config[key] for key in config if key not in ("auto_map", "attn_faithful_version")})
    )
    path.with_name("attn_faithful_model.py").unlink()


def behead(path):
    """Weights without those of the read-out."""
    from safetensors.torch import load_file, save_file

    kept = {name: weight for name, weight in load_file(path).items() if not name.startswith("readout")}
    save_file(kept, path, {"format": "pt"})


def train(model, tokenizer, folder):
    """``Trainer(push_to_hub=True)``: one step, and the push at its end."""
    import datasets
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    rows = datasets.Dataset.from_dict({**tokenizer(TEXTS), "labels": [1, 0]})
    arguments = TrainingArguments(
        str(folder),
        max_steps=1,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        push_to_hub=True,
        hub_model_id="user/trained",
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=rows,
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()
    trainer.push_to_hub()


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
    """Everything that was pushed, with the package imported; the metric first, in two processes at once."""
    import datasets
    import evaluate

    shared = share_between_two()
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    import attn_faithful as af

    load = AutoModelForSequenceClassification.from_pretrained
    tokenizer = AutoTokenizer.from_pretrained(MODELS["pooled"])
    models = {name: load(place) for name, place in MODELS.items()}
    own = {name: isinstance(model, af.AttentionClassifier) for name, model in models.items()}
    with redirect_stderr(io.StringIO()):
        found = outputs(models, tokenizer)
        plain = {name: outputs({name: load(place)}, tokenizer)[name] for name, place in PLAIN.items()}
        pipelines = {
            place: pipeline("text-classification", model=place)(TEXTS, batch_size=2)
            for place in (*MODELS.values(), "user/old-han")
        }
        refused = {name: message(lambda name=name: load(f"user/{name}")) for name in ("newer", "mamba", "headless")}
        refused["later"] = message(lambda: evaluate.load("user/later"))
        trained = load("user/trained").config.encoder
    one = {name: rows[:1] for name, rows in ATTEFA.items()}
    attefa = evaluate.load("user/attefa", keep_in_memory=True)
    erasure = evaluate.load("user/my-erasure", keep_in_memory=True)
    several = evaluate.combine([evaluate.load(f"user/{name}", keep_in_memory=True) for name in ("tau", "entropy")])
    tables = datasets.load_dataset("user/tables", "predictions")["train"]
    return {
        **found,
        "own": own,
        "plain": plain,
        "trained": trained,
        "refused": refused,
        "pipelines": pipelines,
        "attefa": attefa.compute(**one)["attefa"],
        "alone": attefa.compute(**ATTEFA),
        "shared": shared,
        "erasure": erasure.compute(predictions=[[0.5]], references=[0.7], sufficient=[[0.6]])["comprehensiveness"],
        "several": several.compute(predictions=[[0.1, 0.9], [0.5, 0.5]], references=[[1.0, 2.0], [1.0, 2.0]]),
        "table": tables.to_dict(),
    }


def offline(folder):
    """The same from the cache, and what the wheel holds."""
    return {**load(folder), "wheel": wheel()}


def wheel():
    """What is installed, by its own word."""
    from contextlib import redirect_stdout
    from importlib.metadata import version

    import evaluate

    import attn_faithful
    from attn_faithful.cli import main
    from attn_faithful.experiments.recipe import load_recipe
    from attn_faithful.experiments.recipe_file import RECIPES
    from attn_faithful.hub import _MODULES, metric_names
    from attn_faithful.reports.html.shell import TEMPLATES

    def command(*arguments):
        with redirect_stdout(io.StringIO()) as said:
            status = main(arguments)
        return [status, said.getvalue()]

    def names(place):
        return sorted(path.name for path in place.iterdir() if path.is_file())

    return {
        "file": attn_faithful.__file__,
        "version": version("attn-faithful"),
        "path": sys.path,
        "installing": command("install-metrics"),
        "checking": command("check", "mock-1", "--limit", "20"),
        "loaded": {name: evaluate.load(name, keep_in_memory=True).name for name in metric_names()},
        "by_path": evaluate.load(str(_MODULES / "attefa"), keep_in_memory=True).name,
        "apps": {name: page(_MODULES / name / "app.py") for name in metric_names()},
        "recipes": {
            str(name): load_recipe(name.with_suffix("")).name
            for name in (path.relative_to(RECIPES) for path in RECIPES.rglob("*.yaml"))
        },
        "smoke": command("check", "quickstart.yaml", "--smoke"),
        "templates": names(TEMPLATES),
        "modules": {name: names(_MODULES / name) for name in metric_names()},
    }


def page(path):
    """What a Space's page computes from the tables that it shows, and what it says to half a table.

    gradio belongs to the Spaces; here its three names are enough, and test_apps takes the real one.
    """
    import runpy
    from types import SimpleNamespace

    def shown(*given, **settings):
        return given, settings

    sys.modules["gradio"] = SimpleNamespace(Error=type("Error", (Exception,), {}), Textbox=shown, Interface=shown)
    app = SimpleNamespace(**runpy.run_path(str(path)))
    half = message(lambda: app.compute(app.FIRST.split("\n")[0], app.SECOND))
    return [app.compute(app.FIRST, app.SECOND), half]


def share_between_two():
    """The metric computed by two processes, each with its own examples; the first has the result, the other None."""
    from multiprocessing import get_context

    context = get_context("fork")
    queue = context.SimpleQueue()
    workers = [context.Process(target=share, args=(i, queue)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    found = dict(queue.get() for _ in workers)
    return [found[i] for i in range(2)]


def share(i, queue):
    import evaluate

    try:
        metric = evaluate.load("user/attefa", num_process=2, process_id=i, experiment_id="two")
        queue.put((i, metric.compute(**{name: rows[i::2] for name, rows in ATTEFA.items()})))
    except Exception as error:
        queue.put((i, repr(error)))


def without(folder):
    """Loading where the package is not imported, or not there at all."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    def load(place, **options):
        return AutoModelForSequenceClassification.from_pretrained(place, **options)

    logging.disable(logging.WARNING)
    places = {**MODELS, **{f"plain_{name}": place for name, place in PLAIN.items()}, "trained": "user/trained"}
    found = {
        "unasked": {name: message(lambda place=place: load(place)) for name, place in places.items()},
        "tokenizer": AutoTokenizer.from_pretrained(MODELS["han"])(TEXTS[1])["input_ids"],
        "imported": "attn_faithful" in sys.modules,
    }
    hidden = Hidden()
    sys.meta_path.insert(0, hidden)
    found["missing"] = {
        name: message(lambda place=place: load(place, trust_remote_code=True)) for name, place in places.items()
    }
    sys.meta_path.remove(hidden)
    models = {name: load(place, trust_remote_code=True) for name, place in places.items()}
    found["classes"] = {name: f"{type(model).__module__}.{type(model).__name__}" for name, model in models.items()}
    models["plain_pooled"].save_pretrained(folder / "again")
    found["again"] = sorted(path.name for path in (folder / "again").iterdir())
    return found


class Hidden(MetaPathFinder):
    """As if the package were not installed."""

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "attn_faithful":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def refuse(folder):
    """What cannot be pushed, and what the messages say."""
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
