"""Translation of text lines, in order and in bounded memory."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from regard.attention.constrained import LOWER_BOUND_TOLERANCE
from regard.data.batch import Batch
from regard.data.fertility import Fertilities
from regard.data.links import Links
from regard.data.text import TextProcessor
from regard.data.vocabulary import UNK
from regard.decoding.beam import beam_search, beam_searches
from regard.decoding.blocks import length_error, length_sorted_batches, read_blocks
from regard.decoding.config import AlignmentConfig, GenerationConfig, LengthLimits, SamplingConfig
from regard.decoding.constrained import TermConstraints
from regard.decoding.forced import compute_posteriors
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.linking import WordIndices, attention_links, attention_map
from regard.decoding.mbr import MbrConfig, rank_candidates
from regard.decoding.parallel import map_batches
from regard.decoding.penalties import HypothesisScorer
from regard.decoding.replace_unk import replace_unk_tokens
from regard.decoding.required_terms import RequiredTerms
from regard.decoding.sampling import sample
from regard.decoding.user_fertilities import parse_user_fertilities
from regard.errors import DataError, UsageError
from regard.models.base import TranslationModel
from regard.types import Float

__all__ = ["InputLine", "LineResult", "Translation", "Translator", "enumerate_lines", "log_warnings"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InputLine:
    """A line to translate.

    Attributes:
        number: Line number, counted from 1.
        text: Source text.
        prefix: Text that the translation must start with.
        fertilities: Minimum and maximum attention of the tokens, in the format of `parse_fertilities`, for
            models with fertilities. Empty to use the model's own.
        terms: Words and phrases that the translation must contain, separated by tabs.
        fertilities_name: Origin of the fertilities, for messages.
    """

    number: int
    text: str
    prefix: str = ""
    fertilities: str = ""
    terms: str = ""
    fertilities_name: str = "the fertilities"


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Attributes:
        text: The translated text.
        tokens: Tokens as the model generated them.
        hypothesis: Scores and attention.
        source_words: Word index of each source token.
        target_words: Word index of each token of `tokens`.
        alignment: Settings of the attention used for the links.
    """

    text: str
    tokens: tuple[str, ...]
    hypothesis: Hypothesis
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)

    @property
    def score(self) -> float:
        """Return the score that search ranks by."""
        return self.hypothesis.score

    @cached_property
    def weights(self) -> Float[np.ndarray, "T S"]:
        """Return the attention map used for the links; see `regard.decoding.linking`."""
        return attention_map(self.hypothesis.posterior_attention, self.alignment)

    @cached_property
    def links(self) -> Links:
        """Return for each target word the source word with the highest attention, both counted from 0."""
        found, words = self.hypothesis, WordIndices(self.source_words, self.target_words)
        return attention_links(found.attention, found.posterior_attention, self.alignment, words)


