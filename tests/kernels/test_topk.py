import pytest
import torch

from regard.kernels.backend import use_backend
from regard.kernels.topk import MAX_KERNEL_K, topk


@pytest.mark.parametrize("k", [1, 10, MAX_KERNEL_K, 100])
@pytest.mark.parametrize("levels", [3, 1 << 20])  # with many ties, and with almost none
def test_topk_is_the_start_of_a_stable_descending_sort(k: int, levels: int) -> None:
    torch.manual_seed(k)
    logits = torch.randint(levels, (40, 1000)).float() - levels / 2
    values, indices = logits.sort(dim=1, descending=True, stable=True)
    with torch.inference_mode():
        # With its transpose, the kernel receives rows that are not contiguous.
        largest, positions = topk(logits.t().contiguous().t(), k)
        with use_backend("reference"):
            reference, _ = topk(logits, k)
    assert torch.equal(largest, values[:, :k]) and torch.equal(reference, largest)
    if k <= MAX_KERNEL_K:
        assert torch.equal(positions, indices[:, :k])


def test_excluded_values_are_not_selected() -> None:
    logits = torch.full((1, 100), -torch.inf)
    logits[0, [20, 70]] = torch.tensor([-5.0, 3.0])
    with torch.inference_mode():
        largest, positions = topk(logits, 4)
    assert largest.tolist() == [[3.0, -5.0, -torch.inf, -torch.inf]]
    assert positions.tolist() == [[70, 20, 0, 0]]
