"""A model of good translations, which gives the probabilities of errors in others: the combined detector.

It consists of a word aligner and an aligner of stems, the norms of their links in good translations, a model
of the length, and classifiers that are fitted to synthetic errors in text that the aligners were not trained
on: small neural networks for omissions and additions, logistic regressions for repetitions. Logistic
regressions calibrate the probabilities of sentences, on pairs that are used only for this. The networks need
more examples than one held-out part of a small text has, so several parts are held out in turn, and each time
other aligners are trained on the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from regard.alignment import TrainingSetup
from regard.errors import DataError
from regard.extensions.check.base import (
    ERRORS,
    CoverageError,
    Detector,
    PairScores,
    SentenceError,
    WordPair,
    blocks,
    register_detector,
    training_pairs,
)
from regard.extensions.check.classifiers import ErrorTagger, LogisticRegression, fit_tagger
from regard.extensions.check.corruptions import (
    CORRUPTIONS,
    CorruptedPair,
    Corruption,
    CorruptionConfig,
    corrupt_pairs,
    with_unknown_words,
    word_labels,
)
from regard.extensions.check.evidence import Evidence, LinkModel, SideEvidence
from regard.extensions.check.features import (
    LengthModel,
    repetition_features,
    repetition_sentence_features,
    sentence_features,
    word_features,
)
from regard.text.links import Links

STEM_LENGTH = 4
"""Number of characters of a stem. Rare words share their first characters with others."""
_MIN_PAIRS = 100
_HELD_OUT = 0.15  # share of the training text that an aligner does not see
_MAX_PARTS = 3  # that are held out in turn
_MAX_HELD_OUT = 18_000  # pairs, in all parts together
_ERROR_RATE = 0.1  # share of sentences with each kind of error, for which probabilities are calibrated
_SEED = 1  # of the aligners and of the synthetic errors
_MAX_CALIBRATION_PAIRS = 2_000  # of the first held-out part, at most a half of it
_ROUNDS: Mapping[CoverageError, int] = {"omission": 5, "addition": 5, "repetition": 3}
"""How often errors are made in each held-out pair. Networks learn from more examples than regressions do."""
_MIN_EXAMPLES = 6_000
_UNKNOWN = 0.3, 0.1  # share of the examples with unknown words, and the mean share of these words
_KINDS: Mapping[CoverageError, tuple[Corruption, ...]] = {
    "omission": ("deletion", "truncation"),
    "addition": ("insertion",),
    "repetition": ("repetition",),
}
"""The synthetic errors of each kind of coverage error."""
_SINGLE: tuple[Corruption, ...] = tuple(kind for kind in CORRUPTIONS if kind != "unrelated")
TAGGED: tuple[CoverageError, ...] = ("omission", "addition")
"""The errors that networks find. A translation that is unrelated to the source has both."""
_NEVER = LogisticRegression(np.zeros(0), -30.0)


def held_out_parts(num_pairs: int) -> list[np.ndarray]:
    """Return the numbers of the pairs of a training text that are held out in turn.

    A text so large that one part has the maximum number of pairs has only one part.
    """
    # A small text still needs enough held-out pairs for examples of each error.
    most = max(round(num_pairs * _HELD_OUT), _MIN_PAIRS // 2)
    count = min(most * min(_MAX_PARTS, num_pairs // most), _MAX_HELD_OUT)
    order = np.random.default_rng(_SEED).permutation(num_pairs)
    return np.array_split(order[:count], -(-count // most))


@dataclass(frozen=True)
class ErrorModel:
    """A model of good translations.

    Attributes:
        words: The links of words.
        stems: The links of stems.
        length: The model of the length.
        taggers: The networks that give the log-odds of omissions and additions.
        repeated: The regression that gives the log-odds that a word is repeated.
        sentences: For each error, the regression that gives the log-odds of a sentence.
        unrelated: The regression that gives the log-odds that the translation is that of another sentence,
            which omits all words and adds all of its own.
    """

    words: LinkModel
    stems: LinkModel
    length: LengthModel
    taggers: Mapping[CoverageError, ErrorTagger]
    repeated: LogisticRegression
    sentences: Mapping[CoverageError, LogisticRegression]
    unrelated: LogisticRegression

    @classmethod
    def train(cls, pairs: Sequence[WordPair], num_threads: int = 0) -> Self:
        """Train a model on good translations.

        Args:
            pairs: The translations. Pairs with an empty side, and those that are too long, are ignored.
            num_threads: Number of threads of the aligner; 0 uses all processors. It has no effect on the
                result.

        Raises:
            DataError: if there are fewer than 100 pairs.
        """
        usable = training_pairs(pairs)
        if len(usable) < _MIN_PAIRS:
            raise DataError(
                f"the training text has {len(usable)} sentence pairs; at least {_MIN_PAIRS} are needed, and "
                "several thousand for useful results"
            )
        setup = TrainingSetup(num_threads=num_threads, seed=_SEED)
        parts = []
        for rows in held_out_parts(len(usable)):
            held_out = [usable[i] for i in rows]
            # The order is that of the text, from which `sample` takes evenly spaced pairs.
            training = [usable[i] for i in np.setdiff1d(np.arange(len(usable)), rows)]
            # The norms of rare words fit the pairs that they are estimated from better than other text.
            others = held_out if parts else held_out[: _num_word_pairs(len(held_out))]
            words, stems = (
                LinkModel.train(training, others, setup, length) for length in (None, STEM_LENGTH)
            )
            model = cls(words, stems, LengthModel.fit(training), {}, _NEVER, {}, _NEVER)
            parts.append(_HeldOut(model, held_out, words.posteriors(held_out, num_threads).best_links()))
        return parts[0].model._fit(parts, num_threads)

    def _fit(self, parts: Sequence["_HeldOut"], num_threads: int) -> Self:
        """Return the model of the first part with classifiers that are fitted to synthetic errors."""
        # Classifiers of words are too confident on their own examples, so the sentences are others.
        first, *rest = parts
        num_words = _num_word_pairs(len(first.pairs))
        parts = [first.some(slice(num_words)), *rest]
        sentence_part = first.some(slice(num_words, None))
        model = self
        sentences: dict[CoverageError, LogisticRegression] = {}
        for number, error in enumerate(ERRORS):
            seed = _SEED + number
            model = model._fit_words(parts, error, seed, num_threads)
            (others,) = _examples([sentence_part], error, seed)
            views = model._views([example.pair for example in others], error, num_threads)
            sentences[error] = _fit_sentences(model._logits(views, error)[1], others, _KINDS[error])
        # The features of unrelated pairs contain the log-odds of words, so this regression comes last.
        model = replace(model, sentences=sentences)
        seed = _SEED + len(ERRORS)
        examples = sentence_part.corrupted(("unrelated",), seed) + sentence_part.corrupted(_SINGLE, seed + 1)
        examples = with_unknown_words(examples, *_UNKNOWN, seed)
        views = model._views([example.pair for example in examples], "omission", num_threads)
        logits: dict[CoverageError, np.ndarray] = {error: model._logits(views, error)[0] for error in TAGGED}
        rows = model._unrelated_table(views[0], logits)
        return replace(model, unrelated=_fit_sentences(rows, examples, ("unrelated",)))

    def _fit_words(
        self, parts: Sequence["_HeldOut"], error: CoverageError, seed: int, num_threads: int
    ) -> Self:
        """Return the model with the classifier of the words of an error."""
        if error not in TAGGED:
            # A regression needs no more examples than one part has.
            (part_examples,) = _examples(parts[:1], error, seed)
            (evidence,) = self._views([example.pair for example in part_examples], error, num_threads)
            table = repetition_features(evidence.table, evidence.target)
            return replace(self, repeated=LogisticRegression.fit(table, word_labels(part_examples, error)))
        examples = [with_unknown_words(some, *_UNKNOWN, seed) for some in _examples(parts, error, seed)]
        tables: list[tuple[np.ndarray, np.ndarray]] = []
        for part, some in zip(parts, examples, strict=True):
            views = part.model._views([example.pair for example in some], error, num_threads)
            # In the precision of the networks.
            table = part.model._word_table(views, error).astype(np.float32)
            tables.append((table, np.diff(_side(views[0], error).offsets)))
        all_examples = [example for some in examples for example in some]
        affected = np.array([example.kind in _KINDS[error] for example in all_examples])
        features = np.concatenate([table for table, _ in tables])
        offsets = np.concatenate([[0], np.cumsum(np.concatenate([lengths for _, lengths in tables]))])
        tables.clear()  # the tables of many long sentences take gigabytes
        tagger = fit_tagger(features, offsets, (word_labels(all_examples, error), affected), seed)
        return replace(self, taggers={**self.taggers, error: tagger})

    def _views(self, pairs: Sequence[WordPair], error: CoverageError, num_threads: int) -> Sequence[Evidence]:
        """Return the evidence of words, and that of stems if the error is found by it."""
        models = (self.words, self.stems) if error in TAGGED else (self.words,)
        return [model.collect(pairs, num_threads) for model in models]

    def _logits(self, views: Sequence[Evidence], error: CoverageError) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds of an error of the words, and the features of the sentences, [P, F]."""
        evidence = views[0]
        if error in TAGGED:
            offsets = _side(evidence, error).offsets
            words, sentences = self.taggers[error].logits(self._word_table(views, error), offsets)
            return words, sentences[:, None]
        table = repetition_features(evidence.table, evidence.target)
        words, excess = self.repeated.logits(table), self.length.excess(evidence.table.pairs)
        return words, repetition_sentence_features(evidence.table, table, words, excess)

    def _word_table(self, views: Sequence[Evidence], error: CoverageError) -> np.ndarray:
        """Return the features of all words of the side in which an error is found."""
        excess, number = self.length.excess(views[0].table.pairs), TAGGED.index(error)
        tables = [
            word_features(_side(evidence, error), model.norms[number], excess)
            for evidence, model in zip(views, (self.words, self.stems), strict=True)
        ]
        return np.concatenate(tables, axis=1)

    def _unrelated_table(self, evidence: Evidence, logits: Mapping[CoverageError, np.ndarray]) -> np.ndarray:
        """Return the features of both sides."""
        excess = self.length.excess(evidence.table.pairs)
        sides = [sentence_features(_side(evidence, error), logits[error], excess) for error in TAGGED]
        return np.concatenate(sides, axis=1)

    def scores(self, pairs: Sequence[WordPair], num_threads: int = 0) -> list[PairScores]:
        """Return the probabilities of each error, of words and of sentences.

        Args:
            pairs: The pairs. They are processed in blocks, which bound the memory.
            num_threads: Number of threads of the aligners; 0 uses all processors.
        """
        return [scores for block in blocks(pairs) for scores in self._block_scores(block, num_threads)]

    def _block_scores(self, pairs: Sequence[WordPair], num_threads: int) -> list[PairScores]:
        views = [model.collect(pairs, num_threads) for model in (self.words, self.stems)]
        evidence = views[0]
        logits: dict[CoverageError, np.ndarray] = {}
        sentence, words = {}, {}
        for error in ERRORS:
            logits[error], rows = self._logits(views, error)
            sentence[error] = self.sentences[error].probabilities(rows)
            # `np.split` expects the inner boundaries only.
            words[error] = np.split(1 / (1 + np.exp(-logits[error])), _side(evidence, error).offsets[1:-1])
        unrelated = self.unrelated.probabilities(self._unrelated_table(evidence, logits))
        pair_scores = []
        by_error: dict[SentenceError, float]
        each: dict[CoverageError, np.ndarray]
        for number, pair in enumerate(pairs):
            # The regressions are fitted to translations with words, so this case needs a rule.
            if pair.source and not pair.target:
                by_error = {"omission": 1.0, "addition": 0.0, "repetition": 0.0, "unrelated": 0.0}
                nothing = np.empty(0)
                each = {"omission": np.ones(len(pair.source)), "addition": nothing, "repetition": nothing}
                pair_scores.append(PairScores(by_error, each))
                continue
            by_error = {error: float(sentence[error][number]) for error in ERRORS}
            by_error["unrelated"] = float(unrelated[number])
            each = {error: words[error][number] for error in ERRORS}
            for error in TAGGED:
                # Both probabilities may describe the same error, so the larger one counts, not the sum.
                by_error[error] = max(by_error[error], float(unrelated[number]))
                each[error] = np.maximum(each[error], unrelated[number])
            pair_scores.append(PairScores(by_error, each))
        return pair_scores


