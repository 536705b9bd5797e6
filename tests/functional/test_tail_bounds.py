"""Proven bounds of a tail: nothing found lies below, exact where they claim it, and each part against brute force."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from mpmath import mp

from attn_faithful._checks import InputError
from attn_faithful.functional.activations import CURVES
from attn_faithful.functional.tail import Activation, Linear, Norm, Product, Sum, Tail
from attn_faithful.functional.tail_bounds import lowest_leads
from attn_faithful.functional.tail_errors import Chain, ErrorsBelow, Relaxed
from attn_faithful.functional.tail_forms import Form, Sets
from attn_faithful.functional.tail_lengths import Errors, length_range
from attn_faithful.functional.tail_lines import Lines
from tests.properties import made, tails
from tests.properties.made import checked
from tests.properties.tails import drawn
from tests.reference import tail_bounds as slow


def check_below(sets, steps, margins, shares, bounds):
    """Bounds (N, R) are at most the leads at shares (N, R, F, V), in numbers of 60 digits."""
    for text, row in np.ndindex(*bounds.shape):
        at = slow.lead(steps, sets.centre[text], sets.vertices[text], shares[text, row], margins[text, row])
        assert mp.mpf(float(bounds[text, row])) <= at


def check_sound(generator, sets, steps, bins=(1, 3)):
    """No point that a search finds is below the bound, for the logits and each rival."""
    classes = len(steps[-1].bias) if steps else sets.centre.shape[-1]
    margins = drawn(generator, len(sets), 2, classes)
    margins[:, 1] = 0
    margins[:, 1, generator.integers(classes)] = generator.choice([-1, 1])
    shares = tails.lowest_found(generator, sets, steps, margins)
    for count in (*bins, None):
        if count is None:
            bounds = lowest_leads(sets, Chain(steps), margins, tangents=True)
        else:
            bounds = lowest_leads(sets, Chain(steps), margins, count)
        assert not bool(bounds.isnan().any())
        check_below(sets, steps, margins, shares, bounds)


@given(made.seeds())
@checked(4)
def test_no_point_of_a_set_is_below_its_bound(seed):
    generator = np.random.default_rng(seed)
    width = int(generator.integers(1, 5))
    check_sound(generator, tails.sets_of(generator, width), tails.steps_of(generator, width))


@given(made.seeds())
@checked()
def test_two_steps_are_bounded_soundly(seed):
    """Short tails have tight bounds, so that a small flaw shows."""
    generator = np.random.default_rng(seed)
    width = int(generator.integers(1, 4))
    curve = str(generator.choice(list(CURVES)))
    kinds = {
        "activation": (Activation(0, curve),),
        "centred norm": (tails.norm(generator, 0, width, float(generator.choice(tails.EPS))),),
        "norm": (tails.norm(generator, 0, width, float(generator.choice(tails.EPS)), False),),
        "gate": (tails.linear(generator, 0, width, width, 1.0), Product(0, 1)),
        "square": (Product(0, 0),),
        "two activations": (Activation(0, curve), Activation(1, "tanh")),
        "norm of an activation": (Activation(0, curve), tails.norm(generator, 1, width)),
        "norm of a residual": (
            tails.norm(generator, 0, width),
            Sum(0, 1),
            tails.norm(generator, 2, width, centred=False),
        ),
        "curve of a residual around a norm": (
            tails.norm(generator, 0, width),
            Sum(0, 1),
            tails.linear(generator, 2, 3, width, 1.0),
            Activation(3, str(generator.choice(["gelu", "silu", "tanh"]))),
            tails.linear(generator, 4, width, 3, 1.0),
        ),
    }
    for steps in kinds.values():
        steps = (*steps, tails.linear(generator, len(steps), 2, width, 1.0))
        check_sound(generator, tails.sets_of(generator, width, 1), steps, (1, 2))


@given(made.seeds())
@checked(2)
def test_bounds_of_points_hold_where_float64_loses_digits(seed):
    """Sets of one point, offsets of 1e8 that cancel: the bound is the number itself but for what rounding may add."""
    generator = np.random.default_rng(seed)
    width = int(generator.integers(2, 5))
    large = 10 ** generator.uniform(2, 8)
    centre = large * drawn(generator, 1, width)
    vertices = -centre[:, None, None] + drawn(generator, 1, 2, 1, width)
    kinds = {
        "linear": (Linear(0, torch.ones(2, width).double(), drawn(generator, 2)),),
        "bias": (Norm(0, torch.ones(width).double(), large * drawn(generator, width), 1e-5), Activation(1, "gelu")),
        "gate": (Linear(0, torch.eye(width).double(), large * drawn(generator, width)), Product(1, 1), Product(0, 2)),
        "norm": (tails.norm(generator, 0, width, centred=bool(generator.integers(2))), Sum(0, 1)),
        "cancelling norm": (
            Norm(0, large * drawn(generator, width), large * drawn(generator, width), 1e-5),
            Linear(1, drawn(generator, width, width), drawn(generator, width)),
            Sum(1, 2),
            Norm(3, drawn(generator, width), drawn(generator, width), 1e-5),
        ),
    }
    sets = Sets(centre, vertices)
    shares = torch.ones(1, 1, 2, 1).double()
    for steps in kinds.values():
        chain = Chain(steps)
        margins = drawn(generator, 1, 1, 2 if len(steps) == 1 else width)
        check_below(sets, steps, margins, shares, lowest_leads(sets, chain, margins))
        check_below(sets, steps, margins, shares, lowest_leads(sets, chain, margins, tangents=True))


def test_offsets_that_cancel_are_covered_and_cost_little():
    generator = np.random.default_rng(0)
    far = 0
    for _ in range(50):
        weight = torch.tensor([[1.0, 1.0, 1.0]]).double()
        centre = torch.tensor([[1e8, -1e8, 0.0]]).double() + drawn(generator, 1, 3)
        sets = Sets(centre, drawn(generator, 1, 1, 3, 3))
        steps = (Linear(0, weight, drawn(generator, 1)),)
        bound = lowest_leads(sets, Chain(steps), torch.ones(1, 1, 1).double())
        with mp.workdps(60):
            of_vertices = [
                slow.lead(steps, centre[0], sets.vertices[0], torch.eye(3)[vertex : vertex + 1], torch.ones(1))
                for vertex in range(3)
            ]
            least = min(of_vertices)
            assert mp.mpf(float(bound)) <= least
            assert least - mp.mpf(float(bound)) < 1e-5
            far += int(abs(slow.exact([float(Tail(centre, sets.vertices, steps).after(centre))])[0] - least) > 0)
    assert far == 50


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_bounds_of_affine_tails_are_exact(steps):
    generator = np.random.default_rng(steps)
    sets = Sets(drawn(generator, 4, 3), drawn(generator, 4, 3, 5, 3))
    affine = tuple(tails.linear(generator, of, 3, 3, 1.0) for of in range(steps))
    margins = drawn(generator, 4, 2, 3)
    expected = []
    for choice in itertools.product(range(5), repeat=3):
        shares = torch.eye(5).double()[list(choice)].expand(4, 1, -1, -1)
        expected.append(tails.leads(sets, affine, margins, shares)[:, 0])
    expected = torch.stack(expected).amin(0)
    found = lowest_leads(sets, Chain(affine), margins)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_more_bins_and_smaller_sets_come_near_the_least_lead():
    """Sound bounds that are of use: not far below what is found, nearer with more bins and in smaller sets."""
    generator = np.random.default_rng(2)
    steps = tails.post_norm(generator, 4)
    sets = Sets(3 * drawn(generator, 20, 4), 0.5 * drawn(generator, 20, 1, 3, 4))
    margins = torch.tensor([[[1.0, -1.0]]]).double().expand(20, -1, -1)
    gaps = []
    for size, bins in ((1.0, 1), (1.0, 8), (0.1, 8), (0.01, 8)):
        smaller = Sets(sets.centre, size * sets.vertices)
        shares = tails.lowest_found(generator, smaller, steps, margins)
        least = tails.leads(smaller, steps, margins, shares)[:, 0, 0]
        gaps.append(float((least - lowest_leads(smaller, Chain(steps), margins, bins)[:, 0]).median()))
    assert gaps[0] > gaps[1] > 5 * gaps[2] > 25 * gaps[3] > 0


def test_a_norm_of_a_vector_of_length_0_is_bounded_at_any_eps():
    steps = (Norm(0, torch.ones(2).double(), torch.zeros(2).double(), 1e-24, centred=False),)
    reach = torch.tensor([[[[1e-12, 0.0], [-1e-12, 0.0]]]]).double()
    sets = Sets(torch.zeros(1, 2).double(), reach)
    margins = torch.tensor([[[1.0, 0.0]]]).double()
    bound = lowest_leads(sets, Chain(steps), margins)
    check_below(sets, steps, margins, torch.tensor([[[[0.0, 1.0]]]]), bound)
    assert float(bound) > -2.0  # the least is -.816


def test_weights_of_zero_and_widths_of_one_have_bounds():
    zero = Linear(1, torch.zeros(2, 1).double(), torch.zeros(2).double())
    steps = (Activation(0, "gelu"), zero, Norm(2, torch.ones(2).double(), torch.ones(2).double(), 1e-5))
    sets = Sets(torch.zeros(1, 1).double(), torch.ones(1, 1, 1, 1).double())
    bound = lowest_leads(sets, Chain(steps), torch.ones(1, 1, 2).double())
    assert 2 - 1e-6 < float(bound) <= 2
    alone = (Activation(0, "gelu"), Norm(1, torch.ones(1).double(), torch.ones(1).double(), 1e-5))
    bound = lowest_leads(sets, Chain(alone), torch.ones(1, 1, 1).double())
    assert 1 - 1e-6 < float(bound) <= 1


def test_errors_below_an_activation_widen_its_interval():
    """h = relu(x) - x / 2 is .25 but for errors; u = 4 h - 1 is 0, but may be -1 and 1, where a second relu bends."""
    zero = torch.zeros(1).double()
    sets = Sets(torch.zeros(1, 1).double(), torch.tensor([[[[-1.0], [1.0]]]]).double())
    below = (
        Activation(0, "relu"),
        Linear(0, torch.tensor([[-0.5]]).double(), zero),
        Sum(1, 2),
        Linear(3, torch.tensor([[4.0], [-4.0]]).double(), torch.tensor([-1.0, 1.0]).double()),  # u and -u
        Activation(4, "relu"),
    )
    one_row, no_row = torch.tensor([[1.0, 0.0]]).double(), torch.zeros(1, 2).double()
    for of_u, of_relu in ((one_row, -one_row), (no_row, -one_row.flip(1)), (-one_row, one_row), (no_row, -one_row)):
        steps = (*below, Linear(4, of_u, zero), Linear(5, of_relu, zero), Sum(6, 7))
        places = torch.linspace(-1, 1, 101, dtype=torch.float64)[:, None]
        least = Tail(sets.centre, sets.vertices, steps).after(places).min()
        bound = float(lowest_leads(sets, Chain(steps), torch.ones(1, 1, 1).double()))
        assert -2.1 < bound <= float(least)


@pytest.mark.parametrize(("of_value", "of_relu"), [(0.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (0.0, 1.0)])
def test_both_ends_of_a_scale_widen_the_interval_of_an_activation(of_value, of_relu):
    """Of vectors (1, t) the norm's first number is from .14 to 1.41, by its scale alone; a relu bends at .5."""
    zero = torch.zeros(1).double()
    steps = (
        Norm(0, torch.ones(2).double(), torch.tensor([-0.5, 0.0]).double(), 1e-5, centred=False),
        Activation(1, "relu"),
        Linear(1, torch.tensor([[of_value, 0.0]]).double(), zero),
        Linear(2, torch.tensor([[of_relu, 0.0]]).double(), zero),
        Sum(3, 4),
    )
    sets = Sets(torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[[[0.0, 0.0], [0.0, 10.0]]]]).double())
    places = torch.stack([torch.ones(101), torch.linspace(0, 10, 101)], 1).double()
    least = Tail(sets.centre, sets.vertices, steps).after(places).min()
    assert float(lowest_leads(sets, Chain(steps), torch.ones(1, 1, 1).double())) <= float(least)


