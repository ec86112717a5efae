"""Required terms: they are said, at what cost, and nothing else changes."""

import itertools
import logging

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.config import from_dict
from regard.data.batch import collate
from regard.data.text import Side, TextPair
from regard.data.tokenizers.bpe import BytePairConfig, BytePairTokenizer, learn_merges
from regard.data.tokenizers.words import (
    SPACE,
    CharactersConfig,
    CharactersTokenizer,
    WordsConfig,
    WordsTokenizer,
)
from regard.data.vocabulary import EOS, SINK, SPECIALS, UNK, Vocabulary
from regard.decoding.beam import beam_search
from regard.decoding.config import SamplingConfig, SearchConfig
from regard.decoding.forced import force
from regard.decoding.penalties import Scorer
from regard.decoding.terms import Boundaries, Terms, holds
from regard.decoding.translate import Translator, number_lines
from regard.errors import DataError, RegardError, UsageError

WORDS = 12


def config(**options) -> SearchConfig:
    return from_dict(SearchConfig, {"max_length_ratio": 1.0, "max_length_extra": 4, **options})


def whole(words: int = WORDS) -> Boundaries:
    """Every token is a word."""
    none = torch.zeros(words, dtype=torch.bool)
    return Boundaries(none, none, ~none)


def within(tokens, term) -> bool:
    return any(tuple(tokens[i : i + len(term)]) == tuple(term) for i in range(len(tokens)))


def said(results):
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in results]


