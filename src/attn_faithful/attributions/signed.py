"""Signed importance, positive where an item speaks for the target, whatever the setting `sign` says.

A ranking that is to be shown, or that items are deleted by, must tell what speaks for the decision from what speaks
against it; a comparison with attention, which has no sign, is one of magnitudes.
"""

from __future__ import annotations

from dataclasses import replace

from attn_faithful.attributions.base import SOURCES, Attribution, Request
from attn_faithful.attributions.gradients import input_x_gradient, integrated_gradients
from attn_faithful.attributions.occlusion import leave_one_out

_WITHOUT_SIGN = ("l1", "l2")  # reductions that are lengths


@SOURCES.register("signed_input_x_gradient")
def signed_input_x_gradient(request: Request) -> Attribution:
    """Gradient times embedding, summed with its sign: what the item adds to the outcome, to first order.

    Reference:
        Simonyan et al. (2014), section 3; the sum with its sign of what Jain and Wallace (2019) take the magnitude of.
    """
    return input_x_gradient(with_sign(request))


@SOURCES.register("signed_integrated_gradients")
def signed_integrated_gradients(request: Request) -> Attribution:
    """Integrated gradients with their sign; those of a text add up to the change of the outcome from the baseline.

    Reference:
        Sundararajan et al. (2017), section 3.
    """
    return integrated_gradients(with_sign(request))


@SOURCES.register("signed_leave_one_out")
def signed_leave_one_out(request: Request) -> Attribution:
    """The target's outcome with the item minus without it.

    Reference:
        Li et al. (2016), section 3.
    """
    return leave_one_out(with_sign(request))


def with_sign(request: Request) -> Request:
    """The same request, of importance with a sign; lengths of gradients become sums."""
    settings = replace(request.settings, sign="signed")
    if settings.reduction in _WITHOUT_SIGN:
        settings = replace(settings, reduction="sum")
    return replace(request, settings=settings)
