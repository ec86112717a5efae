"""What changes from step to step: frozen dataclasses of tensors whose first axis is the batch."""

import dataclasses
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

        Args:
            index: Row numbers, each in [0, B).
        """
        if not dataclasses.is_dataclass(self):
            raise TypeError(f"{type(self).__name__} is not a dataclass")
        fields = dataclasses.fields(self)
        return dataclasses.replace(
            self, **{field.name: select_rows(getattr(self, field.name), index) for field in fields}
        )
