"""The entropy of attention as a loss: attention that is spread over many source positions is penalized."""

from typing import Literal

import regard
from regard.training.losses.base import LossTerm


@regard.configclass
class AttentionEntropyConfig:
    """The entropy of the last layer's attention."""

    kind: Literal["attention_entropy"] = regard.option(
        default="attention_entropy", help="Mean entropy of the attention of the last layer, in nats."
    )
    weight: float = regard.option(default=0.1, help="Weight of the entropy of each target token.", ge=0)


@regard.register_loss("attention_entropy", AttentionEntropyConfig)
class AttentionEntropy(LossTerm):
    """Adds the entropy of the attention, summed over target tokens, to the loss."""

    output_attentions = True

    def add(self, total, batch, outcome, own):
        """Return the loss with the entropy; `cross_attentions` has [B, T, H, S] for each layer."""
        weights = outcome.cross_attentions[-1].mean(2)
        entropy = -(weights * weights.clamp_min(1e-9).log()).sum(-1)
        return total + self.config.weight * entropy.masked_fill(~outcome.mask, 0.0).sum()
