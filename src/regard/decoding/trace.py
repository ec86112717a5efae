"""The steps a search took: what each row chose, where it came from and what it attended to.

Rows are written down as they come; hypotheses are read off at the end by following parents backwards, for
all hypotheses at once, so that a step costs search nothing but keeping its tensors. In a long search most
rows of the past lead nowhere: now and then their weights are let go, so that memory grows with the hypotheses
that live and not with all that were tried.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from regard.decoding.hypothesis import Hypothesis
from regard.types import Float, Int, Tensor

__all__ = ["Path", "Trace"]


@dataclass(frozen=True)
class Path:
    """How one hypothesis came about; see `Hypothesis` for the fields."""

    tokens: tuple[int, ...]
    token_log_probs: tuple[float, ...]
    attention: tuple[Float[np.ndarray, "T _ S"], ...]

    def hypothesis(self, score: float) -> Hypothesis:
        """The hypothesis of this path, ranked by `score`."""
        return Hypothesis(
            self.tokens, score, math.fsum(self.token_log_probs), self.token_log_probs, self.attention
        )


class Trace:
    """A growing record of search steps."""

    def __init__(self) -> None:
        """Start empty."""
        self._weights: list[tuple[Tensor, ...]] = []
        self._parents: list[Tensor] = []
        self._tokens: list[Tensor] = []
        self._log_probs: list[Tensor] = []
        self._kept: dict[int, Int[np.ndarray, "K"]] = {}  # where not all rows' weights are kept: which

    def read(self, weights: tuple[Float[Tensor, "R _ S"], ...]) -> None:
        """Keep what the rows of a step attend to, layer by layer."""
        self._weights.append(weights)

    def advance(
        self,
        parents: Int[Tensor, "N"],
        tokens: Int[Tensor, "N"],
        log_probs: Float[Tensor, "N"],
    ) -> None:
        """Keep what the rows of the next step are.

        Args:
            parents: The row of this step that each goes on from.
            tokens: The token it chose.
            log_probs: That token's log-probability.
        """
        self._parents.append(parents)
        self._tokens.append(tokens)
        self._log_probs.append(log_probs)

    def forget(self, ended: Int[Tensor, "N"], rows: Int[Tensor, "N"]) -> None:
        """Let go of the weights of rows that no hypothesis came through.

        Args:
            ended: The steps at which the hypotheses ended that are still of interest.
            rows: Their rows there. Rows of the last step all count as alive.
        """
        steps, ends = ended.cpu().numpy(), rows.cpu().numpy()
        parents = _split(self._parents)
        alive = np.unique(parents[-1])
        for t in range(len(parents) - 1, -1, -1):
            alive = np.union1d(alive, ends[steps == t])
            if len(alive) < len(self._weights[t][0] if self._weights[t] else alive):
                self._weights[t] = self._rows_of(t, alive)
                self._kept[t] = alive
            if t:
                alive = np.unique(parents[t - 1][alive])

    def _rows_of(self, step: int, rows: Int[np.ndarray, "N"]) -> tuple[Tensor, ...]:
        """The weights of some rows of a step."""
        places = rows
        if step in self._kept:
            # A hypothesis that ended before this step points anywhere.
            places = np.searchsorted(self._kept[step], rows).clip(max=len(self._kept[step]) - 1)
        index = torch.from_numpy(places)
        return tuple(layer.index_select(0, index.to(layer.device)) for layer in self._weights[step])

    def paths(
        self,
        steps: Int[np.ndarray, "N"],
        rows: Int[np.ndarray, "N"],
        last: Float[np.ndarray, "N"],
        lengths: Int[np.ndarray, "N"],
    ) -> list[Path]:
        """The hypotheses that ended.

        Args:
            steps: The step, from 0, at which each chose the end symbol.
            rows: The row it had in that step.
            last: The log-probability of the end symbol there.
            lengths: How many source tokens it has.
        """
        if not len(steps):
            return []
        chosen = int(steps.max())
        parents, tokens, logs = (
            _split(items[:chosen]) for items in (self._parents, self._tokens, self._log_probs)
        )
        pointers = np.zeros((chosen + 1, len(steps)), dtype=np.int64)  # each one's row at each step
        said = np.zeros((chosen, len(steps)), dtype=np.int64)
        found = np.zeros((chosen, len(steps)), dtype=np.float64)
        row = np.where(steps == chosen, rows, 0)
        pointers[chosen] = row
        for t in range(chosen - 1, -1, -1):
            going = steps > t
            child = np.where(going, row, 0)
            said[t], found[t] = tokens[t][child], logs[t][child]
            row = np.where(going, parents[t][child], np.where(steps == t, rows, 0))
            pointers[t] = row
        attention = self._gather(pointers)
        return [
            Path(
                tuple(said[:t, i].tolist()),
                (*found[:t, i].tolist(), float(last[i])),
                tuple(layer[: t + 1, i, :, :length].copy() for layer in attention),
            )
            for i, (t, length) in enumerate(zip(steps.tolist(), lengths.tolist(), strict=True))
        ]

    def _gather(self, pointers: Int[np.ndarray, "T N"]) -> list[Float[np.ndarray, "T N H S"]]:
        """The weights of the rows pointed at, layer by layer."""
        steps = [self._rows_of(t, rows) for t, rows in enumerate(pointers)]
        return [torch.stack(layer).float().cpu().numpy() for layer in zip(*steps, strict=True)]


def _split(tensors: list[Tensor]) -> list[np.ndarray]:
    """Tensors of one axis as arrays, moved to the CPU in one go."""
    if not tensors:
        return []
    whole = torch.cat(tensors).cpu().numpy()
    return np.split(whole, np.cumsum([len(tensor) for tensor in tensors])[:-1])
