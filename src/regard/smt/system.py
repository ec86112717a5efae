"""A phrase-based system as a model that a run trains, with a result like that of `Trainer`."""

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.config import to_dict
from regard.data.dataset import PreparedData
from regard.errors import CheckpointError
from regard.models.base import TrainableSystem
from regard.models.registry import register_model
from regard.smt.config import PhraseConfig
from regard.smt.model import PHRASE_DIR, load_phrases, read_file_checksums, read_fingerprint
from regard.smt.training import train_phrases
from regard.smt.translator import PhraseTranslator
from regard.training.progress import TrainingProgress
from regard.training.resume import compare_checksums, file_checksums
from regard.training.trainer import TrainingResult

__all__ = ["PhraseSystem"]

STATE_PREFIX = "phrases-"
"""Prefix of the directory in `training/` that holds the state of a run; the text's fingerprint follows."""


@register_model("phrase", PhraseConfig)
class PhraseSystem(TrainableSystem):
    """A phrase-based system: it trains itself, and has no attention of its own."""

    is_neural = False
    has_attention = False
    weights_name = PHRASE_DIR

    @classmethod
    def has_run(cls, model_dir: Path) -> bool:
        """Return whether a directory contains a phrase-based system or the state of an unfinished run."""
        return (model_dir / PHRASE_DIR).is_dir() or any(_state_dirs(model_dir))

    @classmethod
    def train_run(
        cls,
        config: PhraseConfig,
        prepared: PreparedData,
        model_dir: Path,
        file_checksums: Mapping[str, str],
        seed: int,
        num_threads: int,
    ) -> TrainingResult:
        """Train the system; see `TrainableSystem.train_run`.

        Raises:
            DataError: if the text is not suitable; see `regard.smt.training.train_phrases`.
            CheckpointError: if the directory is damaged, cannot be written or holds a system of other text.
        """
        begun = time.monotonic()
        # The state of a run on another text is not resumed.
        fingerprint = prepared.fingerprint
        if (model_dir / PHRASE_DIR).is_dir():
            if read_fingerprint(model_dir) not in (None, fingerprint):
                raise CheckpointError(
                    f"{model_dir}: the training data has changed since this run began; train into another "
                    "directory"
                )
            compare_checksums(
                read_file_checksums(model_dir), model_dir / PHRASE_DIR, model_dir, file_checksums
            )
            bleu = load_phrases(model_dir, config).bleu
            _clear(model_dir)
            return TrainingResult("an earlier run had finished", None, TrainingProgress(best_score=bleu))
        kept = model_dir / "training" / f"{STATE_PREFIX}{fingerprint[:16]}"
        made = train_phrases(
            config,
            prepared,
            model_dir,
            kept,
            seed,
            num_threads,
            fingerprint=fingerprint,
            file_checksums=file_checksums,
        )
        _clear(model_dir)
        return TrainingResult(
            "tuning", None, TrainingProgress(seconds=time.monotonic() - begun, best_score=made.bleu)
        )

    @classmethod
    def load_translator(cls, run: Any, model_dir: Path, num_threads: int) -> PhraseTranslator:
        """Load a translator whose beam is the stack size; see `TrainableSystem.load_translator`.

        Raises:
            CheckpointError: if the directory is damaged.
        """
        recorded = read_file_checksums(model_dir)
        compare_checksums(
            recorded, model_dir / PHRASE_DIR, model_dir, file_checksums(model_dir, to_dict(run))
        )
        model = load_phrases(model_dir, run.model)
        search = replace(run.generation, beam_size=run.model.stack_size, num_return=1)
        return PhraseTranslator(model, model.text, search, num_threads, str(model_dir))


def _state_dirs(directory: Path) -> Iterator[Path]:
    """Return the state directories of unfinished runs, on this text or another."""
    return (directory / "training").glob(f"{STATE_PREFIX}*")


def _clear(directory: Path) -> None:
    """Remove the state directories, which are not needed once the system is complete."""
    for kept in _state_dirs(directory):
        shutil.rmtree(kept, ignore_errors=True)
