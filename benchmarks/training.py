"""Speed of training, as ratios within one run: ``make bench`` prints them and writes them as JSON.

- The two one-way networks of the recurrent encoder against one packed bidirectional network with the same weights.
- The share of this machine's matrix-product rate that recurrent training reaches.
- Trainer's own work a step, as a share of a whole step of the MLP.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.encoders import LSTMEncoder
from attn_faithful.models.modeling import AttentionClassifier
from attn_faithful.training.base import TrainSettings, train_base

BATCH, EMBEDDING, HIDDEN = 32, 300, 128


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The median of a few runs after a first one."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def recurrent(length: int) -> dict[str, float]:
    """Forward and backward of a batch: ours against packed; and the rate reached."""
    config = AttentionClassifierConfig(embedding_size=EMBEDDING, hidden_size=HIDDEN)
    ours, packed = LSTMEncoder(config), nn.LSTM(EMBEDDING, HIDDEN, batch_first=True, bidirectional=True)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(BATCH, length, EMBEDDING, generator=generator, requires_grad=True)
    lengths = torch.randint(max(1, length // 2), length + 1, (BATCH,), generator=generator).sort(descending=True).values
    lengths[0] = length
    mask = torch.arange(length) < lengths[:, None]

    def by_packing() -> None:
        states, _ = packed(nn.utils.rnn.pack_padded_sequence(inputs, lengths, batch_first=True))
        nn.utils.rnn.pad_packed_sequence(states, batch_first=True)[0].sum().backward()

    own, theirs = seconds(lambda: ours(inputs, mask).sum().backward()), seconds(by_packing)
    # forward once, backward twice (inputs and weights); 4 gates, 2 directions, 2 operations a multiply-add
    operations = 3 * 2 * 2 * BATCH * length * 4 * HIDDEN * (EMBEDDING + HIDDEN)
    return {
        "seconds": own,
        "times faster than packed": theirs / own,
        "share of matrix-product rate": operations / own / rate(),
    }


def rate() -> float:
    """Operations a second of a square matrix product."""
    size = 1024
    left, right = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / seconds(lambda: left @ right, 10)


def overhead() -> dict[str, float]:
    """A Trainer step of the MLP against the same forward, backward and update in a bare loop."""
    generator = np.random.default_rng(0)
    rows = Rows({
        "input_ids": [generator.integers(2, 5000, 19) for _ in range(3200)],
        "length": [19] * 3200,
        "labels": generator.integers(0, 2, 3200).tolist(),
    })  # fmt: skip
    config = AttentionClassifierConfig(vocab_size=5000, embedding_size=50, encoder="mlp")
    steps = len(rows) // BATCH
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        few = rows.take(range(64))
        train_base(AttentionClassifier(config), rows, few, Collator(), TrainSettings(epochs=1), 0, Path(folder) / "c")
        whole = (time.perf_counter() - start) / steps
    model = AttentionClassifier(config)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    batch = Collator()([rows[i] for i in range(BATCH)])

    def step() -> None:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

    return {"seconds": whole, "times a bare step": whole / seconds(step, 50)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=None, help="a JSON file")
    given = parser.parse_args()
    results = {
        **{f"lstm, {length} tokens": recurrent(length) for length in (19, 180, 200)},
        "trainer, mlp": overhead(),
        "machine": {"threads": torch.get_num_threads(), "torch": torch.__version__, "machine": platform.machine()},
    }
    text = json.dumps(results, indent=1)
    print(text)
    if given.output is not None:
        given.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
