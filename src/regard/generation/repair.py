"""Repair of translations that omit source words: a second translation, and the choice by a detector.

A detector (`CoverageJudge`) gives each source word the probability that it is omitted. A sentence with a word
above the threshold is translated again in several ways: by a longer n-best list, with a higher minimum of
attention for the omitted words (bounded attention, Malaviya et al. (2018), Section 4), and with translations
of the omitted words from a lexical table as required terms (Hokamp & Liu, 2017). Of all candidates y, the one
with the largest

    log p(y | x) - weight * errors(x, y)

replaces the translation, where `errors` is the number of words with a coverage error that the detector
expects. It is the objective of a noisy-channel reranker, with coverage in place of p(x | y). A candidate is
accepted only if it has fewer expected errors and its log-probability does not fall by more than `max_loss`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from regard.config import configclass, option
from regard.data.text import TextProcessor, TextSide
from regard.errors import UsageError
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.config import GenerationConfig, Sampling, SearchOverrides
from regard.generation.coverage import CoverageJudge, CoverageJudgment, LineRepair
from regard.generation.lines import Line
from regard.generation.linking import tokens_to_words
from regard.generation.mbr import MBR
from regard.generation.translation import Translation

__all__ = [
    "Repair",
    "RepairInput",
    "RepairingTranslator",
    "TranslateOptions",
    "configure_translator",
    "find_candidates",
]

Strategy = Literal["nbest", "fertility", "terms"]
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
        words_by_row: dict[int, list[int]] = {}
        for row, judgment in self.before.items():
            words = range(len(judgment.omitted))
            likely = [word for word in words if judgment.omitted[word] >= self.repair.threshold]
            if likely:
                likely.sort(key=lambda word, omitted=judgment.omitted: -omitted[word])
                words_by_row[row] = likely[: self.repair.max_words]
        return words_by_row


class _Candidate(NamedTuple):
    """A second translation of the sentence `row`, with its log-probability under the model alone."""

    row: int
    strategy: Strategy
    translation: Translation


def _supported_strategies(translator: BaseTranslator, config: Repair) -> list[Strategy]:
    """Return the strategies of the settings, or all that the translator supports; raise if there is none."""
    options = translator.search_options
    lists = options is None or {"beam_size", "num_return"} <= options
    if config.strategies:
        for strategy in config.strategies:
            if strategy in _CAPABILITIES:
                translator.require(_CAPABILITIES[strategy], f"repair by {strategy}")
            elif not lists:
                raise translator.unsupported(f"repair by {strategy}")
        return list(dict.fromkeys(config.strategies))
    strategies: list[Strategy] = []
    if lists:
        strategies.append("nbest")
    strategies.extend(name for name, needed in _CAPABILITIES.items() if needed in translator.capabilities)
    if not strategies:
        raise translator.unsupported("the repair of omissions (--check)")
    return strategies


def _nbest_candidates(block: RepairInput) -> Iterator[_Candidate]:
    """Yield the n-best list of each sentence."""
    count = block.repair.num_candidates
    size = max(count, block.translator.search.beam_size)
    search = block.translator.with_search({"beam_size": size, "num_return": count})
    results = search.translate_block([block.lines[row] for row in block.omitted])
    for row, result in zip(block.omitted, results, strict=True):
        yield from (_Candidate(row, "nbest", translation) for translation in result.nbest)


def _fertility_candidates(block: RepairInput) -> Iterator[_Candidate]:
    """Yield translations with a higher minimum of attention: for each omitted word, and for all of them."""
    lines: list[tuple[int, Line]] = []
    for row, words in block.omitted.items():
        # Bounds that the user gave are not overwritten.
        line = block.lines[row]
        if line.fertilities:
            continue
        tokens = block.translations[row].text_source_tokens
        for choice in [words, *([word] for word in words if len(words) > 1)]:
            side, judged_words = block.translator.text.source, block.before[row].source_words
            if raised := _tokens_of_words(side, tokens, judged_words, choice):
                minima = (block.repair.min_fertility if i in raised else 0.0 for i in range(len(tokens)))
                lines.append((row, replace(line, fertilities=tuple((low, math.nan) for low in minima))))
    results = block.translator.translate_block([line for _, line in lines])
    pairs = [(row, result) for (row, _), result in zip(lines, results, strict=True) if result.nbest]
    # Raised minima change the attention, so that log-probabilities of the search are not comparable: each
    # candidate has its log-probability under the model with its own bounds.
    scores = block.translator.score(translation for _, translation in pairs)
    for (row, translation), scored in zip(pairs, scores, strict=True):
        if scored.error is None:
            rescored = replace(translation, score=scored.score, log_probability=scored.log_probability)
            yield _Candidate(row, "fertility", rescored)


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


def _term_candidates(block: RepairInput) -> Iterator[_Candidate]:
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
            yield _Candidate(row, "terms", result)


def find_candidates(block: RepairInput) -> list[_Candidate]:
    """Return the candidates of all strategies that differ from the translation, each text once per sentence.

    Raises:
        UsageError: if the translator does not support a strategy of the settings, or none at all.
    """
    strategies = _supported_strategies(block.translator, block.repair)
    if not block.omitted:
        return []
    finders = {"nbest": _nbest_candidates, "fertility": _fertility_candidates, "terms": _term_candidates}
    distinct: dict[tuple[int, str], _Candidate] = {}
    for strategy in strategies:
        for candidate in finders[strategy](block):
            # The same text may get slightly different scores in another batch, but it is no change.
            if candidate.translation.text != block.translations[candidate.row].text:
                distinct.setdefault((candidate.row, candidate.translation.text), candidate)
    return list(distinct.values())


def _choose(block: RepairInput) -> dict[int, tuple[_Candidate, CoverageJudgment]]:
    """Return the best accepted candidate of each sentence that has one."""
    config, before = block.repair, block.before
    candidates = find_candidates(block)
    sources = [block.lines[candidate.row].text for candidate in candidates]
    judged = block.checker.judge(sources, [candidate.translation.text for candidate in candidates])
    best: dict[int, tuple[float, _Candidate, CoverageJudgment]] = {}
    for candidate, judgment in zip(candidates, judged, strict=True):
        first = block.translations[candidate.row].log_probability
        log_probability = candidate.translation.log_probability
        start = best.get(candidate.row, (first - config.weight * before[candidate.row].errors,))[0]
        objective = log_probability - config.weight * judgment.errors
        if (
            objective > start
            and judgment.errors < before[candidate.row].errors
            and log_probability >= first - config.max_loss
        ):
            best[candidate.row] = (objective, candidate, judgment)
    return {row: (candidate, judgment) for row, (_, candidate, judgment) in best.items()}


def _replaced(
    old: Translation, chosen: _Candidate | None, before: CoverageJudgment, after: CoverageJudgment
) -> Translation:
    """Return a translation with its record, or the chosen candidate with the record and the alternatives."""
    new = old if chosen is None else chosen.translation
    record = LineRepair(
        text_before=old.text,
        before=before,
        after=after,
        log_probability_before=old.log_probability,
        log_probability_after=new.log_probability,
        strategy=None if chosen is None else chosen.strategy,
    )
    if chosen is None:
        return replace(old, repair=record)
    others = [replace(other, alternatives=()) for other in old.nbest if other.text != new.text]
    return replace(
        new,
        repair=record,
        fertilities=old.fertilities,
        missing_terms=old.missing_terms,
        alternatives=tuple(others[: len(old.alternatives)]),
    )


@dataclass(frozen=True)
class RepairingTranslator(BaseTranslator):
    """A translator whose translations are checked and repaired.

    Attributes:
        translator: The translator, which searches (no sampling).
        checker: The detector of coverage errors.
        repair: Settings of the repair.
        text: Text processing of the translator.
        search: Search settings of the translator.
        name: Name of the translator.
    """

    translator: BaseTranslator
    checker: CoverageJudge
    repair: Repair
    text: TextProcessor
    search: GenerationConfig
    name: str

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the translator, without those that replace its search."""
        return self.translator.capabilities - {"sample", "mbr"}

    def describe(self) -> Description:
        """Return the properties of the translator."""
        return self.translator.describe()

    @property
    def resolved_search(self) -> GenerationConfig:
        """The search settings of the translator."""
        return self.translator.resolved_search

    def with_self_attention(self, translation: Translation) -> Translation:
        """Return a translation with its self-attention."""
        return self.translator.with_self_attention(translation)

    def translate_block(self, lines: Sequence[Line]) -> list[Translation]:
        """Translate the lines of a block, and repair their translations; each has its record in `repair`."""
        translations = self.translator.translate_block(lines)
        rows = [row for row, translation in enumerate(translations) if translation.nbest]
        texts = [translations[row].text for row in rows]
        judged = self.checker.judge([lines[row].text for row in rows], texts)
        before = dict(zip(rows, judged, strict=True))
        chosen = _choose(RepairInput(self.translator, lines, translations, before, self.checker, self.repair))
        for row in rows:
            candidate, judgment = chosen.get(row, (None, before[row]))
            translations[row] = _replaced(translations[row], candidate, before[row], judgment)
        return translations


