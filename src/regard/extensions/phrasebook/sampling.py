"""Random choices of the grammar: categorical distributions and a generator that is the same everywhere."""

import itertools
import tomllib
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Generic, TypeVar

__all__ = ["Distribution", "RandomChoices", "weights", "zipf_distribution"]

_T = TypeVar("_T")


class Distribution(Generic[_T]):
    """A categorical distribution over items.

    Args:
        weights: The weight of each item, at least one; the weights need not sum to one.
    """

    def __init__(self, weights: Mapping[_T, float]) -> None:
        """Compute the cumulative distribution."""
        self.items = list(weights)
        total = list(itertools.accumulate(weights.values()))
        self.cumulative = [value / total[-1] for value in total]
        # Rounding could leave the last value below 1, and an item index out of range.
        self.cumulative[-1] = 1.0


def zipf_distribution(items: Iterable[_T]) -> Distribution[_T]:
    """Return a Zipf-like distribution: item r, counted from 1, has a weight of 1 / (r + 3)."""
    return Distribution({item: 1 / (rank + 4) for rank, item in enumerate(items)})


@cache
def weights(name: str) -> Distribution[str]:
    """Return a distribution of `tables/weights.toml`."""
    text = (Path(__file__).parent / "tables" / "weights.toml").read_text(encoding="utf-8")
    return Distribution(tomllib.loads(text)[name])


class RandomChoices:
    """A random number generator with the same results on every machine and Python version.

    It uses only `random.Random.random`, whose sequence for a seed is guaranteed by Python.
    """

    def __init__(self, seed: int) -> None:
        """Seed the generator."""
        self._random = Random(seed).random

    def bernoulli(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._random() < probability

    def sample(self, table: Distribution[_T]) -> _T:
        """Sample an item from a distribution."""
        # Binary search of the cumulative distribution; `random` is less than 1.
        return table.items[bisect(table.cumulative, self._random())]

    def sample_where(self, table: Distribution[_T], accept: Callable[[_T], bool]) -> _T:
        """Sample an item that `accept` accepts, by rejection sampling."""
        while not accept(item := self.sample(table)):
            pass
        return item

    def sample_below(self, number: int) -> int:
        """Sample an integer from 0 to `number` - 1 uniformly."""
        return int(self._random() * number)
