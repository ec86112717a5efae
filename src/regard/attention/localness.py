"""Localness: a learned Gaussian bias on the scores of self-attention, Yang et al. (2018), Section 3.

For the query Q_i of position i in a sentence of I tokens, each head adds to its scores

    G_ij = -(j - P_i)^2 / (2 sigma_i^2),   sigma_i = D_i / 2,
    P_i = I sigmoid(u_p . tanh(W Q_i)),    D_i = I sigmoid(u_d . tanh(W Q_i)).

P_i is the center of the attention of position i and D_i its window size. Both are between 0 and I, in
positions counted from 0. W is shared by both and by all heads. In a decoder, I is the number of tokens so
far.
"""

import torch
from torch import nn

from regard.functional.masking import accumulation_dtype
from regard.layers.linear import Linear
from regard.types import Float, Tensor

__all__ = ["Localness"]

MIN_WINDOW = 1e-3
"""Minimum window size in positions. It avoids division by zero and still covers a single position."""


class Localness(nn.Module):
    """The Gaussian bias.

    Args:
        width: Width of the queries of all heads together.
        num_heads: H.
    """

    def __init__(self, width: int, num_heads: int) -> None:
        """Create the parameters W, u_p and u_d."""
        super().__init__()
        self.hidden_proj = Linear(width, width, bias=False)
        self.center_window_proj = Linear(width, 2 * num_heads, num_parts=2, bias=False)

    def forward(
        self, queries: Float[Tensor, "B T D"], lengths: Float[Tensor, "#B #T"], num_positions: int
    ) -> Float[Tensor, "B H T S"]:
        """Compute the bias G, in float32 or better.

        Args:
            queries: Q, with the heads concatenated.
            lengths: I of each query.
            num_positions: S.
        """
        predicted = self.center_window_proj(torch.tanh(self.hidden_proj(queries)))
        predicted = torch.sigmoid(predicted.to(accumulation_dtype(predicted.dtype))) * lengths.unsqueeze(-1)
        center, window = predicted.transpose(1, 2).unsqueeze(-1).chunk(2, dim=1)  # (B, H, T, 1) each
        positions = torch.arange(num_positions, dtype=predicted.dtype, device=predicted.device)
        return -((positions - center) ** 2) / (2 * (window.clamp_min(MIN_WINDOW) / 2) ** 2)
