"""Tests of required terms: translations contain them, and sentences without terms do not change."""

import logging

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generation.conftest import BPE, TEXT, VOCAB_SIZE, config, score_all_translations, token_lists
from regard.data.text import TextProcessor, TextSide
from regard.errors import DataError
from regard.generation.beam import beam_search
from regard.generation.constrained import TermConstraints, WordBoundaries, contains_term
from regard.generation.hypothesis import HypothesisScorer
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.text.tokenizers.words import SPACE_MARK, CharactersConfig, CharactersTokenizer
from regard.text.vocabulary import EOS, SPECIAL_TOKENS, UNK, Vocabulary
from saved_models import words_side


def whole_words(vocab_size: int = VOCAB_SIZE) -> WordBoundaries:
    """Return the boundaries of a vocabulary in which every token is a word."""
    none = torch.zeros(vocab_size, dtype=torch.bool)
    return WordBoundaries(none, none, ~none)


def contains(tokens, term) -> bool:
    return any(tuple(tokens[i : i + len(term)]) == tuple(term) for i in range(len(tokens)))


REQUIRED = [
    [[9]],
    [],
    [[5, 6], [10]],
    [[11, 11]],
    [[7], [8, 9, 10]],
    [[5], [5, 6]],
    [],
    [[6, 7], [7, 8]],
    [[9], [9]],
]


