"""The measuring code: what is written, and that the baselines do what ours do. No time is asserted."""

from __future__ import annotations

import importlib
import json
import platform
import sys
import time
from pathlib import Path

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

import attn_faithful as af

FOLDER = Path(__file__).parents[2] / "benchmarks"
NAMES = (
    *("measure", "records", "tables", "publish", "plain", "originals", "setups", "stages", "training", "storing"),
    *(
        "own_bench",
        "minilm",
        "peers",
        "replaced",
        "floor",
        "minilm_stages",
        "minilm_bench",
        "growth",
        "against",
        "bench",
    ),
)

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="peak memory is read from /proc")


@pytest.fixture(scope="module")
def modules():
    """The scripts, which lie beside each other and not in a package."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)


def test_a_row_has_times_ratios_and_memory(modules, monkeypatch):
    own_bench, tables = modules["own_bench"], modules["tables"]
    monkeypatch.setattr(own_bench, "EXAMPLES", {19: 2})
    monkeypatch.setattr(own_bench, "FEW", {19: 2})
    records = own_bench.rows(["adversary", "leave-one-out"], ["MLP"], [19], enough=0.0)
    assert [list(record["peers"]) for record in records] == [["authors"], ["loop", "authors"]]
    for record in records:
        assert {"stage", "model", "length", "examples", "bytes", "seconds", "peers"} == set(record)
        assert record["examples"] == 2
        assert record["bytes"] > 2**20  # the embeddings alone are more
        for peer in record["peers"].values():
            assert peer["seconds"] > 0
            assert 0 < peer["share"] <= 1
    assert json.loads(json.dumps(records)) == records
    lines = tables.own(records).splitlines()
    assert len(lines) == 4
    assert all(line.count("|") == 4 for line in lines)
    assert all(line.rstrip(" |").endswith(" MB") and " x, " in line for line in lines[2:])


@pytest.mark.parametrize("model", ["MLP", "BiLSTM", "HAN"])
def test_loops_give_what_ours_give(modules, model):
    stages, checked = modules["stages"], []
    for name in stages.STAGES:
        stage = stages.STAGES[name]
        if name in ("report", "encode to disk"):
            continue
        case = stage(modules["setups"].setup(model, 12, 2))
        for peer in case.peers:
            if peer.check is not None:
                assert peer.check(case.ours(), peer.work()), name
                checked.append(name)
    wanted = ["gradients", "leave-one-out", "flips", "training step"]
    assert checked == (wanted[1:] if model == "HAN" else wanted)


@pytest.mark.parametrize("name", ["permutations", "leave_one_out", "adversary"])
def test_the_authors_way_gives_what_the_loop_gives(modules, name):
    """Theirs and the loop's are two ways to one definition: on a text alone, which theirs does not pad."""
    plain, originals = modules["plain"], modules["originals"]
    setup = modules["setups"].setup("BiLSTM", 9, 1)
    model, members = setup.plain(), torch.arange(9)[None]
    if name == "leave_one_out":
        (theirs,) = originals.leave_one_out(model, setup.batch)
        ours = plain.leave_one_out(model, setup.batch, members, [(0, item) for item in range(9)])
        assert torch.allclose(theirs[0], ours, atol=1e-6)
    elif name == "permutations":
        theirs, ours = (way.permutations(model, setup.batch, 4000) for way in (originals, plain))
        assert torch.allclose(theirs, ours, rtol=0.1)
    else:
        alternatives = originals.adversary(model, setup.batch, 60)
        own = model.attended(setup.batch)[1].detach()
        far, near = (plain.jsd(originals.adversary(model, setup.batch, steps)[0], own).mean() for steps in (60, 0))
        assert alternatives.shape == (1, 5, 9)
        assert torch.allclose(alternatives.sum(-1), torch.ones(1, 5))
        assert float(far) > 0.9 * float(near)


def test_operations_of_the_floor(modules):
    """Those of a forward as torch counts them, but for rows of the last layer that the answer does not need."""
    config = transformers.BertConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2, vocab_size=50
    )
    bert = transformers.BertForSequenceClassification(config).eval()
    bert.set_attn_implementation("eager")  # torch does not count the operations of the fused one
    length, width, inner = 12, 32, 64
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        bert(input_ids=torch.ones(1, length, dtype=torch.long))
    others = length - 1  # rows of the last layer that only the other tokens need
    unneeded = others * (2 * 2 * width**2 + 2 * 2 * width * inner + 4 * length * width)
    floor, counted = modules["floor"], counter.get_total_flops()
    classifier = 2 * width**2 + 2 * width * config.num_labels
    assert floor.whole_operations(config, length) + classifier == counted
    assert floor.operations(config, length) == counted - unneeded


