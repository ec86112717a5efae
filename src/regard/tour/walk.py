"""Training of the tour's systems and measurement of their costs; existing results are kept.

TOUR/corpus/            the text: train, valid and test, with gold word links
TOUR/prepared/          the prepared text
TOUR/models/STOP/       model directories
TOUR/models/STOP.json   the costs of each system
TOUR/aligners/KIND/     word aligners
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from regard.alignment import Corpus, Setting, WordAligner, train_both
from regard.alignment.registry import config_of
from regard.api.phrases import load_translator
from regard.config import load
from regard.data.corpus import CorpusConfig, read_lines
from regard.data.files import write_atomic
from regard.data.folders import recipes_folder
from regard.data.partial import remove_leftovers
from regard.data.phrasebook import write
from regard.data.reading import NotJson, read_json
from regard.data.units import Progress
from regard.decoding.phrases import PhraseTranslator
from regard.decoding.translate import Translator, number_lines
from regard.errors import DataError
from regard.experiment import MODEL_FILE, RunConfig, train
from regard.smt.model import PHRASE_FOLDER
from regard.tour.stops import Stop
from regard.training.record import read_record
from regard.training.trainer import Result

__all__ = ["SIZES", "Costs", "Stopped", "Tour"]

SIZES: dict[Literal["train", "valid", "test"], int] = {"train": 15_000, "valid": 500, "test": 300}
WARM = 32  # sentences that are translated before timing starts, so that kernels are compiled

Preparing = Callable[[], AbstractContextManager[Progress | None]]


class Stopped(Exception):
    """Raised when a signal stopped training; the training state is saved.

    Attributes:
        signal: The number of the signal.
    """

    def __init__(self, signal: int) -> None:
        """Store the number of the signal."""
        super().__init__(signal)
        self.signal = signal


@dataclass(frozen=True)
class Costs:
    """The costs of a system.

    Attributes:
        seconds: The training time including validation, or None if it was not recorded.
        flops: The floating-point operations of the matrix multiplications in training, forward and backward;
            None for a phrase-based system.
        parameters: The number of parameters; for a phrase-based system the number of phrase pairs.
        megabytes: The size of the weights or tables on disk.
        speed: The number of test sentences translated per second.
    """

    seconds: float | None
    flops: float | None
    parameters: int
    megabytes: float
    speed: float


@dataclass(frozen=True)
class Tour:
    """A tour and its output directory.

    Attributes:
        folder: The output directory.
        sizes: The number of sentence pairs of each split.
        settings: Options that override those of the neural systems' recipes, such as
            `training.stop.epochs=1`.
    """

    folder: Path
    sizes: Mapping[Literal["train", "valid", "test"], int] = field(default_factory=lambda: SIZES)
    settings: tuple[str, ...] = ()

    def file(self, split: str, ending: str) -> Path:
        """Return the path of a corpus file with the ending `de`, `en` or `talp` (gold links)."""
        return self.folder / "corpus" / f"{split}.{ending}"

    def model(self, stop: Stop) -> Path:
        """Return the model directory of a system."""
        return self.folder / "models" / stop.name

    def write_corpus(self) -> None:
        """Write the built-in corpus."""
        write(self.folder / "corpus", dict(self.sizes), seed=1)

    def config(self, stop: Stop) -> RunConfig:
        """Return the config of a system's recipe on the text of the tour."""
        settings = () if stop.aligner else self.settings
        config = load(RunConfig, recipes_folder("tour") / f"{stop.name}.toml", settings)
        corpora = [
            CorpusConfig(source=str(self.file(split, "de")), target=str(self.file(split, "en")))
            for split in ("train", "valid")
        ]
        data = replace(
            config.data, folder=str(self.folder / "prepared"), train=(corpora[0],), valid=corpora[1]
        )
        return replace(config, data=data)

    def train(self, stop: Stop, preparing: Preparing) -> Costs:
        """Train a system, or resume its training, and return its costs; existing measurements are kept.

        Args:
            stop: The system.
            preparing: A function that returns a context for the progress display of text preparation.

        Raises:
            Stopped: if a signal was received.
            ConfigError: if the directory contains a run with other options; the message names them.
            DataError: if the file of the costs is damaged.
        """
        folder, known = self.model(stop), self.model(stop).with_suffix(".json")
        remove_leftovers(known.parent)
        result = train(self.config(stop), folder, preparing)
        if result.signal is not None:
            raise Stopped(result.signal)
        if not known.exists():
            costs = _measure(folder, result, self.translator(stop), list(read_lines(self.file("test", "de"))))
            write_atomic(known, (json.dumps(asdict(costs), indent=2) + "\n").encode())
        try:
            return read_json(known, Costs)
        except NotJson as error:
            raise DataError(f"{known}: not the costs of a system: {error}; remove the file") from None

    def translator(self, stop: Stop) -> Translator | PhraseTranslator:
        """Return a translator with a trained system."""
        return load_translator([self.model(stop)], "auto", "float32", {"nbest": 1})

    def aligner(self, kind: str) -> WordAligner:
        """Return a word aligner of a kind; it is trained on the tour's text if it does not exist."""
        folder = self.folder / "aligners" / kind
        if not folder.exists():
            corpus = Corpus.read(str(self.file("train", "de")), str(self.file("train", "en")))
            train_both(corpus, config_of(kind), Setting(seed=1)).save(folder)
        return WordAligner.load(folder)


def _measure(
    folder: Path, result: Result, translator: Translator | PhraseTranslator, lines: Sequence[str]
) -> Costs:
    for _ in translator.translate(number_lines(lines[:WARM])):
        pass
    begun = time.monotonic()
    for _ in translator.translate(number_lines(lines)):
        pass
    speed = len(lines) / (time.monotonic() - begun)
    if isinstance(translator, PhraseTranslator):
        weights, parameters = folder / PHRASE_FOLDER, len(translator.model.decoder.table)
    else:
        weights = folder / MODEL_FILE
        parameters = sum(math.prod(one.shape) for one in translator.model.parameters())
    files = weights.iterdir() if weights.is_dir() else [weights]
    trained = [entry for entry in read_record(folder) if entry.get("kind") == "train"]
    return Costs(
        seconds=result.progress.seconds or None,
        flops=trained[-1]["flops"] if trained else None,
        parameters=parameters,
        megabytes=sum(file.stat().st_size for file in files) / 1e6,
        speed=speed,
    )