def test_errors_below_a_norm_widen_its_scale():
    """4 h with h = relu(x) - x / 2 is 1 but for errors, and from 0 to 2; beside it a 1, of which the norm makes r."""
    zero = torch.zeros(1).double()
    steps = (
        Activation(0, "relu"),
        Linear(0, torch.tensor([[-0.5]]).double(), zero),
        Sum(1, 2),
        Linear(3, torch.tensor([[4.0], [0.0]]).double(), torch.tensor([0.0, 1.0]).double()),
        Norm(4, torch.ones(2).double(), torch.zeros(2).double(), 1e-5, centred=False),
    )
    sets = Sets(torch.zeros(1, 1).double(), torch.tensor([[[[-1.0], [1.0]]]]).double())
    places = torch.linspace(-1, 1, 101, dtype=torch.float64)[:, None]
    scales = Tail(sets.centre, sets.vertices, steps).after(places)[:, 1]
    for sign, least in ((1.0, scales.min()), (-1.0, -scales.max())):
        margins = torch.tensor([[[0.0, sign]]]).double()
        assert float(lowest_leads(sets, Chain(steps), margins)) <= float(least)


@pytest.mark.parametrize("order", [(4, 5), (5, 4)])
def test_errors_of_one_factor_are_times_the_other(order):
    """4 h with h = relu(x) - x / 2 is 1 but for errors, and from 0 to 2; times 10."""
    zero = torch.zeros(1).double()
    steps = (
        Activation(0, "relu"),
        Linear(0, torch.tensor([[-0.5]]).double(), zero),
        Sum(1, 2),
        Linear(3, torch.tensor([[4.0]]).double(), zero),
        Linear(0, torch.zeros(1, 1).double(), zero + 10),
        Product(*order),
    )
    sets = Sets(torch.zeros(1, 1).double(), torch.tensor([[[[-1.0], [1.0]]]]).double())
    bound = float(lowest_leads(sets, Chain(steps), torch.ones(1, 1, 1).double()))
    assert -1e-6 < bound <= 0


