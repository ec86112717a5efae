"""Beam search over a batch of sentences. Greedy search is beam search with a beam of 1.

At each time step, all unfinished hypotheses of a sentence are extended by their best next tokens. Among the
`beam_size` best extensions, those that end in the end symbol are finished: they leave the beam and are stored
if they are among the n-best. The `beam_size` best other extensions form the next beam. A sentence is done,
and its rows leave the batch, as soon as the criterion `scheme.stopping` holds:

- `heuristic`: no unfinished hypothesis scores higher than the worst of the n-best finished hypotheses, each
  scored with its present length;
- `exact`: no unfinished hypothesis could score higher even if it reached the maximum length without any
  further loss of probability;
- `first_n`: there are n finished hypotheses.

With `scheme.hf_compatible`, search follows `generate` of Hugging Face's transformers: it stores `beam_size`
finished hypotheses, and a hypothesis at the maximum length is finished at no cost.

The coverage penalty applies to finished hypotheses, and to unfinished ones where they are compared with
finished ones. Unfinished hypotheses are ranked by it only if `coverage_penalty.rescore_only` is false.
Otherwise the beam depends neither on the coverage penalty nor on the length penalty, so one search can serve
several combinations of both (`beam_searches`).

Required terms divide the beam into banks and delay the end symbol (`regard.generation.constrained`).

The results of a sentence do not depend on the rest of the batch. Ties are broken in favor of the better
hypothesis, then of the end symbol.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from regard.data.batch import PaddedSequences
from regard.data.vocabulary import BOS
from regard.errors import ConfigError, RegardError
from regard.generation.config import GenerationConfig
from regard.generation.constrained import TermConstraints
from regard.generation.finished import FinishedHypotheses
from regard.generation.hypothesis import Hypothesis
from regard.generation.penalties import HypothesisScorer
from regard.generation.token_constraints import TokenConstraints
from regard.generation.trace import SearchTrace
from regard.layers.batched_state import BatchedState, select_rows
from regard.models.base import Memories, TranslationModel
from regard.types import Float, Int, Tensor

__all__ = ["beam_search", "beam_searches", "eval_mode"]

_NEG_INF = -float("inf")
# Removing rows may copy the memories of all other rows, so it waits until this share of a batch is done.
_MIN_DONE_SHARE = 1 / 8
_RELEASE_EVERY = 64  # time steps between two releases of the attention of abandoned hypotheses


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Run the model without dropout and without gradients; restore its training mode afterward."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def beam_search(
    model: TranslationModel,
    source: PaddedSequences,
    config: GenerationConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    upper: Float[Tensor, "B S"] | None = None,
    lower: Float[Tensor, "B S"] | None = None,
    scorer: HypothesisScorer | None = None,
    terms: TermConstraints | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch.

    Args:
        model: The model.
        source: B sentences of at least one token each, on the model's device.
        config: Search settings.
        prefixes: Token ids that each translation must start with.
        upper: Maximum attention each source position may receive, for mechanisms with upper bounds.
        lower: Minimum attention each source position should receive.
        scorer: Ranks finished hypotheses. Default: the scorer that `config` describes.
        terms: Terms that the translations must contain.

    Returns:
        For each sentence its hypotheses, best first: `config.num_return` of them, or fewer if search found
        fewer. All contain every required term, unless no hypothesis could.

    Raises:
        RegardError: if the model's log-probabilities are NaN.
    """
    scorers = (scorer or HypothesisScorer.from_config(config, len(model.constraints.prefix)),)
    with eval_mode(model):
        memories, state = model.begin(source, upper, lower)
        return _BeamSearch(model, source, config, prefixes, scorers, terms).run(model, memories, state)[0]


def beam_searches(
    model: TranslationModel,
    source: PaddedSequences,
    config: GenerationConfig,
    scorers: Sequence[HypothesisScorer],
    prefixes: Sequence[Sequence[int]] | None = None,
    upper: Float[Tensor, "B S"] | None = None,
    lower: Float[Tensor, "B S"] | None = None,
) -> list[list[list[Hypothesis]]]:
    """Translate a batch once and rank the finished hypotheses by each of several scorers.

    The result for each scorer is the one that `beam_search` returns with it.

    Args:
        model: The model.
        source: The sentences; see `beam_search` for this and the arguments below.
        config: Search settings. `coverage_penalty.rescore_only` must be true.
        scorers: Rank the finished hypotheses.
        prefixes: Token ids that each translation must start with.
        upper: Maximum attention each source position may receive.
        lower: Minimum attention each source position should receive.

    Returns:
        For each scorer, the result of `beam_search`.

    Raises:
        ConfigError: if `coverage_penalty.rescore_only` is false.
        RegardError: if the model's log-probabilities are NaN.
    """
    if not config.coverage_penalty.rescore_only:
        raise ConfigError(
            "generation.coverage_penalty.rescore_only = false: unfinished hypotheses are ranked by the "
            "scorer, so each scorer needs its own search; use beam_search"
        )
    with eval_mode(model):
        memories, state = model.begin(source, upper, lower)
        return _BeamSearch(model, source, config, prefixes, tuple(scorers)).run(model, memories, state)


