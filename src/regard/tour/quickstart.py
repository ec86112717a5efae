"""The quickstart: a small model on the built-in corpus, with its scores, as `regard quickstart` trains it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.config import read_config
from regard.data.corpus import read_lines
from regard.data.files import write_atomic
from regard.data.links import read_gold_links
from regard.experiment import LoadedModel, load_model
from regard.experiment import run_training as train
from regard.generation.forced import score_lines
from regard.generation.lines import LineResult, enumerate_lines
from regard.generation.translator import Translator
from regard.metrics.alignment import alignment_score
from regard.metrics.translation import bleu, chrf
from regard.phrasebook import write_splits
from regard.results import Result
from regard.run_config import RunConfig
from regard.tour.runner import ProgressFactory, TrainingInterruptedError

__all__ = ["CONFIG", "QuickstartResult", "run_quickstart"]

CONFIG = """\
# The configuration of `regard quickstart`. After a change, train another model with:
# regard train {folder}/quickstart.toml --output-dir another-directory
# All options: regard config

seed = 1

[data]
cache_dir = "{folder}/prepared"
train = [{{ source = "{folder}/corpus/train.de", target = "{folder}/corpus/train.en" }}]
valid = {{ source = "{folder}/corpus/valid.de", target = "{folder}/corpus/valid.en" }}
source_tokenizer = {{ kind = "words" }}
target_tokenizer = {{ kind = "words" }}

[model]
kind = "rnn"
embedding_size = 192
encoder = {{ num_layers = 1, hidden_size = 256 }}
decoder = {{ num_layers = 1, hidden_size = 256 }}
attention = {{ kind = "soft", normalizer = "softmax", score_function = "bilinear" }}
dropout = 0.1
init_range = 0.1

[training]
batch_size = 64
batch_unit = "sentences"
optimizer = {{ kind = "adam", learning_rate = 3e-3, max_grad_norm = 1.0 }}
lr_scheduler = {{ kind = "plateau", patience = 1 }}
max_epochs = {epochs}

[generation]
beam_size = 5
"""

SIZES: dict[Literal["train", "valid", "test"], int] = {"train": 30_000, "valid": 500, "test": 500}
EPOCHS = 5


@dataclass(frozen=True, repr=False)
class QuickstartResult(Result):
    """The scores of the model of the quickstart on its test text.

    Attributes:
        bleu: BLEU of the tokenized text, 0 to 100.
        chrf: chrF, 0 to 100.
        aer: Alignment error rate, 0 to 1, of links to the word with the highest attention under forced
            decoding.
        signatures: Signatures of the scores.
        training_seconds: Time of training, including that of earlier runs that were interrupted.
        seconds: Time of this call.
        translations: The results of the search for each line of the test text. They are not part of the JSON
            form.
    """

    schema = "quickstart"
    bleu: float
    chrf: float
    aer: float
    signatures: Mapping[str, str]
    training_seconds: float
    seconds: float
    translations: tuple[LineResult, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return the scores and the times, rounded."""
        return {
            "bleu": round(self.bleu, 2),
            "chrf": round(self.chrf, 2),
            "signatures": dict(self.signatures),
            "aer": round(self.aer, 4),
            "training_seconds": round(self.training_seconds, 1),
            "seconds": round(self.seconds, 1),
        }

    def __repr__(self) -> str:
        """Return the scores."""
        return f"QuickstartResult(BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}, AER {100 * self.aer:.2f} %)"


def run_quickstart(
    output_dir: Path | str,
    progress: ProgressFactory,
    on_stage: Callable[[str], None] = lambda title: None,
) -> QuickstartResult:
    """Write the built-in corpus, train a model on it, translate the test text and score it.

    A second call resumes an interrupted training.

    Args:
        output_dir: The directory of all files.
        progress: Returns a context for the progress display of text preparation, such as `nullcontext`.
        on_stage: Function called with the title of each stage when it begins.

    Raises:
        TrainingInterruptedError: if a signal was received; the state is saved.
    """
    start, directory = time.monotonic(), Path(output_dir)
    on_stage("1. Corpus: German-English sentence pairs with gold word links")
    # The seed is fixed, so a resumed run has the same corpus.
    write_splits(directory / "corpus", SIZES, seed=1)
    path = directory / "quickstart.toml"
    # The user may have changed the file, so a second run keeps it.
    if not path.exists():
        # In TOML, the backslash of a Windows path would be an escape character.
        write_atomic(path, CONFIG.format(folder=directory.as_posix(), epochs=EPOCHS).encode())
    on_stage(f"2. Training: {SIZES['train']:,} pairs, {EPOCHS} epochs")
    result = train(read_config(RunConfig, path), directory / "model", progress)
    if result.signal is not None:
        raise TrainingInterruptedError(result.signal)
    on_stage("3. Translation and evaluation of the test set")
    loaded = load_model(directory / "model")
    test = directory / "corpus" / "test"
    translations = _translate(loaded, test.with_suffix(".de"), directory / "test.en")
    outputs = [one.text for one in translations]
    references = [list(read_lines(test.with_suffix(".en")))]
    # The words and the punctuation of the corpus are already separated.
    scores = bleu(outputs, references, tokenize="none"), chrf(outputs, references)
    return QuickstartResult(
        scores[0].score,
        scores[1].score,
        _alignment_error(loaded, test),
        {score.name.lower(): score.signature for score in scores},
        result.progress.seconds,
        time.monotonic() - start,
        tuple(translations),
    )


def _translate(loaded: LoadedModel, source: Path, output: Path) -> Sequence[LineResult]:
    translator = Translator(loaded.model, loaded.text, loaded.config.generation)
    results = list(translator.translate(enumerate_lines(read_lines(source))))
    write_atomic(output, "".join(f"{result.text}\n" for result in results).encode())
    return results


def _alignment_error(loaded: LoadedModel, test: Path) -> float:
    """Return the AER of links to the word with the highest attention, under forced decoding."""
    pairs = zip(*(read_lines(test.with_suffix(suffix)) for suffix in (".de", ".en")), strict=True)
    scored = score_lines(loaded.model, loaded.text, pairs, loaded.config.generation)
    links = [line.links for line in scored]
    return alignment_score(links, list(read_gold_links(test.with_suffix(".talp")))).aer