def test_the_floor_counts_each_distinct_row_once(modules):
    floor, config = modules["floor"], transformers.BertConfig()
    rows = [[1, 2, 3], [1, 2, 3], [1, 2]]
    expected = (floor.operations(config, 3) + floor.operations(config, 2)) / 1e9
    assert floor.floor(config, rows, 1e9) == pytest.approx(expected)


def test_a_clock_of_hundredths_of_a_second(modules, monkeypatch):
    measure = modules["measure"]
    clock = time.process_time
    monkeypatch.setattr(measure.time, "process_time", lambda: clock() // 0.01 * 0.01)
    runs = iter(range(10**9))
    seconds, first = measure.spent(lambda: next(runs))
    assert 0 < seconds < 1e-3
    assert first == 0
    record: dict = {}
    case = measure.Case(1, lambda: 1, [measure.Peer("loop", lambda: 2)])
    measure.measured(lambda small: case, record, enough=0.0)
    assert record["peers"]["loop"]["seconds"] > 0


def test_a_difference_is_told_and_not_timed(modules):
    measure = modules["measure"]
    case = measure.Case(1, lambda: 1, [measure.Peer("loop", lambda: 2, check=lambda a, b: a == b)])
    record: dict = {}
    measure.measured(lambda small: case, record, enough=0.0)
    assert record["skipped"] == "not the same as loop"
    assert "seconds" not in record


def test_a_peer_that_takes_too_long_is_stopped(modules):
    measure = modules["measure"]
    case = measure.Case(2, lambda: None, [measure.Peer("loop", endless, share=0.5)])
    record: dict = {}
    measure.measured(lambda small: case, record, enough=0.0, limit=0.05)
    assert record["stopped"] == {"loop": pytest.approx(0.05)}  # 0.05 s of half the work of two texts
    assert "loop > " in modules["tables"].line(record)


def endless():
    while True:
        pass


def test_what_takes_too_long_is_stopped(modules):
    measure = modules["measure"]
    record = {"stage": "none"}
    works = iter([measure.Case(1, lambda: None), measure.Case(3, endless)])
    measure.measured(lambda small: next(works), record, enough=0.0, limit=0.05)
    assert record["skipped"].startswith(">")
    assert "seconds" not in record


def test_peak_memory_of_a_child(modules):
    measure = modules["measure"]

    def make(small: bool):
        return measure.Case(1, lambda: b"1" * (1 if small else 64 * 2**20))

    record = measure.in_child(lambda told: measure.measured(make, told, enough=0.0), {})
    assert 64 * 2**20 <= record["bytes"] < 80 * 2**20


def test_a_child_that_fails_leaves_words(modules):
    def fail(record):
        raise KeyError("gone")

    assert modules["measure"].in_child(fail, {"stage": "none"}) == {"stage": "none", "skipped": "KeyError: 'gone'"}


def test_machine_is_told_without_names(modules):
    told = modules["measure"].machine()
    assert {"date", "cpus", "threads", "versions", "memory"} <= set(told)
    assert told["versions"]["torch"]
    node = platform.node()
    assert not node or node not in json.dumps(told)
    assert str(FOLDER.parent) not in json.dumps(told)


@pytest.fixture(scope="module")
def bert_setup(modules, tmp_path_factory):
    """A tiny BERT with random weights, and three texts, one with a word of several pieces."""
    folder = tmp_path_factory.mktemp("bert")
    words = ["good", "bad", "film", "##s", "a", "the", "very", "##ly"]
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    tokenizer = transformers.BertTokenizerFast(vocab=str(vocabulary))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        vocab_size=len(tokenizer),
        initializer_range=0.2,  # words matter
    )
    bert = transformers.BertForSequenceClassification(config).eval()
    texts = ["a very good film", "the films", "badly films the bad bad"]
    return modules["minilm"].setup_of(af.wrap(bert), tokenizer, texts)


