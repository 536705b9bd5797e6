"""Recipes: strict keys and types with errors that name file and key, grids, cells and their folders."""

from dataclasses import replace
from pathlib import Path

import pytest

from attn_faithful._checks import InputError
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.recipe import load_recipe, make_recipe
from attn_faithful.experiments.recipe_file import find_recipe
from attn_faithful.experiments.strict_yaml import merge, read_value
from tests.experiments.tiny import RAW, cells

RECIPES = sorted((Path(__file__).parents[2] / "recipes").rglob("*.yaml"))


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def fails(path, text, *parts, **how):
    with pytest.raises(InputError) as error:
        expand(load_recipe(write(path / "mine.yaml", text), **how))
    for part in parts:
        assert part in str(error.value)
    assert "\n" not in str(error.value)


# --- keys


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("modle: {}", "'modle'", "'model'"),
        ("twin: {epoch: 3}", "'epoch'", "'epochs'"),
        ("data: {sorce: mock-1}", "'sorce'", "'source'"),
        ("model: {hiden_size: 3}", "'hiden_size'", "'hidden_size'"),
        ("grid: {model.encodr: [lstm]}", "'encodr'", "'encoder'"),
        ("grid: {trian.epochs: [3]}", "'trian.epochs'", "'train'"),
        ("grid: {model: [{encoderr: lstm}]}", "'encoderr'", "'encoder'"),
        ("smoke: {train.epoch: 1}", "'train.epoch'", "'epochs'"),
        ("variants: [{wieght: 2}]", "'wieght'", "'weight'"),
        ("expected: {key: [data], metrics: [tvd], rows: {}, bands: {}}", "'bands'", "'band'"),
        ("vectors: {pth: x}", "'pth'", "'path'"),
        ("wiegreffe_pinter: [unifrom]", "'unifrom'", "'uniform'"),
        ("model: {encoder: lstn}", "'lstn'", "'lstm'"),
        ("grid: {model.encoder: [lstm, mpl]}", "'mpl'", "'mlp'"),
        ("data: {mock: {n_trian: 5}}", "'n_trian'", "'n_train'"),
    ],
)
def test_unknown_names(tmp_path, text, key, nearest):
    fails(tmp_path, text, "mine", key, f"Did you mean {nearest}?")


@pytest.mark.parametrize("smoke", [False, True])
def test_smoke_keys_are_checked_always(tmp_path, smoke):
    fails(tmp_path, "smoke: {twin.epoch: 1}", "mine.yaml: smoke", "'twin.epoch'", "'epochs'", smoke=smoke)


def test_a_key_set_by_hand_is_checked(tmp_path):
    fails(tmp_path, "", "holds NoneType")
    fails(tmp_path, "name: a", "'twin.epoch'", "'epochs'", overrides={"twin.epoch": 3})


