"""What the package's metric modules have in common: their features, and a cache that need not be writable."""

from __future__ import annotations

import logging
from typing import Any

import datasets
import evaluate

from attn_faithful._checks import InputError

_LOGGER = logging.getLogger(__name__)

# what a column holds for each example
NUMBER = datasets.Value("float64")
ROW = datasets.Sequence(NUMBER)
ROWS = datasets.Sequence(ROW)
MARKS = datasets.Sequence(datasets.Value("int64"))


def info(description: str, citation: str, inputs: str, **features: Any) -> evaluate.MetricInfo:
    """What evaluate asks of a metric; ``features`` are its columns in order."""
    return evaluate.MetricInfo(
        description=description,
        citation=citation,
        inputs_description=inputs,
        features=datasets.Features(features),
    )


class Metric(evaluate.Metric):
    """evaluate's metric, whose inputs stay in memory on a read-only cache.

    evaluate writes what it is given to a file of its cache and reads it again, unless it is loaded with
    ``keep_in_memory=True``. Where that cache cannot be written (a shared or a container's file system), one process
    needs no file; several meet in the files, and are told so.
    """

    def _build_data_dir(self) -> str:
        try:
            return str(super()._build_data_dir())
        except OSError as error:
            self._stay_in_memory(error)
            return str(self._data_dir_root)

    def _init_writer(self, timeout: int = 1) -> Any:
        if self.keep_in_memory:
            return super()._init_writer(timeout)
        try:
            return super()._init_writer(timeout)
        except OSError as error:
            self._stay_in_memory(error)
        self.cache_file_name = self.filelock = None
        return super()._init_writer(timeout)

    def _stay_in_memory(self, error: OSError) -> None:
        if self.num_process > 1:
            raise InputError(
                f"evaluate's cache {self._data_dir_root} cannot be written ({error}), and {self.num_process} processes "
                "gather there; set HF_METRICS_CACHE or pass cache_dir=... with a folder that can, or compute on one "
                "process with keep_in_memory=True."
            ) from error
        if not self.keep_in_memory:
            _LOGGER.info(
                "evaluate's cache %s cannot be written (%s): inputs stay in memory", self._data_dir_root, error
            )
        self.keep_in_memory = True
