"""Counts and the joint initialization of the parameters of modules."""

from torch import nn

from regard.types import Tensor

__all__ = ["initialize_uniform", "matrix_entries"]


def matrix_entries(part: nn.Module | Tensor) -> int:
    """Return the number of matrix entries of a part: the multiply-adds of applying it to one row."""
    if isinstance(part, Tensor):
        return part.numel()
    return sum(p.numel() for p in part.parameters() if p.dim() > 1)


def initialize_uniform(model: nn.Module, limit: float) -> None:
    """Initialize all parameters uniformly from (-limit, limit), including embeddings of padding.

    Parameters that a plugin's class defines itself, such as a temperature, keep their values. These are the
    direct parameters of modules whose class is neither regard's nor PyTorch's.
    """
    own = {
        id(parameter)
        for part in model.modules()
        if type(part).__module__.partition(".")[0] not in ("regard", "torch")
        for parameter in part.parameters(recurse=False)
    }
    for parameter in model.parameters():
        if id(parameter) not in own:
            nn.init.uniform_(parameter, -limit, limit)
