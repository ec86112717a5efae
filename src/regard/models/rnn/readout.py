"""The likelihood of a token under each source position, for models with a linear output layer.

The logits are O W [x_j; s_t] + b, without tanh. They are the sum of the source position's part
g_j = O W_x x_j + b, computed once per sentence, and the state's part h_t = O W_s s_t, computed once per time
step. The sum over the vocabulary is then a matrix multiplication of their exponentials:

    log p(y | s_t, x_j) = g_jy + h_ty - log sum_v exp(g_jv) exp(h_tv).

The logits of all source positions, time steps and tokens are therefore never kept in memory. Each factor is
computed relative to its largest logit. Where the product of the two factors is smaller than 1e-38, i.e. where
their maxima are 87 nats apart, the sum is clamped to that value.

With p_tjv = exp(g_jv + h_tv) / sum and c_tj the gradient of log p, the gradients are

    d h_tv = sum_j c_tj (1(v = y_t) - p_tjv),   d g_jv = sum_t c_tj (1(v = y_t) - p_tjv),

which are matrix multiplications too. The gradient of g is computed after the backward pass has visited all
time steps, as for weights in `layers.step_linear`.

Search needs the probabilities of all tokens. With u_tv = exp(h_tv - max_v h_tv), the mixture over source
positions is also a matrix multiplication:

    sum_j w_tj p(y | s_t, x_j) = u_ty sum_j (w_tj / z_tj) exp(g_jy),   z_tj = sum_v exp(g_jv) u_tv,

in which all hypotheses of a sentence share exp(g).
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from regard.attention.base import AttentionStep, Memory
from regard.functional import linear_exponentials
from regard.functional.dispatch import accumulation_dtype
from regard.kernels.backend import apply, first_order
from regard.kernels.matmul import linear
from regard.layers.linear import compute_dtype
from regard.layers.step_linear import StepLinear
from regard.models.output import Mixture, OutputLayer, clamped_log
from regard.types import Float, Int, Tensor

__all__ = ["ReadoutMemory", "SourceReadout"]

STEPS_PER_PRODUCT = 8
"""Number of time steps whose contributions to the gradient of g are computed in one matrix multiplication."""
Visits = list[tuple[Tensor, Tensor]]


class _SourceLogits(torch.autograd.Function):
    """Compute exp(g - max g) and the targets' logits; the backward pass runs after those of all steps."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, visits: Visits, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        exact = logits.to(accumulation_dtype(logits.dtype))
        index = targets.unsqueeze(1).expand(-1, logits.shape[1], -1)
        picked, mean = exact.gather(2, index), exact.mean(-1)
        top = exact.amax(-1, keepdim=True)
        powers = exact.sub(top).exp_().to(dtype)
        ctx.save_for_backward(powers, index)
        ctx.visits, ctx.dtype = visits, logits.dtype
        # `top` cancels in log p, so its gradient is not needed.
        ctx.mark_non_differentiable(top)
        return powers, picked, mean, top.squeeze(-1)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        powers, index = ctx.saved_tensors
        _, picked, mean, _ = grads
        gradient = torch.zeros_like(powers)
        # One product for several steps: sum_t share_tj u_tv.
        for start in range(0, len(ctx.visits), STEPS_PER_PRODUCT):
            steps = ctx.visits[start : start + STEPS_PER_PRODUCT]
            shares = torch.stack([share for _, share in steps], dim=2)  # (B, S, t)
            gradient.baddbmm_(shares, torch.stack([state for state, _ in steps], dim=1))
        ctx.visits.clear()
        # Gradient of g through the normalizer: exp(g_jv - top) sum_t share_tj u_tv.
        gradient = gradient.mul_(powers).to(accumulation_dtype(gradient.dtype))
        if picked is not None:
            gradient.scatter_add_(2, index, picked)
        if mean is not None:
            gradient += (mean / gradient.shape[-1]).unsqueeze(-1)
        return gradient.to(ctx.dtype), None, None, None


