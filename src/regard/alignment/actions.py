"""Target text as the actions of a pointer that walks along the source, from alignments of characters.

Aharoni & Goldberg (2017), Section 3.1: where a character of the target is aligned, the pointer first steps to
the character it is aligned to; what is not aligned is written where the pointer stands. Their alignments are
monotone and one to one; ours are made so: of all such alignments the one whose expected number of right links
is the highest, by the probabilities of the word aligner in both directions, its words being characters.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.alignment.base import Setting
from regard.alignment.bayes import BayesConfig
from regard.alignment.both import train_both
from regard.alignment.corpus import Corpus
from regard.alignment.registry import AlignerConfig
from regard.data.corpus import CorpusConfig, read_pairs
from regard.data.files import write_atomic
from regard.data.spacing import join_spaces, split_at_spaces
from regard.data.tokenizers.actions import STEP
from regard.errors import DataError
from regard.types import Float

__all__ = ["align_actions", "monotone", "write_action_tables", "write_actions"]

LEAST = 0.05
"""Links less probable than this are none."""


def align_actions(
    pairs: Sequence[tuple[str, str]], config: AlignerConfig | None = None, setting: Setting | None = None
) -> list[str]:
    """Align the characters of pairs and write each target as actions.

    Args:
        pairs: Source and target; neither is empty.
        config: The aligner; none: the default one.
        setting: Threads and seed.

    Raises:
        DataError: if there is no pair, a side is empty or holds the step symbol; names the pair.
    """
    setting = setting or Setting()
    # As the tokenizers read them: runs of white space are one.
    pairs = [(join_spaces(source), join_spaces(target)) for source, target in pairs]
    for number, pair in enumerate(pairs, 1):
        if not all(pair) or STEP in pair[1]:
            raise DataError(f"pair {number}: {pair!r}: expected two texts, the second without {STEP}")
    corpus = Corpus.from_tokens(((list(source), list(target)) for source, target in pairs))
    aligner = train_both(corpus, config or BayesConfig(), setting)
    found = aligner.posteriors(corpus, threads=setting.threads)
    return [write_actions(target, monotone(p)) for (_, target), p in zip(pairs, found, strict=True)]


def write_action_tables(
    tables: Sequence[CorpusConfig], paths: Sequence[Path], setting: Setting | None = None
) -> list[int]:
    """Write the forms of tables as actions, aligned together.

    Args:
        tables: Their last column is the form; of the others the first is the lemma.
        paths: The new tables, of the same columns but for the form.
        setting: Threads and seed.

    Returns:
        How many forms each has.

    Raises:
        DataError: if a column is empty or a form holds the step symbol (names table and line), or a file
            cannot be read or written.
    """
    rows = [list(read_pairs(table)) for table in tables]
    for table, own in zip(tables, rows, strict=True):
        for number, (source, form) in enumerate(own, 1):
            columns = [*source.split("\t"), form]
            if not all(map(split_at_spaces, columns)) or STEP in form:
                raise DataError(
                    f"{table.tsv}: line {number}: {columns}: expected text in every column, the form without "
                    f"{STEP}"
                )
    pairs = [(source.partition("\t")[0], form) for table in rows for source, form in table]
    found = iter(align_actions(pairs, setting=setting))
    for path, table in zip(paths, rows, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, "".join(f"{source}\t{next(found)}\n" for source, _ in table).encode())
    return [len(table) for table in rows]


def monotone(probabilities: Float[np.ndarray, "T S"]) -> list[int | None]:
    """The monotone one-to-one alignment with the most expected right links.

    Args:
        probabilities: Of each link.

    Returns:
        For each target word its source word, ever further right, or none.
    """
    likely = np.where(probabilities < LEAST, 0.0, probabilities)
    length, width = likely.shape
    best = np.zeros((length + 1, width + 1))  # of the first t target and the first s source words
    for t in range(length):
        for s in range(width):
            best[t + 1, s + 1] = max(best[t, s] + likely[t, s], best[t, s + 1], best[t + 1, s])
    heads: list[int | None] = [None] * length
    t, s = length, width
    while t and s:
        if best[t, s] == best[t - 1, s]:
            t -= 1
        elif best[t, s] == best[t, s - 1]:
            s -= 1
        else:
            t, s = t - 1, s - 1
            heads[t] = s
    return heads


def write_actions(target: str, heads: Sequence[int | None]) -> str:
    """The actions that write a target, the pointer standing on the first source character at first.

    Args:
        target: The text.
        heads: The source character of each of its characters, from 0, ever further right; or none.
    """
    written, place = "", 0
    for character, head in zip(target, heads, strict=True):
        steps = 0 if head is None else head - place
        written += STEP * steps + character
        place += steps
    return written
