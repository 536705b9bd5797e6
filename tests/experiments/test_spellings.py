"""Renamed keys, flags and arguments: the old ones are read with one warning each, and runs keep their names."""

import copy
import json
import warnings

import pytest
import torch

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.experiments import identity
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.recipe import load_recipe, make_recipe
from attn_faithful.experiments.spellings import OldSpellingWarning
from tests.experiments.tiny import RAW

OLD = {
    **RAW,
    "controls": ["uniform"],
    "evaluation": {
        "tests": ["correlation", "flips"],
        "settings": {"flips": {"random": 3}},
        "also": ["saliency"],
        "sources": {"of": "logit"},
    },
    "grid": {"evaluation.settings.flips.random": [1, {"value": 2, "with": {"evaluation.also": ["random"]}}]},
    "smoke": {"evaluation.settings.flips.random": 1},
}
NEW = {
    **RAW,
    "wiegreffe_pinter": ["uniform"],
    "evaluation": {
        "tests": {"correlation": None, "flips": {"random": 3}},
        "extra_sources": ["saliency"],
        "sources": {"outcome": "logit"},
    },
    "grid": {"evaluation.tests.flips.random": [1, {"value": 2, "with": {"evaluation.extra_sources": ["random"]}}]},
    "smoke": {"evaluation.tests.flips.random": 1},
}
RENAMED = {
    "controls is now wiegreffe_pinter.",
    "evaluation.also is now evaluation.extra_sources.",
    "evaluation.settings is now evaluation.tests, a mapping of each test to its settings.",
    "evaluation.sources.of is now evaluation.sources.outcome.",
}
# folders of --smoke runs of the package's own recipes, as they were before keys were renamed
FOLDERS = {
    "quickstart": ["mock-1-mlp-10-e0e00534", "mock-1-lstm-50-97c72350"],
    "papers/amini_kosseim": ["mock-1-lstm-2-3cb3290d", "mock-4q-mlp-2-4679e941"],
    "papers/jain_wallace_2019": ["mock-1-average-additive-2-89d2ee5d", "mock-1-lstm-dot-2-40827bf9"],
    "papers/meister_2021": ["mock-1-lstm-softmax-1-2-a915a3cf", "mock-1-transformer-sparsegen-0.5-2-07babc5d"],
    "papers/serrano_smith_2019": ["mock-1-rnn-hierarchical-2-3ee1a96c", "mock-1-noenc-flat-2-61ecac70"],
}
# the parts of the papers' recipes by their old keys
OLD_EVALUATIONS = {
    "papers/jain_wallace_2019": {
        "tests": ["correlation", "permutation", "adversarial"],
        "settings": {"permutation": {"permutations": 100, "identity": True}, "adversarial": {"eps": 0.01, "k": 5}},
    },
    "papers/meister_2021": {
        "tests": ["correlation", "adversarial", "entropy"],
        "controls": ["random"],
        "sources": {"reduction": "l2", "attention_path": "attached", "of": "probability"},
        "settings": {
            "correlation": {"against": ["saliency", "leave_one_out", "state_saliency", "state_leave_one_out"]},
            "entropy": {"of": ["saliency", "leave_one_out", "state_saliency", "hidden_gradient"]},
        },
    },
    "papers/serrano_smith_2019": {"tests": ["flips"], "controls": [], "settings": {"flips": {"random": 5}}},
}


def messages(caught):
    return [str(warning.message) for warning in caught if warning.category is OldSpellingWarning]


def folders(recipe):
    return {cell.folder for cell in expand(recipe)}


@pytest.fixture
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", OldSpellingWarning)
        yield


@pytest.mark.parametrize("smoke", [False, True])
def test_both_spellings_are_one_recipe(smoke):
    before = copy.deepcopy(OLD)
    with pytest.warns(OldSpellingWarning) as caught:
        old = make_recipe(OLD, "mine.yaml", smoke=smoke)
    assert sorted(messages(caught)) == sorted(f"mine.yaml: {said}" for said in RENAMED)
    assert before == OLD
    with warnings.catch_warnings():
        warnings.simplefilter("error", OldSpellingWarning)
        new = make_recipe(NEW, "mine.yaml", smoke=smoke)
        pairs = list(zip(expand(old), expand(new), strict=True))
    assert old == new
    assert len(pairs) == 2
    for one, other in pairs:
        assert one == other
        assert one.axes["random"] in ("1", "value=2,with={'evaluation.also': ['random']}")


