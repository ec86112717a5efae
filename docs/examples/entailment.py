"""Does one sentence follow from another? A classifier that shows which words decided it.

    python docs/examples/entailment.py [--map sparsemax] [--updates 1500]

The inference example of Martins (2020), after Rocktäschel et al. (2015), word by word: an LSTM reads the
premise; another one, starting from its last state, the hypothesis, and each of its words attends to those of
the premise. With sparsemax in softmax's place most words get exactly zero. Sentences are drawn from a small
grammar: a premise says what two people have; a hypothesis repeats one of these things (it follows), changes
it (it contradicts), or speaks of somebody else (neither).
"""

import argparse
import random

import torch
from rich.console import Console
from torch import nn
from torch.nn import functional as F

from regard.functional import entmax15, softmax, sparsemax
from regard.report import terminal_map

NAMES = ["Anna", "Ben", "Cara", "Dan", "Eva", "Finn"]
COLOURS = ["red", "blue", "green", "white", "black"]
THINGS = ["hat", "cup", "coat", "book", "ball"]
WORDS = ["has", "a", "and", ".", *NAMES, *COLOURS, *THINGS]
LABELS = ["follows", "contradicts", "neither"]
MAPS = {"softmax": softmax, "entmax15": entmax15, "sparsemax": sparsemax}


def draw(generator: random.Random) -> tuple[list[str], list[str], int]:
    """A premise, a hypothesis and the number of their label."""
    first, second, third = generator.sample(NAMES, 3)
    things = generator.sample(THINGS, 2)
    facts = [
        (name, generator.choice(COLOURS), thing) for name, thing in zip((first, second), things, strict=True)
    ]
    premise = [word for name, colour, thing in facts for word in (name, "has", "a", colour, thing, "and")]
    premise[-1] = "."
    name, colour, thing = generator.choice(facts)
    label = generator.randrange(3)
    if label == 1:
        colour = generator.choice([other for other in COLOURS if other != colour])
    if label == 2:
        name = third
    return premise, [name, "has", "a", colour, thing, "."], label


class Classifier(nn.Module):
    """Two LSTMs and attention between them."""

    def __init__(self, attend, width: int = 64) -> None:
        """Build the layers; `attend` maps scores to weights."""
        super().__init__()
        self.attend = attend
        self.embedding = nn.Embedding(len(WORDS), width)
        self.premise = nn.LSTM(width, width, batch_first=True)
        self.hypothesis = nn.LSTM(width, width, batch_first=True)
        self.score = nn.Linear(width, width, bias=False)
        self.output = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, len(LABELS)))

    def forward(self, premise: torch.Tensor, hypothesis: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [B, 3], and attention [B, words of the hypothesis, words of the premise]."""
        states, last = self.premise(self.embedding(premise))
        queries, _ = self.hypothesis(self.embedding(hypothesis), last)
        scores = self.score(queries) @ states.transpose(1, 2)  # (B, T, S)
        weights = self.attend(scores, dim=-1)
        contexts = weights @ states
        return self.output(torch.cat([contexts.mean(1), queries[:, -1]], -1)), weights


def batch(generator: random.Random, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pairs of sentences as numbers, and their labels."""
    drawn = [draw(generator) for _ in range(size)]
    premises, hypotheses, labels = zip(*drawn, strict=True)
    numbers = [torch.tensor([[WORDS.index(w) for w in s] for s in side]) for side in (premises, hypotheses)]
    return numbers[0], numbers[1], torch.tensor(labels)


def main() -> None:
    """Train, test and show where one hypothesis looked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--map", choices=MAPS, default="sparsemax")
    parser.add_argument("--updates", type=int, default=1500)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    generator, test = random.Random(1), random.Random(2)
    model = Classifier(MAPS[arguments.map])
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for update in range(1, arguments.updates + 1):
        premise, hypothesis, label = batch(generator, 64)
        loss = F.cross_entropy(model(premise, hypothesis)[0], label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 250 == 0:
            print(f"update {update}: loss {loss.item():.3f}")
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