@pytest.mark.parametrize(
    "name", ["leave-one-out", "words replaced by the mask", "occlusion", "input x gradient", "integrated gradients"]
)
def test_peers_of_a_transformer_give_what_ours_give(modules, bert_setup, name):
    case = modules["minilm_stages"].STAGES[name](bert_setup)
    compared = [peer for peer in case.peers if peer.check is not None]
    assert compared
    for peer in compared:
        assert peer.check(case.ours(), peer.work()), peer.name
    assert case.floor() > 0


def test_replaced_attention_leaves_the_model_as_it_is_under_its_own(modules, bert_setup):
    replaced = modules["replaced"].Replaced(bert_setup, layer=-1)
    for text in bert_setup.texts:
        chances, attention = replaced._own(text)
        plain = modules["peers"].Loop(bert_setup).probabilities([text.ids])[0]
        again = replaced._chances(text, attention[None])[0]
        assert torch.allclose(chances, plain, atol=1e-6)
        assert torch.allclose(again, plain, atol=1e-6)
    first = bert_setup.texts[0]
    on_first = torch.zeros(1, *replaced._own(first)[1].shape).index_fill(2, torch.tensor([1]), 1.0)
    assert not torch.allclose(replaced._chances(first, on_first)[0], replaced._own(first)[0], atol=1e-6)


def test_tests_of_a_transformer_run_beside_their_peers(modules, bert_setup):
    stages = modules["minilm_stages"].STAGES
    for name in stages:
        if name.startswith(("erasure", "flips", "100", "heads", "search")):
            case = stages[name](bert_setup)
            assert len(case.ours()) == 1
            for peer in case.peers:
                peer.work()
            if case.floor is not None:
                assert case.floor() > 0


def test_tables_are_written_between_their_marks(modules):
    publish = modules["publish"]
    page = "# T\n<!-- a b -->\nold\nolder\n<!-- /a b -->\nkept\n<!-- c -->\nas it is\n<!-- /c -->\n"
    filled = publish.filled(page, {"a b": "new"})
    assert filled == page.replace("old\nolder", "new")
    assert publish.filled(filled, {"a b": "new"}) == filled


def test_every_table_has_a_place(modules):
    """The page has a place for each table, once, and no place for a table that is none."""
    publish, tables = modules["publish"], modules["tables"]
    places = [found["name"] for found in publish.PLACE.finditer(publish.PAGE.read_text("utf-8"))]
    assert len(set(places)) == len(places)
    assert set(places) == {*tables.WRITERS, "speed", "slower", "machines"}
    bench = modules["bench"]
    assert set(bench.PARTS) == set(tables.WRITERS)
    assert sorted(part for lane in bench.LANES for part in lane) == sorted(bench.PARTS)


def test_speed_table_tells_what_loses(modules):
    tables = modules["tables"]

    def record(stage, model, length, ratios):
        peers = {name: {"seconds": ratio, "share": 1.0} for name, ratio in ratios.items()}
        numbers = {"seconds": 1.0, "floor seconds": 0.5, "bytes": 0, "pieces": 24.0}
        return {"stage": stage, "model": model, "length": length, "peers": peers, **numbers}

    results = {
        "minilm": [
            record("occlusion", "MiniLM", "SST", {"loop": 1.2, "Captum": 0.4, "Captum, batched": 0.8}),
            record("occlusion", "MiniLM", "Yelp", {"loop": 3.0, "Captum": 0.9}),
        ],
        "own": [record("adversary", "BiLSTM", 180, {"authors": 900.0}), record("erasure", "CNN", 180, {"loop": 0.7})],
    }
    text = tables.speed(results)
    assert "| occlusion | 1 s / 1 s | 1.2 / 3.0 | 0.40 / 0.90 |" in text
    assert "| adversary | BiLSTM | 1 s |  | 900 |" in text
    worst = "occlusion (MiniLM, SST) 0.40 times Captum; erasure (CNN, 180) 0.70 times the loop; "
    assert text.splitlines()[-1].endswith(f"{worst}occlusion (MiniLM, Yelp) 0.90 times Captum.")


def test_two_commits_are_compared(modules):
    tables = modules["tables"]
    record = {"case": "flips", "texts": 2, "commit": "abc", "old seconds": 6.0, "new seconds": 2.0}
    assert "| flips | 2 | 3 s | 1 s | 3.0 |" in tables.against([record])
    assert tables.against([{"skipped": "the history has no commit abc"}]) == "the history has no commit abc"