def test_rounding_of_a_vector_adds_to_its_length():
    """A point whose numbers cancel in a norm's length: noise of the form is part of both bounds."""
    point = Sets(torch.tensor([[3.0, 4.0]]).double(), torch.zeros(1, 1, 1, 2).double(), noise=0.1)
    shortest, longest = length_range(Form.of(point), None)
    assert float(shortest) <= 5 - 0.1 * 2**0.5
    assert float(longest) >= 5 + 0.1 * 2**0.5


def test_nan_is_never_a_bound():
    steps = (Activation(0, "tanh"),)
    sets = Sets(torch.tensor([[float("nan")], [1.0]]).double(), torch.zeros(2, 1, 1, 1).double())
    assert not bool((lowest_leads(sets, Chain(steps), torch.ones(2, 1, 1).double())[0] > -1e300).any())
    with pytest.raises(InputError, match="not finite"):
        Chain((Linear(0, torch.tensor([[float("inf")]]), torch.zeros(1)),))


def test_tails_and_sets_that_are_not_understood_are_refused():
    ones, zeros = torch.ones(2).double(), torch.zeros(2).double()
    with pytest.raises(InputError, match="joins two norms"):
        Chain((Norm(0, ones, zeros, 1e-5), Norm(0, ones, zeros, 1e-5), Sum(1, 2)))
    with pytest.raises(InputError, match="eps"):
        Chain((Norm(0, ones, zeros, 0.0),))
    sets = Sets(torch.zeros(1, 2), torch.zeros(1, 1, 1, 2))
    with pytest.raises(InputError, match="float64"):
        lowest_leads(sets, Chain(()), torch.ones(1, 1, 2).double())


