"""What changes from step to step: frozen dataclasses of tensors whose first axis is the batch.

Rows are selected when they are read. Search reorders all that a decoder keeps after every step, though most
mechanisms read little of it, and gives every hypothesis the memory of its sentence.
"""

import dataclasses
from functools import cache
from typing import Any, TypeVar

import torch

from regard.types import Int, Tensor

__all__ = ["Rows", "select_rows"]

R = TypeVar("R", bound="Rows")


def select_rows(value: Any, index: Int[Tensor, "N"]) -> Any:
    """Rows `index` of a tensor, of a `Rows`, or of each item of a tuple; `None` stays `None`."""
    if isinstance(value, Tensor):
        return value.index_select(0, index)
    if isinstance(value, Rows):
        return value.select(index)
    if isinstance(value, tuple):
        return tuple(select_rows(item, index) for item in value)
    return value


class Rows:
    """Base of the frozen dataclasses that search grows, reorders and shrinks."""

    def select(self: R, index: Int[Tensor, "N"]) -> R:
        """The rows `index` of every tensor: they may repeat (a beam grows), be reordered, or be left out.

        Where no gradients are recorded a tensor is copied when it is first read, if ever.

        Args:
            index: Row numbers, each in [0, B), which must not change afterwards.
        """
        if not dataclasses.is_dataclass(self):
            raise TypeError(f"{type(self).__name__} is not a dataclass")
        if torch.is_grad_enabled():
            parts = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
            return dataclasses.replace(
                self, **{name: select_rows(part, index) for name, part in parts.items()}
            )
        whole, rows = self.shared()
        selected = object.__new__(_selected(type(whole)))
        vars(selected).update({_WHOLE: whole, _INDEX: index if rows is None else rows.index_select(0, index)})
        return selected

    def shared(self: R) -> tuple[R, Int[Tensor, "B"] | None]:
        """What these rows were selected from, and which of its rows they are; else itself and none."""
        return vars(self).get(_WHOLE, self), vars(self).get(_INDEX)


_WHOLE, _INDEX = "_whole", "_index"


@cache
def _selected(kind: Any) -> Any:
    """The class of rows selected from some of that class; its own where these were selected once."""
    if any(isinstance(part, _Part) for part in vars(kind).values()):
        return kind
    return type(kind.__name__, (kind,), {field.name: _Part(field.name) for field in dataclasses.fields(kind)})


class _Part:
    """A field of selected rows, which stands among their attributes from its first reading on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, selected: Any, kind: Any = None) -> Any:
        if selected is None:
            return self
        whole, index = selected.shared()
        assert index is not None
        found = vars(selected)[self.name] = select_rows(getattr(whole, self.name), index)
        return found