DEMANDED = [
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


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_terms_are_always_said(model, batch, sentences, beam):
    search = config(beam=beam, nbest=min(beam, 3))
    found = beam_search(model, batch(sentences), search, terms=Terms(DEMANDED, whole()))
    for hypotheses, terms in zip(found, DEMANDED, strict=True):
        assert hypotheses
        assert all(within(h.tokens, term) for h in hypotheses for term in terms)
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1000),
    beam=st.integers(1, 4),
    terms=st.lists(st.lists(st.integers(5, 8), min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_they_are_said_whatever_they_are_and_however_short_the_limit(build, batch, seed, beam, terms):
    search = config(beam=beam, max_length_ratio=0.0, max_length_extra=1)
    found = beam_search(build(seed, uniform=1.0), batch([[5, 6]]), search, terms=Terms([terms], whole()))
    assert all(within(found[0][0].tokens, term) for term in terms)


@pytest.mark.parametrize("terms", [[[6]], [[5, 7]], [[6], [7]], [[5, 5], [5, 6]], [[UNK, 5]]])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_beam_as_wide_as_the_space_finds_the_best_translation_that_holds_them(build, batch, terms, alpha):
    words, longest = 8, 4
    model = build(seed=1, words=words)
    allowed = [UNK, *range(SINK + 1, words)]
    every = [list(t) for n in range(longest + 1) for t in itertools.product(allowed, repeat=n)]
    scored = force(
        model, collate([[5, 7, 6]] * len(every), [[*t, EOS] for t in every], range(len(every))), Scorer(alpha)
    )
    holding = [h for h in scored if all(within(h.tokens, term) for term in terms)]
    best = sorted(holding, key=lambda h: -h.score)[:10]
    search = config(
        beam=len(allowed) ** longest,
        nbest=min(10, len(best)),
        length_penalty=alpha,
        max_length_ratio=0.0,
        max_length_extra=longest,
        scheme={"stop": "certain"},
    )
    (found,) = beam_search(model, batch([[5, 7, 6]]), search, terms=Terms([terms], whole(words)))
    assert [h.tokens for h in found] == [h.tokens for h in best]
    assert [h.score for h in found] == pytest.approx([h.score for h in best], abs=1e-5)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_sentence_is_translated_the_same_alone_and_in_a_batch(build, batch, sentences, beam):
    model, search = build(seed=3), config(beam=beam, nbest=min(beam, 2))
    together = beam_search(model, batch(sentences, extra=2), search, terms=Terms(DEMANDED, whole()))
    backwards = beam_search(model, batch(sentences[::-1]), search, terms=Terms(DEMANDED[::-1], whole()))
    assert said(together) == said(backwards[::-1])
    for sentence, terms, expected in zip(sentences, DEMANDED, together, strict=True):
        alone = Terms([terms], whole()) if terms else None
        assert said(beam_search(model, batch([sentence]), search, terms=alone)) == said([expected])


def test_sentences_without_terms_are_translated_as_if_nobody_had_any(model, batch, sentences):
    search = config(beam=4, nbest=4, length_penalty=0.7)
    free = beam_search(model, batch(sentences), search)
    beside = beam_search(model, batch(sentences), search, terms=Terms(DEMANDED, whole()))
    for one, other, terms in zip(free, beside, DEMANDED, strict=True):
        if not terms:
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-6)


def test_what_the_best_translation_says_anyway_costs_nothing(model, batch, sentences):
    search = config(
        beam=200, scheme={"stop": "certain"}, max_length_extra=1, max_length_ratio=0.5, min_length=1
    )
    free = beam_search(model, batch(sentences), search)
    terms = Terms([[[h.tokens[-1]]] for (h,) in free], whole())
    again = beam_search(model, batch(sentences), search, terms=terms)
    for (one,), (other,) in zip(free, again, strict=True):
        assert other.score >= one.score - 1e-5


def test_other_rules_hold_beside_terms(build, batch):
    search = config(beam=3, nbest=3, no_repeat_ngram=1, forbid_unknown=True, min_length=4)
    terms = [[[6, 7]], [[8], [9, 10]]]
    found = beam_search(build(), batch([[5, 6, 7], [8]]), search, [[11], []], terms=Terms(terms, whole()))
    for hypotheses, own, prefix in zip(found, terms, [(11,), ()], strict=True):
        for h in hypotheses:
            assert all(within(h.tokens, term) for term in own)
            assert len(set(h.tokens)) == len(h.tokens) >= 4
            assert h.tokens[: len(prefix)] == prefix and UNK not in h.tokens


@pytest.mark.parametrize("beam", [1, 3])
def test_what_cannot_be_said_leaves_the_translation_with_most_of_the_terms(build, batch, beam):
    search = config(beam=beam, no_repeat_ngram=1)
    found = beam_search(build(), batch([[5, 6], [7]]), search, terms=Terms([[[6, 6], [9]], [[8]]], whole()))
    assert 9 in found[0][0].tokens and not within(found[0][0].tokens, (6, 6))
    assert 8 in found[1][0].tokens


def test_damaged_weights_are_an_error_with_terms_too(build, batch):
    model = build()
    with torch.no_grad():
        model.output_bias.fill_(torch.nan)
    with pytest.raises(RegardError, match="log-probabilities are NaN"):
        beam_search(model, batch([[5], [6]]), config(beam=3), terms=Terms([[[6]], []], whole()))


def characters() -> Side:
    return Side(CharactersTokenizer(CharactersConfig()), Vocabulary((*SPECIALS, *"abc.\u2581")))


def pairs() -> Side:
    tokenizer = BytePairTokenizer(BytePairConfig(tokenized=True), learn_merges({}, 0))
    return Side(tokenizer, Vocabulary((*SPECIALS, "a@@", "b@@", "c@@", "a", "b", "c")))


@pytest.mark.parametrize(
    ("side", "text", "term", "held"),
    [
        (characters, "ab", "ab", True),
        (characters, "c ab.", "ab", True),
        (characters, "c ab a", "ab a", True),
        (characters, "abc", "ab", False),
        (characters, "cab ac", "ab", False),
        (pairs, "cab", "ab", False),
        (pairs, "c ab", "ab", True),
        (pairs, "abc ab c", "ab c", True),
    ],
)
def test_terms_are_words_and_no_parts_of_words(side, text, term, held):
    side = side()
    boundaries = Boundaries.of(side)
    tokens, demanded = side.encode(text), side.encode(term)
    assert UNK not in tokens
    assert holds(tokens, demanded, boundaries) == held
    # Search counts them step by step as `holds` does in the finished translation.
    progress, last = Terms([[demanded]], boundaries).start(), torch.tensor([2])
    for token in [*tokens, EOS]:
        progress = progress.after(last, torch.tensor([[token]]), torch.tensor([0]))
        last = torch.tensor([token])
    assert bool(progress.held.all()) == held


@pytest.mark.parametrize(
    ("text", "term", "held"),
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
def test_words_end_at_spaces_in_scripts_that_have_them(text, term, held):
    tokenizer = CharactersTokenizer(CharactersConfig())
    target = Side(tokenizer, Vocabulary((*SPECIALS, *dict.fromkeys(text.replace(" ", SPACE)))))
    assert holds(target.encode(text), target.encode(term), Boundaries.of(target)) == held


@settings(max_examples=100, deadline=None)
@given(
    tokens=st.lists(st.integers(5, 10), max_size=9),
    terms=st.lists(st.lists(st.integers(5, 10), min_size=1, max_size=4), min_size=1, max_size=3),
    side=st.sampled_from([characters, pairs]),
)
def test_steps_and_whole_translations_agree_on_what_is_held(tokens, terms, side):
    tokens, boundaries = [min(t, len(side().vocabulary) - 1) for t in tokens], Boundaries.of(side())
    terms = [[min(t, len(side().vocabulary) - 1) for t in term] for term in terms]
    progress, last = Terms([terms], boundaries).start(), torch.tensor([2])
    for token in [*tokens, EOS]:
        progress = progress.after(last, torch.tensor([[token]]), torch.tensor([0]))
        last = torch.tensor([token])
    glued_end = bool(tokens) and bool(boundaries.glued[tokens[-1]])
    if not glued_end:
        assert progress.held[0].tolist() == [holds(tokens, term, boundaries) for term in terms]


def words(text: str) -> Side:
    return Side(WordsTokenizer(WordsConfig()), Vocabulary((*SPECIALS, *text.split())))


@pytest.mark.parametrize(
    "make", [characters, pairs, lambda: words("a b c ab cab")], ids=["characters", "bpe", "words"]
)
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_hold_terms_as_words_whatever_the_tokens(build, make, beam, caplog):
    target = make()
    text = TextPair(words("a b c d e f g"), target)
    model = build(seed=2, words=len(target.vocabulary))
    demanded = ["ab\tcab", "", "c\ta b", " a \t\t"]
    lines = number_lines(["a b c", "d", "e f g a b c d", "g"], terms=demanded)
    with caplog.at_level(logging.WARNING):
        found = list(Translator(model, text, config(beam=beam, forbid_unknown=True)).translate(lines))
    for result, terms in zip(found, demanded, strict=True):
        for term in filter(None, map(str.strip, terms.split("\t"))):
            assert f" {term} " in f" {result.text} ".replace(".", " "), (result.text, term)
    assert not caplog.messages


def test_a_term_that_cannot_be_said_is_warned_of(build, caplog):
    text = TextPair(words("a b c d e f g"), words("A B C D E F G"))
    lines = number_lines(["a b", "c", "", "d"], terms=["A\tNew York", "B B", "A", "C"])
    with caplog.at_level(logging.WARNING):
        found = list(Translator(build(), text, config(beam=2, no_repeat_ngram=1)).translate(lines))
    assert "A" in found[0].text.split() and "C" in found[3].text.split()
    assert [message.split(":")[0] for message in caplog.messages] == ["line 1", "line 2"]
    assert "New York" in caplog.messages[0] and "B B" in caplog.messages[1]


def test_terms_must_be_as_many_as_lines_and_are_not_for_samples(build):
    with pytest.raises(DataError, match=r"terms\.txt ends after line 1"):
        list(number_lines(["a", "b"], terms=["A"], terms_name="terms.txt"))
    with pytest.raises(DataError, match=r"terms\.txt has more lines"):
        list(number_lines(["a"], terms=["A", "B"], terms_name="terms.txt"))
    text = TextPair(words("a b c d e f g"), words("A B C D E F G"))
    with pytest.raises(UsageError, match="terms"):
        list(
            Translator(build(), text, config(), SamplingConfig()).translate(number_lines(["a"], terms=["A"]))
        )
