"""Linear layers, convolutions, products of each time step, and the dtype of matrix multiplications.

Parameters keep the dtype they are stored in. Matrix multiplications are computed in autocast's dtype if
autocast is enabled. Layers cast explicitly with these functions, because autocast leaves recurrent cells in
float32.

`StepLinear` has one weight-gradient multiplication for all time steps. Plain autograd computes one weight
gradient per step and adds it to the accumulated gradient. For a decoder of T steps, these are T small
multiplications and T passes over a matrix of millions of elements. Here, the backward pass of each step
stores its input and its output gradient. After the last of them, one multiplication gives

    dW = sum_t x_t^T g_t = X^T G.

Values and gradients are those of autograd (tests compare them in float64).

`WeightNormLinear` stores the weight w of an output as a direction v and a length g, Salimans & Kingma (2016),
Eq. 2: w = g v / |v|. A convolution with kernel size k applies such a layer to each window of k concatenated
tokens (`concatenate_windows`). `prepare` computes w once for a forward pass or a search.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.kernels.backend import apply, first_order
from regard.kernels.matmul import linear, matmul
from regard.layers.batched_state import BatchedState
from regard.types import Float, Int, Tensor


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of matrix multiplications with `tensor`: autocast's if enabled, otherwise its own."""
    device = tensor.device.type
    if tensor.dtype.is_floating_point and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype


def to_compute(tensor: Tensor) -> Tensor:
    """Cast `tensor` to its compute dtype; returns `tensor` itself if it has that dtype."""
    return tensor.to(compute_dtype(tensor))


