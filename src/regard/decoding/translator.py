"""Translation of text lines, in order and in bounded memory."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from regard.data.batch import Batch
from regard.data.text import TextProcessor
from regard.data.vocabulary import UNK
from regard.decoding.beam import beam_search, beam_searches
from regard.decoding.blocks import length_error, length_sorted_batches, read_blocks
from regard.decoding.config import GenerationConfig, LengthLimits, SamplingConfig
from regard.decoding.constrained import TermConstraints
from regard.decoding.forced import compute_posteriors
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.lines import InputLine, LineResult, Translation, log_warnings
from regard.decoding.linking import WordIndices, attention_links
from regard.decoding.mbr import MbrConfig, rank_candidates
from regard.decoding.parallel import map_batches
from regard.decoding.penalties import HypothesisScorer
from regard.decoding.replace_unk import replace_unk_tokens
from regard.decoding.required_terms import RequiredTerms
from regard.decoding.sampling import sample
from regard.decoding.user_fertilities import parse_user_fertilities
from regard.errors import UsageError
from regard.models.base import TranslationModel

__all__ = [
    "Translator",
]


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
