"""The word links that attention is taught by: of a file, or of an aligner, trained once on the prepared text.

    PREPARED/ALIGNER-TEXT.links     int32 [links, 2]: source and target token of each, row after row
    PREPARED/ALIGNER-TEXT.edges     int64 [rows + 1]: where each row's links start

TEXT is the fingerprint of the text: another one has files of its own. Both are sealed as weights are.
"""

import logging
from collections.abc import Sequence

import numpy as np

from regard.data.checks import check_offsets
from regard.data.corpus import CorpusConfig
from regard.data.guidance import SplitLinks
from regard.data.prepared import Prepared
from regard.errors import DataError
from regard.training.guided import GuidedConfig
from regard.training.store import read_array, write_array

__all__ = ["guiding_links"]

_log = logging.getLogger(__name__)


def guiding_links(
    config: GuidedConfig | None, prepared: Prepared, corpora: Sequence[CorpusConfig], fingerprint: str
) -> SplitLinks | None:
    """The links of the training split that a config asks for, if any.

    Args:
        config: Where they come from; none: there are none.
        prepared: The text.
        corpora: What its training split was made from.
        fingerprint: Of the text.

    Raises:
        DataError: if a file does not fit the corpora (see `SplitLinks.read`), or a side of a pair to align is
            empty.
    """
    if config is None:
        return None
    split = prepared.split("train")
    tagged = [corpus.tag is not None for corpus in corpora]
    if config.links is not None:
        return SplitLinks.read(config.links, split, tagged, config.units)
    links = _aligned(prepared, fingerprint)
    # A tag, which is the first token then, is no word that could be translated.
    rows = np.repeat(tagged, [int(corpus["kept"]) for corpus in split.corpora])
    kept = (links.pairs[:, 0] > 0) | ~np.repeat(rows, np.diff(links.offsets))
    ends = np.concatenate([[0], np.cumsum(kept)])[links.offsets]
    return SplitLinks(links.pairs[kept], ends)


def _aligned(prepared: Prepared, fingerprint: str) -> SplitLinks:
    """The links of the training split's tokens: grow-diag-final-and of both directions."""
    from regard.alignment import Corpus, Setting, train_both
    from regard.alignment.registry import DEFAULT, config_of

    paths = [prepared.folder / f"{DEFAULT}-{fingerprint[:16]}.{kind}" for kind in ("links", "edges")]
    if not all(path.exists() for path in paths):
        _log.info("aligning %s to guide attention", prepared.folder)
        corpus = Corpus.from_prepared(prepared)
        found = train_both(corpus, config_of(DEFAULT), Setting(seed=1)).align(corpus)
        write_array(paths[0], np.stack([found.source, found.target], axis=1).astype(np.int32))
        write_array(paths[1], found.offsets.astype(np.int64))
    split = prepared.split("train")
    pairs, offsets = read_array(paths[0], "int32", None, 2), read_array(paths[1], "int64", len(split) + 1)
    check_offsets(str(paths[1]), offsets, len(split), len(pairs))
    for side, lengths in enumerate(split.lengths):
        most = np.repeat(lengths, np.diff(offsets))
        if ((pairs[:, side] < 0) | (pairs[:, side] >= most)).any():
            raise DataError(f"{paths[0]}: links tokens that {prepared.folder} has not; remove it")
    return SplitLinks(pairs, offsets)