# --- values


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("train: {epochs: many}", "epochs", "'many'"),
        ("train: {epochs: 2.5}", "epochs", "2.5"),
        ("train: {epochs: '3'}", "epochs", "'3'"),
        ("train: {amsgrad: 1}", "amsgrad", "1"),
        ("train: 5", "train", "5"),
        ("seeds: 5", "seeds", "5"),
        ("seeds: [1, 1]", "seeds", "[1, 1]"),
        ("twin_seeds: [1, 1]", "twin_seeds", "[1, 1]"),
        ("seeds: []", "seeds", "[]"),
        ("data: {limit: ten}", "limit", "'ten'"),
        ("data: {keep: 3}", "keep", "3"),
        ("model: {hidden_size: big}", "hidden_size", "'big'"),
        ("model: {kernel_sizes: 3}", "kernel_sizes", "3"),
        ("model: {encoder: cnn, kernel_sizes: [2, 3]}", "kernel_sizes", "[2, 3]"),
        ("model: []", "model", "[]"),
        ("model: {output: multi_label}", "output", "multi_label"),
        ("data: {multi_label: true}\nmodel: {output: softmax}", "output", "multi_label"),
        ("model: {class_weights: [1.0, 2.0]}", "class_weights", "unknown key"),
        ("grid: {train.epochs: 3}", "grid", "3"),
        ("grid: {train.epochs: [3, many]}", "epochs", "'many'"),
        ("grid: {train.epochs: []}", "train.epochs", "[]"),
        ("grid: [3]", "grid", "[3]"),
        ("smoke: [3]", "smoke", "[3]"),
        ("grid: {1: [2]}", "grid", "1"),
        ("smoke: {1: 2}", "smoke", "1"),
        ("twin: {max_tvd: 2}", "max_tvd", "2"),
        ("variants: [{max_tvd: 2}]", "max_tvd", "2"),
        ("variants: [3]", "variants", "3"),
        ("name: a/b", "name", "'a/b'"),
        ("expected: {key: [data], metrics: [tvd, jsd], rows: {Mock-1: [0.1]}}", "rows", "Mock-1"),
    ],
)
@pytest.mark.parametrize("smoke", [False, True])
def test_wrong_values(tmp_path, text, key, value, smoke):
    fails(tmp_path, text, "mine", key, value, smoke=smoke)


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "+1e-3", "1.e-3", ".1e-2", "0.001"])
def test_numbers_are_numbers(tmp_path, text):
    recipe = load_recipe(write(tmp_path / "a.yaml", f"train: {{learning_rate: {text}}}"))
    assert recipe.train.learning_rate == 0.001
    assert read_value(f"[{text}]", "here") == [0.001]


def test_words_stay_words():
    assert read_value("[1e, e5, 1e-3x, 12a, '1e-3']", "here") == ["1e", "e5", "1e-3x", "12a", "1e-3"]


def test_twins_of_one_name(tmp_path):
    text = "variants: [{epochs: 5}]"
    fails(tmp_path, text, "mine.yaml: variants", "'attefa'")
    fails(tmp_path, "variants: [{weight: 2}, {weight: 2.0}]", "variants", "'attefa-2'")
    load_recipe(write(tmp_path / "b.yaml", "variants: [{weight: 2}, {objective: kl}, {start: base}]"))
    fails(tmp_path, "twin: null\nvariants: [{weight: 2}]", "variants need a twin")


def test_a_control_of_twins_needs_twins(tmp_path):
    text = "wiegreffe_pinter: [uniform, imposed_twin]\n"
    fails(tmp_path, f"{text}twin: null", "mine.yaml: wiegreffe_pinter", "'imposed_twin'", "twin is null")
    load_recipe(write(tmp_path / "b.yaml", text))
    grid = load_recipe(write(tmp_path / "c.yaml", f"{text}grid: {{twin: [{{epochs: 3}}, null]}}"))
    with pytest.raises(InputError, match="twin is null"):
        expand(grid)


# --- files


