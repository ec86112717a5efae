"""Word links for guided alignment, read from a file or computed by an aligner and cached.

The aligner is trained once on the prepared text. Its links are cached in two files:

    PREPARED/ALIGNER-TEXT.links     int32 [links, 2]: the source and target token of each link, row by row
    PREPARED/ALIGNER-TEXT.edges     int64 [rows + 1]: the offset of the first link of each row

PREPARED is the directory of the prepared text, and TEXT the fingerprint of the text, so that different texts
use different files. Both files carry checksums; see `regard.training.serialization`.
"""

import logging
from collections.abc import Sequence

import numpy as np

from regard.data.checks import check_offsets
from regard.data.corpus import CorpusConfig
from regard.data.dataset import PreparedData
from regard.data.guided_alignment import SplitLinks
from regard.errors import DataError
from regard.training.guided_alignment import GuidedAlignmentConfig
from regard.training.serialization import read_array, write_array

__all__ = ["load_guided_links"]

_log = logging.getLogger(__name__)


def load_guided_links(
    config: GuidedAlignmentConfig | None,
    prepared: PreparedData,
    corpora: Sequence[CorpusConfig],
    fingerprint: str,
) -> SplitLinks | None:
    """Return the word links of the training split, or None without guided alignment.

    Args:
        config: The settings of guided alignment, or None to disable it.
        prepared: The prepared text.
        corpora: The corpora of the training split.
        fingerprint: The fingerprint of the text.

    Raises:
        DataError: if the file of links does not match the corpora (see `SplitLinks.read`), or one side of a
            sentence pair to align is empty.
    """
    if config is None:
        return None
    split = prepared.split("train")
    has_prefix = [corpus.source_prefix is not None for corpus in corpora]
    if config.links is not None:
        return SplitLinks.read(config.links, split, has_prefix, config.units)
    links = _align_training_split(prepared, fingerprint)
    # A source prefix is the first token of its row. It has no translation, so its links are removed.
    prefixed_rows = np.repeat(has_prefix, [int(corpus["kept"]) for corpus in split.corpora])
    kept = (links.pairs[:, 0] > 0) | ~np.repeat(prefixed_rows, np.diff(links.offsets))
    ends = np.concatenate([[0], np.cumsum(kept)])[links.offsets]
    return SplitLinks(links.pairs[kept], ends)


def _align_training_split(prepared: PreparedData, fingerprint: str) -> SplitLinks:
    """Return the token links of the training split: both directions, symmetrized by grow-diag-final-and."""
    from regard.alignment import Corpus, TrainingSetup, train_both
    from regard.alignment.registry import DEFAULT_ALIGNER, default_config

    paths = [
        prepared.directory / f"{DEFAULT_ALIGNER}-{fingerprint[:16]}.{kind}" for kind in ("links", "edges")
    ]
    if not all(path.exists() for path in paths):
        _log.info("aligning %s to guide attention", prepared.directory)
        corpus = Corpus.from_prepared(prepared)
        found = train_both(corpus, default_config(DEFAULT_ALIGNER), TrainingSetup(seed=1)).align(corpus)
        write_array(paths[0], np.stack([found.source, found.target], axis=1).astype(np.int32))
        write_array(paths[1], found.offsets.astype(np.int64))
    split = prepared.split("train")
    # Reading the files even when they were just written means that cached links are always checked.
    pairs, offsets = read_array(paths[0], "int32", None, 2), read_array(paths[1], "int64", len(split) + 1)
    check_offsets(str(paths[1]), offsets, len(split), len(pairs))
    for side, lengths in enumerate(split.lengths):
        most = np.repeat(lengths, np.diff(offsets))
        if ((pairs[:, side] < 0) | (pairs[:, side] >= most)).any():
            raise DataError(
                f"{paths[0]}: some links refer to tokens that {prepared.directory} does not contain; remove "
                "the file and run the command again"
            )
    return SplitLinks(pairs, offsets)
