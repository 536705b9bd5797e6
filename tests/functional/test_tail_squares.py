"""Squares that errors of curved units are: bounds of them against points, parabolas against their curves."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given

from attn_faithful._checks import InputError
from attn_faithful.functional.activations import CURVES
from attn_faithful.functional.tail import Activation, Linear, Product, Sum, last_value
from attn_faithful.functional.tail_bounds import lowest_leads
from attn_faithful.functional.tail_errors import Chain
from attn_faithful.functional.tail_forms import Form, Sets
from attn_faithful.functional.tail_lines import Lines, Parabola
from attn_faithful.functional.tail_squares import Squares, least_with_squares
from tests.properties import made, tails
from tests.properties.made import checked
from tests.properties.tails import drawn

SMOOTH = [name for name in CURVES if CURVES[name].bend is not None]


@given(made.seeds())
@checked(5)
def test_a_curve_lies_between_its_parabolas(seed):
    generator = np.random.default_rng(seed)
    centre = torch.from_numpy(generator.normal(size=(1, 40)) * 10 ** generator.uniform(-1, 1))
    half = torch.from_numpy(10 ** generator.uniform(-6, 1.5, (1, 40)))
    low, high = centre - half, centre + half
    for name in SMOOTH:
        curve = CURVES[name]
        lines = Lines.around(curve, low, high)
        parabola = Parabola.around(curve, lines, low, high)
        x = low + torch.from_numpy(generator.random((200, 1))) * (high - low)
        square = parabola.bend * (x - parabola.centre).square()
        off = curve.value(x) - (lines.slope * x + lines.middle + square + parabola.shift)
        assert bool((off.abs() <= parabola.error).all()), name


def test_parabolas_are_nearer_than_lines_where_a_curve_bends_one_way():
    low, high = torch.tensor([[-0.5]]).double(), torch.tensor([[0.7]]).double()
    lines = Lines.around(CURVES["gelu"], low, high)
    parabola = Parabola.around(CURVES["gelu"], lines, low, high)
    assert float(parabola.error) < 0.1 * float(lines.error)


def test_a_curve_with_a_kink_has_no_parabola():
    low, high = torch.tensor([[-1.0]]).double(), torch.tensor([[1.0]]).double()
    lines = Lines.around(CURVES["relu"], low, high)
    with pytest.raises(InputError, match="smooth"):
        Parabola.around(CURVES["relu"], lines, low, high)


def problem(generator, ends):
    """A linear form, and squares of another: at one scale, or at the ends of its interval."""
    groups, vertices, width = (int(size) for size in generator.integers(1, 4, 3))
    low = generator.uniform(0.5, 2)
    scale = torch.tensor([[low, low * generator.uniform(1, 3)]]).double()[:, :ends]
    constant = drawn(generator, 1, 1, width)
    slopes = 10 ** generator.uniform(-1, 1) * drawn(generator, 1, 1, groups, vertices, width)
    x = Form(drawn(generator, 1, 1, width), scale, constant, slopes, 0.0)
    rows = drawn(generator, 1, 2, width)
    weights = drawn(generator, 1, 1, 2, width) * generator.choice([0.1, 1, 10])
    factor = torch.full((1, ends), generator.uniform(0.1, 2)).double()
    return x.along(rows), Squares(x, drawn(generator, 1, width), weights, factor, 0.0)


def at_points(form, shares, share_of_end):
    """Values (K, D) of a form at shares (K, F, V) and between its ends."""
    whole = form.whole()
    slopes = torch.einsum("kfv,efvd->ked", shares, whole.slopes[0])
    at_ends = whole.constant[0] + slopes  # (K, E, D)
    if form.ends == 1:
        return at_ends[:, 0]
    return torch.lerp(at_ends[:, 0], at_ends[:, 1], share_of_end[:, None])


@pytest.mark.parametrize("ends", [1, 2])
@given(made.seeds())
@checked(3)
def test_no_point_is_below_a_bound_with_squares(ends, seed):
    generator = np.random.default_rng(seed)
    linear, squares = problem(generator, ends)
    groups, vertices = squares.form.slopes.shape[2:4]
    concentration = 10 ** generator.uniform(-2, 0.5)
    shares = torch.from_numpy(generator.dirichlet([concentration] * vertices, (3000, groups)))
    end = torch.from_numpy(generator.random(3000))
    at = at_points(linear, shares, end)  # (K, R)
    away = at_points(squares.form, shares, end) - squares.centre  # (K, D)
    values = at + squares.factor[0, 0] * (away.square() @ squares.weights[0, 0].T)
    bound = least_with_squares(linear, [squares]).amin(1)[0]  # (R,)
    assert bool((values.amin(0) >= bound).all())


def test_squares_of_one_group_of_two_are_exact_at_their_ends():
    """w (a + p d)^2 with w < 0 is concave in p, so that its least value is at a vertex."""
    x = Form.of(Sets(torch.tensor([[0.3]]).double(), torch.tensor([[[[-1.0], [2.0]]]]).double()))
    one = torch.ones(1, 1).double()
    squares = Squares(x, torch.zeros(1, 1).double(), -one[:, :, None, None], one, 0.0)
    linear = x.along(one[:, :, None])
    least = least_with_squares(linear, [squares])
    assert float(least) == pytest.approx(min(-0.7 - 0.49, 2.3 - 5.29))


def test_a_scale_between_its_ends_is_not_forgotten():
    """``(s - 2)^2`` for s from 1 to 3 is 1 at both ends and 0 between."""
    x = Form(
        torch.zeros(1, 1, 1).double(),
        torch.tensor([[1.0, 3.0]]).double(),
        torch.ones(1, 1, 1).double(),
        torch.zeros(1, 1, 1, 1, 1).double(),
        0.0,
    )
    weights = torch.ones(1, 1, 1, 1).double()
    squares = Squares(x, torch.full((1, 1), 2.0).double(), weights, torch.ones(1, 2).double(), 0.0)
    nothing = x.along(torch.zeros(1, 1, 1).double())
    least = least_with_squares(nothing, [squares]).amin()
    assert -1e-6 < float(least) <= 0


def units(generator, hidden):
    """Many curved units with weights of both signs, and one text's set."""
    width = 6
    steps = (
        Linear(0, drawn(generator, hidden, width), 0.3 * drawn(generator, hidden)),
        Activation(1, "gelu"),
        Linear(2, drawn(generator, 2, hidden) / hidden**0.5, torch.zeros(2).double()),
    )
    sets = Sets(drawn(generator, 1, width), 0.1 * drawn(generator, 1, 3, 4, width))
    return steps, sets


