"""Tests of BLEU, chrF and TER against sacreBLEU, of accuracy and edits, and of the rewards of prefixes."""

import logging
import math
from collections import Counter

import numpy as np
import pytest
import sacrebleu
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.errors import DataError, UsageError
from regard.metrics.base import METRICS, MetricInput
from regard.metrics.translation import (
    count_statistics,
    count_transduction,
    looks_tokenized,
    prefix_bleu,
    split_words,
    utilities,
)

HYPOTHESES = ["The cat sat on the mat.", "A dog barks loudly at night!", "", "It's 5.3 km away, he said."]
REFERENCES = [
    "The cat is sitting on the mat.",
    "a dog barked loudly in the night!",
    "Nothing.",
    "It is 5.3 km away.",
]
SECOND = ["A cat sat on a mat.", "A dog barks at night.", "Empty.", "He said it's 5.3 km away."]


def transduction(metric, outputs, references, lowercase=False):
    return count_transduction(metric, outputs, references, lowercase).corpus_score()


@pytest.mark.parametrize(
    ("metric", "theirs", "options"),
    [
        *(
            ("bleu", sacrebleu.BLEU, {"tokenize": tokenize, "lowercase": lowercase})
            for tokenize in ("13a", "none", "intl", "char")
            for lowercase in (False, True)
        ),
        ("chrf", sacrebleu.CHRF, {"lowercase": False}),
        ("chrf", sacrebleu.CHRF, {"lowercase": True}),
        ("ter", sacrebleu.TER, {}),
    ],
)
@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, SECOND]])
def test_scores_equal_sacrebleu(metric, theirs, options, references):
    scorer = theirs(**options)
    expected = scorer.corpus_score(HYPOTHESES, references)
    result = count_statistics(metric, HYPOTHESES, references, **options)
    assert result.corpus_score() == pytest.approx(expected.score, abs=1e-9)
    assert (result.name, result.signature) == (expected.name, str(scorer.get_signature()))


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "zh", "ja-mecab", "ko-mecab"])
def test_tokenizer_of_ter_selects_the_options_of_sacrebleu(tokenize):
    outputs = [
        "我昨天去了学校，然后回家。",
        "私は昨日、学校に行った。",
        "나는 어제 학교에 갔다.",
        "He has 3.5 dogs, Tom's.",
    ]
    references = [
        "我今天去了学校，然后回家。",
        "私は今日、学校に行った。",
        "나는 오늘 학교에 갔다.",
        "He had 3.5 dogs, Tom's.",
    ]
    asian = tokenize not in ("13a", "none", "intl")
    theirs = sacrebleu.TER(normalized=asian, asian_support=asian)
    for output, reference in zip(outputs, references, strict=True):
        result = METRICS.get("ter").count(MetricInput([output], [[reference]], tokenize))
        assert result.corpus_score() == pytest.approx(theirs.corpus_score([output], [[reference]]).score)
        assert result.signature == str(theirs.get_signature())


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "char"])
def test_split_words_gives_the_words_that_sacrebleu_scores(tokenize):
    theirs = sacrebleu.BLEU(tokenize=tokenize, force=True)
    for line, words in zip(HYPOTHESES, split_words(HYPOTHESES, tokenize), strict=True):
        assert len(words) == theirs.corpus_score([line], [[line]]).sys_len


def test_sacrebleu_has_the_private_methods_that_give_counts_of_sentences():
    # Not public, and therefore limited by the version in pyproject.toml: its public results have no counts.
    for theirs in (sacrebleu.BLEU(force=True), sacrebleu.CHRF(), sacrebleu.TER()):
        counts = theirs._extract_corpus_statistics(HYPOTHESES, [REFERENCES])
        total = [sum(column) for column in zip(*counts, strict=True)]
        expected = theirs.corpus_score(HYPOTHESES, [REFERENCES])
        assert theirs._compute_score_from_stats(total).score == pytest.approx(expected.score)
    assert sacrebleu.BLEU()._preprocess_segment("A dog.").split() == ["A", "dog", "."]


def test_length_mismatch_raises():
    with pytest.raises(DataError, match="reference 2 has 1 sentences but the hypotheses have 2"):
        count_statistics("bleu", ["a", "b"], [["a", "b"], ["a"]])
    for outputs, references in (([], [[]]), (["a"], [])):
        with pytest.raises(DataError, match="at least one"):
            count_statistics("chrf", outputs, references)


