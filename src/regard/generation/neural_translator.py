"""Translation of text lines with neural models, in order and in bounded memory."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import get_args

from regard.attention.scored import ScorerAttention
from regard.data.batch import Batch
from regard.data.text import TextProcessor
from regard.errors import UsageError
from regard.generation.attribution import attribute_pairs
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.beam import beam_search, eval_mode
from regard.generation.blocks import (
    Pair,
    length_error,
    length_sorted_batches,
    map_batches,
    pair_batches,
    pair_blocks,
)
from regard.generation.config import GenerationConfig, LengthLimits, Sampling
from regard.generation.constrained import RequiredTerms, TermConstraints
from regard.generation.forced import attribute_hypotheses, compute_posteriors, force_decode, predict_tokens
from regard.generation.hypothesis import Hypothesis, HypothesisScorer
from regard.generation.lines import Line, any_attention, user_fertilities
from regard.generation.linking import attention_links, replace_unk_tokens
from regard.generation.reranking import MBR, rank_candidates
from regard.generation.sampling import sample
from regard.generation.translation import Translation
from regard.models.base import TranslationModel
from regard.text.vocabulary import EOS, UNK

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NeuralTranslator(BaseTranslator):
    """A neural model, or an ensemble, with its text processing and search settings.

    Attributes:
        model: The model, or an ensemble.
        text: Text processing of both sides.
        search: Search settings.
        sampling: Sampling settings. Default: translations are searched for, not sampled.
        fertilities: Minimum and maximum attention for words, for models with fertilities.
        mbr: Settings of minimum Bayes risk decoding, which replaces scores by expected utilities. Default:
            translations are ranked by search.
        name: Name of the model in messages.
    """

    model: TranslationModel
    text: TextProcessor
    search: GenerationConfig
    sampling: Sampling | None = None
    fertilities: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    mbr: MBR | None = None
    name: str = "the model"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All that the model supports; fertilities need a budget and constrained attention."""
        capabilities: frozenset[Capability] = frozenset(get_args(Capability))
        missing: dict[Capability, bool] = {
            "fertility": self.text.budget is not None and any_attention(self.model, "bounded"),
            "gradient": self.model.scales_embeddings,
        }
        return capabilities - {name for name, present in missing.items() if not present}

    def describe(self) -> Description:
        """Return the properties of the model; of an ensemble, kind and attention of the first one."""
        config = getattr(self.model, "config", None)
        attention = getattr(config, "attention", None)
        score_function = getattr(attention, "score_function", "none")
        if score_function is None:  # the default depends on the model
            scorers = (module for module in self.model.modules() if isinstance(module, ScorerAttention))
            score_function = next((scorer.score_function for scorer in scorers), "none")
        return Description(
            kind=getattr(config, "kind", "model"),
            num_parameters=sum(math.prod(parameter.shape) for parameter in self.model.parameters()),
            attention=getattr(attention, "kind", "none"),
            normalizer=getattr(attention, "normalizer", None),
            score_function=None if score_function == "none" else score_function,
        )

    @property
    def length_limits(self) -> LengthLimits:
        """The maximum numbers of tokens in a sentence pair that the model can process."""
        return self.search.length_limits(self.model.max_length, len(self.text.sink_tokens))

    def translate_block(self, lines: Sequence[Line]) -> list[Translation]:
        """Translate the lines of one block."""
        translations = [self.tokenize(line) for line in lines]
        # Empty and rejected lines have length 0 and are not searched.
        lengths = [len(translation.text_source_tokens) for translation in translations]
        batches = list(length_sorted_batches(lengths, self.search))
        inputs = [([lines[row] for row in rows], [translations[row] for row in rows]) for rows in batches]
        searches = [self._search(*batch_lines) for batch_lines in inputs]
        outcomes = map_batches(self.model, searches, lambda search: search())
        alignment = self.search.alignment
        for rows, batch_lines, hypotheses in zip(batches, inputs, outcomes, strict=True):
            if alignment.map != "attention":
                batch, _ = self._batch(*batch_lines)
                hypotheses = attribute_hypotheses(self.model, batch, hypotheses, alignment)
            for row, nbest in zip(rows, hypotheses, strict=True):
                translations[row] = self._to_best(lines[row], translations[row], nbest)
        return translations

    def _to_best(
        self, line: Line, untranslated: Translation, hypotheses: Sequence[Hypothesis]
    ) -> Translation:
        """Return the translation of a line, chosen among its hypotheses by search or by expected utility."""
        candidates = [
            (*self._detokenize(line, untranslated, hypothesis), hypothesis) for hypothesis in hypotheses
        ]
        if self.mbr is not None:
            texts = [text for text, _, _ in candidates]
            logs = [hypothesis.log_probability for hypothesis in hypotheses]
            ranked = rank_candidates(texts, logs, self.mbr, self.sampling is not None)
            candidates = [
                (*candidates[place][:2], replace(hypotheses[place], score=utility))
                for place, utility in ranked[: self.search.num_return]
            ]
        ids = [hypothesis.tokens for _, _, hypothesis in candidates]
        missing = self._required_terms.missing_terms(line.terms, ids)
        # A search for impossible terms may produce a degenerate translation, so it is repeated without them.
        contained = self._required_terms.contained_terms(line.terms, ids[0]) if missing else None
        if contained is not None:
            (retried,) = self.translate_block([replace(line, terms=contained)])
            return replace(retried, missing_terms=missing)
        return replace(untranslated, missing_terms=missing).with_nbest(candidates)

    def tokenize(self, line: Line) -> Translation:
        """Return an untranslated line with its fertilities, or rejected; see `BaseTranslator.tokenize`."""
        untranslated = super().tokenize(line)
        if untranslated.error:
            return untranslated
        # The prefix counts toward the length of the translation.
        if line.prefix:
            num_tokens = len(self.text.target.encode(line.prefix))
            if error := length_error(line.prefix, num_tokens, self.length_limits.target):
                return replace(untranslated, source_tokens=(), error=error)
        where, tokens = f"{line.fertilities_name}, line {line.number}", untranslated.text_source_tokens
        fertilities = user_fertilities(tokens, self.text.source, line.fertilities, self.fertilities, where)
        if fertilities is not None and self.text.budget is not None:
            ids = self.text.source.vocabulary.to_ids(tokens)
            self.text.budget.check(ids, fertilities, len(self.text.sink_tokens), where)
        return replace(untranslated, fertilities=fertilities)

    def _batch(
        self, lines: Sequence[Line], translations: Sequence[Translation]
    ) -> tuple[Batch, list[list[int]] | None]:
        """Return a batch of untranslated lines on the model's device, and the prefixes to generate."""
        ids = [self.text.source.vocabulary.to_ids(line.text_source_tokens) for line in translations]
        numbers = [line.number for line in lines]
        batch = self.text.batch(ids, None, numbers, [line.fertilities for line in translations])
        batch = batch.to(next(self.model.parameters()).device)
        if not any(line.prefix for line in lines):
            return batch, None
        return batch, [self.text.target.encode(line.prefix) for line in lines]

    def _search(
        self, lines: Sequence[Line], translations: Sequence[Translation]
    ) -> Callable[[], list[list[Hypothesis]]]:
        """Return a function that searches or samples for a batch; text is processed in this thread."""
        batch, prefixes = self._batch(lines, translations)
        search = self.resolved_search
        if self.mbr is not None:
            search = self.mbr.candidate_search(search, self.sampling is not None)
        max_tokens = self.length_limits.target
        required = [self._required_terms.encode_feasible(line.terms, max_tokens) for line in lines]
        if self.sampling is not None:
            if any(required):
                raise UsageError("required terms cannot be combined with sampling: use beam search")
            generate = partial(sample, self.model, batch, search, self.sampling, prefixes)
        else:
            boundaries = self._required_terms.boundaries.to(batch.source.tokens.device)
            terms = TermConstraints(required, boundaries) if any(required) else None
            required_output, bounds = (prefixes, terms), (batch.upper_bounds, batch.lower_bounds)
            generate = partial(beam_search, self.model, batch.source, search, *required_output, *bounds)
        return lambda: compute_posteriors(self.model, batch, generate())

    @cached_property
    def _required_terms(self) -> RequiredTerms:
        return RequiredTerms(self.text.target)

    def _detokenize(
        self, line: Line, untranslated: Translation, hypothesis: Hypothesis
    ) -> tuple[str, list[str]]:
        """Return the text of a hypothesis and its tokens."""
        target = self.text.target
        generated = target.vocabulary.to_tokens(hypothesis.tokens)
        # A forced prefix is written as given, even if its words are not in the vocabulary.
        prefix = target.tokenize(line.prefix) if line.prefix else []
        written = [*prefix, *generated[len(prefix) :]]
        if self.search.alignment.replace_unk and UNK in hypothesis.tokens[len(prefix) :]:
            unknown = [token == UNK and i >= len(prefix) for i, token in enumerate(hypothesis.tokens)]
            # Each target token counts as a word of its own here, because tokens are replaced one by one.
            tokens = untranslated.source_word_ids, range(len(generated))
            posteriors = hypothesis.posteriors or hypothesis.attention
            links = attention_links(hypothesis.attention, posteriors, self.search.alignment, tokens)
            written = replace_unk_tokens(unknown, written, links, untranslated.text_source_tokens, self.text)
        return target.tokenizer.decode(written), generated

    def score(self, pairs: Iterable[Pair], predictions: bool = False) -> Iterator[Translation]:
        """Score given translations in order and in bounded memory; see `BaseTranslator.score`."""
        search, model = self.search, self.model
        scorer = HypothesisScorer.from_config(search, len(model.constraints.prefix))
        device = next(model.parameters()).device
        for translations in pair_blocks(self.text, pairs, search, model):
            for rows, batch in pair_batches(self.text, translations, search):
                batch = batch.to(device)
                assert batch.target is not None
                for row, hypothesis in zip(rows, force_decode(model, batch, scorer), strict=True):
                    pair = translations[row]
                    translations[row] = pair.with_hypothesis(pair.text, pair.tokens, hypothesis)
                if search.alignment.map != "attention":
                    attributions = attribute_pairs(model, batch, search.alignment)
                    for row, (contributions, weights) in zip(rows, attributions, strict=True):
                        translations[row] = replace(
                            translations[row],
                            attention=(weights,),
                            posteriors=(),
                            contributions=contributions,
                        )
                if predictions:
                    correct = (predict_tokens(model, batch) == batch.target.tokens).cpu().numpy()
                    for row, steps in zip(rows, correct, strict=True):
                        steps = steps[: len(translations[row].tokens) + 1].copy()
                        translations[row] = replace(translations[row], correct=steps)
            for translation in translations:
                if translation.error:
                    _log.warning("line %d is skipped: %s", translation.number, translation.error)
                yield translation

    def with_self_attention(self, translation: Translation) -> Translation:
        """Return a translation with its self-attention, by forced decoding; see `BaseTranslator`."""
        # Search does not keep self-attention.
        alternatives = tuple(self.with_self_attention(other) for other in translation.alternatives)
        if not translation.nbest:
            return translation
        ids = self.text.source.vocabulary.to_ids(translation.text_source_tokens)
        target = [*self.text.target.vocabulary.to_ids(translation.tokens), EOS]
        batch = self.text.batch([ids], [target], [translation.number], [translation.fertilities])
        with eval_mode(self.model):
            outcome = self.model(batch.to(next(self.model.parameters()).device), output_attentions="all")
        encoder, decoder = (
            tuple(layer[0].float().cpu().numpy() for layer in layers)
            for layers in (outcome.encoder_attentions, outcome.decoder_attentions)
        )
        return replace(
            translation, encoder_attention=encoder, decoder_attention=decoder, alternatives=alternatives
        )