def test_run_folders_keep_the_old_keys():
    """meta.json and the digests of folders are those of runs that finished before."""
    stored = make_recipe(NEW, "mine.yaml").on_disk()
    assert "wiegreffe_pinter" not in stored
    assert stored["controls"] == ["uniform"]
    evaluation = stored["evaluation"]
    assert list(evaluation) == [
        "tests",
        "sites",
        "queries",
        "heads",
        "units",
        "special_tokens",
        "settings",
        "sources",
        "also",
        "controls",
        "target",
        "seed",
    ]
    assert evaluation["tests"] == ["correlation", "flips"]
    assert evaluation["settings"] == {"flips": {"random": 3}}
    assert evaluation["also"] == ["saliency"]
    assert evaluation["sources"]["of"] == "logit"
    assert "outcome" not in evaluation["sources"]


@pytest.fixture
def version_of_folders(monkeypatch):
    """Folders are named by the version of the numbers too."""
    monkeypatch.setattr(identity, "NUMBERS_VERSION", 3)


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.usefixtures("no_warning", "version_of_folders")
def test_the_recipes_of_the_package_find_their_finished_runs(name):
    assert set(FOLDERS[name]) <= folders(load_recipe(name, smoke=True))


@pytest.mark.parametrize("name", OLD_EVALUATIONS)
@pytest.mark.usefixtures("version_of_folders")
def test_the_old_keys_find_the_same_runs(name):
    recipe = load_recipe(name, smoke=True)
    raw = {**recipe.on_disk(), "evaluation": OLD_EVALUATIONS[name], "smoke": {}}
    if name == "papers/jain_wallace_2019":
        overrides = {"evaluation.settings.permutation.permutations": 10, "evaluation.settings.adversarial.k": 2}
    elif name == "papers/serrano_smith_2019":
        overrides = {"evaluation.settings.flips.random": 2}
    else:
        overrides = {}
    with pytest.warns(OldSpellingWarning):
        old = make_recipe(raw, "old.yaml", overrides)
    assert folders(old) == folders(recipe)
    assert set(FOLDERS[name]) <= folders(old)


def test_a_test_can_be_set_without_choosing_it():
    recipe = make_recipe(RAW, "x", {"evaluation.tests.flips.random": 7})
    assert (recipe.evaluation.tests, recipe.evaluation.test_settings) == ([], {"flips": {"random": 7}})
    overrides = {"evaluation.tests": {"flips": {"greedy": False}, "entropy": {}}}
    recipe = make_recipe(NEW, "x", overrides)
    assert recipe.evaluation.tests == ["flips", "entropy"]
    assert recipe.evaluation.test_settings == {"flips": {"random": 3, "greedy": False}}


def test_a_list_of_tests_keeps_the_settings_of_the_mapping(tmp_path):
    (tmp_path / "base.yaml").write_text("evaluation: {tests: {flips: {random: 3}, entropy: {}}}")
    (tmp_path / "mine.yaml").write_text("extends: base.yaml\nevaluation: {tests: [flips]}")
    evaluation = load_recipe(tmp_path / "mine.yaml").evaluation
    assert (evaluation.tests, evaluation.test_settings) == (["flips"], {"flips": {"random": 3}})


