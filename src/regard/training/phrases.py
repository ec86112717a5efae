"""Training a phrase-based system as a run: its result in the form of the trainer's."""

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
"""What the name of the folder in `training/` begins with that has a run's state; then comes the text's."""


def is_phrase_folder(folder: Path) -> bool:
    """Whether a model folder holds a trained phrase-based system."""
    return (folder / PHRASE_FOLDER).is_dir()


def phrases_begun(folder: Path) -> bool:
    """Whether a model folder holds such a system, or what a run that was stopped has made of one."""
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
    """Train a system, go on with one that was stopped, or find that the folder holds it already.

    Args:
        config: Its settings.
        prepared: The text.
        folder: The model folder; it exists.
        fingerprint: Of the text: what was made of another is not gone on with.
        beside: The checksums of the config and the vocabularies; see `regard.training.resume.files_beside`.
        seed: Of all that is drawn at random.
        threads: Of compiled work; 0: as many as there are processors.

    Raises:
        DataError: if the text is not fit for it; see `regard.smt.training.train_phrases`.
        CheckpointError: if the folder is broken, cannot be written or holds a system of other text.
    """
    begun = time.monotonic()
    if is_phrase_folder(folder):
        if phrases_of(folder) not in (None, fingerprint):
            raise CheckpointError(
                f"{folder}: the training data has changed since this run began; give the new run another "
                "folder"
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
    """What runs that were stopped have made, of this text or another."""
    return (folder / "training").glob(f"{KEPT}*")


def _clear(folder: Path) -> None:
    """Remove what is needed no more once the system is whole."""
    for kept in _kept(folder):
        shutil.rmtree(kept, ignore_errors=True)
