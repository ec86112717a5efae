import torch

from regard.models.output import score_tokens


def test_contexts_that_are_not_wanted_get_zeros_and_no_gradient() -> None:
    random = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 3, 4, dtype=torch.float64, generator=random).requires_grad_()
    output = (
        torch.randn(7, 4, dtype=torch.float64, generator=random).requires_grad_(),
        torch.randn(7, dtype=torch.float64, generator=random).requires_grad_(),
    )
    targets = torch.tensor([0, 6, 2, 2, 5])
    wanted = torch.rand(5, 3, generator=random) < 0.6
    wanted[:, 0] = True
    assert not wanted.all()
    results = []
    for asked in (wanted, None):
        found, means = (x * wanted for x in score_tokens(hidden, output, targets, True, asked))
        loss = (found * torch.arange(15).view(5, 3)).sum() + means.square().sum()
        results.append((found, means, *torch.autograd.grad(loss, (hidden, *output))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    assert bool((results[0][2][~wanted] == 0).all())
    found, means = score_tokens(hidden, output, targets, True, wanted)
    assert bool((found[~wanted] == 0).all()) and bool((means[~wanted] == 0).all())
