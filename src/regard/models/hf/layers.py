"""The layers of pre-trained models, from top to bottom, for gradual unfreezing (Howard & Ruder, 2018)."""

from collections.abc import Iterable, Sequence

from torch import nn

__all__ = ["layer_groups"]


def layer_groups(
    root: nn.Module, parts: Sequence[nn.Module], new: Iterable[str] = ()
) -> tuple[tuple[str, ...], ...]:
    """Return the names of the pre-trained parameters, grouped by layer.

    The first group is the top layer of the first part, together with all parameters outside the layers. The
    last group contains the embeddings, which all layers depend on.

    Args:
        root: The module that the names are relative to.
        parts: Stacks of layers, starting with the one nearest to the output (decoder, encoder).
        new: Name prefixes of the parameters that are not pre-trained.
    """
    # By identity, since a tied parameter belongs to several modules.
    names = {id(value): name for name, value in root.named_parameters()}
    skipped = tuple(new)
    names = {key: name for key, name in names.items() if not (skipped and name.startswith(skipped))}
    groups: list[tuple[str, ...]] = []
    for part in parts:
        for layer in reversed(_stack(part)):
            groups.append(tuple(names.pop(id(p)) for p in layer.parameters() if id(p) in names))
    embeddings = [m for part in parts for m in part.modules() if isinstance(m, nn.Embedding)]
    # After the layers, so that tables inside a layer (relative positions) stay with it.
    last = tuple(names.pop(id(m.weight)) for m in embeddings if id(m.weight) in names)
    if groups:
        groups[0] = (*names.values(), *groups[0])
    return tuple(group for group in (*groups, last) if group)


def _stack(part: nn.Module) -> list[nn.Module]:
    """Return the layers of a part: its module list with the largest number of parameters."""
    lists = [module for module in part.modules() if isinstance(module, nn.ModuleList)]
    return list(max(lists, key=lambda one: sum(p.numel() for p in one.parameters()), default=nn.ModuleList()))