@pytest.mark.parametrize("name", list(CURVES))
def test_lines_contain_the_curve(name):
    generator = np.random.default_rng(len(name))
    curve = CURVES[name]
    grid = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    edges = [(-1.0, 1.0), (0.0, 5.0), (-5.0, 0.0), (-0.1, 30.0), (-1e4, 1e4), (2.0, 2.0), (0.0, 0.0), (1e6, 1e6 + 1)]
    for _ in range(20):
        start, width = 4 * generator.standard_normal(), 10 ** generator.uniform(-13, 3)
        edges.append((start, start + width))
    for low, high in edges:
        low, high = torch.tensor([[low]]).double(), torch.tensor([[high]]).double()
        lines = Lines.around(curve, low, high)
        places = low + grid * (high - low)
        middle = lines.slope * places + lines.middle
        assert bool(((curve.value(places) - middle).abs() <= lines.error).all())


@pytest.mark.parametrize("name", [name for name in CURVES if CURVES[name].bend is not None])
def test_the_bend_is_the_largest_second_derivative_and_no_less_is_enough(name):
    curve = CURVES[name]
    places = torch.linspace(-30, 30, 600_001, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(curve.value(places).sum(), places, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), places)
    largest = second.abs().max()
    assert 0.98 * curve.bend < float(largest) <= curve.bend
    # a small interval around the place of most bend: the curve leaves the chords between points in the middle
    place = places.detach()[second.abs().argmax()]
    low, high = (place - 0.05).view(1, 1), (place + 0.05).view(1, 1)
    lines = Lines.around(curve, low, high)
    inside = torch.linspace(float(low), float(high), 100_001, dtype=torch.float64)
    off = (curve.value(inside) - lines.slope * inside - lines.middle).abs().max()
    assert 0.995 * float(lines.error) < float(off) <= float(lines.error)


