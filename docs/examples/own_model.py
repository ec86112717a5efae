"""A map in a model of your own: a text classifier that keeps few words, and at most so much of each.

    python docs/examples/own_model.py [--updates 300]

Three ways of pooling the words of a sentence into one vector differ in one line: `regard.nn.Softmax`,
`Sparsemax`, and `ConstrainedSparsemax`, where no word may have more than a bound, here a half: at least two
must speak. The task is made up: a sentence of random words is of class k where it holds both words of pair k.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from regard.nn import ConstrainedSparsemax, Softmax, Sparsemax

CLASSES, VOCABULARY, LENGTH, WIDTH = 5, 60, 14, 32


class Pool(nn.Module):
    """The words' vectors, weighted by a map of their scores."""

    def __init__(self, name: str) -> None:
        """Build the layers of a way of pooling: softmax, sparsemax or constrained."""
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.score = nn.Linear(WIDTH, 1)
        self.bounded = name == "constrained"
        self.map = {"softmax": Softmax, "sparsemax": Sparsemax, "constrained": ConstrainedSparsemax}[name]()
        self.output = nn.Linear(WIDTH, CLASSES)

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [B, classes] and weights [B, words]."""
        vectors = self.embedding(words)
        scores = self.score(vectors).squeeze(-1)
        weights = self.map(scores, upper=torch.full_like(scores, 0.5)) if self.bounded else self.map(scores)
        return self.output((weights.unsqueeze(1) @ vectors).squeeze(1)), weights


def batch(generator: torch.Generator, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentences of random words, and which pair each holds."""
    words = torch.randint(2 * CLASSES, VOCABULARY, (size, LENGTH), generator=generator)
    label = torch.randint(0, CLASSES, (size,), generator=generator)
    places = torch.rand(size, LENGTH, generator=generator).argsort(-1)[:, :2]
    words.scatter_(1, places, torch.stack([2 * label, 2 * label + 1], -1))
    return words, label


def main() -> None:
    """Train each, and print how many words it keeps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=300)
    arguments = parser.parse_args()
    print(f"{'':12}  accuracy  words kept  largest weight")
    for name in ("softmax", "sparsemax", "constrained"):
        torch.manual_seed(1)
        generator, model = torch.Generator().manual_seed(1), Pool(name)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(arguments.updates):
            words, label = batch(generator, 64)
            loss = F.cross_entropy(model(words)[0], label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            words, label = batch(torch.Generator().manual_seed(2), 1000)
            logits, weights = model(words)
        accuracy = (logits.argmax(-1) == label).float().mean()
        kept, most = (weights > 0).sum(-1).float().mean(), weights.max()
        print(f"{name:12}  {accuracy:8.1%}  {kept:10.1f}  {most:14.2f}")


if __name__ == "__main__":
    main()
