"""IBM Models 3 and 4 (Brown et al., 1993): each source word has a fertility, its number of target words.

    p(t, a | s) = binomial(n - f_0, f_0) p_1^f_0 (1 - p_1)^(n - 2 f_0) prod_i p(f_i | s_i)
                  prod_j p(t_j | s_{a_j}) D
    Model 3: D = prod_i f_i! prod_{j: a_j > 0} d(j - diagonal(a_j))
    Model 4: D = prod_i d_1(j_1 - center_i') d_>1(j_2 - j_1) d_>1(j_3 - j_2) ...

f_i words are linked to source word i, and f_0 to the null word. In Model 4, j_1, j_2, ... are the positions
of the cept of source word i, its target words in order; therefore there is no factor f_i!. The first word of
a cept, the head, is displaced from the center of the cept i' before it, the mean of its positions rounded up.
Every other word is displaced from the word before it in the cept. Displacements beyond the sentence have a
probability too, so both models are deficient.

The sum over alignments is intractable. Training counts fertilities and displacements in the best alignment
(Viterbi training), and translations by the probability of each link given the other links of the best one.
Hill climbing starts from the Viterbi path of the HMM, which is trained first, and applies the best change, a
move of one link or a swap of two, until none has a gain.

In contrast to the paper, the displacement of Model 3 is the distance from the diagonal, those of Model 4 do
not depend on classes of words, and hill climbing compares alignments by Model 4 itself, not by Model 3.
Displacements are interpolated with a uniform distribution, and a word's fertility distribution is smoothed
with that of the whole text. The null probability is not learned.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from regard.alignment.base import TrainingSetup, register_aligner
from regard.alignment.bayes_sampler import FERTILITY_ALPHA
from regard.alignment.corpus import Corpus
from regard.alignment.em import (
    MAX_STORED_PROBABILITY,
    Block,
    EMAligner,
    TranslationTable,
    alpha_option,
    train_passes,
)
from regard.alignment.hmm import JUMPS_FORM, HMMAligner, HMMConfig, emissions
from regard.alignment.word_aligner import count_fertilities
from regard.config import configclass, option
from regard.kernels.compilation import njit
from regard.text.array_files import MAX_COUNT, check_arrays

MAX_FERTILITY = 9
"""Maximum number of links of a source word without a penalty."""
MAX_DISPLACEMENT = 30
"""Maximum displacement; larger ones are clipped to it."""
NUM_HEADS = 2 * MAX_DISPLACEMENT + 1
NUM_DISPLACEMENTS = NUM_HEADS + MAX_DISPLACEMENT
"""The number of displacements of all words (Model 3) or heads, and of these and other words together."""
EXCESS_LOG_PROB = -30.0
"""Log-probability of each link beyond `MAX_FERTILITY`."""
MIN_GAIN = 1e-6
"""Smaller gains of a change are ignored, so that rounding cannot cause cycles."""


@configclass
class _FertilityConfig:
    """The options of Models 3 and 4."""

    iterations: int = option(default=5, help="Number of passes over the text.", ge=1, le=10_000)
    hmm_iterations: int = option(
        default=5, help="Number of passes with the HMM before this model.", ge=1, le=10_000
    )
    null_probability: float = option(
        default=0.05,
        help="Probability that a target word is followed by an extra one without a source word (p_1).",
        gt=0,
        lt=1,
    )
    smoothing: float = option(default=0.2, help="Interpolation weight of the uniform distortion.", gt=0, le=1)
    alpha: float = alpha_option(0.01)


@configclass
class IBM3Config(_FertilityConfig):
    """IBM Model 3."""

    kind: Literal["ibm3"] = option(default="ibm3", help="IBM Model 3, with fertilities.")


@configclass
class IBM4Config(_FertilityConfig):
    """IBM Model 4."""

    kind: Literal["ibm4"] = option(
        default="ibm4", help="IBM Model 4, with fertilities and the distortion of cepts."
    )


class _Parameters(NamedTuple):
    """The parameters of Model 3 or 4.

    Attributes:
        values: float32, the probability of each entry of the translation table.
        nulls: float32, its row of the null word.
        fertilities: float32 [source words + 1, MAX_FERTILITY + 1]; see `FertilityAligner`.
        displacements: float64, the log-probability of each displacement; see `FertilityAligner`.
        null: p_1.
        cepts: Whether this is Model 4.
    """

    values: np.ndarray
    nulls: np.ndarray
    fertilities: np.ndarray
    displacements: np.ndarray
    null: float
    cepts: bool


@dataclass(eq=False, repr=False)
class FertilityAligner(EMAligner):
    """A trained Model 3 or 4.

    Attributes:
        table: The translation table.
        jumps: The jump probabilities of the HMM.
        config: The configuration.
        fertilities: float32 [source words + 1, 10]: the probability of each fertility. The last row is for
            unknown words, the last column for fertilities of 9 and more.
        displacements: float64 [91]: the counts of displacements of -30 to 30 words of all words (Model 3) or
            of heads, then of displacements of 1 to 30 words of the words that are not heads.
        cepts: Whether this is Model 4.
    """

    cepts: ClassVar[bool]

    table: TranslationTable
    jumps: np.ndarray
    config: IBM3Config | IBM4Config
    fertilities: np.ndarray
    displacements: np.ndarray

    @classmethod
    def train(cls, corpus: Corpus, config: Any, setup: TrainingSetup) -> Self:
        """Train the model, after the HMM."""
        first = HMMConfig(iterations=config.hmm_iterations, alpha=config.alpha, decoding="viterbi")
        hmm = HMMAligner.train(corpus, first, setup)
        model = cls(hmm.table, hmm.jumps, config, np.empty(0), np.empty(0))
        model._update(model.count(corpus, hmm.align(corpus, setup.num_threads)))
        for _, sums in train_passes(corpus, model, setup, config.kind):
            model._update(sums[2:])
        return model

    def count(self, corpus: Corpus, links: np.ndarray) -> np.ndarray:
        """Return the number of each displacement, then of each fertility of each word, in links of a text."""
        totals = np.zeros((len(corpus.source.words) + 1, MAX_FERTILITY + 1))
        fertilities = np.minimum(count_fertilities(corpus, links), MAX_FERTILITY)
        np.add.at(totals, (corpus.source.sentence_tokens, fertilities), 1)
        return np.concatenate([count_displacements(corpus.layout(), links, self.cepts), totals.ravel()])

    def _update(self, counts: np.ndarray) -> None:
        """Set the fertilities and displacements from the counts that `count` returns."""
        self.displacements, totals = np.split(counts, [NUM_DISPLACEMENTS])
        totals = totals.reshape(-1, MAX_FERTILITY + 1)
        # A small count for every fertility, so that unseen ones are possible. The last row is for unknown
        # words; for all others, that of the whole text is the prior.
        text = totals.sum(0) + 0.1
        text /= text.sum()
        totals = totals + FERTILITY_ALPHA * text
        totals[-1] = text
        self.fertilities = (totals / totals.sum(1, keepdims=True)).astype(np.float32)

    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Compute the links with hill climbing; see `EMAligner.best`."""
        self._climb(block, links, *block.buffers(), threads)

    def expect(
        self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int, with_sums: bool = True
    ) -> np.ndarray:
        """Run hill climbing; return the log-probability of the best links, null words, and their counts."""
        links = np.empty(len(null), dtype=np.int32)
        sums = self._climb(block, links, posteriors, null, threads)
        return np.concatenate([sums, self.count(block.corpus, links)]) if with_sums else sums

    def _climb(
        self, block: Block, links: np.ndarray, posteriors: np.ndarray, null: np.ndarray, threads: int
    ) -> np.ndarray:
        """Write the best links and the posteriors given them; see `climb_links`."""
        HMMAligner(self.table, self.jumps, HMMConfig(decoding="viterbi")).best(block, links, threads)
        smoothing, displacements = self.config.smoothing, []
        for counts in np.split(self.displacements, [NUM_HEADS]):
            shares = counts / max(1, counts.sum())
            displacements.append(np.log((1 - smoothing) * shares + smoothing / len(counts)))
        learned = self.table.values, self.table.nulls, self.fertilities, np.concatenate(displacements)
        parameters = _Parameters(*learned, self.config.null_probability, self.cepts)
        return block.run(climb_links, threads, parameters, links, posteriors, null)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays; see `DirectionAligner.arrays`."""
        learned = {name: getattr(self, name) for name in ("jumps", "fertilities", "displacements")}
        return self.table.arrays() | learned

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], config: Any, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.load`."""
        forms = {
            "jumps": JUMPS_FORM,
            "fertilities": ("float32", 0, MAX_STORED_PROBABILITY, sizes[0] + 1, MAX_FERTILITY + 1),
            "displacements": ("float64", 0, MAX_COUNT, NUM_DISPLACEMENTS),
        }
        learned = {name: arrays[name] for name in forms}
        check_arrays(learned, forms)
        return cls(TranslationTable.load(arrays, sizes), config=config, **learned)


