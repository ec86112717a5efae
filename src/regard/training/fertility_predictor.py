"""The fertility predictor (Malaviya et al. 2018): a tagger with its vocabulary, in its own directory.

    DIRECTORY/predictor.json           sizes, the largest fertility, the checksum of the training text
    DIRECTORY/source.vocabulary        the vocabulary of source words
    DIRECTORY/model.safetensors        the weights of the epoch with the best F1
    DIRECTORY/record.jsonl, training/  as for any other run

Interrupted training resumes when `train_predictor` is called again with the same texts.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from regard.config import configclass, option, to_dict
from regard.config.results import perplexity
from regard.data.batch import Batch, BatchConfig, collate, make_batches
from regard.errors import CheckpointError, DataError, UsageError
from regard.models.base import TranslationModel
from regard.models.rnn.tagger import FertilityTagger, TaggerConfig
from regard.text.directories import directory_lock, is_empty
from regard.text.files import write_atomic
from regard.text.reading import InvalidJsonError, checked_file, file_digest, read_json
from regard.text.vocabulary import Vocabulary
from regard.training.config import TrainingConfig
from regard.training.lr_scheduler import ConstantConfig
from regard.training.optimizer import AdamConfig
from regard.training.resume import CHECKSUMS_KEY, check_file_checksums
from regard.training.run_context import RunContext
from regard.training.serialization import write_tensors
from regard.training.trainer import Trainer, TrainingResult
from regard.training.weights import (
    MODEL_FILE,
    check_weight_shapes,
    copy_weights,
    load_weights,
    named_weights,
)

__all__ = [
    "PREDICTOR_TRAINING",
    "FertilityPredictor",
    "PredictorScore",
    "TaggedExamples",
    "TaggedSentences",
    "train_predictor",
]

PREDICTOR_FILE, VOCABULARY_FILE = "predictor.json", "source.vocabulary"
PREDICTOR_BATCH = BatchConfig(batch_size=64)

PREDICTOR_TRAINING = TrainingConfig(
    batch_size=PREDICTOR_BATCH.batch_size,
    optimizer=AdamConfig(learning_rate=1e-3, max_grad_norm=0.0),
    lr_scheduler=ConstantConfig(),
    max_epochs=10,
)
"""The training options of the scripts of Malaviya et al. (2018)."""


@dataclass(frozen=True)
class TaggedSentences:
    """Sentences and the fertilities of their words.

    Attributes:
        sentences: The words of each sentence.
        fertilities: The fertility of each word; values below 1 are replaced by 1.
    """

    sentences: Sequence[Sequence[str]]
    fertilities: Sequence[Sequence[int]]


@dataclass(frozen=True)
class PredictorScore:
    """The scores of predicted fertilities.

    Attributes:
        loss: The mean of -log p over words, in nats.
        accuracy: The fraction of words whose most probable fertility is correct, in [0, 1].
        f1: The F1 score of fertilities other than 1, in [0, 1]: 2 correct / (predicted + true), where a
            prediction is correct if it equals the true number.
        num_words: The number of words.
    """

    loss: float
    accuracy: float
    f1: float
    num_words: int


class TaggedExamples:
    """Training or validation examples with words as sources and fertilities as targets.

    Empty sentences are skipped.

    Args:
        tagged: The sentences.
        vocabulary: The vocabulary of words.
    """

    def __init__(self, tagged: TaggedSentences, vocabulary: Vocabulary) -> None:
        """Convert the words to ids."""
        pairs = [(w, f) for w, f in zip(tagged.sentences, tagged.fertilities, strict=True) if len(w)]
        self.sources = [np.array(vocabulary.to_ids(words), dtype=np.int32) for words, _ in pairs]
        self.targets = [np.maximum(np.array(counts, dtype=np.int32), 1) for _, counts in pairs]
        self._lengths = np.array([len(ids) for ids in self.sources], dtype=np.int64)

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of words of each row, twice: sources and targets have the same lengths."""
        return self._lengths, self._lengths

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the rows of each batch of an epoch."""
        return make_batches(*self.lengths, config, seed, epoch)

    def batch(self, rows: Sequence[int] | np.ndarray) -> Batch:
        """Return the batch of the given rows."""
        return collate([self.sources[row] for row in rows], [self.targets[row] for row in rows], rows)

    def score(self, model: FertilityTagger) -> PredictorScore:
        """Compute the scores of a tagger on these examples; it is in evaluation mode during the call."""
        was_training = model.training
        model.eval()
        nll, right, matches, others = 0.0, 0, 0, 0
        with torch.inference_mode():
            for rows in self.batches(PREDICTOR_BATCH, seed=0, epoch=0):
                batch = self.batch(rows)
                assert batch.target is not None
                log_probs = model.log_probs(batch.source)[batch.target.mask]
                true = batch.target.tokens[batch.target.mask]
                # Class c stands for the fertility c + 1, because no fertility is below 1.
                guess = log_probs.argmax(-1) + 1
                # A larger fertility than in training has no class; its loss is that of the largest class.
                known = true.clamp(max=model.num_classes).unsqueeze(-1) - 1
                nll -= float(log_probs.gather(-1, known).sum(dtype=torch.float64))
                right += int((guess == true).sum())
                matches += int(((guess == true) & (true != 1)).sum())
                others += int((guess != 1).sum()) + int((true != 1).sum())
        model.train(was_training)
        words = int(self._lengths.sum())
        # If no predicted or true fertility differs from 1, F1 is 0 instead of 0 / 0.
        return PredictorScore(nll / words, right / words, 2 * matches / max(1, others), words)


class _TaggerTrainer(Trainer):
    """A trainer that selects the best model by F1."""

    def _score(self) -> tuple[dict[str, float], float, bool]:
        """Return the scores of the tagger, and its F1."""
        assert isinstance(self.state.model, FertilityTagger) and isinstance(self.valid, TaggedExamples)
        score = self.valid.score(self.state.model)
        self._check_finite(score.loss)
        entry = {"loss": score.loss, "perplexity": perplexity(score.loss)}
        return {**entry, "accuracy": score.accuracy, "f1": score.f1}, score.f1, True


@configclass
class _Description:
    """The content of `predictor.json`."""

    tagger: TaggerConfig = option(help="Sizes of the tagger.")
    num_classes: int = option(help="Largest fertility that the tagger predicts.", ge=1, le=1_000_000)
    text_checksum: str | None = option(default=None, help="Checksum of the training and validation text.")
    seed: int | None = option(default=None, help="Random seed of the run.")


@dataclass(frozen=True, eq=False)
class FertilityPredictor:
    """A trained tagger and its vocabulary."""

    model: FertilityTagger
    vocabulary: Vocabulary

    def __eq__(self, other: object) -> bool:
        """Return whether vocabulary, config and weights are equal."""
        if not isinstance(other, FertilityPredictor):
            return NotImplemented
        if self.vocabulary != other.vocabulary or self.model.config != other.model.config:
            return False
        mine, its = self.model.state_dict(), other.model.state_dict()
        return all(torch.equal(mine[name], its[name]) for name in mine)

    @torch.inference_mode()
    def expected_fertilities(self, sentences: Sequence[Sequence[str]]) -> list[list[float]]:
        """Return the expected fertility of each word, at least 1; the list of an empty sentence is empty."""
        self.model.eval()
        fertilities: list[list[float]] = [[] for _ in sentences]
        # Sentences of similar lengths share a batch, which keeps the padding small.
        order = sorted(
            (row for row in range(len(sentences)) if len(sentences[row])), key=lambda row: len(sentences[row])
        )
        for first in range(0, len(order), PREDICTOR_BATCH.batch_size):
            rows = order[first : first + PREDICTOR_BATCH.batch_size]
            batch = collate([self.vocabulary.to_ids(sentences[row]) for row in rows], None, rows)
            for row, values in zip(rows, self.model.expected_fertility(batch.source).tolist(), strict=True):
                fertilities[row] = values[: len(sentences[row])]
        return fertilities

    def score(self, tagged: TaggedSentences) -> PredictorScore:
        """Compute the scores on sentences, at least one of which is not empty."""
        return TaggedExamples(tagged, self.vocabulary).score(self.model)

    def save(self, directory: Path) -> None:
        """Write the files that prediction needs, without the training state; `predictor.json` comes last.

        Raises:
            CheckpointError: if a file cannot be written.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{directory}: cannot create the directory: {error.strerror}") from None
        self.vocabulary.save(directory / VOCABULARY_FILE)
        about = _Description(tagger=self.model.config, num_classes=self.model.num_classes)
        checksums = _file_checksums(to_dict(about), directory / VOCABULARY_FILE)
        write_tensors(directory / MODEL_FILE, named_weights(self.model), {CHECKSUMS_KEY: checksums})
        write_atomic(directory / PREDICTOR_FILE, _serialize(about))

    @classmethod
    def load(cls, directory: Path | str) -> "FertilityPredictor":
        """Load a predictor that `save` or `train_predictor` wrote.

        Raises:
            DataError: if the directory contains no predictor.
            CheckpointError: if its weights are missing, truncated or altered.
        """
        directory = Path(directory)
        try:
            file = checked_file(directory, PREDICTOR_FILE)
            about, stated = read_json(file, _Description), read_json(file, dict[str, Any])
        except InvalidJsonError as error:
            raise DataError(
                f"{directory / PREDICTOR_FILE}: not the description of a fertility predictor: {error}"
            ) from None
        vocabulary = Vocabulary.load(checked_file(directory, VOCABULARY_FILE))
        check_file_checksums(
            directory / MODEL_FILE, directory, _file_checksums(stated, directory / VOCABULARY_FILE)
        )
        make = partial(FertilityTagger, about.tagger, len(vocabulary), about.num_classes)
        # The sizes come from a file. Wrong ones fail here, before memory is allocated for them.
        check_weight_shapes(make, directory)
        model = make()
        copy_weights(model, load_weights(directory), str(directory))
        return cls(model.eval(), vocabulary)


