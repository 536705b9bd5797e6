"""Reading a device in a loop over texts makes it wait: how often it is read depends on the blocks alone.

There is no device here. Tensors that were moved to the CPU are marked, and so is what is computed from them; numbers
that are read off any other tensor stand for transfers.
"""

from collections import Counter

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import attn_faithful as af
from attn_faithful.data.tokenizer import train_tokenizer

WORDS = ("good", "bad", "film", "plot", "dull", "not", "a", "the", "superb", "awful")
READ = ("tolist", "item", "numpy", "__bool__", "__int__", "__float__", "__index__", "nonzero")
DRAWN = {"permutation": ("numpy", "nonzero")}  # read off the permutations, which are drawn on the CPU
# a beam has as many steps as the longest text has items, and one whose sets are all known asks nothing
NO_BEAM = {"erasure": {"beam": 0}}


class OnHost(torch.Tensor):
    """A tensor that was moved to the CPU."""


@pytest.fixture
def reads(monkeypatch):
    """How often numbers were read off tensors that nobody moved, by method."""
    counted = Counter()
    own_cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: own_cpu(self).as_subclass(OnHost))

    def counting(name):
        own = getattr(torch.Tensor, name)

        def read(self, *arguments, **more):
            if not isinstance(self, OnHost):
                counted[name] += 1
            return own(self, *arguments, **more)

        return read

    for name in READ:
        monkeypatch.setattr(torch.Tensor, name, counting(name))
    return counted


def said(n):
    """So many texts of as many words, each another."""
    return [" ".join(WORDS[(i * k + k + i) % len(WORDS)] for k in range(1, 6)) for i in range(n)]


@pytest.mark.parametrize("test", ["correlation", "erasure", "entropy", "permutation"])
def test_a_device_is_read_as_often_for_many_texts_as_for_few(reads, tmp_path, test):
    few, many = reads_of(reads, tmp_path, test, NO_BEAM)
    drawn = DRAWN.get(test, ())
    assert _counted(few, drawn) == _counted(many, drawn)


def test_a_beam_reads_a_device_by_its_steps(reads, tmp_path):
    few, many = reads_of(reads, tmp_path, "erasure", {})
    # a step in each direction whose sets are all known asks nothing: with more texts there are fewer of these
    assert sum(many.values()) <= sum(few.values()) + 10 * len(WORDS)


def reads_of(reads, tmp_path, test, test_settings):
    """What an evaluation of few texts and one of many read off the device."""
    tokenizer = train_tokenizer([" ".join(WORDS)])
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
    )
    torch.manual_seed(0)
    model = af.wrap(BertForSequenceClassification(config))
    counts = []
    for n in (3, 3, 9):  # the first of a process reads more
        reads.clear()
        af.evaluate_attention(
            model,
            tokenizer,
            said(n),
            [test],
            output=tmp_path / f"{len(counts)}",
            settings={"controls": [], "test_settings": test_settings},
        )
        counts.append(dict(reads))
    return counts[1:]


def _counted(reads, drawn):
    """The counts but for those of what is drawn on the CPU."""
    return {name: count for name, count in reads.items() if name not in drawn}
