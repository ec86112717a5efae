"""The network that finds errors in words and sentences, and the links of stems."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from regard.alignment import TrainingSetup
from regard.extensions.check.base import WordPair
from regard.extensions.check.classifiers import ErrorTagger, build_network, fit_tagger
from regard.extensions.check.evidence import LinkModel
from regard.extensions.check.posteriors import TextWords


def runs(seed: int, size: int = 1_500) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return features, offsets and labels: two neighboring words with a large feature are affected."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 12, size=size)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    features = generator.normal(size=(offsets[-1], 3))
    words = np.zeros(len(features), dtype=bool)
    for first, last in pairwise(offsets):
        positive = np.pad(features[first:last, 0] > 0.7, 1)
        words[first:last] = positive[1:-1] & (positive[:-2] | positive[2:])
    sentences = np.array([words[i:j].any() for i, j in pairwise(offsets)])
    return features, offsets, (words, sentences)


@pytest.fixture(scope="module")
def tagger() -> ErrorTagger:
    return fit_tagger(*runs(1), seed=1)


def test_errors_that_depend_on_neighbors_are_learned(tagger) -> None:
    features, offsets, (words, sentences) = runs(2)
    for found, labels in zip(tagger.logits(features, offsets), (words, sentences), strict=True):
        assert found[labels].mean() > found[~labels].mean() + 2
        assert (found[labels][:, None] > found[~labels]).mean() > 0.95


def test_numpy_computes_for_a_text_what_pytorch_computes_for_single_sentences(tagger) -> None:
    features, offsets, _ = runs(4)
    network = build_network(features.shape[1]).eval()
    network.load_state_dict({name: torch.from_numpy(value) for name, value in tagger.parameters.items()})
    inputs = torch.from_numpy(((features - tagger.center) / tagger.scale).clip(-8, 8).astype(np.float32))
    words, sentences = tagger.logits(features, offsets)
    for number in range(200):
        own = slice(offsets[number], offsets[number + 1])
        if own.start < own.stop:
            mask = torch.ones(1, own.stop - own.start, dtype=torch.bool)
            word_logits, sentence_logits = network(inputs[None, own], mask)
            np.testing.assert_allclose(words[own], word_logits[0].detach(), atol=2e-5)
            np.testing.assert_allclose(sentences[number], sentence_logits[0].detach(), atol=2e-5)


def test_sentences_without_words_have_no_error(tagger) -> None:
    words, sentences = tagger.logits(np.zeros((1, 3)), np.array([0, 0, 1, 1]))
    assert words.shape == (1,) and sentences[[0, 2]].tolist() == [-30.0, -30.0]
    words, sentences = tagger.logits(np.empty((0, 3)), np.array([0]))
    assert words.shape == sentences.shape == (0,)


def test_training_is_reproducible_and_leaves_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second = (fit_tagger(*runs(1, 100), seed=1).parameters for _ in range(2))
    assert torch.equal(torch.rand(3), expected)
    for name, array in first.items():
        np.testing.assert_allclose(array, second[name], atol=1e-5)


def test_unknown_forms_of_known_words_are_linked_by_their_stems() -> None:
    nouns = {"hund": "dog", "katze": "cat", "vogel": "bird", "pferd": "horse"}
    pairs = [
        WordPair(("der", a, "sieht", "den", b), ("the", first, "sees", "the", second))
        for (a, first), (b, second) in product(nouns.items(), repeat=2)
    ]
    unseen = [WordPair(("der", "Pferde", "sieht", "den", "Hund"), ("the", "horses", "sees", "the", "dog"))]
    setup = TrainingSetup(num_threads=1, seed=1)
    words, stems = (LinkModel.train(pairs, pairs[:4], setup, length) for length in (None, 4))
    missing = [
        model.collect(TextWords.of(unseen), 1).source.column("mutual_known")[1] for model in (words, stems)
    ]
    assert missing[0] > 0.9 and missing[1] < 0.3
    # The digits of a number are no ending.
    assert TextWords.of([WordPair(("123456", "Häuser"), ("1234",))], 4).forms == ("123456", "häus", "1234")
