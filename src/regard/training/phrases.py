"""Training of a phrase-based system as a run, with a result like that of `Trainer`."""

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.prepared import Prepared
from regard.errors import CheckpointError
from regard.smt.config import PhraseConfig
from regard.smt.model import PHRASE_FOLDER, load_phrases, phrases_beside, phrases_of
from regard.smt.training import train_phrases
from regard.training.progress import Progress
from regard.training.resume import compare_beside
from regard.training.trainer import Result

__all__ = ["is_phrase_folder", "phrases_begun", "run_phrases"]

KEPT = "phrases-"
"""Prefix of the directory in `training/` that holds the state of a run; the text's fingerprint follows."""


def is_phrase_folder(folder: Path) -> bool:
    """Return whether a model directory contains a trained phrase-based system."""
    return (folder / PHRASE_FOLDER).is_dir()


def phrases_begun(folder: Path) -> bool:
    """Return whether a model directory contains a phrase-based system or the state of an unfinished run."""
    return is_phrase_folder(folder) or any(_kept(folder))


def run_phrases(
    config: PhraseConfig,
    prepared: Prepared,
    folder: Path,
    fingerprint: str,
    beside: Mapping[str, str],
    seed: int,
    threads: int = 0,
) -> Result:
    """Train a phrase-based system, resume an unfinished run, or load the system if the run is complete.

    Args:
        config: The options of the system.
        prepared: The prepared text.
        folder: The model directory; it exists.
        fingerprint: The fingerprint of the text; the state of a run on another text is not resumed.
        beside: The checksums of the config and the vocabularies; see `regard.training.resume.files_beside`.
        seed: The random seed.
        threads: The number of threads of compiled code. 0 uses all processors.

    Raises:
        DataError: if the text is not suitable; see `regard.smt.training.train_phrases`.
        CheckpointError: if the directory is damaged, cannot be written or holds a system of other text.
    """
    begun = time.monotonic()
    if is_phrase_folder(folder):
        if phrases_of(folder) not in (None, fingerprint):
            raise CheckpointError(
                f"{folder}: the training data has changed since this run began; train into another directory"
            )
        compare_beside(phrases_beside(folder), folder / PHRASE_FOLDER, folder, beside)
        bleu = load_phrases(folder, config).bleu
        _clear(folder)
        return Result("an earlier run had finished", None, Progress(best=bleu))
    kept = folder / "training" / f"{KEPT}{fingerprint[:16]}"
    made = train_phrases(
        config, prepared, folder, kept, seed, threads, fingerprint=fingerprint, beside=beside
    )
    _clear(folder)
    return Result("tuning", None, Progress(seconds=time.monotonic() - begun, best=made.bleu))


def _kept(folder: Path) -> Iterator[Path]:
    """Return the state directories of unfinished runs, on this text or another."""
    return (folder / "training").glob(f"{KEPT}*")


def _clear(folder: Path) -> None:
    """Remove the state directories, which are not needed once the system is complete."""
    for kept in _kept(folder):
        shutil.rmtree(kept, ignore_errors=True)