class TranslateOptions(SearchOverrides, total=False):
    """The options of a translation: search settings, and what replaces or follows search.

    `sampling` samples translations instead of searching for them. `mbr` chooses among the hypotheses of the
    beam, or the samples, by minimum Bayes risk. `repair` translates sentences again whose translation
    probably omits a word. `checker` is the detector of coverage errors of `repair`, and of the utility
    `coverage` of `mbr`.
    """

    sampling: Sampling | None
    mbr: MBR | None
    repair: Repair | None
    checker: CoverageJudge | None


def configure_translator(
    translator: BaseTranslator,
    fertilities: Mapping[str, tuple[float, float]] | None = None,
    *,
    sampling: Sampling | None = None,
    mbr: MBR | None = None,
    repair: Repair | None = None,
    checker: CoverageJudge | None = None,
    **search: Any,
) -> BaseTranslator:
    """Return a translator with the options of a translation, for Python, the command line and the server.

    Args:
        translator: The translator of a loaded model.
        fertilities: Minimum and maximum attention for words.
        sampling: See `TranslateOptions` for this and the following arguments.
        mbr: Minimum Bayes risk decoding.
        repair: The repair of omissions.
        checker: The detector of coverage errors.
        search: Search settings by name. None keeps a setting.

    Raises:
        UsageError: if the translator does not support an option, or the options contradict each other.
        ConfigError: if a search setting is invalid; names it.
    """
    by_coverage = mbr is not None and mbr.utility == "coverage"
    if checker is None and (repair is not None or by_coverage):
        raise UsageError(
            f"{'mbr coverage (--mbr coverage)' if by_coverage else 'repair (--check)'} needs a checker "
            "(--checker); `regard check --save-checker DIR` trains one"
        )
    if checker is not None and repair is None and not by_coverage:
        raise UsageError("checker (--checker) needs repair (--check) or mbr coverage (--mbr coverage)")
    if repair is None:
        return translator.with_search(search, sampling, mbr, fertilities, checker)
    if sampling is not None or mbr is not None:
        raise UsageError("repair (--check) needs beam search: leave out --sample and --mbr")
    searching = translator.with_search(search, fertilities=fertilities)
    # A model without the capabilities is refused before it translates anything.
    _supported_strategies(searching, repair)
    assert checker is not None
    return RepairingTranslator(searching, checker, repair, searching.text, searching.search, searching.name)
