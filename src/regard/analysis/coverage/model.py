"""A model of good translations, which gives the probabilities of errors in others: the combined detector.

It consists of a word aligner, the rates at which words of good translations are unlinked, a model of the
length, and logistic regressions that are fitted to synthetic errors in text that the aligner was not trained
on. Their probabilities are calibrated for that text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from regard.alignment import Corpus, TrainingSetup, WordAligner, train_both
from regard.alignment.word_aligner import DEFAULT_ALIGNER, default_config
from regard.analysis.coverage.base import (
    ERRORS,
    CoverageError,
    Detector,
    PairScores,
    register_detector,
)
from regard.analysis.coverage.corruptions import CORRUPTIONS, CorruptedPair, Corruption, corrupt_pairs
from regard.analysis.coverage.evidence import (
    PairLinks,
    SideEvidence,
    UnlinkedRates,
    link_probabilities,
)
from regard.analysis.coverage.features import (
    NUM_REPETITION_FEATURES,
    LengthModel,
    repetition_features,
    repetition_sentence_features,
    sentence_features,
    word_features,
)
from regard.analysis.coverage.logistic import LogisticRegression
from regard.analysis.coverage.text import WordPair
from regard.config import configclass, option
from regard.data.links import Links
from regard.errors import DataError

__all__ = ["CombinedDetector", "CoverageModel", "CoverageModelConfig", "Evidence"]

_MIN_PAIRS = 100
_LINK_THRESHOLD = 0.3
_KINDS: Mapping[CoverageError, tuple[Corruption, ...]] = {
    "omission": ("deletion", "truncation"),
    "addition": ("insertion",),
    "repetition": ("repetition",),
}
"""The synthetic errors of each kind of coverage error."""
_SINGLE: tuple[Corruption, ...] = tuple(kind for kind in CORRUPTIONS if kind != "unrelated")
_UNRELATED_ERRORS: tuple[CoverageError, ...] = ("omission", "addition")
_NEVER = LogisticRegression(np.zeros(0), -30.0)


@configclass
class CoverageModelConfig:
    """Settings of the training of a coverage model."""

    aligner: str = option(default=DEFAULT_ALIGNER, help="Kind of the word aligner.")
    held_out: float = option(
        default=0.1,
        help="Share of the training text that the aligner does not see, in which synthetic errors are made.",
        gt=0,
        le=0.5,
    )
    max_held_out: int = option(
        default=4_000, help="Maximum number of sentence pairs that are held out.", ge=50, le=1_000_000
    )
    error_rate: float = option(
        default=0.1,
        help="Assumed share of sentences with each kind of error, for which probabilities are calibrated.",
        gt=0,
        lt=1,
    )
    seed: int = option(
        default=1, help="Random seed of the aligner and of the synthetic errors.", ge=0, le=2**63 - 1
    )


@dataclass(frozen=True)
class Evidence:
    """The evidence about a text.

    Attributes:
        pairs: The words.
        links: Link probabilities of each pair.
        source: Evidence about the source words.
        target: Evidence about the target words.
        length_excess: Length of each translation, see `LengthModel.excess`.
    """

    pairs: Sequence[WordPair]
    links: Sequence[PairLinks]
    source: SideEvidence
    target: SideEvidence
    length_excess: np.ndarray


@dataclass(frozen=True)
class CoverageModel:
    """A model of good translations.

    Attributes:
        config: The settings of its training.
        aligner: The word aligner, of words without case.
        rates: Rates of unlinked words of the source and of the target side.
        length: The model of the length.
        words: For each error, the regression that gives the log-odds of a word.
        sentences: For each error, the regression that gives the log-odds of a sentence.
        unrelated: The regression that gives the log-odds that the translation is that of another sentence,
            which omits all words and adds all of its own.
    """

    config: CoverageModelConfig
    aligner: WordAligner
    rates: tuple[UnlinkedRates, UnlinkedRates]
    length: LengthModel
    words: Mapping[CoverageError, LogisticRegression]
    sentences: Mapping[CoverageError, LogisticRegression]
    unrelated: LogisticRegression

    @classmethod
    def train(
        cls, pairs: Sequence[WordPair], config: CoverageModelConfig | None = None, num_threads: int = 0
    ) -> Self:
        """Train a model on good translations.

        Args:
            pairs: The translations. Pairs with an empty side are ignored.
            config: The settings.
            num_threads: Number of threads of the aligner; 0 uses all processors. It has no effect on the
                result.

        Raises:
            DataError: if there are fewer than 100 pairs.
        """
        config = config or CoverageModelConfig()
        usable = [pair for pair in pairs if pair.source and pair.target]
        if len(usable) < _MIN_PAIRS:
            raise DataError(
                f"the training text has {len(usable)} sentence pairs; at least {_MIN_PAIRS} are needed, and "
                "several thousand for useful results"
            )
        # A small text still needs enough held-out pairs for examples of each error.
        count = min(max(round(len(usable) * config.held_out), _MIN_PAIRS // 2), config.max_held_out)
        order = np.random.default_rng(config.seed).permutation(len(usable))
        held_out = [usable[i] for i in order[:count]]
        # Sorting restores the order of the text, from which `sample` takes evenly spaced pairs.
        training = [usable[i] for i in np.sort(order[count:])]
        setup = TrainingSetup(num_threads=num_threads, seed=config.seed)
        corpus = Corpus.from_tokens(pair.folded for pair in training)
        aligner = train_both(corpus, default_config(config.aligner), setup, lowercase=True)
        # The rates of frequent words converge with a part of the text, which saves most of the time.
        sample = training[:: max(1, len(training) // 20_000)]
        sample_links = link_probabilities(aligner, sample, num_threads)
        links = link_probabilities(aligner, held_out, num_threads)
        rates = tuple(
            UnlinkedRates.estimate(
                aligner.words[side],
                _unlinked_words(aligner, sample, sample_links, side),
                _unlinked_words(aligner, held_out, links, side),
            )
            for side in (0, 1)
        )
        model = cls(config, aligner, (rates[0], rates[1]), LengthModel.fit(training), {}, {}, _NEVER)
        return model._fit(held_out, links, num_threads)

    def _fit(self, pairs: Sequence[WordPair], links: Sequence[PairLinks], num_threads: int) -> Self:
        """Return the model with regressions that are fitted to synthetic errors in the pairs."""
        found = [best_links(one) for one in links]
        words: dict[CoverageError, LogisticRegression] = {}
        sentences: dict[CoverageError, LogisticRegression] = {}
        for number, error in enumerate(ERRORS):
            examples = _examples(pairs, found, error, self.config.seed + number)
            evidence = self.collect([one.pair for one in examples], num_threads)
            table = self._word_table(evidence, error)
            words[error] = LogisticRegression.fit(table, _word_labels(examples, error))
            rows = self._sentence_table(evidence, error, table, words[error].logits(table))
            sentences[error] = self._fit_sentences(rows, examples, _KINDS[error])
        # The features of unrelated pairs contain the log-odds of words, so this regression comes last.
        model = replace(self, words=words, sentences=sentences)
        examples = corrupt_pairs(pairs, found, ("unrelated",), rate=0.5, seed=self.config.seed + len(ERRORS))
        examples += corrupt_pairs(pairs, found, _SINGLE, rate=0.5, seed=self.config.seed + len(ERRORS) + 1)
        evidence = model.collect([one.pair for one in examples], num_threads)
        rows = model._unrelated_table(model._tables(evidence)[1])
        return replace(model, unrelated=model._fit_sentences(rows, examples, ("unrelated",)))

    def _fit_sentences(
        self, rows: np.ndarray, examples: Sequence[CorruptedPair], kinds: tuple[Corruption, ...]
    ) -> LogisticRegression:
        """Return the regression of some kinds of errors, calibrated for the assumed share of errors."""
        present = np.array([one.kind in kinds for one in examples])
        fitted = LogisticRegression.fit(rows, present)
        # The share of errors among the examples is far above that of a text.
        shift = _logit(self.config.error_rate) - _logit(float(np.clip(present.mean(), 1e-3, 1 - 1e-3)))
        return replace(fitted, bias=fitted.bias + shift)

    def _tables(
        self, evidence: Evidence
    ) -> tuple[dict[CoverageError, np.ndarray], dict[CoverageError, np.ndarray]]:
        """Return for each error the log-odds of the words and the features of the sentences."""
        logits, rows = {}, {}
        for error in ERRORS:
            table = self._word_table(evidence, error)
            logits[error] = self.words[error].logits(table)
            rows[error] = self._sentence_table(evidence, error, table, logits[error])
        return logits, rows

    @staticmethod
    def _unrelated_table(rows: Mapping[CoverageError, np.ndarray]) -> np.ndarray:
        """Return the features of both sides."""
        return np.concatenate([rows["omission"], rows["addition"]], axis=1)

    def collect(self, pairs: Sequence[WordPair], num_threads: int = 0) -> Evidence:
        """Return the evidence about a text."""
        links = link_probabilities(self.aligner, pairs, num_threads)
        source = SideEvidence.collect(pairs, (one.unlinked_source() for one in links), self.rates[0])
        # `SideEvidence.collect` reads the source side, so the pairs are swapped for the other side.
        swapped = [pair.swapped() for pair in pairs]
        target = SideEvidence.collect(swapped, (one.unlinked_target() for one in links), self.rates[1])
        return Evidence(pairs, links, source, target, self.length.excess(pairs) if pairs else np.empty(0))

    def scores(self, evidence: Evidence) -> list[PairScores]:
        """Return the probabilities of each error, of words and of sentences."""
        if not evidence.pairs:
            return []
        logits, rows = self._tables(evidence)
        unrelated = self.unrelated.probabilities(self._unrelated_table(rows))
        sentence = {error: self.sentences[error].probabilities(rows[error]) for error in ERRORS}
        words = {}
        for error in ERRORS:
            side = evidence.source if error == "omission" else evidence.target
            # `np.split` expects the inner boundaries only.
            words[error] = np.split(1 / (1 + np.exp(-logits[error])), side.offsets[1:-1])
        found = []
        for number, pair in enumerate(evidence.pairs):
            # The regressions are fitted to translations with words, so this case needs a rule.
            if pair.source and not pair.target:
                found.append(_empty_translation(len(pair.source)))
                continue
            own: dict[CoverageError, float] = {error: float(sentence[error][number]) for error in ERRORS}
            each: dict[CoverageError, np.ndarray] = {error: words[error][number] for error in ERRORS}
            for error in _UNRELATED_ERRORS:
                # Both probabilities may describe the same error, so the larger one counts, not the sum.
                own[error] = max(own[error], float(unrelated[number]))
                each[error] = np.maximum(each[error], unrelated[number])
            found.append(PairScores(own, each))
        return found

    def _word_table(self, evidence: Evidence, error: CoverageError) -> np.ndarray:
        """Return the features of all words of the side in which an error is found."""
        if error == "omission":
            return word_features(evidence.source, evidence.length_excess)
        if error == "addition":
            return word_features(evidence.target, evidence.length_excess)
        tables = [repetition_features(*one) for one in zip(evidence.pairs, evidence.links, strict=True)]
        return np.concatenate(tables) if tables else np.empty((0, NUM_REPETITION_FEATURES))

    def _sentence_table(
        self, evidence: Evidence, error: CoverageError, table: np.ndarray, logits: np.ndarray
    ) -> np.ndarray:
        """Return the features of all sentences for an error."""
        if error == "omission":
            return sentence_features(evidence.source, logits, evidence.length_excess)
        if error == "addition":
            return sentence_features(evidence.target, logits, evidence.length_excess)
        offsets = evidence.target.offsets
        return np.array(
            [
                repetition_sentence_features(
                    pair, table[first:last], logits[first:last], float(evidence.length_excess[number])
                )
                for number, (pair, first, last) in enumerate(
                    zip(evidence.pairs, offsets[:-1], offsets[1:], strict=True)
                )
            ]
        ).reshape(len(evidence.pairs), -1)


def best_links(links: PairLinks) -> Links:
    """Return the links that both directions find probable (geometric mean at least 0.3)."""
    both = np.sqrt(links.forward * links.backward)
    return frozenset((int(i), int(j)) for j, i in zip(*np.nonzero(both >= _LINK_THRESHOLD), strict=True))


def _unlinked_words(
    aligner: WordAligner, pairs: Sequence[WordPair], links: Iterable[PairLinks], side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of all words of one side, and their probabilities of no link."""
    numbers = [number for pair in pairs for number in aligner.words[side].numbers(pair.folded[side])]
    unlinked = [
        np.sqrt(np.prod((one.unlinked_target() if side else one.unlinked_source())[:2], axis=0))
        for one in links
    ]
    flat = np.concatenate(unlinked).astype(np.float64) if unlinked else np.empty(0)
    return np.array(numbers, dtype=np.int64), flat