class _BeamSearch:
    """Search state of one batch."""

    def __init__(
        self,
        model: TranslationModel,
        source: PaddedSequences,
        config: GenerationConfig,
        prefixes: Sequence[Sequence[int]] | None,
        scorers: tuple[HypothesisScorer, ...],
        terms: TermConstraints | None = None,
    ) -> None:
        self.source = source
        self.config = config
        self.scorers = scorers
        self.source_mask = source.word_mask
        self.terms = terms
        extra_tokens = None if terms is None else terms.num_tokens
        self.constraints = TokenConstraints(
            config, source, prefixes, model.max_length, extra_tokens, model.constraints
        )
        self.trace = SearchTrace()

    def run(
        self, model: TranslationModel, memories: Memories, state: BatchedState
    ) -> list[list[list[Hypothesis]]]:
        beam, device = self.config.beam_size, self.source.tokens.device
        live = torch.arange(len(self.source), device=device)  # indices of the unfinished sentences
        width = 1  # rows (unfinished hypotheses) per sentence
        tokens = torch.full_like(live, BOS)
        # Cumulative log-probabilities, (n, width), in float64 because they are sums over many time steps.
        scores = torch.zeros(len(live), 1, dtype=torch.float64, device=device)
        pools = [FinishedHypotheses(len(live), self.config.num_finished_kept, device) for _ in self.scorers]
        needs_attention = any(scorer.attention_terms for scorer in self.scorers)
        history = self.constraints.initial_history(len(live)) if self.constraints.needs_history else None
        attended: tuple[Tensor, ...] | None = None
        progress = None if self.terms is None else self.terms.initial_state()
        for step in range(self.constraints.max_length + 1):
            prediction = model.step(tokens, memories, state)
            weights = tuple(attention.weights for attention in prediction.attention_steps)
            self.trace.add_attention(weights)
            owners = live.repeat_interleave(width)
            added: list[Tensor | None] = [None] * len(pools)  # coverage penalty of each row, for each scorer
            if needs_attention:
                before = attended or tuple(map(torch.zeros_like, weights))
                attended = tuple(a + w for a, w in zip(before, weights, strict=True))
                added = [
                    scorer.attention_score(attended, self.source_mask[owners]) for scorer in self.scorers
                ]
            required_tokens = None if progress is None else progress.next_tokens(tokens, owners)
            found = self.constraints.candidates(
                prediction.log_probs, beam, step, owners, history, prediction.eos_constraint, required_tokens
            )
            values, ids = found.values, found.tokens
            choices = values.shape[1]
            totals = (scores.view(-1, 1) + found.score_increments).view(len(live), -1)  # (n, width * choices)
            if progress is not None:
                progress = progress.extend(tokens, ids, owners)
                totals = progress.mask_incomplete(totals, choices, pools[0].empty(live))
            totals, order = self._sort_extensions(totals, added[0], step + 1)
            if progress is not None:
                totals, order = progress.allocate_beam(totals, order)
            # At most `beam` of the extensions end, so 2 * beam of them always leave `beam` to continue.
            totals, order = totals[:, : 2 * beam], order[:, : 2 * beam]
            ended = order % choices == 0  # the first column of the candidates is the end symbol
            # Row in the batch from which each extension starts.
            rows = order // choices + torch.arange(len(live), device=device).unsqueeze(1) * width

            finished = totals[:, :beam].masked_fill(~ended[:, :beam], _NEG_INF)
            if bool((finished > _NEG_INF).any()):
                # A hypothesis that is truncated at the maximum length has no end symbol to count.
                lengths = (
                    (step + 1 - self.constraints.is_truncated(step)[live].long())
                    .unsqueeze(1)
                    .expand_as(finished)
                )
                for scorer, extra, pool in zip(self.scorers, added, pools, strict=True):
                    ranked = scorer(finished, lengths)
                    ranked = ranked if extra is None else ranked + extra[rows[:, :beam]]
                    pool.add(live, ranked, step, rows[:, :beam], values[:, 0])

            width = min(beam, width * (choices - 1))
            # A stable sort moves finished extensions to the end and keeps the ranking of the others.
            chosen = ended.to(torch.int8).argsort(dim=1, stable=True)[:, :width]
            scores, order, rows = (item.gather(1, chosen) for item in (totals, order, rows))
            # A sentence leaves the batch only when it is done for all scorers.
            for scorer, extra, pool in zip(self.scorers, added, pools, strict=True):
                pool.close(
                    live, self._best_attainable_score(scorer, extra, scores, rows, step + 1, live, pool)
                )
            done = torch.stack([pool.closed for pool in pools]).all(dim=0)[live]
            num_done = int(done.sum())
            if num_done == len(live):
                break
            # Memories are reordered only if rows change sentences, since all rows of a sentence share them.
            moved = scores.shape[1] != tokens.shape[0] // len(live)
            scores = scores.masked_fill(done.unsqueeze(1), _NEG_INF)
            if num_done >= _MIN_DONE_SHARE * len(live):
                keep = (~done).nonzero().squeeze(1)
                live, scores, order, rows = (item[keep] for item in (live, scores, order, rows))
                moved = True

            # `order` indexes the candidates of one sentence at this step, `rows` the rows of the whole batch.
            rows = rows.flatten()
            columns = (order % choices).flatten()
            tokens = ids[rows, columns]
            if progress is not None:
                progress = progress.select(rows * choices + columns)
            self.trace.add_step(rows, tokens, values[rows, columns])
            if (step + 1) % _RELEASE_EVERY == 0:
                steps, ends = zip(*(pool.end_positions() for pool in pools), strict=True)
                self.trace.release_unused(torch.cat(steps), torch.cat(ends))
            state = model.update(prediction, rows, tokens)
            if moved:
                memories = select_rows(memories, rows)
            if attended is not None:
                attended = select_rows(attended, rows)
            if history is not None:
                history = torch.cat([history[rows], tokens.unsqueeze(1)], dim=1)
        return [self._hypotheses(pool) for pool in pools]

    def _sort_extensions(
        self, totals: Float[Tensor, "n c"], added: Float[Tensor, "R"] | None, length: int
    ) -> tuple[Float[Tensor, "n c"], Int[Tensor, "n c"]]:
        """Return the extensions, sorted by log-probability or (without `rescore_only`) by score."""
        if added is None or self.config.coverage_penalty.rescore_only:
            return totals.sort(dim=1, descending=True, stable=True)
        # All extensions of a row share its coverage penalty.
        own = added.view(len(totals), -1)
        extra = own.repeat_interleave(totals.shape[1] // own.shape[1], dim=1)
        order = (self.scorers[0](totals, length) + extra).argsort(dim=1, descending=True, stable=True)
        return totals.gather(1, order), order

    def _best_attainable_score(
        self,
        scorer: HypothesisScorer,
        added: Float[Tensor, "R"] | None,
        scores: Float[Tensor, "n k"],
        rows: Int[Tensor, "n k"],
        length: int,
        live: Int[Tensor, "n"],
        pool: FinishedHypotheses,
    ) -> Float[Tensor, "n"]:
        """Return the highest score that each sentence's unfinished hypotheses have, or could reach."""
        # With alpha >= 0 the penalized score is highest at the maximum length, where the divisor is largest.
        if self.config.scheme.stopping == "exact" and scorer.alpha >= 0:
            ends = 1 - self.constraints.is_truncated(self.constraints.max_length)[live].long()
            found = scorer(scores.amax(dim=1), self.constraints.max_lengths[live] + ends)
        elif added is None:
            found = scorer(scores.amax(dim=1), length)
        else:
            found = (scorer(scores, length) + added[rows]).amax(dim=1)
        if self.config.scheme.stopping == "first_n":
            found = found.masked_fill(pool.worst_score(live) > _NEG_INF, _NEG_INF)
        # Hypotheses that the next step truncates still have to enter the pool, so the sentence is not done.
        truncated = self.constraints.is_truncated(length)[live] & (scores > _NEG_INF).any(dim=1)
        return found.masked_fill(truncated, float("inf"))

    def _hypotheses(self, pool: FinishedHypotheses) -> list[list[Hypothesis]]:
        """Return the hypotheses in the pool, with tokens and attention from the trace."""
        scores = pool.scores[:, : self.config.num_return].cpu()
        found = scores > _NEG_INF
        sentence, _ = found.nonzero(as_tuple=True)
        # Only NaN scores leave a sentence without any hypothesis, because all comparisons with NaN are false.
        if len(sentence) == 0 or not found[:, 0].all():
            number = int((~found[:, 0]).nonzero()[0, 0]) + 1
            raise RegardError(
                f"the model's log-probabilities are NaN (sentence {number} of a batch): its weights are "
                "damaged or training diverged; train again with a lower learning rate"
            )
        paths = self.trace.backtrace(
            pool.steps[:, : self.config.num_return].cpu()[found].numpy(),
            pool.rows[:, : self.config.num_return].cpu()[found].numpy(),
            pool.eos_log_probs[:, : self.config.num_return].cpu()[found].numpy(),
            self.source.lengths.cpu()[sentence].numpy(),
        )
        results: list[list[Hypothesis]] = [[] for _ in range(len(self.source))]
        for number, score, path in zip(sentence.tolist(), scores[found].tolist(), paths, strict=True):
            results[number].append(path.to_hypothesis(score))
        return results
