"""Find the errors of each translation: dropped source words, repeated words, attention against fertility.

The errors are those that REP and DROP count (Malaviya et al. (2018), Section 5; `regard.metrics.coverage`),
so the sums over sentences yield the corpus scores. Sentences are ranked by repetitions and dropped words.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from regard.analysis.inputs import Linker, ParallelText, Progress, System, no_progress
from regard.config.results import Result
from regard.errors import DataError
from regard.generation.base import BaseTranslator
from regard.generation.lines import enumerate_lines
from regard.generation.linking import tokens_to_words
from regard.generation.translation import Translation
from regard.metrics.base import SentenceCounts
from regard.metrics.coverage import (
    ReceivedAttention,
    count_drops,
    count_repetitions,
    dropped_words,
    immediate_repetitions,
    received_attention,
    repeated_ngrams,
    repetition_sigma,
)
from regard.plot.analyses import error_chart
from regard.plot.figure import Figure
from regard.text.links import Links, format_links
from regard.text.vocabulary import SPECIAL_TOKENS, UNK

_DIGITS = 6  # decimals of attention in JSON


@dataclass(frozen=True)
class SentenceErrors:
    """A source sentence, its reference and its translation, as words.

    Attributes:
        line: Line number, counted from 1.
        source: Words of the source.
        reference: Words of the reference.
        output: Words of the translation.
        received: Attention that the source words received; None for a model without attention.
        links: Word links between source and reference, and between source and translation; None without a
            word aligner.
        lowercase: Whether to ignore case when counting repetitions.
    """

    line: int
    source: tuple[str, ...]
    reference: tuple[str, ...]
    output: tuple[str, ...]
    received: ReceivedAttention | None = None
    links: tuple[Links, Links] | None = None
    lowercase: bool = False

    @property
    def normalized_words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of output and reference on which repetitions are counted."""
        if not self.lowercase:
            return self.output, self.reference
        return tuple(map(str.lower, self.output)), tuple(map(str.lower, self.reference))

    @cached_property
    def dropped(self) -> tuple[int, ...]:
        """Indices of the source words that are linked to the reference but not to the output."""
        return () if self.links is None else tuple(dropped_words(*self.links))

    @cached_property
    def ngrams(self) -> dict[str, int]:
        """The repeated bigrams, with the excess of their count over the reference."""
        return {" ".join(ngram): times for ngram, times in repeated_ngrams(*self.normalized_words).items()}

    @cached_property
    def doubled_counts(self) -> dict[str, int]:
        """The immediately repeated words, with the excess of their count over the reference."""
        return dict(immediate_repetitions(*self.normalized_words))

    @cached_property
    def repetition_score(self) -> float:
        """The sentence's contribution to the numerator of REP."""
        return repetition_sigma(*self.normalized_words)

    @property
    def num_errors(self) -> float:
        """The sum of `repetition_score` and the number of dropped words."""
        return self.repetition_score + len(self.dropped)

    @cached_property
    def repeated(self) -> frozenset[int]:
        """Indices of the excess output words: the last occurrences of a repetition, never the first one."""
        output, reference = self.normalized_words
        positions: set[int] = set()
        for ngram, excess in repeated_ngrams(output, reference).items():
            starts = [i for i in range(len(output)) if output[i : i + len(ngram)] == ngram]
            # The reference justifies the first occurrences, so the excess is counted from the end.
            for start in starts[1:][-excess:]:
                positions.update(range(start, start + len(ngram)))
        for word, excess in immediate_repetitions(output, reference).items():
            # Of two equal words in a row, the second one is the excess.
            seconds = [i for i in range(1, len(output)) if output[i - 1] == output[i] == word]
            positions.update(seconds[-excess:])
        return frozenset(positions)

    def record(self) -> dict[str, Any]:
        """Return all fields for JSON; an unbounded fertility becomes null."""
        received, links = self.received, self.links
        fertility = None if received is None else received.fertility
        return {
            "line": self.line,
            "num_errors": self.num_errors,
            "source": list(self.source),
            "reference": list(self.reference),
            "output": list(self.output),
            "repetition_score": self.repetition_score,
            "repeated": sorted(self.repeated),
            "ngrams": self.ngrams,
            "doubled_counts": self.doubled_counts,
            "dropped": None if links is None else list(self.dropped),
            "attention": None if received is None else [round(x, _DIGITS) for x in received.attention],
            "sink": None if received is None or received.sink is None else round(received.sink, _DIGITS),
            "fertility": fertility
            and [round(most, _DIGITS) if math.isfinite(most) else None for most in fertility],
            "reference_links": None if links is None else format_links(links[0]),
            "output_links": None if links is None else format_links(links[1]),
        }


