"""Cards of models: whose numbers stand in them, and that the runs are of the very model (case C33 is in test_hub)."""

import json
import os

import pytest

from attn_faithful._checks import InputError
from attn_faithful.hub.push import write_model
from attn_faithful.reports.card_metadata import front_matter
from attn_faithful.reports.escaping import plain
from attn_faithful.reports.model_card import model_card
from attn_faithful.reports.run import Run
from attn_faithful.store import RunFolder, weights

ABOUT = {"tau": {"title": "tau-b", "meaning": "rank correlation", "direction": "higher", "shown": True}}
VERSIONS = {"attn_faithful": "0.1.0", "torch": "2.13.0", "python": "3.11"}


def write_run(path, mean, **meta):
    """A finished run with one number."""
    run = RunFolder(path)
    run.write_table("predictions", {"example": ["a"], "label": [1], "probabilities": [[0.1, 0.9]]})
    run.write_table("tokens", {"example": ["a"]})
    place = {"example": ["a"], "site": ["pool"], "slot": [0], "source": ["attention~saliency"]}
    run.write_table("scores", {**place, "metric": ["attention_correlation"], "value": [mean], "reason": [None]})
    record = {"test": "correlation", "metric": "tau", "site": "pool", "source": "attention~saliency", "class": "all"}
    numbers = {"mean": mean, "std": 0.0, "low": 0.1, "high": 0.9, "n": 1, "n_undefined": 0, "reasons": {}}
    run.write_summary({"base": {"accuracy": 0.5}, "twins": {}, "metrics": ABOUT, "tests": [{**record, **numbers}]})
    facts = {"n": 1, "tokens_mean": 2.0, "classes": {"bad": 0, "good": 1}}
    notes = ["train: 1 of 9 texts taken.", "test: 1 of 9 texts taken."]
    run.write_meta(
        {
            "axes": {"data": "Films", "model": "bert"},
            "seed": 1,
            "label_names": ["bad", "good"],
            "split": "test",
            "data": {"test": facts, "notes": notes},
            "versions": VERSIONS,
            **meta,
        }
    )
    return Run(path)