def test_curved_units_of_a_residual_around_a_norm_are_bounded_soundly():
    """A sum of a vector and its norm has no one scale: its squares would be those at one end alone."""
    margins = torch.tensor([[[1.0, -1.0]]]).double()
    for seed in range(200):
        generator = np.random.default_rng(seed)
        width = int(generator.integers(1, 4))
        vertices = int(generator.integers(2, 4))
        steps = (
            tails.norm(generator, 0, width, 1e-2, bool(generator.integers(2))),
            Sum(0, 1),
            tails.linear(generator, 2, 6, width, 1.0),
            Activation(3, "gelu"),
            tails.linear(generator, 4, 2, 6, 1.0),
        )
        spread = 10 ** generator.uniform(-1, 0.5)
        sets = Sets(drawn(generator, 1, width), spread * drawn(generator, 1, 1, vertices, width))
        shares = torch.from_numpy(generator.dirichlet([0.5] * vertices, 2000))
        logits = last_value(steps, sets.centre + shares @ sets.vertices[0, 0])
        found = float((logits[:, 0] - logits[:, 1]).min())
        assert float(lowest_leads(sets, Chain(steps), margins)) <= found


def test_squares_bring_bounds_nearer_to_what_is_there(monkeypatch):
    """Of 400 units: without squares the bound is half as far again from the least lead at the vertices."""
    margins = torch.tensor([[[1.0, -1.0]]]).double()
    gains = []
    for seed in range(5):
        generator = np.random.default_rng(seed)
        steps, sets = units(generator, 400)
        vertices = [sets.vertices[0, group] for group in range(3)]
        corners = [sets.centre[0] + sum(corner) for corner in itertools.product(*vertices)]
        logits = last_value(steps, torch.stack(corners))
        found = float((logits[:, 0] - logits[:, 1]).min())
        with_squares = float(lowest_leads(sets, Chain(steps), margins))
        with monkeypatch.context() as patch:
            patch.setattr(Squares, "fits", staticmethod(lambda form: False))
            without = float(lowest_leads(sets, Chain(steps), margins))
        assert without < with_squares <= found
        gains.append((found - without) / (found - with_squares))
    assert np.median(gains) > 1.5


