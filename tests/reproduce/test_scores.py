"""What systems are scored by."""

from sacrebleu import corpus_bleu

from regard.reproduce.scores import BUCKETS, SCORERS


def test_buckets_partition_the_lengths_of_sentences() -> None:
    for words in range(1, 200):
        assert sum(words in bucket for bucket in BUCKETS.values()) == 1
    assert list(BUCKETS) == ["1-10", "11-20", "21-30", "31-40", "41-50", "51-60", "61-"]


class _System:
    """Translations that are given."""

    def __init__(self, sources, references, outputs) -> None:
        self.sources, self.references, self._outputs = sources, references, outputs

    def outputs(self, beam=None):
        return self._outputs


def test_a_buckets_bleu_is_that_of_its_sentences_alone() -> None:
    sources = ["a " * 4, "a " * 12, "a " * 15]
    references = ["the cat sat here .", "the dog ran over the wide green hill .", "a house by the old sea ."]
    outputs = ["the cat sat .", "the dog ran over a green hill .", "a house by the sea ."]
    system = _System(sources, references, outputs)
    found = SCORERS["sacrebleu:11-20"].count(system).total().score
    assert round(found, 6) == round(corpus_bleu(outputs[1:], [references[1:]]).score, 6)
