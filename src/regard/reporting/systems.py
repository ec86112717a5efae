"""Collect the translations of several systems sentence by sentence, with their errors and attention.

Attention is recorded twice: for the system's own translation, and under forced decoding of the reference.
Under forced decoding all systems produce the same words, so their maps can be compared step by step, as
`regard analyze attention` does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.analysis.attention import perplexity_of
from regard.analysis.errors import SentenceErrors, sentence_from_result
from regard.analysis.inputs import Progress, System, no_progress
from regard.analysis.linking import line_words
from regard.generation.base import BaseTranslator
from regard.generation.config import AlignmentConfig
from regard.generation.forced import sentence_attention
from regard.generation.lines import enumerate_lines
from regard.generation.linking import LayerAttention, attention_map, select_heads
from regard.generation.translation import Translation
from regard.metrics.alignment import merge_subwords
from regard.metrics.attention import SentenceAttention, coverage, entropy
from regard.reporting.model_card import ModelCard, model_card
from regard.reporting.training_curves import Curves, read_curves
from regard.reporting.word_maps import AttentionLayers, MapKind, WordMaps, drop_equal_priors, word_maps
from regard.text.links import Links

__all__ = [
    "LinkFunction",
    "SentenceResult",
    "SystemResults",
    "add_word_links",
    "collect_system",
    "system_maps",
]


LinkFunction = Callable[[Sequence[tuple[Sequence[str], Sequence[str]]]], list[Links]]
"""A word aligner: from pairs of source and target sentences, as words, to the word links of each pair."""


@dataclass(frozen=True)
class SentenceResult:
    """The result of one system for one sentence.

    Attributes:
        sentence: The words of the sentence and the errors of its translation.
        text: The translation as text; empty for a line that was not translated.
        own_maps: Attention maps of the system's own translation; None for systems without attention.
        forced_maps: Attention maps under forced decoding of the reference.
        entropy: Mean attention entropy over the time steps of its own translation, including EOS, in nats.
        coverage: Coverage of the source by its own translation, between 0 and 1.
        log_prob: Mean log-probability per token of its own translation, including EOS, in nats.
        error: Reason why the line was not translated; None if it was.
    """

    sentence: SentenceErrors
    text: str
    own_maps: WordMaps | None = None
    forced_maps: WordMaps | None = None
    entropy: float | None = None
    coverage: float | None = None
    log_prob: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class SystemResults:
    """A model, or a file of translations.

    Attributes:
        name: Name of the system.
        path: Its model directory or file.
        sentences: Its result for each line.
        attention: Attention statistics of each line under forced decoding; None for a line that the model
            cannot process. Empty for a system without attention.
        perplexity: Perplexity of the references; None if unknown.
        curves: Training curves; None without a training record.
        has_fertilities: Whether source words have fertilities, that is, upper bounds on their attention.
        card: Its model card; None for a system without one.
    """

    name: str
    path: str
    sentences: tuple[SentenceResult, ...]
    attention: tuple[SentenceAttention | None, ...] = ()
    perplexity: float | None = None
    curves: Curves | None = None
    has_fertilities: bool = False
    card: ModelCard | None = None


def collect_system(
    system: System,
    pairs: Sequence[tuple[str, str]],
    progress: Progress = no_progress,
    all_layers: bool = False,
    lowercase: bool = False,
) -> SystemResults:
    """Translate a text with a system, and compute its attention under forced decoding of the references.

    A system that does not support forced decoding has attention only for its own translations, if at all.

    Args:
        system: The system, which returns one translation per line.
        pairs: The lines and their references.
        progress: Progress display.
        all_layers: Whether to keep all layers and heads, and the prior in addition to the posterior
            attention.
        lowercase: Whether to ignore case when counting repetitions.
    """
    name, translator = system.name, system.translator
    lines = enumerate_lines(source for source, _ in pairs)
    # Each translation is converted at once, because maps of words need less memory than those of tokens.
    results = [
        _sentence_result(translation, pairs, translator, all_layers, lowercase)
        for translation in progress(translator.translate(lines), f"{name}: translations", len(pairs))
    ]
    forced, attention, total, steps = _force_decode(name, translator, pairs, progress, all_layers)
    # The whole text decides, so that all sentences of a system have the same kinds of maps.
    translation_maps = drop_equal_priors([sentence_result.own_maps for sentence_result in results])
    sentences = tuple(
        replace(sentence_result, own_maps=own_maps, forced_maps=forced_maps)
        for sentence_result, own_maps, forced_maps in zip(results, translation_maps, forced, strict=True)
    )
    attends = any(sentence_attention is not None for sentence_attention in attention)
    # An ensemble and a file have no training curves.
    directory = Path(*system.paths[:1])
    return SystemResults(
        name=name,
        path=", ".join(system.paths),
        sentences=sentences,
        attention=tuple(attention) if attends else (),
        perplexity=perplexity_of(total, steps),
        curves=read_curves(directory) if len(system.paths) == 1 and directory.is_dir() else None,
        has_fertilities=translator.text.budget is not None,
        card=model_card(system),
    )


def add_word_links(system: SystemResults, aligner: LinkFunction) -> SystemResults:
    """Return the system with word links between each source and its reference, and its translation."""
    sentences = [result.sentence for result in system.sentences]
    with_reference = aligner([(sentence.source, sentence.reference) for sentence in sentences])
    with_output = aligner([(sentence.source, sentence.output) for sentence in sentences])
    linked = (
        replace(result, sentence=replace(result.sentence, links=links))
        for result, links in zip(system.sentences, zip(with_reference, with_output, strict=True), strict=True)
    )
    return replace(system, sentences=tuple(linked))


def system_maps(system: SystemResults, forced: bool) -> tuple[MapKind, ...]:
    """Return the kinds of maps of each sentence, of the references if `forced`; empty without maps."""
    maps = (sentence.forced_maps if forced else sentence.own_maps for sentence in system.sentences)
    return next((sentence_maps.kinds for sentence_maps in maps if sentence_maps is not None), ())


def _sentence_result(
    translation: Translation,
    pairs: Sequence[tuple[str, str]],
    translator: BaseTranslator,
    all_layers: bool,
    lowercase: bool,
) -> SentenceResult:
    """Return the result of a translated line, with its attention."""
    source, reference = pairs[translation.number - 1]
    sentence = sentence_from_result(translation, reference, translator, lowercase)
    if translation.error:
        # The output is empty, so every source word that is linked to the reference counts as dropped.
        sentence = replace(sentence, source=line_words(source, translator.text.source))
    logs = translation.token_log_probs
    log_prob = sum(logs.tolist()) / len(logs) if len(logs) else None
    result = SentenceResult(sentence, translation.text, log_prob=log_prob, error=translation.error)
    posteriors = translation.posterior_attention
    if sentence.received is None or not posteriors:
        return result
    ids = translation.source_word_ids, translation.target_word_ids
    alignment = translation.alignment_config
    steps = select_heads(posteriors, alignment)
    words = merge_subwords(steps[:-1].mean(axis=1), *ids)  # without the row of EOS
    posterior, prior = _posterior_and_prior(translation.attention, posteriors, alignment, all_layers)
    return replace(
        result,
        own_maps=word_maps(translation.target_words, sentence.source, posterior, *ids, prior),
        entropy=float(entropy(steps).mean()),
        coverage=coverage(words) if words.shape[1] else None,
    )


def _posterior_and_prior(
    priors: LayerAttention, posteriors: LayerAttention, config: AlignmentConfig, all_layers: bool
) -> tuple[AttentionLayers, AttentionLayers | None]:
    """Return the posterior attention of a translation, and its prior if all layers are kept."""
    if not all_layers:
        return AttentionLayers(attention_map(posteriors, config)), None
    # Without EOS, which is no word. Shifted attention: the row after a token's own belongs to the token.
    rows = slice(1, None) if config.shift else slice(None, -1)
    after, before = (
        AttentionLayers(attention_map(layers, config), [layer[rows] for layer in layers])
        for layers in (posteriors, priors)
    )
    return after, before


def _force_decode(
    name: str,
    translator: BaseTranslator,
    pairs: Sequence[tuple[str, str]],
    progress: Progress,
    all_layers: bool,
) -> tuple[list[WordMaps | None], list[SentenceAttention | None], float, int]:
    """Return maps and statistics of each reference, and the log-probability and number of all tokens."""
    # One None per line keeps the lists parallel to the sentences.
    if "score" not in translator.capabilities:
        return [None] * len(pairs), [None] * len(pairs), 0.0, 0
    maps: list[WordMaps | None] = []
    statistics: list[SentenceAttention | None] = []
    total, steps = 0.0, 0
    alignment = translator.search.alignment
    for line in progress(translator.score(pairs, predictions=True), f"{name}: references", len(pairs)):
        if not line.error:
            # The perplexity needs no attention, so a model without attention has one as well.
            total += float(line.token_log_probs.sum())
            steps += len(line.token_log_probs)
        if line.error or not line.attends:
            statistics.append(None)
            maps.append(None)
            continue
        statistics.append(sentence_attention(line, alignment, name=name))
        layers = line.attention, line.posterior_attention
        posterior, prior = _posterior_and_prior(*layers, alignment, all_layers)
        ids = line.source_word_ids, line.target_word_ids
        maps.append(word_maps(line.target_words, line.source_words, posterior, *ids, prior))
    return drop_equal_priors(maps), statistics, total, steps
