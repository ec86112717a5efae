"""Attribution of the probability of each target token to the source tokens, as a map alongside attention.

With p_t = p(y_t | y_<t, x) under forced decoding and e_j the embedding of source token j, token j contributes

    gradient       e_j . d log p_t / d e_j, gradient times input (Shrikumar et al. (2017), Section 3)
    leave_one_out  p_t(x) - p_t(x without token j) (Li et al. (2016), Section 3)

Gradients are taken with respect to a factor of each embedding (`PaddedSequences.embedding_scale`), whose
derivative at 1 is e_j . d log p_t / d e_j. Sinks and the special symbols of a pre-trained tokenizer are kept
everywhere and receive no contribution.

A map shows the positive contributions, divided by their sum at each time step: a token with a negative
contribution makes the prediction less probable. A row without a positive contribution is zero.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from regard.data.batch import Batch, PaddedSequences
from regard.errors import InfeasibleBoundsError, UsageError
from regard.generation.config import AlignmentConfig
from regard.models.base import TranslationModel
from regard.text.vocabulary import PAD
from regard.types import Float, Int, Tensor

_MAX_TOKENS = 4096  # maximum number of padded tokens of a forward pass that keeps its activations
_MAX_PREFIXES = 8  # maximum number of prefixes of a target in a forward pass


class Attribution(NamedTuple):
    """The attribution of the T tokens of a translation, the last of which is the end symbol."""

    contributions: Float[np.ndarray, "T S"]  # to log p_t in nats or, for `leave_one_out`, to p_t
    weights: Float[np.ndarray, "T 1 S"]  # the map, in the form of an attention layer with one head


def attribute_pairs(model: TranslationModel, batch: Batch, config: AlignmentConfig) -> list[Attribution]:
    """Return the attribution of each sentence pair. The arguments are those of `attribute`."""
    assert batch.target is not None
    contributions = attribute(model, batch, config)
    weights, values = to_map(contributions).float().cpu().numpy(), contributions.cpu().numpy()
    lengths = zip(batch.target.lengths.tolist(), batch.source.lengths.tolist(), strict=True)
    return [
        Attribution(values[row, :steps, :positions].copy(), weights[row, :steps, None, :positions].copy())
        for row, (steps, positions) in enumerate(lengths)
    ]


def to_map(contributions: Float[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
    """Return the positive contributions, divided by their sum over the source tokens."""
    positive = contributions.clamp(min=0)
    return positive / positive.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(positive.dtype).tiny)


def attribute(model: TranslationModel, batch: Batch, config: AlignmentConfig) -> Float[Tensor, "B T S"]:
    """Return the contribution of each source token to each target token, positive or negative.

    Contributions are 0 at sinks and padding.

    Args:
        model: The model, whose source embeddings must have a gradient except for `leave_one_out`.
        batch: Sources and targets, each target ending in the end symbol, on the model's device.
        config: The kind of the map, which is not `attention`.

    Returns:
        Contributions to log p_t in nats, or, for `leave_one_out`, to p_t; in float64.

    Raises:
        UsageError: if the fertilities of the other tokens do not suffice for the target of `leave_one_out`.
    """
    assert batch.target is not None
    with _frozen(model):
        return _leave_one_out(model, batch) if config.map == "leave_one_out" else _gradients(model, batch)


@contextmanager
def _frozen(model: TranslationModel) -> Iterator[None]:
    """Run the model without dropout and without gradients of parameters, which would be most of the work."""
    training, trained = model.training, [part for part in model.parameters() if part.requires_grad]
    model.eval()
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        model.train(training)
        for parameter in trained:
            parameter.requires_grad_(True)


def _gradients(model: TranslationModel, batch: Batch) -> Float[Tensor, "B T S"]:
    """Return the gradients of the log-probabilities with respect to the scales of the embeddings."""
    assert batch.target is not None
    # Each time step needs a gradient of its own. A forward and a backward pass of many rows, one for each
    # prefix of each target, take less time than a backward pass for each step.
    shape = len(batch), batch.target.tokens.shape[1], batch.source.tokens.shape[1]
    device = batch.source.tokens.device
    gradients = torch.zeros(shape, dtype=torch.float64, device=device)
    steps, rows = batch.target.mask.T.nonzero(as_tuple=True)  # sorted by step, so that padding is short
    # A few steps at a time: the prefixes of a part are padded to its longest one.
    size = min(max(1, _MAX_TOKENS // max(shape[1:])), _MAX_PREFIXES * len(batch))
    for part in torch.arange(len(steps), device=device).split(size):
        width = int(steps[part].max()) + 1
        target = PaddedSequences(batch.target.tokens[rows[part], :width], steps[part] + 1)
        target = replace(target, tokens=target.tokens.masked_fill(~target.mask, PAD))
        prefixes = batch.with_targets(rows[part], target)
        gradients[rows[part], steps[part]] = _last_gradients(model, prefixes)
    return gradients


def _last_gradients(model: TranslationModel, batch: Batch) -> Float[Tensor, "B S"]:
    """Return the gradient of the log-probability of each last token with respect to the scales."""
    assert batch.target is not None
    words = batch.source.word_mask
    dtype = next(parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())
    scale = torch.ones(words.shape, dtype=dtype, device=words.device, requires_grad=True)
    with torch.enable_grad():
        positions = torch.arange(batch.target.tokens.shape[1], device=words.device)
        scored = positions == batch.target.lengths.unsqueeze(1) - 1
        scaled_batch = replace(batch, source=replace(batch.source, embedding_scale=scale), scored=scored)
        last = model(scaled_batch, output_attentions="nothing").log_likelihood[scored].sum()
    if not last.requires_grad:  # a model without attention to the source
        return torch.zeros(words.shape, dtype=torch.float64, device=words.device)
    (gradients,) = torch.autograd.grad(last, scale)
    return gradients.double().masked_fill(~words, 0.0)


def _leave_one_out(model: TranslationModel, batch: Batch) -> Float[Tensor, "B T S"]:
    """Return the fall of each probability when a source token is removed; all of it for the only token."""
    assert batch.target is not None
    whole = _probabilities(model, batch)
    words = batch.source.word_mask
    drops = torch.zeros(*whole.shape, words.shape[1], dtype=torch.float64, device=whole.device)
    single = words.sum(dim=1) == 1
    drops[single] = whole[single].unsqueeze(2) * words[single].unsqueeze(1)
    owners, places = (words & ~single.unsqueeze(1)).nonzero(as_tuple=True)
    size = max(1, _MAX_TOKENS // max(whole.shape[1], words.shape[1]))
    # `split` would yield an empty part if there is nothing to remove.
    for rows in torch.arange(len(owners), device=whole.device).split(size) if len(owners) else ():
        target = PaddedSequences(batch.target.tokens[owners[rows]], batch.target.lengths[owners[rows]])
        removed = _without(batch.with_targets(owners[rows], target), places[rows])
        try:
            without = _probabilities(model, removed)
        except InfeasibleBoundsError as error:
            raise UsageError(
                "map leave_one_out: without one of its tokens, the fertilities of a source sentence do not "
                "suffice for the translation: use another map, or a model with data.fertility.sink"
            ) from error
        drops[owners[rows], :, places[rows]] = whole[owners[rows]] - without
    return drops


def _probabilities(model: TranslationModel, batch: Batch) -> Float[Tensor, "B T"]:
    """Return the probability of each target token, 0 at padding."""
    assert batch.target is not None
    with torch.inference_mode():
        probabilities = model(batch, output_attentions="nothing").log_likelihood.double().exp()
        return probabilities.masked_fill(~batch.target.mask, 0.0)


def _without(batch: Batch, places: Int[Tensor, "B"]) -> Batch:
    """Return the batch without one token of each source."""
    positions = torch.arange(batch.source.tokens.shape[1] - 1, device=places.device).expand(len(places), -1)
    indices = positions + (positions >= places.unsqueeze(1))
    upper, lower = (
        None if bounds is None else bounds.gather(1, indices)
        for bounds in (batch.upper_bounds, batch.lower_bounds)
    )
    source = PaddedSequences(batch.source.tokens.gather(1, indices), batch.source.lengths - 1)
    return replace(batch, source=source, upper_bounds=upper, lower_bounds=lower)
