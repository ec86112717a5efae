"""The state of tuning, which is saved after each round so that a resumed run has the same result."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import configclass, option
from regard.data.directories import atomic_directory
from regard.data.reading import Checksums, checked_file, compute_checksums, read_json, verify_checksums
from regard.errors import CheckpointError, DataError
from regard.smt.array_storage import read_arrays, write_arrays
from regard.smt.mert import NBestLists

__all__ = ["NBestPool", "TuningRound", "TuningState"]

TUNING_METADATA_FILE = "about.json"
ARRAYS = ("weights", "best", "sizes", "features", "counts", "lengths", "words")


@dataclass(frozen=True)
class TuningRound:
    """The result of one round of tuning.

    Attributes:
        round_number: The number of the round; round 0 uses the initial weights.
        weights: The weights of the decoder in this round.
        bleu: The BLEU of the translations on tokens, from 0 to 100.
        num_translations: The number of translations in all n-best lists.
    """

    round_number: int
    weights: np.ndarray
    bleu: float
    num_translations: int


class NBestPool:
    """The accumulated translations of one sentence, without duplicates of words and features.

    Attributes:
        words: The word ids of each translation.
        features: The features of each translation, float64 [features].
        counts: The BLEU statistics of each translation.
    """

    def __init__(self) -> None:
        """Create an empty pool."""
        self.words: list[tuple[int, ...]] = []
        self.features: list[np.ndarray] = []
        self.counts: list[np.ndarray] = []
        self._known: set[tuple[tuple[int, ...], bytes]] = set()

    def add(
        self, translations: Sequence[tuple[int, ...]], features: Sequence[np.ndarray], counts: np.ndarray
    ) -> int:
        """Add translations and return the number of new ones."""
        before = len(self.words)
        for words, row_features, row in zip(translations, features, counts, strict=True):
            # Different derivations can give the same words with other features.
            key = words, row_features.round(6).tobytes()
            if key not in self._known:
                self._known.add(key)
                self.words.append(words)
                self.features.append(row_features)
                self.counts.append(row)
        return len(self.words) - before


@dataclass
class TuningState:
    """The state at the start of a round.

    Attributes:
        pools: The n-best list of each sentence.
        rng: The random generator of the starting points.
        weights: The weights of the decoder in this round.
        round_number: The number of the round.
        best: The best round so far, or None before the first one.
    """

    pools: list[NBestPool]
    rng: np.random.Generator
    weights: np.ndarray
    round_number: int = 0
    best: TuningRound | None = None

    def lists(self) -> NBestLists:
        """Return the n-best lists for the search in weight space."""
        offsets = np.cumsum([0, *(len(pool.words) for pool in self.pools)]).astype(np.int64)
        return NBestLists(offsets, *self._together())

    def _together(self) -> tuple[np.ndarray, np.ndarray]:
        features = np.array([row for pool in self.pools for row in pool.features])
        return features, np.array([row for pool in self.pools for row in pool.counts])

    def save(self, directory: Path) -> None:
        """Write the state atomically.

        Raises:
            CheckpointError: if it cannot be written.
        """
        assert self.best is not None
        features, counts = self._together()
        translations = [words for pool in self.pools for words in pool.words]
        metadata: dict[str, Any] = {
            "number": self.round_number,
            "best": {key: getattr(self.best, key) for key in ("round_number", "bleu", "num_translations")},
            "random": self.rng.bit_generator.state,
        }
        arrays = {
            "weights": self.weights,
            "best": self.best.weights,
            "sizes": np.array([len(pool.words) for pool in self.pools], dtype=np.int64),
            "features": features,
            "counts": counts,
            "lengths": np.array([len(words) for words in translations], dtype=np.int64),
            "words": np.array([word for words in translations for word in words], dtype=np.int64),
        }
        try:
            with atomic_directory(directory) as temp_dir:
                write_arrays(temp_dir, "tuning", arrays)
                metadata["sha256"] = compute_checksums(
                    temp_dir, sorted(path.name for path in temp_dir.iterdir())
                )
                (temp_dir / TUNING_METADATA_FILE).write_text(json.dumps(metadata) + "\n", encoding="utf-8")
        except OSError as error:
            raise CheckpointError(f"{directory}: cannot be written: {error.strerror or error}") from None
        except DataError as error:
            raise CheckpointError(str(error)) from None

    @classmethod
    def load(cls, directory: Path) -> "TuningState":
        """Read a state that `save` wrote.

        Raises:
            CheckpointError: if a file is missing or altered; the message names it.
        """
        try:
            metadata = read_json(checked_file(directory, TUNING_METADATA_FILE), _Metadata)
            verify_checksums(
                directory, metadata.sha256, (f"tuning.{name}.npy" for name in ARRAYS), TUNING_METADATA_FILE
            )
            arrays = read_arrays(directory, "tuning", ARRAYS)
            rng = np.random.default_rng()
            rng.bit_generator.state = metadata.random
            best = TuningRound(weights=np.array(arrays["best"]), **vars(metadata.best))
            pools = _pools(arrays)
            return cls(pools, rng, np.array(arrays["weights"]), metadata.number, best)
        except DataError as error:
            raise CheckpointError(str(error)) from None
        except (ValueError, KeyError, TypeError, IndexError):
            raise CheckpointError(f"{directory}: not a tuning state; remove the directory") from None


@configclass
class _BestRound:
    """The best round in `about.json`."""

    round_number: int = option(help="Number of the round.", ge=0)
    bleu: float = option(help="BLEU of its translations.")
    num_translations: int = option(help="Number of translations in all n-best lists.", ge=0)


@configclass
class _Metadata:
    """The content of `about.json`."""

    number: int = option(help="Number of the next round.", ge=0)
    best: _BestRound = option(help="Best round so far.")
    random: dict[str, Any] = option(help="State of the random generator.")
    sha256: Checksums = option(help="Checksums of the other files in the directory.")


def _pools(arrays: dict[str, np.ndarray]) -> list[NBestPool]:
    words, pools = arrays["words"].tolist(), []
    ends = np.cumsum([0, *arrays["lengths"]]).tolist()
    translations = [tuple(words[first:last]) for first, last in pairwise(ends)]
    for first, last in pairwise(np.cumsum([0, *arrays["sizes"]]).tolist()):
        pools.append(NBestPool())
        pools[-1].add(
            translations[first:last], np.array(arrays["features"][first:last]), arrays["counts"][first:last]
        )
    return pools