def _side(evidence: Evidence, error: CoverageError) -> SideEvidence:
    """Return the evidence about the side in which an error is found."""
    return evidence.source if error == "omission" else evidence.target


@dataclass(frozen=True)
class _HeldOut:
    """A part of the training text that some aligners have not seen.

    Attributes:
        model: A model with these aligners.
        pairs: The pairs of the part.
        links: The links that the aligners find in them.
    """

    model: ErrorModel
    pairs: Sequence[WordPair]
    links: Sequence[Links]

    def some(self, rows: slice) -> "_HeldOut":
        """Return a part of this part."""
        return replace(self, pairs=self.pairs[rows], links=self.links[rows])

    def corrupted(self, kinds: tuple[Corruption, ...], seed: int) -> list[CorruptedPair]:
        """Return the pairs, half of them with one synthetic error."""
        return corrupt_pairs(self.pairs, self.links, CorruptionConfig(kinds=kinds, seed=seed))


def _examples(parts: Sequence[_HeldOut], error: CoverageError, seed: int) -> list[list[CorruptedPair]]:
    """Return for each part its pairs, pairs with one kind of error, and fewer with errors of other kinds."""
    kinds, size = _KINDS[error], sum(len(part.pairs) for part in parts)
    # Errors of other kinds are negative examples, so that the regression separates the kinds.
    others: tuple[Corruption, ...] = tuple(kind for kind in _SINGLE if kind not in kinds)
    # Several errors in the same pair are cheaper than more pairs, which the aligner could not learn from.
    rounds = max(_ROUNDS[error], -(-_MIN_EXAMPLES // size))
    return [
        [example for number in range(rounds) for example in part.corrupted(kinds, 1_000 * seed + number)]
        + part.some(slice(len(part.pairs) // 2)).corrupted(others, seed)
        for part in parts
    ]


def _fit_sentences(
    rows: np.ndarray, examples: Sequence[CorruptedPair], kinds: tuple[Corruption, ...]
) -> LogisticRegression:
    """Return the regression of some kinds of errors, calibrated for the assumed share of errors."""
    present = np.array([example.kind in kinds for example in examples])
    # The share of errors among the examples is far above that of a text, in which others are doubtful.
    share = np.clip(present.mean(), 1e-3, 1 - 1e-3)
    weights = np.where(present, _ERROR_RATE / share, (1 - _ERROR_RATE) / (1 - share))
    return LogisticRegression.fit(rows, present, weights)


def _num_word_pairs(num_pairs: int) -> int:
    """Return the number of pairs of the first held-out part that are not used for calibration alone."""
    return num_pairs - min(num_pairs // 2, _MAX_CALIBRATION_PAIRS)


@register_detector("combined")
class CombinedDetector(Detector):
    """Calibrated probabilities of all errors, from alignment, length and repetition together."""

    needs_model = True

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the probabilities of each pair."""
        assert self.model is not None
        return self.model.scores(pairs, self.num_threads)
