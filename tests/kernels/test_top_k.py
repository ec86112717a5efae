"""The largest values of each row against a stable sort of PyTorch."""

import pytest
import torch

from regard.kernels.backend import use_backend
from regard.kernels.top_k import top_k


@pytest.mark.parametrize(("shape", "k"), [((1, 1), 1), ((7, 50), 5), ((40, 3000), 10), ((3, 200), 128)])
def test_values_are_those_of_a_stable_sort(shape, k) -> None:
    generator = torch.Generator().manual_seed(1)
    # Few distinct values, so that there are ties.
    values = torch.randint(-30, 30, shape, generator=generator).float() / 4
    values[values == 3] = -torch.inf
    expected, order = values.sort(dim=1, descending=True, stable=True)
    with use_backend("numba"):
        top, positions = top_k(values, k)
    assert torch.equal(top, expected[:, :k]) and torch.equal(positions, order[:, :k])


def test_nan_is_larger_than_any_number() -> None:
    values = torch.tensor([[1.0, torch.nan, torch.inf, torch.nan, 2.0]])
    with use_backend("numba"):
        top, positions = top_k(values, 3)
    assert positions.tolist() == [[1, 3, 2]] and top[0, :2].isnan().all() and top[0, 2] == torch.inf
    with use_backend("numba"):
        assert top_k(values, 1)[1].tolist() == [[1]]


def test_rows_do_not_depend_on_threads() -> None:
    values, threads = torch.randn(64, 1000), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = top_k(values, 7)
        torch.set_num_threads(3)
        together = top_k(values, 7)
    finally:
        torch.set_num_threads(threads)
    assert all(map(torch.equal, alone, together))


def test_gradients_are_recorded() -> None:
    values = torch.randn(2, 9, requires_grad=True)
    top_k(values, 2)[0].sum().backward()
    assert values.grad is not None and values.grad.sum() == 4
