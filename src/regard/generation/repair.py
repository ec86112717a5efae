"""Repair of translations that omit source words: a longer n-best list, and the choice by a detector.

A detector (`CoverageJudge`) gives each source word the probability that it is omitted. A sentence with a word
above the threshold is translated again with a longer n-best list. Of its translations y, the one with the
largest

    log p(y | x) - weight * errors(x, y)

replaces the translation, where `errors` is the number of words with a coverage error that the detector
expects. It is the objective of a noisy-channel reranker, with coverage in place of p(x | y). A candidate is
accepted only if it has fewer expected errors and its log-probability does not fall by more than `max_loss`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.config import configclass, option
from regard.data.text import TextProcessor
from regard.errors import UsageError
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.config import GenerationConfig, Sampling, SearchOverrides
from regard.generation.lines import Line
from regard.generation.reranking import MBR, CoverageJudge, CoverageJudgment, LineRepair
from regard.generation.translation import Translation


@configclass
class Repair:
    """Settings of the repair of translations that omit source words."""

    threshold: float = option(
        default=0.3,
        help="Probability of omission of a source word from which its sentence is translated again.",
        ge=0,
        le=1,
    )
    num_candidates: int = option(default=20, help="Size of the n-best list, and of its beam.", ge=2, le=1_000)
    weight: float = option(
        default=8.0, help="Log-probability in nats that one coverage error less is worth.", ge=0, le=1_000
    )
    max_loss: float = option(
        default=10.0, help="Maximum loss of log-probability of a repaired translation, in nats.", ge=0, le=1e6
    )


@dataclass(frozen=True)
class RepairingTranslator(BaseTranslator):
    """A translator whose translations are checked and repaired."""

    translator: BaseTranslator  # searches, without sampling
    candidates: BaseTranslator  # the same translator with a longer n-best list
    checker: CoverageJudge
    repair: Repair
    # Those of the translator.
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

    def with_self_attention(self, translation: Translation) -> Translation:
        """Return a translation with its self-attention."""
        return self.translator.with_self_attention(translation)

    def translate_block(self, lines: Sequence[Line]) -> list[Translation]:
        """Translate the lines of a block, and repair their translations; each has its record in `repair`."""
        translations = self.translator.translate_block(lines)
        rows = [row for row, translation in enumerate(translations) if translation.nbest]
        judged = self.checker.judge(
            [lines[row].text for row in rows], [translations[row].text for row in rows]
        )
        before = dict(zip(rows, judged, strict=True))
        chosen = self._choose(lines, translations, before)
        for row in rows:
            best, after = chosen.get(row, (translations[row], before[row]))
            translations[row] = _with_record(translations[row], best, before[row], after)
        return translations

    def _choose(
        self, lines: Sequence[Line], translations: Sequence[Translation], before: dict[int, CoverageJudgment]
    ) -> dict[int, tuple[Translation, CoverageJudgment]]:
        """Return the best accepted candidate of each row that has one, with its coverage errors."""
        config = self.repair
        rows = [
            row for row, judgment in before.items() if max(judgment.omitted, default=0.0) >= config.threshold
        ]
        if not rows:
            return {}
        nbest_lists = self.candidates.translate_block([lines[row] for row in rows])
        distinct: dict[tuple[int, str], Translation] = {}
        for row, results in zip(rows, nbest_lists, strict=True):
            for candidate in results.nbest:
                # The same text may get slightly different scores in another batch, but it is no change.
                if candidate.text != translations[row].text:
                    distinct.setdefault((row, candidate.text), candidate)
        highest = {
            row: translations[row].log_probability - config.weight * before[row].errors for row in rows
        }
        best: dict[int, tuple[Translation, CoverageJudgment]] = {}
        sources, texts = [lines[row].text for row, _ in distinct], [text for _, text in distinct]
        judged = self.checker.judge(sources, texts)
        for (row, _), candidate, judgment in zip(distinct, distinct.values(), judged, strict=True):
            objective = candidate.log_probability - config.weight * judgment.errors
            loss = translations[row].log_probability - candidate.log_probability
            if objective > highest[row] and judgment.errors < before[row].errors and loss <= config.max_loss:
                highest[row], best[row] = objective, (candidate, judgment)
        return best


def _with_record(
    first: Translation, best: Translation, before: CoverageJudgment, after: CoverageJudgment
) -> Translation:
    """Return the best translation with the record of the check and the alternatives of the first one."""
    changed = best is not first
    scores = first.log_probability, best.log_probability
    record = LineRepair(changed, first.text, before, after, *scores)
    if not changed:
        return replace(first, repair=record)
    others = [replace(other, alternatives=()) for other in first.nbest if other.text != best.text]
    alternatives = tuple(others[: len(first.alternatives)])
    return replace(best, repair=record, missing_terms=first.missing_terms, alternatives=alternatives)


class TranslateOptions(SearchOverrides, total=False):
    """The options of a translation: search settings, and what replaces or follows search.

    `sampling` samples translations instead of searching for them. `mbr` chooses among the hypotheses of the
    beam, or the samples, by minimum Bayes risk. `repair` translates sentences again whose translation
    probably omits a word. `checker` is the detector of coverage errors of `repair`.
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
    if repair is None:
        if checker is not None:
            raise UsageError("checker (--checker) needs repair (--check)")
        return translator.with_search(search, sampling, mbr, fertilities)
    if checker is None:
        raise UsageError(
            "repair (--check) needs a checker (--checker); `regard check --save-checker DIR` trains one"
        )
    if sampling is not None or mbr is not None:
        raise UsageError("repair (--check) needs beam search: leave out --sample and --mbr")
    searching = translator.with_search(search, fertilities=fertilities)
    options = searching.search_options
    if options is not None and not {"beam_size", "num_return"} <= options:
        raise searching.unsupported("the repair of omissions (--check)")
    count = repair.num_candidates
    size = max(count, searching.search.beam_size)
    candidates = searching.with_search({"beam_size": size, "num_return": count})
    text, name = searching.text, searching.name
    return RepairingTranslator(searching, candidates, checker, repair, text, searching.search, name)