def train_predictor(
    output_dir: Path | str,
    training_data: TaggedSentences,
    validation_data: TaggedSentences,
    config: TaggerConfig | None = None,
    training: TrainingConfig = PREDICTOR_TRAINING,
    seed: int = 1,
) -> TrainingResult:
    """Train a predictor in a directory, or resume interrupted training.

    Words that occur once are replaced by the unknown word, so that the tagger learns to predict its
    fertility.

    Args:
        output_dir: The directory; it is created if it does not exist.
        training_data: The training sentences.
        validation_data: The validation sentences, on which the best epoch is selected by F1.
        config: The sizes of the tagger. Default: those of `TaggerConfig`.
        training: The training options.
        seed: The random seed of initialization, data order and dropout.

    Returns:
        The result of the run.

    Raises:
        DataError: if the training or the validation sentences contain no word.
        UsageError: if the directory contains other files.
        CheckpointError: if a file cannot be written.
        TrainingDivergedError: if the loss was repeatedly not finite.
    """
    output_dir = Path(output_dir)
    counts = Counter(word for words in training_data.sentences for word in words)
    if not counts or not any(validation_data.sentences):
        raise DataError(
            f"the {'validation' if counts else 'training'} text of the fertility predictor contains no word"
        )
    vocabulary = Vocabulary.build(counts, min_frequency=2)
    config = TaggerConfig() if config is None else config
    classes = max(config.min_classes, *(count for row in training_data.fertilities for count in row))
    about = _Description(
        tagger=config, num_classes=classes, text_checksum=_digest(training_data, validation_data), seed=seed
    )
    _check_directory(output_dir, about)  # before anything is written
    torch.manual_seed(seed)
    with directory_lock(output_dir):
        _describe(output_dir, about)
        vocabulary.save(output_dir / VOCABULARY_FILE)
        stated = read_json(output_dir / PREDICTOR_FILE, dict[str, Any])
        checksums = _file_checksums(stated, output_dir / VOCABULARY_FILE)
        run = RunContext(output_dir, seed, identity={"text": about.text_checksum}, file_checksums=checksums)
        trainer = _TaggerTrainer(
            # The trainer uses only the objective and the outcome of a model, which a tagger has.
            cast(TranslationModel, FertilityTagger(config, len(vocabulary), classes)),
            TaggedExamples(training_data, vocabulary),
            TaggedExamples(validation_data, vocabulary),
            training,
            run,
        )
        trainer.metric = "f1"
        return trainer.run()


