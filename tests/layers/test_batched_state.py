"""Tests of lazy row selection against immediate selection."""

import dataclasses
from dataclasses import dataclass

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.layers.batched_state import BatchedState


@dataclass(frozen=True)
class Inner(BatchedState):
    number: torch.Tensor
    name: str = "inner"

    @property
    def double(self) -> torch.Tensor:
        return 2 * self.number


@dataclass(frozen=True)
class Outer(BatchedState):
    first: torch.Tensor
    inner: tuple[Inner, ...]
    absent: torch.Tensor | None = None


def rows(count: int) -> Outer:
    return Outer(torch.arange(count), (Inner(10 * torch.arange(count)), Inner(torch.arange(count), "other")))


@given(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=5), min_size=1, max_size=4))
def test_repeated_selection_equals_repeated_indexing(indices) -> None:
    found, expected = rows(3), torch.arange(3)
    with torch.no_grad():
        for index in map(torch.tensor, indices):
            found, expected = found.select(index), expected[index]
    assert isinstance(found, Outer) and found.absent is None
    assert torch.equal(found.first, expected)
    assert torch.equal(found.inner[0].double, 20 * expected) and found.inner[1].name == "other"
    whole, index = found.base_and_index()
    assert whole.base_and_index() == (whole, None) and index is not None and torch.equal(index, expected)


def test_unread_tensors_are_not_copied() -> None:
    @dataclass(frozen=True)
    class Counting(BatchedState):
        part: torch.Tensor

    with torch.no_grad():
        selected = Counting(torch.arange(3)).select(torch.tensor([2, 0]))
    assert "part" not in vars(selected)
    assert selected.part is selected.part and selected.part.tolist() == [2, 0]


@torch.no_grad()
def test_selected_rows_can_be_replaced_and_selected_again() -> None:
    found = rows(3).select(torch.tensor([2, 2]))
    for _ in range(3):
        found = dataclasses.replace(found, absent=torch.ones(2)).select(torch.tensor([0, 1, 0]))
        assert found.first.tolist() == [2] * 3 and found.absent is not None
        found = found.select(torch.tensor([1, 2]))
    assert len(type(found).__mro__) == len(Outer.__mro__) + 1  # a single derived class


def test_selection_is_immediate_if_gradients_are_recorded() -> None:
    number = torch.ones(3, requires_grad=True)
    found = Inner(number).select(torch.tensor([2, 2]))
    with torch.no_grad():
        reselected = found.select(torch.tensor([0]))
        assert found.number.requires_grad and found.base_and_index() == (found, None)
        assert reselected.number.tolist() == [1]
    found.double.sum().backward()
    assert number.grad is not None and number.grad.tolist() == [0, 0, 4]