@pytest.mark.parametrize(
    ("raw", "overrides"),
    [
        ({"controls": [], "wiegreffe_pinter": []}, {}),
        ({"evaluation": {"also": [], "extra_sources": []}}, {}),
        ({}, {"evaluation.also": [], "evaluation.extra_sources": []}),
    ],
)
def test_both_names_at_once(raw, overrides):
    with pytest.raises(InputError, match=r"x: .* is the old name of .*, and both are given; leave .* out"):
        make_recipe({**RAW, **raw}, "x", overrides)


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        ({"also": 3}, "evaluation: extra_sources: Input should be a valid list, but got 3"),
        ({"settings": 3}, "evaluation: test_settings: Input should be a valid dictionary, but got 3"),
        ({"settings": 3, "tests": {"flips": {}}}, "evaluation: test_settings: Input should be a valid dictionary"),
        ({"tests": {"flips": 3}}, "evaluation: test_settings: flips: Input should be a valid dictionary, but got 3"),
        ({"tests": {"flops": {}}}, "Unknown test 'flops'. Did you mean 'flips'"),
        ({"tests": {"flips": {"randm": 3}}}, "settings: flips: unknown key 'randm'. Did you mean 'random'"),
        ({"sources": {"of": "logits"}}, "Unknown outcome 'logits'. Did you mean 'logit'"),
    ],
)
@pytest.mark.filterwarnings("ignore::attn_faithful.experiments.spellings.OldSpellingWarning")
def test_errors_name_the_present_key(evaluation, message):
    with pytest.raises(InputError) as caught:
        make_recipe({**RAW, "evaluation": evaluation}, "x")
    assert message in str(caught.value)


# --- Python and the command line


@pytest.fixture(scope="module")
def trained():
    from attn_faithful.data.tokenizer import train_tokenizer
    from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig

    texts = ["good film", "a bad film", "not good , not bad"]
    tokenizer = train_tokenizer(texts)
    torch.manual_seed(0)
    config = AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp", embedding_size=4, hidden_size=4)
    return AttentionClassifier(config).eval(), tokenizer, texts


def test_arguments(trained, tmp_path):
    old = {"settings": {"permutation": {"permutations": 5}}, "also": ["saliency"], "controls": []}
    with pytest.warns(OldSpellingWarning) as caught:
        first = af.evaluate_attention(*trained, ["permutation"], output=tmp_path, settings=old, held=2)
    assert len(messages(caught)) == 3
    assert "evaluate_attention: held is now chunk_size." in messages(caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OldSpellingWarning)
        second = af.evaluate_attention(
            *trained,
            {"permutation": {"permutations": 5}},
            output=tmp_path,
            settings={"extra_sources": ["saliency"], "controls": []},
            chunk_size=2,
        )
    assert first.path == second.path
    assert second.meta["evaluation"]["settings"] == {"permutation": {"permutations": 5}}


def test_explanations_take_settings_with_tests(trained):
    model, tokenizer, _ = trained
    explanation = af.explain(model, tokenizer, "good film", tests={"flips": {"greedy": False}, "entropy": {}})
    evaluation = explanation.run.meta["evaluation"]
    assert evaluation["tests"] == ["flips", "entropy"]
    assert evaluation["settings"]["flips"] == {"rankings": ["attention"], "random": 0, "single": [], "greedy": False}


def test_flags(capsys, trained, tmp_path):
    model, tokenizer, texts = trained
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    data = tmp_path / "texts.jsonl"
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    command = ["evaluate", str(tmp_path / "model"), "--data", str(data), "--tests", "permutation"]
    command += ["--output", str(tmp_path / "runs")]
    assert main([*command, "--batch-size", "2", "--set", "evaluation.settings.permutation.permutations=5"]) == 0
    old = capsys.readouterr()
    assert old.err.splitlines().count("attn-faithful: --batch-size is now --chunk-size.") == 1
    assert old.err.count("evaluation.settings is now evaluation.tests, a mapping of each test") == 1
    assert main([*command, "--chunk-size", "2", "--set", "evaluation.tests.permutation.permutations=5"]) == 0
    new = capsys.readouterr()
    assert "is now" not in new.err
    assert new.out == old.out


def test_a_recipe_of_old_keys_warns_once(capsys, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("data: {source: mock-1, mock: {n_train: 40, n_test: 10}}\ncontrols: [uniform]\n")
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().err.count("controls is now wiegreffe_pinter.") == 1
    assert main(["attefa", "--data", "mock-1", "--controls", "unifrom"]) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert warning == "attn-faithful: --controls is now --wiegreffe-pinter."
    assert "'unifrom'" in error
