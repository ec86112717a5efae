"""Natural language inference with sparse word-by-word attention.

    python docs/examples/entailment.py [--normalizer sparsemax] [--steps 1500]

The inference example of Martins (2020), after Rocktäschel et al. (2015): one LSTM encodes the premise,
another one encodes the hypothesis, starting from the final state of the first, and each word of the
hypothesis attends to the words of the premise. With sparsemax instead of softmax, most words have a weight
of exactly zero. The sentences are sampled from a small grammar. A premise states the possessions of two
people. A hypothesis repeats one of these facts (it follows), changes its color (it contradicts), or is
about another person (neither).
"""

import argparse
import random

import torch
from rich.console import Console
from torch import nn
from torch.nn import functional as F

from regard.functional import entmax15, softmax, sparsemax
from regard.plot import terminal_map

NAMES = ["Anna", "Ben", "Cara", "Dan", "Eva", "Finn"]
COLORS = ["red", "blue", "green", "white", "black"]
THINGS = ["hat", "cup", "coat", "book", "ball"]
WORDS = ["has", "a", "and", ".", *NAMES, *COLORS, *THINGS]
LABELS = ["follows", "contradicts", "neither"]
NORMALIZERS = {"softmax": softmax, "entmax15": entmax15, "sparsemax": sparsemax}


def make_pair(generator: random.Random) -> tuple[list[str], list[str], int]:
    """Return a premise, a hypothesis and the index of their label."""
    first, second, third = generator.sample(NAMES, 3)
    things = generator.sample(THINGS, 2)
    facts = [
        (name, generator.choice(COLORS), thing) for name, thing in zip((first, second), things, strict=True)
    ]
    premise = [word for name, color, thing in facts for word in (name, "has", "a", color, thing, "and")]
    premise[-1] = "."
    name, color, thing = generator.choice(facts)
    label = generator.randrange(3)
    if label == 1:
        color = generator.choice([other for other in COLORS if other != color])
    if label == 2:
        name = third
    return premise, [name, "has", "a", color, thing, "."], label


class Classifier(nn.Module):
    """Two LSTMs and attention between them."""

    def __init__(self, normalizer, width: int = 64) -> None:
        """Build the layers; `normalizer` transforms scores to attention weights."""
        super().__init__()
        self.normalizer = normalizer
        self.embedding = nn.Embedding(len(WORDS), width)
        self.premise = nn.LSTM(width, width, batch_first=True)
        self.hypothesis = nn.LSTM(width, width, batch_first=True)
        self.score = nn.Linear(width, width, bias=False)
        self.output = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, len(LABELS)))

    def forward(self, premise: torch.Tensor, hypothesis: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits [B, 3] and attention [B, T, S], of T hypothesis words to S premise words."""
        states, last = self.premise(self.embedding(premise))
        queries, _ = self.hypothesis(self.embedding(hypothesis), last)
        scores = self.score(queries) @ states.transpose(1, 2)  # (B, T, S)
        weights = self.normalizer(scores, dim=-1)
        contexts = weights @ states
        return self.output(torch.cat([contexts.mean(1), queries[:, -1]], -1)), weights


def batch(generator: random.Random, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return premises and hypotheses as token indices, and their labels."""
    samples = [make_pair(generator) for _ in range(size)]
    premises, hypotheses, labels = zip(*samples, strict=True)
    # No padding: all premises have the same length, and so have all hypotheses.
    numbers = [torch.tensor([[WORDS.index(w) for w in s] for s in side]) for side in (premises, hypotheses)]
    return numbers[0], numbers[1], torch.tensor(labels)


def main() -> None:
    """Train and test the model, and print the attention of one hypothesis."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--normalizer", choices=NORMALIZERS, default="sparsemax")
    parser.add_argument("--steps", type=int, default=1500)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    generator, test = random.Random(1), random.Random(2)
    model = Classifier(NORMALIZERS[arguments.normalizer])
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(1, arguments.steps + 1):
        premise, hypothesis, label = batch(generator, 64)
        loss = F.cross_entropy(model(premise, hypothesis)[0], label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 250 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    with torch.no_grad():
        premise, hypothesis, label = batch(test, 1000)
        logits, weights = model(premise, hypothesis)
    print(f"accuracy on 1,000 new pairs: {(logits.argmax(-1) == label).float().mean():.1%}")
    print(f"weights that are exactly zero: {(weights == 0).float().mean():.1%}\n")
    source, target = ([WORDS[w] for w in side[0]] for side in (premise, hypothesis))
    print(f"{' '.join(source)}\n{' '.join(target)}\n-> {LABELS[logits[0].argmax()]} ({LABELS[label[0]]})\n")
    Console(highlight=False).print(terminal_map(weights[0].numpy(), source, target))


if __name__ == "__main__":
    main()
