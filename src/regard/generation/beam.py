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

Required terms divide the beam into banks and delay the end symbol (`regard.generation.constrained`).

The results of a sentence do not depend on the rest of the batch. Ties are broken in favor of the better
hypothesis, then of the end symbol.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.data.batch import PaddedSequences
from regard.errors import RegardError
from regard.generation.config import GenerationConfig
from regard.generation.constrained import TermConstraints, TermState
from regard.generation.hypothesis import FinishedHypotheses, Hypothesis, HypothesisScorer, SearchTrace
from regard.generation.token_constraints import Candidates, TokenConstraints
from regard.layers.batched_state import BatchedState, select_rows
from regard.models.base import Memories, Prediction, TranslationModel
from regard.text.vocabulary import BOS
from regard.types import Bool, Float, Int, Tensor

_NEG_INF = -float("inf")
MIN_DONE_SHARE = 1 / 8
"""Share of a batch that must be done before its rows are removed, which may copy all other memories."""
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
    terms: TermConstraints | None = None,
    upper: Float[Tensor, "B S"] | None = None,
    lower: Float[Tensor, "B S"] | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch.

    Args:
        model: The model.
        source: B sentences of at least one token each, on the model's device.
        config: Search settings.
        prefixes: Token ids that each translation must start with.
        terms: Terms that the translations must contain.
        upper: Maximum attention each source position may receive, for mechanisms with upper bounds.
        lower: Minimum attention each source position should receive.

    Returns:
        For each sentence its hypotheses, best first: `config.num_return` of them, or fewer if search found
        fewer. All contain every required term, unless no hypothesis could.

    Raises:
        RegardError: if the model's log-probabilities are NaN.
    """
    with eval_mode(model):
        memories, state = model.begin(source, upper, lower)
        return _BeamSearch(model, source, config, prefixes, terms).run(memories, state)


@dataclass(frozen=True)
class _Beam:
    """The unfinished hypotheses of n sentences: `width` rows per sentence, R = n * width rows in all."""

    live: Int[Tensor, "n"]  # indices of the unfinished sentences
    width: int  # rows per sentence
    tokens: Int[Tensor, "R"]  # last token of each row
    # Cumulative log-probabilities, in float64 because they are sums over many steps.
    scores: Float[Tensor, "n width"]
    memories: Memories  # encoded sources of all rows
    state: BatchedState  # decoder state of all rows
    # Attention of each layer, summed over the time steps; None if the scorer needs none.
    attended: tuple[Tensor, ...] | None = None
    history: Int[Tensor, "R T"] | None = None  # tokens of each row; None if no constraint needs them
    progress: TermState | None = None  # matched terms of each row; None without terms


@dataclass(frozen=True)
class _Extensions:
    """The best extensions of the rows of a beam, sorted within each sentence."""

    totals: Float[Tensor, "n c"]  # cumulative log-probabilities
    order: Int[Tensor, "n c"]  # indices of the extensions among the candidates of the sentence
    rows: Int[Tensor, "n c"]  # row in the batch from which each extension starts
    ended: Bool[Tensor, "n c"]  # whether the extension ends in the end symbol
    candidates: Candidates  # candidate tokens of each row, [R, choices]
    penalty: Float[Tensor, "R"] | None  # coverage penalty of each row; None for a scorer without one
    attended: tuple[Tensor, ...] | None  # attention of each layer, summed including this time step
    progress: TermState | None  # matched terms of all extensions


class _BeamSearch:
    """Search of one batch."""

    def __init__(
        self,
        model: TranslationModel,
        source: PaddedSequences,
        config: GenerationConfig,
        prefixes: Sequence[Sequence[int]] | None,
        terms: TermConstraints | None,
    ) -> None:
        self.model = model
        self.source = source
        self.config = config
        self.scorer = HypothesisScorer.from_config(config, len(model.constraints.prefix))
        self.source_mask = source.word_mask
        self.terms = terms
        extra_tokens = None if terms is None else terms.num_tokens
        self.constraints = TokenConstraints(config, source, model, prefixes, extra_tokens)
        self.trace = SearchTrace()
        num_stored = config.beam_size if config.scheme.hf_compatible else config.num_return
        self.pool = FinishedHypotheses(len(source), num_stored, source.tokens.device)

    def run(self, memories: Memories, state: BatchedState) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence."""
        live = torch.arange(len(self.source), device=self.source.tokens.device)
        scores = torch.zeros(len(live), 1, dtype=torch.float64, device=live.device)
        history = self.constraints.before.expand(len(live), -1) if self.constraints.needs_history else None
        progress = None if self.terms is None else self.terms.initial_state()
        beam = _Beam(live, 1, torch.full_like(live, BOS), scores, memories, state, None, history, progress)
        for step in range(self.constraints.max_length + 1):
            prediction = self.model.step(beam.tokens, beam.memories, beam.state)
            extensions = self._extend(beam, prediction, step)
            self._finish(beam, extensions, step)
            advanced = self._advance(beam, prediction, extensions, step)
            if advanced is None:
                break
            beam = advanced
        return self._hypotheses()

    def _extend(self, beam: _Beam, prediction: Prediction, step: int) -> _Extensions:
        """Return the best extensions of all rows."""
        live, width = beam.live, beam.width
        weights = tuple(attention.weights for attention in prediction.attention_steps)
        self.trace.weights.append(weights)
        owners = live.repeat_interleave(width)
        penalty, attended = None, beam.attended
        if self.scorer.coverage_weight:
            before = attended or tuple(map(torch.zeros_like, weights))
            attended = tuple(a + w for a, w in zip(before, weights, strict=True))
            penalty = self.scorer.coverage_penalty(attended, self.source_mask[owners])
        progress = beam.progress
        required_tokens = None if progress is None else progress.next_tokens(beam.tokens, owners)
        size = self.config.beam_size
        candidates = self.constraints.candidates(
            prediction.log_probs, size, step, owners, beam.history, prediction.eos_constraint, required_tokens
        )
        choices = candidates.values.shape[1]
        totals = beam.scores.view(-1, 1) + candidates.score_increments
        totals = totals.view(len(live), -1)  # (n, width * choices)
        if progress is not None:
            progress = progress.extend(beam.tokens, candidates.tokens, owners)
            totals = progress.mask_incomplete(totals, choices, ~(self.pool.scores[live, 0] > _NEG_INF))
        totals, order = self._sort_extensions(totals, penalty, step + 1)
        if progress is not None:
            totals, order = progress.allocate_beam(totals, order)
        # At most `size` of the extensions end, so 2 * size of them always leave `size` to continue.
        totals, order = totals[:, : 2 * size], order[:, : 2 * size]
        ended = order % choices == 0  # the first column of the candidates is the end symbol
        rows = order // choices + torch.arange(len(live), device=live.device).unsqueeze(1) * width
        return _Extensions(totals, order, rows, ended, candidates, penalty, attended, progress)

    def _finish(self, beam: _Beam, extensions: _Extensions, step: int) -> None:
        """Add the extensions that end to the pools."""
        size = self.config.beam_size
        finished = extensions.totals[:, :size].masked_fill(~extensions.ended[:, :size], _NEG_INF)
        if not bool((finished > _NEG_INF).any()):
            return
        # A hypothesis that is truncated at the maximum length has no end symbol to count.
        truncated = self.constraints.is_truncated(step)[beam.live].long()
        lengths = (step + 1 - truncated).unsqueeze(1).expand_as(finished)
        rows = extensions.rows[:, :size]
        ranked = finished / self.scorer.penalty(lengths)
        ranked = ranked if extensions.penalty is None else ranked + extensions.penalty[rows]
        self.pool.add(beam.live, ranked, step, rows, extensions.candidates.values[:, 0])

    def _advance(
        self, beam: _Beam, prediction: Prediction, extensions: _Extensions, step: int
    ) -> _Beam | None:
        """Return the next beam, the best extensions that do not end, or None if all sentences are done."""
        live, choices = beam.live, extensions.candidates.values.shape[1]
        width = min(self.config.beam_size, beam.width * (choices - 1))
        # A stable sort moves finished extensions to the end and keeps the ranking of the others.
        chosen = extensions.ended.to(torch.int8).argsort(dim=1, stable=True)[:, :width]
        scores, order, rows = (
            item.gather(1, chosen) for item in (extensions.totals, extensions.order, extensions.rows)
        )
        best = self._best_attainable_score(extensions.penalty, scores, rows, step + 1, live)
        # The negated comparison treats NaN as done, so that search terminates.
        done = ~(best > self.pool.scores[live, -1])
        num_done = int(done.sum())
        if num_done == len(live):
            return None
        # Memories are reordered only if rows change sentences, since all rows of a sentence share them.
        moved = scores.shape[1] != beam.tokens.shape[0] // len(live)
        scores = scores.masked_fill(done.unsqueeze(1), _NEG_INF)
        if num_done >= MIN_DONE_SHARE * len(live):
            keep = (~done).nonzero().squeeze(1)
            live, scores, order, rows = (item[keep] for item in (live, scores, order, rows))
            moved = True
        # `order` indexes the candidates of one sentence at this step, `rows` the rows of the whole batch.
        rows = rows.flatten()
        columns = (order % choices).flatten()
        tokens = extensions.candidates.tokens[rows, columns]
        progress = extensions.progress
        if progress is not None:
            progress = progress.select(rows * choices + columns)
        self.trace.choices.append((rows, tokens, extensions.candidates.values[rows, columns]))
        if (step + 1) % _RELEASE_EVERY == 0:
            stored = self.pool.scores > _NEG_INF
            self.trace.release_unused(self.pool.steps[stored], self.pool.rows[stored])
        state = self.model.update(prediction, rows, tokens)
        memories = select_rows(beam.memories, rows) if moved else beam.memories
        attended = None if extensions.attended is None else select_rows(extensions.attended, rows)
        history = beam.history
        if history is not None:
            history = torch.cat([history[rows], tokens.unsqueeze(1)], dim=1)
        return _Beam(live, width, tokens, scores, memories, state, attended, history, progress)

    def _sort_extensions(
        self, totals: Float[Tensor, "n c"], added: Float[Tensor, "R"] | None, length: int
    ) -> tuple[Float[Tensor, "n c"], Int[Tensor, "n c"]]:
        """Return the extensions, sorted by log-probability or (without `rescore_only`) by score."""
        if added is None or self.config.coverage_penalty.rescore_only:
            return totals.sort(dim=1, descending=True, stable=True)
        # All extensions of a row share its coverage penalty.
        penalties = added.view(len(totals), -1)
        extra = penalties.repeat_interleave(totals.shape[1] // penalties.shape[1], dim=1)
        order = (totals / self.scorer.penalty(length) + extra).argsort(dim=1, descending=True, stable=True)
        return totals.gather(1, order), order

    def _best_attainable_score(
        self,
        added: Float[Tensor, "R"] | None,
        scores: Float[Tensor, "n k"],
        rows: Int[Tensor, "n k"],
        length: int,
        live: Int[Tensor, "n"],
    ) -> Float[Tensor, "n"]:
        """Return the highest score that each sentence's unfinished hypotheses have, or could reach."""
        scorer = self.scorer
        # With alpha >= 0 the penalized score is highest at the maximum length, where the divisor is largest.
        if self.config.scheme.stopping == "exact" and scorer.alpha >= 0:
            ends = 1 - self.constraints.is_truncated(self.constraints.max_length)[live].long()
            best = scores.amax(dim=1) / scorer.penalty(self.constraints.max_lengths[live] + ends)
        elif added is None:
            best = scores.amax(dim=1) / scorer.penalty(length)
        else:
            best = (scores / scorer.penalty(length) + added[rows]).amax(dim=1)
        if self.config.scheme.stopping == "first_n":
            best = best.masked_fill(self.pool.scores[live, -1] > _NEG_INF, _NEG_INF)
        # Hypotheses that the next step truncates still have to enter the pool, so the sentence is not done.
        truncated = self.constraints.is_truncated(length)[live] & (scores > _NEG_INF).any(dim=1)
        return best.masked_fill(truncated, float("inf"))

    def _hypotheses(self) -> list[list[Hypothesis]]:
        """Return the hypotheses in the pool, with tokens and attention from the trace."""
        pool = self.pool
        scores = pool.scores[:, : self.config.num_return].cpu()
        filled = scores > _NEG_INF
        sentence, _ = filled.nonzero(as_tuple=True)
        # Only NaN scores leave a sentence without any hypothesis, because all comparisons with NaN are false.
        if len(sentence) == 0 or not filled[:, 0].all():
            number = int((~filled[:, 0]).nonzero()[0, 0]) + 1
            raise RegardError(
                f"the model's log-probabilities are NaN (sentence {number} of a batch): its weights are "
                "damaged or training diverged; train again with a lower learning rate"
            )
        paths = self.trace.backtrace(
            pool.steps[:, : self.config.num_return].cpu()[filled].numpy(),
            pool.rows[:, : self.config.num_return].cpu()[filled].numpy(),
            pool.eos_log_probs[:, : self.config.num_return].cpu()[filled].numpy(),
            self.source.lengths.cpu()[sentence].numpy(),
        )
        results: list[list[Hypothesis]] = [[] for _ in range(len(self.source))]
        for number, score, path in zip(sentence.tolist(), scores[filled].tolist(), paths, strict=True):
            results[number].append(replace(path, score=score))
        return results
