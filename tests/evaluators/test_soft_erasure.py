"""Soft erasure of the test `erasure` against a loop over texts, draws and tokens, and what is kept of each text."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.erasure import ErasureSettings, run
from attn_faithful.experiments.label_views import ask_labels
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.wrapped import OwnModel
from tests.evaluators.blocks import random_block, values
from tests.evaluators.rereadable import rereadable, some
from tests.models.examples import small_batch, small_model
from tests.models.stock_families import build, texts
from tests.models.test_han import documents, small_han
from tests.reference import soft_erasure as slow

NAMES = ["attention", "input_x_gradient", "signed_input_x_gradient", "random"]
SETTINGS = ErasureSettings(rankings=NAMES, operators=["soft"], draws=2)
METRICS = ["soft_comprehensiveness", "soft_sufficiency", "soft_retained", "soft_nc", "soft_ns"]
LENGTHS = (7, 3, 5)


def own(special=((0, 2), (1, 0)), queries=None, **settings):
    model = small_model(**{"encoder": "lstm", "num_labels": 3, **settings}).double()
    return model, small_batch(LENGTHS, special, queries), None


def document(site):
    model = small_han(num_labels=3).double()
    return model, documents(), site


def stock(name):
    model = StockModel(build(name).double())
    return model, texts(LENGTHS), model.sites[-2]


MODELS = {
    "flat": own,
    "pair": lambda: own(queries=(2, 4, 1), encoder="gru", query=True),
    "scaled": lambda: own(scale="tasc_lin"),
    "words": lambda: document("word"),
    "sentences": lambda: document("sentence"),
    "bert": lambda: stock("bert"),
    "gpt2": lambda: stock("gpt2"),
}


def alone(batch, row):
    """One text without padding."""
    found = {name: value[row : row + 1] for name, value in batch.items() if name != "labels"}
    length = int(found["attention_mask"].sum())
    of_query = int(found["query_attention_mask"].sum()) if "query_attention_mask" in found else 0
    for name, value in found.items():
        found[name] = value[:, : of_query if name.startswith("query") else length]
    return found


def chances(model, inputs, embedded):
    """Probabilities of one text with other embeddings."""
    inputs = dict(inputs)
    if model.layered:
        inputs = {name: inputs[name] for name in ("token_type_ids",) if name in inputs}
        return model.model.eval()(inputs_embeds=embedded, **{"use_cache": False} | inputs).logits[0].softmax(-1)
    if not model.reads_ids:
        del inputs["input_ids"]
    return model(inputs_embeds=embedded, **inputs).logits[0].softmax(-1)


@torch.no_grad()
def by_hand(block, row, ranking, share, draws):
    """The numbers of one text in the order of `METRICS`."""
    model, inputs = block.rereading.model, alone(block.rereading.batch, row)
    table = (model.model if model.layered else model).get_input_embeddings().weight
    embedded = table[inputs["input_ids"][0]]  # (T, E)
    importance = block.importance(ranking)[row].tolist()
    members = block.encoded.members
    items = list(range(len(embedded))) if members is None else members[row, : len(embedded)].tolist()
    content = [t for t, item in enumerate(items) if item >= 0 and bool(block.encoded.content[row, item])]
    keep = slow.keep_probabilities([importance[items[t]] for t in content], share)
    full = chances(model, inputs, embedded[None])
    target = int(full.argmax())
    only, without, retained = [], [], []
    for number in range(draws):
        generator = torch.Generator().manual_seed(seed_for(block.seed, block.keys[row], "soft erasure", number))
        chance = torch.rand(len(content), embedded.shape[1], generator=generator, dtype=torch.float64)
        kept, dropped = embedded.clone(), embedded.clone()
        count = 0
        for place, t in enumerate(content):
            for entry in range(embedded.shape[1]):
                is_kept = float(chance[place, entry]) < keep[place]
                (dropped if is_kept else kept)[t, entry] = 0
                count += is_kept
        only.append(float(chances(model, inputs, kept[None])[target]))
        without.append(float(chances(model, inputs, dropped[None])[target]))
        retained.append(count / (len(content) * embedded.shape[1]))
    zero = embedded.clone()
    zero[content] = 0
    at_zero = float(chances(model, inputs, zero[None])[target])
    full = float(full[target])
    lost = [slow.mean_lost(full, each) for each in (without, only)]
    return [*lost, sum(retained) / draws, slow.soft_nc(full, without, at_zero), slow.soft_ns(full, only, at_zero)]


@pytest.mark.parametrize(("kind", "share"), [*((kind, 0.5) for kind in MODELS), ("flat", None)])
def test_numbers_equal_a_loop(kind, share):
    model, batch, site = MODELS[kind]()
    block = rereadable(model, batch, [name for name in NAMES if name != "attention"], site)
    found = run(block, replace(SETTINGS, soft_share=share))
    assert set(found.scores["metric"]) == set(METRICS)
    for name in NAMES:
        columns = [values(found, metric, name) for metric in METRICS]
        for row, example in enumerate(block.example):
            content = block.encoded.content[row]
            undefined = {reasons[example] for _, reasons in columns[:3]} - {None}
            if not bool(content.any()):
                assert undefined == {"no content token"}
                continue
            if share is None and not bool((block.importance(name)[row][content] > 0).any()):
                assert undefined == {"no mass"}
                continue
            assert not undefined
            expected = by_hand(block, row, name, share, SETTINGS.draws)
            assert [of_metric[example] for of_metric, _ in columns] == pytest.approx(expected, abs=1e-8, nan_ok=True)


def test_the_share_that_is_told_is_kept():
    model, batch, _ = own(special=())
    block = rereadable(model, batch, NAMES[1:])
    for share in (0.2, 0.8):
        found = run(block, replace(SETTINGS, soft_share=share, draws=12))
        for name in NAMES:
            retained, _ = values(found, "soft_retained", name)
            for row, n in enumerate(LENGTHS):
                deviation = math.sqrt(0.25 / (12 * 6 * n))  # of embeddings of 6 entries, at most
                assert abs(retained[f"e{row}"] - share) < 4 * deviation, (name, row)
    # the paper's scale keeps what the ranking happens to have
    found = run(block, replace(SETTINGS, soft_share=None, draws=10))
    means = [sum(values(found, "soft_retained", name)[0].values()) / len(LENGTHS) for name in NAMES]
    assert max(means) - min(means) > 0.05


def test_a_text_has_its_numbers_in_any_block():
    model, batch, _ = own(special=())
    names = NAMES[1:]
    together = run(rereadable(model, batch, names), SETTINGS)
    for rows, size in (([2], None), ([2, 0], 12)):
        found = run(rereadable(model, some(batch, rows, size), names), SETTINGS)
        for metric in METRICS:
            for name in NAMES:
                mine, theirs = values(found, metric, name)[0]["e0"], values(together, metric, name)[0]["e2"]
                assert mine == pytest.approx(theirs, abs=1e-10, nan_ok=True)


def test_each_label_is_asked_by_itself():
    model = small_model(encoder="lstm", num_labels=3, output="multi_label").double()
    batch = small_batch(LENGTHS)
    block = rereadable(model, batch, ["random"])
    settings = replace(SETTINGS, rankings=["attention", "random"])
    together = run(block, settings)
    assert set(together.scores["reason"]) == {"labels are independent"}
    found = ask_labels(EVALUATORS["erasure"], block, settings, ["a", "b", "c"], [{}, {}, {}])

    class OfLabel:
        """The same model with the one label as "no" and "yes"."""

        layered, reads_ids = False, False

        def __init__(self, label):
            self.label = label

        def __getattr__(self, name):
            return getattr(model, name)

        def __call__(self, **inputs):
            output = copy.copy(model(**inputs))
            yes = output.logits[:, self.label]
            output.logits = torch.stack([torch.zeros_like(yes), yes], dim=-1)
            return output

    for label, name in enumerate("abc"):
        one = replace(block, rereading=replace(block.rereading, model=OfLabel(label)))
        expected = by_hand(one, 0, "random", 0.5, SETTINGS.draws)
        of_label = [
            found.scores["value"][place]
            for place, (example, source, of) in enumerate(
                zip(*(found.scores[column] for column in ("example", "source", "label")), strict=True)
            )
            if (example, source, of) == ("e0", "random", name)
        ]
        assert of_label == pytest.approx(expected, abs=1e-8, nan_ok=True)


def test_what_is_undefined_has_its_reason():
    model = small_model(encoder="lstm").double()
    block = rereadable(model, small_batch((4, 0, 2)), ["random"])
    settings = replace(SETTINGS, rankings=["attention", "random"])
    holes = block.sources["random"].clone()
    holes[0, 1] = math.nan
    holes[2] = 0.0
    changed = replace(block, sources={"random": holes})
    for share, of_zeros in ((0.5, None), (None, "no mass")):
        _, reasons = values(run(changed, replace(settings, soft_share=share)), "soft_sufficiency", "random")
        assert reasons == {"e0": "nan in scores", "e1": "no content token", "e2": of_zeros}
    for lost in (replace(block, rereading=None), with_model(block, OwnModel(lambda batch: batch, labels=["a", "b"]))):
        found = run(lost, settings)
        assert set(found.scores["reason"]) == {"model takes no embeddings"}
        assert all(map(math.isnan, found.scores["value"]))
    with torch.no_grad():
        model.readout.weight.zero_()  # says the same of every text
    found = run(rereadable(model, small_batch((4,)), ["random"]), settings)
    assert values(found, "soft_sufficiency", "random") == ({"e0": 0.0}, {"e0": None})
    assert values(found, "soft_nc", "random")[1] == {"e0": "embeddings of 0 lose nothing"}
    assert values(found, "soft_retained", "random")[1] == {"e0": None}
    empty = run(rereadable(model, small_batch((1,), special=((0, 0),)), ["random"]), settings)
    assert set(empty.scores["reason"]) == {"no content token"}


def with_model(block, model):
    return replace(block, rereading=replace(block.rereading, model=model))


def test_soft_erasure_is_there_where_it_is_asked_for():
    block = random_block((5, 2))
    found = run(block, ErasureSettings(rankings=["attention"]))
    assert not set(METRICS) & set(found.scores["metric"])
    both = run(block, ErasureSettings(rankings=["attention"], operators=["delete", "soft"]))
    assert {*METRICS, "comprehensiveness", "naopc"} <= set(both.scores["metric"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"soft_share": 1.0}, "soft_share must lie between 0 and 1"),
        ({"soft_share": 0.0}, "soft_share must lie between 0 and 1"),
        ({"draws": 0}, "draws must be 1 or more"),
        ({"operators": ["soften"]}, "Unknown operator 'soften'. Did you mean 'soft'"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(InputError, match=message):
        ErasureSettings(**settings)
