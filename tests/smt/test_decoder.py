"""Search against brute force: all ways to cut, translate and order a sentence."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from toy_table import EXACT, toy_decoder

from regard.smt.decoder import COPIED, Beam, Decoder
from regard.smt.features import FEATURES
from regard.smt.options import collect, future_costs

LN10 = np.log(10)


def segmentations(n: int, longest: int) -> list[list[tuple[int, int]]]:
    if n == 0:
        return [[]]
    return [
        [*before, (n - size, n)]
        for size in range(1, min(longest, n) + 1)
        for before in segmentations(n - size, longest)
    ]


def allowed(spans: tuple[tuple[int, int], ...], limit: int) -> bool:
    """No jump beyond the limit, and no phrase that ends so far after a gap."""
    covered: set[int] = set()
    last = 0
    for start, end in spans:
        gap = next(i for i in itertools.count() if i not in covered)
        if abs(start - last) > limit or (start != gap and end - gap > limit):
            return False
        covered |= set(range(start, end))
        last = end
    return True


def choices(decoder: Decoder, source: list[int], span: tuple[int, int]) -> list[int | None]:
    """The pairs for a span; none stands for a copied word."""
    found: list[int | None] = list(decoder.table.lookup(source[slice(*span)]))
    return [None] if not found and span[1] - span[0] == 1 else found


def features(
    decoder: Decoder, source: list[int], spans: tuple[tuple[int, int], ...], entries: tuple[int | None, ...]
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The features of one derivation, summed up plainly."""
    table, model = decoder.table, decoder.model
    found, words, first, last = np.zeros(FEATURES), [], 0, 0
    third = [np.log(1 / 3)] * 6
    rows = [third if entry is None else table.reordering[entry].tolist() for entry in entries]
    for place, ((start, end), entry) in enumerate(zip(spans, entries, strict=True)):
        said = [COPIED] if entry is None else table.target(entry).tolist()
        words += said
        found[1] -= len(said)
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
    spelling = ["<unk>" if word == COPIED else model.spelling[decoder.language_ids[word]] for word in words]
    found[0] = sum(model.score(spelling)) * LN10
    return found, tuple(words)


def derivations(decoder: Decoder, source: list[int]) -> dict[tuple[int, ...], float]:
    """The best score of each translation."""
    best: dict[tuple[int, ...], float] = {}
    for cut in segmentations(len(source), decoder.table.trie.order):
        options = {span: choices(decoder, source, span) for span in cut}
        for spans in itertools.permutations(cut):
            if not allowed(spans, decoder.beam.limit):
                continue
            for entries in itertools.product(*(options[span] for span in spans)):
                found, words = features(decoder, source, spans, entries)
                if not decoder.lexicalised:
                    found[9:] = 0
                best[words] = max(best.get(words, -np.inf), float(found @ decoder.weights))
    return best


@pytest.mark.parametrize("limit", [0, 1, 2, 60])
@pytest.mark.parametrize("lexicalised", [True, False])
def test_unlimited_stacks_find_what_brute_force_finds(limit: int, lexicalised: bool) -> None:
    for seed in (1, 2, 3):
        decoder, corpus = toy_decoder(seed, replace(EXACT, limit=limit), lexicalised)
        source = [*corpus.source.sentence(seed).tolist()[:3], -1][-3 if limit == 60 else -4 :]
        expected = derivations(decoder, source)
        ranked = sorted(expected.values(), reverse=True)
        found = decoder.translate([source], nbest=5)[0]
        assert [one.score for one in found] == pytest.approx(ranked[: len(found)], abs=1e-5)
        assert len(found) == min(5, len(ranked))
        assert len({one.words for one in found}) == len(found)
        for one in found:
            assert one.score == pytest.approx(expected[one.words], abs=1e-5)


def test_the_score_of_a_translation_is_that_of_its_features() -> None:
    decoder, corpus = toy_decoder(4, Beam(stack=20))
    sources = [corpus.source.sentence(row).tolist() for row in range(len(corpus))]
    for several in decoder.translate(sources, nbest=10):
        for found in several:
            assert found.score == pytest.approx(float(found.features @ decoder.weights), abs=1e-6)


def test_every_source_word_is_covered_exactly_once() -> None:
    decoder, corpus = toy_decoder(5, Beam(stack=5, limit=3))
    words = corpus.source.tokens.tolist()
    # Longer than any bitmap, with words that nobody knows.
    sources = [words[:17], [-1, *words[:5], -1], (words * 9)[:150], [-1]]
    for source, several in zip(sources, decoder.translate(sources, nbest=3), strict=True):
        assert several
        for found in several:
            covered = sorted(i for piece in found.pieces for i in range(piece.start, piece.end))
            assert covered == list(range(len(source)))
            for piece in found.pieces:
                if piece.words == (COPIED,):
                    assert piece.end - piece.start == 1
                assert all(piece.start <= i < piece.end and j < len(piece.words) for i, j in piece.links)


def test_an_empty_sentence_has_no_translation() -> None:
    decoder, corpus = toy_decoder(5)
    source = corpus.source.sentence(0).tolist()
    assert [len(found) for found in decoder.translate([[], source, []])] == [0, 1, 0]


def test_wider_stacks_never_find_worse() -> None:
    for seed in range(6, 10):
        decoder, corpus = toy_decoder(seed)
        source = corpus.source.tokens.tolist()[:9]
        best = replace(decoder, beam=replace(EXACT, stack=300, limit=6)).translate([source])[0][0].score
        for stack in (1, 5, 50):
            narrow = replace(decoder, beam=replace(EXACT, stack=stack, limit=6))
            assert narrow.translate([source])[0][0].score <= best + 1e-9


def test_threads_change_nothing() -> None:
    decoder, corpus = toy_decoder(11, Beam(stack=10))
    sources = [corpus.source.sentence(row).tolist() for row in range(len(corpus))]
    one, two = decoder.translate(sources, 3), decoder.translate(sources, 3, threads=2)
    assert [[found.words for found in several] for several in one] == [
        [found.words for found in several] for several in two
    ]


def test_future_cost_is_the_best_way_to_cut_a_span() -> None:
    decoder, corpus = toy_decoder(12)
    source = corpus.source.tokens[:7].astype(np.int64)
    settings = decoder.table.trie.order, 20, True
    arguments = decoder.model.tables, decoder.language_ids, decoder.weights
    options = collect(source, decoder._phrases, *arguments, *settings)
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
