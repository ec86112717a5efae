"""Beam search over a batch of sentences; greedy search is a beam of 1 through the same code.

Each live sentence has up to `beam` unfinished hypotheses. A step scores all continuations; those that end
among a sentence's `beam` best leave the beam and are kept if they are among its n-best, the best `beam`
others go on. A sentence is done when no unfinished hypothesis beats the worst of its n-best finished ones:
as it stands (`stop = "likely"`, with the length penalty of its present length), or if it went on to the
maximum length at no cost (`stop = "certain"`); then its rows leave the batch.

Nothing here depends on which sentences share the batch. Of equal scores the one from the better hypothesis
goes first, and the end symbol before other tokens.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from regard.data.batch import Sequences
from regard.data.vocabulary import BOS
from regard.decoding.config import SearchConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import Scorer
from regard.decoding.rules import Rules
from regard.decoding.trace import Trace
from regard.errors import RegardError
from regard.layers.rows import Rows, select_rows
from regard.models.base import Memories, TranslationModel
from regard.types import Float, Int, Tensor

__all__ = ["beam_search", "evaluating"]

_NEVER = -float("inf")
# Taking rows out copies the memories of all others, so it waits until this share of a batch is done.
_LEAVE = 1 / 8
_FORGET = 64  # steps after which the attention of abandoned hypotheses is let go


@contextmanager
def evaluating(model: TranslationModel) -> Iterator[None]:
    """Without dropout and gradients."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def beam_search(
    model: TranslationModel,
    source: Sequences,
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    upper: Float[Tensor, "B S"] | None = None,
    lower: Float[Tensor, "B S"] | None = None,
    scorer: Scorer | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch.

    Args:
        model: The model.
        source: B sentences, each of at least one token, on the model's device.
        config: How to search.
        prefixes: The tokens that each translation must start with.
        upper: The most attention each word may receive, for mechanisms that bound it.
        lower: The least each word should receive.
        scorer: How finished hypotheses are ranked; without it, by `config.length_penalty` alone.

    Returns:
        For each sentence its hypotheses, best first: `config.nbest` of them, or as many as there are.

    Raises:
        RegardError: if the model's probabilities are not numbers.
    """
    with evaluating(model):
        memories, state = model.begin(source, upper, lower)
        return _Search(source, config, prefixes, scorer or Scorer(config.length_penalty)).run(
            model, memories, state
        )


class _Search:
    """One batch's search."""

    def __init__(
        self,
        source: Sequences,
        config: SearchConfig,
        prefixes: Sequence[Sequence[int]] | None,
        scorer: Scorer,
    ) -> None:
        self.source = source
        self.config = config
        self.scorer = scorer
        self.rules = Rules(config, source, prefixes)
        self.trace = Trace()

    def run(self, model: TranslationModel, memories: Memories, state: Rows) -> list[list[Hypothesis]]:
        beam, device = self.config.beam, self.source.tokens.device
        live = torch.arange(len(self.source), device=device)  # the sentences in the batch
        width = 1  # rows of each
        tokens = torch.full_like(live, BOS)
        scores = torch.zeros(
            len(live), 1, dtype=torch.float64, device=device
        )  # log-probabilities so far, [n, width]
        pool = _Pool(len(live), self.config.nbest, device)
        history = tokens[:, None][:, :0] if self.rules.remembers else None
        attended: tuple[Tensor, ...] | None = None
        for step in range(self.rules.longest + 1):
            prediction = model.step(tokens, memories, state)
            weights = tuple(reading.weights for reading in prediction.readings)
            self.trace.read(weights)
            if self.scorer.additions:
                attended = (
                    weights
                    if attended is None
                    else tuple(a + w for a, w in zip(attended, weights, strict=True))
                )
            owners = live.repeat_interleave(width)
            values, ids = self.rules.candidates(
                prediction.log_probs, beam, step, owners, history, prediction.ending
            )
            choices = values.shape[1]
            totals = (scores.view(-1, 1) + values).view(len(live), -1)
            totals, order = totals.sort(dim=1, descending=True, stable=True)
            totals, order = totals[:, : 2 * beam], order[:, : 2 * beam]
            ended = order % choices == 0  # the end symbol stands in the first column
            rows = order // choices + torch.arange(len(live), device=device).unsqueeze(1) * width

            finished = totals[:, :beam].masked_fill(~ended[:, :beam], _NEVER)
            if bool((finished > _NEVER).any()):
                ranked = self._rank(finished, step + 1, rows[:, :beam], owners, attended)
                pool.add(live, ranked, step, rows[:, :beam], values[:, 0])

            width = min(beam, width * (choices - 1))
            chosen = ended.to(torch.int8).argsort(dim=1, stable=True)[:, :width]
            scores, order, rows = (item.gather(1, chosen) for item in (totals, order, rows))
            length = step + 1 if self.config.stop == "likely" else self.rules.limits[live] + 1
            # Written so that what is not a number counts as done.
            done = ~(self.scorer.ceiling(scores[:, 0], length) > pool.worst(live))
            leaving = int(done.sum())
            if leaving == len(live):
                break
            moved = scores.shape[1] != tokens.shape[0] // len(live)
            scores = scores.masked_fill(done.unsqueeze(1), _NEVER)
            if leaving >= _LEAVE * len(live):
                keep = (~done).nonzero().squeeze(1)
                live, scores, order, rows = (item[keep] for item in (live, scores, order, rows))
                moved = True

            # `order` counts within a sentence's rows of this step, `rows` over the whole batch.
            rows = rows.flatten()
            columns = (order % choices).flatten()
            tokens = ids[rows, columns]
            self.trace.advance(rows, tokens, values[rows, columns])
            if (step + 1) % _FORGET == 0:
                self.trace.forget(*pool.ends())
            state = model.observe(prediction, rows, tokens)
            if moved:
                memories = select_rows(memories, rows)
            if attended is not None:
                attended = select_rows(attended, rows)
            if history is not None:
                history = torch.cat([history[rows], tokens.unsqueeze(1)], dim=1)
        return self._hypotheses(pool)

    def _rank(
        self,
        finished: Float[Tensor, "n k"],
        length: int,
        rows: Int[Tensor, "n k"],
        owners: Int[Tensor, "R"],
        attended: tuple[Tensor, ...] | None,
    ) -> Float[Tensor, "n k"]:
        """The scores of hypotheses that end; minus infinity where none does."""
        if attended is None:
            return self.scorer(finished, length)
        flat = rows.flatten()
        mask = self.source.mask[owners[flat]]
        ranked = self.scorer(finished.flatten(), length, select_rows(attended, flat), mask)
        return ranked.view_as(finished)

    def _hypotheses(self, pool: "_Pool") -> list[list[Hypothesis]]:
        """Read off what is in the pool."""
        scores = pool.scores.cpu()
        found = scores > _NEVER
        sentence, _ = found.nonzero(as_tuple=True)
        if len(sentence) == 0 or not found[:, 0].all():
            number = int((~found[:, 0]).nonzero()[0, 0]) + 1
            raise RegardError(
                f"the model's probabilities are not numbers (sentence {number} of a batch): "
                "its weights are damaged, or its training diverged"
            )
        paths = self.trace.paths(
            pool.steps.cpu()[found].numpy(),
            pool.rows.cpu()[found].numpy(),
            pool.last.cpu()[found].numpy(),
            self.source.lengths.cpu()[sentence].numpy(),
        )
        results: list[list[Hypothesis]] = [[] for _ in range(len(self.source))]
        for number, score, path in zip(sentence.tolist(), scores[found].tolist(), paths, strict=True):
            results[number].append(path.hypothesis(score))
        return results