def test_unknown_names_raise_with_the_valid_ones():
    with pytest.raises(UsageError, match=r"'bleurt'.*bleu, chrf, ter"):
        count_statistics("bleurt", ["a"], [["a"]])
    with pytest.raises(UsageError, match=r"'f1'.*accuracy, edits"):
        transduction("f1", ["a"], [["a"]])
    with pytest.raises(UsageError, match=r"'moses'.*13a, none"):
        count_statistics("bleu", ["a"], [["a"]], tokenize="moses")
    with pytest.raises(UsageError, match="--tokenize 'char': TER counts words"):
        count_statistics("ter", ["ab"], [["ac"]], "char")


def test_tokenized_text_is_detected_and_scored_without_warning(caplog):
    lines = ["a tokenized line ."] * 100
    assert looks_tokenized(lines)
    assert not looks_tokenized(lines[:99])
    with caplog.at_level(logging.WARNING):
        assert count_statistics("bleu", lines, [lines], tokenize="none").corpus_score() == pytest.approx(100)
    assert not caplog.records


@pytest.mark.parametrize(
    ("outputs", "references", "accuracy", "edits"),
    [
        (["Klöße", "Eier", "Eis", "Häuser"], [["Klöße", "Eiern", "Eis", "Hauses"]], 50, (0 + 1 + 0 + 2) / 4),
        (["stelle  in Abrede "], [["stelle in Abrede"]], 100, 0),  # white space is collapsed
        (["eis"], [["Eis"]], 0, 1),
        (["Klosse", "Eier"], [["Klöße", "Eiern"], ["Klosse", "Eiers"]], 50, 0.5),  # the nearest one counts
        ([""], [["Eis"]], 0, 3),
    ],
)
def test_accuracy_is_the_percentage_of_equal_outputs_and_edits_the_mean_distance(
    outputs, references, accuracy, edits
):
    assert transduction("accuracy", outputs, references) == accuracy
    assert transduction("edits", outputs, references) == pytest.approx(edits)


SENTENCES = [
    "The cat sat on the mat .",
    "A cat sat on the mat.",
    "the the the the cat cat",
    "the cat sat on the mat, on the mat, on the mat.",
    "Cat",
    "ct",
    "",
    "Größe: 3,5 m (ca. 10 Fuß)!",
    "The cat sat on the mat .",
]
SCORERS = {"bleu": BLEU(effective_order=True), "chrf": CHRF()}
texts = st.lists(st.text("ab .,'", max_size=24), min_size=1, max_size=5)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
@settings(max_examples=60)
@example(SENTENCES)
@given(sentences=texts)
def test_utilities_equal_sentence_scores_of_sacrebleu(name, sentences):
    score = SCORERS[name].sentence_score
    expected = [[score(output, [reference]).score for reference in sentences] for output in sentences]
    np.testing.assert_allclose(utilities(name, sentences), expected, rtol=1e-12, atol=1e-12)


END, UNKNOWN = 3, 1


def naive(words: list[int], reference: list[int]) -> float:
    """Compute R as defined in `prefix_bleu`."""
    words, reference = ([w for w in side if w != END] for side in (words, reference))
    if not words:
        return 0.0
    total = 0.0
    for n in range(1, 5):
        output, target = (
            Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1)) for side in (words, reference)
        )
        matches = sum(min(c, target[gram]) for gram, c in output.items() if UNKNOWN not in gram)
        total += math.log((matches + 1) / (sum(output.values()) + 1))
    brevity = math.exp(1 - len(reference) / len(words)) if len(words) < len(reference) else 1.0
    return brevity * math.exp(total / 4) * len(reference)


@st.composite
def batches(draw):
    rows, width = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    largest, size = draw(st.integers(4, 8)), rows * width
    lengths, steps = ([draw(st.integers(1, width)) for _ in range(rows)] for _ in range(2))
    tokens = st.binary(min_size=size, max_size=size)  # one draw, which is faster than one for each token
    sides = [
        1 + np.frombuffer(draw(tokens), np.uint8).reshape(rows, width).astype(np.int64) % largest
        for _ in range(2)
    ]
    for row, length in enumerate(lengths):
        sides[1][row, length - 1] = END
    return sides[0], np.array(steps), sides[1], np.array(lengths)


@given(batches())
@settings(max_examples=200)
def test_every_prefix_matches_the_definition(batch) -> None:
    produced, steps, reference, lengths = batch
    found = prefix_bleu(produced, steps, reference, lengths, END, UNKNOWN)
    for row, length in enumerate(lengths):
        target = reference[row, :length].tolist()
        for t in range(steps[row]):
            expected = naive(produced[row, : t + 1].tolist(), target)
            assert found[row, t] == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert (found[row, steps[row] :] == 0).all()
