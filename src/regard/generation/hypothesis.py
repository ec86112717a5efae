"""Hypotheses of a search: finished ones, the best of each sentence, and the record of all steps.

A search only stores its tensors (`SearchTrace`). The hypotheses are reconstructed at the end by following the
parents backward, for all hypotheses at once. In a long search, most past rows do not lead to any hypothesis.
Their attention weights are released at intervals, so that memory grows with the number of surviving
hypotheses only.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from regard.types import Float, Int, Tensor

__all__ = ["FinishedHypotheses", "Hypothesis", "SearchTrace"]


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation of one sentence.

    Attributes:
        tokens: Token ids, without start and end symbol. An end symbol always follows them.
        score: Score that search ranks by: the log-probability divided by the length penalty, plus the
            coverage penalty.
        log_probability: log p(tokens, end symbol | source) under the model, in nats.
        token_log_probs: Log-probability of each token and, last, of the end symbol, in nats.
        attention: Weights [T, H, S] of each attention layer in float32: T time steps including that of the
            end symbol, H heads, S source tokens without padding.
        posteriors: Posterior attention in the same form, after each token is known. Empty if it equals
            `attention`. With hard attention, it holds the probability of each selection. Search itself leaves
            it empty; `NeuralTranslator` fills it in.
        truncated: Of a sampled hypothesis: whether the end symbol was forced, because the maximum length was
            reached or no attention was left.
    """

    tokens: tuple[int, ...]
    score: float
    log_probability: float
    token_log_probs: tuple[float, ...]
    attention: tuple[Float[np.ndarray, "T _ S"], ...]
    posteriors: tuple[Float[np.ndarray, "T _ S"], ...] = ()
    truncated: bool = False

    @property
    def posterior_attention(self) -> tuple[Float[np.ndarray, "T _ S"], ...]:
        """Return the posterior attention of each token: `posteriors`, or `attention` if they are equal."""
        return self.posteriors or self.attention


_NEG_INF = -float("inf")


