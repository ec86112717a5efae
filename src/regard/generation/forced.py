"""Forced decoding: log-probabilities, attention and scores of given translations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from regard.data.batch import Batch, PaddedSequences
from regard.generation.attribution import attribute_pairs
from regard.generation.beam import eval_mode
from regard.generation.config import AlignmentConfig
from regard.generation.hypothesis import Hypothesis, HypothesisScorer
from regard.generation.lines import any_attention
from regard.generation.linking import attention_links, select_heads
from regard.generation.translation import Translation
from regard.metrics.attention import SentenceAttention, attention_statistics
from regard.models.base import TranslationModel
from regard.text.vocabulary import BOS, EOS
from regard.types import Int, Tensor


def force_decode(
    model: TranslationModel, batch: Batch, scorer: HypothesisScorer | None = None
) -> list[Hypothesis]:
    """Compute the log-probability and the attention of the targets of a batch on the model's device.

    Each target ends in the end symbol. Scores are log-probabilities by default.
    """
    assert batch.target is not None
    scorer = scorer or HypothesisScorer()
    with eval_mode(model):
        outcome = model(batch)
        log_likelihoods = outcome.log_likelihood.double().cpu().tolist()
        weights = [layer.float().cpu().numpy() for layer in outcome.cross_attentions]
        layers = outcome.posteriors if any_attention(model, "has_posterior") else ()
        token_posteriors = [layer.float().cpu().numpy() for layer in layers]
        # The coverage must not include the weights of padded steps.
        padding = ~outcome.mask[:, :, None, None]
        attended = tuple(layer.masked_fill(padding, 0.0).sum(dim=1) for layer in outcome.cross_attentions)
        added = scorer.coverage_penalty(attended, batch.source.word_mask)
        penalties = [0.0] * len(batch) if added is None else added.double().cpu().tolist()
    results: list[Hypothesis] = []
    lengths = zip(batch.target.lengths.tolist(), batch.source.lengths.tolist(), strict=True)
    for row, (steps, positions) in enumerate(lengths):
        # The last step is that of the end symbol, which is no token of a hypothesis.
        tokens = tuple(batch.target.tokens[row, : steps - 1].tolist())
        log_probs = tuple(log_likelihoods[row][:steps])
        attention, posteriors = (
            # A view would keep the padded array of the whole batch in memory.
            tuple(layer[row, :steps, :, :positions].copy() for layer in layers)
            for layers in (weights, token_posteriors)
        )
        # `fsum` rounds only once, so the score of a long translation loses no precision.
        total = math.fsum(log_probs)
        score = total / scorer.penalty(steps) + penalties[row]
        results.append(Hypothesis(tokens, score, total, log_probs, attention, posteriors))
    return results


def compute_posteriors(
    model: TranslationModel, batch: Batch, hypotheses: Sequence[Sequence[Hypothesis]]
) -> list[list[Hypothesis]]:
    """Return the hypotheses with their posterior attention (`posteriors`), by forced decoding.

    A model whose posterior equals its attention weights returns the hypotheses unchanged.
    """
    results = [list(nbest) for nbest in hypotheses]
    if not any_attention(model, "has_posterior"):
        return results
    for place, rows, chosen in _pairs_by_rank(batch, results):
        for row, forced in zip(rows, force_decode(model, chosen), strict=True):
            results[row][place] = replace(results[row][place], posteriors=forced.posteriors)
    return results


def attribute_hypotheses(
    model: TranslationModel, batch: Batch, hypotheses: Sequence[Sequence[Hypothesis]], config: AlignmentConfig
) -> list[list[Hypothesis]]:
    """Return the hypotheses with the map of `config`, which is no attention, instead of attention."""
    results = [list(nbest) for nbest in hypotheses]
    for place, rows, chosen in _pairs_by_rank(batch, results):
        for row, attribution in zip(rows, attribute_pairs(model, chosen, config), strict=True):
            results[row][place] = replace(
                results[row][place], attention=(attribution.weights,), posteriors=()
            )
    return results


def _pairs_by_rank(
    batch: Batch, hypotheses: Sequence[Sequence[Hypothesis]]
) -> Iterator[tuple[int, list[int], Batch]]:
    """Yield batches of sentences and hypotheses of the same rank, with the rank and the sentences' rows."""
    device = batch.source.tokens.device
    for place in range(max(map(len, hypotheses), default=0)):
        rows = [row for row, nbest in enumerate(hypotheses) if place < len(nbest)]
        target = PaddedSequences.pad([[*hypotheses[row][place].tokens, EOS] for row in rows]).to(device)
        yield place, rows, batch.with_targets(torch.tensor(rows, device=device), target)


def predict_tokens(model: TranslationModel, batch: Batch) -> Int[Tensor, "B T"]:
    """Return the top-scoring token after each prefix of the targets of a batch on the model's device."""
    assert batch.target is not None
    rows = torch.arange(len(batch), device=batch.source.tokens.device)
    before = torch.full_like(rows, BOS)
    predictions: list[Tensor] = []
    with eval_mode(model):
        memories, state = model.begin(batch.source, batch.upper_bounds, batch.lower_bounds)
        # Step by step, because `forward` returns only the probabilities of the reference tokens.
        for token in batch.target.tokens.unbind(1):
            prediction = model.step(before, memories, state)
            predictions.append(prediction.log_probs.argmax(dim=-1))
            state = model.update(prediction, rows, token)
            before = token
    return torch.stack(predictions, dim=1)


def sentence_attention(
    line: Translation, config: AlignmentConfig, prior: bool = False, name: str = "the model"
) -> SentenceAttention:
    """Return the attention statistics of a translation with predictions, of the prior or the posterior.

    With hard attention, the prior weights of all selected words are equal and have no maximum. The links are
    then taken from the posterior even if `prior` is set.

    Raises:
        UsageError: if the model has no such layer or head.
    """
    assert line.correct is not None
    words = line.source_word_ids, line.target_word_ids
    layers = line.attention if prior else line.posterior_attention
    weights = select_heads(line.attention, config, name)
    # A selection of source tokens has weights that are exactly 0 or 1.
    by_prior = prior and not ((weights == 0) | (weights == 1)).all()
    linked = line.attention if by_prior else line.posterior_attention
    return attention_statistics(
        select_heads(layers, config, name),
        line.correct,
        line.source_word_ids,
        line.target_word_ids,
        attention_links(line.attention, linked, config, words, name),
    )
