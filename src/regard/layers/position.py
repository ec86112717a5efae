"""Where a token stands in its sentence, as a vector that is added to its embedding.

sinusoidal  PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(p / 10000^(2i/D))   (Vaswani et al. 2017,
Section 3.5)
learned     a row of a table for each position, up to the last one that the table has
"""

import math
from typing import Annotated, Literal

import torch
from torch import nn

from regard.config import Kinds, config, option
from regard.types import Float, Tensor

__all__ = ["LearnedConfig", "PositionConfig", "Positions", "SinusoidalConfig"]

_ROOM = 256  # positions are made at least where they are kept


@config
class SinusoidalConfig:
    """Sinusoidal positions."""

    kind: Literal["sinusoidal"] = option(default="sinusoidal", help="Sines and cosines, of any length.")


@config
class LearnedConfig:
    """Learned positions."""

    kind: Literal["learned"] = option(default="learned", help="A vector for each position.")
    length: int = option(
        default=512, help="How many there are: no sentence may have more tokens.", ge=1, le=100_000
    )


PositionConfig = Annotated[SinusoidalConfig | LearnedConfig, Kinds("sinusoidal")]


class Positions(nn.Module):
    """The vectors of positions.

    Args:
        config: Which.
        width: D, even where they are sinusoidal.

    Attributes:
        longest: How many positions there are; none: any.
    """

    def __init__(self, config: PositionConfig, width: int) -> None:
        """Draw the table from N(0, 1/D), or make none."""
        super().__init__()
        self.width = width
        self.longest = config.length if isinstance(config, LearnedConfig) else None
        if self.longest is None:
            self.register_parameter("table", None)
        else:
            self.table = nn.Parameter(nn.init.normal_(torch.empty(self.longest, width), 0, width**-0.5))

    def forward(self, start: int, count: int, like: Tensor) -> Float[Tensor, "N D"]:
        """The vectors of positions `start`, `start + 1`...

        Args:
            start: The first one, from 0.
            count: N.
            like: Whose device and dtype they have.
        """
        if self.table is not None:
            return self.table[start : start + count].to(like.dtype)
        if like.device.type != "cpu":
            return _sinusoids(start, count, self.width, like)
        # Search asks for one after the other.
        room = max(_ROOM, 1 << (start + count).bit_length())
        table = _tables.get((room, self.width, like.dtype))
        if table is None:
            table = _sinusoids(0, room, self.width, like)
            if type(table) is Tensor:  # and not what stands for one while a graph is made
                _tables[room, self.width, like.dtype] = table
        return table[start : start + count]


_tables: dict[tuple[int, int, torch.dtype], Tensor] = {}


@torch.inference_mode(False)
def _sinusoids(start: int, count: int, width: int, like: Tensor) -> Float[Tensor, "N D"]:
    """Sines and cosines of positions from `start` on."""
    places = torch.arange(start, start + count, dtype=torch.float32, device=like.device)
    steps = torch.arange(0, width, 2, dtype=torch.float32, device=like.device)
    angles = places.unsqueeze(1) * torch.exp(steps * (-math.log(10000.0) / width))  # (N, D / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width].to(like.dtype)
