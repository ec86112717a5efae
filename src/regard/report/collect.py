"""What systems did with a text, sentence by sentence: translations, their faults, and where they looked.

Attention is looked at twice. In a system's own translation it is what the translation came from; led through
the reference all systems say the same words, so that they can be compared step by step, as
`regard analyse --attention` does.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from regard.data.links import Links
from regard.data.spacing import split_at_spaces
from regard.data.text import Side, TextPair
from regard.data.vocabulary import UNK
from regard.decoding.analysis import force_lines, words_of
from regard.decoding.config import AlignmentConfig
from regard.decoding.linking import Layers, attention_map, chosen_heads
from regard.decoding.phrases import PhraseTranslator
from regard.decoding.translate import LineResult, Translation, Translator, number_lines
from regard.metrics.alignment import join_words
from regard.metrics.attention import SentenceAttention, coverage, entropy
from regard.report.curves import Curves
from regard.report.maps import MapKind, Seen, WordMaps, drop_equal_priors, word_maps
from regard.report.worst import Received, Sentence, received_attention

__all__ = [
    "Following",
    "Linking",
    "Shown",
    "System",
    "collect_lines",
    "collect_model",
    "examine",
    "link_system",
    "system_maps",
]


Linking = Callable[[Sequence[tuple[Sequence[str], Sequence[str]]]], list[Links]]
"""The word links of pairs of sentences in words."""

T = TypeVar("T")


@runtime_checkable
class Following(Protocol):
    """Passes items on as they come and shows a person how far they are."""

    def __call__(self, items: Iterable[T], name: str, total: int) -> Iterator[T]:
        """The items; `name` is what is done, `total` how many there will be."""
        ...


@dataclass(frozen=True)
class Shown:
    """What a system made of one sentence.

    Attributes:
        sentence: Its words and faults.
        text: The translation as it was written; empty for a line that was refused.
        own: Where it looked while it translated; none for systems that do not show it.
        forced: Where it looked while it was led through the reference.
        entropy: The mean of the steps of its own translation, the end symbol's among them, in nats.
        coverage: The share of the source its own translation looked at, 0 to 1.
        log_prob: Of a token of its own translation, the mean in nats, the end symbol among them.
        refused: Why the line was not translated; none where it was.
    """

    sentence: Sentence
    text: str
    own: WordMaps | None = None
    forced: WordMaps | None = None
    entropy: float | None = None
    coverage: float | None = None
    log_prob: float | None = None
    refused: str | None = None


@dataclass(frozen=True)
class System:
    """A model, or a file of translations.

    Attributes:
        name: What it is called.
        path: Its folder or file.
        sentences: What it made of each line.
        attention: What its attention did in each reference; none for a line that it cannot read; empty for a
            system that shows no attention.
        perplexity: Of the references; none where it is not known.
        curves: Its training; none where there is no record.
        bounded: Whether its source words have fertilities.
    """

    name: str
    path: str
    sentences: tuple[Shown, ...]
    attention: tuple[SentenceAttention | None, ...] = ()
    perplexity: float | None = None
    curves: Curves | None = None
    bounded: bool = False


def collect_model(
    name: str,
    path: Path,
    translator: Translator | PhraseTranslator,
    pairs: Sequence[tuple[str, str]],
    following: Following,
    every: bool = False,
    lowercase: bool = False,
    curves: Curves | None = None,
) -> System:
    """Translate a text with a model, and lead it through the references; phrases are not led.

    Args:
        name: What to call it.
        path: Where it came from.
        translator: The model and its search settings, with one translation a line.
        pairs: The lines and their references.
        following: Shows how far it is.
        every: Whether to keep every layer and head of attention, and what it was before tokens were known.
        lowercase: Whether repetitions are counted ignoring case.
        curves: Of its training.
    """
    lines = number_lines(source for source, _ in pairs)
    shown: list[Shown] = []
    block: list[LineResult] = []
    for result in following(translator.translate(lines), f"{name}: translations", len(pairs)):
        block.append(result)
        if len(block) == translator.search.batch.block:
            shown += _show(block, pairs, translator, every, lowercase)
            block = []
    shown += _show(block, pairs, translator, every, lowercase)
    forced, attention, total, steps = _led(name, translator, pairs, following, every)
    own = drop_equal_priors([one.own for one in shown])
    sentences = tuple(
        replace(one, own=mine, forced=led) for one, mine, led in zip(shown, own, forced, strict=True)
    )
    looking = any(one is not None for one in attention)
    return System(
        name=name,
        path=str(path),
        sentences=sentences,
        attention=tuple(attention) if looking else (),
        perplexity=math.exp(-total / steps) if steps and total / steps > -700 else None,
        curves=curves,
        bounded=translator.text.budget is not None,
    )


def collect_lines(
    name: str,
    path: Path,
    lines: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    text: TextPair | None = None,
    lowercase: bool = False,
) -> System:
    """Take translations that are there already, whatever made them.

    Args:
        name: What to call the system.
        path: Where they came from.
        lines: A translation for each line.
        pairs: The lines and their references.
        text: Whose tokenizers cut text into words; none: words stand between blanks.
        lowercase: Whether repetitions are counted ignoring case.
    """
    source, target = (None, None) if text is None else (text.source, text.target)
    sentences = [
        Shown(
            Sentence(
                line=number,
                source=_cut(pair[0], source),
                reference=_cut(pair[1], target),
                output=_cut(line, target),
                lowercase=lowercase,
            ),
            line,
        )
        for number, (line, pair) in enumerate(zip(lines, pairs, strict=True), 1)
    ]
    return System(name, str(path), tuple(sentences))


def link_system(system: System, align: Linking) -> System:
    """The system with the word links of each source with its reference, and with its translation."""
    sentences = [one.sentence for one in system.sentences]
    wanted = align([(sentence.source, sentence.reference) for sentence in sentences])
    said = align([(sentence.source, sentence.output) for sentence in sentences])
    linked = (
        replace(one, sentence=replace(one.sentence, links=links))
        for one, links in zip(system.sentences, zip(wanted, said, strict=True), strict=True)
    )
    return replace(system, sentences=tuple(linked))


def system_maps(system: System, forced: bool) -> tuple[MapKind, ...]:
    """Which maps each sentence of a system has; none: no maps.

    Args:
        system: The system.
        forced: Of the references; else of its own translations.
    """
    maps = (one.forced if forced else one.own for one in system.sentences)
    return next((one.kinds for one in maps if one is not None), ())


def examine(
    result: LineResult, reference: str, translator: Translator | PhraseTranslator, lowercase: bool
) -> Sentence:
    """A translated line in words, with what each source word received.

    Args:
        result: The line; without translations it has no words said and no attention.
        reference: The reference's text.
        translator: What translated it.
        lowercase: Whether repetitions are counted ignoring case.
    """
    text = translator.text
    best = result.translations[0] if result.translations else None
    own = result.source_tokens[: len(result.source_tokens) - (len(text.sink) if best else 0)]
    said = () if best is None else words_of(text.target, _said(best, translator))
    return Sentence(
        line=result.line.number,
        source=words_of(text.source, own),
        reference=words_of(text.target, text.target.tokenize(reference)),
        # A model may say two blanks in a row, with no word between them.
        output=tuple(word for word in said if word),
        received=None if best is None else _received(best, own, text),
        lowercase=lowercase,
    )


def _said(best: Translation, translator: Translator | PhraseTranslator) -> Sequence[str]:
    """The tokens of a translation as it was written."""
    if translator.search.alignment.replace_unknown and UNK in best.hypothesis.tokens:
        return translator.text.target.tokenize(best.text)
    return best.tokens


def _received(best: Translation, tokens: Sequence[str], text: TextPair) -> Received | None:
    """What the words of the source received; none where the model attends to nothing."""
    if best.tokens and not best.weights.any():
        return None
    fertilities = None
    if text.budget is not None:
        (fertilities,) = text.budget.most([text.source.vocabulary.ids(tokens)])
    return received_attention(best.weights, best.source_words, fertilities)


def _cut(line: str, side: Side | None) -> tuple[str, ...]:
    if side is None:
        return tuple(split_at_spaces(line))
    return tuple(word for word in words_of(side, side.tokenize(line)) if word)


def _show(
    results: Sequence[LineResult],
    pairs: Sequence[tuple[str, str]],
    translator: Translator | PhraseTranslator,
    every: bool,
    lowercase: bool,
) -> Iterator[Shown]:
    """A block of translated lines with their attention."""
    for result in results:
        source, reference = pairs[result.line.number - 1]
        sentence = examine(result, reference, translator, lowercase)
        if result.refused:
            # Nothing is said of it, and all that the reference covers is lost.
            sentence = replace(sentence, source=_cut(source, translator.text.source))
        if not result.translations:
            yield Shown(sentence, "", refused=result.refused)
            continue
        best = result.translations[0]
        logs = best.hypothesis.token_log_probs
        shown = Shown(sentence, best.text, log_prob=sum(logs) / len(logs) if logs else None)
        believed = best.hypothesis.believed
        if sentence.received is None or not believed:
            yield shown
            continue
        said = words_of(translator.text.target, best.tokens)
        ids = best.source_words, best.target_words
        of = best.alignment
        steps = chosen_heads(believed, of)
        words = join_words(steps[:-1].mean(axis=1), *ids)
        posterior, prior = _seen(best.hypothesis.attention, believed, of, every)
        yield replace(
            shown,
            own=word_maps(said, sentence.source, posterior, *ids, prior),
            entropy=float(entropy(steps).mean()),
            coverage=coverage(words) if words.shape[1] else None,
        )


def _seen(
    priors: Layers, posteriors: Layers, config: AlignmentConfig, every: bool
) -> tuple[Seen, Seen | None]:
    """The posterior and the prior of a translation as its maps show them: the prior only with every layer."""
    if not every:
        return Seen(attention_map(posteriors, config)), None
    rows = slice(1, None) if config.shift else slice(None, -1)  # the end symbol is no word
    after, before = (
        Seen(attention_map(layers, config), [layer[rows] for layer in layers])
        for layers in (posteriors, priors)
    )
    return after, before


def _led(
    name: str,
    translator: Translator | PhraseTranslator,
    pairs: Sequence[tuple[str, str]],
    following: Following,
    every: bool,
) -> tuple[list[WordMaps | None], list[SentenceAttention | None], float, int]:
    """The maps and figures of each reference; log-probability and number of all their tokens."""
    if isinstance(translator, PhraseTranslator):
        # It cannot be led through a text that its phrases may not make.
        return [None] * len(pairs), [None] * len(pairs), 0.0, 0
    maps: list[WordMaps | None] = []
    figures: list[SentenceAttention | None] = []
    total, steps = 0.0, 0
    of = translator.search.alignment
    lines = force_lines(translator.model, translator.text, pairs, translator.search.batch)
    for line in following(lines, f"{name}: references", len(pairs)):
        if line is None:
            maps.append(None)
            figures.append(None)
            continue
        total += float(line.log_probs.sum())
        steps += len(line.log_probs)
        if not line.attends:
            figures.append(None)
            maps.append(None)
            continue
        figures.append(line.examine(of, name=name))
        posterior, prior = _seen(line.weights, line.beliefs, of, every)
        ids = line.source_words, line.target_words
        maps.append(word_maps(line.target, line.source, posterior, *ids, prior))
    return drop_equal_priors(maps), figures, total, steps
