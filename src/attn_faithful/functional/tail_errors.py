"""What the errors of relaxed steps of a tail add to a later value: rows carried backwards to where the errors arise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from attn_faithful.functional.tail import Activation, Linear, Norm, Product, Step, TailUnknownError, check_steps
from attn_faithful.functional.tail_forms import UNIT, Form, largest
from attn_faithful.functional.tail_lines import Parabola
from attn_faithful.functional.tail_squares import Squares
from attn_faithful.functional.tail_tangents import Tangent

_SUMS = 1 + 1e-9  # far more than the rounding of sums of numbers of one sign

Key = tuple[object, ...]  # which rows of which value were carried through which steps


class Chain:
    """The steps of a tail, and what of them is the same for all sets: rows carried backwards through linear steps.

    Args:
        steps: of a tail.

    Attributes:
        row_sums, column_sums: of a linear step's absolute weights the largest sum, by the number of its value.

    Raises:
        InputError: see `check_steps`.
        TailUnknownError: values of two norms meet of which neither lies below the other, so that their ends would be
            mixed up.

    Example:
        >>> len(Chain([Activation(0, "tanh")]).steps)
        1
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        check_steps(steps)
        self.steps = list(steps)
        self.row_sums: dict[int, float] = {}
        self.column_sums: dict[int, float] = {}
        for number, step in enumerate(steps, start=1):
            if isinstance(step, Linear):
                sizes = step.weight.abs()
                self.row_sums[number] = float(sizes.sum(1).max())
                self.column_sums[number] = float(sizes.sum(0).max())
        self._known: dict[Key, Tensor] = {}
        norms: list[tuple[int, ...]] = [()]  # of each value, those below it
        for number, step in enumerate(steps, start=1):
            below = max((norms[source] for source in step.sources), key=len)
            for source in step.sources:
                if below[: len(norms[source])] != norms[source]:
                    raise TailUnknownError(
                        f"Step {number - 1} after the attention joins two norms; such a tail is not bounded.",
                        "two norms are joined",
                    )
            if isinstance(step, Norm):
                below = (*below, number)
            norms.append(below)

    def known(self, key: Key | None, make: Callable[[], Tensor]) -> Tensor:
        """What was made under a key, or is made now; None is never kept."""
        if key is None:
            return make()
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


@dataclass(frozen=True)
class Curved:
    """An activation of a value that is a linear form without errors.

    Attributes:
        form: the value.
        parabola: the activation on it.
    """

    form: Form
    parabola: Parabola


