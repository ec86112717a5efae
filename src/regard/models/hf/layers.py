"""The layers of pre-trained models, from the top down, as they are unfrozen (Howard & Ruder 2018)."""

from collections.abc import Iterable, Sequence

from torch import nn

__all__ = ["layers_from_the_top"]


def layers_from_the_top(
    root: nn.Module, parts: Sequence[nn.Module], new: Iterable[str] = ()
) -> tuple[tuple[str, ...], ...]:
    """The names of pre-trained parameters, a layer in each group.

    The first group is the highest layer of the first part, with all that belongs to no layer; the last one
    holds the embeddings, which all layers stand on.

    Args:
        root: What the names are of.
        parts: Stacks of layers, the one nearest to the output first (decoder, encoder).
        new: Starts of the names of parameters that are not pre-trained.
    """
    names = {id(value): name for name, value in root.named_parameters()}
    skipped = tuple(new)
    names = {key: name for key, name in names.items() if not (skipped and name.startswith(skipped))}
    found: list[tuple[str, ...]] = []
    for part in parts:
        for layer in reversed(_stack(part)):
            found.append(tuple(names.pop(id(p)) for p in layer.parameters() if id(p) in names))
    embeddings = [m for part in parts for m in part.modules() if isinstance(m, nn.Embedding)]
    last = tuple(names.pop(id(m.weight)) for m in embeddings if id(m.weight) in names)
    if found:
        found[0] = (*names.values(), *found[0])
    return tuple(group for group in (*found, last) if group)


def _stack(part: nn.Module) -> list[nn.Module]:
    """The layers of a part: of its lists of modules the one with the most parameters."""
    lists = [module for module in part.modules() if isinstance(module, nn.ModuleList)]
    return list(max(lists, key=lambda one: sum(p.numel() for p in one.parameters()), default=nn.ModuleList()))