@register_aligner("ibm3", IBM3Config)
class IBM3Aligner(FertilityAligner):
    """A trained Model 3."""

    max_length = 500  # each step of hill climbing compares O(n^2) alignments
    cepts = False


@register_aligner("ibm4", IBM4Config)
class IBM4Aligner(FertilityAligner):
    """A trained Model 4."""

    max_length = 200  # the same, each in time O(n)
    cepts = True


class _Pair(NamedTuple):
    """The scores of a pair, and its alignment.

    Attributes:
        link_scores: float64 [n, m + 1], the log-probability of each link, of translation and, in Model 3, of
            displacement. Column m is that of the null word.
        fertility_scores: float64 [m + 1, n + 2], the log-probability of each number of links.
        links: int64 [n], the source position of each target word, m for null.
        sizes: int64 [m + 1], the number of links of each source position.
    """

    link_scores: np.ndarray
    fertility_scores: np.ndarray
    links: np.ndarray
    sizes: np.ndarray


@njit(nogil=True, cache=True)
def _clipped(displacement):
    """Return the index of a displacement."""
    return MAX_DISPLACEMENT + max(-MAX_DISPLACEMENT, min(MAX_DISPLACEMENT, displacement))


@njit(nogil=True, cache=True)
def _from_diagonal(j, i, m, n):
    """Return the index of the distance of target position j from the diagonal position of source word i."""
    return _clipped(j - ((2 * i + 1) * n) // (2 * m))


@njit(nogil=True, cache=True)
def _score(row, layout, learned, out):
    """Return a pair with its links (-1: null)."""
    m, n = layout.source_lengths[row], layout.target_lengths[row]
    links, sizes = np.empty(n, np.int64), np.zeros(m + 1, np.int64)
    scores, fertility_scores = np.empty((n, m + 1)), np.empty((m + 1, n + 2))
    emissions(row, layout, learned.values, learned.nulls, scores, scores[:, m])
    for j in range(n):
        links[j] = out[j] if out[j] >= 0 else m
        sizes[links[j]] += 1
        for i in range(m + 1):
            scores[j, i] = math.log(scores[j, i])
            if i < m and not learned.cepts:
                scores[j, i] += learned.displacements[_from_diagonal(j, i, m, n)]
    for f in range(n + 2):
        excess = EXCESS_LOG_PROB * max(0, f - MAX_FERTILITY)
        # In Model 3, the words of a source word are placed in any order.
        orders = 0.0 if learned.cepts else math.lgamma(f + 1)
        for i in range(m):
            word = layout.source[layout.source_starts[row] + i]
            share = learned.fertilities[max(-1, word), min(f, MAX_FERTILITY)]
            fertility_scores[i, f] = math.log(share) + orders + excess
        # Each null word needs a word that is not null: 2 f_0 <= n.
        fertility_scores[m, f] = fertility_scores[m, f - 1] + EXCESS_LOG_PROB if f else 0.0
        if 2 * f <= n:
            choices = math.lgamma(n - f + 1) - math.lgamma(f + 1) - math.lgamma(n - 2 * f + 1)
            null_score = f * math.log(learned.null) + (n - 2 * f) * math.log(1 - learned.null)
            fertility_scores[m, f] = choices + null_score
    return _Pair(scores, fertility_scores, links, sizes)


@njit(nogil=True, cache=True)
def _displacements(links, m):
    """Return the index of each word's displacement in Model 4, -1 for null (a link of -1 or m)."""
    steps = np.full(len(links), -1)
    size, total, first, last = np.zeros((4, m), np.int64)
    for j in range(len(links)):
        i = links[j]
        if not 0 <= i < m:
            continue
        if size[i] == 0:
            first[i] = j
        else:
            steps[j] = NUM_HEADS + min(MAX_DISPLACEMENT, j - last[i]) - 1
        size[i] += 1
        total[i] += j
        last[i] = j
    center = -1  # the position before the sentence
    for i in range(m):
        if size[i]:
            steps[first[i]] = _clipped(first[i] - center)
            center = -(-total[i] // size[i])
    return steps


@njit(nogil=True, cache=True)
def _distortion(links, displacements, m):
    """Return the log-probability of the displacements of Model 4. Those of Model 3 are in `link_scores`."""
    score = 0.0
    for step in _displacements(links, m):
        if step >= 0:
            score += displacements[step]
    return score


@njit(nogil=True, cache=True)
def _climb(pair, cepts, displacements, gains):
    """Apply the best move or swap until none has a gain; `gains` [n, m + 1] are those of the last moves."""
    scores, fertility_scores, links, sizes = pair
    m = len(sizes) - 1
    while True:
        base = _distortion(links, displacements, m) if cepts else 0.0
        most, word, source, swapped = MIN_GAIN, -1, -1, -1
        for j in range(len(links)):
            old = links[j]
            loss = scores[j, old] + fertility_scores[old, sizes[old]] - fertility_scores[old, sizes[old] - 1]
            for i in range(m + 1):
                gain = fertility_scores[i, sizes[i] + 1] - fertility_scores[i, sizes[i]] + scores[j, i] - loss
                if cepts:
                    links[j] = i
                    gain += _distortion(links, displacements, m) - base
                gains[j, i] = gain if i != old else 0.0
                if gains[j, i] > most:
                    most, word, source, swapped = gain, j, i, -1
            for k in range(j):
                other = links[k]
                gain = scores[j, other] + scores[k, old] - scores[j, old] - scores[k, other]
                if cepts:
                    links[j], links[k] = other, old
                    gain += _distortion(links, displacements, m) - base
                    links[k] = other
                if gain > most:
                    most, word, source, swapped = gain, j, other, k
            links[j] = old
        if word < 0:
            return base
        if swapped >= 0:
            links[swapped] = links[word]
        else:
            sizes[links[word]] -= 1
            sizes[source] += 1
        links[word] = source


@njit(nogil=True, cache=True)
def climb_links(first_row, last_row, layout, learned, links, posteriors, null_posteriors):
    """Improve links by hill climbing, and compute the probability of each link given the others.

    The arguments are those of `em_kernels.expect_links`, with the parameters of the model, and the initial
    links (-1: null), which are overwritten with the best ones.

    Returns:
        The log-probability of the best links and the number of null words.
    """
    sums = np.zeros(2)
    for row in range(first_row, last_row):
        m, n, at = layout.source_lengths[row], layout.target_lengths[row], layout.offsets[row]
        pair = _score(row, layout, learned, links[at : at + n])
        gains = np.empty((n, m + 1))
        sums[0] += _climb(pair, learned.cepts, learned.displacements, gains)
        for i in range(m + 1):
            sums[0] += pair.fertility_scores[i, pair.sizes[i]]
        for j in range(n):
            links[at + j] = pair.links[j] if pair.links[j] < m else -1
            sums[0] += pair.link_scores[j, pair.links[j]]
            gains[j] = np.exp(gains[j])
            total = gains[j].sum()
            for i in range(m):
                posteriors[layout.cells[row] + i * n + j] = gains[j, i] / total
            null_posteriors[at + j] = gains[j, m] / total
            sums[1] += null_posteriors[at + j]
    return sums


@njit(nogil=True, cache=True)
def count_displacements(layout, links, cepts):
    """Return the number of each displacement in the links (-1: null) of a text."""
    counts = np.zeros(NUM_DISPLACEMENTS)
    for row in range(len(layout.source_lengths)):
        m, n, at = layout.source_lengths[row], layout.target_lengths[row], layout.offsets[row]
        steps = _displacements(links[at : at + n], m)
        for j in range(n):
            if links[at + j] >= 0:
                counts[steps[j] if cepts else _from_diagonal(j, links[at + j], m, n)] += 1
    return counts
