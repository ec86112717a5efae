"""Phrase-based search compared with brute force over all segmentations, translations and orders."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_table import EXACT, lookup, toy_decoder

from regard.extensions.smt.decoder import COPIED, PhraseDecoder, SearchLimits
from regard.extensions.smt.translation_options import NUM_FEATURES, collect_options, future_costs
from regard.extensions.smt.trie import stable_argsort

LN10 = np.log(10)


def segmentations(n: int, longest: int) -> list[list[tuple[int, int]]]:
    """Return all ways to split n words into phrases of at most `longest` words."""
    if n == 0:
        return [[]]
    return [
        [*before, (n - size, n)]
        for size in range(1, min(longest, n) + 1)
        for before in segmentations(n - size, longest)
    ]


def allowed(spans: tuple[tuple[int, int], ...], limit: int) -> bool:
    """Return whether the order of the phrases respects the distortion limit.

    A jump must not exceed the limit. A phrase after a gap must end within the limit of the gap.
    """
    covered: set[int] = set()
    last = 0
    for start, end in spans:
        gap = next(i for i in itertools.count() if i not in covered)
        if abs(start - last) > limit or (start != gap and end - gap > limit):
            return False
        covered |= set(range(start, end))
        last = end
    return True


def choices(decoder: PhraseDecoder, source: list[int], span: tuple[int, int]) -> list[int | None]:
    """Return the phrase pairs for a span; None stands for a copied unknown word."""
    found: list[int | None] = list(lookup(decoder.table, source[slice(*span)]))
    return [None] if not found and span[1] - span[0] == 1 else found


def features(
    decoder: PhraseDecoder,
    source: list[int],
    spans: tuple[tuple[int, int], ...],
    entries: tuple[int | None, ...],
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the features and the words of one derivation, summed without caching."""
    table, model = decoder.table, decoder.language_model
    found, words, first, last = np.zeros(NUM_FEATURES), [], 0, 0
    third = [np.log(1 / 3)] * 6
    rows = [third if entry is None else table.reordering[entry].tolist() for entry in entries]
    for place, ((start, end), entry) in enumerate(zip(spans, entries, strict=True)):
        phrase = [COPIED] if entry is None else table.target(entry).tolist()
        words += phrase
        found[1] -= len(phrase)
        found[2] -= 1
        found[3] += entry is None
        found[4] -= abs(start - last)
        if entry is not None:
            found[5:9] += table.scores[entry]
        kind = 0 if start == last else 1 if end == first else 2
        found[9 + kind] += rows[place][kind]
        if place:
            found[12 + kind] += rows[place - 1][3 + kind]
        first, last = start, end
    kind = 0 if last == len(source) else 2
    found[12 + kind] += rows[-1][3 + kind]
    spelling = ["<unk>" if word == COPIED else model.vocabulary[decoder.language_ids[word]] for word in words]
    found[0] = sum(model.score(spelling)) * LN10
    return found, tuple(words)


def derivations(decoder: PhraseDecoder, source: list[int]) -> dict[tuple[int, ...], float]:
    """Return the best score of each translation."""
    best: dict[tuple[int, ...], float] = {}
    for cut in segmentations(len(source), decoder.table.trie.order):
        options = {span: choices(decoder, source, span) for span in cut}
        for spans in itertools.permutations(cut):
            if not allowed(spans, decoder.limits.distortion_limit):
                continue
            for entries in itertools.product(*(options[span] for span in spans)):
                found, words = features(decoder, source, spans, entries)
                if not decoder.lexicalized:
                    found[9:] = 0
                best[words] = max(best.get(words, -np.inf), float(found @ decoder.weights))
    return best


@pytest.mark.parametrize("limit", [0, 2, 60])
@pytest.mark.parametrize("lexicalized", [True, False])
def test_unlimited_stacks_equal_brute_force(limit: int, lexicalized: bool) -> None:
    for seed in (1, 2, 3):
        decoder, corpus = toy_decoder(seed, replace(EXACT, distortion_limit=limit), lexicalized)
        source = [*corpus.source.sentence(seed).tolist()[:3], -1][-3 if limit == 60 else -4 :]
        expected = derivations(decoder, source)
        ranked = sorted(expected.values(), reverse=True)
        found = decoder.translate([source], num_return=5)[0]
        assert [one.score for one in found] == pytest.approx(ranked[: len(found)], abs=1e-5)
        assert len(found) == min(5, len(ranked))
        assert len({one.words for one in found}) == len(found)
        for one in found:
            assert one.score == pytest.approx(expected[one.words], abs=1e-5)


def test_every_source_word_is_covered_exactly_once_and_the_score_is_features_times_weights() -> None:
    decoder, corpus = toy_decoder(5, SearchLimits(stack_size=5, distortion_limit=3))
    words = corpus.source.tokens.tolist()
    # Unknown words, and a sentence with more words than a machine word has bits.
    sources = [[], words[:17], [-1, *words[:5], -1], (words * 9)[:150], [-1]]
    for source, several in zip(sources, decoder.translate(sources, num_return=3), strict=True):
        assert bool(several) == bool(source)  # an empty sentence has no translation
        for found in several:
            covered = sorted(i for phrase in found.phrases for i in range(phrase.start, phrase.end))
            assert covered == list(range(len(source)))
            assert found.score == pytest.approx(float(found.features @ decoder.weights), abs=1e-6)
            for phrase in found.phrases:
                if phrase.words == (COPIED,):
                    assert phrase.end - phrase.start == 1
                assert all(phrase.start <= i < phrase.end and j < len(phrase.words) for i, j in phrase.links)


def test_future_cost_is_the_best_segmentation_of_a_span() -> None:
    decoder, corpus = toy_decoder(12)
    source = corpus.source.tokens[:7].astype(np.int64)
    options = collect_options(source, decoder.scoring, decoder.table.trie.order, 20)
    future = future_costs(options)
    for i, j in itertools.combinations(range(8), 2):
        ways = []
        for cut in segmentations(j - i, decoder.table.trie.order):
            best = 0.0
            for start, end in cut:
                first, count = options.spans[i + start, end - start - 1]
                best += options.estimates[first : first + count].max() if count else -np.inf
            ways.append(best)
        assert future[i, j] == pytest.approx(max(ways))


# Few distinct values, so that equal keys are frequent.
@given(st.lists(st.sampled_from([-np.inf, -1.5, 0.0, 1e-300, 2.0, 3.0, np.inf]), max_size=150))
def test_order_equals_the_stable_order_of_numpy(keys) -> None:
    keys = np.array(keys, dtype=np.float64)
    np.testing.assert_array_equal(stable_argsort(keys), np.argsort(keys, kind="stable"))
