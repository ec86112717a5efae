"""Tests of the recurrent model on a GPU against the CPU."""

import pytest
import torch

from regard.data.batch import collate
from regard.data.vocabulary import EOS
from regard.models.rnn.config import RnnConfig
from regard.models.rnn.model import RnnModel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="requires a CUDA device"),
]


def test_losses_and_gradients_match_the_cpu() -> None:
    data = collate([[5, 6, 7], [8]], [[5, 9, EOS], [6, EOS]], [0, 1])
    found = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(1)
        model = RnnModel(RnnConfig(dropout=0.0), 20, 20).double().to(device)
        outcome = model(data.to(torch.device(device)), mean_log_probs=True)
        (-outcome.log_likelihood.sum() - outcome.mean_log_probs.sum()).backward()
        found.append([outcome.log_likelihood.detach().cpu(), *(p.grad.cpu() for p in model.parameters())])
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-10)
