"""Training of a phrase-based system as a run, with a result like that of `Trainer`."""

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.dataset import PreparedData
from regard.errors import CheckpointError
from regard.smt.config import PhraseConfig
from regard.smt.model import PHRASE_DIR, load_phrases, read_file_checksums, read_fingerprint
from regard.smt.training import train_phrases
from regard.training.progress import TrainingProgress
from regard.training.resume import compare_checksums
from regard.training.trainer import TrainingResult

__all__ = ["has_phrase_run", "is_phrase_model", "run_phrase_training"]

STATE_PREFIX = "phrases-"
"""Prefix of the directory in `training/` that holds the state of a run; the text's fingerprint follows."""


def is_phrase_model(directory: Path) -> bool:
    """Return whether a model directory contains a trained phrase-based system."""
    return (directory / PHRASE_DIR).is_dir()


def has_phrase_run(directory: Path) -> bool:
    """Return whether a model directory contains a phrase-based system or the state of an unfinished run."""
    return is_phrase_model(directory) or any(_state_dirs(directory))


def run_phrase_training(
    config: PhraseConfig,
    prepared: PreparedData,
    output_dir: Path,
    fingerprint: str,
    file_checksums: Mapping[str, str],
    seed: int,
    num_threads: int = 0,
) -> TrainingResult:
    """Train a phrase-based system, resume an unfinished run, or load the system if the run is complete.

    Args:
        config: The options of the system.
        prepared: The prepared text.
        output_dir: The model directory; it exists.
        fingerprint: The fingerprint of the text; the state of a run on another text is not resumed.
        file_checksums: The checksums of the config and the vocabularies; see
            `regard.training.resume.file_checksums`.
        seed: The random seed.
        num_threads: The number of threads of compiled code. 0 uses all processors.

    Raises:
        DataError: if the text is not suitable; see `regard.smt.training.train_phrases`.
        CheckpointError: if the directory is damaged, cannot be written or holds a system of other text.
    """
    begun = time.monotonic()
    if is_phrase_model(output_dir):
        if read_fingerprint(output_dir) not in (None, fingerprint):
            raise CheckpointError(
                f"{output_dir}: the training data has changed since this run began; train into another "
                "directory"
            )
        compare_checksums(
            read_file_checksums(output_dir), output_dir / PHRASE_DIR, output_dir, file_checksums
        )
        bleu = load_phrases(output_dir, config).bleu
        _clear(output_dir)
        return TrainingResult("an earlier run had finished", None, TrainingProgress(best_score=bleu))
    kept = output_dir / "training" / f"{STATE_PREFIX}{fingerprint[:16]}"
    made = train_phrases(
        config,
        prepared,
        output_dir,
        kept,
        seed,
        num_threads,
        fingerprint=fingerprint,
        file_checksums=file_checksums,
    )
    _clear(output_dir)
    return TrainingResult(
        "tuning", None, TrainingProgress(seconds=time.monotonic() - begun, best_score=made.bleu)
    )


def _state_dirs(directory: Path) -> Iterator[Path]:
    """Return the state directories of unfinished runs, on this text or another."""
    return (directory / "training").glob(f"{STATE_PREFIX}*")


def _clear(directory: Path) -> None:
    """Remove the state directories, which are not needed once the system is complete."""
    for kept in _state_dirs(directory):
        shutil.rmtree(kept, ignore_errors=True)