def test_a_key_that_stands_twice(tmp_path):
    fails(tmp_path, "train: {epochs: 3}\nseeds: [1]\ntrain: {batch_size: 3}", "mine.yaml", "'train' stands twice")
    fails(tmp_path, "train:\n  epochs: 3\n  epochs: 4", "mine.yaml", "line 2", "'epochs' stands twice")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b", "must hold a mapping of keys, but holds list"),
        ("a: [", "is not readable YAML"),
        ("a: \t- b", "is not readable YAML"),
    ],
)
def test_not_a_recipe(tmp_path, text, message):
    fails(tmp_path, text, "mine.yaml", message)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"There is no recipe .*nowhere\.yaml"):
        load_recipe(tmp_path / "nowhere.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(InputError, match=r"bytes\.yaml is not readable"):
        load_recipe(tmp_path / "bytes.yaml")
    with pytest.raises(InputError, match="is not readable"):
        load_recipe(tmp_path)


def test_extends(tmp_path):
    write(tmp_path / "base.yaml", "name: base\ntwin: {epochs: 9, weight: 2.0}\nseeds: [1, 2]\nmodel: {hidden_size: 8}")
    mine = write(tmp_path / "mine.yaml", "extends: base.yaml\nname: mine\ntwin: {epochs: 3}\nseeds: [5]")
    recipe = load_recipe(mine)
    assert (recipe.name, recipe.twin.epochs, recipe.twin.weight, recipe.seeds) == ("mine", 3, 2.0, [5])
    assert recipe.model == {"hidden_size": 8}
    write(tmp_path / "third.yaml", "extends: mine.yaml")
    with pytest.raises(InputError, match=r"mine\.yaml extends a file itself"):
        load_recipe(tmp_path / "third.yaml")
    fails(tmp_path, "extends: gone.yaml", "There is no recipe", "gone.yaml")
    write(tmp_path / "base.yaml", "twin: {epoch: 9}")
    fails(tmp_path, "extends: base.yaml", "'epoch'")


def test_a_recipe_without_a_name_takes_its_files(tmp_path):
    write(tmp_path / "base.yaml", "seeds: [3]")
    assert load_recipe(write(tmp_path / "mine.yaml", "extends: base.yaml")).name == "mine"


def test_merge_leaves_its_arguments_alone():
    base, over = {"a": {"x": 1}, "b": 2}, {"a": {"y": 3}, "b": {"z": 4}}
    assert merge(base, over) == {"a": {"x": 1, "y": 3}, "b": {"z": 4}}
    assert (base, over) == ({"a": {"x": 1}, "b": 2}, {"a": {"y": 3}, "b": {"z": 4}})


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_of_the_repository(path):
    whole, smoke = expand(load_recipe(path)), expand(load_recipe(path, smoke=True))
    assert len({cell.folder for cell in whole}) == len(whole) > 0
    assert 0 < len(smoke) <= len(whole)
    assert {cell.folder for cell in whole}.isdisjoint(cell.folder for cell in smoke)
    assert all(cell.recipe.train.epochs <= 2 for cell in smoke)
    expected = load_recipe(path).expected
    if expected is not None:
        shown = {" ".join(cell.axes[axis] for axis in expected.key) for cell in whole}
        assert set(expected.rows) <= shown
        assert set(expected.band) <= {metric.split(" ")[0] for metric in expected.metrics}


# --- grids


def test_overrides_come_last():
    raw = {**RAW, "grid": {"model.encoder": ["lstm", "mlp"]}, "smoke": {"twin.epochs": 1, "data.mock": {"n_train": 30}}}
    recipe = make_recipe(raw, "x", {"twin.epochs": 7, "model.encoder": "gru"}, smoke=True)
    assert recipe.twin.epochs == 7
    assert recipe.data.mock["n_train"] == 30
    assert recipe.data.mock["n_test"] == 20
    assert [cell.recipe.model["encoder"] for cell in expand(recipe)] == ["gru"]
    assert raw["twin"]["epochs"] == 3


@pytest.mark.parametrize("part", ["grid", "smoke"])
def test_an_empty_part(part):
    with pytest.raises(InputError, match=f"x: {part}: Input should be a valid dictionary, but got None"):
        make_recipe({**RAW, part: None}, "x", {"model.encoder": "gru"}, smoke=True)


def test_grid():
    grid = {"model.encoder": ["mlp", "lstm"], "data": [{"source": "mock-1", "name": "One"}, {"source": "mock-2"}]}
    found = cells(grid={**grid, "twin.weight": [1, 2]}, seeds=[3, 4])
    assert len(found) == len({cell.folder for cell in found}) == 16
    assert found[0].axes == {"data": "One", "encoder": "mlp", "weight": "1"}
    assert [cell.seed for cell in found[:4]] == [3, 4, 3, 4]
    assert found[-1].axes == {"data": "mock-2", "encoder": "lstm", "weight": "2"}
    assert found[-1].recipe.twin.weight == 2
    assert found[0].recipe.data.mock == RAW["data"]["mock"]
    assert found[0].title == "One mlp 1 seed 3"
    assert all(cell.recipe.grid == {} and cell.recipe.seeds == [cell.seed] for cell in found)


def test_cells_that_are_the_same_stand_once():
    assert len(cells(grid={"train.epochs": [2, 2]})) == 1


def test_only():
    recipe = make_recipe(
        {**RAW, "grid": {"model.encoder": ["mlp", "lstm"], "twin.weight": [1, 2]}, "seeds": [3, 4]}, "x"
    )
    chosen = expand(recipe, only={"encoder": ["lstm"], "weight": ["2"]})
    assert [(cell.axes["encoder"], cell.axes["weight"], cell.seed) for cell in chosen] == [
        ("lstm", "2", 3),
        ("lstm", "2", 4),
    ]
    with pytest.raises(InputError, match="there is no axis 'encodr'; this recipe has data, encoder, weight"):
        expand(recipe, only={"encodr": ["lstm"]})
    with pytest.raises(InputError, match="encoder has no 'gru'; it has lstm, mlp"):
        expand(recipe, only={"encoder": ["lstm", "gru"]})


def test_twins_of_a_cell():
    (cell,) = cells(variants=[{"weight": 0.3}, {"objective": "constrained"}], twin_seeds=[5, 6])
    variants = ("attefa", "attefa-0.3", "constrained-0.05")
    assert [(twin.settings.variant, twin.seed) for twin in cell.twins] == [
        (v, seed) for v in variants for seed in (5, 6)
    ]
    assert {twin.settings.epochs for twin in cell.twins} == {3}
    assert [twin.seed for twin in cells(seeds=[8])[0].twins] == [8]
    assert cells(twin=None)[0].twins == []


def test_seeds_of_purposes():
    one, two = cells(seeds=[3, 4])
    seeds = [
        one.seed_of("base"),
        two.seed_of("base"),
        one.seed_of("twin", 5),
        one.seed_of("twin", 6),
        one.seed_of("base", "weights"),
    ]
    assert len(set(seeds)) == 5
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert cells(seeds=[3], name="other")[0].seed_of("base") == seeds[0]


# --- folders


def folder(**changes):
    (cell,) = cells(**changes)
    return cell.folder


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [11]},
        {"twin_seeds": [1]},
        {"train": {**RAW["train"], "epochs": 5}},
        {"twin": None},
        {"model": {**RAW["model"], "hidden_size": 16}},
        {"variants": [{"weight": 2}]},
        {"wiegreffe_pinter": ["uniform"]},
        {"data": {**RAW["data"], "seed": 1}},
        {"data": {**RAW["data"], "mock": {**RAW["data"]["mock"], "n_test": 21}}},
        {"tokenizer": {"min_df": 2}},
    ],
)
def test_what_changes_numbers_changes_the_folder(changes):
    assert folder(**changes) != folder()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"claim": "table 9"},
        {"smoke": {"train.epochs": 1}},
        {"expected": {"key": ["data"], "metrics": ["tvd"], "rows": {}}},
        {"data": {**RAW["data"], "folder": "here"}},
        {"data": dict(reversed(RAW["data"].items()))},
    ],
)
def test_what_is_only_said_does_not(changes):
    assert folder(**changes) == folder()