def _examples(
    pairs: Sequence[WordPair], links: Sequence[Links], error: CoverageError, seed: int
) -> list[CorruptedPair]:
    """Return good pairs, pairs with one kind of error, and fewer pairs with errors of other kinds."""
    own = _KINDS[error]
    examples = corrupt_pairs(pairs, links, own, rate=0.5, seed=seed)
    # Errors of other kinds are negative examples, so that the regression separates the kinds.
    others: tuple[Corruption, ...] = tuple(kind for kind in _SINGLE if kind not in own)
    half = len(pairs) // 2
    return examples + corrupt_pairs(pairs[:half], links[:half], others, rate=0.5, seed=seed + 1)


def _word_labels(examples: Sequence[CorruptedPair], error: CoverageError) -> np.ndarray:
    """Return for each word of the side of an error whether it is affected."""
    labels = []
    for one in examples:
        words = one.pair.source if error == "omission" else one.pair.target
        hit = {"omission": one.omitted, "addition": one.added, "repetition": one.repeated}[error]
        labels += [position in hit for position in range(len(words))]
    return np.array(labels, dtype=bool)


def _empty_translation(num_words: int) -> PairScores:
    """Return the scores of an empty translation, which omits everything."""
    nothing = np.empty(0)
    words: dict[CoverageError, np.ndarray] = dict.fromkeys(ERRORS, nothing)
    words["omission"] = np.ones(num_words)
    return PairScores({"omission": 1.0, "addition": 0.0, "repetition": 0.0}, words)


def _logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))


@register_detector("combined")
class CombinedDetector(Detector):
    """Calibrated probabilities of all errors, from alignment, length and repetition together."""

    name = "combined"
    needs = ("model",)

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the probabilities of each pair."""
        model = self.inputs.model
        assert model is not None
        return model.scores(model.collect(pairs, self.inputs.num_threads))