@dataclass(frozen=True)
class ErrorAnalysis(Result):
    """The errors of a system on a text.

    Attributes:
        models: The directories of the model or the ensemble, or the file of translations.
        source: The file of the source lines. None for a text from Python.
        reference: The file of the references. None for a text from Python.
        aligner: Directory of the word aligner. None without an aligner, or for one from Python.
        lowercase: Whether case was ignored.
        num_lines: Number of lines, including those that were too long for the model.
        rep: REP of the text (Malaviya et al. (2018), Section 5); lower is better.
        drop: DROP of the text. None without an aligner.
        sentences: The translated lines, in decreasing order of the number of errors.
        notes: Notes for the reader, one sentence each.
    """

    schema = "error_analysis"
    models: tuple[str, ...]
    source: str | None
    reference: str | None
    aligner: str | None
    lowercase: bool
    num_lines: int
    rep: float
    drop: float | None
    sentences: tuple[SentenceErrors, ...]
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per sentence, in decreasing order of the number of errors."""
        return [
            {
                "line": sentence.line,
                "num_errors": sentence.num_errors,
                "dropped": " ".join(sentence.source[position] for position in sentence.dropped),
                "repeated": " ".join(sentence.output[position] for position in sorted(sentence.repeated)),
                "source": " ".join(sentence.source),
                "output": " ".join(sentence.output),
                "reference": " ".join(sentence.reference),
            }
            for sentence in self.sentences
        ]

    def plot(self) -> Figure:
        """Return the figure of the share of sentences by number of errors."""
        return error_chart(np.array([sentence.num_errors for sentence in self.sentences]))

    def __repr__(self) -> str:
        """Return the number of sentences and the scores."""
        drop = "" if self.drop is None else f", DROP {self.drop:.2f}"
        return f"ErrorAnalysis({len(self.sentences)} sentences, REP {self.rep:.2f}{drop})"


def analyze_errors(
    system: System,
    text: ParallelText,
    linker: Linker | None = None,
    lowercase: bool = False,
    progress: Progress = no_progress,
) -> ErrorAnalysis:
    """Translate a text and find the errors of each translation (Malaviya et al. (2018), Section 5).

    Args:
        system: The system, which returns one translation per line.
        text: The text.
        linker: The word aligner. Without one, dropped words are not found.
        lowercase: Whether to ignore case when counting repetitions.
        progress: Progress display.

    Raises:
        DataError: if all lines are too long.
    """
    results = progress(
        system.translator.translate(enumerate_lines(text.sources)), "translate", len(text.sources)
    )
    # Lines that are too long are left out: as empty translations they would count as entirely dropped.
    sentences = [
        sentence_from_result(result, text.references[result.number - 1], system.translator, lowercase)
        for result in results
        if not result.error
    ]
    if not sentences:
        raise DataError(f"{text.source_name}: all lines are too long for the model: nothing was translated")
    if linker is None:
        notes: tuple[str, ...] = (
            "dropped words cannot be found without --aligner: the sentences are ranked by repetitions only",
        )
    else:
        # The same aligner links both texts, so that its errors affect them alike.
        expected = [(sentence.source, sentence.reference) for sentence in sentences]
        produced = [(sentence.source, sentence.output) for sentence in sentences]
        notes = linker.unknown_word_notes(expected)
        both = zip(sentences, linker.align(expected), linker.align(produced), strict=True)
        sentences = [replace(sentence, links=tuple(pair)) for sentence, *pair in both]
    scores = {name: counts.corpus_score() for name, counts in count_errors(sentences).items()}
    return ErrorAnalysis(
        models=system.paths,
        source=text.source_path,
        reference=text.reference_path,
        aligner=None if linker is None else linker.path,
        lowercase=lowercase,
        num_lines=len(text.sources),
        rep=scores["rep"],
        drop=scores.get("drop"),
        sentences=tuple(sorted(sentences, key=lambda sentence: (-sentence.num_errors, sentence.line))),
        notes=notes,
    )


def count_errors(sentences: Sequence[SentenceErrors]) -> dict[str, SentenceCounts]:
    """Return the counts of `rep` for each sentence, and those of `drop` if all sentences have links."""
    outputs, references = ([sentence.normalized_words[side] for sentence in sentences] for side in (0, 1))
    counts = {"rep": count_repetitions(outputs, references)}
    links = [sentence.links for sentence in sentences if sentence.links is not None]
    # DROP over only some of the sentences would not describe the corpus.
    if len(links) == len(sentences):
        counts["drop"] = count_drops(*([pair[side] for pair in links] for side in (0, 1)))
    return counts


def sentence_from_result(
    translation: Translation, reference: str, translator: BaseTranslator, lowercase: bool
) -> SentenceErrors:
    """Return a translated line as words, with the attention that each source word received."""
    target = translator.text.target
    tokens: Sequence[str] = translation.tokens
    # The replacement of unknown words changes only the text, so its tokens differ from those of the model.
    if translator.search.alignment.replace_unk and SPECIAL_TOKENS[UNK] in tokens:
        tokens = target.tokenize(translation.text)
    output = tokens_to_words(target, tokens)
    return SentenceErrors(
        line=translation.number,
        source=translation.source_words,
        reference=tokens_to_words(target, target.tokenize(reference)),
        # A model may generate two spaces in a row, with no word between them.
        output=tuple(word for word in output if word),
        received=_attention_received(translation, translator),
        lowercase=lowercase,
    )


def _attention_received(translation: Translation, translator: BaseTranslator) -> ReceivedAttention | None:
    """Return the attention that the source words received, or None if there is no attention."""
    weights = translation.attention_map
    if "attention" not in translator.capabilities or not translation.nbest:
        return None
    if translation.tokens and not weights.any():
        return None
    text = translator.text
    fertilities = None
    if text.budget is not None:
        ids = text.source.vocabulary.to_ids(translation.text_source_tokens)
        (fertilities,) = text.budget.fertilities([ids])
    return received_attention(weights, translation.source_word_ids, fertilities)