def test_sets_of_many_vertices_are_bounded_without_squares():
    generator = np.random.default_rng(0)
    few = Form.of(Sets(drawn(generator, 1, 2), drawn(generator, 1, 8, 100, 2)))
    many = Form.of(Sets(drawn(generator, 1, 2), drawn(generator, 1, 8, 101, 2)))
    assert Squares.fits(few)
    assert not Squares.fits(many)


def tails_of_curves(generator, width):
    """Tails in which curved units stand below norms, above them, beside them and behind one another."""
    hidden = int(generator.integers(2, 8))

    def linear(of, out, into):
        return tails.linear(generator, of, out, into, 10 ** generator.uniform(-0.5, 0.5))

    def norm(of):
        return tails.norm(generator, of, width, 10 ** generator.uniform(-5, 0), bool(generator.integers(2)))

    def curve(of):
        return Activation(of, str(generator.choice(list(CURVES))))

    block = (norm(0), linear(1, hidden, width), curve(2), linear(3, width, hidden))
    after_norm = (*block, Sum(1, 4), norm(5), linear(6, width, width), curve(7), linear(8, 3, width))
    before_norm = (*block, Sum(0, 4), norm(5), linear(6, 3, width))
    unscaled = (linear(0, hidden, width), curve(1), linear(2, width, hidden), norm(3), linear(4, 3, width))
    in_a_row = (curve(0), Sum(0, 1), curve(2), Sum(1, 3), linear(4, 3, width))
    on_a_norm = (norm(0), curve(1), Sum(1, 2), norm(3), linear(4, 3, width))
    gate = (
        *block[:3],
        linear(1, hidden, width),
        Product(3, 4),
        linear(5, width, hidden),
        Sum(0, 6),
        linear(7, 3, width),
    )
    return after_norm, before_norm, unscaled, in_a_row, on_a_norm, gate


@given(made.seeds())
@checked(3)
def test_no_point_is_below_a_bound_wherever_curves_stand(seed):
    generator = np.random.default_rng(seed)
    width, groups, vertices = (int(size) for size in generator.integers(1, 4, 3))
    spread = 10 ** generator.uniform(-1.5, 0.7)
    sets = Sets(3 * drawn(generator, 1, width), spread * drawn(generator, 1, groups, vertices, width))
    shares = torch.from_numpy(generator.dirichlet([0.3] * vertices, (2000, groups)))
    vectors = sets.centre + torch.einsum("kfv,fvd->kd", shares, sets.vertices[0])
    margins = drawn(generator, 1, 2, 3)
    for steps in tails_of_curves(generator, width):
        found = (last_value(steps, vectors) @ margins[0].T).amin(0)
        bounds = lowest_leads(sets, Chain(steps), margins, int(generator.integers(1, 4)))[0]
        assert bool((bounds <= found).all()), [type(step).__name__ for step in steps]