@dataclass(frozen=True)
class LineResult:
    """Result of translating one line.

    Attributes:
        line: The line.
        source_tokens: Source tokens. They include the sink once there are translations.
        translations: Translations, best first. Empty if the line is empty or rejected.
        error: Why the line was rejected, or None.
        fertilities: User-specified minimum and maximum attention of the tokens.
        missing_terms: Required terms that at least one of the translations does not contain, with the reason
            if it is known.
    """

    line: InputLine
    source_tokens: tuple[str, ...] = ()
    translations: tuple[Translation, ...] = ()
    error: str | None = None
    fertilities: Fertilities | None = None
    missing_terms: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the text of the best translation, or an empty string."""
        return self.translations[0].text if self.translations else ""

    @property
    def unmet_lower_bounds(self) -> list[tuple[int, float]]:
        """Return the source tokens with less attention than their minimum, and the attention received.

        As in search, the total may be half a unit below the minimum, and attention is averaged over heads.
        The minimum may be violated if a translation reaches its maximum length or if no attention is left.
        """
        if self.fertilities is None or not self.translations:
            return []
        received = self.translations[0].hypothesis.attention[-1].mean(axis=1).sum(0).tolist()
        minimum = [low for low, _ in self.fertilities]
        pairs = zip(received, minimum, strict=False)
        return [(place, got) for place, (got, low) in enumerate(pairs) if got < low - LOWER_BOUND_TOLERANCE]


@dataclass(frozen=True)
class Translator:
    """A model with its text processing and search settings.

    Attributes:
        model: The model, or an ensemble.
        text: Text processing of both sides.
        search: Search settings.
        sampling: Sampling settings. Default: translations are searched for, not sampled.
        fertilities: Minimum and maximum attention for words, for models with fertilities.
        mbr: Settings of minimum Bayes risk decoding, which replaces scores by expected utilities. Default:
            translations are ranked by search.
    """

    model: TranslationModel
    text: TextProcessor
    search: GenerationConfig
    sampling: SamplingConfig | None = None
    fertilities: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    mbr: MbrConfig | None = None

    def __post_init__(self) -> None:
        """Resolve settings that depend on the tokenizer."""
        object.__setattr__(
            self, "search", self.search.resolve_suppress_unk(self.text.target.tokenizer.subword)
        )

    def pretokenized(self) -> "Translator":
        """Return a copy for pretokenized text, whose words are used unchanged."""
        return replace(self, text=self.text.without_conversion())

    def translate(self, lines: Iterable[InputLine]) -> Iterator[LineResult]:
        """Translate lines in blocks of `generation.buffer_lines` lines and yield the results in order.

        A line that is too long is rejected with a warning.
        """
        for block in read_blocks(lines, self.search.buffer_lines):
            for result in self.translate_block(block):
                log_warnings(result)
                yield result

    def translate_block(self, lines: Sequence[InputLine]) -> list[LineResult]:
        """Translate the lines of one block."""
        results = [self._tokenize(line) for line in lines]
        lengths = [0 if result.error else len(result.source_tokens) for result in results]
        # Empty and rejected lines have length 0 and are not searched.
        batches = list(length_sorted_batches(lengths, self.search))
        searches = [self._search([results[row] for row in rows]) for rows in batches]
        outcomes = map_batches(self.model, searches, lambda search: search())
        for rows, searched in zip(batches, outcomes, strict=True):
            for row, found in zip(rows, searched, strict=True):
                result = results[row]
                written = self._select([self._to_translation(result, hypothesis) for hypothesis in found])
                source_tokens = (*result.source_tokens, *self.text.sink_tokens)
                generated = [one.hypothesis.tokens for one in written]
                missing = self._required_terms.missing_terms(result.line.terms, generated)
                results[row] = LineResult(
                    result.line, source_tokens, written, None, result.fertilities, missing
                )
        return [self._retry_without_terms(result) if result.missing_terms else result for result in results]

    def _retry_without_terms(self, result: LineResult) -> LineResult:
        """Translate a line again without the terms that its best translation does not contain.

        A search for impossible terms may produce a degenerate translation.
        """
        contained = self._required_terms.contained_terms(
            result.line.terms, result.translations[0].hypothesis.tokens
        )
        if contained is None:
            return result
        (found,) = self.translate_block([replace(result.line, terms=contained)])
        return replace(found, line=result.line, missing_terms=result.missing_terms)

    def translate_with_scorers(
        self, lines: Sequence[InputLine], scorers: Sequence[HypothesisScorer]
    ) -> list[list[str]]:
        """Translate a block of lines and return the best translations under each of several scorers.

        All scorers share one search.

        Args:
            lines: The lines. A rejected line has an empty translation.
            scorers: Rank the finished hypotheses; see `beam_searches`.

        Returns:
            For each scorer, the translation of each line.
        """
        results = [self._tokenize(line) for line in lines]
        lengths = [0 if result.error else len(result.source_tokens) for result in results]
        texts = [[""] * len(results) for _ in scorers]
        batches = list(length_sorted_batches(lengths, self.search))

        def search(prepared: tuple[list[int], Batch, list[list[int]] | None]) -> list[list[str]]:
            rows, batch, prefixes = prepared
            outcomes = beam_searches(
                self.model,
                batch.source,
                self.search,
                scorers,
                prefixes,
                batch.upper_bounds,
                batch.lower_bounds,
            )
            best = [[hypotheses[0] for hypotheses in outcome] for outcome in outcomes]
            return [self._texts(results[row], found) for row, *found in zip(rows, *best, strict=True)]

        prepared = [(rows, *self._batch([results[row] for row in rows])) for rows in batches]
        for rows, found in zip(batches, map_batches(self.model, prepared, search), strict=True):
            for row, translations in zip(rows, found, strict=True):
                for own, text in zip(texts, translations, strict=True):
                    own[row] = text
        return texts

    def _texts(self, result: LineResult, found: Sequence[Hypothesis]) -> list[str]:
        """Convert hypotheses of a line to text. Equal hypotheses are converted only once."""
        known = {one.tokens: one for one in found}
        # Scorers often agree, and detokenization is slow.
        written = {tokens: self._to_translation(result, one).text for tokens, one in known.items()}
        return [written[one.tokens] for one in found]

    def _tokenize(self, line: InputLine) -> LineResult:
        """Tokenize a line, or reject it."""
        limits = self._limits
        error = length_error(line.text, None, limits.source) or self.text.source.format_error(line.text)
        if error is None:
            tokens = self.text.source.tokenize(line.text)
            error = length_error(line.text, len(tokens), limits.source)
            # The prefix counts toward the length of the translation.
            if error is None and line.prefix:
                error = length_error(line.prefix, len(self.text.target.encode(line.prefix)), limits.target)
            if error is None:
                where = f"{line.fertilities_name}, line {line.number}"
                given = parse_user_fertilities(
                    tokens, self.text.source, line.fertilities, self.fertilities, where
                )
                if given is not None and self.text.budget is not None:
                    ids = self.text.source.vocabulary.to_ids(tokens)
                    self.text.budget.check(ids, given, len(self.text.sink_tokens), where)
                return LineResult(line, tuple(tokens), fertilities=given)
        return LineResult(line, error=error)

    def _batch(self, results: Sequence[LineResult]) -> tuple[Batch, list[list[int]] | None]:
        """Return a batch of lines on the model's device, and the prefixes of their translations."""
        ids = [self.text.source.vocabulary.to_ids(result.source_tokens) for result in results]
        numbers = [result.line.number for result in results]
        device = next(self.model.parameters()).device
        given = [result.fertilities for result in results]
        batch = self.text.batch(ids, None, numbers, given).to(device)
        if not any(result.line.prefix for result in results):
            return batch, None
        return batch, [self.text.target.encode(result.line.prefix) for result in results]

    def _search(self, results: Sequence[LineResult]) -> Callable[[], list[list[Hypothesis]]]:
        """Return a function that searches or samples for a batch of lines.

        Text is processed here, in the calling thread.
        """
        batch, prefixes = self._batch(results)
        source, bounds = batch.source, (batch.upper_bounds, batch.lower_bounds)
        search = self.search
        if self.mbr is not None:
            search = self.mbr.candidate_search(search, self.sampling is not None)
        max_tokens = self._limits.target
        required = [self._required_terms.encode_feasible(result.line.terms, max_tokens) for result in results]
        if self.sampling is not None:
            if any(required):
                raise UsageError("required terms cannot be combined with sampling: use beam search")
            numbers = [result.line.number for result in results]
            generate = partial(sample, self.model, source, search, self.sampling, numbers, prefixes, *bounds)
        else:
            boundaries = self._required_terms.boundaries.to(source.tokens.device)
            terms = TermConstraints(required, boundaries) if any(required) else None
            generate = partial(beam_search, self.model, source, search, prefixes, *bounds, terms=terms)
        return lambda: compute_posteriors(self.model, batch, generate())

    def _select(self, found: Sequence[Translation]) -> tuple[Translation, ...]:
        """Return the translations as ranked by search, or by expected utility."""
        if self.mbr is None:
            return tuple(found)
        times = Counter(one.hypothesis.tokens for one in found)  # a repeated sample shares its probability
        log_probs = [one.hypothesis.log_probability - math.log(times[one.hypothesis.tokens]) for one in found]
        ranked = rank_candidates([one.text for one in found], log_probs, self.mbr, self.sampling is not None)
        return tuple(
            replace(found[place], hypothesis=replace(found[place].hypothesis, score=utility))
            for place, utility in ranked[: self.search.num_return]
        )

    @property
    def _limits(self) -> LengthLimits:
        return self.search.length_limits(self.model.max_length, len(self.text.sink_tokens))

    @cached_property
    def _required_terms(self) -> RequiredTerms:
        return RequiredTerms(self.text.target)

    def _to_translation(self, result: LineResult, hypothesis: Hypothesis) -> Translation:
        """Convert a hypothesis to text."""
        target = self.text.target
        source_words = (*self.text.source.word_ids(result.source_tokens), *self.text.sink_word_ids)
        generated = target.vocabulary.to_tokens(hypothesis.tokens)
        # A forced prefix is written as given, even if its words are not in the vocabulary.
        given = target.tokenize(result.line.prefix) if result.line.prefix else []
        written = [*given, *generated[len(given) :]]
        if self.search.alignment.replace_unk and UNK in hypothesis.tokens[len(given) :]:
            unknown = [token == UNK and i >= len(given) for i, token in enumerate(hypothesis.tokens)]
            # Each target token counts as a word of its own here, because tokens are replaced one by one.
            tokens = WordIndices(source_words, range(len(generated)))
            links = attention_links(
                hypothesis.attention, hypothesis.posterior_attention, self.search.alignment, tokens
            )
            written = replace_unk_tokens(unknown, written, links, result.source_tokens, self.text)
        return Translation(
            text=target.tokenizer.decode(written),
            tokens=tuple(generated),
            hypothesis=hypothesis,
            source_words=source_words,
            target_words=tuple(target.word_ids(generated)),
            alignment=self.search.alignment,
        )


