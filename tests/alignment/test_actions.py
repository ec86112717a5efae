"""Tests of character actions: they spell the target, are monotone and step as the alignment requires."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.alignment.base import TrainingSetup
from regard.alignment.hmm import HMMConfig
from regard.alignment.pointer_actions import align_actions, monotone_alignment, write_actions
from regard.text.tokenizers.words import ActionsConfig, ActionsTokenizer


def test_actions_match_worked_examples():
    # Kloß, plural: K-K, l-l, ö-o, ß-ß, and a final e without a source character.
    assert write_actions("Klöße", [0, 1, 2, 3, None]) == "K→l→ö→ße"
    # A prefix is written before the first step. A source character without a target character is skipped.
    assert write_actions("gelobt", [None, None, 0, 1, 2, 4]) == "gel→o→b→→t"
    assert write_actions("a", [None]) == "a" and write_actions("b", [2]) == "→→b"


def maximum(likely: np.ndarray) -> float:
    """Return the largest sum of probabilities of any monotone one-to-one alignment, by enumeration."""
    length, width = likely.shape
    best = 0.0
    for size in range(1, min(length, width) + 1):
        for rows in itertools.combinations(range(length), size):
            for columns in itertools.combinations(range(width), size):
                best = max(best, likely[list(rows), list(columns)].sum())
    return best


@pytest.mark.parametrize("seed", range(20))
def test_alignment_is_monotone_and_has_maximum_probability(seed):
    rng = np.random.default_rng(seed)
    likely = rng.dirichlet(np.full(4, 0.3), size=5) * rng.uniform(0.3, 1, size=(5, 1))
    heads = monotone_alignment(likely)
    chosen = [head for head in heads if head is not None]
    assert chosen == sorted(set(chosen))
    # monotone() discards links with a probability below 0.05.
    likely[likely < 0.05] = 0
    assert sum(likely[t, h] for t, h in enumerate(heads) if h is not None) == pytest.approx(maximum(likely))


@given(target=st.text("aß ", min_size=1, max_size=6), data=st.data())
def test_decoded_actions_equal_the_target(target, data):
    places = sorted(data.draw(st.sets(st.integers(0, 7), max_size=len(target))))
    heads = [*places, *[None] * (len(target) - len(places))]
    tokenizer = ActionsTokenizer(ActionsConfig())
    written = write_actions(target, heads)
    assert tokenizer.to_plain_text(written) == target
    plain = " ".join(target.split())
    assert " ".join(tokenizer.decode(tokenizer.encode(written)).split()) == plain


def test_copied_characters_are_aligned_to_themselves():
    rng = np.random.default_rng(0)
    stems = ["".join(rng.choice(list("abcdefghij"), size=rng.integers(2, 6))) for _ in range(60)]
    pairs = [(stem, stem + suffix) for stem in stems for suffix in ("xy", "")]
    found = align_actions(pairs, HMMConfig(), TrainingSetup(num_threads=1))
    right = sum(line == "→".join(s) + t[len(s) :] for line, (s, t) in zip(found, pairs, strict=True))
    assert right > 0.95 * len(pairs)


def test_whitespace_is_normalized_as_in_the_tokenizer():
    pairs = [("ab cd", "ab cd e"), ("ba", "ba e")] * 20
    wide = [(f"  {source.replace(' ', '   ')} ", target.replace(" ", "  ")) for source, target in pairs]
    setting = TrainingSetup(num_threads=1)
    assert align_actions(wide, HMMConfig(), setting) == align_actions(pairs, HMMConfig(), setting)
