"""Tests of the scoring of target tokens for selected contexts."""

import torch

from regard.models.output import score_tokens


def test_unselected_contexts_have_zero_scores_and_gradients() -> None:
    random = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 3, 4, dtype=torch.float64, generator=random).requires_grad_()
    output = (
        torch.randn(7, 4, dtype=torch.float64, generator=random).requires_grad_(),
        torch.randn(7, dtype=torch.float64, generator=random).requires_grad_(),
    )
    targets = torch.tensor([0, 6, 2, 2, 5])
    selected = torch.rand(5, 3, generator=random) < 0.6
    selected[:, 0] = True
    assert not selected.all()
    results = []
    for selection in (selected, None):
        found, means = (x * selected for x in score_tokens(hidden, output, targets, True, selection))
        loss = (found * torch.arange(15).view(5, 3)).sum() + means.square().sum()
        results.append((found, means, *torch.autograd.grad(loss, (hidden, *output))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    assert bool((results[0][2][~selected] == 0).all())
    found, means = score_tokens(hidden, output, targets, True, selected)
    assert bool((found[~selected] == 0).all()) and bool((means[~selected] == 0).all())
