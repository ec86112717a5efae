"""Conversion of target text to the actions of a hard monotonic pointer, using character alignments.

Aharoni & Goldberg (2017), Section 3.1: before an aligned target character, the pointer steps to the source
character it is aligned to; unaligned characters are written at the current position. Their alignments are
monotone and one-to-one. Ours are the monotone one-to-one alignments with the highest expected number of
correct links, according to the posteriors of a word aligner in both directions, with characters as its words.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from regard.alignment.base import AlignerConfig, TrainingSetup
from regard.alignment.bayes_sampler import BayesConfig
from regard.alignment.corpus import Corpus
from regard.alignment.word_aligner import train_both
from regard.errors import DataError
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.files import write_atomic
from regard.text.tokenizers.words import STEP
from regard.text.words import normalize_whitespace, split_whitespace

MIN_LINK_PROBABILITY = 0.05
"""Links with a lower probability are ignored."""


def align_actions(
    pairs: Sequence[tuple[str, str]],
    config: AlignerConfig | None = None,
    setting: TrainingSetup | None = None,
) -> list[str]:
    """Align the characters of each pair and return the targets as actions.

    Args:
        pairs: Source and target texts. None of them is empty, and no target contains the step symbol.
        config: The aligner. Default: None, the default aligner.
        setting: Threads and seed.

    Raises:
        DataError: if there are no pairs.
    """
    setting = setting or TrainingSetup()
    # As in the tokenizers, runs of white space are one space.
    pairs = [(normalize_whitespace(source), normalize_whitespace(target)) for source, target in pairs]
    corpus = Corpus.from_tokens(((list(source), list(target)) for source, target in pairs))
    aligner = train_both(corpus, config or BayesConfig(), setting)
    posteriors = aligner.posteriors(corpus, threads=setting.num_threads)
    return [
        write_actions(target, monotone_alignment(p)) for (_, target), p in zip(pairs, posteriors, strict=True)
    ]


def write_action_tables(
    tables: Sequence[CorpusConfig], paths: Sequence[Path], setting: TrainingSetup | None = None
) -> list[int]:
    """Convert the inflected forms of several tables to actions, with one aligner for all of them.

    Args:
        tables: TSV tables. The last column is the form, the first one is the lemma.
        paths: The output tables, with the same columns except that forms are written as actions.
        setting: Threads and seed.

    Returns:
        The number of forms in each table.

    Raises:
        DataError: if a column is empty or a form contains the step symbol (the message names table and line),
            or if a file cannot be read or written.
    """
    rows = [list(read_pairs(table)) for table in tables]
    for table, table_rows in zip(tables, rows, strict=True):
        for number, (source, form) in enumerate(table_rows, 1):
            columns = [*source.split("\t"), form]
            if not all(map(split_whitespace, columns)) or STEP in form:
                raise DataError(
                    f"{table.file}: line {number}: {columns}: every column must contain text, and the "
                    f"form must not contain {STEP}"
                )
    pairs = [(source.partition("\t")[0], form) for table in rows for source, form in table]
    # One aligner for all tables: the validation table alone would be too small.
    actions = iter(align_actions(pairs, setting=setting))
    for path, table in zip(paths, rows, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, "".join(f"{source}\t{next(actions)}\n" for source, _ in table).encode())
    return [len(table) for table in rows]


def monotone_alignment(probabilities: Float[np.ndarray, "T S"]) -> list[int | None]:
    """Return the monotone one-to-one alignment with the highest expected number of correct links.

    Args:
        probabilities: [T, S], the probability of each link.

    Returns:
        The source position of each target position, strictly increasing, or None where unaligned.
    """
    weights = np.where(probabilities < MIN_LINK_PROBABILITY, 0.0, probabilities)
    length, width = weights.shape
    # best[t, s]: the optimum for the first t target and the first s source positions.
    best = np.zeros((length + 1, width + 1))
    for t in range(length):
        for s in range(width):
            # As in the longest common subsequence, with probabilities instead of matches.
            best[t + 1, s + 1] = max(best[t, s] + weights[t, s], best[t, s + 1], best[t + 1, s])
    links: list[int | None] = [None] * length
    t, s = length, width
    # Backtrace; ties prefer no link.
    while t and s:
        if best[t, s] == best[t - 1, s]:
            t -= 1
        elif best[t, s] == best[t, s - 1]:
            s -= 1
        else:
            t, s = t - 1, s - 1
            links[t] = s
    return links


def write_actions(target: str, links: Sequence[int | None]) -> str:
    """Return the actions that write a target; the pointer starts at the first source character.

    Args:
        target: The text.
        links: The source position of each target character, counted from 0 and strictly increasing, or None.
    """
    actions, position = "", 0
    for character, link in zip(target, links, strict=True):
        steps = 0 if link is None else link - position
        # The pointer stays where it is: the next character may be unaligned.
        actions += STEP * steps + character
        position += steps
    return actions
