"""The systems of the tour in historical order, their training, and measurement of their costs.

Existing results are kept:

TOUR/corpus/            the text: train, valid and test, with gold word links
TOUR/prepared/          the prepared text
TOUR/models/SYSTEM/     model directories
TOUR/models/SYSTEM.json the costs of each system
TOUR/aligners/KIND/     word aligners
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from regard.alignment import Corpus, TrainingSetup, WordAligner, train_both
from regard.alignment.base import DEFAULT_ALIGNER, default_config
from regard.api.loading import load_translator
from regard.config import read_config
from regard.config.extensions import require_hook
from regard.data.arrays import ProgressCallback
from regard.errors import DataError, TrainingInterruptedError
from regard.generation.base import BaseTranslator
from regard.generation.lines import enumerate_lines
from regard.models.registry import MODELS
from regard.text.corpus import CorpusConfig, read_lines
from regard.text.files import format_json, recipes_dir, remove_leftovers, write_atomic
from regard.text.reading import InvalidJsonError, read_json
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig
from regard.training.trainer import TrainingResult

CORPUS_SIZES: dict[Literal["train", "valid", "test"], int] = {"train": 15_000, "valid": 500, "test": 300}
WARMUP_SENTENCES = 32  # sentences that are translated before timing starts, so that kernels are compiled

ProgressFactory = Callable[[], AbstractContextManager[ProgressCallback | None]]


@dataclass(frozen=True)
class TourSystem:
    """A system of the tour.

    Attributes:
        name: The name of the recipe and of the model directory.
        label: The name in the report.
        summary: A one-sentence description of the system's innovation.
        citation: The reference to the paper.
        aligner: The kind of word aligner of a word- or phrase-based system; empty for other systems.
    """

    name: str
    label: str
    summary: str
    citation: str
    aligner: str = ""


SYSTEMS = (
    TourSystem(
        "word",
        "words",
        "Words are translated with the table of IBM Model 1, and a language model selects their order.",
        "Brown et al. (1993)",
        aligner="ibm1",
    ),
    TourSystem(
        "phrase",
        "phrases",
        "Phrases are translated as units, and every source word is translated exactly once.",
        "Koehn et al. (2003)",
        aligner="bayes",
    ),
    TourSystem(
        "none",
        "no attention",
        "An encoder compresses the sentence into a vector, and a decoder generates the translation from it.",
        "Sutskever et al. (2014)",
    ),
    TourSystem(
        "soft",
        "attention",
        "For each generated token, the decoder attends to all source positions.",
        "Bahdanau et al. (2015)",
    ),
    TourSystem(
        "sparse",
        "sparse",
        "Sparsemax replaces softmax, so that most attention weights are exactly zero.",
        "Martins & Astudillo (2016)",
    ),
    TourSystem(
        "constrained",
        "constrained",
        "The total attention to a source word is bounded by its fertility, so that words that have been "
        "translated receive no further attention.",
        "Malaviya et al. (2018)",
    ),
    TourSystem(
        "posterior",
        "posterior",
        "Each target token is generated from one source word at a time; Bayes' rule then updates the "
        "attention.",
        "Shankar & Sarawagi (2019)",
    ),
    TourSystem(
        "conv",
        "convolutional",
        "Gated convolutions replace recurrence, and every decoder layer attends to the source.",
        "Gehring et al. (2017)",
    ),
    TourSystem(
        "transformer",
        "Transformer",
        "Multi-head self-attention in encoder and decoder replaces recurrence and convolution.",
        "Vaswani et al. (2017)",
    ),
    TourSystem(
        "hard",
        "hard",
        "The last layer selects single source words; reinforcement learning trains the selection.",
        "Indurthi et al. (2019)",
    ),
)


@dataclass(frozen=True)
class Costs:
    """The costs of a system.

    Attributes:
        training_seconds: The training time including validation, or None if it was not recorded.
        num_parameters: The number of parameters, or of the entries of the system's table.
        megabytes: The size of the weights or tables on disk.
        sentences_per_second: The number of test sentences translated per second.
    """

    training_seconds: float | None
    num_parameters: int
    megabytes: float
    sentences_per_second: float


@dataclass(frozen=True)
class Tour:
    """A tour and its output directory.

    Attributes:
        output_dir: The output directory.
        sizes: The number of sentence pairs of each split.
        recipes: The directory of the recipes of the systems.
        overrides: Options that override those of the neural systems' recipes, such as
            `training.max_epochs=1`.
        series: Whether the sentences are series of main clauses; see `random_sentences` of the corpus.
        seed: The random seed of the text and of the neural systems.
        links: The kind of word aligner that finds repeated and dropped words.
    """

    output_dir: Path
    sizes: Mapping[Literal["train", "valid", "test"], int] = field(default_factory=lambda: CORPUS_SIZES)
    recipes: str = "tour"
    overrides: tuple[str, ...] = ()
    series: bool = False
    seed: int = 1
    links: str = DEFAULT_ALIGNER

    def corpus_path(self, split: str, suffix: str) -> Path:
        """Return the path of a corpus file with the ending `de`, `en` or `talp` (gold links)."""
        return self.output_dir / "corpus" / f"{split}.{suffix}"

    def model_dir(self, system: TourSystem) -> Path:
        """Return the model directory of a system."""
        return self.output_dir / "models" / system.name

    def write_corpus(self) -> None:
        """Write the built-in corpus."""
        write_splits = require_hook("example_corpus", "phrasebook")
        write_splits(self.output_dir / "corpus", dict(self.sizes), seed=self.seed, series=self.series)

    def config(self, system: TourSystem) -> RunConfig:
        """Return the config of a system's recipe on the text of the tour."""
        # The word- and phrase-based systems do not have the options of neural training.
        settings = () if system.aligner else (f"seed={self.seed}", *self.overrides)
        config = read_config(RunConfig, recipes_dir(self.recipes) / f"{system.name}.toml", settings)
        data = replace(
            config.data,
            cache_dir=str(self.output_dir / "prepared"),
            train=(self.corpus("train"),),
            valid=self.corpus("valid"),
        )
        return replace(config, data=data)

    def corpus(self, split: str) -> CorpusConfig:
        """Return the files of a split of the corpus."""
        source, target = (str(self.corpus_path(split, language)) for language in ("de", "en"))
        return CorpusConfig(source=source, target=target)

    def train(self, system: TourSystem, progress: ProgressFactory) -> Costs:
        """Train a system, or resume its training, and return its costs; existing measurements are kept.

        Args:
            system: The system.
            progress: A function that returns a context for the progress display of text preparation.

        Raises:
            TrainingInterruptedError: if a signal was received.
            ConfigError: if the directory contains a run with other options; the message names them.
            DataError: if the file of the costs is damaged.
        """
        directory = self.model_dir(system)
        # The costs are written last. A system without costs is measured again.
        costs_file = directory.with_suffix(".json")
        remove_leftovers(costs_file.parent)
        config = self.config(system)
        result = train(config, directory, progress)
        if result.signal is not None:
            raise TrainingInterruptedError(result.signal)
        if not costs_file.exists():
            weights = directory / MODELS.part_of(config.model).weights_name
            lines = list(read_lines(self.corpus_path("test", "de")))
            costs = _measure(directory, weights, result, self.translator(system), lines)
            write_atomic(costs_file, (format_json(asdict(costs), indent=2) + "\n").encode())
        try:
            return read_json(costs_file, Costs)
        except InvalidJsonError as error:
            raise DataError(f"{costs_file}: not the costs of a system: {error}. Remove the file.") from None

    def translator(self, system: TourSystem) -> BaseTranslator:
        """Return a translator with a trained system."""
        # One translation per sentence, as the scores use no others.
        return load_translator([self.model_dir(system)], "auto", "float32", {"num_return": 1})

    def aligner(self, kind: str) -> WordAligner:
        """Return a word aligner of a kind; it is trained on the tour's text if it does not exist."""
        directory = self.output_dir / "aligners" / kind
        if not directory.exists():
            corpus = Corpus.read(self.corpus("train"))
            train_both(corpus, default_config(kind), TrainingSetup(seed=1)).save(directory)
        return WordAligner.load(directory)


def _measure(
    directory: Path, weights: Path, result: TrainingResult, translator: BaseTranslator, lines: Sequence[str]
) -> Costs:
    # The first sentences include compilation and allocation, which would distort the speed.
    for _ in translator.translate(enumerate_lines(lines[:WARMUP_SENTENCES])):
        pass
    start = time.monotonic()
    for _ in translator.translate(enumerate_lines(lines)):
        pass
    speed = len(lines) / (time.monotonic() - start)
    # A phrase-based system has several tables in a directory instead of one file of weights.
    files = weights.iterdir() if weights.is_dir() else [weights]
    return Costs(
        # Zero means that the time was not recorded.
        training_seconds=result.progress.seconds or None,
        num_parameters=translator.describe().num_parameters or 0,
        megabytes=sum(file.stat().st_size for file in files) / 1e6,
        sentences_per_second=speed,
    )
