"""Sampling of translations with temperature, top-k and top-p (Holtzman et al. 2020).

The random numbers of each sentence are derived from the seed and its line number, so its samples depend
neither on the rest of the batch nor on the device's generator.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from regard.data.batch import PaddedSequences
from regard.data.vocabulary import BOS, EOS
from regard.errors import RegardError
from regard.generation.beam import eval_mode
from regard.generation.config import GenerationConfig, SamplingConfig
from regard.generation.hypothesis import Hypothesis
from regard.generation.penalties import HypothesisScorer
from regard.generation.token_constraints import TokenConstraints
from regard.generation.trace import HypothesisPath, SearchTrace
from regard.layers.batched_state import select_rows
from regard.models.base import TranslationModel
from regard.types import Bool, Float, Int, Tensor

__all__ = ["sample"]

_NEG_INF = -float("inf")
_MIN_DONE_SHARE = 1 / 8  # as in `regard.generation.beam`


def sample(
    model: TranslationModel,
    source: PaddedSequences,
    config: GenerationConfig,
    sampling: SamplingConfig,
    lines: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
    upper: Float[Tensor, "B S"] | None = None,
    lower: Float[Tensor, "B S"] | None = None,
) -> list[list[Hypothesis]]:
    """Sample `config.num_return` translations of each sentence.

    Args:
        model: The model.
        source: B sentences of at least one token each, on the model's device.
        config: Length limits, n-gram blocking and the number of samples. The beam size has no effect.
        sampling: Sampling settings.
        lines: Line number of each sentence.
        prefixes: Token ids that each translation must start with.
        upper: Maximum attention each source position may receive, for mechanisms with upper bounds.
        lower: Minimum attention each source position should receive.

    Returns:
        Hypotheses of each sentence in the order of sampling. Their probabilities are those of the model,
        before temperature, top-k and top-p.

    Raises:
        RegardError: if the model's log-probabilities are NaN.
    """
    device, samples = source.tokens.device, config.num_return
    rules = TokenConstraints(config, source, prefixes, model.max_length, constraints=model.constraints)
    trace, scorer = SearchTrace(), HypothesisScorer.from_config(config, len(model.constraints.prefix))
    # All random numbers are sampled in advance, so they do not depend on which rows are still active.
    noise = _uniform_noise(sampling.seed, lines, samples, rules.max_length + 1).to(device)
    rows = torch.arange(len(source), device=device).repeat_interleave(samples)
    live = torch.arange(len(rows), device=device)  # indices of the samples in the batch
    ends = np.zeros((4, len(rows)))  # step, row, log-probability of the end symbol, whether it was forced
    with eval_mode(model):
        memories, state = model.begin(source, upper, lower)
        memories, state = select_rows(memories, rows), select_rows(state, rows)
        tokens = torch.full_like(rows, BOS)
        done = torch.zeros_like(rows, dtype=torch.bool)
        history = rules.initial_history(len(rows))
        for step in range(rules.max_length + 1):
            prediction = model.step(tokens, memories, state)
            trace.add_attention(tuple(attention.weights for attention in prediction.attention_steps))
            past = history if rules.needs_history else None
            found = rules.candidates(
                prediction.log_probs,
                sampling.top_k or None,
                step,
                live // samples,
                past,
                prediction.eos_constraint,
            )
            values, ids = found.values, found.tokens
            columns = _sample_columns(values, sampling, noise[live, step]).unsqueeze(1)
            tokens, logs = (item.gather(1, columns).squeeze(1) for item in (ids, values))
            if not torch.isfinite(logs[~done]).all():
                raise RegardError(
                    "the model's log-probabilities are NaN: its weights are damaged or training diverged; "
                    "train again with a lower learning rate"
                )
            ending = (tokens == EOS) & ~done
            if bool(ending.any()):
                at = ending.nonzero().squeeze(1)
                ends[0, live[at].cpu()] = step
                ends[1, live[at].cpu()] = at.cpu()
                ends[2, live[at].cpu()] = logs[at].cpu()
                ends[3, live[at].cpu()] = (values[at, 1:] == _NEG_INF).all(dim=1).cpu()
            # Finished rows continue to be decoded until they are removed; their tokens are ignored.
            done = done | ending
            num_done = int(done.sum())
            if num_done == len(live):
                break
            rows = torch.arange(len(live), device=device)
            if num_done >= _MIN_DONE_SHARE * len(live):
                rows = (~done).nonzero().squeeze(1)
                live, done, memories = live[rows], done[rows], select_rows(memories, rows)
            tokens, logs = tokens[rows], logs[rows]
            trace.add_step(rows, tokens, logs)
            state = model.update(prediction, rows, tokens)
            if rules.needs_history:
                history = torch.cat([history[rows], tokens.unsqueeze(1)], dim=1)
    steps, places, last = ends[0].astype(np.int64), ends[1].astype(np.int64), ends[2]
    paths = trace.backtrace(steps, places, last, np.repeat(source.lengths.cpu().numpy(), samples))
    words = source.word_mask.cpu().repeat_interleave(samples, dim=0)
    found = [
        replace(path.to_hypothesis(_score(scorer, path, words[row])), truncated=bool(ends[3, row]))
        for row, path in enumerate(paths)
    ]
    return [found[start : start + samples] for start in range(0, len(found), samples)]


def _score(scorer: HypothesisScorer, path: HypothesisPath, words: Bool[Tensor, "S"]) -> float:
    """Return the score of a sampled translation."""
    score = scorer.score_tokens(path.token_log_probs)
    attended = tuple(torch.from_numpy(layer.sum(axis=0)).unsqueeze(0) for layer in path.attention)
    added = (
        scorer.attention_score(attended, words[: attended[0].shape[-1]].unsqueeze(0)) if attended else None
    )
    return score if added is None else score + float(added)


def _uniform_noise(seed: int, lines: Sequence[int], num_samples: int, steps: int) -> Float[Tensor, "R T"]:
    """Return uniform random numbers for each sample of each sentence and each time step."""
    rows: list[Tensor] = []
    for line in lines:
        for number in range(num_samples):
            # The shift by one bit keeps the seed within the range of a signed 64-bit integer.
            mixed = int(np.random.SeedSequence([seed, line, number]).generate_state(1, np.uint64)[0] >> 1)
            generator = torch.Generator().manual_seed(mixed)
            rows.append(torch.rand(steps, generator=generator, dtype=torch.float64))
    return torch.stack(rows)


def _sample_columns(
    values: Float[Tensor, "R C"], sampling: SamplingConfig, noise: Float[Tensor, "R"]
) -> Int[Tensor, "R"]:
    """Sample a column in each row by inverse transform sampling."""
    columns = None
    if sampling.top_k or sampling.top_p < 1:
        values, columns = values.sort(dim=1, descending=True, stable=True)
    if sampling.top_k:
        values = values[:, : sampling.top_k]
    # Subtract the maximum before the division, so that a small temperature does not overflow.
    best = values.amax(dim=1, keepdim=True)
    probabilities = torch.softmax((values - best).double() / sampling.temperature, dim=1)
    if sampling.top_p < 1:
        # A token is kept if the tokens before it have less than top_p, so at least one is always kept.
        before = probabilities.cumsum(dim=1) - probabilities
        probabilities = probabilities.masked_fill(before >= sampling.top_p, 0.0)
    cumulative = probabilities.cumsum(dim=1)
    place = torch.searchsorted(cumulative, noise.unsqueeze(1) * cumulative[:, -1:], right=True)
    # Rounding may place the number beyond the last cumulative probability.
    place = place.clamp_max(cumulative.shape[1] - 1)
    return (place if columns is None else columns.gather(1, place)).squeeze(1)
