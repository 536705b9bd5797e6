"""The set as files: what is missing, changed or of another version is named, and what is finished is not made again."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from safetensors.torch import load_file, save_file

from attn_faithful import _digests
from attn_faithful._checks import InputError
from attn_faithful.bench import frozen_set, making
from attn_faithful.bench.frozen_set import Plan, make_set, read_set
from attn_faithful.bench.making import word_ids
from attn_faithful.bench.texts import DATA, LENGTHS, STRONG, TOPICS, WEAK, frozen_texts, training_texts, words
from attn_faithful.experiments.processes import ProcessGroup

KINDS = ("faithful", "pinned", "uniform", "leaky")
TINY = Plan({"none": KINDS}, ("single",), (0,), of_a_length=2)


@pytest.fixture
def copied(small_set, tmp_path):
    folder = tmp_path / "set"
    shutil.copytree(small_set.folder, folder)
    return folder


def test_the_set_is_read_as_it_was_made(small_set, copied):
    again = read_set(copied)
    assert again.manifest == small_set.manifest
    assert again.sha256 == small_set.sha256 == _digests.digest_of_file(copied / "manifest.json")
    assert again.texts == {"single": frozen_texts(DATA["single"], of_a_length=6)}


def test_a_changed_weight_is_named(copied, small_set):
    name = small_set.manifest.models[2].name
    file = copied / "models" / name / "model.safetensors"
    weights = load_file(file)
    weights["readout.bias"] += 1e-3
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(InputError, match=rf"models/{name}/model.safetensors is changed"):
        read_set(copied)


@pytest.mark.parametrize(
    ("file", "what"),
    [("texts/single.jsonl", "texts/single.jsonl is changed"), ("models/stray/config.json", "models/stray/config.json")],
)
def test_another_text_or_a_stray_file_is_named(copied, file, what):
    (copied / file).parent.mkdir(exist_ok=True)
    with (copied / file).open("a", encoding="utf-8") as stream:
        stream.write("\n")
    with pytest.raises(InputError, match=what):
        read_set(copied)


def test_a_missing_model_is_named(copied, small_set):
    name = small_set.manifest.models[0].name
    shutil.rmtree(copied / "models" / name)
    with pytest.raises(InputError, match=rf"models/{name}/.* is missing"):
        read_set(copied)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda manifest: manifest.update(version=99), "version 99"),
        (lambda manifest: manifest.pop("models"), "cannot be read"),
    ],
)
def test_another_manifest_is_refused(copied, change, message):
    file = copied / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    change(manifest)
    file.write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_set(copied)


def test_a_folder_without_a_manifest_is_no_set(tmp_path):
    with pytest.raises(InputError, match="holds no manifest"):
        read_set(tmp_path)


@pytest.fixture
def quick(monkeypatch):
    """Models that are hardly trained, and need no proof."""
    for name in ("_USUAL", "_FIXED", "_LONG"):
        monkeypatch.setattr(making, name, replace(getattr(making, name), steps=3))
    monkeypatch.setattr(making, "N_TRAINING", 100)
    monkeypatch.setattr(frozen_set, "ENOUGH", 0.0)


@pytest.mark.usefixtures("quick")
def test_what_is_finished_is_not_made_again(tmp_path, monkeypatch):
    """The work ends after three of four models; the second time these are kept."""
    proven = frozen_set._proven
    made = Counter()

    def stops_after_three(family, kind, texts):
        if made.total() == 3:
            raise KeyboardInterrupt
        made[kind] += 1
        return proven(family, kind, texts)

    monkeypatch.setattr(frozen_set, "_proven", stops_after_three)
    with pytest.raises(KeyboardInterrupt):
        make_set(tmp_path / "set", TINY)
    with pytest.raises(InputError, match="holds no manifest"):
        read_set(tmp_path / "set")

    def counted(family, kind, texts):
        made[kind] += 1
        return proven(family, kind, texts)

    monkeypatch.setattr(frozen_set, "_proven", counted)
    resumed = make_set(tmp_path / "set", TINY)
    assert made == dict.fromkeys(KINDS, 1)
    assert [model.kind for model in resumed.manifest.models] == list(KINDS)
    assert not (tmp_path / "set" / ".made").exists()


@pytest.mark.usefixtures("quick")
def test_a_truth_that_cannot_be_proven_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(frozen_set, "ENOUGH", 1.01)
    monkeypatch.setattr(frozen_set, "ATTEMPTS", 1)
    with pytest.raises(
        InputError, match=r"The kind faithful of the encoder none on single was proven for [01]\.\d\d of the texts"
    ):
        make_set(tmp_path / "set", TINY)


@pytest.mark.usefixtures("quick")
def test_processes_share_the_models(tmp_path, monkeypatch):
    """Two processes of one thread each, one after the other: together they make what one makes alone."""
    kinds = ("faithful", "uniform")
    plan = Plan({"none": kinds, "mlp": kinds}, ("single",), (0,), of_a_length=2)
    made = []
    proven = frozen_set._proven
    monkeypatch.setattr(
        frozen_set, "_proven", lambda family, kind, texts: (made.append(family.encoder), proven(family, kind, texts))[1]
    )
    with pytest.raises(InputError, match="holds no manifest"):  # the main process has not written it yet
        make_set(tmp_path / "together", plan, processes=ProcessGroup(1, 2))
    together = make_set(tmp_path / "together", plan, processes=ProcessGroup(0, 2))
    assert made == ["mlp", "mlp", "none", "none"]
    assert make_set(tmp_path / "alone", plan).sha256 == together.sha256


# the texts


@pytest.mark.parametrize("data", list(DATA.values()), ids=list(DATA))
def test_frozen_texts_are_what_they_say(data):
    texts = frozen_texts(data)
    assert Counter(text.length for text in texts) == dict.fromkeys(LENGTHS, 20)
    assert Counter(text.label for text in texts) == {0: 30, 1: 30}
    assert len({text.example for text in texts}) == 60
    for text in texts:
        stems = [word.rstrip("abcdefghijkl") if word.startswith(STRONG + WEAK) else word for word in text.text.split()]
        strong = [place for place, word in enumerate(text.text.split()) if word.startswith(STRONG)]
        assert len(stems) == text.length
        assert [place for place, decides in enumerate(text.decisive) if decides] == strong
        assert data.strong[0] <= len(strong) <= data.strong[1]
        assert not any(word.startswith((STRONG[1 - text.label], WEAK[text.label])) for word in text.text.split())
        assert sum(word.startswith(TOPICS[text.topic]) for word in text.text.split()) == 1


def test_training_texts_are_labelled_by_their_strong_words_or_else_the_weak_ones():
    texts = training_texts(DATA["several"], 400, 0)
    without = 0
    for text in texts:
        classes = {label for label in (0, 1) for word in text.text.split() if word.startswith(STRONG[label])}
        if not classes:
            without += 1
            classes = {label for label in (0, 1) for word in text.text.split() if word.startswith(WEAK[label])}
        assert classes == {text.label}
    assert 80 < without < 160
    assert not {text.text for text in texts} & {text.text for text in frozen_texts(DATA["several"])}


def test_the_tokenizer_has_the_ids_that_models_are_trained_on():
    from attn_faithful.bench.making import tokenizer

    ids = word_ids()
    encoded = tokenizer()(" ".join(ids))["input_ids"]
    assert encoded == list(ids.values())
    assert len(ids) == sum(len(words(stem)) for stem in (*STRONG, *WEAK, *TOPICS, "thing"))
