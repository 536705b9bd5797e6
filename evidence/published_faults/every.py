"""All faults by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evidence.published_faults import identity_permutation, rank_as_position, swapped_files, tolerance
from evidence.published_faults.effects import Comparison, Fault
from evidence.published_faults.trained import Trained

Measure = Callable[[Sequence[Trained]], Mapping[tuple[str, str, str], Comparison]]

MODULES = (rank_as_position, tolerance, identity_permutation, swapped_files)
FAULTS: Mapping[str, Fault] = {module.FAULT.name: module.FAULT for module in MODULES}
MEASURES: Mapping[str, Measure] = {module.FAULT.name: module.measure for module in MODULES}