def _describe(directory: Path, about: _Description) -> None:
    """Write `predictor.json`, or raise an error if the directory contains other files."""
    # Another process may have written to the directory before this one acquired the lock.
    _check_directory(directory, about)
    if not (directory / PREDICTOR_FILE).is_file():
        write_atomic(directory / PREDICTOR_FILE, _serialize(about))


def _serialize(about: _Description) -> bytes:
    return (json.dumps(to_dict(about), indent=2) + "\n").encode()


def _check_directory(directory: Path, about: _Description) -> None:
    """Raise an error if the directory contains other files than a predictor of this description."""
    if (directory / PREDICTOR_FILE).is_file():
        try:
            known = read_json(directory / PREDICTOR_FILE, _Description)
        except InvalidJsonError:
            known = None
        if known != about:
            raise UsageError(
                f"{directory} contains a predictor of other texts or options; choose another directory"
            )
    elif directory.is_dir() and not is_empty(directory):
        raise UsageError(
            f"{directory} contains other files than a fertility predictor; choose another directory"
        )


def _file_checksums(stated: Mapping[str, Any], vocabulary: Path) -> dict[str, str]:
    """Return the checksums of the vocabulary and the sizes that a tagger's weights depend on.

    Args:
        stated: The content of `predictor.json`, without defaults, as in `regard.training.resume`.
        vocabulary: The file of the vocabulary.
    """
    # `save` omits the checksum of the text and the seed, so that only the sizes are comparable.
    sizes = json.dumps([stated["tagger"], stated["num_classes"]], sort_keys=True)
    return {
        VOCABULARY_FILE: file_digest(vocabulary),
        PREDICTOR_FILE: hashlib.sha256(sizes.encode()).hexdigest(),
    }


def _digest(*texts: TaggedSentences) -> str:
    """Return the SHA-256 checksum of sentences and fertilities."""
    total = hashlib.sha256()
    for tagged in texts:
        for words, counts in zip(tagged.sentences, tagged.fertilities, strict=True):
            total.update(f"{' '.join(words)}\t{' '.join(map(str, counts))}\n".encode())
        # The separator marks the end of a text: a line that moves to the next text changes the sum.
        total.update(b"\0")
    return total.hexdigest()
