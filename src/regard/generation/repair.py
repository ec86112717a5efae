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

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.data.text import TextProcessor
from regard.errors import UsageError
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.config import GenerationConfig, Sampling, SearchOverrides
from regard.generation.coverage import CoverageJudge, CoverageJudgment, LineRepair
from regard.generation.lines import Line
from regard.generation.mbr import MBR
from regard.generation.repair_candidates import (
    Repair,
    RepairCandidate,
    RepairInput,
    find_candidates,
    supported_strategies,
)
from regard.generation.translation import Translation

__all__ = ["RepairSummary", "RepairingTranslator", "TranslateOptions", "configure_translator"]


def _choose(block: RepairInput) -> dict[int, tuple[RepairCandidate, CoverageJudgment]]:
    """Return the best accepted candidate of each sentence that has one."""
    config, before = block.repair, block.before
    candidates = find_candidates(block)
    sources = [block.lines[candidate.row].text for candidate in candidates]
    judged = block.checker.judge(sources, [candidate.translation.text for candidate in candidates])
    best: dict[int, tuple[float, RepairCandidate, CoverageJudgment]] = {}
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
    old: Translation, chosen: RepairCandidate | None, before: CoverageJudgment, after: CoverageJudgment
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
    supported_strategies(searching, repair)
    assert checker is not None
    return RepairingTranslator(searching, checker, repair, searching.text, searching.search, searching.name)


@dataclass
class RepairSummary:
    """Totals of a checked text.

    Attributes:
        threshold: Probability of an omitted word from which a sentence is translated again.
        num_sentences: Number of sentences with a translation.
        num_likely: Number of sentences with a word above the threshold.
        num_changed: Number of sentences whose translation was replaced.
        omission_before: Sum over all sentences of the probability that a translation omits something.
        omission_after: The same, after repair.
        strategies: Number of changes of each strategy.
    """

    threshold: float = 0.3
    num_sentences: int = 0
    num_likely: int = 0
    num_changed: int = 0
    omission_before: float = 0.0
    omission_after: float = 0.0
    strategies: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(self, record: LineRepair | None) -> None:
        """Count one sentence; None is a line without a translation."""
        if record is None:
            return
        self.num_sentences += 1
        self.num_likely += max(record.before.omitted, default=0.0) >= self.threshold
        self.omission_before += record.before.omission
        self.omission_after += record.after.omission
        if record.strategy is not None:
            self.num_changed += 1
            self.strategies[record.strategy] = self.strategies.get(record.strategy, 0) + 1

    def __str__(self) -> str:
        """Return the totals as a sentence."""
        count = max(self.num_sentences, 1)
        by = ", ".join(f"{name} {times}" for name, times in sorted(self.strategies.items()))
        return (
            f"{self.num_sentences:,} sentences checked, {self.num_likely:,} likely omit a word, "
            f"{self.num_changed:,} changed{f' ({by})' if by else ''}; mean probability of an omission "
            f"{self.omission_before / count:.3f} before, {self.omission_after / count:.3f} after"
        )
