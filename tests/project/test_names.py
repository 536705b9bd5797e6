"""Names that are known without torch are those of the things themselves."""

from dataclasses import fields

import pytest

import attn_faithful.attributions
import attn_faithful.evaluators  # noqa: F401  all tests and sources are registered
from attn_faithful import names
from attn_faithful.attributions.base import SOURCES, SourceSettings
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.metric_table import all_tests
from attn_faithful.evaluators.null_controls import CONTROLS
from attn_faithful.experiments import evaluation_settings as settings
from attn_faithful.experiments import launcher, recipe
from attn_faithful.experiments.model_settings import model_keys
from attn_faithful.experiments.run_stock_twins import StockTwinSettings
from attn_faithful.functional.projections import PROJECTIONS
from attn_faithful.models.attention import SCORERS
from attn_faithful.models.devices import DEVICES
from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.protocol import QUERIES
from attn_faithful.models.stock.half import DTYPES
from attn_faithful.training.regularizers.base import REGULARIZERS
from attn_faithful.training.settings import FineTuneSettings, TrainSettings, TwinSettings


def keys(cls):
    return {field.name for field in fields(cls)}


@pytest.mark.parametrize(
    ("light", "real"),
    [
        (names.TESTS, all_tests()),
        (names.SOURCES, SOURCES),
        (names.NULL_ATTENTIONS, CONTROLS),
        (names.WIEGREFFE_PINTER, recipe.WIEGREFFE_PINTER),
        (names.QUERIES, QUERIES),
        (names.UNITS, settings.UNITS),
        (names.ENCODERS, ENCODERS),
        (names.ATTENTIONS, SCORERS),
        (names.PROJECTIONS, PROJECTIONS),
        (names.REGULARIZERS, REGULARIZERS),
        (names.ATTENTION_REGULARIZERS, [name for name in REGULARIZERS if REGULARIZERS[name].of_attention]),
        (names.PARALLEL, launcher.PARALLEL),
        (names.DEVICES, DEVICES),
        (names.DTYPES, DTYPES),
        (names.KEYS[""], keys(recipe.Recipe)),
        (names.KEYS["data"], keys(recipe.DataSettings)),
        (names.KEYS["tokenizer"], keys(recipe.TokenizerSettings)),
        (names.KEYS["vectors"], keys(recipe.VectorSettings)),
        (names.KEYS["model"], model_keys()),
        (names.KEYS["train"], keys(TrainSettings)),
        (names.KEYS["twin"], keys(TwinSettings)),
        (names.KEYS["evaluation"], keys(settings.EvaluationSettings)),
        (names.KEYS["evaluation.sources"], keys(SourceSettings)),
        (names.KEYS["expected"], keys(recipe.Expected)),
        (names.STOCK_TWIN, keys(StockTwinSettings)),
        (names.FINE_TUNE, keys(FineTuneSettings)),
    ],
)
def test_light_names_are_the_real_ones(light, real):
    assert len(set(light)) == len(light)
    assert set(light) == set(real)


@pytest.mark.parametrize("test", [test for test in names.TESTS if test != "attefa"])
def test_settings_of_every_test(test):
    assert set(names.TESTS[test]) == keys(EVALUATORS[test].settings)
    assert names.KEYS[f"evaluation.test_settings.{test}"] == names.TESTS[test]
