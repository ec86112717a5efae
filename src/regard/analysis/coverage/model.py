"""A model of good translations, which gives the probabilities of errors in others: the combined detector.

It consists of a word aligner, counts of its links, the norms of each word in good translations, a model of
the length, and classifiers that are fitted to synthetic errors in text that the aligner was not trained on:
small neural networks for words, logistic regressions for sentences. The probabilities are calibrated for
that text.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    SentenceError,
    register_detector,
)
from regard.analysis.coverage.corruptions import (
    CORRUPTIONS,
    CorruptedPair,
    Corruption,
    CorruptionConfig,
    corrupt_pairs,
)
from regard.analysis.coverage.evidence import SideEvidence, WordNorms
from regard.analysis.coverage.features import (
    LengthModel,
    repetition_features,
    repetition_sentence_features,
    sentence_features,
    word_features,
)
from regard.analysis.coverage.logistic import LogisticRegression
from regard.analysis.coverage.posteriors import LinkCounts, TextPosteriors
from regard.analysis.coverage.text import WordPair
from regard.analysis.coverage.word_classifier import WordClassifier
from regard.config import configclass, option
from regard.data.links import Links
from regard.errors import DataError

__all__ = ["CombinedDetector", "CoverageModelConfig", "ErrorModel", "Evidence"]

_MIN_PAIRS = 100
_SAMPLE = 20_000  # pairs of the training text from which norms and link counts are estimated
_WORD_SHARE = 0.75  # share of the held-out pairs for the classifiers of words
_ROUNDS = 3
_MIN_EXAMPLES = 6_000
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
        default=0.15,
        help="Share of the training text that the aligner does not see, in which synthetic errors are made.",
        gt=0,
        le=0.5,
    )
    max_held_out: int = option(
        default=6_000, help="Maximum number of sentence pairs that are held out.", ge=50, le=1_000_000
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
        table: The words and their link probabilities.
        source: Evidence about the source words.
        target: Evidence about the target words.
        length_excess: Length of each translation, see `LengthModel.excess`.
    """

    table: TextPosteriors
    source: SideEvidence
    target: SideEvidence
    length_excess: np.ndarray


