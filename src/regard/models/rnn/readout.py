"""The likelihood of a token under each source position, for models with a linear output layer.

The logits are O W [x_j; s_t] + b, without tanh. They are the sum of the source position's part
g_j = O W_x x_j + b, computed once per sentence, and the state's part h_t = O W_s s_t, computed once per time
step. The sum over the vocabulary is then a matrix multiplication of their exponentials:

    log p(y | s_t, x_j) = g_jy + h_ty - log sum_v exp(g_jv) exp(h_tv).

The logits of all source positions, time steps and tokens are therefore never kept in memory. Each factor is
computed relative to its largest logit. Where the product of the two factors is smaller than 1e-38, i.e. where
their maxima are 87 nats apart, the sum is clamped to that value. `StepLinear` computes the gradient
of exp(g) after the backward pass has visited all time steps.

Search needs the probabilities of all tokens. With u_tv = exp(h_tv - max_v h_tv), the mixture over source
positions is also a matrix multiplication:

    sum_j w_tj p(y | s_t, x_j) = u_ty sum_j (w_tj / z_tj) exp(g_jy),   z_tj = sum_v exp(g_jv) u_tv,

in which all hypotheses of a sentence share exp(g).
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from regard.attention.base import AttentionStep, Memory
from regard.functional import linear_exponentials
from regard.functional.dispatch import accumulation_dtype
from regard.kernels.matmul import linear
from regard.layers.linear import StepLinear, compute_dtype
from regard.models.output import Mixture, OutputLayer, clamped_log
from regard.types import Float, Int, Tensor


@dataclass(frozen=True)
class SourceReadout:
    """A linear output layer, prepared for one batch: the source part of all steps, and the step products.

    Attributes:
        combine: W_s, prepared.
        output: O, prepared, as [Q, V].
        exp_logits: exp(g_j - max g_j), prepared, as [B, V, S].
        dropout: The dropout function.
        max_logits: [B, S], the largest logit of each source position.
        target_logits: [B, S, T], the logit of each target token.
        mean_logits: [B, S], the mean logit.
    """

    combine: StepLinear
    output: StepLinear
    exp_logits: StepLinear
    dropout: Callable[[Tensor], Tensor]
    max_logits: Float[Tensor, "B S"]
    target_logits: Float[Tensor, "B S T"]
    mean_logits: Float[Tensor, "B S"]

    @classmethod
    def open(
        cls,
        states: Float[Tensor, "B S D"],
        combine: Float[Tensor, "N Q"],
        output: Float[Tensor, "V Q"],
        bias: Float[Tensor, "V"],
        targets: Int[Tensor, "B T"],
        dropout: Callable[[Tensor], Tensor],
    ) -> "SourceReadout":
        """Prepare the output layer O, b for a batch with the encoder states x and the target y.

        `combine` is W, transposed: D rows for x, followed by the rows for s.
        """
        hidden = dropout(linear(states.to(output.dtype), combine[: states.shape[-1]].to(output.dtype)))
        logits = linear(hidden, output.t(), bias)
        logits = logits.to(accumulation_dtype(logits.dtype))
        # The maximum cancels in log p, so its gradient is not needed.
        top = logits.detach().amax(-1, keepdim=True)
        powers = (logits - top).exp().to(compute_dtype(combine))
        return cls(
            StepLinear.prepare(combine[states.shape[-1] :]),
            StepLinear.prepare(output.t()),
            StepLinear.prepare(powers.transpose(1, 2)),
            dropout,
            top.squeeze(-1),
            logits.gather(2, targets.unsqueeze(1).expand(-1, logits.shape[1], -1)),
            logits.mean(-1),
        )

    def score(
        self, state: Float[Tensor, "B Q"], targets: Int[Tensor, "B"], step: int
    ) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]:
        """Return log p(y_t) under each source position, and the mean of log p, given the state s_t."""
        logits = self.output(self.dropout(self.combine(state)))
        logits = logits.to(accumulation_dtype(logits.dtype))
        top = logits.detach().amax(-1, keepdim=True)
        sums = self.exp_logits((logits - top).exp().unsqueeze(1)).squeeze(1).to(logits.dtype)
        # Avoids log(0) where the maxima of the two factors are more than 87 nats apart.
        normalizer = sums.clamp_min(torch.finfo(torch.float32).tiny).log() + top + self.max_logits
        log_likelihoods = self.target_logits[:, :, step] + logits.gather(1, targets.unsqueeze(1)) - normalizer
        return log_likelihoods, self.mean_logits + logits.mean(-1, keepdim=True) - normalizer


@dataclass(frozen=True)
class ReadoutMemory(Memory):
    """The attention memory together with the source part of a linear output layer, for search.

    Attributes:
        exp_logits: [B, S, V], exp(g_j - max g_j), in float32 or float64.
    """

    exp_logits: Float[Tensor, "B S V"] = dataclasses.field(kw_only=True)

    @classmethod
    def of(
        cls,
        memory: Memory,
        combine: Float[Tensor, "M Q"],
        output: OutputLayer,
        dropout: Callable[[Tensor], Tensor],
    ) -> "ReadoutMemory":
        """Compute the source part for a memory; see `SourceReadout.open` for the arguments."""
        weight, bias = output
        source_weight = combine[: memory.states.shape[-1]].to(weight.dtype)
        hidden = dropout(linear(memory.states.to(weight.dtype), source_weight))
        powers, _ = linear_exponentials(hidden, weight, bias)
        parts = {field.name: getattr(memory, field.name) for field in dataclasses.fields(memory)}
        return cls(**parts, exp_logits=powers)

    @cached_property
    def sentence_exp_logits(self) -> Float[Tensor, "U S V"]:
        """The `exp_logits` of each sentence if all have the same number of adjacent rows, else of each row.

        Search reorders its memories only when sentences are finished, not at every step, so the result is
        cached.
        """
        # `whole` is the memory of all sentences, `rows` the sentence of each hypothesis.
        whole, rows = self.base_and_index()
        if rows is None:
            return self.exp_logits
        sentences, counts = rows.unique_consecutive(return_counts=True)
        # Hypotheses of a sentence are batched into one product only if every sentence has the same number.
        if bool((counts != counts[0]).any()):
            sentences = rows
        all_sentences = torch.arange(len(whole.exp_logits), device=rows.device)
        return (
            whole.exp_logits
            if torch.equal(sentences, all_sentences)
            else whole.exp_logits.index_select(0, sentences)
        )

    def mix(
        self,
        state: Float[Tensor, "N D"],
        attention_step: AttentionStep,
        combine: Float[Tensor, "M Q"],
        output: Float[Tensor, "V Q"],
        dropout: Callable[[Tensor], Tensor],
    ) -> Mixture:
        """Return the contribution of the source positions of a step to the distribution over its token.

        The state s_t is that of each hypothesis; see `SourceReadout.open` for the other arguments.
        """
        assert attention_step.positions is not None
        positions, tables = attention_step.positions, self.sentence_exp_logits
        part = dropout(linear(state.to(output.dtype), combine[-state.shape[-1] :].to(output.dtype)))
        powers, _ = linear_exponentials(part, output)  # (N, V)
        # Rows of the same sentence are adjacent, so they can be viewed as [sentences, hypotheses, V].
        num_hypotheses = len(powers) // len(tables)  # hypotheses of a sentence
        # Autocast is off: the result is a distribution and must not be rounded to the logits' dtype.
        with torch.autocast(powers.device.type, enabled=False):
            grouped = powers.view(len(tables), num_hypotheses, -1)
            sums = torch.bmm(grouped, tables.transpose(1, 2)).flatten(0, 1)
            sums = sums.clamp_min(torch.finfo(sums.dtype).tiny)
            weights = attention_step.log_weights[:, : positions.shape[1]].to(sums.dtype).exp()
            # `scatter_add`, because several contexts may be the same source position.
            shares = torch.zeros_like(sums).scatter_add(1, positions, weights / sums.gather(1, positions))
            mixed = torch.bmm(shares.view(len(tables), num_hypotheses, -1), tables).flatten(0, 1)

        def likelihood(rows: Int[Tensor, "n"], tokens: Int[Tensor, "n"]) -> Float[Tensor, "n K"]:
            places = positions[rows]
            exp_logits = tables[(rows // num_hypotheses).unsqueeze(1), places, tokens.unsqueeze(1)]
            both = clamped_log(exp_logits) + clamped_log(powers[rows, tokens]).unsqueeze(1)
            return both - sums[rows].gather(1, places).log()

        return Mixture(mixed * powers, likelihood)
