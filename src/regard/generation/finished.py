"""Storage for the finished hypotheses of each sentence during search."""

import torch

from regard.types import Bool, Float, Int, Tensor

__all__ = ["FinishedHypotheses"]

_NEG_INF = -float("inf")


class FinishedHypotheses:
    """The best finished hypotheses of each sentence, best first. Empty slots have the score minus infinity.

    If several scorers share a search, a sentence may be done for one scorer while another continues. The pool
    of the first scorer is then closed for that sentence.

    Args:
        sentences: Number of sentences.
        size: Number of hypotheses stored per sentence.
        device: Device of the tensors.
    """

    def __init__(self, sentences: int, size: int, device: torch.device) -> None:
        """Create an empty pool."""
        self.scores = torch.full((sentences, size), _NEG_INF, dtype=torch.float64, device=device)
        self.eos_log_probs = torch.zeros_like(self.scores)  # log-probability of the end symbol, in nats
        self.steps = torch.zeros_like(self.scores, dtype=torch.long)
        self.rows = torch.zeros_like(self.steps)
        self.closed = torch.zeros(sentences, dtype=torch.bool, device=device)

    def close(self, sentences: Int[Tensor, "n"], best_attainable: Float[Tensor, "n"]) -> None:
        """Close the pool for sentences whose unfinished hypotheses cannot exceed the worst stored score.

        Args:
            sentences: Indices of the sentences in the batch.
            best_attainable: Highest score that their unfinished hypotheses may reach.
        """
        # The negated comparison treats NaN as done, so that search terminates.
        self.closed[sentences] |= ~(best_attainable > self.worst_score(sentences))

    def worst_score(self, sentences: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        """Return the lowest stored score, which a new hypothesis must exceed."""
        return self.scores[sentences, -1]

    def empty(self, sentences: Int[Tensor, "n"]) -> Bool[Tensor, "n"]:
        """Return whether no hypothesis is stored."""
        return ~(self.scores[sentences, 0] > _NEG_INF)

    def end_positions(self) -> tuple[Int[Tensor, "N"], Int[Tensor, "N"]]:
        """Return the time steps and rows in which the stored hypotheses ended."""
        found = self.scores > _NEG_INF
        return self.steps[found], self.rows[found]

    def add(
        self,
        sentences: Int[Tensor, "n"],
        scores: Float[Tensor, "n k"],
        step: int,
        rows: Int[Tensor, "n k"],
        eos_log_probs: Float[Tensor, "R"],
    ) -> None:
        """Add hypotheses that ended at this step and keep the best ones.

        Args:
            sentences: Indices of the sentences in the batch.
            scores: Scores of up to k hypotheses per sentence; minus infinity for unused slots.
            step: Time step of all hypotheses.
            rows: Row of each hypothesis.
            eos_log_probs: Log-probability of the end symbol in every row.
        """
        size = self.scores.shape[1]
        scores = scores.masked_fill(self.closed[sentences].unsqueeze(1), _NEG_INF)
        merged = torch.cat([self.scores[sentences], scores], dim=1)
        best, places = merged.sort(dim=1, descending=True, stable=True)
        self.scores[sentences] = best[:, :size]
        for kept, new in (
            (self.eos_log_probs, eos_log_probs[rows]),
            (self.steps, torch.full_like(rows, step)),
            (self.rows, rows),
        ):
            both = torch.cat([kept[sentences], new.to(kept.dtype)], dim=1)
            kept[sentences] = both.gather(1, places[:, :size])
