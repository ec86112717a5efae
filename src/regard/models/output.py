"""The output layer's part in a model: how likely tokens are, given what it reads under each context."""

from dataclasses import dataclass

import torch

from regard.attention.base import Ending, Reading
from regard.functional import linear_exponentials, linear_log_likelihood, linear_log_softmax
from regard.kernels.products import linear
from regard.layers.rows import Rows
from regard.models.base import Chosen, Prediction
from regard.types import Bool, Float, Int, Tensor

__all__ = [
    "Layer",
    "Mixture",
    "likeliest_tokens",
    "log_positive",
    "mix",
    "predict",
    "readable",
    "real_tokens",
    "score_tokens",
    "spread",
]

Layer = tuple[Tensor, Tensor]
"""Weights [V, D] and biases [V], in the dtype of the products."""


@dataclass(frozen=True)
class Mixture:
    """What some contexts contribute to the distribution over the next token.

    Attributes:
        probabilities: [N, V], the sum over these contexts of w_k p(v | context k).
        likelihood: Log p(token | context k) of the tokens chosen for some rows.
    """

    probabilities: Float[Tensor, "N V"]
    likelihood: Chosen


def log_positive(values: Tensor) -> Tensor:
    """The logarithm; of what is too small for a number that of the smallest one (-87 in float32)."""
    return values.clamp_min(torch.finfo(values.dtype).tiny).log()


def mix(hidden: Float[Tensor, "N K D"], output: Layer, log_weights: Float[Tensor, "N K"]) -> Mixture:
    """The distributions that the output layer reads, by their weights.

    Args:
        hidden: What the output layer reads, one a context.
        output: The output layer.
        log_weights: Log w_k.
    """
    weight, bias = output
    powers, sums = linear_exponentials(hidden.to(weight.dtype), weight, bias)
    shares = (log_weights.to(sums.dtype).exp() / sums).unsqueeze(1)

    def likelihood(rows: Int[Tensor, "n"], tokens: Int[Tensor, "n"]) -> Float[Tensor, "n K"]:
        return log_positive(powers[rows, :, tokens]) - sums[rows].log()

    with torch.autocast(powers.device.type, enabled=False):
        return Mixture(torch.bmm(shares, powers)[:, 0], likelihood)


def predict(
    hidden: Float[Tensor, "B K D"] | None,
    output: Layer,
    readings: tuple[Reading, ...],
    state: Rows,
    ending: Ending | None,
    several: bool,
    words: Mixture | None = None,
) -> Prediction:
    """The distribution over the next token.

    Args:
        hidden: What the output layer reads of each context, of those that are not in `words`; none: all are.
        output: The output layer.
        readings: Of each attending layer; the contexts are the last one's.
        state: The decoder's state, before it knows the token.
        ending: What attention demands of the end.
        several: Whether the contexts are to be marginalised; else there is one.
        words: What the contexts before those of `hidden` contribute.
    """
    if not several:
        assert hidden is not None
        weight, bias = output
        log_probs = linear_log_softmax(hidden[:, 0].to(weight.dtype), weight, bias)
        return Prediction(log_probs, None, readings, state, ending)
    parts = [] if words is None else [words]
    if hidden is not None:
        parts.append(mix(hidden, output, readings[-1].log_weights[:, -hidden.shape[1] :]))
    probabilities = parts[0].probabilities
    for part in parts[1:]:
        probabilities = probabilities + part.probabilities

    def by_context(rows: Int[Tensor, "n"], tokens: Int[Tensor, "n"]) -> Float[Tensor, "n K"]:
        return torch.cat([part.likelihood(rows, tokens) for part in parts], dim=1)

    return Prediction(log_positive(probabilities), by_context, readings, state, ending)


def score_tokens(
    hidden: Float[Tensor, "N K D"],
    output: Layer,
    targets: Int[Tensor, "N"],
    average: bool,
    wanted: Bool[Tensor, "N K"] | None = None,
) -> tuple[Float[Tensor, "N K"], Float[Tensor, "N K"]]:
    """Log p(y | context k), and the mean over the vocabulary where it is asked for.

    Args:
        hidden: What the output layer reads.
        output: The output layer.
        targets: y.
        average: Whether the mean is wanted.
        wanted: The contexts that are scored, the others getting zeros; none: all.
    """
    count = hidden.shape[1]
    weight, bias = output
    chosen, repeated = hidden.flatten(0, 1).to(weight.dtype), targets.repeat_interleave(count)
    places = None if wanted is None else wanted.flatten().nonzero().squeeze(1)
    if places is not None:
        chosen, repeated = chosen.index_select(0, places), repeated.index_select(0, places)
    # The logits of several contexts are made again in the backward pass: held, they would be K times as many
    # as those of one.
    found, means = linear_log_likelihood(chosen, weight, bias, repeated, average=average, hold=count == 1)
    if places is not None:
        zeros = found.new_zeros(hidden.shape[0] * count)
        found, means = (zeros.index_put((places,), values) for values in (found, means))
    return found.view(-1, count), means.view(-1, count)


def readable(reading: Reading) -> Bool[Tensor, "B *T C"] | None:
    """Which contexts can be read, so that no work goes into padding; none: all, or nobody looked.

    On a CPU alone: a GPU would have to be waited for. Contexts that are no words are never left out, some
    being scored though they are not read (the baseline of REINFORCE).

    Args:
        reading: Of one step, or of all.
    """
    if reading.positions is None or reading.log_weights.device.type != "cpu":
        return None
    found = reading.log_weights.isfinite()
    return None if bool(found.all()) else found


def real_tokens(values: Tensor, mask: Bool[Tensor, "B T"]) -> Tensor:
    """What belongs to real tokens: [B, T, ...] to [N, ...]."""
    return values.flatten(0, 1).index_select(0, mask.flatten().nonzero().squeeze(1))


def spread(values: Float[Tensor, "N K"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T K"]:
    """The inverse of `real_tokens`: numbers in their places; zero elsewhere."""
    zeros = values.new_zeros(mask.numel(), values.shape[1])
    real = mask.flatten().nonzero().squeeze(1)
    return zeros.index_put((real,), values).view(*mask.shape, -1)


@torch.no_grad()
def likeliest_tokens(hidden: Float[Tensor, "B T D"], output: Layer) -> Int[Tensor, "B T"]:
    """The likeliest token of each step."""
    weight, bias = output
    return linear(hidden.to(weight.dtype), weight.t(), bias).argmax(-1)