def any_form(generator, width):
    """A form at two or four ends, whose numbers may change their sign from end to end."""
    count, ends = 2, int(generator.choice([1, 2, 4]))
    groups, items = int(generator.integers(1, 4)), int(generator.integers(1, 4))
    of_ends = int(generator.choice([1, ends]))
    factor = torch.from_numpy(generator.uniform(0.1, 3, (count, ends)))
    size = 10 ** generator.uniform(-2, 1)
    return Form(
        drawn(generator, 1, 1, width),
        factor,
        drawn(generator, count, of_ends, width),
        size * drawn(generator, count, of_ends, groups, items, width),
        0.0,
    )


def between_ends(generator, form, count):
    """Vectors (N, K, D) of a form at vertices, scales between its ends being any.

    Two ends are those of one scale, four those of two: a value is linear in each.
    """
    whole = form.whole()
    n, ends, groups, items, _ = whole.slopes.shape
    weight = torch.ones(count, 1).double()
    while weight.shape[1] < ends:
        share = torch.from_numpy(generator.random((count, 1)))
        weight = torch.cat([weight * share, weight * (1 - share)], 1)  # (K, E)
    chosen = torch.from_numpy(generator.integers(items, size=(n, count, groups)))
    vertex = torch.nn.functional.one_hot(chosen, items).double()  # (N, K, F, V)
    slopes = torch.einsum("nkfv,nefvd->nked", vertex, whole.slopes)
    at_ends = whole.constant[:, None] + slopes  # (N, K, E, D)
    return (weight[None, :, :, None] * at_ends).sum(2)


