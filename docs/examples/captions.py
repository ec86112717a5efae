"""Image captioning with attention over an image grid.

    python docs/examples/captions.py [--steps 1800]

As in Xu et al. (2015), the decoder attends to the cells of a grid that a convolutional network computes from
an image, instead of source words. The attention mechanism is that of `regard.attention`, with sparsemax: a
word attends to a few cells, and the others have a weight of exactly zero. The images are generated: two
colored shapes, one above the other or side by side.
"""

import argparse
import random

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import Memory
from regard.attention.soft import SoftAttention, SoftAttentionConfig

COLORS = {
    "red": (1.0, 0.1, 0.1),
    "green": (0.1, 0.8, 0.1),
    "blue": (0.1, 0.2, 1.0),
    "yellow": (1.0, 0.9, 0.1),
}
SHAPES = ["square", "cross", "ring"]
PLACES = ["above", "next to"]
WORDS = ["<s>", "a", *COLORS, *SHAPES, *PLACES]
GRID, CELL = 4, 6


def stamp(shape: str) -> torch.Tensor:
    """Return a binary mask [CELL, CELL] of the shape."""
    mask = torch.ones(CELL, CELL)
    if shape == "cross":
        mask[:2, :2] = mask[:2, 4:] = mask[4:, :2] = mask[4:, 4:] = 0
    if shape == "ring":
        mask[2:4, 2:4] = 0
    return mask


def make_image(generator: random.Random) -> tuple[torch.Tensor, list[str], list[tuple[int, int]]]:
    """Return an image [3, 24, 24], its caption, and the (row, column) cells of the two shapes."""
    cells = generator.sample([(row, column) for row in range(GRID) for column in range(GRID)], 2)
    things = [(generator.choice(list(COLORS)), generator.choice(SHAPES)) for _ in cells]
    picture = torch.zeros(3, GRID * CELL, GRID * CELL)
    for (row, column), (color, shape) in zip(cells, things, strict=True):
        there = picture[:, row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
        there += torch.tensor(COLORS[color])[:, None, None] * stamp(shape)
    # The caption names the shapes in reading order: by row, then by column.
    (first, one), (second, other) = sorted(zip(cells, things, strict=True))
    place = "above" if first[0] < second[0] else "next to"
    return picture, ["a", *one, place, "a", *other], [first, second]


class Captioner(nn.Module):
    """A small convolutional encoder, and a recurrent decoder that attends to its cells."""

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
        self.attention = SoftAttention(SoftAttentionConfig(normalizer="sparsemax"), width, width)
        self.output = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, len(WORDS)))

    def forward(self, pictures: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits of the next words [B, T, V] and the attention [B, T, cells]."""
        # A learned embedding of each cell, because convolutions do not encode positions.
        cells = self.encoder(pictures).flatten(2).transpose(1, 2) + self.place  # (B, cells, width)
        memory = self.attention.prepare(Memory(cells, torch.ones(cells.shape[:2], dtype=torch.bool)))
        queries, _ = self.decoder(self.embedding(words), cells.mean(1)[None].contiguous())
        # `read_all` computes all time steps at once, as in teacher forcing.
        steps = self.attention.read_all(queries, memory, self.attention.start(memory))
        found = torch.cat([steps.contexts[:, :, 0], queries], -1)
        return self.output(found), steps.weights[:, :, 0]


def batch(
    generator: random.Random, size: int
) -> tuple[torch.Tensor, torch.Tensor, list[list[tuple[int, int]]]]:
    """Return images, captions as token indices after the start symbol, and the cells of the shapes."""
    pictures, captions, cells = zip(*(make_image(generator) for _ in range(size)), strict=True)
    numbers = torch.tensor([[0, *map(WORDS.index, caption)] for caption in captions])
    return torch.stack(pictures), numbers, list(cells)


def main() -> None:
    """Train and test the model, and print the attention of each word of a caption."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1800)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    generator, model = random.Random(1), Captioner()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(1, arguments.steps + 1):
        pictures, words, _ = batch(generator, 32)
        logits, _ = model(pictures, words[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    with torch.no_grad():
        pictures, words, cells = batch(random.Random(2), 500)
        logits, weights = model(pictures, words[:, :-1])
    right = (logits.argmax(-1) == words[:, 1:]).all(-1).float().mean()
    print(f"exact captions, given the previous words: {right:.1%} of 500 new images")
    print(f"weights that are exactly zero: {(weights == 0).float().mean():.1%}\n")
    print(f"shapes at (row, column) {cells[0][0]} and {cells[0][1]}, from 0; . is a weight of exactly zero\n")
    for word, attended in zip(words[0, 1:], weights[0].view(-1, GRID, GRID), strict=True):
        rows = ["  ".join("  . " if w == 0 else f"{w:4.2f}" for w in row.tolist()) for row in attended]
        print(
            "\n".join(f"{WORDS[word] if i == 0 else '':>8}  {row}" for i, row in enumerate(rows)), end="\n\n"
        )


if __name__ == "__main__":
    main()
