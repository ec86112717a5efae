"""The fertilities of a run (Malaviya et al. 2018), computed once and cached in the prepared-text directory.

    PREPARED/guided-ALIGNER-TEXT.fertilities   GUIDED: the fertility of each vocabulary entry, float32
    PREPARED/ALIGNER-TEXT.SPLIT.fertilities    the number of links of each source token, int32
    PREPARED/predictor-ALIGNER-TEXT-SETTINGS/  PREDICTED: a tagger; see `regard.training.fertility_predictor`
    MODEL/predictor/                           a copy of the tagger with the model

TEXT is the fingerprint of the text, so that different texts use different files. SETTINGS has the form
HIDDEN_SIZExMAX_EPOCHS-PATIENCE. The files carry checksums; see `regard.runs.serialization`.
"""

import dataclasses
import itertools
import logging
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.dataset import PreparedData
from regard.data.fertility import (
    Budget,
    ConstantFertilityConfig,
    FertilityConfig,
    GuidedFertilityConfig,
    PredictedFertilityConfig,
)
from regard.models.rnn.tagger import TaggerConfig
from regard.runs.fertility_predictor import PREDICTOR_DIR, PREDICTOR_FILE, FertilityPredictor, with_predictor
from regard.runs.serialization import read_array, write_array
from regard.text.array_files import check_range
from regard.training.config import ValidationConfig
from regard.training.fertility_predictor import (
    PREDICTOR_TRAINING,
    TaggedExamples,
    TaggedSentences,
    train_predictor,
)

__all__ = ["add_fertilities"]

FERTILITY_SPLITS = ("train", "valid")
_log = logging.getLogger(__name__)


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
    if isinstance(config, PredictedFertilityConfig):
        return _add_predicted(prepared, config, fingerprint)
    return prepared.with_budget(_guided_budget(prepared, config, fingerprint))


def _guided_budget(prepared: PreparedData, config: GuidedFertilityConfig, fingerprint: str) -> Budget:
    """Return the GUIDED budget: the largest fertility of each token in the training text."""
    from regard.alignment.fertility import max_fertilities

    # The name contains the origin and the fingerprint, so another text never uses this table.
    path = prepared.directory / f"guided-{config.aligner}-{fingerprint[:16]}.fertilities"
    if not path.exists():
        (counts,) = _make_counts(prepared, config, FERTILITY_SPLITS[:1])
        table = max_fertilities(prepared.alignment_corpus(), counts)
        write_array(path, table.astype(np.float32))
    # The table is read even when it was just written, so that cached values are always checked.
    table = read_array(path, "float32", len(prepared.text.source.vocabulary))
    check_range(str(path), table, 0, np.inf)
    return Budget(config, table)


def _add_predicted(
    prepared: PreparedData, config: PredictedFertilityConfig, fingerprint: str
) -> PreparedData:
    """Return the text with fertilities of the alignment for training, and predicted ones elsewhere."""
    name = f"{config.aligner}-{fingerprint[:16]}"
    counts = _count_links(prepared, config, name)
    directory = (
        prepared.directory
        / f"{PREDICTOR_DIR}-{name}-{config.hidden_size}x{config.max_epochs}-{config.patience}"
    )
    # `FertilityPredictor.save` writes this file last: its presence marks a complete predictor.
    if not (directory / PREDICTOR_FILE).exists():
        _train(prepared, counts, config, directory)
    text = dataclasses.replace(prepared.text, budget=Budget(config))
    budget = with_predictor(text, directory).budget
    # Tokens without links still get a fertility of 1, as in the predictor's training data.
    return prepared.with_budget(budget, {"train": np.maximum(counts[0], 1).astype(np.float32) + config.slack})


def _make_counts(
    prepared: PreparedData,
    config: GuidedFertilityConfig | PredictedFertilityConfig,
    splits: Sequence[str],
) -> list[np.ndarray]:
    """Count the links of each source token; the aligner is trained on the first split."""
    from regard.alignment import TrainingSetup
    from regard.alignment.base import default_config
    from regard.alignment.fertility import align_fertilities

    _log.info("aligning %s to count fertilities", prepared.directory)
    corpora = [prepared.alignment_corpus(split) for split in splits]
    return align_fertilities(corpora, TrainingSetup(seed=1), default_config(config.aligner))


def _count_links(prepared: PreparedData, config: PredictedFertilityConfig, name: str) -> list[np.ndarray]:
    """Return the number of links of each source token, by split."""
    paths = [prepared.directory / f"{name}.{split}.fertilities" for split in FERTILITY_SPLITS]
    # One call aligns all splits, so that all counts are made again if one file is missing.
    if not all(path.exists() for path in paths):
        new_counts = _make_counts(prepared, config, FERTILITY_SPLITS)
        for path, counts in zip(paths, new_counts, strict=True):
            write_array(path, counts.astype(np.int32))
    tokens = (int(prepared.split(split).source_lengths.sum()) for split in FERTILITY_SPLITS)
    split_counts = [read_array(path, "int32", size) for path, size in zip(paths, tokens, strict=True)]
    for path, counts in zip(paths, split_counts, strict=True):
        check_range(str(path), counts, 0, np.iinfo(np.int32).max)
    return split_counts


def _train(
    prepared: PreparedData, counts: Sequence[np.ndarray], config: PredictedFertilityConfig, directory: Path
) -> None:
    """Train a tagger on the training split and write it to `directory`, which exists only when complete."""
    _log.info("training a fertility predictor in %s", directory)
    # The training has its own directory, in which an interrupted run is resumed.
    training = directory.with_name(f"{directory.name}.training")
    train, valid = (
        _tagged_sentences(prepared, split, token_counts)
        for split, token_counts in zip(FERTILITY_SPLITS, counts, strict=True)
    )
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
