"""Conversion of the results of search and forced decoding to `TranslationResult`."""

import dataclasses
from typing import Literal

import numpy as np

from regard.api.result import TranslationResult
from regard.data.text import TextProcessor
from regard.generation.analysis import tokens_to_words
from regard.generation.base import BaseTranslator
from regard.generation.config import GenerationConfig
from regard.generation.lines import LineResult, Translation
from regard.generation.pairs import PretokenizedPair
from regard.generation.scoring import LineScore

__all__ = ["AttentionOutput", "scored_result", "translation_result"]

AttentionOutput = Literal["source", "all"]


def translation_result(
    translator: BaseTranslator, found: LineResult, output_attentions: AttentionOutput
) -> TranslationResult:
    """Return the result of translating a sentence, with its n-best list.

    Args:
        translator: The translator that produced it.
        found: Result of search.
        output_attentions: `all` to include the self-attention of encoder and decoder.
    """
    converted = [_convert(translator, found, one, output_attentions) for one in found.translations]
    if converted:
        return dataclasses.replace(converted[0], nbest=tuple(converted))
    text = translator.text
    tokens = found.source_tokens
    return TranslationResult(
        source=found.line.text,
        source_tokens=tokens,
        source_words=tokens_to_words(text.source, tokens),
        source_word_ids=tuple(text.source.word_ids(tokens)),
        error=found.error,
        missing_terms=found.missing_terms,
    )


def _convert(
    translator: BaseTranslator, found: LineResult, one: Translation, output_attentions: AttentionOutput
) -> TranslationResult:
    """Convert one translation of an n-best list."""
    text = translator.text
    source_tokens = found.source_tokens[: len(found.source_tokens) - len(text.sink_tokens)]
    encoder, decoder = translator.self_attention(found, one) if output_attentions == "all" else ((), ())
    return TranslationResult(
        source=found.line.text,
        text=one.text,
        source_tokens=found.source_tokens,
        tokens=one.tokens,
        source_words=tokens_to_words(text.source, source_tokens),
        target_words=tokens_to_words(text.target, one.tokens),
        score=one.score,
        log_probability=one.hypothesis.log_probability,
        token_log_probs=np.array(one.hypothesis.token_log_probs),
        attention=one.hypothesis.attention,
        posteriors=one.hypothesis.posteriors,
        source_word_ids=one.source_words,
        target_word_ids=one.target_words,
        alignment_config=one.alignment,
        encoder_attention=encoder,
        decoder_attention=decoder,
        missing_terms=found.missing_terms,
    )


def scored_result(
    text: TextProcessor, pair: tuple[str, str] | PretokenizedPair, found: LineScore, search: GenerationConfig
) -> TranslationResult:
    """Return the result of scoring a given translation.

    Args:
        text: Text processing of both sides.
        pair: The sentence and its translation, possibly with their tokens.
        found: Result of forced decoding.
        search: Search settings, which select the attention for links.
    """
    source, target = (pair.text, pair.translation) if isinstance(pair, PretokenizedPair) else pair
    if found.hypothesis is None:
        return TranslationResult(source=source, error=found.error)
    return TranslationResult(
        source=source,
        text=target,
        source_tokens=(*found.source_tokens, *text.sink_tokens),
        tokens=found.tokens,
        source_words=tokens_to_words(text.source, found.source_tokens),
        target_words=tokens_to_words(text.target, found.tokens),
        score=found.hypothesis.score,
        log_probability=found.hypothesis.log_probability,
        token_log_probs=np.array(found.hypothesis.token_log_probs),
        attention=found.hypothesis.attention,
        posteriors=found.hypothesis.posteriors,
        source_word_ids=(*text.source.word_ids(found.source_tokens), *text.sink_word_ids),
        target_word_ids=tuple(text.target.word_ids(found.tokens)),
        alignment_config=search.alignment,
        retokenized=found.retokenized,
    )