@given(made.seeds())
@checked(2)
def test_lengths_are_in_their_range(seed):
    generator = np.random.default_rng(seed)
    width = int(generator.integers(1, 4))
    form = any_form(generator, width)
    errors, added = None, 0.0
    if generator.random() < 0.6:
        sizes = torch.from_numpy(10 ** generator.uniform(-3, 1) * generator.random((2, 3)))  # half-widths (N, 3)
        matrix = drawn(generator, width, 3)
        signs = torch.from_numpy(generator.choice([-1.0, 1.0], (2, 4000, 3)))
        added = (signs * sizes[:, None]) @ matrix.T  # (N, K, D)

        def along(rows):
            return ((rows @ matrix).abs() @ sizes[:, None, :, None])[..., 0]

        def least(of_rows, rows):
            return (of_rows.lower() - along(rows[:, None])).amin(1)

        each = (matrix.abs() @ sizes[..., None])[..., 0][:, None].expand(-1, form.ends, -1)
        corners = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=3))).double()  # (8, 3)
        longest = ((corners * sizes[:, None]) @ matrix.T).norm(dim=-1).amax(1, keepdim=True)
        errors = Errors(each, longest.expand(-1, form.ends), along, least)
    shortest, longest = length_range(form, errors)
    lengths = (between_ends(generator, form, 4000) + added).norm(dim=-1)
    assert bool((shortest <= lengths.amin(1) * (1 + 1e-9)).all())
    assert bool((longest >= lengths.amax(1) * (1 - 1e-9)).all())


def test_a_vector_that_turns_round_between_the_ends_may_have_length_0():
    form = Form(
        torch.tensor([[[-2.0, 2.0]]]).double(),
        torch.tensor([[1.0, 3.0]]).double(),
        torch.tensor([[[1.0, -1.0]]]).double(),
        torch.zeros(1, 1, 1, 1, 2).double(),
        0.0,
    )  # -1 and 1 times (1, -1) at the ends
    shortest, longest = length_range(form, None)
    assert float(shortest) < 1e-12
    assert float(longest) == pytest.approx(2**0.5)


def test_the_longest_vector_is_not_lost_where_large_numbers_cancel():
    generator = np.random.default_rng(0)
    for _ in range(50):
        far = 1e8 * drawn(generator, 2)
        near = drawn(generator, 2, 2)
        vertices = torch.stack([near - far, near - far])[None]
        sets = Sets((2 * far)[None], vertices)
        shortest, longest = length_range(Form.of(sets), None)
        for one, other in itertools.product(range(2), repeat=2):
            shares = torch.eye(2)[[one, other]]
            with mp.workdps(60):
                vector = slow.vector(sets.centre[0], sets.vertices[0], shares)
                length = mp.sqrt(slow.dot(vector, vector))
            assert mp.mpf(float(shortest)) <= length <= mp.mpf(float(longest))


def any_relaxed(generator, chain, width, count=2):
    """Errors, slopes, gates and scales of a chain as if it had been relaxed; and of each value its ends."""
    relaxed = Relaxed()
    ends = [1]
    widths = [width]
    for number, step in enumerate(chain.steps, start=1):
        size = len(step.bias) if isinstance(step, Linear | Norm) else widths[step.sources[0]]
        widths.append(size)
        ends.append(max(ends[source] for source in step.sources))
        if any(source in relaxed.uncertain for source in step.sources):
            relaxed.uncertain.add(number)
        if isinstance(step, Norm):
            low, high = 0.1 + np.sort(generator.random((2, count)), 0)
            of_ends = np.concatenate([np.repeat(low[:, None], ends[-1], 1), np.repeat(high[:, None], ends[-1], 1)], 1)
            relaxed.scales[number] = torch.from_numpy(of_ends)
            ends[-1] *= 2
        if isinstance(step, Activation):
            relaxed.slopes[number] = drawn(generator, count, size)
        if isinstance(step, Product):
            relaxed.gates[number] = (drawn(generator, count, size), drawn(generator, count, size))
        if isinstance(step, Activation | Product):
            relaxed.errors[number] = drawn(generator, count, size).abs()
            relaxed.uncertain.add(number)
    return relaxed, ends