def enumerate_lines(
    lines: Iterable[str],
    prefixes: Iterable[str] | None = None,
    prefixes_name: str = "the prefixes",
    fertilities: Iterable[str] | None = None,
    fertilities_name: str = "the fertilities",
    terms: Iterable[str] | None = None,
    terms_name: str = "the terms",
) -> Iterator[InputLine]:
    """Yield numbered lines with their prefixes, fertilities and required terms.

    Args:
        lines: The lines.
        prefixes: One prefix per line.
        prefixes_name: Origin of the prefixes, for messages.
        fertilities: One line of fertilities per line.
        fertilities_name: Origin of the fertilities, for messages.
        terms: One line of terms per line.
        terms_name: Origin of the terms, for messages.

    Raises:
        DataError: if the numbers of lines differ.
    """
    files = {
        "prefix": (prefixes, prefixes_name),
        "fertilities": (fertilities, fertilities_name),
        "terms": (terms, terms_name),
    }
    parallel = {key: (iter(given), where) for key, (given, where) in files.items() if given is not None}
    number = 0
    for number, text in enumerate(lines, 1):
        given = {key: _next_line(*one, number) for key, one in parallel.items()}
        yield InputLine(number, text, **given, fertilities_name=fertilities_name)
    for rest, where in parallel.values():
        if next(rest, None) is not None:
            raise DataError(f"{where} has more lines than the text to translate, which has {number}")


def _next_line(given: Iterator[str], where: str, number: int) -> str:
    """Return the next line of a file that is parallel to the text."""
    found = next(given, None)
    if found is None:
        raise DataError(
            f"{where} ends after line {number - 1}, but the text to translate has a line {number}: both must "
            "have the same number of lines"
        )
    return found


def log_warnings(result: LineResult) -> None:
    """Log warnings if a line was rejected or its translation violates required terms or minimum attention."""
    if result.error:
        _log.warning("line %d is rejected, its translation is empty: %s", result.line.number, result.error)
    for term in result.missing_terms:
        _log.warning("line %d: the translation does not contain the term %s", result.line.number, term)
    for place, received in result.unmet_lower_bounds:
        _log.warning(
            "line %d: source token %d (from 0), %r, received %.2f of attention, less than the minimum of its "
            "fertility",
            result.line.number,
            place,
            result.source_tokens[place],
            received,
        )
