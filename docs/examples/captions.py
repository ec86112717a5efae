"""Captions of pictures: attention over an image grid.

    python docs/examples/captions.py [--updates 1800]

After Xu et al. (2015): the memory that a decoder attends to is not a sentence but the cells of a grid that a
convolutional network made of a picture. The mechanism is regard's own (`regard.attention`), with sparsemax: a
word looks at few cells, and at others not at all. Pictures are drawn here: two coloured shapes, one above the
other or beside it.
"""

import argparse
import random

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import Memory
from regard.attention.soft import SoftAttention, SoftAttentionConfig

COLOURS = {
    "red": (1.0, 0.1, 0.1),
    "green": (0.1, 0.8, 0.1),
    "blue": (0.1, 0.2, 1.0),
    "yellow": (1.0, 0.9, 0.1),
}
SHAPES = ["square", "cross", "ring"]
PLACES = ["above", "beside"]
WORDS = ["<s>", "a", *COLOURS, *SHAPES, *PLACES]
GRID, CELL = 4, 6


def stamp(shape: str) -> torch.Tensor:
    """A shape, as ones in a cell."""
    mask = torch.ones(CELL, CELL)
    if shape == "cross":
        mask[:2, :2] = mask[:2, 4:] = mask[4:, :2] = mask[4:, 4:] = 0
    if shape == "ring":
        mask[2:4, 2:4] = 0
    return mask


def draw(generator: random.Random) -> tuple[torch.Tensor, list[str], list[tuple[int, int]]]:
    """A picture [3, 24, 24], its caption, and the cells of the two shapes."""
    cells = generator.sample([(row, column) for row in range(GRID) for column in range(GRID)], 2)
    things = [(generator.choice(list(COLOURS)), generator.choice(SHAPES)) for _ in cells]
    picture = torch.zeros(3, GRID * CELL, GRID * CELL)
    for (row, column), (colour, shape) in zip(cells, things, strict=True):
        there = picture[:, row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
        there += torch.tensor(COLOURS[colour])[:, None, None] * stamp(shape)
    # The shape that is read first is named first.
    (first, one), (second, other) = sorted(zip(cells, things, strict=True))
    place = "above" if first[0] < second[0] else "beside"
    return picture, ["a", *one, place, "a", *other], [first, second]


class Captioner(nn.Module):
    """A small convolutional encoder and a recurrent decoder that attends to its cells."""

    def __init__(self, width: int = 64) -> None:
        """Build the layers."""
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, CELL, stride=CELL),
            nn.ReLU(),
        )
        self.place = nn.Parameter(torch.randn(GRID * GRID, width) * 0.1)
        self.embedding = nn.Embedding(len(WORDS), width)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.attention = SoftAttention(SoftAttentionConfig(map="sparsemax"), width, width)
        self.output = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, len(WORDS)))

    def forward(self, pictures: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of each next word [B, T, V], and attention [B, T, cells]."""
        cells = self.encoder(pictures).flatten(2).transpose(1, 2) + self.place  # (B, cells, width)
        memory = self.attention.prepare(Memory(cells, torch.ones(cells.shape[:2], dtype=torch.bool)))
        queries, _ = self.decoder(self.embedding(words), cells.mean(1)[None].contiguous())
        reading = self.attention.read_all(queries, memory, self.attention.start(memory))
        found = torch.cat([reading.contexts[:, :, 0], queries], -1)
        return self.output(found), reading.weights[:, :, 0]


def batch(
    generator: random.Random, size: int
) -> tuple[torch.Tensor, torch.Tensor, list[list[tuple[int, int]]]]:
    """Pictures, captions as numbers after the start symbol, and where the shapes are."""
    pictures, captions, cells = zip(*(draw(generator) for _ in range(size)), strict=True)
    numbers = torch.tensor([[0, *map(WORDS.index, caption)] for caption in captions])
    return torch.stack(pictures), numbers, list(cells)


def main() -> None:
    """Train, test and show which cells each word of a caption looked at."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=1800)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    generator, model = random.Random(1), Captioner()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for update in range(1, arguments.updates + 1):
        pictures, words, _ = batch(generator, 32)
        logits, _ = model(pictures, words[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 100 == 0:
            print(f"update {update}: loss {loss.item():.3f}")
    with torch.no_grad():
        pictures, words, cells = batch(random.Random(2), 500)
        logits, weights = model(pictures, words[:, :-1])
    right = (logits.argmax(-1) == words[:, 1:]).all(-1).float().mean()
    print(f"captions right in every word, given the words before: {right:.1%} of 500 new pictures")
    print(f"weights that are exactly zero: {(weights == 0).float().mean():.1%}\n")
    print(f"shapes at (row, column) {cells[0][0]} and {cells[0][1]}, counted from 0; . is exactly zero\n")
    for word, looked in zip(words[0, 1:], weights[0].view(-1, GRID, GRID), strict=True):
        rows = ["  ".join("  . " if w == 0 else f"{w:4.2f}" for w in row.tolist()) for row in looked]
        print(
            "\n".join(f"{WORDS[word] if i == 0 else '':>8}  {row}" for i, row in enumerate(rows)), end="\n\n"
        )


if __name__ == "__main__":
    main()
