"""The base class of decoder states: frozen dataclasses of tensors whose first axis is the batch.

Rows are selected lazily. Search reorders the whole decoder state after every step, although most mechanisms
read only a part of it, and gives every hypothesis the memory of its sentence.
"""

import dataclasses
from functools import cache
from typing import Any, TypeVar

import torch

from regard.types import Int, Tensor

_R = TypeVar("_R", bound="BatchedState")


def select_rows(value: Any, index: Int[Tensor, "N"]) -> Any:
    """Select rows of a tensor, a `BatchedState` or each item of a tuple; keep other values."""
    if isinstance(value, Tensor):
        return value.index_select(0, index)
    if isinstance(value, BatchedState):
        return value.select(index)
    if isinstance(value, tuple):
        return tuple(select_rows(item, index) for item in value)
    return value


class BatchedState:
    """Base class of the frozen dataclasses whose rows search repeats, reorders and removes."""

    def select(self: _R, index: Int[Tensor, "N"]) -> _R:
        """Select the rows `index` of every tensor; rows may be repeated, reordered or omitted.

        Without gradients, a tensor is only copied when it is first read.

        Args:
            index: Row indices, each in [0, B). The tensor must not be modified afterward.
        """
        # Select at once, as the gradient mode may be another at the first access.
        if torch.is_grad_enabled():
            this: Any = self  # a dataclass
            names = [field.name for field in dataclasses.fields(this)]
            return dataclasses.replace(
                this, **{name: select_rows(getattr(this, name), index) for name in names}
            )
        base, rows = self.base_and_index()
        # A subclass with lazy fields replaces the class, and the fields stay unset until they are read. A
        # repeated selection composes the indices, so that there is one copy at most.
        selected = object.__new__(_lazy_class(type(base)))
        vars(selected).update({_BASE: base, _INDEX: index if rows is None else rows.index_select(0, index)})
        return selected

    def base_and_index(self: _R) -> tuple[_R, Int[Tensor, "B"] | None]:
        """Return the object these rows were selected from and their indices, or `self` and None."""
        return vars(self).get(_BASE, self), vars(self).get(_INDEX)


_BASE, _INDEX = "_whole", "_index"


@cache
def _lazy_class(kind: Any) -> Any:
    """Return the subclass of `kind` whose fields are selected lazily; `kind` itself if it is lazy already."""
    if any(isinstance(part, _LazyField) for part in vars(kind).values()):
        return kind
    return type(
        kind.__name__, (kind,), {field.name: _LazyField(field.name) for field in dataclasses.fields(kind)}
    )


@dataclasses.dataclass(frozen=True)
class _LazyField:
    """A lazily selected field: its first access stores the selected tensor as an instance attribute."""

    name: str

    def __get__(self, selected: Any, kind: Any = None) -> Any:
        if selected is None:
            return self
        base, index = selected.base_and_index()
        assert index is not None
        rows = vars(selected)[self.name] = select_rows(getattr(base, self.name), index)
        return rows
