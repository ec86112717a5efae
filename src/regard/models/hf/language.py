"""Hugging Face language models in the trainer's interface: masked (BERT) and causal (GPT-2).

The trainer uses only a model's objective, its `ForwardOutput` and its floating-point operations. Token ids
are those of transformers.
"""

from typing import Any

import torch
from torch import nn

from regard.attention.base import Objective
from regard.data.batch import Batch
from regard.data.monolingual import MaskedBatch
from regard.models.base import ForwardOutput, OutputAttentions
from regard.models.hf.sizes import count_multiply_adds
from regard.types import Bool, Float, Tensor

__all__ = ["HfLanguageModel", "scatter_token_values"]


class HfLanguageModel(nn.Module):
    """A language model; it predicts the masked tokens of a `MaskedBatch`, and otherwise the next tokens.

    Args:
        model: A model of transformers with its output layer.
    """

    objective: Objective = "marginal"
    reward: None = None

    def __init__(self, model: Any) -> None:
        """Wrap the model."""
        super().__init__()
        self.model = model

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets; see `TranslationModel.forward`.

        Args:
            batch: For a causal model, sources that begin with a start symbol, and targets of the same length
                that end with an end symbol.
            mean_log_probs: Whether to compute `ForwardOutput.mean_log_probs`.
            output_attentions: Ignored: there is no cross-attention.
        """
        assert batch.target is not None
        target = batch.target
        output = self.model(input_ids=batch.source.tokens, attention_mask=batch.source.mask.long())
        # The positions to predict: the masked ones, or all.
        predicted = (
            batch.masked if isinstance(batch, MaskedBatch) and batch.masked is not None else target.mask
        )
        logits = output.logits[predicted].float()  # (N, V)
        total = torch.logsumexp(logits, dim=-1)
        log_probs = logits.gather(1, target.tokens[target.mask].unsqueeze(1)).squeeze(1) - total
        means = logits.mean(-1) - total if mean_log_probs else torch.zeros_like(total)
        log_likelihoods, averages = (
            scatter_token_values(values, target.mask) for values in (log_probs, means)
        )
        zeros = torch.zeros_like(log_likelihoods)
        return ForwardOutput(
            log_likelihoods=log_likelihoods,
            mean_log_probs=averages,
            log_weights=zeros,
            log_policy=zeros,
            penalty=zeros.squeeze(-1),
            mask=target.mask,
            cross_attentions=(),
            posteriors=(),
        )

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """Return no groups: all layers are trained from the start."""
        return ()

    def flops(self, batch: Batch) -> float:
        """Return the floating-point operations of one training step on the non-padding tokens.

        Counts 2 operations per multiply-add and 3 matrix multiplications (one forward, two backward).
        """
        body = self.model.base_model
        multiply_adds = count_multiply_adds(
            body, batch.source.lengths, causal=not isinstance(batch, MaskedBatch)
        )
        tokens = int(batch.source.lengths.sum())
        return 6.0 * (multiply_adds + tokens * self.model.get_output_embeddings().weight.numel())


def scatter_token_values(values: Float[Tensor, "N"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T 1"]:
    """Scatter the values of real tokens to their positions; the others are zero."""
    return values.new_zeros(mask.shape).masked_scatter(mask, values).unsqueeze(-1)
