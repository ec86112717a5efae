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
from regard.analysis.inputs import Progress, System, line_words, no_progress
from regard.generation.base import BaseTranslator
from regard.generation.forced import sentence_attention
from regard.generation.lines import enumerate_lines
from regard.generation.linking import attention_map, select_heads
from regard.generation.translation import Translation
from regard.metrics.alignment import merge_subwords
from regard.metrics.attention import SentenceAttention, coverage, entropy
from regard.reporting.model_card import Curves, ModelCard, model_card, read_curves
from regard.reporting.word_maps import WordMap, word_map
from regard.text.links import Links

LinkFunction = Callable[[Sequence[tuple[Sequence[str], Sequence[str]]]], list[Links]]
"""A word aligner: from pairs of source and target sentences, as words, to the word links of each pair."""


@dataclass(frozen=True)
class SentenceResult:
    """The result of one system for one sentence.

    Attributes:
        sentence: The words of the sentence and the errors of its translation.
        text: The translation as text; empty for a line that was not translated.
        own_map: Attention map of the system's own translation; None for systems without attention.
        forced_map: Attention map under forced decoding of the reference.
        entropy: Mean attention entropy over the time steps of its own translation, including EOS, in nats.
        coverage: Coverage of the source by its own translation, between 0 and 1.
        log_prob: Mean log-probability per token of its own translation, including EOS, in nats.
        error: Reason why the line was not translated; None if it was.
    """

    sentence: SentenceErrors
    text: str
    own_map: WordMap | None = None
    forced_map: WordMap | None = None
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
    lowercase: bool = False,
) -> SystemResults:
    """Translate a text with a system, and compute its attention under forced decoding of the references.

    A system that does not support forced decoding has attention only for its own translations, if at all.

    Args:
        system: The system, which returns one translation per line.
        pairs: The lines and their references.
        progress: Progress display.
        lowercase: Whether to ignore case when counting repetitions.
    """
    name, translator = system.name, system.translator
    lines = enumerate_lines(source for source, _ in pairs)
    # Each translation is converted at once, because maps of words need less memory than those of tokens.
    results = [
        _sentence_result(translation, pairs, translator, lowercase)
        for translation in progress(translator.translate(lines), f"{name}: translations", len(pairs))
    ]
    forced, attention, total, steps = _force_decode(name, translator, pairs, progress)
    sentences = tuple(
        replace(sentence_result, forced_map=forced_map)
        for sentence_result, forced_map in zip(results, forced, strict=True)
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


def _sentence_result(
    translation: Translation, pairs: Sequence[tuple[str, str]], translator: BaseTranslator, lowercase: bool
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
    steps = select_heads(posteriors, translation.alignment_config)
    words = merge_subwords(steps[:-1].mean(axis=1), *ids)  # without the row of EOS
    weights = attention_map(posteriors, translation.alignment_config)
    return replace(
        result,
        own_map=word_map(translation.target_words, sentence.source, weights, *ids),
        entropy=float(entropy(steps).mean()),
        coverage=coverage(words) if words.shape[1] else None,
    )


def _force_decode(
    name: str, translator: BaseTranslator, pairs: Sequence[tuple[str, str]], progress: Progress
) -> tuple[list[WordMap | None], list[SentenceAttention | None], float, int]:
    """Return maps and statistics of each reference, and the log-probability and number of all tokens."""
    # One None per line keeps the lists parallel to the sentences.
    if "score" not in translator.capabilities:
        return [None] * len(pairs), [None] * len(pairs), 0.0, 0
    maps: list[WordMap | None] = []
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
        weights = attention_map(line.posterior_attention, alignment)
        ids = line.source_word_ids, line.target_word_ids
        maps.append(word_map(line.target_words, line.source_words, weights, *ids))
    return maps, statistics, total, steps