@dataclass
class Relaxed:
    """What is known of the steps of a tail so far; keys are the numbers of values.

    Attributes:
        errors: half-widths (N, D) of what the value is off its linear form.
        slopes: (N, D), of activations.
        gates: what each factor of a product is multiplied by, (N, D) for the first and for the other.
        scales: (N, E), of norms at their ends.
        tangents: of norms that are bounded by them.
        uncertain: values that any error reaches.
        curved: activations that parabolas bound as well.
    """

    errors: dict[int, Tensor] = field(default_factory=dict)
    slopes: dict[int, Tensor] = field(default_factory=dict)
    gates: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    scales: dict[int, Tensor] = field(default_factory=dict)
    tangents: dict[int, Tangent] = field(default_factory=dict)
    uncertain: set[int] = field(default_factory=set)
    curved: dict[int, Curved] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Rows of a value: ``factor * matrix @ value``.

    Attributes:
        chain: of the steps.
        matrix: (R, D) for all sets, (N, R, D) for each, or (N, E, R, D) for each at every end.
        key: of a matrix that is the same for all sets; None for others.
        factor: (N, E); None for 1.
        noise: what rounding may have added to each number of the matrix.
    """

    chain: Chain
    matrix: Tensor
    key: Key | None = None
    factor: Tensor | None = None
    noise: float = 0.0

    def through_linear(self, number: int, step: Linear) -> Rows:
        """Rows of x where the value is ``W x + b``."""
        key = self._key(number)
        matrix = self.chain.known(key, lambda: self.matrix @ step.weight)
        column_sum = self.chain.column_sums[number]
        products = (step.weight.shape[0] + 4) * UNIT * column_sum * largest(self.matrix)
        return replace(self, matrix=matrix, key=key, noise=self.noise * column_sum + products)

    def through_norm(self, number: int, step: Norm, scale: Tensor) -> Rows:
        """Rows of x where the value is a norm of x of some scale (N, E), without its bias."""
        key = self._key(number)
        matrix = self.chain.known(key, lambda: step.centre(self.matrix * step.weight))
        size = largest(step.weight)
        added = (len(step.weight) + 6) * UNIT * size * largest(self.matrix)
        factor = scale if self.factor is None else self.factor * scale
        return replace(self, matrix=matrix, key=key, factor=factor, noise=2 * self.noise * size + added)

    def through_tangent(self, step: Norm, tangent: Tangent) -> Rows:
        """Rows of x where the value is the tangent of a norm of x, without its bias and constant."""
        by_number = self._by_set().matrix * step.weight  # (N or 1, ..., D)
        size = largest(step.weight)
        matrix = step.centre(tangent.matrix_times(by_number))
        added = (2 * len(step.weight) + 12) * UNIT * tangent.size * largest(by_number)
        noise = 2 * self.noise * size * tangent.size + added
        return replace(self, matrix=matrix, key=None, noise=noise)

    def weighted(self, by: Tensor) -> Rows:
        """Rows of x where the value is x times a number (N, D) each."""
        by = by[:, None]  # (N, 1, D)
        if self.matrix.dim() == 4:
            by = by[:, None]
        matrix = self.matrix * by
        noise = self.noise * largest(by) + UNIT * largest(matrix)
        return replace(self, matrix=matrix, key=None, noise=noise)

    def plus(self, other: Rows) -> Rows:
        """The sum of two."""
        if self.factor is other.factor:
            one, two, factor = self, other, self.factor
        else:
            one, two, factor = self._whole(), other._whole(), None
        if one.matrix.dim() != two.matrix.dim():
            one, two = one._by_end(), two._by_end()
        key = None
        if one.key is not None and two.key is not None:
            key = ("sum", one.key, two.key)
        matrix = self.chain.known(key, lambda: one.matrix + two.matrix)
        noise = one.noise + two.noise + UNIT * largest(matrix)
        return replace(one, matrix=matrix, key=key, factor=factor, noise=noise)

    def _whole(self) -> Rows:
        """The same with the factor in the matrix, (N, E, R, D)."""
        if self.factor is None:
            return self
        matrix = self.factor[:, :, None, None] * self._by_end().matrix
        noise = self.noise * largest(self.factor) + UNIT * largest(matrix)
        return replace(self, matrix=matrix, key=None, factor=None, noise=noise)

    def _by_set(self) -> Rows:
        """The same with a matrix (N or 1, R, D), or by end."""
        if self.matrix.dim() == 2:
            return replace(self, matrix=self.matrix[None])
        return self

    def _by_end(self) -> Rows:
        """The same with a matrix (N or 1, E or 1, R, D)."""
        by_set = self._by_set()
        if by_set.matrix.dim() == 3:
            return replace(self, matrix=by_set.matrix[:, None])
        return self

    def _key(self, number: int) -> Key | None:
        return None if self.key is None else (*self.key, number)

    def spread(self, errors: Tensor) -> Tensor:
        """What errors of half-widths (N, D) add to the rows at most, (N, E or 1, R)."""
        key = None if self.key is None else ("size", self.key)
        size = self.chain.known(key, self.matrix.abs)
        if size.dim() == 2:
            spread = (errors @ size.T)[:, None]  # (N, 1, R)
        elif size.dim() == 3:
            spread = (size @ errors[..., None])[..., 0][:, None]
        else:
            spread = (size @ errors[:, None, :, None])[..., 0]  # (N, E, R)
        spread = spread + self.noise * errors.sum(-1)[:, None, None]
        return self._at_factor(spread)

    def least_of(self, values: Tensor) -> Tensor:
        """The rows of values (N, D), (N, E or 1, R), rounded downwards."""
        by_end = self._by_end().matrix
        terms = (len(values[0]) + 4) * UNIT
        off = terms * (by_end.abs() @ values.abs()[:, None, :, None])[..., 0]
        off = off + self.noise * values.abs().sum(-1)[:, None, None]
        least = (by_end @ values[:, None, :, None])[..., 0] - off
        return self._at_factor(least)

    def squares(self, curved: Curved, ends: int) -> Squares:
        """The rows of the squares of a curved value, at the ends of the value whose rows these are."""
        parabola = curved.parabola
        weights = self._by_end().matrix * parabola.bend[:, None, None]
        noise = self.noise * largest(parabola.bend) + UNIT * largest(weights)
        factor = self.factor
        if factor is None:
            factor = weights.new_ones(len(weights), ends)
        return Squares(curved.form, parabola.centre, weights, factor, noise)

    def length(self, errors: Tensor) -> Tensor:
        """A bound (N, E or 1, 1) of the length of what errors of half-widths (N, D) add to the rows together."""
        if self.key is None:
            by_row: Tensor = self.spread(errors).norm(dim=-1, keepdim=True)
            return by_row
        # the vectors e with |e| <= h have M e = (M / w) (w e), for any weights w; those of the columns' lengths do well
        key = ("lengths of columns", self.key)
        weights = self.chain.known(key, lambda: self.matrix.norm(dim=0).clamp(min=1e-300))
        largest_value = self.chain.known(("largest value", self.key), lambda: _spectral(self.matrix / weights))
        length = largest_value * (errors * weights).norm(dim=-1)  # (N,)
        rounding = self.noise * errors.sum(-1) * len(self.matrix) ** 0.5
        return self._at_factor((length + rounding)[:, None, None])

    def _at_factor(self, values: Tensor) -> Tensor:
        if self.factor is None:
            return values
        return values * self.factor[..., None]


def _spectral(matrix: Tensor) -> Tensor:
    """An upper bound of a matrix's largest singular value, from the trace of a power of its Gram matrix."""
    gram = matrix @ matrix.T  # (R, R)
    size: Tensor = gram.norm().clamp(min=1e-300)
    power = gram / size
    for _ in range(3):
        power = power @ power
    largest_value: Tensor = (size * power.norm().pow(1 / 8)).sqrt() * (1 + 1e-9)
    return largest_value


