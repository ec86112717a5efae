"""A filter for OpusFilter (Aulamo et al. 2020), which removes pairs with a probable error from parallel text.

The configuration of OpusFilter names it: `- CoverageFilter: {checker: DIRECTORY}` with
`module: regard.extensions.check.opusfilter`. Without OpusFilter, the module can be imported, too.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from itertools import compress, tee
from pathlib import Path
from typing import Any

from regard.extensions.check.api import CoverageModel
from regard.extensions.check.sentences import THRESHOLD

_Base: Any = import_module("opusfilter").FilterABC if find_spec("opusfilter") else object


class CoverageFilter(_Base):
    """Accepts pairs in which every error of `regard check` is improbable.

    Attributes:
        score_direction: The hint of OpusFilter that low scores are those of clean pairs.
    """

    score_direction = "clean_low"

    def __init__(
        self, checker: str, threshold: float = THRESHOLD, num_threads: int = 1, **options: Any
    ) -> None:
        """Load the checker.

        Args:
            checker: Directory of a checker (`regard check --save-checker`), relative to the output directory
                of OpusFilter.
            threshold: Probability from 0 to 1 from which an error removes a pair.
            num_threads: Number of threads. 0 uses all processors.
            options: Options of all filters of OpusFilter, such as `name`.

        Raises:
            DataError: if a file of the checker is missing or damaged.
        """
        super().__init__(**options)
        self.model = CoverageModel.load(Path(self.workdir, checker), num_threads)
        self.threshold = threshold

    def score(self, pairs: Iterable[tuple[str, str]]) -> Iterator[dict[str, float]]:
        """Yield the probability of each error for each pair."""
        for sentence in self.model.check_pairs(pairs):
            yield {error: float(value) for error, value in sentence.probabilities.items()}

    def accept(self, score: Mapping[str, float]) -> bool:
        """Return whether all errors are less probable than the threshold."""
        return max(score.values()) < self.threshold

    def filter(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Yield the accepted pairs, which are checked in blocks, and not one by one as in the base class."""
        pairs, checked = tee(pairs)
        return compress(pairs, self.decisions(checked))

    def filterfalse(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Yield the other pairs."""
        pairs, checked = tee(pairs)
        return compress(pairs, (not decision for decision in self.decisions(checked)))
