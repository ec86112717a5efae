"""Position encodings, which are added to the embeddings of the tokens.

sinusoidal  PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(p / 10000^(2i/D))   Vaswani et al. (2017),
            Section 3.5
learned     one row of a table per position, up to the length of the table
"""

import math
from typing import Annotated, Literal

import torch
from torch import nn

from regard.config import TaggedUnion, configclass, option
from regard.types import Float, Tensor

_MIN_CACHED_POSITIONS = 256  # minimum number of positions in a cached table


@configclass
class SinusoidalPositionConfig:
    """Sinusoidal position encoding."""

    kind: Literal["sinusoidal"] = option(default="sinusoidal", help="Sines and cosines, for any length.")


@configclass
class LearnedPositionConfig:
    """Learned position encoding."""

    kind: Literal["learned"] = option(default="learned", help="One learned vector per position.")
    max_length: int = option(
        default=512,
        help="Number of learned positions: maximum number of tokens of a sentence, including the sink or "
        "the end symbol. Longer ones are an error in training and yield an empty line and a warning in "
        "translation.",
        ge=1,
        le=100_000,
    )


PositionEncodingConfig = Annotated[
    SinusoidalPositionConfig | LearnedPositionConfig, TaggedUnion("sinusoidal")
]


class PositionEncoding(nn.Module):
    """The position encoding, sinusoidal or learned.

    Args:
        config: The type of encoding.
        width: D; must be even for sinusoidal encodings.

    Attributes:
        max_length: Number of positions. None if any length is possible.
    """

    def __init__(self, config: PositionEncodingConfig, width: int) -> None:
        """Initialize the learned table from N(0, 1/D); sinusoidal encodings have no parameters."""
        super().__init__()
        self.width = width
        self.max_length = config.max_length if isinstance(config, LearnedPositionConfig) else None
        if self.max_length is None:
            self.register_parameter("table", None)
        else:
            self.table = nn.Parameter(nn.init.normal_(torch.empty(self.max_length, width), 0, width**-0.5))

    def forward(self, start: int, count: int, like: Tensor) -> Float[Tensor, "N D"]:
        """Return the encodings of positions `start` to `start + count - 1`.

        Args:
            start: The first position, from 0.
            count: N.
            like: A tensor with the device and dtype of the result.
        """
        if self.table is not None:
            return self.table[start : start + count].to(like.dtype)
        # Search requests the positions one by one, so whole tables are cached.
        size = max(_MIN_CACHED_POSITIONS, 1 << (start + count).bit_length())
        key = size, self.width, like.dtype, like.device
        table = _tables.get(key)
        if table is None:
            table = _sinusoids(size, self.width, like)
            # Do not cache the proxy tensors that stand in for tensors during graph capture.
            if type(table) is Tensor:
                _tables[key] = table
        return table[start : start + count]


_tables: dict[tuple[int, int, torch.dtype, torch.device], Tensor] = {}


@torch.inference_mode(False)
def _sinusoids(count: int, width: int, like: Tensor) -> Float[Tensor, "N D"]:
    """Compute the sines and cosines of the first `count` positions.

    They are computed on the CPU, because the last digit of a sine differs between devices.
    """
    positions = torch.arange(count, dtype=torch.float32)
    dimensions = torch.arange(0, width, 2, dtype=torch.float32)
    angles = positions.unsqueeze(1) * torch.exp(dimensions * (-math.log(10000.0) / width))  # (N, D / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width].to(like)
