"""An LSTM each of whose states is orthogonal to the mean of the earlier ones (Mohankumar et al. 2020, section 4.1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class OrthogonalLSTM(nn.RNNBase):
    """One layer, one direction: after each step of an LSTM ``h_t -= (h_t . m) m / (m . m)``.

    Here m is the mean of the earlier states. The changed state is what the next step reads and what is given. The first
    state stays as it is, and so does one whose m is 0. The weights are those of `torch.nn.LSTM`, by the same names.

    Args:
        input_size: E, width of what is read.
        hidden_size: n, of the states.
        batch_first: always True, as the encoders lay texts out.

    Reference:
        Mohankumar et al. (2020), Towards Transparent and Explainable Attention Models, section 4.1.

    Example:
        >>> states, _ = OrthogonalLSTM(3, 4)(torch.randn(1, 2, 3))
        >>> bool((states[0, 0] @ states[0, 1]).abs() < 1e-6)
        True
    """

    def __init__(self, input_size: int, hidden_size: int, batch_first: bool = True) -> None:
        super().__init__("LSTM", input_size, hidden_size, batch_first=batch_first)

    def forward(self, embedded: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """States (B, T, n) of texts that begin together, (B, T, E), and the last state and memory, (B, n) each."""
        bias = self.bias_ih_l0 + self.bias_hh_l0
        # one product for all steps; unbound at once, as each slice by itself would have a gradient of the full size
        inputs = F.linear(embedded, _laid_out(self.weight_ih_l0), _laid_out(bias))  # (B, T, 4n)
        recurrent = _laid_out(self.weight_hh_l0).T  # (n, 4n)
        hidden = inputs.new_zeros(len(inputs), self.hidden_size)  # (B, n)
        memory = hidden
        total = hidden  # of the earlier states: it points where their mean does
        states = []
        for of_step in inputs.unbind(1):
            gates = torch.addmm(of_step, hidden, recurrent)  # (B, 4n)
            enter, forget, leave = gates[:, : -self.hidden_size].sigmoid().chunk(3, dim=1)  # (B, n) each
            candidate = gates[:, -self.hidden_size :].tanh()  # (B, n)
            memory = torch.addcmul(forget * memory, enter, candidate)
            hidden = without_part_along(total, leave * memory.tanh())
            total = total + hidden
            states.append(hidden)
        return torch.stack(states, dim=1), (hidden, memory)


def without_part_along(direction: Tensor, states: Tensor) -> Tensor:
    """The states (B, n) less what lies along a direction (B, n) each; as they are where the direction is 0.

    Example:
        >>> without_part_along(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([[3.0, 4.0], [3.0, 4.0]]))
        tensor([[0., 4.],
                [3., 4.]])
    """
    along = (states * direction).sum(1, keepdim=True)  # (B, 1)
    square = direction.square().sum(1, keepdim=True)  # (B, 1)
    share = along / square.masked_fill(square == 0, 1)
    return torch.addcmul(states, share, direction, value=-1)


def _laid_out(weight: Tensor) -> Tensor:
    """The gates' rows of torch's LSTM with the candidate's last, so that one sigmoid does for the three others."""
    enter, forget, candidate, leave = weight.chunk(4)
    return torch.cat([enter, forget, leave, candidate])
