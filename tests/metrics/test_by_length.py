"""Tests of scores by source length: buckets partition the corpus, and each is scored on its own sentences."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.base import bootstrap, paired_bootstrap
from regard.metrics.by_length import SystemScore, bucket_by_length, count_lengths, score_by_length
from regard.metrics.translation import count_statistics

REFERENCES = [
    "The house stands by the old river .",
    "She does not know what he wants to say to her .",
    "Yes .",
    "The train to the city leaves at noon from the first platform , and it is never late .",
    "He reads a book about the sea .",
    "No , thank you .",
]
OUTPUTS = [
    "The house stands at the old river .",
    "She does not know what he he wants to say .",
    "Yes .",
    "The train to the city to the city leaves at noon , and it is late .",
    "He reads the book of the sea .",
    "No thank you .",
]
OTHERS = [*OUTPUTS[:3], "The train leaves at noon .", *REFERENCES[4:]]


def bleu(outputs, references=REFERENCES):
    return count_statistics("bleu", outputs, [references])


def as_score(estimate):
    return SystemScore(estimate.value, (estimate.low, estimate.high))


@given(st.lists(st.integers(0, 90), min_size=1, max_size=60), st.integers(1, 20), st.integers(0, 8))
def test_buckets_partition_the_text_by_length(lengths, width, closed):
    buckets = bucket_by_length(lengths, width, closed)
    assert len(buckets) == closed + 1
    rows = np.concatenate([bucket.sentence_ids for bucket in buckets])
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    for bucket in buckets:
        for row in bucket.sentence_ids.tolist():
            assert bucket.low <= lengths[row] <= (bucket.high or lengths[row])
    for one, following in pairwise(buckets):
        assert one.high is not None and following.low == one.high + 1


def test_default_buckets_are_those_of_the_paper():
    """Indurthi et al. (2019), Table 2."""
    ends = [1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 250]
    buckets = bucket_by_length(ends)
    assert [bucket.label for bucket in buckets] == [
        *("1-10", "11-20", "21-30", "31-40", "41-50", "51-60", "61+")
    ]
    assert [bucket.sentence_ids.tolist() for bucket in buckets] == [[2 * b, 2 * b + 1] for b in range(7)]
    assert bucket_by_length([0, 11])[0].label == "0-10"


def test_bucket_has_the_score_of_its_sentences():
    lengths = count_lengths(REFERENCES)
    buckets = bucket_by_length(lengths, 5, 3)
    assert [len(bucket.sentence_ids) for bucket in buckets] == [2, 2, 1, 1]
    counts = bleu(OUTPUTS)
    found = score_by_length(counts, buckets, resamples=20)
    assert found.total == as_score(bootstrap(counts.rows, counts.aggregate, resamples=20))
    assert score_by_length(counts, bucket_by_length(lengths, 100)).buckets[1:] == (None,) * 6
    for bucket, score in zip(buckets, found.buckets, strict=True):
        # The oracle scores a corpus that contains only the sentences of the bucket.
        alone = bleu(*([lines[row] for row in bucket.sentence_ids] for lines in (OUTPUTS, REFERENCES)))
        assert score is not None
        expected = as_score(bootstrap(alone.rows, alone.aggregate, resamples=20))
        assert score.value == expected.value
        assert score.interval == (None if len(bucket.sentence_ids) == 1 else expected.interval)


def test_every_bucket_is_compared_with_the_first_system():
    buckets = bucket_by_length(count_lengths(REFERENCES), 5, 3)
    first, other = map(bleu, (OUTPUTS, OTHERS))
    found = score_by_length(other, buckets, first, resamples=50)
    alone = score_by_length(other, buckets, resamples=50)
    for bucket, one, same in zip(buckets, found.buckets, alone.buckets, strict=True):
        assert one is not None and same is not None
        assert (one.value, one.interval) == (same.value, same.interval) and same.difference is None
        if len(bucket.sentence_ids) > 1:
            pair = paired_bootstrap(
                first.rows[bucket.sentence_ids], other.rows[bucket.sentence_ids], other.aggregate, 50
            )
            assert (one.difference, one.p_value) == (pair.difference, pair.p_value)
