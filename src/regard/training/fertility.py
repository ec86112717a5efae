"""The fertilities of a run (Malaviya et al. 2018), and the training of the fertility predictor.

    PREPARED/ALIGNER-TEXT.SPLIT.fertilities    the number of links of each source token, int32
    PREPARED/predictor-ALIGNER-TEXT-SETTINGS/  PREDICTED: a tagger; see `regard.runs.fertility_predictor`
    MODEL/predictor/                           a copy of the tagger with the model

TEXT is the fingerprint of the text, so that different texts use different files. SETTINGS has the form
HIDDEN_SIZExMAX_EPOCHS-PATIENCE. The files carry checksums; see `regard.runs.serialization`. A predictor is
trained in a directory of its own, which also has the `record.jsonl` and `training/` of other runs, and is
resumed when `train_predictor` is called again with the same texts.
"""

import dataclasses
import itertools
import logging
import signal
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
from regard.data.dataset import PreparedData
from regard.data.fertility import (
    Budget,
    ConstantFertilityConfig,
    FertilityConfig,
    GuidedFertilityConfig,
    PredictedFertilityConfig,
)
from regard.models.base import TranslationModel
from regard.models.rnn.tagger import FertilityTagger, TaggerConfig
from regard.runs.fertility_predictor import (
    BATCH_SIZE,
    PREDICTOR_DIR,
    PREDICTOR_FILE,
    VOCABULARY_FILE,
    FertilityPredictor,
    PredictorDescription,
    predictor_checksums,
    with_predictor,
)
from regard.runs.serialization import read_array, write_array
from regard.text.array_files import check_range
from regard.text.files import directory_lock
from regard.text.vocabulary import Vocabulary
from regard.training.config import TrainingConfig, ValidationConfig
from regard.training.optimizer import AdamConfig, ConstantConfig
from regard.training.run_context import RunContext
from regard.training.trainer import Trainer, TrainingResult

_log = logging.getLogger(__name__)

_SEED = 1
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
        # Sources and targets have the same lengths.
        lengths = np.array([len(ids) for ids in self.sources], dtype=np.int64)
        self.lengths = lengths, lengths

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
        words = int(self.lengths[0].sum())
        # If no predicted or true fertility differs from 1, F1 is 0 instead of 0 / 0.
        return PredictorScore(nll / words, right / words, 2 * matches / max(1, others), words)


class _TaggerTrainer(Trainer):
    """A trainer that selects the best model by F1."""

    def _scores(self) -> dict[str, float]:
        """Return the scores of the tagger."""
        assert isinstance(self.state.model, FertilityTagger) and isinstance(self.valid, TaggedExamples)
        score = self.valid.score(self.state.model)
        entry = {"loss": score.loss, "perplexity": perplexity(score.loss)}
        return {**entry, "accuracy": score.accuracy, "f1": score.f1}


def train_predictor(
    output_dir: Path,
    training_data: TaggedSentences,
    validation_data: TaggedSentences,
    config: TaggerConfig,
    training: TrainingConfig = PREDICTOR_TRAINING,
) -> TrainingResult:
    """Train a predictor in a directory, or resume interrupted training.

    Words that occur once are replaced by the unknown word, so that the tagger learns to predict its
    fertility.

    Args:
        output_dir: The directory; it is created if it does not exist.
        training_data: The training sentences.
        validation_data: The validation sentences, on which the best epoch is selected by F1.
        config: The sizes of the tagger.
        training: The training options.

    Returns:
        The result of the run.

    Raises:
        CheckpointError: if a file cannot be written, or the directory has the state of another training.
    """
    counts = Counter(word for words in training_data.sentences for word in words)
    vocabulary = Vocabulary.build(counts, min_frequency=2)
    classes = max(config.min_classes, *(count for row in training_data.fertilities for count in row))
    about = PredictorDescription(tagger=config, num_classes=classes)
    torch.manual_seed(_SEED)
    with directory_lock(output_dir):
        about.save(output_dir)
        vocabulary.save(output_dir / VOCABULARY_FILE)
        checksums = predictor_checksums(to_dict(about), output_dir / VOCABULARY_FILE)
        run = RunContext(output_dir, _SEED, file_checksums=checksums)
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


