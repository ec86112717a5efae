"""A small random corpus, with its phrase table and language model."""

import random
from collections.abc import Sequence

import numpy as np

from regard.alignment.corpus import Corpus
from regard.alignment.symmetrize import LinkTable
from regard.extensions.smt.decoder import PhraseDecoder, SearchLimits
from regard.extensions.smt.kneser_ney import estimate_language_model
from regard.extensions.smt.phrase_table import PhraseTable, estimate_phrase_table
from regard.extensions.smt.translation_options import INITIAL_WEIGHTS
from regard.extensions.smt.trie import find_child
from regard.text.links import Links

EXACT = SearchLimits(stack_size=10**6, threshold=0.0, distortion_limit=60, max_options=10**6)


def link_table(links: list[Links]) -> LinkTable:
    """Return alignment links in the format of the aligner."""
    flat = [sorted(one) for one in links]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in flat])]).astype(np.int64)
    columns = np.array([link for one in flat for link in one], dtype=np.int32).reshape(-1, 2)
    return LinkTable(offsets, columns[:, 0].copy(), columns[:, 1].copy())


def lookup(table: PhraseTable, source: Sequence[int]) -> range:
    """Return the indices of the pairs of a source phrase."""
    node = 0
    for word in source:
        node = find_child(table.trie.first_children, table.trie.words, node, word)
        if node < 0:
            return range(0)
    return range(*table.entries[node : node + 2].tolist())


def random_text(
    seed: int, pairs: int, longest: int = 6
) -> tuple[list[tuple[list[str], list[str]]], list[Links]]:
    """Return random sentence pairs and their links: with reordered, dropped and multiply aligned words."""
    rng = random.Random(seed)
    text, links = [], []
    for _ in range(pairs):
        source = [f"s{rng.randint(0, 4)}" for _ in range(rng.randint(1, longest))]
        order = sorted(range(len(source)), key=lambda i: i + rng.choice([-1.5, 0, 0, 1.5]))
        target, found = [], set()
        for i in order:
            if rng.random() < 0.85:
                found.add((i, len(target)))
                target.append(source[i].replace("s", rng.choice("ttu")))
            if rng.random() < 0.2:
                target.append("x")
        target = target or ["x"]
        if rng.random() < 0.3:
            found.add((rng.randrange(len(source)), rng.randrange(len(target))))
        text.append((source, target))
        links.append(frozenset(found))
    return text, links


def toy_decoder(
    seed: int, beam: SearchLimits = EXACT, lexicalized: bool = True
) -> tuple[PhraseDecoder, Corpus]:
    """Return a decoder for a random corpus, with random weights, and the corpus."""
    text, links = random_text(seed, 12, 4)
    corpus = Corpus.from_tokens(text)
    table = estimate_phrase_table(corpus, link_table(links), 2, "none")
    model = estimate_language_model([target for _, target in text], 3)
    ids = np.array(model.ids(corpus.target.words.words))
    weights = INITIAL_WEIGHTS * np.random.default_rng(seed).uniform(0.5, 1.5, len(INITIAL_WEIGHTS))
    if not lexicalized:
        weights[9:] = 0
    return PhraseDecoder(table, model, ids, weights, lexicalized, beam), corpus