@dataclass(frozen=True)
class ErrorsBelow:
    """What the errors below a value add to rows of it.

    Attributes:
        chain: of the steps.
        relaxed: what is known of the steps up to the value.
        value: its number.
        ends: E of the value.
    """

    chain: Chain
    relaxed: Relaxed
    value: int
    ends: int

    def spread(self, rows: Tensor, key: Key | None = None, noise: float = 0.0) -> Tensor:
        """The most that they add (N, E, R) to rows (R, D), (N, R, D) or (N, E, R, D).

        Args:
            rows: of the value.
            key: a name of rows (R, D), under which what follows from them is kept.
            noise: what rounding may have added to each number of the rows.
        """
        spread = rows.new_zeros(1, 1, 1)
        for number, here in self._sources(rows, key, noise):
            spread = spread + here.spread(self.relaxed.errors[number])
        return spread * _SUMS

    def length(self, rows: Tensor, key: Key) -> Tensor:
        """A bound (N, E) of the length of what they add to rows (R, D) together."""
        length = rows.new_zeros(1, 1, 1)
        for number, here in self._sources(rows, key, 0.0):
            length = length + here.length(self.relaxed.errors[number])
        return length[..., 0] * _SUMS

    def squares(self, rows: Tensor, noise: float = 0.0) -> tuple[Tensor, list[Squares], Tensor]:
        """The most that they add (N, E or 1, R) to rows (N, R, D), the squares in that, and what is beside at least.

        Args:
            rows: of the value.
            noise: what rounding may have added to each number of the rows.
        """
        squares = []
        spread = rest = rows.new_zeros(1, 1, 1)
        for number, here in self._sources(rows, None, noise):
            of_errors = here.spread(self.relaxed.errors[number])
            spread = spread + of_errors
            curved = self.relaxed.curved.get(number)
            if curved is not None:
                squares.append(here.squares(curved, self.ends))
                rest = rest + here.least_of(curved.parabola.shift)
                of_errors = here.spread(curved.parabola.error)
            rest = rest - of_errors * _SUMS
        return spread * _SUMS, squares, rest

    def _sources(self, rows: Tensor, key: Key | None, noise: float) -> list[tuple[int, Rows]]:
        """The values below where errors arise, each with the rows of it."""
        relaxed = self.relaxed
        whole_key = None if key is None else (*key, self.value)
        pending = {self.value: Rows(self.chain, rows, whole_key, noise=noise)}
        found = []
        for number in range(self.value, 0, -1):
            if number not in pending or number not in relaxed.uncertain:
                continue
            here = pending.pop(number)
            if number in relaxed.errors:
                found.append((number, here))
            for source, passed in self._passed(number, here):
                known = pending.get(source)
                pending[source] = passed if known is None else known.plus(passed)
        return found

    def _passed(self, number: int, rows: Rows) -> list[tuple[int, Rows]]:
        """The rows of the uncertain values that a step reads, by their numbers."""
        relaxed = self.relaxed
        step = self.chain.steps[number - 1]
        if not any(source in relaxed.uncertain for source in step.sources):
            return []
        if isinstance(step, Linear):
            return [(step.of, rows.through_linear(number, step))]
        if isinstance(step, Norm) and number in relaxed.tangents:
            return [(step.of, rows.through_tangent(step, relaxed.tangents[number]))]
        if isinstance(step, Norm):
            scale = relaxed.scales[number]  # (N, ends at the norm)
            of_ends = scale.repeat(1, self.ends // scale.shape[1])
            return [(step.of, rows.through_norm(number, step, of_ends))]
        if isinstance(step, Activation):
            return [(step.of, rows.weighted(relaxed.slopes[number]))]
        if isinstance(step, Product):
            of_one, of_other = relaxed.gates[number]
            return [(step.one, rows.weighted(of_one)), (step.other, rows.weighted(of_other))]
        return [(source, rows) for source in step.sources]
