"""Hypotheses of a search: their scores, the best of each sentence, and the record of all steps.

A search only stores its tensors (`SearchTrace`). The hypotheses are reconstructed at the end by following the
parents backward, for all hypotheses at once. In a long search, most past rows do not lead to any hypothesis.
Their attention weights are released at intervals, so that memory grows with the number of surviving
hypotheses only.

A score consists of log-probability, length penalty and coverage penalty. Wu et al. (2016), Eq. 14:

    score = log P(y | x) / lp(y) + cp(x, y),   lp(y) = ((5 + |y|) / 6)^alpha,
    cp(x, y) = beta sum_j log max(eps, min(1, sum_t a_tj)),

where |y| includes the end symbol, j runs over the source tokens (without padding and sink) and t over all
time steps including that of the end symbol. The floor eps is that of Malaviya et al. (2018), footnote 5: with
sparse attention the total attention of a word may be 0, whose logarithm is not finite. The coverage penalty
is at most 0, so search can bound the score that a hypothesis may still reach.

Hugging Face's transformers divides by |y|^alpha instead, and |y| includes tokens that are forced at the
start.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.generation.config import GenerationConfig
from regard.types import Bool, Float, Int, Tensor


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


@dataclass(frozen=True)
class HypothesisScorer:
    """Scoring function of hypotheses."""

    alpha: float = 0.0  # exponent of the length penalty; 0 disables it
    coverage_weight: float = 0.0  # beta of the coverage penalty; 0 disables it
    coverage_epsilon: float = 0.1  # eps of the coverage penalty, in (0, 1]
    transformers_length_penalty: bool = False  # whether the length penalty is |y|^alpha, as in transformers
    num_forced_tokens: int = 0  # number of tokens forced at the start that |y| then includes

    @classmethod
    def from_config(cls, config: GenerationConfig, num_prefix_tokens: int = 1) -> "HypothesisScorer":
        """Return the scorer that search settings describe.

        `num_prefix_tokens` is the number of tokens before every translation, including the start symbol.
        """
        coverage, compatible = config.coverage_penalty, config.scheme.hf_compatible
        # The start symbol is not a forced token.
        num_forced = num_prefix_tokens - 1 if compatible else 0
        return cls(config.length_penalty, coverage.weight, coverage.epsilon, compatible, num_forced)

    def penalty(self, length: Any) -> Any:
        """Return the divisor of log-probabilities, of a number or a tensor that includes the end symbol."""
        if self.transformers_length_penalty:
            return (length + self.num_forced_tokens) ** self.alpha
        return ((5 + length) / 6) ** self.alpha

    def coverage_penalty(
        self, attention: tuple[Float[Tensor, "N _ S"], ...], words: Bool[Tensor, "N S"]
    ) -> Float[Tensor, "N"] | None:
        """Return the coverage penalty, from the mean of the heads of the last layer; None without one.

        Args:
            attention: Weights of each layer, summed over all time steps.
            words: True at source tokens other than padding and sink; see `PaddedSequences.word_mask`.
        """
        if not self.coverage_weight:
            return None
        # The floor keeps the logarithm finite; the ceiling is the min(1, .) of Eq. 14.
        received = attention[-1].mean(dim=1).clamp(self.coverage_epsilon, 1.0)
        return self.coverage_weight * received.log().masked_fill(~words, 0.0).sum(dim=-1)


_NEG_INF = -float("inf")


class FinishedHypotheses:
    """The best finished hypotheses of each sentence, best first. Empty slots have the score -inf."""

    def __init__(self, sentences: int, size: int, device: torch.device) -> None:
        """Create an empty pool with `size` slots per sentence."""
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

        The scores of unused slots are minus infinity. `eos_log_probs` has all rows of the batch.
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


@dataclass
class SearchTrace:
    """A growing record of search steps.

    Attributes:
        weights: Attention weights [R, H, S] of each layer, for each step.
        choices: For each step, the parent of each row of the next step, its new token, and the
            log-probability of the token.
    """

    weights: list[tuple[Tensor, ...]] = field(default_factory=list)
    choices: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    # step -> rows whose weights are stored, if not all are
    _stored: dict[int, Int[np.ndarray, "K"]] = field(default_factory=dict)

    def release_unused(self, ended: Int[Tensor, "N"], rows: Int[Tensor, "N"]) -> None:
        """Release the weights of rows that are not part of any hypothesis.

        Finished hypotheses ended at the steps `ended`, in `rows`; those of the last step are unfinished.
        """
        steps, ends = ended.cpu().numpy(), rows.cpu().numpy()
        parents = _to_arrays([parents for parents, _, _ in self.choices])
        alive = np.unique(parents[-1])
        for t in range(len(parents) - 1, -1, -1):
            alive = np.union1d(alive, ends[steps == t])
            if len(alive) < len(self.weights[t][0] if self.weights[t] else alive):
                self.weights[t] = self._weights_of_rows(t, alive)
                self._stored[t] = alive
            # The parents of surviving rows survive as well.
            if t:
                alive = np.unique(parents[t - 1][alive])

    def _weights_of_rows(self, step: int, rows: Int[np.ndarray, "N"]) -> tuple[Tensor, ...]:
        """Return the weights of some rows of a step."""
        places = rows
        if step in self._stored:
            # Rows of hypotheses that ended earlier are arbitrary; their weights are cut off later.
            places = np.searchsorted(self._stored[step], rows).clip(max=len(self._stored[step]) - 1)
        index = torch.from_numpy(places)
        return tuple(layer.index_select(0, index.to(layer.device)) for layer in self.weights[step])

    def backtrace(
        self,
        steps: Int[np.ndarray, "N"],
        rows: Int[np.ndarray, "N"],
        last: Float[np.ndarray, "N"],
        lengths: Int[np.ndarray, "N"],
    ) -> list[Hypothesis]:
        """Reconstruct the hypotheses that ended at `steps` in `rows`, with their log-probability as score.

        `last` is the log-probability of the end symbol in nats, `lengths` the number of source tokens.
        """
        if not len(steps):
            return []
        last_step = int(steps.max())
        choices = self.choices[:last_step]
        parents, tokens, logs = (_to_arrays([choice[i] for choice in choices]) for i in range(3))
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
