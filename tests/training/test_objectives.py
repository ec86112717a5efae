import math

import pytest
import torch
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.models.base import Outcome
from regard.training.objectives import loss_of


def _outcome(logits, targets, mask, log_weights=None, penalty=None):
    """What a model gives whose contexts have these logits, [B, T, K, V]."""
    log_probs = logits.log_softmax(-1)
    index = targets[..., None, None].expand(*logits.shape[:3], 1)
    found = log_probs.gather(-1, index).squeeze(-1)
    zero = torch.zeros_like(found)
    return Outcome(
        log_likelihoods=found,
        average=log_probs.mean(-1),
        log_weights=zero if log_weights is None else log_weights,
        log_policy=zero,
        penalty=zero[..., 0] if penalty is None else penalty,
        mask=mask,
        weights=(),
        beliefs=(),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_marginal_with_one_context_is_pytorch_cross_entropy(smoothing: float) -> None:
    logits = torch.randn(3, 5, 1, 11, dtype=torch.float64)
    targets = torch.randint(11, (3, 5))
    mask = torch.arange(5) < torch.tensor([[5], [2], [4]])
    loss = loss_of("marginal")(_outcome(logits, targets, mask), smoothing)
    real = logits[:, :, 0][mask], targets[mask]
    torch.testing.assert_close(loss.total, F.cross_entropy(*real, label_smoothing=smoothing, reduction="sum"))
    torch.testing.assert_close(loss.nll, F.cross_entropy(*real, reduction="sum"))


def test_marginal_mixes_probabilities_and_adds_the_penalty_of_real_tokens() -> None:
    # p = 0.25 * 0.5 + 0.75 * 0.1 = 0.2 in the one real step.
    logits = torch.log(torch.tensor([[[[0.5, 0.5], [0.1, 0.9]]] * 2], dtype=torch.float64).transpose(0, 1))
    logits = logits.reshape(1, 2, 2, 2)
    outcome = _outcome(
        logits,
        torch.zeros(1, 2, dtype=torch.long),
        torch.tensor([[True, False]]),
        log_weights=torch.log(torch.tensor([0.25, 0.75], dtype=torch.float64)).expand(1, 2, 2),
        penalty=torch.tensor([[0.5, 9.0]], dtype=torch.float64),
    )
    loss = loss_of("marginal")(outcome, 0.0)
    assert float(loss.nll) == pytest.approx(-math.log(0.2))
    assert float(loss.total) == pytest.approx(-math.log(0.2) + 0.5)


def test_an_unknown_objective_names_the_known() -> None:
    with pytest.raises(ConfigError, match="marginal"):
        loss_of("reinforced")  # type: ignore[arg-type]