@pytest.fixture
def model(tmp_path):
    """A folder that looks like a saved stock classifier."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": 8}), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"weights")
    os.utime(folder / "model.safetensors", (1, 1))
    return folder


def test_a_card_of_evaluate_runs_alone(tmp_path, model):
    """Of a model that nobody trained here; no line of it is about training."""
    run = write_run(tmp_path / "run", 0.25, model=str(model))
    card = model_card(run, to="user/bert", model=model)
    assert "A text classifier (bert), tested on Films" in card
    assert "| model_type | bert |" in card
    assert "| tau-b (with saliency) | 0.250 | 0.100 to 0.900 | 1 (few texts) | up |" in card
    assert "test: 1 texts of 2.0 tokens (bad 0, good 1)" in card
    assert "- test: 1 of 9 texts taken." in card
    assert "train: 1 of 9" not in card  # of a split that was not read
    assert "## Training" not in card
    assert "trust_remote_code" not in card  # no code travels with a stock model
    assert "Made with attn_faithful 0.1.0, torch 2.13.0." in card


def test_numbers_of_the_first_run_come_first(tmp_path, model):
    first, second = (write_run(tmp_path / str(i), mean, model=str(model)) for i, mean in enumerate((0.25, 0.5)))
    assert "0.500 |" not in model_card(first, second, model=model).replace("| accuracy | 0.500 |", "")
    assert "| tau-b (with saliency) | 0.500 |" in model_card(second, first, model=model)


def test_a_run_is_matched_by_the_digest_of_the_weights(tmp_path, model):
    run = write_run(tmp_path / "run", 0.25, model="elsewhere", weights=weights(model))
    assert "tau-b" in model_card(run, model=model)
    (model / "model.safetensors").write_bytes(b"others")
    with pytest.raises(InputError, match=r"weights are not those of .*; leave it out, or run attn-faithful evaluate"):
        model_card(run, model=model)


def test_without_a_digest_a_run_is_matched_by_its_models_folder(tmp_path, model):
    """And the weights must be no newer than the run."""
    run = write_run(tmp_path / "run", 0.25, model=str(model))
    other = write_run(tmp_path / "other", 0.25, model="user/bert")
    nowhere = write_run(tmp_path / "nowhere", 0.25)
    assert "tau-b" in model_card(run, model=model)
    with pytest.raises(InputError, match=r"tested the model user/bert, not .*; leave it out"):
        model_card(run, other, model=model)
    with pytest.raises(InputError, match="does not say which model it tested"):
        model_card(nowhere, model=model)
    later = (run.path / "meta.json").stat().st_mtime + 10
    os.utime(model / "model.safetensors", (later, later))
    with pytest.raises(InputError, match="is older than the weights of"):
        model_card(run, model=model)


def test_write_model_pushes_nothing(tmp_path, model):
    card = model_card(write_run(tmp_path / "run", 0.25, model=str(model)), to="user/bert", model=model)
    (model / "training_args.bin").write_bytes(b"secret")
    folder = write_model(model, "user/bert", tmp_path / "out", card=card)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert (folder / "README.md").read_text(encoding="utf-8") == card
    with pytest.raises(InputError, match="new or empty folder"):
        write_model(model, "user/bert", tmp_path / "out", card=card)
    with pytest.raises(InputError, match='"user/name"'):
        write_model(model, "bert", tmp_path / "other", card=card)
    with pytest.raises(InputError, match="not finite"):
        write_model(model, "user/bert", tmp_path / "other", card="---\nx: .nan\n---\n")
    assert not (tmp_path / "other").exists()


def test_a_model_goes_with_the_card_in_its_folder(tmp_path, model):
    card = "---\nlicense: mit\n---\n\n# Reviews\n"
    (model / "README.md").write_text(card, encoding="utf-8")
    try:
        folder = write_model(model, "user/bert", tmp_path / "out")
    finally:
        (model / "README.md").unlink()
    assert (folder / "README.md").read_text(encoding="utf-8") == card


LEFT_BESIDE = (
    "training_args.bin",
    "training.json",
    "trainer_state.json",
    "optimizer.pt",
    "optimizer.bin",
    "optimizer.safetensors",
    "scheduler.pt",
    "scaler.pt",
    "rng_state.pth",
    "rng_state_0.pth",
    "all_results.json",
    "events.out.tfevents.1.host",
    "train.py",
    "notes.txt",
    "predictions.parquet",
    ".secret",
    "tokens.env",
)
OF_THE_MODEL = (
    "config.json",
    "model.safetensors",
    "model-00001-of-00002.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "spiece.model",
    "source.spm",
    "LICENSE",
    "NOTICE.txt",
    "own.py",
    "helper.py",
)


def test_what_training_left_beside_a_model_is_not_pushed(tmp_path, model):
    for name in (*LEFT_BESIDE, *OF_THE_MODEL):
        if not (model / name).exists():
            (model / name).write_text("{}" if name.endswith(".json") else "", encoding="utf-8")
    (model / "own.py").write_text("from .helper import help\n", encoding="utf-8")
    config = {"model_type": "bert", "auto_map": {"AutoModelForSequenceClassification": "own.Classifier"}}
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (model / "checkpoint-10").mkdir()
    (model / "checkpoint-10" / "model.safetensors").write_bytes(b"older")
    folder = write_model(model, "user/bert", tmp_path / "out")
    held = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert held == {*OF_THE_MODEL, "README.md"}


def test_a_cells_model_goes_without_its_record_of_training(tmp_path):
    from tests.experiments.tiny import cells, run

    (cell,) = cells(twin=None, train={"epochs": 1, "batch_size": 30})
    folder = write_model(run(cell, tmp_path / "run").path, "user/pooled", tmp_path / "out")
    expected = ["README.md", "attn_faithful_model.py", "config.json", "model.safetensors", "tokenizer.json"]
    fingerprints = "training_texts.parquet"  # by which `evaluate` leaves out what the model was trained on
    assert sorted(path.name for path in folder.iterdir()) == [*expected, "tokenizer_config.json", fingerprints]


def test_the_command_takes_runs_of_evaluate(tmp_path, model, capsys):
    from attn_faithful.cli import main

    run = write_run(tmp_path / "run", 0.25, weights=weights(model))
    out = tmp_path / "out"
    told = ["push", "model", str(model), "--to", "user/bert", "--results", str(run.path), "--into", str(out)]
    assert main(told) == 0
    assert "tau-b (with saliency)" in (out / "README.md").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(told) == 2
    assert "new or empty folder" in capsys.readouterr().err
    assert main(["push", "metric", "attefa", "--to", "user/attefa", "--into", str(tmp_path / "other")]) == 2
    assert "belongs to push model" in capsys.readouterr().err


def test_sample_cards_are_valid_and_name_no_folder():
    """Those of real runs in model_cards/, each named in its README."""
    from pathlib import Path

    from attn_faithful.hub.upload import check_card

    folder = Path(__file__).parents[2] / "model_cards"
    index = (folder / "README.md").read_text(encoding="utf-8")
    cards = [path for path in folder.glob("*.md") if path.name != "README.md"]
    assert len(cards) >= 4
    for path in cards:
        text = path.read_text(encoding="utf-8")
        check_card(text)
        assert f"({path.name})" in index
        assert not [part for part in ("/work", "/home/", "/tmp", "/root", "/Users") if part in text]


# --- names are text

NAMES = [
    "<b>good</b>",
    "</script><script>alert(1)</script>",
    "$$x$$ `code` | [a](http://b) *c*",
    "1. \\(x\\)\n---\x1b[31m",
]


@pytest.fixture
def marked(tmp_path, model):
    """A run whose data set and classes are called like markup, and its card."""
    facts = {"n": 2, "tokens_mean": 2.0, "classes": dict.fromkeys(NAMES, 1)}
    told = {"data": {"test": facts, "notes": ["test: `x` <i> $$y$$."]}, "label_names": NAMES, "model": str(model)}
    run = write_run(tmp_path / "run", 0.25, **told, axes={"data": NAMES[1], "model": "<u>bert</u>"})
    return model_card(run, to="user/bert_", model=model)


def test_names_are_text_in_markdown(marked):
    from markdown_it import MarkdownIt

    _, _, body = marked.split("---\n", 2)
    for sign in ("<b", "<script", "</script", "<i", "<u", "$", "\\(", "`x`", "`code`", "\x1b"):
        assert sign not in body, sign
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(body)
    inline = [child for token in tokens if token.type == "inline" for child in token.children]
    assert not [t for t in [*tokens, *inline] if t.type.startswith(("html", "link", "em_", "hr", "ordered"))]
    shown = "".join(child.content for child in inline)
    for name in NAMES:
        assert plain(name) in shown
    assert 'attn_faithful.load("user/bert_")' in body, "code is no text"


def test_names_are_whole_in_the_metadata(marked):
    from huggingface_hub import ModelCard

    metadata = marked.split("---\n", 2)[1]
    assert not set("<>$`\x1b") & set(metadata)
    data = ModelCard(marked, ignore_metadata_errors=False).data
    assert {result.dataset_name for result in data.eval_results} == {NAMES[1]}
    assert data.license == "unknown"


def test_front_matter_gives_everything_back():
    import yaml

    held = {"license": "mit", "tags": NAMES, "a: b": {"c": [1, 0.5, None, True, "no", "---", "# x", "é好", 'q"\\x3C']}}
    text = front_matter(held)
    assert yaml.safe_load(text.strip("-")) == {**held, "tags": [plain(name) for name in NAMES]}
    assert text.count("\n---") == 1


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        (None, None, "unknown"),
        (None, "mit", "mit"),
        ("---\nlicense: gpl-3.0\n---\n# x\n", None, "gpl-3.0"),
        ("---\nlicense: gpl-3.0\n---\n# x\n", "mit", "mit"),
        ("---\ntags: [\n---\n", None, "unknown"),
        ("no metadata", None, "unknown"),
    ],
)
def test_the_licence_is_the_one_given_or_that_of_the_model_s_own_card(tmp_path, model, own, given, expected):
    if own is not None:
        (model / "README.md").write_text(own, encoding="utf-8")
    card = model_card(write_run(tmp_path / "run", 0.25, model=str(model)), model=model, licence=given)
    assert f"\nlicense: {expected}\n" in card


def test_licences_that_are_none(tmp_path, model):
    run = write_run(tmp_path / "run", 0.25, model=str(model))
    with pytest.raises(InputError, match="Expected a licence"):
        model_card(run, model=model, licence="Apache License\nx: y")
    with pytest.raises(InputError, match="Expected a licence"):
        write_model(model, "user/bert", tmp_path / "out", licence="a b")
    write_model(model, "user/bert", tmp_path / "out", licence="apache-2.0")
    assert "license: apache-2.0\n" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    (model / "README.md").write_text("# own\n", encoding="utf-8")
    with pytest.raises(InputError, match="name the licence there"):
        write_model(model, "user/bert", tmp_path / "other", licence="mit")


def test_what_was_not_tested_is_not_called_tested(tmp_path, model):
    run = write_run(tmp_path / "run", 0.25, model=str(model))
    summary = {**run.folder.read_summary(), "tests": []}
    for meta in ({}, {"recipe": {"data": {}}}):
        bare = RunFolder(tmp_path / f"bare{len(meta)}")
        for table in ("predictions", "tokens", "scores"):
            bare.write_table(table, run.folder.read_table(table).to_pydict())
        bare.write_summary(summary)
        bare.write_meta({**run.meta, **meta})
        card = model_card(Run(bare.path), model=model)
        assert "tested on" not in card
        assert "and tested" not in card
        assert "How faithful its attention is was not tested." in card
        assert "No test of its attention has been run" in card
        assert "faithful: which direction" not in card
    tested = model_card(run, model=model)
    assert "tested on Films for how faithful its attention is" in tested
    assert "No test of its attention" not in tested


def test_weights_of_heads_stand_on_the_card(tmp_path, model):
    run = write_run(tmp_path / "run", 0.25, model=str(model))
    assert "Which heads follow importance" not in model_card(run, model=model)
    learned = {"weights": [[0.25, -1.5], [0.0, 3.0]], "fitted_on": "train of Films", "texts": 300, "tau": 0.4321}
    run.folder.write_learned_heads(learned)
    card = model_card(Run(run.path), model=model)
    assert "fitted to leave-one-out on 300 texts (train of Films); on texts left out the mix" in card
    assert "a rank correlation of 0.43 with it" in card
    rows = ["| layer | head | weight |", "| --- | --- | --- |"]
    rows += ["| 1 | 1 | 3 |", "| 0 | 1 | -1.5 |", "| 0 | 0 | 0.25 |", "| 1 | 0 | 0 |"]
    assert "\n".join(rows) in card


@pytest.mark.parametrize(
    ("configuration", "shown", "hidden"),
    [
        ({"bidirectional": False}, "| bidirectional | false |", "scale"),
        ({"bidirectional": True, "scale": "tasc_lin"}, "| scale | tasc_lin |", "bidirectional"),
        ({"scale": None}, "| encoder | lstm |", "scale"),
    ],
)
def test_settings_that_are_not_as_usual_stand_in_a_card(tmp_path, model, configuration, shown, hidden):
    own = {"model_type": "attention_classifier", "encoder": "lstm", "attention": "additive", **configuration}
    (model / "config.json").write_text(json.dumps(own), encoding="utf-8")
    card = model_card(write_run(tmp_path / "run", 0.25, model=str(model)), to="user/lstm", model=model)
    assert shown in card
    assert f"| {hidden} |" not in card