class _Pool:
    """The best finished hypotheses of each sentence, best first; minus infinity marks an empty place."""

    def __init__(self, sentences: int, size: int, device: torch.device) -> None:
        self.scores = torch.full((sentences, size), _NEVER, dtype=torch.float64, device=device)
        self.last = torch.zeros_like(self.scores)  # log-probability of the end symbol
        self.steps = torch.zeros_like(self.scores, dtype=torch.long)
        self.rows = torch.zeros_like(self.steps)

    def worst(self, sentences: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        """What a hypothesis must beat to get in."""
        return self.scores[sentences, -1]

    def ends(self) -> tuple[Int[Tensor, "N"], Int[Tensor, "N"]]:
        """The steps and rows in which the hypotheses ended."""
        found = self.scores > _NEVER
        return self.steps[found], self.rows[found]

    def add(
        self,
        sentences: Int[Tensor, "n"],
        scores: Float[Tensor, "n k"],
        step: int,
        rows: Int[Tensor, "n k"],
        ends: Float[Tensor, "R"],
    ) -> None:
        """Let hypotheses in that ended.

        Args:
            sentences: The sentences in the batch.
            scores: Up to k hypotheses of each; minus infinity where there is none.
            step: The step of all.
            rows: The row of each.
            ends: The end symbol's log-probability in every row.
        """
        size = self.scores.shape[1]
        merged = torch.cat([self.scores[sentences], scores], dim=1)
        best, places = merged.sort(dim=1, descending=True, stable=True)
        self.scores[sentences] = best[:, :size]
        for kept, new in (
            (self.last, ends[rows]),
            (self.steps, torch.full_like(rows, step)),
            (self.rows, rows),
        ):
            both = torch.cat([kept[sentences], new.to(kept.dtype)], dim=1)
            kept[sentences] = both.gather(1, places[:, :size])
