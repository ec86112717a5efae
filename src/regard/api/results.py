"""Conversion of the results of search and forced decoding to `TranslationResult`."""

import dataclasses
from typing import Literal

import numpy as np

from regard.api.result import TranslationResult
from regard.data.text import TextProcessor
from regard.data.vocabulary import EOS
from regard.decoding.analysis import tokens_to_words
from regard.decoding.beam import eval_mode
from regard.decoding.config import GenerationConfig
from regard.decoding.lines import LineResult, Translation
from regard.decoding.pairs import PretokenizedPair
from regard.decoding.scoring import LineScore
from regard.models.base import TranslationModel

__all__ = ["AttentionOutput", "scored_result", "translation_result"]

AttentionOutput = Literal["source", "all"]


def translation_result(
    model: TranslationModel | None, text: TextProcessor, found: LineResult, output_attentions: AttentionOutput
) -> TranslationResult:
    """Return the result of translating a sentence, with its n-best list.

    Args:
        model: The model that translated it. None for a system without self-attention.
        text: Text processing of both sides.
        found: Result of search.
        output_attentions: `all` to include the self-attention of encoder and decoder.
    """
    converted = [_convert(model, text, found, one, output_attentions) for one in found.translations]
    if converted:
        return dataclasses.replace(converted[0], nbest=tuple(converted))
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
    model: TranslationModel | None,
    text: TextProcessor,
    found: LineResult,
    one: Translation,
    output_attentions: AttentionOutput,
) -> TranslationResult:
    """Convert one translation of an n-best list."""
    source_tokens = found.source_tokens[: len(found.source_tokens) - len(text.sink_tokens)]
    # Search does not keep self-attention, so it is computed by forced decoding on request.
    encoder, decoder = (
        _self_attention(model, text, found, source_tokens, one)
        if model and output_attentions == "all"
        else ((), ())
    )
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


def _self_attention(
    model: TranslationModel,
    text: TextProcessor,
    found: LineResult,
    source_tokens: tuple[str, ...],
    one: Translation,
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return the encoder's and the decoder's self-attention for a translation, by forced decoding."""
    ids, target = text.source.vocabulary.to_ids(source_tokens), [*one.hypothesis.tokens, EOS]
    batch = text.batch([ids], [target], [found.line.number], [found.fertilities])
    with eval_mode(model):
        outcome = model(batch.to(next(model.parameters()).device), output_attentions="all")
    encoder, decoder = (
        tuple(layer[0].float().cpu().numpy() for layer in layers)
        for layers in (outcome.encoder_attentions, outcome.decoder_attentions)
    )
    return encoder, decoder


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
