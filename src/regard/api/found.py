"""Conversion of the results of search and forced decoding to `TranslationResult`."""

import dataclasses
from typing import Literal

import numpy as np

from regard.api.result import TranslationResult
from regard.data.text import TextPair
from regard.data.vocabulary import EOS
from regard.decoding.analysis import words_of
from regard.decoding.beam import evaluating
from regard.decoding.config import SearchConfig
from regard.decoding.pairs import KeptPair
from regard.decoding.scoring import LineScore
from regard.decoding.translate import LineResult, Translation
from regard.models.base import TranslationModel

__all__ = ["Looked", "scored", "translated"]

Looked = Literal["source", "all"]


def translated(
    model: TranslationModel | None, text: TextPair, found: LineResult, look: Looked
) -> TranslationResult:
    """Return the result of translating a sentence, with its n-best list.

    Args:
        model: The model that translated it. None for a system without self-attention.
        text: Text processing of both sides.
        found: Result of search.
        look: `all` to include the self-attention of encoder and decoder.
    """
    every = [_one(model, text, found, one, look) for one in found.translations]
    if every:
        return dataclasses.replace(every[0], nbest=tuple(every))
    tokens = found.source_tokens
    return TranslationResult(
        source=found.line.text,
        source_tokens=tokens,
        source_words=words_of(text.source, tokens),
        source_word_ids=tuple(text.source.word_ids(tokens)),
        refused=found.refused,
        lacking=found.lacking,
    )


def _one(
    model: TranslationModel | None, text: TextPair, found: LineResult, one: Translation, look: Looked
) -> TranslationResult:
    """Convert one translation of an n-best list."""
    read = found.source_tokens[: len(found.source_tokens) - len(text.sink)]
    # Search does not keep self-attention, so it is computed by forced decoding on request.
    encoder, decoder = _whole(model, text, found, read, one) if model and look == "all" else ((), ())
    return TranslationResult(
        source=found.line.text,
        text=one.text,
        source_tokens=found.source_tokens,
        tokens=one.tokens,
        source_words=words_of(text.source, read),
        words=words_of(text.target, one.tokens),
        score=one.score,
        log_probability=one.hypothesis.log_probability,
        token_log_probs=np.array(one.hypothesis.token_log_probs),
        attention=one.hypothesis.attention,
        beliefs=one.hypothesis.beliefs,
        source_word_ids=one.source_words,
        word_ids=one.target_words,
        aligned_by=one.alignment,
        encoder=encoder,
        decoder=decoder,
        lacking=found.lacking,
    )


def _whole(
    model: TranslationModel, text: TextPair, found: LineResult, read: tuple[str, ...], one: Translation
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return the encoder's and the decoder's self-attention for a translation, by forced decoding."""
    ids, target = text.source.vocabulary.ids(read), [*one.hypothesis.tokens, EOS]
    batch = text.batch([ids], [target], [found.line.number], [found.fertilities])
    with evaluating(model):
        outcome = model(batch.to(next(model.parameters()).device), look="all")
    encoder, decoder = (
        tuple(layer[0].float().cpu().numpy() for layer in layers)
        for layers in (outcome.encoder, outcome.decoder)
    )
    return encoder, decoder


def scored(
    text: TextPair, pair: tuple[str, str] | KeptPair, found: LineScore, search: SearchConfig
) -> TranslationResult:
    """Return the result of scoring a given translation.

    Args:
        text: Text processing of both sides.
        pair: The sentence and its translation, possibly with their tokens.
        found: Result of forced decoding.
        search: Search settings, which select the attention for links.
    """
    source, target = (pair.text, pair.translation) if isinstance(pair, KeptPair) else pair
    if found.hypothesis is None:
        return TranslationResult(source=source, refused=found.problem)
    return TranslationResult(
        source=source,
        text=target,
        source_tokens=(*found.source_tokens, *text.sink),
        tokens=found.tokens,
        source_words=words_of(text.source, found.source_tokens),
        words=words_of(text.target, found.tokens),
        score=found.hypothesis.score,
        log_probability=found.hypothesis.log_probability,
        token_log_probs=np.array(found.hypothesis.token_log_probs),
        attention=found.hypothesis.attention,
        beliefs=found.hypothesis.beliefs,
        source_word_ids=(*text.source.word_ids(found.source_tokens), *text.sink_words),
        word_ids=tuple(text.target.word_ids(found.tokens)),
        aligned_by=search.alignment,
        resegmented=found.resegmented,
    )
