"""A tagger that predicts the fertility of each source word, i.e. the number of its target words.

PREDICTED fertility (Malaviya et al., 2018, Section 4): a bidirectional recurrent encoder with a distribution
over the fertilities 1 to N at each word. The predicted fertility is the expectation.
"""

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import Objective
from regard.config import configclass, option
from regard.data.batch import Batch, PaddedSequences
from regard.models.base import ForwardOutput, OutputAttentions
from regard.models.rnn.layers import RecurrentEncoder, RnnEncoderConfig
from regard.text.vocabulary import PAD
from regard.types import Float, Tensor


@configclass
class TaggerConfig:
    """The fertility tagger. The defaults are those of the scripts of Malaviya et al. (2018)."""

    embedding_size: int = option(default=256, help="Size of the word embeddings.", ge=1, le=16_384)
    hidden_size: int = option(default=256, help="Hidden size of the encoder, per direction.", ge=1, le=16_384)
    num_layers: int = option(default=2, help="Number of recurrent layers.", ge=1, le=256)
    dropout: float = option(
        default=0.2, help="Dropout probability on the input of each layer except the first.", ge=0, lt=1
    )
    fertility_one_weight: float = option(
        default=0.5,
        help="Weight of words with fertility 1 in the loss; all other words have weight 1.",
        gt=0,
        le=1e6,
    )
    min_classes: int = option(
        default=10,
        help="Largest fertility that can be predicted, unless the training data contains a larger one.",
        ge=2,
        le=10_000,
    )


class FertilityTagger(nn.Module):
    """A classifier of the fertility of each word of a sentence.

    The target of a batch contains fertilities instead of token ids: class k is fertility k. Padding is 0,
    which is not a class.

    Args:
        config: The configuration.
        vocabulary: Size of the source vocabulary.
        num_classes: The largest fertility that can be predicted; the smallest is 1.
    """

    objective: Objective = "marginal"
    reward: None = None

    def __init__(self, config: TaggerConfig, vocabulary: int, num_classes: int) -> None:
        """Build the layers."""
        super().__init__()
        self.config, self.num_classes = config, num_classes
        # `hidden_size` of a bidirectional encoder is the sum over both directions.
        encoder = RnnEncoderConfig(num_layers=config.num_layers, hidden_size=2 * config.hidden_size)
        self.embedding = nn.Embedding(vocabulary, config.embedding_size, padding_idx=PAD)
        self.encoder = RecurrentEncoder(encoder, config.embedding_size, config.dropout)
        self.output = nn.Linear(2 * config.hidden_size, num_classes)

    def log_probs(self, source: PaddedSequences) -> Float[Tensor, "B S K"]:
        """Return log p(fertility = k) of each word, for k = 1 to N, in nats; undefined at padding."""
        states, _ = self.encoder(self.embedding(source.tokens), source.lengths)
        return F.log_softmax(self.output(states).float(), dim=-1)

    def expected_fertility(self, source: PaddedSequences) -> Float[Tensor, "B S"]:
        """Return the expected fertility of each word, sum_k k p(k); zero at padding."""
        fertilities = torch.arange(1, self.num_classes + 1, device=source.tokens.device)
        expected = (self.log_probs(source).exp() * fertilities).sum(-1)
        return expected.masked_fill(~source.mask, 0.0)

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the fertilities in the target, one per source word.

        The loss is -w log p(k), where w is `fertility_one_weight` for k = 1 and 1 otherwise. The difference
        to -log p(k) is returned as `penalty`.

        Fertilities above the largest class are clamped to it. There is no attention to return.
        """
        assert batch.target is not None
        log_probs = self.log_probs(batch.source)
        mask, fertilities = batch.target.mask, batch.target.tokens
        # Index k - 1 of the output layer is fertility k. Padding (0) is clamped to a valid index and masked.
        classes = fertilities.clamp(1, self.num_classes) - 1
        log_likelihoods = log_probs.gather(-1, classes.unsqueeze(-1)).masked_fill(~mask.unsqueeze(-1), 0.0)
        # The loss is -log p + penalty = -w log p, hence a penalty of (1 - w) log p.
        weights = torch.where(fertilities == 1, self.config.fertility_one_weight, 1.0)
        return ForwardOutput.with_one_context(
            log_likelihoods,
            log_probs.mean(-1, keepdim=True) if mean_log_probs else None,
            mask,
            penalty=(1.0 - weights) * log_likelihoods.squeeze(-1),
        )