class Linear(nn.Module):
    """x W + b, with W initialized by Xavier uniform (Glorot & Bengio, 2010) and b zero.

    Args:
        in_features: Width of x.
        out_features: Width of the result.
        num_parts: Number of layers of equal width whose results are concatenated; each is initialized
            separately.
        bias: Whether there is a bias b.
    """

    def __init__(self, in_features: int, out_features: int, num_parts: int = 1, bias: bool = True) -> None:
        """Create the parameters."""
        super().__init__()
        # The bound of Xavier's initialization depends on the output width, here that of one part.
        parts = [
            nn.init.xavier_uniform_(torch.empty(in_features, out_features // num_parts))
            for _ in range(num_parts)
        ]
        self.weight = nn.Parameter(torch.cat(parts, dim=1))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Apply the layer, in the compute dtype."""
        weight, bias = self.weight, self.bias
        dtype = compute_dtype(weight)
        # Calls of `to` that change nothing would still take a measurable share of the time in search.
        if not x.dtype == weight.dtype == dtype or (bias is not None and bias.dtype != dtype):
            x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        return linear(x, weight, bias)


PendingGrads = list[tuple[Tensor, Tensor]]


class _PreparedWeight(torch.autograd.Function):
    """The identity with a cast; its backward runs after the backward of every step that used its output."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, pending_grads: PendingGrads, dtype: torch.dtype) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.pending_grads = pending_grads
        ctx.dtype = matrix.dtype
        return matrix.to(dtype) if matrix.dtype != dtype else matrix.view_as(matrix)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None]:
        # `grads` contains the gradient of uses other than `_StepMatmul`; `pending_grads` has the rest.
        total = grads[0]
        if ctx.pending_grads:
            inputs = torch.cat([x for x, _ in ctx.pending_grads], dim=-2)
            outputs = torch.cat([g for _, g in ctx.pending_grads], dim=-2)
            ctx.pending_grads.clear()
            weight_grad = matmul(inputs.transpose(-1, -2), outputs)  # (…, in, out)
            total = weight_grad if total is None else total + weight_grad
        return (None if total is None else total.to(ctx.dtype)), None, None


class _StepMatmul(torch.autograd.Function):
    """x @ matrix, whose backward leaves the gradient of the matrix to `_PreparedWeight`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, pending_grads: PendingGrads) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.pending_grads = pending_grads
        return matmul(x, matrix)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None]:
        x, matrix = ctx.saved_tensors
        (grad,) = grads
        # No gradient for the matrix here: `_PreparedWeight` computes it from `pending_grads`.
        ctx.pending_grads.append((x, grad))
        return (matmul(grad, matrix.transpose(-1, -2)) if ctx.needs_input_grad[0] else None), None, None


@dataclass(frozen=True)
class StepLinear(BatchedState):
    """`x @ weight`, applied once per time step.

    Attributes:
        weight: [in, out], shared by all rows (a weight), or [B, in, out], one matrix per row (the keys of a
            sentence).
        pending_grads: Inputs and output gradients of the steps whose weight gradient is pending. None outside
            training.
    """

    weight: Tensor
    pending_grads: PendingGrads | None = field(default=None, compare=False)

    @classmethod
    def prepare(cls, matrix: Tensor) -> "StepLinear":
        """Prepare a matrix for the steps of one forward pass, in its compute dtype.

        Args:
            matrix: [in, out] or [B, in, out].
        """
        dtype = compute_dtype(matrix)
        if not (torch.is_grad_enabled() and matrix.requires_grad):
            return cls(matrix.to(dtype))
        pending_grads: PendingGrads = []
        return cls(apply(_PreparedWeight, matrix, pending_grads, dtype), pending_grads)

    def __call__(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Multiply the input of one step, or of several steps at once, by the matrix.

        Args:
            x: [..., in] for a matrix shared by all rows; [B, steps, in] for one matrix per row.
        """
        x = x.to(self.weight.dtype)
        if self.pending_grads is None:
            return matmul(x, self.weight) if not torch.is_grad_enabled() else x @ self.weight
        if x.dim() > self.weight.dim():
            flat = apply(_StepMatmul, x.flatten(0, -2), self.weight, self.pending_grads)
            return flat.unflatten(0, x.shape[:-1])  # type: ignore[union-attr]
        return apply(_StepMatmul, x, self.weight, self.pending_grads)

    def select(self, index: Int[Tensor, "N"]) -> "StepLinear":
        """Select the matrices of the rows; a matrix shared by all rows is unchanged."""
        return type(self)(self.weight.index_select(0, index)) if self.weight.dim() == 3 else self


@dataclass(frozen=True)
class PreparedLinear:
    """x w + b, with the weight w computed.

    Attributes:
        weight: [in, out], in the compute dtype.
        bias: [out], in the compute dtype, or None.
    """

    weight: Float[Tensor, "I O"]
    bias: Float[Tensor, "O"] | None

    def __call__(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Apply the layer, in the compute dtype."""
        return linear(x.to(self.weight.dtype), self.weight, self.bias)


class WeightNormLinear(nn.Module):
    """x w + b with w = g v / |v| for each output.

    Initially v is sampled from N(0, gain / inputs), g is the length of v and b is zero.

    Args:
        in_features: Width of x.
        out_features: Width of the result.
        gain: Ratio of the variance of the result to the variance of x, after initialization.
        bias: Whether there is a bias b.
    """

    def __init__(self, in_features: int, out_features: int, gain: float = 1.0, bias: bool = True) -> None:
        """Initialize the parameters."""
        super().__init__()
        self.weight_v = nn.Parameter(
            nn.init.normal_(torch.empty(in_features, out_features), 0, (gain / in_features) ** 0.5)
        )
        self.weight_g = nn.Parameter(self.weight_v.detach().norm(dim=0))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    @property
    def weight(self) -> Float[Tensor, "I O"]:
        """The weight w, in the dtype of v."""
        return self.weight_v * (self.weight_g / self.weight_v.norm(dim=0))

    def prepare(self) -> PreparedLinear:
        """Compute w, for all matrix multiplications of a forward pass or a search."""
        weight = to_compute(self.weight)
        return PreparedLinear(weight, None if self.bias is None else self.bias.to(weight.dtype))

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Apply the layer, in the compute dtype."""
        return self.prepare()(x)


def concatenate_windows(x: Float[Tensor, "B T D"], before: int, after: int) -> Float[Tensor, "B T W"]:
    """Concatenate each token with its neighbors, from left to right; positions outside are zeros.

    Args:
        x: The token representations.
        before: Number of neighbors on the left.
        after: Number of neighbors on the right.
    """
    padded = nn.functional.pad(x, (0, 0, before, after))
    return torch.cat([padded[:, i : i + x.shape[1]] for i in range(before + after + 1)], dim=-1)
