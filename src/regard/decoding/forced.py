"""Forced decoding: what a model thinks of translations that are given."""

import torch

from regard.data.batch import Batch
from regard.data.vocabulary import BOS
from regard.decoding.beam import evaluating
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import Scorer
from regard.decoding.trace import Path
from regard.models.base import Outcome, TranslationModel
from regard.types import Int, Tensor

__all__ = ["force", "likeliest"]


def force(model: TranslationModel, batch: Batch, scorer: Scorer | None = None) -> list[Hypothesis]:
    """The log-probability and the attention of given translations.

    Args:
        model: The model.
        batch: Sources and targets (each ending in the end symbol), on the model's device.
        scorer: What makes scores of log-probabilities and attention; without it scores are log-probabilities.
    """
    if batch.target is None:
        raise ValueError("forced decoding needs a batch with targets")
    scorer = scorer or Scorer()
    with evaluating(model):
        outcome = model(batch)
        found = outcome.log_likelihood.double().cpu().tolist()
        weights = [layer.float().cpu().numpy() for layer in outcome.weights]
        added = _added(scorer, batch, outcome)
    results: list[Hypothesis] = []
    lengths = zip(batch.target.lengths.tolist(), batch.source.lengths.tolist(), strict=True)
    for row, (steps, words) in enumerate(lengths):
        tokens = tuple(batch.target.tokens[row, : steps - 1].tolist())
        log_probs = tuple(found[row][:steps])
        attention = tuple(layer[row, :steps, :, :words].copy() for layer in weights)
        results.append(Path(tokens, log_probs, attention).hypothesis(scorer.one(log_probs) + added[row]))
    return results


def likeliest(model: TranslationModel, batch: Batch) -> Int[Tensor, "B T"]:
    """The likeliest token after each prefix of the given translations.

    Args:
        model: The model.
        batch: Sources and targets (each ending in the end symbol), on the model's device.
    """
    if batch.target is None:
        raise ValueError("forced decoding needs a batch with targets")
    rows = torch.arange(len(batch), device=batch.source.tokens.device)
    before = torch.full_like(rows, BOS)
    found: list[Tensor] = []
    with evaluating(model):
        memories, state = model.begin(batch.source, batch.upper, batch.lower)
        for token in batch.target.tokens.unbind(1):
            prediction = model.step(before, memories, state)
            found.append(prediction.log_probs.argmax(dim=-1))
            state = model.observe(prediction, rows, token)
            before = token
    return torch.stack(found, dim=1)


def _added(scorer: Scorer, batch: Batch, outcome: Outcome) -> list[float]:
    """What the attention adds to each score."""
    real = outcome.mask[:, :, None, None]
    attended = tuple(layer.masked_fill(~real, 0.0).sum(dim=1) for layer in outcome.weights)
    added = scorer.added(attended, batch.source.words)
    return [0.0] * len(batch) if added is None else added.double().cpu().tolist()
