"""The check of translations as a part of a report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.api.arguments import TextSource
from regard.api.systems import Companions
from regard.extensions.check.api import CoverageModel, check
from regard.extensions.check.base import DETECTORS
from regard.extensions.check.detectors import NOTES
from regard.reporting.page import PageCheck
from regard.reporting.systems import SystemResults


@dataclass(frozen=True)
class ReportCheck:
    """The check of all translations of a report for errors.

    Attributes:
        detector: Name of the detector.
        checker: A coverage model, or its directory. None for a detector that needs none.
        training: Good translations on which a coverage model is trained, if `checker` is None.
        threshold: Probability from which words are marked at first; the reader of the page can change it.
        optional: Whether a report without a coverage model has no check, instead of an error.
    """

    detector: str = "combined"
    checker: CoverageModel | Path | str | None = None
    training: tuple[TextSource, TextSource] | None = None
    threshold: float = 0.5
    optional: bool = False

    @property
    def uses_companions(self) -> bool:
        """Whether the check uses the coverage model of a model directory."""
        return self.detector == "combined" and self.checker is self.training is None

    def load(
        self, companions: Companions | None, num_threads: int
    ) -> Callable[[Sequence[SystemResults], Sequence[str]], PageCheck] | None:
        """Return the function that finds the errors of systems in the translations of source sentences.

        Several systems share the loaded or trained models.

        Args:
            companions: The parts of the first model directory; its coverage model is used if none is given.
            num_threads: Number of threads. 0 uses all processors.

        Returns:
            None if the check is optional and there is no coverage model.

        Raises:
            DataError: if a model or a text cannot be read.
            UsageError: if there is no such detector, or an input that it needs is missing.
        """
        checker = self.checker
        if self.uses_companions and companions is not None:
            checker = train_checker(companions)
        if checker is None and self.optional:
            return None
        # A wrong detector and missing inputs are reported before a model is trained.
        if self.training is None or DETECTORS.get(self.detector) is None:
            check([], [], self.detector, checker=checker)
        if isinstance(checker, Path | str):
            checker = CoverageModel.load(checker, num_threads)
        elif checker is None and self.training is not None:
            checker = CoverageModel.train(*self.training, num_threads=num_threads)
        return partial(self._find_errors, checker, num_threads)

    def _find_errors(
        self,
        checker: CoverageModel | None,
        num_threads: int,
        systems: Sequence[SystemResults],
        sources: Sequence[str],
    ) -> PageCheck:
        sentences = []
        for system in systems:
            outputs = [result.text for result in system.sentences]
            checked = check(sources, outputs, self.detector, checker=checker, num_threads=num_threads)
            records = checked.to_dict()["sentences"]
            # A line that the model could not translate is an error of another kind.
            sentences.append(
                [
                    None if result.error else record
                    for result, record in zip(system.sentences, records, strict=True)
                ]
            )
        return PageCheck(self.detector, self.threshold, sentences, NOTES)


def train_checker(companions: Companions) -> CoverageModel | None:
    """Return the coverage model of a model directory, which is trained on its text and kept in `checker`.

    Returns:
        None without a training text, or with fewer than 100 pairs.
    """

    def train() -> tuple[CoverageModel, Callable[[Path], None]]:
        lines = list(companions.pairs())
        sources, targets = ([pair[side] for pair in lines] for side in (0, 1))
        checker = CoverageModel.train(sources, targets, num_threads=companions.num_threads)
        return checker, checker.save

    load = partial(CoverageModel.load, num_threads=companions.num_threads)
    return companions.load_or_train("checker", "coverage model", load, train)
