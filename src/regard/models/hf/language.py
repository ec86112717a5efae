"""Language models of Hugging Face's library as the trainer takes models: masked (BERT) and causal (GPT-2).

The trainer asks a model for its objective, its outcome and its operations alone. Ids are the library's.
"""

from typing import Any

import torch
from torch import nn

from regard.attention.base import Objective
from regard.data.batch import Batch
from regard.data.monolingual import MaskedBatch
from regard.models.base import Look, Outcome
from regard.models.hf.sizes import multiply_adds
from regard.types import Bool, Float, Tensor

__all__ = ["LanguageModel", "spread_tokens"]


class LanguageModel(nn.Module):
    """A language model; of a `MaskedBatch` it finds the hidden tokens, else each token after those before.

    Args:
        model: The library's, with its output layer.
    """

    objective: Objective = "marginal"
    reward: None = None

    def __init__(self, model: Any) -> None:
        """Take it."""
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, average: bool = False, look: Look = "source") -> Outcome:
        """Log p of the targets; see `TranslationModel.forward`.

        Args:
            batch: Of a causal model sources with a start symbol, and targets as long with an end symbol.
            average: Whether `Outcome.average` is wanted.
            look: There is no attention to another text.
        """
        assert batch.target is not None
        target = batch.target
        made = self.model(input_ids=batch.source.tokens, attention_mask=batch.source.mask.long())
        hidden = batch.hidden if isinstance(batch, MaskedBatch) and batch.hidden is not None else target.mask
        logits = made.logits[hidden].float()  # (N, V)
        total = torch.logsumexp(logits, dim=-1)
        found = logits.gather(1, target.tokens[target.mask].unsqueeze(1)).squeeze(1) - total
        means = logits.mean(-1) - total if average else torch.zeros_like(total)
        log_likelihoods, averages = (spread_tokens(values, target.mask) for values in (found, means))
        zeros = torch.zeros_like(log_likelihoods)
        return Outcome(
            log_likelihoods=log_likelihoods,
            average=averages,
            log_weights=zeros,
            log_policy=zeros,
            penalty=zeros.squeeze(-1),
            mask=target.mask,
            weights=(),
            beliefs=(),
        )

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """None: all of it is trained alike."""
        return ()

    def flops(self, batch: Batch) -> float:
        """Of the products: two operations a multiply-add, three products a step, real tokens only."""
        body = self.model.base_model
        made = multiply_adds(body, batch.source.lengths, causal=not isinstance(batch, MaskedBatch))
        tokens = int(batch.source.lengths.sum())
        return 6.0 * (made + tokens * self.model.get_output_embeddings().weight.numel())


def spread_tokens(values: Float[Tensor, "N"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T 1"]:
    """Numbers of real tokens in their places; zero elsewhere."""
    return values.new_zeros(mask.shape).masked_scatter(mask, values).unsqueeze(-1)
