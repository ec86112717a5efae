"""Quantization of rows to int8 in PyTorch operations, and scaling of the integer results."""

import torch

from regard.types import Float, Int, Tensor

INT8_MAX = 127
"""Quantized values range from -127 to 127; -128 is not used, since +128 does not exist."""


def quantize_rows(x: Float[Tensor, "N I"]) -> tuple[Int[Tensor, "N I"], Float[Tensor, "N"]]:
    """Quantize each row; returns the integers and the scales, NaN for rows that are not finite."""
    tops = x.abs().amax(1, keepdim=True)
    values = torch.where(tops > 0, x * (INT8_MAX / tops), 0.0).nan_to_num(0.0, 0.0, 0.0).round()
    scales = torch.where(tops < torch.inf, tops / INT8_MAX, torch.nan)
    return values.to(torch.int8), scales.squeeze(1)


def dequantize(
    sums: Int[Tensor, "N O"],
    row_scales: Float[Tensor, "N"],
    column_scales: Float[Tensor, "O"],
    bias: Float[Tensor, "O"] | None,
) -> Float[Tensor, "N O"]:
    """Convert integer sums to float32, multiply them by both scales, and add the bias."""
    found = sums * row_scales.unsqueeze(1) * column_scales
    return found if bias is None else found + bias