def carried(chain, relaxed, number, place, ends, signs):
    """What errors ``signs * half-widths`` of one value's place add to the value of a number, (N, E, D), forwards."""
    made = [None]
    for value, step in enumerate(chain.steps[:number], start=1):
        came = [made[source] for source in step.sources]
        out = None
        if isinstance(step, Linear):
            out = None if came[0] is None else came[0] @ step.weight.T
        elif isinstance(step, Norm) and came[0] is not None and relaxed.scales[value].shape[1] <= ends:
            scale = relaxed.scales[value].repeat(1, ends // relaxed.scales[value].shape[1])
            out = scale[..., None] * step.centre(came[0]) * step.weight
        elif isinstance(step, Activation) and came[0] is not None:
            out = relaxed.slopes[value][:, None] * came[0]
        elif isinstance(step, Product | Sum):
            by = relaxed.gates.get(value, (None, None))
            for one, factor in zip(came, by, strict=True):
                if one is not None:
                    part = one if factor is None else factor[:, None] * one
                    out = part if out is None else out + part
        if value == place[0]:
            own = torch.zeros_like(relaxed.errors[value])
            own[:, place[1]] = signs * relaxed.errors[value][:, place[1]]
            out = own[:, None].expand(-1, ends, -1) if out is None else out + own[:, None]
        made.append(out)
    return made[number]


@given(made.seeds())
@checked(4)
def test_errors_below_are_carried_exactly(seed):
    """The spread is the sum of absolute numbers that each error adds, carried forwards one by one; the length is above
    that of all their signs."""
    generator = np.random.default_rng(seed)
    width = int(generator.integers(1, 4))
    chain = Chain(tails.steps_of(generator, width))
    relaxed, all_ends = any_relaxed(generator, chain, width)
    number = len(chain.steps)
    ends = all_ends[number]
    below = ErrorsBelow(chain, relaxed, number, ends)
    size = len(chain.steps[-1].bias)
    rows = drawn(generator, 2, size)
    by_place = []
    for value, errors in relaxed.errors.items():
        for place in range(errors.shape[1]):
            added = carried(chain, relaxed, number, (value, place), ends, 1.0)
            if added is not None:
                by_place.append(added)
    if not by_place:
        return
    by_place = torch.stack(by_place)  # (P, N, E, D)
    expected = (by_place @ rows.T).abs().sum(0)  # (N, E, R)
    shapes = {
        "all": (rows, None),
        "named": (rows, ("rows",)),
        "again": (rows, ("rows",)),
        "each": (rows.expand(2, -1, -1), None),
        "each at every end": (rows.expand(2, ends, -1, -1), None),
    }
    for of_rows, key in shapes.values():
        found = below.spread(of_rows, key).expand(2, ends, -1)
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9 * (1 + float(by_place.abs().max())))
        assert bool((found >= expected * (1 - 1e-15)).all())
    lengths = below.length(rows, ("rows",)).expand(2, ends)
    at_signs = []
    for _ in range(200):
        signs = torch.from_numpy(generator.choice([-1.0, 1.0], (len(by_place), 1, 1, 1)))
        at_signs.append(((signs * by_place).sum(0) @ rows.T).norm(dim=-1))
    at_signs.append((by_place @ rows.T).norm(dim=-1).amax(0))
    assert bool((torch.stack(at_signs).amax(0) <= lengths).all())
    assert bool((lengths <= 1e3 * expected.norm(dim=-1) + 1e-9).all())