def add_fertilities(prepared: PreparedData, config: FertilityConfig | None, fingerprint: str) -> PreparedData:
    """Return the prepared text with the fertility of each source token as an upper bound on its attention.

    Args:
        prepared: The prepared text.
        config: The fertility strategy, or None for no bounds.
        fingerprint: The fingerprint of the text.

    Raises:
        DataError: if one side of a sentence pair is empty, or a cached file is damaged.
    """
    if config is None:
        return prepared
    if isinstance(config, ConstantFertilityConfig):
        return prepared.with_budget(Budget.constant(config, len(prepared.text.source.vocabulary)))
    name = f"{config.aligner}-{fingerprint[:16]}"
    if isinstance(config, GuidedFertilityConfig):
        from regard.alignment.word_aligner import max_fertilities

        (counts,) = _count_links(prepared, config.aligner, name, ["train"])
        return prepared.with_budget(Budget(config, max_fertilities(prepared.alignment_corpus(), counts)))
    train_counts, valid_counts = _count_links(prepared, config.aligner, name, ["train", "valid"])
    settings = f"{config.hidden_size}x{config.max_epochs}-{config.patience}"
    directory = prepared.directory / f"{PREDICTOR_DIR}-{name}-{settings}"
    # `FertilityPredictor.save` writes this file last: its presence marks a complete predictor.
    if not (directory / PREDICTOR_FILE).exists():
        train = _tagged_sentences(prepared, "train", train_counts)
        _train(train, _tagged_sentences(prepared, "valid", valid_counts), config, directory)
    text = dataclasses.replace(prepared.text, budget=Budget(config))
    budget = with_predictor(text, directory).budget
    # Tokens without links still get a fertility of 1, as in the predictor's training data.
    actual = np.maximum(train_counts, 1).astype(np.float32) + config.slack
    return prepared.with_budget(budget, {"train": actual})


def _count_links(prepared: PreparedData, aligner: str, name: str, splits: Sequence[str]) -> list[np.ndarray]:
    """Return the number of links of each source token by split; the aligner is trained on the first one."""
    paths = [prepared.directory / f"{name}.{split}.fertilities" for split in splits]
    # One call aligns all splits, so that all counts are made again if one file is missing.
    if not all(path.exists() for path in paths):
        from regard.alignment import TrainingSetup
        from regard.alignment.base import default_config
        from regard.alignment.word_aligner import align_fertilities

        _log.info("aligning %s to count fertilities", prepared.directory)
        corpora = [prepared.alignment_corpus(split) for split in splits]
        new_counts = align_fertilities(corpora, TrainingSetup(seed=1), default_config(aligner))
        for path, counts in zip(paths, new_counts, strict=True):
            write_array(path, counts.astype(np.int32))
    # The files are read even when they were just written, so that cached values are always checked.
    tokens = [int(prepared.split(split).source_lengths.sum()) for split in splits]
    split_counts = [read_array(path, "int32", size) for path, size in zip(paths, tokens, strict=True)]
    for path, counts in zip(paths, split_counts, strict=True):
        check_range(str(path), counts, 0, np.iinfo(np.int32).max)
    return split_counts


def _train(
    train: TaggedSentences, valid: TaggedSentences, config: PredictedFertilityConfig, directory: Path
) -> None:
    """Train a tagger and write it to `directory`, which exists only when complete."""
    _log.info("training a fertility predictor in %s", directory)
    # The training has its own directory, in which an interrupted run is resumed.
    training = directory.with_name(f"{directory.name}.training")
    result = train_predictor(
        training,
        train,
        valid,
        TaggerConfig(embedding_size=config.hidden_size, hidden_size=config.hidden_size),
        dataclasses.replace(
            PREDICTOR_TRAINING,
            max_epochs=config.max_epochs,
            validation=ValidationConfig(early_stopping_patience=config.patience),
        ),
    )
    if result.signal is not None:
        # The training state is saved and the trainer's signal handler is removed. Raising the signal again
        # passes it to the handler that was installed before.
        signal.raise_signal(result.signal)
    predictor = FertilityPredictor.load(training)
    score = TaggedExamples(valid, predictor.vocabulary).score(predictor.model)
    _log.info(
        "fertilities of the validation text: accuracy %.1f %%, F1 of fertilities other than 1: %.1f %%",
        100 * score.accuracy,
        100 * score.f1,
    )
    predictor.save(directory)


def _tagged_sentences(prepared: PreparedData, split: str, counts: np.ndarray) -> TaggedSentences:
    """Return the source sentences of a split and the number of links of each token."""
    rows, vocabulary = prepared.split(split), prepared.text.source.vocabulary
    sentences = [vocabulary.to_tokens(rows.example(row)[0].tolist()) for row in range(len(rows))]
    ends = np.cumsum(rows.source_lengths).tolist()
    return TaggedSentences(sentences, [counts[i:j].tolist() for i, j in itertools.pairwise([0, *ends])])
