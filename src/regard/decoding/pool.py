"""The finished hypotheses of a search, sentence by sentence."""

import torch

from regard.types import Bool, Float, Int, Tensor

__all__ = ["Pool"]

_NEVER = -float("inf")


class Pool:
    """The best finished hypotheses of each sentence, best first; minus infinity marks an empty place.

    A sentence that is done for one scorer may go on for another: its pool is closed.

    Args:
        sentences: How many sentences.
        size: How many hypotheses of each are kept.
        device: Where.
    """

    def __init__(self, sentences: int, size: int, device: torch.device) -> None:
        """Start empty."""
        self.scores = torch.full((sentences, size), _NEVER, dtype=torch.float64, device=device)
        self.last = torch.zeros_like(self.scores)  # log-probability of the end symbol
        self.steps = torch.zeros_like(self.scores, dtype=torch.long)
        self.rows = torch.zeros_like(self.steps)
        self.closed = torch.zeros(sentences, dtype=torch.bool, device=device)

    def close(self, sentences: Int[Tensor, "n"], ceiling: Float[Tensor, "n"]) -> None:
        """Let nothing more in for sentences whose unfinished hypotheses will not beat what is here.

        Args:
            sentences: The sentences in the batch.
            ceiling: What their unfinished hypotheses may still come to.
        """
        # Written so that what is not a number counts as done.
        self.closed[sentences] |= ~(ceiling > self.worst(sentences))

    def worst(self, sentences: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        """What a hypothesis must beat to get in."""
        return self.scores[sentences, -1]

    def empty(self, sentences: Int[Tensor, "n"]) -> Bool[Tensor, "n"]:
        """Whether nothing is in."""
        return ~(self.scores[sentences, 0] > _NEVER)

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
        scores = scores.masked_fill(self.closed[sentences].unsqueeze(1), _NEVER)
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