class _StateLogits(torch.autograd.Function):
    """Compute log sum_v exp(g_v - max g + h_v) per source position, the target's logit, and the mean."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, powers: Tensor, targets: Tensor, visits: Visits
    ) -> tuple[Tensor, Tensor, Tensor]:
        exact = logits.to(accumulation_dtype(logits.dtype))
        index = targets.unsqueeze(1)
        picked, mean = exact.gather(1, index).squeeze(1), exact.mean(-1)
        top = exact.amax(-1, keepdim=True)
        state = exact.sub(top).exp_().to(powers.dtype)
        # A row vector times a matrix: on a CPU a matrix times a column vector takes several times as long.
        sums = torch.bmm(state.unsqueeze(1), powers.transpose(1, 2)).squeeze(1).to(exact.dtype)
        # Avoids log(0) where the maxima of the two factors are more than 87 nats apart.
        sums = sums.clamp_min_(torch.finfo(torch.float32).tiny)
        ctx.save_for_backward(state, powers, sums, index)
        ctx.set_materialize_grads(False)
        ctx.visits, ctx.dtype = visits, logits.dtype
        return sums.log() + top, picked, mean

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        state, powers, sums, index = ctx.saved_tensors
        normalizer, picked, mean = grads
        assert normalizer is not None  # every likelihood has it
        share = (normalizer / sums).to(powers.dtype)
        ctx.visits.append((state, share))
        gradient = torch.bmm(share.unsqueeze(1), powers).squeeze(1).mul_(state).to(sums.dtype)
        if picked is not None:
            gradient.scatter_add_(1, index, picked.unsqueeze(1))
        if mean is not None:
            gradient += (mean / gradient.shape[-1]).unsqueeze(-1)
        return gradient.to(ctx.dtype), None, None, None


def _source_hidden(
    states: Tensor, combine: Tensor, weight: Tensor, noise: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return the input of the output layer that depends on the source alone, [B, S, Q]."""
    return noise(linear(states.to(weight.dtype), combine[: states.shape[-1]].to(weight.dtype)))


@dataclass(frozen=True)
class SourceReadout:
    """A linear output layer, prepared for one batch: the source part of all steps, and the step products.

    Attributes:
        combine: W_s, prepared.
        output: O, prepared, as [Q, V].
        dropout: The dropout function.
        max_logits: [B, S], the largest logit of each source position.
        exp_logits: [B, S, V], exp(g_j - max g_j).
        target_logits: [B, S, T], the logit of each target token.
        mean_logits: [B, S], the mean logit.
        visits: The steps whose gradient has not been added yet.
    """

    combine: StepLinear
    output: StepLinear
    dropout: Callable[[Tensor], Tensor]
    max_logits: Float[Tensor, "B S"]
    exp_logits: Float[Tensor, "B S V"]
    target_logits: Float[Tensor, "B S T"]
    mean_logits: Float[Tensor, "B S"]
    visits: Visits

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
        """Prepare the output layer for a batch.

        Args:
            states: x.
            combine: W, transposed: D rows for x, followed by the rows for s.
            output: O.
            bias: b.
            targets: y.
            dropout: The dropout function.
        """
        width, visits = states.shape[-1], list[tuple[Tensor, Tensor]]()
        logits = linear(_source_hidden(states, combine, output, dropout), output.t(), bias)
        powers, picked, mean, top = apply(_SourceLogits, logits, targets, visits, compute_dtype(combine))
        opened = StepLinear.prepare(combine[width:]), StepLinear.prepare(output.t())
        return cls(*opened, dropout, top, powers, picked, mean, visits)

    def score(
        self, state: Float[Tensor, "B Q"], targets: Int[Tensor, "B"], step: int
    ) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"]]:
        """Return log p(y_t) under each source position, and the mean of log p over the vocabulary.

        Args:
            state: s_t.
            targets: y_t.
            step: t, counted from 0.
        """
        logits = self.output(self.dropout(self.combine(state)))
        normalizer, picked, mean = apply(_StateLogits, logits, self.exp_logits, targets, self.visits)
        # `_StateLogits` works with exp(g - max g), so the maximum is added to log sum_v again.
        normalizer = normalizer + self.max_logits
        log_likelihoods = self.target_logits[:, :, step] + picked.unsqueeze(1) - normalizer
        return log_likelihoods, self.mean_logits + mean.unsqueeze(1) - normalizer


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
        powers, _ = linear_exponentials(_source_hidden(memory.states, combine, weight, dropout), weight, bias)
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

        Args:
            state: s_t of each hypothesis.
            attention_step: The attention step; its first contexts are source positions.
            combine: W; see `SourceReadout.open`.
            output: O.
            dropout: The dropout function.
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
