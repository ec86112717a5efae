"""Training of the network of `regard.extensions.check.error_tagger`, which needs PyTorch."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from regard.extensions.check.error_tagger import (
    DILATIONS,
    HIDDEN,
    KERNEL_WIDTH,
    MAX_LOGIT,
    MIN_SCALE,
    SENTENCE_HIDDEN,
    ErrorTagger,
    sentence_batches,
    sentence_cells,
    standardize,
)

__all__ = ["build_network", "fit_tagger"]

_DROPOUT = 0.1
_EPOCHS = 4, 6  # minimum and maximum
_MIN_BATCHES = 800  # in all epochs; with fewer batches per epoch, there are more epochs, up to the maximum
_BATCH_SIZE = 64  # sentences
_LEARNING_RATE = 2e-3
_WEIGHT_DECAY = 1e-3
_MAX_GRADIENT = 1.0
_SENTENCE_WEIGHT = 0.3  # weight of the loss of sentences; that of words is 1


def fit_tagger(
    features: Float[np.ndarray, "N F"],
    offsets: Int[np.ndarray, "P+1"],
    labels: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> ErrorTagger:
    """Train the network on examples.

    Args:
        features: One row per word.
        offsets: Start of each sentence among the words, and the end of the last one.
        labels: Boolean, whether each word is affected, [N], and whether each sentence is, [P].
        seed: Random seed of weights, dropout and order. It determines the result up to rounding errors.
    """
    import torch
    from torch import nn

    center = features.mean(axis=0, dtype=np.float64)
    # One column at a time, because the table of all may be as large as the memory allows.
    scale = np.array([column.std(dtype=np.float64) for column in features.T]) + MIN_SCALE
    inputs = torch.from_numpy(standardize(features, center, scale))
    words, sentences = (torch.from_numpy(label.astype(np.float32)) for label in labels)
    generator = np.random.default_rng(seed)
    # The random numbers of the caller stay as they are.
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        network = build_network(features.shape[1])
        optimizer = torch.optim.AdamW(network.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        size = max(1, sum(1 for _ in sentence_batches(offsets, _BATCH_SIZE)))
        epochs = min(max(_EPOCHS[0], -(-_MIN_BATCHES // size)), _EPOCHS[1])
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=epochs * size)
        for _ in range(epochs):
            for rows in sentence_batches(offsets, _BATCH_SIZE, generator):
                index, mask = map(torch.from_numpy, sentence_cells(offsets, rows))
                word_logits, sentence_logits = network(inputs[index], mask)
                loss = nn.functional.binary_cross_entropy_with_logits(word_logits[mask], words[index][mask])
                loss = loss + _SENTENCE_WEIGHT * nn.functional.binary_cross_entropy_with_logits(
                    sentence_logits, sentences[torch.from_numpy(rows)]
                )
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), _MAX_GRADIENT)
                optimizer.step()
                schedule.step()
    return ErrorTagger(
        center, scale, {name: value.detach().numpy() for name, value in network.state_dict().items()}
    )


def build_network(num_features: int) -> Any:
    """Return the network as a PyTorch module with random parameters."""
    import torch
    from torch import nn

    class Network(nn.Module):
        """Two layers for each word, two convolutions over the sentence, and two outputs."""

        def __init__(self) -> None:
            super().__init__()
            first, size = HIDDEN
            self.words = nn.Sequential(
                nn.Linear(num_features, first),
                nn.ReLU(),
                nn.Dropout(_DROPOUT),
                nn.Linear(first, size),
                nn.ReLU(),
                nn.Dropout(_DROPOUT),
            )
            self.near = nn.Conv1d(size, size, KERNEL_WIDTH, padding="same")
            self.far = nn.Conv1d(size, size, KERNEL_WIDTH, padding="same", dilation=DILATIONS["far"])
            self.word_output = nn.Linear(2 * size, 1)
            self.sentence_output = nn.Sequential(
                nn.Linear(4 * size + 4, SENTENCE_HIDDEN),
                nn.ReLU(),
                nn.Dropout(_DROPOUT),
                nn.Linear(SENTENCE_HIDDEN, 1),
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
            logits = self.word_output(hidden)[..., 0].masked_fill(~mask, -MAX_LOGIT)
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

    return Network()
