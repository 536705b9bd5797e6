"""Sources with a sign are the settings' `sign: signed`, whatever the settings say."""

import pytest
import torch

from attn_faithful.attributions.base import Request, SourceSettings, attribute
from tests.models.examples import small_model


@pytest.fixture(scope="module")
def request_of():
    model = small_model()
    batch = {"input_ids": torch.randint(2, 10, (4, 7), generator=torch.Generator().manual_seed(1))}
    encoded = model.encode(batch)

    def made(**settings):
        return Request(model, batch, encoded, settings=SourceSettings(**settings), token_ids={"pad": 0})

    return made


@pytest.mark.parametrize("name", ["input_x_gradient", "integrated_gradients", "leave_one_out"])
def test_magnitudes_in_the_settings_leave_the_sign(name, request_of):
    signed = attribute(f"signed_{name}", request_of()).values
    assert torch.equal(signed, attribute(name, request_of(sign="signed")).values)
    assert (signed < 0).any()
    assert (signed > 0).any()


def test_lengths_become_sums(request_of):
    signed = attribute("signed_input_x_gradient", request_of(reduction="l2")).values
    assert torch.equal(signed, attribute("input_x_gradient", request_of(sign="signed", reduction="sum")).values)
