"""Training of the fertility predictor (Malaviya et al. 2018), in a directory of its own.

It has the files of `regard.runs.fertility_predictor`, and `record.jsonl` and `training/` as other runs have.
Interrupted training resumes when `train_predictor` is called again with the same texts.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch

from regard.config import to_dict
from regard.config.results import perplexity
from regard.data.batch import Batch, BatchConfig, collate, make_batches
from regard.errors import DataError, UsageError
from regard.models.base import TranslationModel
from regard.models.rnn.tagger import FertilityTagger, TaggerConfig
from regard.runs.fertility_predictor import (
    BATCH_SIZE,
    PREDICTOR_FILE,
    VOCABULARY_FILE,
    PredictorDescription,
    predictor_checksums,
)
from regard.text.files import directory_lock, is_empty
from regard.text.reading import InvalidJsonError, read_json
from regard.text.vocabulary import Vocabulary
from regard.training.config import TrainingConfig
from regard.training.optimizer import AdamConfig, ConstantConfig
from regard.training.run_context import RunContext
from regard.training.trainer import Trainer, TrainingResult

__all__ = ["PREDICTOR_TRAINING", "PredictorScore", "TaggedExamples", "TaggedSentences", "train_predictor"]

PREDICTOR_TRAINING = TrainingConfig(
    batch_size=BATCH_SIZE,
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
            for rows in self.batches(BatchConfig(batch_size=BATCH_SIZE), seed=0, epoch=0):
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
    about = PredictorDescription(
        tagger=config, num_classes=classes, text_checksum=_digest(training_data, validation_data), seed=seed
    )
    _check_directory(output_dir, about)  # before anything is written
    torch.manual_seed(seed)
    with directory_lock(output_dir):
        # Another process may have written to the directory before this one acquired the lock.
        _check_directory(output_dir, about)
        about.save(output_dir)
        vocabulary.save(output_dir / VOCABULARY_FILE)
        checksums = predictor_checksums(to_dict(about), output_dir / VOCABULARY_FILE)
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


def _check_directory(directory: Path, about: PredictorDescription) -> None:
    """Raise an error if the directory contains other files than a predictor of this description."""
    if (directory / PREDICTOR_FILE).is_file():
        try:
            known = read_json(directory / PREDICTOR_FILE, PredictorDescription)
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


def _digest(*texts: TaggedSentences) -> str:
    """Return the SHA-256 checksum of sentences and fertilities."""
    total = hashlib.sha256()
    for tagged in texts:
        for words, counts in zip(tagged.sentences, tagged.fertilities, strict=True):
            total.update(f"{' '.join(words)}\t{' '.join(map(str, counts))}\n".encode())
        # The separator marks the end of a text: a line that moves to the next text changes the sum.
        total.update(b"\0")
    return total.hexdigest()
