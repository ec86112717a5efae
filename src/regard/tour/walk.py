"""Training the stops of the tour and measuring what they cost; what is there already is kept.

TOUR/corpus/            the text: train, valid and test, with gold word links
TOUR/prepared/          the text as models read it
TOUR/models/STOP/       model folders
TOUR/models/STOP.json   what each cost
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
WARM = 32  # sentences translated before the clock runs: kernels are compiled then

Preparing = Callable[[], AbstractContextManager[Progress | None]]


class Stopped(Exception):
    """A signal came; what was trained is saved.

    Attributes:
        signal: Its number.
    """

    def __init__(self, signal: int) -> None:
        """Keep the signal."""
        super().__init__(signal)
        self.signal = signal


@dataclass(frozen=True)
class Costs:
    """What a system costs.

    Attributes:
        seconds: Of training, validation among them; none where it is not on record.
        flops: Floating-point operations of training's products, forward and backward; none of phrase tables.
        parameters: Numbers that were learned; of a phrase-based system, phrase pairs.
        megabytes: Of its weights or tables on disk.
        speed: Sentences of the test text translated in a second.
    """

    seconds: float | None
    flops: float | None
    parameters: int
    megabytes: float
    speed: float


@dataclass(frozen=True)
class Tour:
    """A tour in its folder.

    Attributes:
        folder: Everything is kept here.
        sizes: Of the corpus, in pairs.
        settings: For neural stops, in the place of their recipes', as `training.stop.epochs=1`.
    """

    folder: Path
    sizes: Mapping[Literal["train", "valid", "test"], int] = field(default_factory=lambda: SIZES)
    settings: tuple[str, ...] = ()

    def file(self, split: str, ending: str) -> Path:
        """One of the corpus's files: `de`, `en` or `talp` (gold links)."""
        return self.folder / "corpus" / f"{split}.{ending}"

    def model(self, stop: Stop) -> Path:
        """A stop's model folder."""
        return self.folder / "models" / stop.name

    def write_corpus(self) -> None:
        """Write the text."""
        write(self.folder / "corpus", dict(self.sizes), seed=1)

    def config(self, stop: Stop) -> RunConfig:
        """A stop's recipe on the tour's text."""
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
        """Train a stop, or go on where it was stopped, and measure it; what was measured is kept.

        Args:
            stop: The stop.
            preparing: Makes what shows the progress of preparing text.

        Raises:
            Stopped: if a signal came.
            ConfigError: if its folder holds a run with other settings; names them.
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
            raise DataError(f"{known}: not the costs of a stop: {error}; remove it") from None

    def translator(self, stop: Stop) -> Translator | PhraseTranslator:
        """What translates with a trained stop."""
        return load_translator([self.model(stop)], "auto", "float32", {"nbest": 1})

    def aligner(self, kind: str) -> WordAligner:
        """A word aligner of a kind, trained on the tour's text where it is not there."""
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
