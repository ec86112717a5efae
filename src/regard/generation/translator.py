"""Translation of text lines with neural models, in order and in bounded memory."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, get_args

import numpy as np

from regard.attention.scored import ScorerAttention
from regard.data.batch import Batch
from regard.data.text import TextProcessor
from regard.errors import UsageError
from regard.generation.analysis import ForcedResult, force_decode_lines
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.beam import beam_search, beam_searches, eval_mode
from regard.generation.blocks import (
    PretokenizedPair,
    length_error,
    length_sorted_batches,
    pair_batches,
    pair_blocks,
)
from regard.generation.config import GenerationConfig, LengthLimits, SamplingConfig
from regard.generation.constrained import RequiredOutput, RequiredTerms, TermConstraints
from regard.generation.coverage import CoverageJudge
from regard.generation.forced import LineScore, attribute_hypotheses, compute_posteriors, score_lines
from regard.generation.hypothesis import Hypothesis
from regard.generation.lines import (
    Line,
    LineResult,
    TextHypothesis,
    has_bounded_attention,
    user_fertilities,
)
from regard.generation.linking import WordIndices, attention_links, replace_unk_tokens
from regard.generation.mbr import MbrConfig, rank_by_coverage, rank_candidates
from regard.generation.parallel import map_batches
from regard.generation.penalties import HypothesisScorer
from regard.generation.sampling import sample
from regard.models.base import TranslationModel
from regard.text.vocabulary import EOS, UNK

__all__ = [
    "Translator",
]

_MAX_SCORED_ROWS = 100_000  # the largest batch that the search settings allow


@dataclass(frozen=True)
class Translator(BaseTranslator):
    """A neural model, or an ensemble, with its text processing and search settings.

    Attributes:
        model: The model, or an ensemble.
        text: Text processing of both sides.
        search: Search settings.
        sampling: Sampling settings. Default: translations are searched for, not sampled.
        fertilities: Minimum and maximum attention for words, for models with fertilities.
        mbr: Settings of minimum Bayes risk decoding, which replaces scores by expected utilities. Default:
            translations are ranked by search.
        judge: The detector of coverage errors, for the utility `coverage`.
        name: Name of the model in messages.
    """

    model: TranslationModel
    text: TextProcessor
    search: GenerationConfig
    sampling: SamplingConfig | None = None
    fertilities: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    mbr: MbrConfig | None = None
    judge: CoverageJudge | None = None
    name: str = "the model"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All that the model supports; fertilities need a budget and constrained attention."""
        capabilities: frozenset[Capability] = frozenset(get_args(Capability))
        missing: dict[Capability, bool] = {
            "fertility": self._has_fertilities,
            "continuation": self.model.continues_text,
            "gradient": self.model.scales_embeddings,
        }
        return capabilities - {name for name, present in missing.items() if not present}

    @cached_property
    def _has_fertilities(self) -> bool:
        return self.text.budget is not None and has_bounded_attention(self.model)

    def describe(self) -> Description:
        """Return the properties of the model; of an ensemble, kind and attention of the first one."""
        config = getattr(self.model, "config", None)
        attention = getattr(config, "attention", None)
        return Description(
            kind=getattr(config, "kind", "model"),
            num_parameters=sum(math.prod(parameter.shape) for parameter in self.model.parameters()),
            attention=getattr(attention, "kind", "none"),
            normalizer=getattr(attention, "normalizer", None),
            score_function=self._score_function(attention),
        )

    def _score_function(self, attention: Any) -> str | None:
        """Return the score function of an attention configuration, None without one."""
        score_function = getattr(attention, "score_function", "none")
        if score_function is not None:
            return None if score_function == "none" else score_function
        # The default depends on the model, so it is that of the mechanism as it was built.
        built = (
            module.score_function for module in self.model.modules() if isinstance(module, ScorerAttention)
        )
        return next(built, None)

    @property
    def resolved_search(self) -> GenerationConfig:
        """The search settings, with `suppress_unk` resolved for the tokenizer."""
        return self.search.resolve_suppress_unk(self.text.target.tokenizer.subword)

    @property
    def length_limits(self) -> LengthLimits:
        """The maximum numbers of tokens in a sentence pair that the model can process."""
        return self.search.length_limits(self.model.max_length, len(self.text.sink_tokens))

    def translate_block(self, lines: Sequence[Line]) -> list[LineResult]:
        """Translate the lines of one block."""
        results = [self.tokenize(line) for line in lines]
        lengths = [0 if result.error else len(result.source_tokens) for result in results]
        # Empty and rejected lines have length 0 and are not searched.
        batches = list(length_sorted_batches(lengths, self.search))
        searches = [self._search([results[row] for row in rows]) for rows in batches]
        outcomes = map_batches(self.model, searches, lambda search: search())
        for rows, searched in zip(batches, outcomes, strict=True):
            for row, hypotheses in zip(
                rows, self._attribute([results[row] for row in rows], searched), strict=True
            ):
                result = results[row]
                written = self._select(
                    result.line.text, [self._detokenize(result, hypothesis) for hypothesis in hypotheses]
                )
                source_tokens = (*result.source_tokens, *self.text.sink_tokens)
                generated = [translation.hypothesis.tokens for translation in written]
                missing = self._required_terms.missing_terms(result.line.terms, generated)
                results[row] = LineResult(
                    result.line, source_tokens, written, None, result.fertilities, missing
                )
        return [self._retry_without_terms(result) if result.missing_terms else result for result in results]

    def _attribute(
        self, results: Sequence[LineResult], found: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of a batch of lines with the map of the search settings."""
        # A second batch, because most searches need none.
        if self.search.alignment.map == "attention":
            return found
        return attribute_hypotheses(self.model, self._batch(results)[0], found, self.search.alignment)

    def _retry_without_terms(self, result: LineResult) -> LineResult:
        """Translate a line again without the terms that its best translation does not contain.

        A search for impossible terms may produce a degenerate translation.
        """
        contained = self._required_terms.contained_terms(
            result.line.terms, result.translations[0].hypothesis.tokens
        )
        if contained is None:
            return result
        (retried,) = self.translate_block([replace(result.line, terms=contained)])
        return replace(retried, line=result.line, missing_terms=result.missing_terms)

    def translate_with_settings(
        self, lines: Sequence[Line], settings: Sequence[GenerationConfig]
    ) -> list[list[str]]:
        """Return the translations of a block under each of several settings with different penalties.

        One search suffices, unless unfinished hypotheses are ranked by the coverage penalty as well.
        """
        if not self.search.coverage_penalty.rescore_only:
            searched = (replace(self, search=search).translate_block(lines) for search in settings)
            return [[result.text for result in results] for results in searched]
        num_prefix_tokens = len(self.model.constraints.prefix)
        scorers = [HypothesisScorer.from_config(search, num_prefix_tokens) for search in settings]
        results = [self.tokenize(line) for line in lines]
        lengths = [0 if result.error else len(result.source_tokens) for result in results]
        texts = [[""] * len(results) for _ in scorers]
        batches = list(length_sorted_batches(lengths, self.search))

        def search(prepared: tuple[list[int], Batch, list[list[int]] | None]) -> list[list[str]]:
            rows, batch, prefixes = prepared
            outcomes = beam_searches(
                self.model,
                batch.source,
                self.resolved_search,
                scorers,
                prefixes,
                batch.upper_bounds,
                batch.lower_bounds,
            )
            best = [[hypotheses[0] for hypotheses in outcome] for outcome in outcomes]
            return [self._texts(results[row], winners) for row, *winners in zip(rows, *best, strict=True)]

        prepared = [(rows, *self._batch([results[row] for row in rows])) for rows in batches]
        for rows, batch_texts in zip(batches, map_batches(self.model, prepared, search), strict=True):
            for row, translations in zip(rows, batch_texts, strict=True):
                for setting_texts, text in zip(texts, translations, strict=True):
                    setting_texts[row] = text
        return texts

    def _texts(self, result: LineResult, found: Sequence[Hypothesis]) -> list[str]:
        """Convert hypotheses of a line to text. Equal hypotheses are converted only once."""
        known = {hypothesis.tokens: hypothesis for hypothesis in found}
        # Scorers often agree, and detokenization is slow.
        written = {tokens: self._detokenize(result, hypothesis).text for tokens, hypothesis in known.items()}
        return [written[hypothesis.tokens] for hypothesis in found]

    def tokenize(self, line: Line) -> LineResult:
        """Tokenize a line, with its fertilities, or reject it; see `BaseTranslator.tokenize`."""
        result = super().tokenize(line)
        if result.error:
            return result
        # The prefix counts toward the length of the translation.
        if line.prefix:
            num_tokens = len(self.text.target.encode(line.prefix))
            if error := length_error(line.prefix, num_tokens, self.length_limits.target):
                return LineResult(line, error=error)
        where = f"{line.fertilities_name}, line {line.number}"
        fertilities = user_fertilities(
            result.source_tokens, self.text.source, line.fertilities, self.fertilities, where
        )
        if fertilities is not None and self.text.budget is not None:
            ids = self.text.source.vocabulary.to_ids(result.source_tokens)
            self.text.budget.check(ids, fertilities, len(self.text.sink_tokens), where)
        return replace(result, fertilities=fertilities)

    def _batch(self, results: Sequence[LineResult]) -> tuple[Batch, list[list[int]] | None]:
        """Return a batch of lines on the model's device, and the prefixes of their translations."""
        ids = [self.text.source.vocabulary.to_ids(result.source_tokens) for result in results]
        numbers = [result.line.number for result in results]
        device = next(self.model.parameters()).device
        fertilities = [result.fertilities for result in results]
        batch = self.text.batch(ids, None, numbers, fertilities).to(device)
        if not any(result.line.prefix for result in results):
            return batch, None
        return batch, [self.text.target.encode(result.line.prefix) for result in results]

    def _search(self, results: Sequence[LineResult]) -> Callable[[], list[list[Hypothesis]]]:
        """Return a function that searches or samples for a batch of lines.

        Text is processed here, in the calling thread.
        """
        batch, prefixes = self._batch(results)
        search = self.resolved_search
        if self.mbr is not None:
            search = self.mbr.candidate_search(search, self.sampling is not None)
        max_tokens = self.length_limits.target
        required = [self._required_terms.encode_feasible(result.line.terms, max_tokens) for result in results]
        if self.sampling is not None:
            if any(required):
                raise UsageError("required terms cannot be combined with sampling: use beam search")
            generate = partial(sample, self.model, batch, search, self.sampling, prefixes)
        else:
            boundaries = self._required_terms.boundaries.to(batch.source.tokens.device)
            terms = TermConstraints(required, boundaries) if any(required) else None
            output, bounds = RequiredOutput(prefixes, terms), (batch.upper_bounds, batch.lower_bounds)
            generate = partial(beam_search, self.model, batch.source, search, output, *bounds)
        return lambda: compute_posteriors(self.model, batch, generate())

    def _select(self, source: str, found: Sequence[TextHypothesis]) -> tuple[TextHypothesis, ...]:
        """Return the translations as ranked by search, or by expected utility."""
        if self.mbr is None:
            return tuple(found)
        texts = [translation.text for translation in found]
        if self.judge is not None:
            ranked = rank_by_coverage(source, texts, self.judge)
        else:
            # A repeated sample shares its probability.
            times = Counter(translation.hypothesis.tokens for translation in found)
            logs = [
                translation.hypothesis.log_probability - math.log(times[translation.hypothesis.tokens])
                for translation in found
            ]
            ranked = rank_candidates(texts, logs, self.mbr, self.sampling is not None)
        return tuple(
            replace(found[place], hypothesis=replace(found[place].hypothesis, score=utility))
            for place, utility in ranked[: self.search.num_return]
        )

    @cached_property
    def _required_terms(self) -> RequiredTerms:
        return RequiredTerms(self.text.target)

    def _detokenize(self, result: LineResult, hypothesis: Hypothesis) -> TextHypothesis:
        """Convert a hypothesis to text."""
        target = self.text.target
        generated = target.vocabulary.to_tokens(hypothesis.tokens)
        # A forced prefix is written as given, even if its words are not in the vocabulary.
        prefix = target.tokenize(result.line.prefix) if result.line.prefix else []
        written = [*prefix, *generated[len(prefix) :]]
        if self.search.alignment.replace_unk and UNK in hypothesis.tokens[len(prefix) :]:
            unknown = [token == UNK and i >= len(prefix) for i, token in enumerate(hypothesis.tokens)]
            source_words = (*self.text.source.word_ids(result.source_tokens), *self.text.sink_word_ids)
            # Each target token counts as a word of its own here, because tokens are replaced one by one.
            tokens = WordIndices(source_words, range(len(generated)))
            links = attention_links(
                hypothesis.attention, hypothesis.posterior_attention, self.search.alignment, tokens
            )
            written = replace_unk_tokens(unknown, written, links, result.source_tokens, self.text)
        return self.to_translation(result, target.tokenizer.decode(written), generated, hypothesis)

    def score(self, pairs: Iterable[tuple[str, str] | PretokenizedPair]) -> Iterator[LineScore]:
        """Score given translations in order and in bounded memory; see `score_lines`."""
        return score_lines(self.model, self.text, pairs, self.search)

    def log_probabilities(self, pairs: Iterable[tuple[str, str]]) -> Iterator[float]:
        """Compute the log-probabilities of given translations; see `BaseTranslator.log_probabilities`.

        Without attention, models need less memory, so the number of rows per batch is the number of
        hypotheses of a search.
        """
        rows_per_batch = min(self.search.batch_size * self.search.beam_size, _MAX_SCORED_ROWS)
        search = replace(self.search, batch_size=rows_per_batch)
        device = next(self.model.parameters()).device

        def total(batch: Batch) -> list[float]:
            with eval_mode(self.model):
                outcome = self.model(batch.to(device), output_attentions="nothing")
                return outcome.log_likelihood.double().sum(dim=1).cpu().tolist()

        for block in pair_blocks(self.text, pairs, search, self.model):
            log_probs = [math.nan] * len(block)
            batches = list(pair_batches(self.text, block, search))
            scored = map_batches(self.model, [batch for _, batch in batches], total)
            for (rows, _), values in zip(batches, scored, strict=True):
                for row, value in zip(rows, values, strict=True):
                    log_probs[row] = value
            yield from log_probs

    def force_decode(self, pairs: Iterable[tuple[str, str]]) -> Iterator[ForcedResult | None]:
        """Run forced decoding on given translations, with their attention; see `force_decode_lines`."""
        return force_decode_lines(self.model, self.text, pairs, self.search, self.search.alignment)

    def self_attention(
        self, result: LineResult, translation: TextHypothesis
    ) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """Return the self-attention for a translation, by forced decoding; see `BaseTranslator`."""
        # Search does not keep self-attention.
        source_tokens = result.source_tokens[: len(result.source_tokens) - len(self.text.sink_tokens)]
        ids, target = self.text.source.vocabulary.to_ids(source_tokens), [*translation.hypothesis.tokens, EOS]
        batch = self.text.batch([ids], [target], [result.line.number], [result.fertilities])
        with eval_mode(self.model):
            outcome = self.model(batch.to(next(self.model.parameters()).device), output_attentions="all")
        encoder, decoder = (
            tuple(layer[0].float().cpu().numpy() for layer in layers)
            for layers in (outcome.encoder_attentions, outcome.decoder_attentions)
        )
        return encoder, decoder
