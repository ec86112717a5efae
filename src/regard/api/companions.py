"""The word aligner and other parts of a model directory, trained on the text that trained the model.

They are trained when a report or an analysis first needs them, and kept in directories of the model, such as
`aligner`. Their text is the part of the training text that the model directory contains; see
`regard.data.training_text`. The files that its configuration names are not read.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.alignment import Corpus, TrainingSetup, WordAligner, train_both
from regard.alignment.base import DEFAULT_ALIGNER, default_config
from regard.analysis.inputs import line_words
from regard.data.text import TextProcessor
from regard.data.training_text import MAX_STORED_PAIRS, read_training_pairs
from regard.errors import RegardError
from regard.runs.description import CONFIG_FILE
from regard.text.paths import check_link

__all__ = ["FEW_PAIRS", "Companions"]

FEW_PAIRS = 10_000
"""Number of training pairs below which marks of errors are of doubtful precision."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Companions:
    """The aligner and other parts of a model directory that are trained on its text.

    Attributes:
        directory: The model directory.
        num_threads: Number of threads. 0 uses all processors.
        max_pairs: Maximum number of training pairs that are read.
    """

    directory: Path
    num_threads: int = 0
    max_pairs: int = MAX_STORED_PAIRS

    @classmethod
    def of(cls, models: Iterable[Any], num_threads: int = 0) -> "Companions | None":
        """Return the companions of the first model directory; None if there is none.

        Args:
            models: Lists of directories, loaded models with `directories`, or files of translations.
            num_threads: Number of threads. 0 uses all processors.
        """
        for model in models:
            directories = model if isinstance(model, list) else getattr(model, "directories", ())
            for directory in map(Path, directories):
                # The directory of another library has no training text.
                if (directory / CONFIG_FILE).is_file():
                    return cls(directory, num_threads)
        return None

    def aligner(self) -> WordAligner | None:
        """Return the word aligner, for the words of the model's tokenizers; None without a training text."""
        return self.load_or_train("aligner", "word aligner", WordAligner.load, self._train_aligner)

    def num_pairs(self) -> int:
        """Return the number of pairs that train both, 0 if the text cannot be read."""
        try:
            return sum(1 for _ in self.pairs())
        except RegardError:
            return 0

    def load_or_train(
        self, name: str, title: str, load: Callable[[Path], Any], train: Callable[[], tuple[Any, Any]]
    ) -> Any:
        """Return a part that was saved earlier, or train and save it; None if it cannot be trained.

        Args:
            name: Name of its directory in the model directory.
            title: Name of the part in messages.
            load: Loads the part from its directory.
            train: Trains the part; returns it and the function that saves it.
        """
        path = check_link(self.directory / name, self.directory)
        if path.is_dir():
            return load(path)
        try:
            _log.info("training a %s on the training text of %s ...", title, self.directory)
            part, save = train()
        except RegardError as error:
            _log.warning("there is no %s of %s: %s; name one with --%s", title, self.directory, error, name)
            return None
        try:
            save(path)
        except RegardError as error:
            # A directory that cannot be written costs the training each time, but no report.
            _log.warning("the %s was not kept: %s", title, error)
        return part

    def _train_aligner(self) -> tuple[WordAligner, Any]:
        text = TextProcessor.load(self.directory)
        words = (
            (line_words(source, text.source), line_words(target, text.target))
            for source, target in self.pairs()
        )
        usable = ((source, target) for source, target in words if source and target)
        corpus = Corpus.from_tokens(usable, names=("source", "target"))
        config = default_config(DEFAULT_ALIGNER)
        aligner = train_both(corpus, config, TrainingSetup(self.num_threads))
        return aligner, aligner.save

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Return the first pairs of the training text that the directory contains."""
        return islice(read_training_pairs(self.directory), self.max_pairs)

    def few_pairs_notes(self) -> list[str]:
        """Return a caveat for the reader of a page if the parts are trained on little text."""
        num_pairs = self.num_pairs()
        if not 0 < num_pairs < FEW_PAIRS:
            return []
        return [
            f"The word aligner and the coverage model were trained on only {num_pairs:,} sentence pairs, so "
            f"some marks are wrong. They become reliable with about {FEW_PAIRS:,} pairs: train both on more "
            "text (regard align --save-aligner, regard check --save-checker), and give them with --aligner "
            "and --checker."
        ]
