"""What changes from step to step: frozen dataclasses of tensors whose first axis is the batch.

Rows are selected when they are read. Search reorders all that a decoder keeps after every step, though most
mechanisms read little of it, and gives every hypothesis the memory of its sentence.
"""

import dataclasses
from functools import cache, cached_property
from typing import Any, TypeVar

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

        A tensor is copied when it is first read, if ever.

        Args:
            index: Row numbers, each in [0, B).
        """
        if not dataclasses.is_dataclass(self):
            raise TypeError(f"{type(self).__name__} is not a dataclass")
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
    return type(kind.__name__, (kind,), {field.name: _Part() for field in dataclasses.fields(kind)})


class _Part(cached_property[Any]):
    """A field of selected rows."""

    def __init__(self) -> None:
        super().__init__(self._select)

    def _select(self, selected: Rows) -> Any:
        whole, index = selected.shared()
        assert index is not None and self.attrname is not None
        return select_rows(getattr(whole, self.attrname), index)
