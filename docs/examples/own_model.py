"""Sparse and constrained attention in your own model: a text classifier that pools a few words.

    python docs/examples/own_model.py [--steps 300]

Three methods of pooling the words of a sentence differ in one line: `regard.nn.Softmax`, `Sparsemax`, and
`ConstrainedSparsemax` with an upper bound of 0.5, which gives at least two words a weight. The task is
synthetic: a sentence of random words has class k if it contains both words of pair k.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from regard.nn import ConstrainedSparsemax, Softmax, Sparsemax

CLASSES, VOCABULARY, LENGTH, WIDTH = 5, 60, 14, 32


class Pool(nn.Module):
    """Attention pooling of word vectors, and a linear classifier."""

    def __init__(self, name: str) -> None:
        """Build the layers; `name` is the transformation: softmax, sparsemax or constrained."""
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.score = nn.Linear(WIDTH, 1)
        self.bounded = name == "constrained"
        classes = {"softmax": Softmax, "sparsemax": Sparsemax, "constrained": ConstrainedSparsemax}
        self.normalizer = classes[name]()
        self.output = nn.Linear(WIDTH, CLASSES)

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits [B, classes] and weights [B, words]."""
        vectors = self.embedding(words)
        scores = self.score(vectors).squeeze(-1)
        bounds = {"upper": torch.full_like(scores, 0.5)} if self.bounded else {}
        weights = self.normalizer(scores, **bounds)
        return self.output((weights.unsqueeze(1) @ vectors).squeeze(1)), weights


def batch(generator: torch.Generator, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sentences [size, LENGTH] of random words, and the index of the pair in each."""
    # The first 2 * CLASSES words form the pairs; the other words are random.
    words = torch.randint(2 * CLASSES, VOCABULARY, (size, LENGTH), generator=generator)
    label = torch.randint(0, CLASSES, (size,), generator=generator)
    places = torch.rand(size, LENGTH, generator=generator).argsort(-1)[:, :2]
    words.scatter_(1, places, torch.stack([2 * label, 2 * label + 1], -1))
    return words, label


def main() -> None:
    """Train a model with each transformation, and print accuracy and sparsity."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    print(f"{'':12}  accuracy  words kept  largest weight")
    for name in ("softmax", "sparsemax", "constrained"):
        torch.manual_seed(1)
        generator, model = torch.Generator().manual_seed(1), Pool(name)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(arguments.steps):
            words, label = batch(generator, 64)
            loss = F.cross_entropy(model(words)[0], label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            words, label = batch(torch.Generator().manual_seed(2), 1000)
            logits, weights = model(words)
        accuracy = (logits.argmax(-1) == label).float().mean()
        kept, largest = (weights > 0).sum(-1).float().mean(), weights.max()
        print(f"{name:12}  {accuracy:8.1%}  {kept:10.1f}  {largest:14.2f}")


if __name__ == "__main__":
    main()