def test_other_seeds_do_not_touch_a_cell():
    assert cells(seeds=[10, 11])[0].folder == folder()


def test_what_a_local_file_holds_counts_and_not_where_it_lies(tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    for place in "ab":
        write(tmp_path / place / "texts.csv", "text,label\ngood,1\nbad,0\n")

    def at(place):
        return folder(data={"source": str(tmp_path / place / "texts.csv")})

    assert at("a") == at("b")
    before = at("a")
    write(tmp_path / "a" / "texts.csv", "text,label\ngood,1\nbed,0\n")
    assert at("a") != before
    vectors = write(tmp_path / "vectors.txt", "good 1 2\n")
    first = folder(vectors={"path": str(vectors)})
    write(vectors, "good 1 3\n")
    assert folder(vectors={"path": str(vectors)}) != first


def test_local_copies(tmp_path):
    (tmp_path / "imdb").mkdir()
    write(tmp_path / "imdb" / "train.csv", "text,label\ngood,1\nbad,0\n")
    recipe = make_recipe({**RAW, "data": {"source": "stanfordnlp/imdb", "folder": "imdb"}}, "x")
    (local,), (remote,) = expand(recipe, data_dir=tmp_path), expand(recipe, data_dir=tmp_path / "nowhere")
    assert local.recipe.data.source == str(tmp_path / "imdb")
    assert remote.recipe.data.source == "stanfordnlp/imdb"
    assert local.axes["data"] == remote.axes["data"] == "imdb"
    assert replace(local.recipe, data=remote.recipe.data) == replace(remote.recipe, data=remote.recipe.data)


def test_what_goes_with_one_value_of_the_grid():
    data = [
        {"name": "a", "source": "mock-1", "with": {"train.epochs": 3, "model.hidden_size": 6}},
        {"name": "b", "source": "mock-2"},
    ]
    raw = {**RAW, "grid": {"data": data}, "train": {"epochs": 5}}
    first, second = expand(make_recipe(raw, "x"))
    assert (first.recipe.train.epochs, second.recipe.train.epochs) == (3, 5)
    assert first.recipe.model["hidden_size"] == 6
    assert [cell.axes["data"] for cell in (first, second)] == ["a", "b"]
    by_hand = expand(make_recipe(raw, "x", {"train.epochs": 7}))
    assert [cell.recipe.train.epochs for cell in by_hand] == [7, 7]
    assert by_hand[0].recipe.model["hidden_size"] == 6
    data[0]["with"] = {"train.epoch": 3}
    with pytest.raises(InputError, match="Did you mean 'epochs'"):
        expand(make_recipe({**RAW, "grid": {"data": data}}, "x"))


def test_regularizers():
    recipe = make_recipe({"train": {"regularizers": {"tying": 1}}}, "mine", {"train.regularizers.diversity": 0.5})
    assert recipe.train.regularizers == {"tying": 1, "diversity": 0.5}
    cells = expand(make_recipe({"grid": {"train.regularizers.diversity": [0, 0.5]}}, "mine"))
    assert [cell.axes["diversity"] for cell in cells] == ["0", "0.5"]
    assert [cell.recipe.train.active_regularizers for cell in cells] == [{}, {"diversity": 0.5}]


@pytest.mark.parametrize(
    ("regularizers", "message"),
    [
        ({"diversty": 1}, "mine: train: Unknown regularizer 'diversty'. Did you mean 'diversity'"),
        ({"diversity": -1}, "mine: train: Expected the weight of the regularizer 'diversity' as a number from 0"),
        ({"diversity": "much"}, "mine: train: regularizers: diversity: Input should be a valid number"),
        ({"diversity": True}, "mine: train: regularizers: diversity: Input should be a valid number"),
        (["diversity"], "mine: train: regularizers: Input should be a valid dictionary"),
    ],
)
def test_wrong_regularizers(regularizers, message):
    with pytest.raises(InputError, match=message):
        make_recipe({"train": {"regularizers": regularizers}}, "mine")


def test_hierarchical_models_have_regularizers():
    raw = {"model": {"architecture": "hierarchical"}, "train": {"regularizers": {"diversity": 0.5}}}
    assert make_recipe(raw, "mine").train.active_regularizers == {"diversity": 0.5}


def test_a_folder_of_the_name_is_no_recipe(tmp_path, monkeypatch):
    """Such as the runs of that recipe; a file of the name comes before the package's own."""
    monkeypatch.chdir(tmp_path)
    own = find_recipe("quickstart")
    assert own.is_file()
    Path("quickstart").mkdir()
    assert find_recipe("quickstart") == own
    Path("mine.yaml").write_text("name: mine")
    assert find_recipe("mine.yaml") == Path("mine.yaml")
    Path("roar").write_text("name: mine")
    assert find_recipe("roar") == Path("roar")