class FinishedHypotheses:
    """The best finished hypotheses of each sentence, best first. Empty slots have the score minus infinity.

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

    def add(
        self,
        sentences: Int[Tensor, "n"],
        scores: Float[Tensor, "n k"],
        step: int,
        rows: Int[Tensor, "n k"],
        eos_log_probs: Float[Tensor, "R"],
    ) -> None:
        """Add hypotheses that ended at `step` and keep the best ones.

        Args:
            sentences: Indices of the sentences in the batch.
            scores: Scores of up to k hypotheses per sentence; minus infinity for unused slots.
            step: Time step of all hypotheses.
            rows: Row of each hypothesis.
            eos_log_probs: Log-probability of the end symbol in every row.
        """
        size = self.scores.shape[1]
        merged = torch.cat([self.scores[sentences], scores], dim=1)
        best, places = merged.sort(dim=1, descending=True, stable=True)
        self.scores[sentences] = best[:, :size]
        for stored, new in (
            (self.eos_log_probs, eos_log_probs[rows]),
            (self.steps, torch.full_like(rows, step)),
            (self.rows, rows),
        ):
            both = torch.cat([stored[sentences], new.to(stored.dtype)], dim=1)
            stored[sentences] = both.gather(1, places[:, :size])


class SearchTrace:
    """A growing record of search steps."""

    def __init__(self) -> None:
        """Create an empty record."""
        self._weights: list[tuple[Tensor, ...]] = []
        self._parents: list[Tensor] = []
        self._tokens: list[Tensor] = []
        self._log_probs: list[Tensor] = []
        # step -> rows whose weights are stored, if not all are
        self._kept: dict[int, Int[np.ndarray, "K"]] = {}

    def add_attention(self, weights: tuple[Float[Tensor, "R _ S"], ...]) -> None:
        """Store the attention weights of a step, layer by layer."""
        self._weights.append(weights)

    def add_step(
        self,
        parents: Int[Tensor, "N"],
        tokens: Int[Tensor, "N"],
        log_probs: Float[Tensor, "N"],
    ) -> None:
        """Store the parent of each row of the next step, its new token and the token's log-probability."""
        self._parents.append(parents)
        self._tokens.append(tokens)
        self._log_probs.append(log_probs)

    def release_unused(self, ended: Int[Tensor, "N"], rows: Int[Tensor, "N"]) -> None:
        """Release the weights of rows that are not part of any hypothesis.

        Args:
            ended: Time steps at which the finished hypotheses ended.
            rows: Their rows at these steps. All rows of the last step are part of a hypothesis.
        """
        steps, ends = ended.cpu().numpy(), rows.cpu().numpy()
        parents = _to_arrays(self._parents)
        alive = np.unique(parents[-1])
        for t in range(len(parents) - 1, -1, -1):
            alive = np.union1d(alive, ends[steps == t])
            if len(alive) < len(self._weights[t][0] if self._weights[t] else alive):
                self._weights[t] = self._weights_of_rows(t, alive)
                self._kept[t] = alive
            # The parents of surviving rows survive as well.
            if t:
                alive = np.unique(parents[t - 1][alive])

    def _weights_of_rows(self, step: int, rows: Int[np.ndarray, "N"]) -> tuple[Tensor, ...]:
        """Return the weights of some rows of a step."""
        places = rows
        if step in self._kept:
            # Rows of hypotheses that ended earlier are arbitrary; their weights are cut off later.
            places = np.searchsorted(self._kept[step], rows).clip(max=len(self._kept[step]) - 1)
        index = torch.from_numpy(places)
        return tuple(layer.index_select(0, index.to(layer.device)) for layer in self._weights[step])

    def backtrace(
        self,
        steps: Int[np.ndarray, "N"],
        rows: Int[np.ndarray, "N"],
        last: Float[np.ndarray, "N"],
        lengths: Int[np.ndarray, "N"],
    ) -> list[Hypothesis]:
        """Reconstruct the finished hypotheses, with their log-probability as score.

        Args:
            steps: Time step at which each hypothesis ended, counted from 0.
            rows: Its row at that step.
            last: Log-probability of the end symbol, in nats.
            lengths: Number of source tokens.
        """
        if not len(steps):
            return []
        last_step = int(steps.max())
        parents, tokens, logs = (
            _to_arrays(items[:last_step]) for items in (self._parents, self._tokens, self._log_probs)
        )
        # row of each hypothesis at each step
        pointers = np.zeros((last_step + 1, len(steps)), dtype=np.int64)
        chosen_tokens = np.zeros((last_step, len(steps)), dtype=np.int64)
        log_probs = np.zeros((last_step, len(steps)), dtype=np.float64)
        row = np.where(steps == last_step, rows, 0)
        pointers[last_step] = row
        for t in range(last_step - 1, -1, -1):
            # Hypotheses that end later are followed to their parent; others wait at their last row.
            active = steps > t
            child = np.where(active, row, 0)
            chosen_tokens[t], log_probs[t] = tokens[t][child], logs[t][child]
            row = np.where(active, parents[t][child], np.where(steps == t, rows, 0))
            pointers[t] = row
        weights = [self._weights_of_rows(t, rows) for t, rows in enumerate(pointers)]
        attention = [torch.stack(layer).float().cpu().numpy() for layer in zip(*weights, strict=True)]
        hypotheses: list[Hypothesis] = []
        for i, (t, length) in enumerate(zip(steps.tolist(), lengths.tolist(), strict=True)):
            logs = (*log_probs[:t, i].tolist(), float(last[i]))
            total, path = math.fsum(logs), tuple(chosen_tokens[:t, i].tolist())
            weights = tuple(layer[: t + 1, i, :, :length].copy() for layer in attention)
            hypotheses.append(Hypothesis(path, total, total, logs, weights))
        return hypotheses


def _to_arrays(tensors: list[Tensor]) -> list[np.ndarray]:
    """Convert 1-D tensors to arrays with a single copy to the CPU."""
    if not tensors:
        return []
    whole = torch.cat(tensors).cpu().numpy()
    return np.split(whole, np.cumsum([len(tensor) for tensor in tensors])[:-1])
