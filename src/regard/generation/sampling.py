"""Sampling of translations with temperature, top-k and top-p (Holtzman et al. 2020).

The random numbers of each sentence are derived from the seed and its line number, so its samples depend
neither on the rest of the batch nor on the device's generator.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from regard.data.batch import Batch
from regard.errors import RegardError
from regard.generation.beam import MIN_DONE_SHARE, eval_mode
from regard.generation.config import GenerationConfig, Sampling
from regard.generation.hypothesis import Hypothesis, HypothesisScorer, SearchTrace
from regard.generation.token_constraints import TokenConstraints
from regard.layers.batched_state import select_rows
from regard.models.base import Prediction, TranslationModel
from regard.text.vocabulary import BOS, EOS
from regard.types import Bool, Float, Int, Tensor


def sample(
    model: TranslationModel,
    batch: Batch,
    config: GenerationConfig,
    sampling: Sampling,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Sample `config.num_return` translations of each sentence.

    Args:
        model: The model.
        batch: B sentences of at least one token each, on the model's device, with their attention bounds. The
            random numbers of a sentence depend on its index in `rows`.
        config: Length limits, n-gram blocking and the number of samples. The beam size has no effect.
        sampling: Sampling settings.
        prefixes: Token ids that each translation must start with.

    Returns:
        Hypotheses of each sentence in the order of sampling. Their probabilities are those of the model,
        before temperature, top-k and top-p.

    Raises:
        RegardError: if the model's log-probabilities are NaN.
    """
    source, samples = batch.source, config.num_return
    scorer = HypothesisScorer.from_config(config, len(model.constraints.prefix))
    with eval_mode(model):
        paths = _Sampler(model, batch, config, sampling, prefixes).run()
    words = source.word_mask.cpu().repeat_interleave(samples, dim=0)
    hypotheses: list[Hypothesis] = []
    for row, path in enumerate(paths):
        score = path.log_probability / scorer.penalty(len(path.token_log_probs))
        attended = tuple(torch.from_numpy(layer.sum(axis=0)).unsqueeze(0) for layer in path.attention)
        if attended:
            added = scorer.coverage_penalty(attended, words[row : row + 1, : attended[0].shape[-1]])
            score += 0.0 if added is None else float(added)
        hypotheses.append(replace(path, score=score))
    return [hypotheses[start : start + samples] for start in range(0, len(hypotheses), samples)]


class _Sampler:
    """Sampling of one batch. Row r of the first step is sample r % `samples` of sentence r // `samples`."""

    def __init__(
        self,
        model: TranslationModel,
        batch: Batch,
        config: GenerationConfig,
        sampling: Sampling,
        prefixes: Sequence[Sequence[int]] | None,
    ) -> None:
        self.model, self.batch, self.sampling = model, batch, sampling
        self.samples = config.num_return
        self.rules = TokenConstraints(config, batch.source, model, prefixes)
        self.trace = SearchTrace()
        # All random numbers are sampled in advance, so they do not depend on which rows are still active.
        steps = self.rules.max_length + 1
        noise = _uniform_noise(sampling.seed, batch.rows.tolist(), self.samples, steps)
        self.noise = noise.to(batch.source.tokens.device)
        # Step, row, log-probability of the end symbol, and whether it was forced.
        self.ends = np.zeros((4, len(batch) * self.samples))

    def run(self) -> list[Hypothesis]:
        """Return the sampled paths."""
        model, rules, source = self.model, self.rules, self.batch.source
        device = source.tokens.device
        rows = torch.arange(len(source), device=device).repeat_interleave(self.samples)
        live = torch.arange(len(rows), device=device)  # indices of the samples in the batch
        memories, state = model.begin(source, self.batch.upper_bounds, self.batch.lower_bounds)
        memories, state = select_rows(memories, rows), select_rows(state, rows)
        tokens = torch.full_like(rows, BOS)
        done = torch.zeros_like(rows, dtype=torch.bool)
        history = rules.before.expand(len(rows), -1)
        for step in range(rules.max_length + 1):
            prediction = model.step(tokens, memories, state)
            past = history if rules.needs_history else None
            tokens, logs, done = self._sample_tokens(prediction, live, past, done, step)
            num_done = int(done.sum())
            if num_done == len(live):
                break
            rows = torch.arange(len(live), device=device)
            if num_done >= MIN_DONE_SHARE * len(live):
                rows = (~done).nonzero().squeeze(1)
                live, done, memories = live[rows], done[rows], select_rows(memories, rows)
            tokens, logs = tokens[rows], logs[rows]
            self.trace.choices.append((rows, tokens, logs))
            state = model.update(prediction, rows, tokens)
            if rules.needs_history:
                history = torch.cat([history[rows], tokens.unsqueeze(1)], dim=1)
        steps, places = self.ends[:2].astype(np.int64)
        lengths = np.repeat(source.lengths.cpu().numpy(), self.samples)
        paths = self.trace.backtrace(steps, places, self.ends[2], lengths)
        forced = self.ends[3].astype(bool).tolist()
        return [replace(path, truncated=is_forced) for path, is_forced in zip(paths, forced, strict=True)]

    def _sample_tokens(
        self,
        prediction: Prediction,
        live: Int[Tensor, "R"],
        history: Int[Tensor, "R T"] | None,
        done: Bool[Tensor, "R"],
        step: int,
    ) -> tuple[Int[Tensor, "R"], Float[Tensor, "R"], Bool[Tensor, "R"]]:
        """Return the next token of each row, its log-probability, and whether the row is done.

        Finished rows continue to be decoded until they are removed; their tokens are ignored.
        """
        self.trace.weights.append(tuple(attention.weights for attention in prediction.attention_steps))
        candidates = self.rules.candidates(
            prediction.log_probs,
            self.sampling.top_k or None,
            step,
            live // self.samples,
            history,
            prediction.eos_constraint,
        )
        values = candidates.values
        columns = _sample_columns(values, self.sampling, self.noise[live, step]).unsqueeze(1)
        tokens, logs = (item.gather(1, columns).squeeze(1) for item in (candidates.tokens, values))
        if not torch.isfinite(logs[~done]).all():
            raise RegardError(
                "the model's log-probabilities are NaN: its weights are damaged or training diverged; "
                "train again with a lower learning rate"
            )
        ending = (tokens == EOS) & ~done
        if bool(ending.any()):
            at = ending.nonzero().squeeze(1)
            ended = live[at].cpu()
            self.ends[0, ended] = step
            self.ends[1, ended] = at.cpu()
            self.ends[2, ended] = logs[at].cpu()
            self.ends[3, ended] = torch.isneginf(values[at, 1:]).all(dim=1).cpu()
        return tokens, logs, done | ending


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
    values: Float[Tensor, "R C"], sampling: Sampling, noise: Float[Tensor, "R"]
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
