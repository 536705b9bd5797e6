"""All faults by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evidence.published_faults import (
    identity_permutation,
    kl_arguments,
    rank_as_position,
    selection_on_test,
    swapped_files,
    tolerance,
)
from evidence.published_faults.effects import Comparison, Fault
from evidence.published_faults.trained import Trained

Measure = Callable[[Sequence[Trained]], Mapping[tuple[str, str, str], Comparison]]

MODULES = (rank_as_position, tolerance, identity_permutation, swapped_files, kl_arguments, selection_on_test)
FAULTS: Mapping[str, Fault] = {module.FAULT.name: module.FAULT for module in MODULES}
MEASURES: Mapping[str, Measure] = {module.FAULT.name: module.measure for module in MODULES}
