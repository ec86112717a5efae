"""A tagger that says of each source word how many target words it will be translated into.

PREDICTED fertility (Malaviya et al. 2018, Section 4): a recurrent encoder that reads both ways, and over
each word a distribution over the fertilities 1 to the largest known. What is predicted is its expectation.
"""

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import Objective
from regard.config import config, option
from regard.data.batch import Batch, Sequences
from regard.data.vocabulary import PAD
from regard.models.base import Look, Outcome
from regard.models.recurrent import EncoderConfig, RecurrentEncoder
from regard.types import Float, Tensor

__all__ = ["FertilityTagger", "TaggerConfig"]


@config
class TaggerConfig:
    """The fertility tagger; the defaults are those of the scripts of Malaviya et al. (2018)."""

    embedding: int = option(default=256, help="Width of the word embeddings.", ge=1, le=16_384)
    width: int = option(
        default=256, help="Width of the states, in each of the two directions.", ge=1, le=16_384
    )
    layers: int = option(default=2, help="How many recurrent layers.", ge=1, le=256)
    dropout: float = option(
        default=0.2, help="Probability of dropping an input of a layer above the first.", ge=0, lt=1
    )
    weight_one: float = option(
        default=0.5, help="What a word of fertility 1 counts in the loss; any other counts 1.", gt=0, le=1e6
    )
    least_classes: int = option(
        default=10,
        help="The largest fertility that can be predicted, unless a larger one was seen.",
        ge=2,
        le=10_000,
    )


class FertilityTagger(nn.Module):
    """A distribution over fertilities for each word of a sentence.

    The target of a batch holds fertilities in the place of token ids: class k is the number k, and padding,
    which is 0, is no class.

    Args:
        config: Its sizes.
        vocabulary: Words in the source vocabulary.
        classes: The largest fertility that can be predicted; the smallest is 1.
    """

    objective: Objective = "marginal"
    reward: None = None

    def __init__(self, config: TaggerConfig, vocabulary: int, classes: int) -> None:
        """Build the layers."""
        super().__init__()
        self.config, self.classes = config, classes
        encoder = EncoderConfig(layers=config.layers, width=2 * config.width)
        self.embedding = nn.Embedding(vocabulary, config.embedding, padding_idx=PAD)
        self.encoder = RecurrentEncoder(encoder, config.embedding, config.dropout)
        self.output = nn.Linear(2 * config.width, classes)

    def log_probs(self, source: Sequences) -> Float[Tensor, "B S K"]:
        """Log p(fertility = k) of each word for k = 1 to the largest, in nats; anything at padding."""
        states, _ = self.encoder(self.embedding(source.tokens), source.lengths)
        return F.log_softmax(self.output(states).float(), dim=-1)

    def expected(self, source: Sequences) -> Float[Tensor, "B S"]:
        """The expected fertility of each word, sum_k k p(k); zero at padding."""
        fertilities = torch.arange(1, self.classes + 1, device=source.tokens.device)
        found = (self.log_probs(source).exp() * fertilities).sum(-1)
        return found.masked_fill(~source.mask, 0.0)

    def forward(self, batch: Batch, average: bool = False, look: Look = "source") -> Outcome:
        """Predict the fertilities in the target, which are as many as the words.

        Minimised is -w log p(k), w being `weight_one` for k = 1: what differs from -log p is its penalty.

        Args:
            batch: Sources, and fertilities as targets; one above the largest class counts as that.
            average: Whether `Outcome.average` is wanted.
            look: There is no attention.
        """
        assert batch.target is not None
        log_probs = self.log_probs(batch.source)
        mask, fertilities = batch.target.mask, batch.target.tokens
        classes = fertilities.clamp(1, self.classes) - 1
        found = log_probs.gather(-1, classes.unsqueeze(-1)).masked_fill(~mask.unsqueeze(-1), 0.0)
        weights = torch.where(fertilities == 1, self.config.weight_one, 1.0)
        zeros = torch.zeros_like(found)
        return Outcome(
            log_likelihoods=found,
            average=log_probs.mean(-1, keepdim=True) if average else zeros,
            log_weights=zeros,
            log_policy=zeros,
            penalty=(1.0 - weights) * found.squeeze(-1),
            mask=mask,
            weights=(),
            beliefs=(),
        )

    def flops(self, batch: Batch) -> float:
        """Of the products: two operations a multiply-add, three products a training step, real words only."""
        matrices = [*self.encoder.parameters(), *self.output.parameters()]
        return 6.0 * int(batch.source.lengths.sum()) * sum(p.numel() for p in matrices if p.dim() > 1)