@pytest.fixture
def sentences(random_sentences) -> list[list[int]]:
    """Return one source sentence for each list of required terms."""
    return random_sentences(4, 1, 9, 3, 4, 7, 2, 6, 5)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_translations_contain_all_terms(model, batch, sentences, beam):
    search = config(beam_size=beam, num_return=min(beam, 3))
    found = beam_search(model, batch(sentences), search, terms=TermConstraints(REQUIRED, whole_words()))
    for hypotheses, terms in zip(found, REQUIRED, strict=True):
        assert hypotheses
        assert all(contains(h.tokens, term) for h in hypotheses for term in terms)
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1000),
    beam=st.integers(1, 4),
    terms=st.lists(st.lists(st.integers(5, 8), min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_terms_are_generated_beyond_the_length_limit(build, batch, seed, beam, terms):
    search = config(beam_size=beam, max_length_ratio=0.0, max_length_offset=1)
    model, required = build(seed, uniform=1.0), TermConstraints([terms], whole_words())
    found = beam_search(model, batch([[5, 6]]), search, terms=required)
    assert all(contains(found[0][0].tokens, term) for term in terms)


@pytest.mark.parametrize("terms", [[[6]], [[5, 7]], [[6], [7]], [[5, 5], [5, 6]], [[UNK, 5]]])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_exhaustive_beam_finds_the_best_translations_with_the_terms(build, batch, terms, alpha):
    vocab_size, longest = 8, 4
    model = build(seed=1, vocab_size=vocab_size)
    scored = score_all_translations(model, [5, 7, 6], vocab_size, longest, HypothesisScorer(alpha))
    best = [h for h in scored if all(contains(h.tokens, term) for term in terms)][:10]
    search = config(
        beam_size=4**longest,
        num_return=min(10, len(best)),
        length_penalty=alpha,
        max_length_ratio=0.0,
        max_length_offset=longest,
        scheme={"stopping": "exact"},
    )
    required = TermConstraints([terms], whole_words(vocab_size))
    (found,) = beam_search(model, batch([[5, 7, 6]]), search, terms=required)
    assert [h.tokens for h in found] == [h.tokens for h in best]
    assert [h.score for h in found] == pytest.approx([h.score for h in best], abs=1e-5)


@pytest.mark.parametrize("beam", [1, 4])
def test_translation_does_not_depend_on_the_batch(model, batch, sentences, beam):
    search = config(beam_size=beam, num_return=min(beam, 2), length_penalty=0.7)
    together = beam_search(
        model, batch(sentences, extra=2), search, terms=TermConstraints(REQUIRED, whole_words())
    )
    reversed_terms = TermConstraints(REQUIRED[::-1], whole_words())
    reversed_order = beam_search(model, batch(sentences[::-1]), search, terms=reversed_terms)
    assert token_lists(together) == token_lists(reversed_order[::-1])
    for sentence, terms, expected in zip(sentences, REQUIRED, together, strict=True):
        alone = TermConstraints([terms], whole_words()) if terms else None
        (found,) = beam_search(model, batch([sentence]), search, terms=alone)
        assert token_lists([found]) == token_lists([expected])
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-5)


def test_other_constraints_hold_together_with_terms(build, batch):
    search = config(beam_size=3, num_return=3, no_repeat_ngram_size=1, suppress_unk=True, min_length=4)
    terms = [[[6, 7]], [[8], [9, 10]]]
    required = TermConstraints(terms, whole_words())
    found = beam_search(build(), batch([[5, 6, 7], [8]]), search, [[11], []], terms=required)
    for hypotheses, own, prefix in zip(found, terms, [(11,), ()], strict=True):
        for h in hypotheses:
            assert all(contains(h.tokens, term) for term in own)
            assert len(set(h.tokens)) == len(h.tokens) >= 4
            assert h.tokens[: len(prefix)] == prefix and UNK not in h.tokens


@pytest.mark.parametrize("beam", [1, 3])
def test_impossible_terms_are_skipped_and_the_others_are_generated(build, batch, beam):
    search = config(beam_size=beam, no_repeat_ngram_size=1)
    required = TermConstraints([[[6, 6], [9]], [[8]]], whole_words())
    found = beam_search(build(), batch([[5, 6], [7]]), search, terms=required)
    assert 9 in found[0][0].tokens and not contains(found[0][0].tokens, (6, 6))
    assert 8 in found[1][0].tokens


def characters() -> TextSide:
    return TextSide(CharactersTokenizer(CharactersConfig()), Vocabulary((*SPECIAL_TOKENS, *"abc.\u2581")))


@pytest.mark.parametrize(
    ("side", "text", "term", "contained"),
    [
        (characters, "ab", "ab", True),
        (characters, "c ab.", "ab", True),
        (characters, "c ab a", "ab a", True),
        (characters, "abc", "ab", False),
        (characters, "cab ac", "ab", False),
        (lambda: BPE, "cab", "ab", False),
        (lambda: BPE, "c ab", "ab", True),
        (lambda: BPE, "abc ab c", "ab c", True),
    ],
)
def test_terms_match_whole_words_only(side, text, term, contained):
    side = side()
    boundaries = WordBoundaries.from_side(side)
    tokens, required = side.encode(text), side.encode(term)
    assert UNK not in tokens
    assert contains_term(tokens, required, boundaries) == contained


@pytest.mark.parametrize(
    ("text", "term", "contained"),
    [
        ("Bankett", "Bank", False),
        ("Cafe\u0301s", "Cafe", False),  # a combining accent
        ("ספרים", "ספר", False),
        ("כל ספר", "ספר", True),
        ("كتابها", "كتاب", False),
        ("हिन्दी", "हिन्द", False),  # a vowel sign
        ("학교에서", "학교", False),
        ("3000", "300", False),
        ("我们喜欢银行", "喜欢", True),
        ("カタカナ語です", "語", True),
        ("ธนาคารไทย", "ธนาคาร", True),
        ("(Bank)", "Bank", True),
    ],
)
def test_word_boundaries_follow_the_script(text, term, contained):
    tokenizer = CharactersTokenizer(CharactersConfig())
    target = TextSide(tokenizer, Vocabulary((*SPECIAL_TOKENS, *dict.fromkeys(text.replace(" ", SPACE_MARK)))))
    boundaries = WordBoundaries.from_side(target)
    assert contains_term(target.encode(text), target.encode(term), boundaries) == contained


@settings(max_examples=100)
@given(
    tokens=st.lists(st.integers(5, 10), max_size=9),
    terms=st.lists(st.lists(st.integers(5, 10), min_size=1, max_size=4), min_size=1, max_size=3),
    side=st.sampled_from([characters, lambda: BPE]),
)
def test_incremental_progress_agrees_with_whole_translations(tokens, terms, side):
    last_id, boundaries = len(side().vocabulary) - 1, WordBoundaries.from_side(side())
    tokens = [min(t, last_id) for t in tokens]
    terms = [[min(t, last_id) for t in term] for term in terms]
    progress, last = TermConstraints([terms], boundaries).initial_state(), torch.tensor([2])
    for token in [*tokens, EOS]:
        progress = progress.extend(last, torch.tensor([[token]]), torch.tensor([0]))
        last = torch.tensor([token])
    # Excluded: translations that end with a subword token which needs a continuation.
    glued_end = bool(tokens) and bool(boundaries.joins_next[tokens[-1]])
    if not glued_end:
        assert progress.completed[0].tolist() == [contains_term(tokens, term, boundaries) for term in terms]


@pytest.mark.parametrize(
    "make", [characters, lambda: BPE, lambda: words_side("a b c ab cab")], ids=["characters", "bpe", "words"]
)
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_contain_terms_as_words_with_every_tokenizer(build, make, beam, caplog):
    target = make()
    text = TextProcessor(TEXT.source, target)
    model = build(seed=2, vocab_size=len(target.vocabulary))
    required = ["ab\tcab", "", "c\ta b", " a \t\t"]
    lines = enumerate_lines(["a b c", "d", "e f g a b c d", "g"], terms=required)
    translator = NeuralTranslator(model, text, config(beam_size=beam, suppress_unk=True))
    with caplog.at_level(logging.WARNING):
        found = list(translator.translate(lines))
    for result, terms in zip(found, required, strict=True):
        for term in filter(None, map(str.strip, terms.split("\t"))):
            assert f" {term} " in f" {result.text} ".replace(".", " "), (result.text, term)
    assert not caplog.messages


def test_impossible_terms_are_logged(build, caplog):
    lines = enumerate_lines(["a b", "c", "", "d"], terms=["A\tNew York", "B B", "A", "C"])
    translator = NeuralTranslator(build(), TEXT, config(beam_size=2, no_repeat_ngram_size=1))
    with caplog.at_level(logging.WARNING):
        found = list(translator.translate(lines))
    assert "A" in found[0].text.split() and "C" in found[3].text.split()
    assert [message.split(":")[0] for message in caplog.messages] == ["line 1", "line 2"]
    assert "New York" in caplog.messages[0] and "B B" in caplog.messages[1]


def test_number_of_term_lines_must_match():
    with pytest.raises(DataError, match=r"terms\.txt ends after line 1"):
        list(enumerate_lines(["a", "b"], terms=["A"], names=("", "", "terms.txt")))
    with pytest.raises(DataError, match=r"terms\.txt has more lines"):
        list(enumerate_lines(["a"], terms=["A", "B"], names=("", "", "terms.txt")))
