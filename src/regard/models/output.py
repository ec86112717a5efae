"""The output layer: token probabilities for each attention context, and their mixture over contexts."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.attention.base import AttentionStep, EosConstraint
from regard.functional import linear_exponentials, linear_log_likelihood, linear_log_softmax
from regard.kernels.matmul import linear
from regard.layers.batched_state import BatchedState
from regard.models.base import Prediction, TokenScorer
from regard.types import Bool, Float, Int, Tensor

OutputLayer = tuple[Tensor, Tensor]
"""Weights [V, D] and biases [V], in the compute dtype."""


@dataclass(frozen=True)
class Mixture:
    """The contribution of a set of contexts to the distribution over the next token.

    Attributes:
        probabilities: [N, V], the sum of w_k p(v | context k) over these contexts.
        likelihood: A function of rows and tokens that returns log p(token | context k).
    """

    probabilities: Float[Tensor, "N V"]
    likelihood: TokenScorer


def clamped_log(values: Tensor) -> Tensor:
    """Return the logarithm, with values clamped to the smallest normal number (-87 in float32)."""
    return values.clamp_min(torch.finfo(values.dtype).tiny).log()


def mix_contexts(
    hidden: Float[Tensor, "N K D"], output: OutputLayer, log_weights: Float[Tensor, "N K"]
) -> Mixture:
    """Mix the output distributions of several contexts with their log-weights, given the layer's inputs."""
    weight, bias = output
    # p(v | context k) = powers_kv / sums_k, so w_k / sums_k mixes all distributions in one product.
    exponentials, sums = linear_exponentials(hidden.to(weight.dtype), weight, bias)
    shares = (log_weights.to(sums.dtype).exp() / sums).unsqueeze(1)
    # Autocast would round the probabilities to half precision.
    with torch.autocast(exponentials.device.type, enabled=False):
        return Mixture(
            torch.bmm(shares, exponentials)[:, 0],
            lambda rows, tokens: clamped_log(exponentials[rows, :, tokens]) - sums[rows].log(),
        )


def predict(
    hidden: Float[Tensor, "B K D"] | None,
    output: OutputLayer,
    attention_steps: tuple[AttentionStep, ...],
    state: BatchedState,
    eos_constraint: EosConstraint | None,
    marginalize_contexts: bool,
    source_mixture: Mixture | None = None,
) -> Prediction:
    """Compute the distribution over the next token.

    Args:
        hidden: The input of the output layer for each context that is not in `source_mixture`. None if
            `source_mixture` covers all contexts.
        output: The output layer.
        attention_steps: One attention step per layer; the contexts are those of the last one.
        state: The decoder's state before it is updated with the chosen token.
        eos_constraint: The mechanisms' constraint on the end symbol, or None.
        marginalize_contexts: Whether to marginalize over several contexts. If not, there is one context.
        source_mixture: The contribution of the contexts that precede those of `hidden`, or None.
    """
    if not marginalize_contexts:
        assert hidden is not None
        weight, bias = output
        log_probs = linear_log_softmax(hidden[:, 0].to(weight.dtype), weight, bias)
        return Prediction(log_probs, None, attention_steps, state, eos_constraint)
    parts = [] if source_mixture is None else [source_mixture]
    if hidden is not None:
        # The contexts of `hidden` come after those of `source_mixture`.
        parts.append(mix_contexts(hidden, output, attention_steps[-1].log_weights[:, -hidden.shape[1] :]))
    # The two sets of contexts are disjoint, so their contributions add up.
    probabilities = parts[0].probabilities
    for part in parts[1:]:
        probabilities = probabilities + part.probabilities
    return Prediction(
        clamped_log(probabilities),
        lambda rows, tokens: torch.cat([part.likelihood(rows, tokens) for part in parts], dim=1),
        attention_steps,
        state,
        eos_constraint,
    )


def score_tokens(
    hidden: Float[Tensor, "N K D"],
    output: OutputLayer,
    targets: Int[Tensor, "N"],
    mean_log_probs: bool,
    scored: Bool[Tensor, "N K"] | None = None,
) -> tuple[Float[Tensor, "N K"], Float[Tensor, "N K"]]:
    """Return log p(y | context k), and its mean over the vocabulary if requested.

    Args:
        hidden: The input of the output layer.
        output: The output layer.
        targets: y.
        mean_log_probs: Whether to compute the mean.
        scored: The contexts to score; the others get zeros. None means all.
    """
    count = hidden.shape[1]
    weight, bias = output
    chosen, repeated = hidden.flatten(0, 1).to(weight.dtype), targets.repeat_interleave(count)
    # Score only the wanted rows of [N * K, D], and scatter the results back below.
    rows = None if scored is None else scored.flatten().nonzero().squeeze(1)
    if rows is not None:
        chosen, repeated = chosen.index_select(0, rows), repeated.index_select(0, rows)
    # With several contexts the logits are recomputed in the backward pass: keeping them would take K times
    # the memory of one context.
    log_likelihoods, means = linear_log_likelihood(
        chosen, weight, bias, repeated, return_mean=mean_log_probs, keep_exponentials=count == 1
    )
    if rows is not None:
        zeros = log_likelihoods.new_zeros(hidden.shape[0] * count)
        log_likelihoods, means = (zeros.index_put((rows,), values) for values in (log_likelihoods, means))
    return log_likelihoods.view(-1, count), means.view(-1, count)


def scored_contexts(attention_step: AttentionStep) -> Bool[Tensor, "B *T C"] | None:
    """Return which contexts are not padding, so that no time is spent on padding. None means that none is.

    On a GPU always None, because reading the mask would synchronize with the device. Also None for contexts
    that are not single source positions: some of these must be scored although their weight is zero (the
    baseline of REINFORCE).
    """
    if attention_step.positions is None or attention_step.log_weights.device.type != "cpu":
        return None
    finite = attention_step.log_weights.isfinite()
    return None if bool(finite.all()) else finite


def score_real_tokens(
    hidden: Float[Tensor, "B T K D"],
    output: OutputLayer,
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    mean_log_probs: bool,
    scored: Bool[Tensor, "B T K"] | None = None,
    norm: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "B T K"], Float[Tensor, "B T K"]]:
    """Return log p(y_t | context k), and its mean over the vocabulary; zero at padding.

    The arguments are those of `score_tokens`; `norm` is applied to the real tokens of `hidden` before.
    """
    # Only the real tokens, so that no time is spent on padding: [N, ...]
    index = mask.flatten().nonzero().squeeze(1)
    real, picked, chosen = (
        None if x is None else x.flatten(0, 1).index_select(0, index) for x in (hidden, targets, scored)
    )
    assert real is not None and picked is not None
    real = real if norm is None else norm(real)
    log_likelihoods, means = score_tokens(real, output, picked, mean_log_probs, chosen)
    return scatter_real_tokens(log_likelihoods, mask), scatter_real_tokens(means, mask)


def scatter_real_tokens(values: Float[Tensor, "N K"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T K"]:
    """Return the values at the real tokens, zero elsewhere."""
    zeros = values.new_zeros(mask.numel(), values.shape[1])
    real = mask.flatten().nonzero().squeeze(1)
    return zeros.index_put((real,), values).view(*mask.shape, -1)


@torch.no_grad()
def top_tokens(hidden: Float[Tensor, "B T D"], output: OutputLayer) -> Int[Tensor, "B T"]:
    """Return the top-scoring token of each step."""
    weight, bias = output
    # The softmax does not change the order of the logits, so it is omitted.
    return linear(hidden.to(weight.dtype), weight.t(), bias).argmax(-1)
