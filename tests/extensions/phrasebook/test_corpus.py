"""Tests of the built-in corpus: links, splits, frequencies, and written files."""

import zlib
from collections import Counter
from itertools import islice, pairwise

import pytest

from regard.extensions.phrasebook.corpus import (
    SPLITS,
    CorpusPair,
    generate,
    generate_splits,
    random_sentences,
    write_splits,
)
from regard.text.links import parse_gold_links

PUNCTUATION = {".", ",", "?", "!"}
CHECKSUM = 799380483


@pytest.fixture(scope="module")
def pairs() -> list[CorpusPair]:
    return list(islice(generate(5), 12_000))


def test_links_are_inside_the_sentences_and_cover_the_english_words(pairs):
    assert len({pair.source for pair in pairs}) == len(pairs)
    for pair in pairs:
        assert {j for _, j in pair.links} == set(range(len(pair.target))), pair
        assert {i for i, _ in pair.links} <= set(range(len(pair.source)))
        assert len(pair.fertilities) == len(pair.source)
        assert sum(pair.fertilities) == len(pair.links)


def test_a_seed_gives_the_same_sentences_on_every_machine(pairs):
    """The checksum of the corpus, of this version: a change of a sentence needs a decision."""
    text = repr([(pair.source, pair.target, sorted(pair.links)) for pair in pairs])
    assert zlib.crc32(text.encode()) == CHECKSUM


def test_only_function_words_have_no_counterpart(pairs):
    """Commas, reflexive pronouns, polite Sie, and words without a counterpart in English phrases."""
    unlinked = {w for pair in pairs for w, f in zip(pair.source, pair.fertilities, strict=True) if f == 0}
    reflexive = {"mich", "dich", "sich", "uns", "euch"}
    assert unlinked <= {",", "Sie", "an", "auf", "mit", "dem", "den", "der", "die", "das"} | reflexive


def test_sentences_have_3_to_40_words_and_begin_with_a_capital_and_end_with_a_mark(pairs):
    for pair in pairs:
        for side in (pair.source, pair.target):
            assert 3 <= len(side) <= 40
            assert side[0][0].isupper()
            assert side[-1] in ".?!"
            assert all(word and " " not in word for word in side)
            assert not any(a in PUNCTUATION and b in PUNCTUATION for a, b in pairwise(side))


@pytest.mark.parametrize(
    ("german", "expected"),
    [
        ("zum", {"to the", "fortunately"}),  # the contraction of `zu dem`, and `zum Glück`
        ("Küchentisch", {"kitchen table"}),
        ("keinen", {"not a", "not an", "not any", "cannot a"}),
    ],
)
def test_words_link_to_all_their_english_words(pairs, german, expected):
    found = set()
    for pair in pairs:
        if german in pair.source:
            i = pair.source.index(german)
            found.add(" ".join(pair.target[j] for k, j in sorted(pair.links) if k == i))
    assert found == expected


def test_both_parts_of_a_separable_verb_link_to_the_english_verb(pairs):
    standing = [pair for pair in pairs if "steht" in pair.source and pair.source[-2:] == ("auf", ".")]
    assert standing
    for pair in standing:
        i, k = pair.source.index("steht"), len(pair.source) - 2
        assert {j for a, j in pair.links if a == i} == {j for a, j in pair.links if a == k} != set()


def test_the_source_determines_target_and_links():
    pairs = [pair for seed in range(2) for pair in islice(random_sentences(seed), 5_000)]
    by_source = {pair.source: pair for pair in pairs}
    assert all(by_source[pair.source] == pair for pair in pairs)
    assert len(pairs) - len(by_source) > 50


def test_splits_are_disjoint_for_all_seeds_and_sizes():
    first = generate_splits({"train": 2000, "valid": 300, "test": 300}, 1)
    second = generate_splits({"train": 1000, "valid": 600, "test": 600}, 2)
    sources = [{p.source for part in (first, second) for p in part[name]} for name in SPLITS]
    assert len(set.union(*sources)) == sum(map(len, sources))


def test_a_split_depends_neither_on_other_splits_nor_on_its_size():
    splits = generate_splits({"train": 400, "valid": 10, "test": 50}, 3)
    assert generate_splits({"test": 20}, 3)["test"] == splits["test"][:20]


def test_word_frequencies_decrease_as_in_natural_text(pairs):
    counts = Counter(word for pair in pairs for word in pair.source)
    ranked = sorted(counts.values(), reverse=True)
    assert ranked[9] > 10 * ranked[299] > 10 * ranked[999]
    assert 1500 < len(ranked) < 4000


def test_series_repeat_a_few_words_and_have_disjoint_splits(pairs):
    series = list(islice(generate(5, series=True), 3_000))
    splits = generate_splits({"train": 500, "valid": 50, "test": 50}, 6, series=True)
    sources = [{pair.source for pair in split} for split in splits.values()]
    assert len(set.union(*sources)) == sum(map(len, sources))
    words, common = (Counter(w for p in text for w in p.source) for text in (series, pairs[:3_000]))
    assert 2 * len(words) < len(common) and words.total() > 1.2 * common.total()
    for pair in series:
        assert {j for _, j in pair.links} == set(range(len(pair.target))), pair
        assert pair.source[-1] == pair.target[-1] == "."


def test_written_files_are_parallel_and_equal_the_generated_pairs(tmp_path):
    files = write_splits(tmp_path / "corpus", {"train": 40, "valid": 5, "test": 5}, 1)
    assert set(files) == set((tmp_path / "corpus").iterdir())
    for name, size in zip(SPLITS, (40, 5, 5), strict=True):
        paths = [tmp_path / "corpus" / f"{name}.{end}" for end in ("de", "en", "talp", "fertility")]
        assert set(paths) <= set(files)
        texts = [path.read_text("utf-8").split("\n") for path in paths]
        assert all(len(lines) == size + 1 and lines[-1] == "" for lines in texts)
        pairs = generate_splits({name: size}, 1)[name]
        for pair, de, en, talp, fertility in zip(pairs, *texts, strict=False):
            assert de == " ".join(pair.source)
            assert en == " ".join(pair.target)
            assert parse_gold_links(talp).sure == pair.links
            assert tuple(map(int, fertility.split())) == pair.fertilities
