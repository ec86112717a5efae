"""The scorers of the experiments."""

import numpy as np
import pytest
from sacrebleu import corpus_bleu

from regard.extensions.reproduce.scores import LENGTH_BINS, METRIC_FUNCTIONS
from regard.metrics.by_length import bucket_by_length


def test_length_buckets_equal_those_of_the_paper() -> None:
    assert tuple(bucket.label for bucket in bucket_by_length([1, 61])) == LENGTH_BINS


class _System:
    """A system with given translations."""

    def __init__(self, sources, references, outputs) -> None:
        self.sources, self.references, self._outputs = sources, references, outputs

    def outputs(self, beam=None):
        return self._outputs


def test_bleu_of_a_bucket_uses_only_its_sentences() -> None:
    sources = ["a " * 4, "a " * 12, "a " * 15]
    references = ["the cat sat here .", "the dog ran over the wide green hill .", "a house by the old sea ."]
    outputs = ["the cat sat .", "the dog ran over a green hill .", "a house by the sea ."]
    system = _System(sources, references, outputs)
    found = METRIC_FUNCTIONS["sacrebleu:11-20"].count(system).corpus_score()
    assert round(found, 6) == round(corpus_bleu(outputs[1:], [references[1:]]).score, 6)
    assert len(METRIC_FUNCTIONS["sacrebleu:11-20"].count(system).rows) == 2
    assert len(METRIC_FUNCTIONS["sacrebleu:61+"].count(system).rows) == 0


@pytest.mark.parametrize("name", ["bleu", "sacrebleu", "rep", "accuracy", "edits"])
def test_stored_counts_give_the_same_score(name: str) -> None:
    references = ["the cat sat here .", "a house by the sea ."]
    system = _System(["a b", "c d"], references, ["the cat sat here .", "a house by a sea a ."])
    counts = METRIC_FUNCTIONS[name].count(system)
    kept = METRIC_FUNCTIONS[name].aggregate(counts.rows.sum(axis=0, keepdims=True))
    assert counts.corpus_score() == pytest.approx(float(kept[0]))
    assert np.isfinite(kept).all()
