"""The network that finds errors in words and sentences, and the links of stems."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch import nn

from regard.alignment import TrainingSetup
from regard.extensions.check.base import WordPair
from regard.extensions.check.classifiers import ErrorTagger, Network, fit_tagger
from regard.extensions.check.evidence import LinkModel
from regard.extensions.check.posteriors import TextWords


class TorchNetwork(nn.Module):
    """The network in PyTorch, whose gradients are automatic."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        first, size, last = 96, 64, 48
        self.words = nn.Sequential(
            nn.Linear(num_features, first),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(first, size),
            nn.ReLU(),
            nn.Dropout(0.1),
        )
        self.near = nn.Conv1d(size, size, 5, padding="same")
        self.far = nn.Conv1d(size, size, 5, padding="same", dilation=2)
        self.word_output = nn.Linear(2 * size, 1)
        self.sentence_output = nn.Sequential(
            nn.Linear(4 * size + 4, last),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(last, 1),
        )

    def forward(self, features: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log-odds of words and of sentences.

        Args:
            features: [B, T, F].
            mask: Boolean, [B, T], whether a position has a word.

        Returns:
            [B, T] and [B].
        """
        inside = mask[..., None].to(features.dtype)
        words = self.words(features)
        # Positions without a word must look like those beyond the sentence, so padding has no effect.
        runs = nn.functional.relu(self.near((words * inside).mT))
        runs = nn.functional.relu(self.far(runs * inside.mT)).mT
        hidden = torch.cat([words, runs], dim=-1)
        logits = self.word_output(hidden)[..., 0].masked_fill(~mask, -30.0)
        probability = torch.sigmoid(logits)
        length = inside.sum(dim=1)
        summary = [
            (hidden * torch.softmax(logits, dim=1)[..., None]).sum(dim=1),
            (hidden * inside).sum(dim=1) / length,
            logits.amax(dim=1, keepdim=True),
            (probability * mask).sum(dim=1, keepdim=True),
            torch.log1p(-probability.clamp(max=1 - 1e-6)).sum(dim=1, keepdim=True),
            length.log(),
        ]
        return logits, self.sentence_output(torch.cat(summary, dim=-1))[:, 0]


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
    return fit_tagger(*runs(1, 2_000), seed=1)


def test_errors_that_depend_on_neighbors_are_learned(tagger) -> None:
    features, offsets, (words, sentences) = runs(2)
    for found, labels in zip(tagger.logits(features, offsets), (words, sentences), strict=True):
        assert found[labels].mean() > found[~labels].mean() + 2
        assert (found[labels][:, None] > found[~labels]).mean() > 0.95


def test_numpy_computes_for_a_text_what_pytorch_computes_for_single_sentences(tagger) -> None:
    features, offsets, _ = runs(4)
    network = TorchNetwork(features.shape[1]).eval()
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


def test_gradients_are_those_of_pytorch(tagger) -> None:
    generator = np.random.default_rng(3)
    mask = np.arange(7) < np.array([[1], [7], [4], [7]])
    features = generator.normal(size=(4, 7, 3)).astype(np.float32)
    network = TorchNetwork(3).eval()
    network.load_state_dict({name: torch.from_numpy(value) for name, value in tagger.parameters.items()})
    word_logits, sentence_logits = network(torch.from_numpy(features), torch.from_numpy(mask))
    words = (mask * generator.normal(size=mask.shape)).astype(np.float32)
    sentences = generator.normal(size=4).astype(np.float32)
    ((word_logits * torch.from_numpy(words)).sum() + sentence_logits @ torch.from_numpy(sentences)).backward()
    layers = tagger.layers
    gradients = {
        name: (np.empty_like(weight), np.empty_like(bias)) for name, (weight, bias) in layers.items()
    }
    ours = Network(layers)
    logits, _ = ours.forward(features, mask)
    np.testing.assert_allclose(logits[mask], word_logits.detach().numpy()[mask], atol=2e-5)
    ours.backward(words, sentences, gradients)
    for name, (weight, bias) in gradients.items():
        expected = network.get_submodule(name)
        np.testing.assert_allclose(weight, expected.weight.grad.numpy().T.reshape(weight.shape), atol=2e-5)
        np.testing.assert_allclose(bias, expected.bias.grad, atol=2e-5)


def test_sentences_without_words_have_no_error(tagger) -> None:
    words, sentences = tagger.logits(np.zeros((1, 3)), np.array([0, 0, 1, 1]))
    assert words.shape == (1,) and sentences[[0, 2]].tolist() == [-30.0, -30.0]
    words, sentences = tagger.logits(np.empty((0, 3)), np.array([0]))
    assert words.shape == sentences.shape == (0,)


def test_a_long_sentence_does_not_pad_the_others(tagger, monkeypatch) -> None:
    shapes = []
    forward = Network.forward
    monkeypatch.setattr(
        Network, "forward", lambda self, *args: shapes.append(args[1].shape) or forward(self, *args)
    )
    features = np.random.default_rng(5).normal(size=(1_200, 3))
    tagger.logits(features, np.concatenate([np.arange(0, 210, 10), [1_200]]))
    assert sum(rows * columns for rows, columns in shapes) <= 2 * len(features)


def test_training_is_reproducible() -> None:
    first, second = (fit_tagger(*runs(1, 2_000), seed=1).parameters for _ in range(2))
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
    text = TextWords.of([WordPair(("123456", "Häuser"), ("1234",))])
    assert text.stems(4).forms == ("123456", "häus", "1234")
