"""Tests of every model and attention mechanism on a GPU against the CPU."""

import pytest
import torch
from wirings import MODELS, batch

from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig
from regard.training.optimizer import AdamConfig, build_optimizer
from regard.training.run_context import autocast

DEVICE = torch.device("cuda")
CPU = torch.device("cpu")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="requires a CUDA device"),
]
every = pytest.mark.parametrize("name", MODELS)


@every
def test_losses_gradients_and_attention_match_the_cpu(name) -> None:
    found = []
    for device in (CPU, DEVICE):
        model, data = MODELS[name]().eval().to(device), batch().to(device)
        outcome = model(data, mean_log_probs=True, output_attentions="source")
        read = outcome.log_weights.isfinite()
        means = outcome.mean_log_probs[read]
        (-outcome.log_likelihood.sum() - means.sum()).backward()
        results = (outcome.log_likelihood, means, *outcome.cross_attentions)
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        found.append([one.detach().cpu() for one in (*results, *gradients)])
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-10)


@every
def test_beam_search_matches_the_cpu(name) -> None:
    found = []
    for device in (CPU, DEVICE):
        model, data = MODELS[name]().eval().to(device), batch().to(device)
        search = GenerationConfig(beam_size=3, num_return=2)
        found.append(beam_search(model, data.source, search, upper=data.upper_bounds))
    for here, there in zip(*found, strict=True):
        assert [one.tokens for one in here] == [one.tokens for one in there]
        # Search adds the scores in float32.
        assert [one.score for one in here] == pytest.approx([one.score for one in there], abs=1e-5)


@every
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_lowers_the_loss(name, precision) -> None:
    torch.manual_seed(1)
    model, data = MODELS[name]().float().to(DEVICE).train(), batch().to(DEVICE)
    optimizer = build_optimizer(AdamConfig(learning_rate=0.01), list(model.parameters()))
    losses = []
    for _ in range(30):
        with autocast(DEVICE, precision):
            outcome = model(data)
        loss = -outcome.log_likelihood.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