@dataclass(frozen=True)
class ErrorModel:
    """A model of good translations.

    Attributes:
        config: The settings of its training.
        aligner: The word aligner, of words without case.
        counts: How often words are linked in the training text.
        norms: The statistics of the words of the source and of the target side.
        length: The model of the length.
        words: For each error, the classifier that gives the log-odds of a word.
        sentences: For each error, the regression that gives the log-odds of a sentence.
        unrelated: The regression that gives the log-odds that the translation is that of another sentence,
            which omits all words and adds all of its own.
    """

    config: CoverageModelConfig
    aligner: WordAligner
    counts: LinkCounts
    norms: tuple[WordNorms, WordNorms]
    length: LengthModel
    words: Mapping[CoverageError, WordClassifier | LogisticRegression]
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
        # The norms of frequent words converge with a part of the text, which saves most of the time.
        sample = TextPosteriors.of(aligner, training[:: max(1, len(training) // _SAMPLE)], num_threads)
        sizes = len(aligner.words[0]), len(aligner.words[1])
        counts = LinkCounts.estimate(sample, sizes)
        found = TextPosteriors.of(aligner, held_out, num_threads)
        norms = []
        for side in (0, 1):
            tables = (one.swapped() if side else one for one in (sample, found))
            evidence = [SideEvidence.collect(table, counts, bool(side)) for table in tables]
            norms.append(WordNorms.estimate(evidence, counts.occurrences[side]))
        length = LengthModel.fit(training)
        model = cls(config, aligner, counts, (norms[0], norms[1]), length, {}, {}, _NEVER)
        return model._fit(held_out, found.best_links(), num_threads)

    def _fit(self, pairs: Sequence[WordPair], links: Sequence[Links], num_threads: int) -> Self:
        """Return the model with classifiers that are fitted to synthetic errors in the pairs."""
        # Classifiers of words are too confident on their own examples, so the sentences are others.
        num_words = round(len(pairs) * _WORD_SHARE)
        parts = [(pairs[:num_words], links[:num_words]), (pairs[num_words:], links[num_words:])]
        words: dict[CoverageError, WordClassifier | LogisticRegression] = {}
        sentences: dict[CoverageError, LogisticRegression] = {}
        for number, error in enumerate(ERRORS):
            seed = self.config.seed + number
            examples, others = (_examples(*part, error, seed) for part in parts)
            table = self._word_table(self.collect([one.pair for one in examples], num_threads), error)
            labels = _word_labels(examples, error)
            if error == "repetition":
                words[error] = LogisticRegression.fit(table, labels)
            else:
                words[error] = WordClassifier.fit(table, labels, seed)
            evidence = self.collect([one.pair for one in others], num_threads)
            table = self._word_table(evidence, error)
            rows = self._sentence_table(evidence, error, table, words[error].logits(table))
            sentences[error] = self._fit_sentences(rows, others, _KINDS[error])
        # The features of unrelated pairs contain the log-odds of words, so this regression comes last.
        model = replace(self, words=words, sentences=sentences)
        seed = self.config.seed + len(ERRORS)
        examples = corrupt_pairs(*parts[1], CorruptionConfig(kinds=("unrelated",), seed=seed))
        examples += corrupt_pairs(*parts[1], CorruptionConfig(kinds=_SINGLE, seed=seed + 1))
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
        table = TextPosteriors.of(self.aligner, pairs, num_threads)
        linked = self.counts.of_cells(table)
        # `SideEvidence.collect` reads the source side, so the table is swapped for the other side.
        swapped = table.swapped()
        calls = (table, self.counts, False, linked), (swapped, self.counts, True, linked[table.swap_order])
        with ThreadPoolExecutor(1 if num_threads == 1 else 2) as pool:
            source, target = pool.map(lambda call: SideEvidence.collect(*call), calls)
        return Evidence(table, source, target, self.length.excess(pairs) if pairs else np.empty(0))

    def scores(self, evidence: Evidence) -> list[PairScores]:
        """Return the probabilities of each error, of words and of sentences."""
        if not evidence.table.pairs:
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
        for number, pair in enumerate(evidence.table.pairs):
            # The regressions are fitted to translations with words, so this case needs a rule.
            if pair.source and not pair.target:
                found.append(_empty_translation(len(pair.source)))
                continue
            own: dict[SentenceError, float] = {error: float(sentence[error][number]) for error in ERRORS}
            own["unrelated"] = float(unrelated[number])
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
            return word_features(evidence.source, self.norms[0], evidence.length_excess)
        if error == "addition":
            return word_features(evidence.target, self.norms[1], evidence.length_excess)
        return repetition_features(evidence.table, evidence.target)

    def _sentence_table(
        self, evidence: Evidence, error: CoverageError, table: np.ndarray, logits: np.ndarray
    ) -> np.ndarray:
        """Return the features of all sentences for an error."""
        if error == "omission":
            return sentence_features(evidence.source, logits, evidence.length_excess)
        if error == "addition":
            return sentence_features(evidence.target, logits, evidence.length_excess)
        return repetition_sentence_features(evidence.table, table, logits, evidence.length_excess)


def _examples(
    pairs: Sequence[WordPair], links: Sequence[Links], error: CoverageError, seed: int
) -> list[CorruptedPair]:
    """Return good pairs, pairs with one kind of error, and fewer pairs with errors of other kinds."""
    own = _KINDS[error]
    # Several errors in the same pair are cheaper than more pairs, which the aligner could not learn from.
    examples = [
        one
        for number in range(max(_ROUNDS, -(-_MIN_EXAMPLES // len(pairs))))
        for one in corrupt_pairs(pairs, links, CorruptionConfig(kinds=own, seed=1_000 * seed + number))
    ]
    # Errors of other kinds are negative examples, so that the regression separates the kinds.
    others: tuple[Corruption, ...] = tuple(kind for kind in _SINGLE if kind not in own)
    half = len(pairs) // 2
    return examples + corrupt_pairs(pairs[:half], links[:half], CorruptionConfig(kinds=others, seed=seed))


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
    return PairScores({"omission": 1.0, "addition": 0.0, "repetition": 0.0, "unrelated": 0.0}, words)


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
        return [one for evidence in self.inputs.evidence(pairs) for one in model.scores(evidence)]
