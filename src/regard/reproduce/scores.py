"""The scores of a row: translations of the test text, and what each metric counts in every sentence.

Tokenised BLEU on lowercased words, METEOR, REP and DROP as in Malaviya et al. (2018); subwords are joined
before. Counts are kept sentence by sentence, so that intervals need no second look at the text.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.alignment import Corpus, WordAligner
from regard.errors import UsageError
from regard.metrics.counts import SentenceCounts
from regard.metrics.coverage import count_drops, count_repetitions
from regard.metrics.meteor import count_meteor, find_jar, find_java
from regard.metrics.translation import count

__all__ = ["SCORERS", "Outputs", "available", "counts_bytes", "read_counts"]


@dataclass(frozen=True)
class Outputs:
    """A system's translations and what they are judged by.

    Attributes:
        sources: The source sentences, words between blanks.
        references: Their translations.
        outputs: The system's.
        aligner: Trained on the training text.
        threads: For aligning.
    """

    sources: Sequence[str]
    references: Sequence[str]
    outputs: Sequence[str]
    aligner: Path
    threads: int = 0


def _bleu(given: Outputs) -> SentenceCounts:
    return count("bleu", given.outputs, [given.references], tokenize="none", lowercase=True)


def _meteor(given: Outputs) -> SentenceCounts:
    return count_meteor(given.outputs, [given.references])


def _rep(given: Outputs) -> SentenceCounts:
    said, wanted = ([line.split() for line in lines] for lines in (given.outputs, given.references))
    return count_repetitions(said, wanted)


def _drop(given: Outputs) -> SentenceCounts:
    aligner = WordAligner.load(given.aligner)
    links = []
    for targets in (given.references, given.outputs):
        pairs = ((a.split(), b.split()) for a, b in zip(given.sources, targets, strict=True))
        corpus = Corpus.from_tokens(pairs, aligner.words, allow_empty=True)
        links.append(list(aligner.align(corpus, "grow-diag-final-and", given.threads)))
    return count_drops(links[0], links[1])


SCORERS: dict[str, Callable[[Outputs], SentenceCounts]] = {
    "bleu": _bleu,
    "meteor": _meteor,
    "rep": _rep,
    "drop": _drop,
}


def available(metric: str, target: str) -> str | None:
    """Why a metric cannot be computed for a target language on this machine; none if it can."""
    if metric != "meteor":
        return None
    if target != "en":
        return "METEOR's data is for English alone"
    try:
        find_java()
        find_jar()
    except UsageError as error:
        return str(error)
    return None


def counts_bytes(counts: dict[str, SentenceCounts]) -> bytes:
    """The counts of each metric as the content of a file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: own.rows for name, own in counts.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


def read_counts(path: Path) -> dict[str, np.ndarray]:
    """The rows of counts of each metric."""
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
