"""Perturbed embeddings: against loops, by gradcheck, and what stays where it is."""

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.perturbation import perturbed_embeddings
from tests.reference import stability as reference

EXACT = 1e-10


def texts(seed=0):
    """Embeddings and directions (4, 5, 3) of texts of no token, one, three and five."""
    generator = torch.Generator().manual_seed(seed)
    embedded = torch.randn(4, 5, 3, generator=generator, dtype=torch.float64)
    directions = torch.randn(4, 5, 3, generator=generator, dtype=torch.float64)
    moved = torch.zeros(4, 5, dtype=torch.bool)
    moved[1, 2] = True
    moved[2, [0, 1, 4]] = True
    moved[3] = True
    return embedded, directions, moved


@pytest.mark.parametrize("radius", [0.0, 0.3, 2.0])
def test_against_the_loop(radius):
    embedded, directions, moved = texts()
    directions[3, 1] = 0
    found = perturbed_embeddings(embedded, directions, moved, radius)
    for row, kept in enumerate(moved):
        expected = reference.perturbed_embeddings(embedded[row][kept].numpy(), directions[row][kept].numpy(), radius)
        torch.testing.assert_close(found[row][kept], torch.from_numpy(expected), atol=EXACT, rtol=0)
        torch.testing.assert_close(found[row][~kept], embedded[row][~kept], atol=0, rtol=0)


def test_all_move_by_one_length_whatever_their_own():
    embedded, directions, moved = texts(1)
    embedded[3] *= torch.tensor([0.0, 1.0, 10.0, 100.0, 0.1])[:, None]
    change = (perturbed_embeddings(embedded, 7 * directions, moved, 0.5) - embedded).norm(dim=-1)
    expected = 0.5 * embedded[3].norm(dim=-1).mean()
    torch.testing.assert_close(change[3], expected.expand(5), atol=EXACT, rtol=0)
    assert not change[~moved].any()


def test_gradients():
    embedded, directions, moved = texts(2)
    embedded.requires_grad_()
    assert torch.autograd.gradcheck(lambda e: perturbed_embeddings(e, directions, moved, 0.5), embedded)
    zero = torch.zeros(1, 2, 3, dtype=torch.float64, requires_grad=True)
    perturbed_embeddings(zero, directions[:1, :2], torch.ones(1, 2, dtype=torch.bool), 0.5).sum().backward()
    assert zero.grad.isfinite().all()


def test_padding_does_not_count_whatever_it_is():
    embedded, directions, moved = texts(3)
    before = perturbed_embeddings(embedded, directions, moved, 0.5)
    embedded[~moved] = torch.nan
    after = perturbed_embeddings(embedded, directions, moved, 0.5)
    assert torch.equal(before[moved], after[moved])


@pytest.mark.parametrize(
    "call",
    [
        lambda e, d, m: perturbed_embeddings(e, d[:, 1:], m, 1.0),
        lambda e, d, m: perturbed_embeddings(e, d, m.long(), 1.0),
        lambda e, d, m: perturbed_embeddings(e, d, m[:, 1:], 1.0),
        lambda e, d, m: perturbed_embeddings(e, d, m, -0.1),
        lambda e, d, m: perturbed_embeddings(e, d, m, torch.nan),
    ],
)
def test_other_inputs(call):
    with pytest.raises(InputError, match="Expected"):
        call(*texts())
