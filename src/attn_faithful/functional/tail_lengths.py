"""The least and the largest length of a vector that is a linear form over a product of simplices, plus errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.functional.tail_forms import Form

_WALK = 12  # steps towards the shortest vector
_PAIRS = 512  # vertices up to which all pairs are looked at


@dataclass(frozen=True)
class Errors:
    """What errors add to a vector.

    Attributes:
        each: to each number of it, (N, E, D).
        length: the length of what they add at most, (N, E).
        along: ``along(rows (N, E, R, D)) -> (N, E, R)``, what they add to rows of it.
        least: ``least(form, rows (N, R, D)) -> (N, R)``, a lower bound of rows of the vector with its errors; the
            form is these rows of its linear form.
    """

    each: Tensor
    length: Tensor
    along: Callable[[Tensor], Tensor]
    least: Callable[[Form, Tensor], Tensor]


def length_range(form: Form, errors: Errors | None) -> tuple[Tensor, Tensor]:
    """Proven bounds (N,) each of the length of the vectors that a form and its errors can give.

    Args:
        form: the vectors.
        errors: None for none.

    Example:
        >>> from attn_faithful.functional.tail_forms import Sets
        >>> sets = Sets(torch.tensor([[3.0, 0.0]]).double(), torch.tensor([[[[0.0, 4.0], [0.0, -4.0]]]]).double())
        >>> shortest, longest = length_range(Form.of(sets), None)
        >>> shortest.round(decimals=6), longest.round(decimals=6)
        (tensor([3.], dtype=torch.float64), tensor([5.], dtype=torch.float64))
    """
    # each value is linear in a scale of a norm below: its length is convex in it and largest at an end, but it may be
    # shorter between the ends than at both, so that the ends are put together before 0 is looked for
    form = form.whole()
    low = form.lower()
    high = form.upper()
    direction = _direction(form)  # (N, D)
    by_direction = form.along(direction[:, None])
    along = by_direction.lower().amin(1)  # (N, 1)
    longest = _longest(form)
    if errors is not None:
        low = low - errors.each
        high = high + errors.each
        along = errors.least(by_direction, direction[:, None])
        longest = torch.minimum(_with_errors(form, longest, errors), _from_centre(form, errors)[:, None])
    longest = longest + form.total_noise * form.constant.shape[-1] ** 0.5
    longest = torch.minimum(longest, torch.maximum(low.abs(), high.abs()).norm(dim=-1))
    away_from_zero = torch.maximum(low.amin(1), -high.amax(1)).clamp(min=0)  # (N, D)
    shortest = torch.maximum(along[:, 0], away_from_zero.norm(dim=-1))
    return shortest * (1 - 1e-12), longest.amax(1) * (1 + 1e-12)


def _with_errors(form: Form, longest: Tensor, errors: Errors) -> Tensor:
    """An upper bound (N, E) of the length of ``x + e``: ``|x|^2 + 2 x e + |e|^2``, each term at its largest.

    Args:
        form: x, whole.
        longest: of x, (N, E).
        errors: e.
    """
    groups, vertices = form.slopes.shape[2:4]
    if groups == 1:
        points = form.constant[:, :, None] + form.slopes[:, :, 0]  # (N, E, V, D)
        squared = points.square().sum(-1) + 2 * errors.along(points)
        squared = squared.amax(-1)
    else:
        of_centre = errors.along(form.constant[:, :, None])[..., 0]
        flat = form.slopes.flatten(2, 3)  # (N, E, F * V, D)
        of_groups = errors.along(flat).unflatten(2, (groups, vertices)).amax(3).sum(2)  # type: ignore[no-untyped-call]
        squared = longest.square() + 2 * (of_centre + of_groups)
    by_products = (squared + errors.length.square()).sqrt() * (1 + 1e-9)
    bounded: Tensor = torch.minimum(by_products, longest + errors.length)
    return bounded


def _from_centre(form: Form, errors: Errors) -> Tensor:
    """An upper bound (N,) of the length of ``v = x + e``: ``|v|^2 = 2 c v - |c|^2 + |v - c|^2`` for any c.

    Args:
        form: x, whole.
        errors: e.
    """
    centre = form.constant.mean(1) + form.slopes.mean(1).mean(2).sum(1)  # (N, D)
    back = -centre[:, None]
    along = -errors.least(form.along(back), back)[:, 0]  # (N,): c v at most
    around = form.shifted(-centre).whole()
    reach = _longest(around) + around.total_noise * centre.shape[-1] ** 0.5 + errors.length  # (N, E)
    size = centre.square().sum(-1)
    squared = 2 * along - size + reach.amax(1).square() + 1e-12 * size
    length: Tensor = squared.clamp(min=0).sqrt() * (1 + 1e-9)
    return length


def _longest(form: Form) -> Tensor:
    """An upper bound (N, E) of the length of a whole form: exact for one group."""
    groups, vertices = form.slopes.shape[2:4]
    if groups == 1:
        points = form.constant[:, :, None] + form.slopes[:, :, 0]  # (N, E, V, D)
        of_points: Tensor = points.norm(dim=-1)
        return of_points.amax(-1)
    middle = form.slopes.mean(3)  # (N, E, F, D)
    around = form.slopes - middle[:, :, :, None]
    centre = form.constant + middle.sum(2)  # (N, E, D)
    by_radius: Tensor = centre.norm(dim=-1) + around.norm(dim=-1).amax(-1).sum(-1)
    if groups * vertices > _PAIRS:
        return by_radius
    # |c + sum w_f|^2 = |c|^2 + sum_f (2 c w_f + |w_f|^2) + sum_{f != g} w_f w_g, each term at its largest
    flat = around.flatten(2, 3)  # (N, E, F * V, D)
    shape = (groups, vertices, groups, vertices)
    products = (flat @ flat.transpose(-1, -2)).reshape(*flat.shape[:2], *shape)
    pairs = products.amax((3, 5))  # (N, E, F, F)
    apart = pairs.sum((-1, -2)) - pairs.diagonal(dim1=-2, dim2=-1).sum(-1)
    along_centre = 2 * (around @ centre[:, :, None, :, None])[..., 0]  # (N, E, F, V)
    alone = (along_centre + around.square().sum(-1)).amax(-1).sum(-1)
    squared = centre.square().sum(-1) + alone + apart
    by_pairs: Tensor = (squared.clamp(min=0) + 1e-9).sqrt() * (1 + 1e-9)
    bounded: Tensor = torch.minimum(by_radius, by_pairs)
    return bounded


def _direction(form: Form) -> Tensor:
    """The direction (N, D) of a short vector of a whole form: any is sound, that of the shortest is best.

    Frank-Wolfe steps with exact line search, at the first of the ends.
    """
    constant = form.constant[:, 0]  # (N, D)
    slopes = form.slopes[:, 0]  # (N, F, V, D)
    point = constant + slopes.mean(2).sum(1)  # (N, D)
    for _ in range(_WALK):
        along = (slopes @ point[:, None, :, None])[..., 0]  # (N, F, V)
        nearest = along.argmin(-1)[..., None, None].expand(-1, -1, 1, slopes.shape[-1])
        vertex = constant + slopes.gather(2, nearest)[:, :, 0].sum(1)
        move = vertex - point
        squared = move.square().sum(-1).clamp(min=1e-30)
        share = (-(point * move).sum(-1) / squared).clamp(0, 1)
        point = point + share[:, None] * move
    length: Tensor = point.norm(dim=-1, keepdim=True)
    return point / length.clamp(min=1e-30)
