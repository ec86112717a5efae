"""A model of good translations, which gives the probabilities of errors in others.

It consists of a word aligner and an aligner of stems (or a multilingual encoder), the norms of their links in
good translations, a model of the length, and classifiers that are fitted to synthetic errors in text that the
aligners were not trained on: small neural networks for omissions and additions, logistic regressions for
repetitions. Logistic regressions calibrate the probabilities of sentences, on pairs that are used only for
this.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from regard.alignment import TrainingSetup
from regard.analysis.inputs import Progress, no_progress
from regard.errors import DataError
from regard.extensions.check.base import (
    ERRORS,
    TAGGED,
    CoverageError,
    PairScores,
    SentenceError,
    WordPair,
    blocks,
    training_pairs,
)
from regard.extensions.check.classifiers import ErrorTagger, LogisticRegression, fit_tagger
from regard.extensions.check.corruptions import (
    CorruptedPair,
    Corruption,
    CorruptionConfig,
    corrupt_pairs,
    with_unknown_words,
    word_labels,
)
from regard.extensions.check.critical import COUNTED, CriticalWords, largest_probabilities
from regard.extensions.check.evidence import Evidence, LinkModel, SideEvidence
from regard.extensions.check.features import (
    repetition_features,
    repetition_sentence_features,
    room_features,
    sentence_features,
    word_features,
)
from regard.extensions.check.posteriors import EncoderAligner, TextLinker, TextWords
from regard.extensions.check.surface import LengthModel, doubled_words, num_characters
from regard.text.links import Links

STEM_LENGTH = 4
"""Number of characters of a stem. Rare words share their first characters with others."""
_MIN_PAIRS = 100
_HELD_OUT = 0.15  # share of the training text that the aligners do not see
_MIN_HELD_OUT, _MAX_HELD_OUT = 600, 6_000  # pairs; at most a third of a small text
_MAX_ENCODED = 2_000  # pairs of the training text with an encoder, which is slow and learns nothing from them
_ERROR_RATE = 0.05  # share of sentences with each kind of error, for which probabilities are calibrated
_SEED = 1  # of the aligners and of the synthetic errors
_MAX_CALIBRATION_PAIRS = 2_000  # of the held-out ones, at most a half of them
_ROUNDS = 5  # synthetic errors of each held-out pair
_MIN_EXAMPLES = 3_000
_SPANS = 5, 5, 20  # maximum numbers of words of a span of an error, in turn
_UNKNOWN = 0.3, 0.1  # share of the examples with unknown words, and the mean share of these words
_UNKNOWN_UNRELATED = 0.8, 0.4  # the same for unrelated translations
_KINDS: Mapping[CoverageError, tuple[Corruption, ...]] = {
    "omission": ("deletion", "truncation"),
    "addition": ("insertion",),
    "repetition": ("repetition",),
}
"""The synthetic errors of each kind of coverage error."""
_MIXTURE: tuple[Corruption, ...] = (
    "deletion",
    "deletion",
    "truncation",
    "insertion",
    "insertion",
    "repetition",
)
_MIXTURE_RATE = 0.75  # share of the examples with an error
_NEVER = LogisticRegression(np.zeros(0), -30.0)


def num_held_out(num_pairs: int) -> int:
    """Return the number of pairs of a training text that its aligners do not see."""
    # A small text still needs enough of them for examples of each error.
    least = max(min(num_pairs // 3, _MIN_HELD_OUT), _MIN_PAIRS // 2)
    return min(max(round(num_pairs * _HELD_OUT), least), _MAX_HELD_OUT)


@dataclass(frozen=True)
class ErrorModel:
    """A model of good translations.

    Attributes:
        links: The links of words and of stems, or those of an encoder.
        length: The model of the length.
        doubled: Words that good translations double.
        critical: Numbers, names and negations, and how often good translations lose them.
        taggers: The networks that give the log-odds of omissions and additions.
        repeated: The regression that gives the log-odds that a word is repeated.
        sentences: For each error, the regression that gives the log-odds of a sentence.
        unrelated: The regression that gives the log-odds that the translation is that of another sentence.
    """

    links: tuple[LinkModel, ...]
    length: LengthModel
    doubled: frozenset[str]
    critical: CriticalWords
    taggers: Mapping[CoverageError, ErrorTagger]
    repeated: LogisticRegression
    sentences: Mapping[CoverageError, LogisticRegression]
    unrelated: LogisticRegression

    @property
    def aligner(self) -> TextLinker:
        """The aligner of words, or the encoder."""
        return self.links[0].aligner

    @property
    def is_multilingual(self) -> bool:
        """Whether the links are those of an encoder, so that the model is of no language pair."""
        return not len(self.aligner.vocabularies[0])

    @classmethod
    def train(
        cls,
        pairs: Sequence[WordPair],
        num_threads: int = 0,
        encoder: Any = None,
        progress: Progress = no_progress,
    ) -> Self:
        """Train a model on good translations.

        Args:
            pairs: The translations. Pairs with an empty side, and those that are too long, are ignored.
            num_threads: Number of threads of the aligner; 0 uses all processors. It has no effect on the
                result.
            encoder: The hook `text_encoder`, whose links replace those of aligners.
            progress: Progress display of the training of classifiers.

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
        order = np.random.default_rng(_SEED).permutation(len(usable))
        rows = order[: _MAX_ENCODED if encoder else num_held_out(len(usable))]
        held_out = [usable[i] for i in rows]
        # The order is that of the text, from which samples are evenly spaced pairs.
        training = [usable[i] for i in np.setdiff1d(np.arange(len(usable)), rows)]
        # Classifiers of words and norms are too confident on their own examples, so that probabilities are
        # calibrated with other pairs.
        num_words = len(held_out) - min(len(held_out) // 2, _MAX_CALIBRATION_PAIRS)
        parts = held_out[:num_words], held_out[num_words:]
        if encoder:
            links = (LinkModel.estimate(EncoderAligner(encoder), (), parts[0], num_threads),)
            length, critical = LengthModel.fit(num_characters(held_out)), CriticalWords.untrained()
        else:
            links = tuple(LinkModel.train(training, parts[0], setup, size) for size in (None, STEM_LENGTH))
            length, critical = LengthModel.fit(num_characters(training)), CriticalWords.estimate(training)
        model = cls(links, length, doubled_words(training), critical, {}, _NEVER, {}, _NEVER)
        model = model._fit_words(parts[0], num_threads, progress)
        return model._fit_sentences(parts[1], num_threads)

    def _fit_words(self, pairs: Sequence[WordPair], num_threads: int, progress: Progress) -> Self:
        """Return the model with classifiers of words, which are fitted to synthetic errors in the pairs."""
        # Replaced words are examples of omitted and added words, but such a sentence has neither error.
        examples = self._with_unknown_words(
            self._examples(pairs, (*_MIXTURE, "replacement"), _ROUNDS, _SEED, num_threads), _UNKNOWN, _SEED
        )
        tables: dict[CoverageError, list[np.ndarray]] = {error: [] for error in ERRORS}
        for views, _ in self._blocks([example.pair for example in examples], num_threads):
            for error, table in tables.items():
                # Half the memory of float32, with more digits than the classifiers need.
                table.append(self._word_table(views, error).astype(np.float16))
        taggers = {}
        for number, error in enumerate(TAGGED):
            sides = [e.pair.source if error == "omission" else e.pair.target for e in examples]
            offsets = np.cumsum([0, *map(len, sides)])
            labels = word_labels(examples, error), np.array([e.kind in _KINDS[error] for e in examples])
            # Without a name, the features of an error do not stay in memory for the next one.
            taggers[error] = fit_tagger(
                np.concatenate(tables.pop(error)), offsets, labels, _SEED + number, progress
            )
        repeated = LogisticRegression.fit(
            np.concatenate(tables["repetition"], dtype=np.float64), word_labels(examples, "repetition")
        )
        return replace(self, taggers=taggers, repeated=repeated)

    def _fit_sentences(self, pairs: Sequence[WordPair], num_threads: int) -> Self:
        """Return the model with regressions of sentences, calibrated with synthetic errors in the pairs."""
        seed = _SEED + 1
        unchanged = [CorruptedPair(pair) for pair in pairs]
        examples = self._with_unknown_words(
            unchanged + self._examples(pairs, _MIXTURE, 2, seed, num_threads), _UNKNOWN, seed
        )
        kinds = np.array([example.kind or "" for example in examples])
        groups = [kinds == "", *(np.isin(kinds, names) for names in _KINDS.values())]
        tables: dict[CoverageError, list[np.ndarray]] = {error: [] for error in ERRORS}
        for views, _ in self._blocks([example.pair for example in examples], num_threads):
            for error, table in tables.items():
                table.append(self._logits(views, error)[1])
        sentences = {
            error: _fit_calibrated(np.concatenate(table), group, groups)
            for (error, table), group in zip(tables.items(), groups[1:], strict=True)
        }
        examples = unchanged * 2 + self._examples(pairs, ("unrelated",), 1, seed, num_threads)
        # With more unknown words: they must not make a sentence look like the translation of another one.
        examples = self._with_unknown_words(examples, _UNKNOWN_UNRELATED, seed)
        rows = [
            self._unrelated_table(views[0], {error: self._logits(views, error)[0] for error in TAGGED})
            for views, _ in self._blocks([example.pair for example in examples], num_threads)
        ]
        present = np.array([example.kind == "unrelated" for example in examples])
        unrelated = _fit_calibrated(np.concatenate(rows), present, (~present, present))
        return replace(self, sentences=sentences, unrelated=unrelated)

    def _examples(
        self,
        pairs: Sequence[WordPair],
        kinds: tuple[Corruption, ...],
        rounds: int,
        seed: int,
        num_threads: int,
    ) -> list[CorruptedPair]:
        """Return copies of the pairs, most of them with a synthetic error; more copies of few pairs."""
        links: list[Links] = []
        for block in blocks(pairs):
            links += self.aligner.posteriors(TextWords.of(block), num_threads).best_links()
        examples: list[CorruptedPair] = []
        for number in range(max(rounds, -(-_MIN_EXAMPLES * rounds // (_ROUNDS * len(pairs))))):
            span = _SPANS[number % len(_SPANS)]
            config = CorruptionConfig(
                kinds=kinds, rate=_MIXTURE_RATE, max_span=span, seed=1_000 * seed + number
            )
            examples += corrupt_pairs(pairs, links, config)
        return examples

    def _with_unknown_words(
        self, examples: Sequence[CorruptedPair], shares: tuple[float, float], seed: int
    ) -> Sequence[CorruptedPair]:
        """Return the examples, with some words unknown to aligners. An encoder has no unknown words."""
        return examples if self.is_multilingual else with_unknown_words(examples, *shares, seed)

    def _blocks(
        self, pairs: Sequence[WordPair], num_threads: int
    ) -> Iterator[tuple[Sequence[Evidence], Sequence[WordPair]]]:
        """Yield the evidence of words and of stems of the pairs, in blocks."""
        for block in blocks(pairs):
            words = TextWords.of(block)
            yield [model.collect(words, num_threads) for model in self.links], block

    def _logits(self, views: Sequence[Evidence], error: CoverageError) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-odds of an error of the words, and the features of the sentences, [P, F]."""
        evidence, features = views[0], self._word_table(views, error)
        excess = self.length.excess(evidence.table.words.lengths)
        if error in TAGGED:
            words, sentences = self.taggers[error].logits(features, _side(evidence, error).offsets)
            return words, np.stack([sentences, np.maximum(excess, 0), np.maximum(-excess, 0)], axis=1)
        words = self.repeated.logits(features)
        return words, repetition_sentence_features(evidence.table, features, words, excess, self.doubled)

    def _word_table(self, views: Sequence[Evidence], error: CoverageError) -> np.ndarray:
        """Return the features of all words of the side in which an error is found."""
        lengths = views[0].table.words.lengths
        if error not in TAGGED:
            return repetition_features(views[0].table, views[0].target, self.doubled)
        excess, number = self.length.excess(lengths), TAGGED.index(error)
        ratio = self.length.ratio(lengths) ** (1 if error == "omission" else -1)
        tables = [
            word_features(_side(evidence, error), model.norms[number], excess)
            for evidence, model in zip(views, self.links, strict=True)
        ]
        return np.concatenate(
            [*tables, room_features(_side(views[0], error), ratio)], axis=1, dtype=np.float32
        )

    def _unrelated_table(self, evidence: Evidence, logits: Mapping[CoverageError, np.ndarray]) -> np.ndarray:
        """Return the features of both sides, or the similarity by an encoder, which suffices for any text."""
        if evidence.table.similarity is not None:
            return evidence.table.similarity[:, None]
        excess = self.length.excess(evidence.table.words.lengths)
        sides = [sentence_features(_side(evidence, error), logits[error], excess) for error in TAGGED]
        return np.concatenate(sides, axis=1)

    def scores(self, pairs: Sequence[WordPair], num_threads: int = 0) -> list[PairScores]:
        """Return the probabilities of each error, of words and of sentences.

        Args:
            pairs: The pairs. They are processed in blocks, which bound the memory.
            num_threads: Number of threads of the aligners; 0 uses all processors.
        """
        return [
            scores
            for views, block in self._blocks(pairs, num_threads)
            for scores in self._block_scores(views, block)
        ]

    def _block_scores(self, views: Sequence[Evidence], pairs: Sequence[WordPair]) -> list[PairScores]:
        evidence = views[0]
        logits: dict[CoverageError, np.ndarray] = {}
        sentence, words = {}, {}
        for error in ERRORS:
            logits[error], rows = self._logits(views, error)
            sentence[error] = self.sentences[error].probabilities(rows)
            words[error] = 1 / (1 + np.exp(-logits[error]))
        unrelated = self.unrelated.probabilities(self._unrelated_table(evidence, logits))
        for error in TAGGED:
            # These are errors of a translation that is related to its source.
            sentence[error] *= 1 - unrelated
            words[error] *= 1 - unrelated[_side(evidence, error).sentence]
        split = {
            # `np.split` expects the inner boundaries only.
            error: np.split(values.astype(np.float32), _side(evidence, error).offsets[1:-1])
            for error, values in words.items()
        }
        pair_scores = []
        by_error: dict[SentenceError, float]
        each: dict[CoverageError, np.ndarray]
        for number, pair in enumerate(pairs):
            # The regressions are fitted to translations with words, so this case needs a rule.
            if pair.source and not pair.target:
                by_error = {"omission": 1.0, "addition": 0.0, "repetition": 0.0, "unrelated": 0.0}
                nothing = np.empty(0)
                each = {"omission": np.ones(len(pair.source)), "addition": nothing, "repetition": nothing}
                pair_scores.append(PairScores(by_error | largest_probabilities((), COUNTED), each))
                continue
            by_error = {error: float(sentence[error][number]) for error in ERRORS}
            by_error["unrelated"] = float(unrelated[number])
            each = {error: split[error][number] for error in ERRORS}
            mismatches = self.critical.mismatches(pair)
            pair_scores.append(
                PairScores(by_error | largest_probabilities(mismatches, COUNTED), each, mismatches)
            )
        return pair_scores


def _side(evidence: Evidence, error: CoverageError) -> SideEvidence:
    """Return the evidence about the side in which an error is found."""
    return evidence.source if error == "omission" else evidence.target


def _fit_calibrated(
    rows: np.ndarray, present: np.ndarray, groups: Sequence[np.ndarray]
) -> LogisticRegression:
    """Return the regression of an error, calibrated for the assumed share of each error.

    Args:
        rows: The features of the examples, [N, F].
        present: Whether each one has the error, [N].
        groups: For good translations, then for each error: whether each example is one, [N].
    """
    # The shares of errors among the examples are far above those of a text, in which others are doubtful.
    good = 1 - _ERROR_RATE * (len(groups) - 1)
    shares = [good] + [_ERROR_RATE] * (len(groups) - 1)
    weights = np.zeros(len(rows))
    for share, group in zip(shares, groups, strict=True):
        weights += share / max(group.mean(), 1e-3) * group
    return LogisticRegression.fit(rows, present, weights)
