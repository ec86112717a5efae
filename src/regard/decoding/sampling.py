"""Translations drawn from the model: temperature, top-k and top-p (Holtzman et al. 2020).

Each sentence draws from random numbers of its own, made from the seed and its line number, so that what it
draws depends neither on its batch nor on the device's generator.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from regard.data.batch import Sequences
from regard.data.vocabulary import BOS, EOS
from regard.decoding.beam import evaluating
from regard.decoding.config import SamplingConfig, SearchConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import Scorer
from regard.decoding.rules import Rules
from regard.decoding.trace import Path, Trace
from regard.errors import RegardError
from regard.layers.rows import select_rows
from regard.models.base import TranslationModel
from regard.types import Bool, Float, Int, Tensor

__all__ = ["sample"]

_NEVER = -float("inf")
_LEAVE = 1 / 8  # as in `regard.decoding.beam`


def sample(
    model: TranslationModel,
    source: Sequences,
    config: SearchConfig,
    sampling: SamplingConfig,
    lines: Sequence[int],
    prefixes: Sequence[Sequence[int]] | None = None,
    upper: Float[Tensor, "B S"] | None = None,
    lower: Float[Tensor, "B S"] | None = None,
) -> list[list[Hypothesis]]:
    """Draw `config.nbest` translations of each sentence.

    Args:
        model: The model.
        source: B sentences, each of at least one token, on the model's device.
        config: Lengths, n-gram blocking and how many; its beam is not used.
        sampling: How to draw.
        lines: The line number of each sentence.
        prefixes: The tokens that each translation must start with.
        upper: The most attention each word may receive, for mechanisms that bound it.
        lower: The least each word should receive.

    Returns:
        For each sentence its hypotheses in the order drawn; probabilities are the model's own, before
        temperature, top-k and top-p.

    Raises:
        RegardError: if the model's probabilities are not numbers.
    """
    device, draws = source.tokens.device, config.nbest
    rules = Rules(config, source, prefixes, model.longest, constraints=model.constraints)
    trace, scorer = Trace(), Scorer.of(config, len(model.constraints.before))
    noise = _noise(sampling.seed, lines, draws, rules.longest + 1).to(device)
    rows = torch.arange(len(source), device=device).repeat_interleave(draws)
    live = torch.arange(len(rows), device=device)  # the draws in the batch
    ends = np.zeros((4, len(rows)))  # step, row, log-probability of the end symbol, whether it was no draw
    with evaluating(model):
        memories, state = model.begin(source, upper, lower)
        memories, state = select_rows(memories, rows), select_rows(state, rows)
        tokens = torch.full_like(rows, BOS)
        done = torch.zeros_like(rows, dtype=torch.bool)
        history = rules.history(len(rows))
        for step in range(rules.longest + 1):
            prediction = model.step(tokens, memories, state)
            trace.read(tuple(reading.weights for reading in prediction.readings))
            said = history if rules.remembers else None
            found = rules.candidates(
                prediction.log_probs, sampling.top_k or None, step, live // draws, said, prediction.ending
            )
            values, ids = found.values, found.tokens
            columns = _draw(values, sampling, noise[live, step]).unsqueeze(1)
            tokens, logs = (item.gather(1, columns).squeeze(1) for item in (ids, values))
            if not torch.isfinite(logs[~done]).all():
                raise RegardError("the model's probabilities are not numbers: its weights are damaged")
            ending = (tokens == EOS) & ~done
            if bool(ending.any()):
                at = ending.nonzero().squeeze(1)
                ends[0, live[at].cpu()] = step
                ends[1, live[at].cpu()] = at.cpu()
                ends[2, live[at].cpu()] = logs[at].cpu()
                ends[3, live[at].cpu()] = (values[at, 1:] == _NEVER).all(dim=1).cpu()
            done = done | ending
            leaving = int(done.sum())
            if leaving == len(live):
                break
            rows = torch.arange(len(live), device=device)
            if leaving >= _LEAVE * len(live):
                rows = (~done).nonzero().squeeze(1)
                live, done, memories = live[rows], done[rows], select_rows(memories, rows)
            tokens, logs = tokens[rows], logs[rows]
            trace.advance(rows, tokens, logs)
            state = model.observe(prediction, rows, tokens)
            if rules.remembers:
                history = torch.cat([history[rows], tokens.unsqueeze(1)], dim=1)
    steps, places, last = ends[0].astype(np.int64), ends[1].astype(np.int64), ends[2]
    paths = trace.paths(steps, places, last, np.repeat(source.lengths.cpu().numpy(), draws))
    words = source.words.cpu().repeat_interleave(draws, dim=0)
    found = [
        replace(path.hypothesis(_score(scorer, path, words[row])), cut=bool(ends[3, row]))
        for row, path in enumerate(paths)
    ]
    return [found[start : start + draws] for start in range(0, len(found), draws)]


def _score(scorer: Scorer, path: Path, words: Bool[Tensor, "S"]) -> float:
    """The score of what was drawn."""
    score = scorer.one(path.token_log_probs)
    attended = tuple(torch.from_numpy(layer.sum(axis=0)).unsqueeze(0) for layer in path.attention)
    added = scorer.added(attended, words[: attended[0].shape[-1]].unsqueeze(0)) if attended else None
    return score if added is None else score + float(added)


def _noise(seed: int, lines: Sequence[int], draws: int, steps: int) -> Float[Tensor, "R T"]:
    """Uniform numbers for each draw of each sentence and each step."""
    rows: list[Tensor] = []
    for line in lines:
        for draw in range(draws):
            mixed = int(np.random.SeedSequence([seed, line, draw]).generate_state(1, np.uint64)[0] >> 1)
            generator = torch.Generator().manual_seed(mixed)
            rows.append(torch.rand(steps, generator=generator, dtype=torch.float64))
    return torch.stack(rows)


def _draw(
    values: Float[Tensor, "R C"], sampling: SamplingConfig, noise: Float[Tensor, "R"]
) -> Int[Tensor, "R"]:
    """The column each row draws."""
    columns = None
    if sampling.top_k or sampling.top_p < 1:
        values, columns = values.sort(dim=1, descending=True, stable=True)
    if sampling.top_k:
        values = values[:, : sampling.top_k]
    # The best token is subtracted first: a tiny temperature must not overflow.
    best = values.amax(dim=1, keepdim=True)
    probabilities = torch.softmax((values - best).double() / sampling.temperature, dim=1)
    if sampling.top_p < 1:
        before = probabilities.cumsum(dim=1) - probabilities
        probabilities = probabilities.masked_fill(before >= sampling.top_p, 0.0)
    reach = probabilities.cumsum(dim=1)
    place = torch.searchsorted(reach, noise.unsqueeze(1) * reach[:, -1:], right=True)
    place = place.clamp_max(reach.shape[1] - 1)
    return (place if columns is None else columns.gather(1, place)).squeeze(1)
