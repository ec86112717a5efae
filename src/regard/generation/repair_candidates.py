"""Candidates of the repair: second translations of sentences whose translation omits words.

Three strategies find them: a longer n-best list, a higher minimum of attention for the omitted words (bounded
attention, Malaviya et al. (2018), Section 4), and translations of the omitted words from a lexical table as
required terms (Hokamp & Liu, 2017).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from regard.config import configclass, option
from regard.data.fertility import Bounds
from regard.data.text import TextSide
from regard.generation.base import BaseTranslator, Capability
from regard.generation.coverage import CoverageJudge, CoverageJudgment
from regard.generation.lines import Line
from regard.generation.linking import tokens_to_words
from regard.generation.translation import Translation

__all__ = [
    "STRATEGIES",
    "Repair",
    "RepairCandidate",
    "RepairInput",
    "Strategy",
    "find_candidates",
    "supported_strategies",
]

Strategy = Literal["nbest", "fertility", "terms"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
_CAPABILITIES: Mapping[Strategy, Capability] = {"fertility": "fertility", "terms": "terms"}


@configclass
class Repair:
    """Settings of the repair of translations that omit source words."""

    threshold: float = option(
        default=0.3,
        help="Probability of omission of a source word from which its sentence is translated again.",
        ge=0,
        le=1,
    )
    strategies: tuple[Strategy, ...] = option(
        default=(),
        help="How sentences are translated again: by a longer n-best list (nbest), with more attention for "
        "the omitted words (fertility), or with their translations as required terms (terms). Default: all "
        "that the model supports.",
    )
    num_candidates: int = option(default=20, help="Size of the n-best list, and of its beam.", ge=2, le=1_000)
    max_words: int = option(
        default=3, help="Maximum number of omitted words of a sentence that are repaired.", ge=1, le=100
    )
    num_translations: int = option(
        default=3, help="Number of translations of an omitted word that are tried as terms.", ge=1, le=100
    )
    min_fertility: float = option(
        default=1.0, help="Minimum total attention of the tokens of an omitted word.", gt=0, le=1_000
    )
    weight: float = option(
        default=8.0, help="Log-probability in nats that one coverage error less is worth.", ge=0, le=1_000
    )
    max_loss: float = option(
        default=10.0, help="Maximum loss of log-probability of a repaired translation, in nats.", ge=0, le=1e6
    )


@dataclass(frozen=True)
class RepairInput:
    """The sentences of a block that are translated again.

    Attributes:
        translator: The translator.
        lines: The lines of the whole block.
        translations: Their translations.
        before: The coverage errors of each row of the block that has a translation.
        checker: The detector of coverage errors.
        repair: The settings.
    """

    translator: BaseTranslator
    lines: Sequence[Line]
    translations: Sequence[Translation]
    before: Mapping[int, CoverageJudgment]
    checker: CoverageJudge
    repair: Repair

    @cached_property
    def omitted(self) -> dict[int, list[int]]:
        """The source words that are likely omitted, in order of probability, by row."""
        words_by_row = {}
        for row, judgment in self.before.items():
            hit = [
                place
                for place, probability in enumerate(judgment.omitted)
                if probability >= self.repair.threshold
            ]
            if hit:
                hit.sort(key=lambda place: -judgment.omitted[place])
                words_by_row[row] = hit[: self.repair.max_words]
        return words_by_row


@dataclass(frozen=True)
class RepairCandidate:
    """A second translation of a sentence.

    Attributes:
        row: Index of the sentence.
        strategy: The strategy that found it.
        translation: The translation, with its log-probability under the model without constraints.
    """

    row: int
    strategy: Strategy
    translation: Translation


def supported_strategies(translator: BaseTranslator, config: Repair) -> list[Strategy]:
    """Return the strategies of the settings, or by default those that the translator supports.

    Raises:
        UsageError: if the translator does not support a strategy of the settings, or none at all.
    """
    options = translator.search_options
    lists = options is None or {"beam_size", "num_return"} <= options
    if config.strategies:
        for strategy in config.strategies:
            if strategy in _CAPABILITIES:
                translator.require(_CAPABILITIES[strategy], f"repair by {strategy}")
            elif not lists:
                raise translator.unsupported(f"repair by {strategy}")
        return list(dict.fromkeys(config.strategies))
    able = {strategy for strategy, needed in _CAPABILITIES.items() if needed in translator.capabilities}
    strategies: list[Strategy] = [name for name in STRATEGIES if name in able or (name == "nbest" and lists)]
    if not strategies:
        raise translator.unsupported("the repair of omissions (--check)")
    return strategies


def _nbest_candidates(block: RepairInput) -> Iterator[RepairCandidate]:
    """Yield the n-best list of each sentence."""
    count = block.repair.num_candidates
    size = max(count, block.translator.search.beam_size)
    search = block.translator.with_search({"beam_size": size, "num_return": count})
    results = search.translate_block([block.lines[row] for row in block.omitted])
    for row, result in zip(block.omitted, results, strict=True):
        yield from (RepairCandidate(row, "nbest", translation) for translation in result.nbest)


def _fertility_candidates(block: RepairInput) -> Iterator[RepairCandidate]:
    """Yield translations with a higher minimum of attention: for each omitted word, and for all of them."""
    lines: list[tuple[int, Line]] = []
    for row, words in block.omitted.items():
        # Bounds that the user gave are not overwritten.
        line = block.lines[row]
        if line.fertilities:
            continue
        choices = [list(words), *([word] for word in words if len(words) > 1)]
        for choice in choices:
            bounds = _raised_bounds(block, row, choice)
            if bounds:
                lines.append((row, replace(line, fertilities=bounds)))
    results = block.translator.translate_block([line for _, line in lines])
    pairs = [(row, result) for (row, _), result in zip(lines, results, strict=True) if result.nbest]
    # Raised minima change the attention, so that log-probabilities of the search are not comparable: each
    # candidate has its log-probability under the model with its own bounds.
    scores = block.translator.score(translation for _, translation in pairs)
    for (row, translation), scored in zip(pairs, scores, strict=True):
        if scored.error is None:
            rescored = replace(translation, score=scored.score, log_probability=scored.log_probability)
            yield RepairCandidate(row, "fertility", rescored)


def _raised_bounds(block: RepairInput, row: int, omitted: Sequence[int]) -> Bounds | None:
    """Return the fertilities of the tokens of a line; None if no token is raised."""
    tokens = block.translations[row].text_source_tokens
    words = block.before[row].source_words
    raised = _tokens_of_words(block.translator.text.source, tokens, words, omitted)
    if not raised:
        return None
    minimum = block.repair.min_fertility
    return tuple((minimum if token in raised else 0.0, math.nan) for token in range(len(tokens)))


def _tokens_of_words(
    side: TextSide, tokens: Sequence[str], words: Sequence[str], chosen: Sequence[int]
) -> set[int]:
    """Return the tokens of words that the detector's word segmentation separates.

    Both segmentations are compared by character. Where the tokenizer changes characters, words are compared
    by their spelling.
    """
    numbers = side.word_ids(tokens)
    token_words = [word.casefold() for word in tokens_to_words(side, tokens)]
    other = [word.casefold() for word in words]
    if "".join("".join(token_words).split()) == "".join("".join(other).split()):
        owners = [place for place, word in enumerate(token_words) for _ in "".join(word.split())]
        others = [place for place, word in enumerate(other) for _ in "".join(word.split())]
        hit = {a for a, b in zip(owners, others, strict=True) if b in chosen}
    else:
        spelled = {other[place] for place in chosen}
        hit = {place for place, word in enumerate(token_words) if word in spelled}
    return {token for token, word in enumerate(numbers) if word in hit}


def _term_candidates(block: RepairInput) -> Iterator[RepairCandidate]:
    """Yield translations that contain a translation of an omitted word, for each of several."""
    lines: list[tuple[int, Line]] = []
    count = block.repair.num_translations
    for row, words in block.omitted.items():
        source_words, line = block.before[row].source_words, block.lines[row]
        choices = [block.checker.translations(source_words[word], count) for word in words]
        first = [translations[0] for translations in choices if translations]
        # Several omitted words may need each other, such as a verb and its particle.
        terms = [[term] for translations in choices for term in translations] + (
            [first] if len(first) > 1 else []
        )
        lines += [(row, replace(line, terms=(*line.terms, *required))) for required in terms]
    results = block.translator.translate_block([line for _, line in lines])
    for (row, _), result in zip(lines, results, strict=True):
        # Without its terms, the search has found the first translation once more.
        if result.nbest and not result.missing_terms:
            yield RepairCandidate(row, "terms", result)


_FINDERS: Mapping[Strategy, Callable[[RepairInput], Iterator[RepairCandidate]]] = {
    "nbest": _nbest_candidates,
    "fertility": _fertility_candidates,
    "terms": _term_candidates,
}


def find_candidates(block: RepairInput) -> list[RepairCandidate]:
    """Return the candidates of all strategies that differ from the translation, each text once per sentence.

    Raises:
        UsageError: if the translator does not support a strategy of the settings, or none at all.
    """
    strategies = supported_strategies(block.translator, block.repair)
    if not block.omitted:
        return []
    distinct: dict[tuple[int, str], RepairCandidate] = {}
    for strategy in strategies:
        for candidate in _FINDERS[strategy](block):
            # The same text may get slightly different scores in another batch, but it is no change.
            if candidate.translation.text != block.translations[candidate.row].text:
                distinct.setdefault((candidate.row, candidate.translation.text), candidate)
    return list(distinct.values())
