"""Decoders without recurrence: a stack of layers, each with its own cross-attention mechanism.

The mechanism splits a layer into two halves (`Asking`). The first half computes the query from the target
prefix; the second half computes the layer's output from the contexts that the mechanism returns. Training
runs all time steps at once, search runs one. A mechanism with several contexts is in the last layer; that
layer's second half and the distribution over the next token are computed for each context.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from regard.attention.base import Attention, Ending, Memory, Reading, Reference, State
from regard.data.batch import Batch
from regard.errors import InfeasibleBounds
from regard.layers.rows import Rows, select_rows
from regard.models.base import Look, Memories, Outcome, Prediction, used_up
from regard.models.output import Layer, likeliest_tokens, predict, readable, real_tokens, score_tokens, spread
from regard.types import Bool, Float, Int, Tensor

__all__ = ["Advanced", "Asking", "SourceStack", "StackState", "observed"]


@dataclass(frozen=True)
class StackState(Rows):
    """The state of the decoder after a step.

    Attributes:
        caches: Each layer's cache of the target prefix.
        attentions: The state of each layer's mechanism.
    """

    caches: tuple[Rows, ...]
    attentions: tuple[State, ...]


@dataclass(frozen=True)
class Asking:
    """The first half of a layer, before cross-attention.

    Attributes:
        kept: The residual input of `finish`.
        queries: The queries of the mechanism.
        finish: A function that computes the layer's output from `kept` (whose leading axes may be 1) and the
            contexts.
        seen: The layer's self-attention weights, if it has any and they were requested.
    """

    kept: Float[Tensor, "*B D"]
    queries: Float[Tensor, "*B Q"]
    finish: Callable[[Tensor, Tensor], Tensor]
    seen: Float[Tensor, "B _ T T"] | None = None


Ask = Callable[[int, Tensor], Asking]
"""Computes the first half of layer i for a whole target, from [B, T, D]."""
Advance = Callable[[int, Tensor], tuple[Asking, Rows]]
"""Computes the first half of layer i for one more token, from [B, D], and the updated cache."""


@dataclass(frozen=True)
class Advanced(Rows):
    """The result of one step of all layers.

    Attributes:
        hidden: [B, K, D], the last layer's states.
        readings: One attention step per layer.
        caches: The updated cache of each layer.
        ending: The mechanisms' constraint on the end symbol, or None.
    """

    hidden: Float[Tensor, "B K D"]
    readings: tuple[Reading, ...]
    caches: tuple[Rows, ...]
    ending: Ending | None


@dataclass(frozen=True)
class _Scored:
    """The scores of the targets, with the last layer's attention if it was requested."""

    log_likelihoods: Float[Tensor, "B T K"]
    average: Float[Tensor, "B T K"]
    reading: Reading | None
    likeliest: Int[Tensor, "B T"] | None = None


class SourceStack:
    """The mechanisms of all layers, and the output layer.

    Args:
        sources: Each layer's mechanism, lowest layer first.
        ready: A function from the last layer's states to the input of the output layer.
        output: The output layer.
    """

    def __init__(
        self, sources: Sequence[Attention], ready: Callable[[Tensor], Tensor], output: Layer
    ) -> None:
        """Store the parts."""
        self.sources, self.ready, self.output = sources, ready, output

    # --- search ---------------------------------------------------------------------------------------

    def advance(
        self, x: Float[Tensor, "B D"], memories: Memories, attentions: tuple[State, ...], half: Advance
    ) -> Advanced:
        """Run one step of all layers.

        Args:
            x: The input of the lowest layer.
            memories: Each layer's prepared memory.
            attentions: Each mechanism's state after the previous step.
            half: A function that computes the first half of a layer.
        """
        readings: list[Reading] = []
        caches: list[Rows] = []
        endings: list[Ending | None] = []
        hidden = x.unsqueeze(1)
        for i, (source, memory, before) in enumerate(zip(self.sources, memories, attentions, strict=True)):
            # Only the last layer may have K > 1 contexts, so every layer's input has K = 1.
            asking, cache = half(i, hidden[:, 0])
            reading = source.read(asking.queries, memory, before)
            hidden = asking.finish(asking.kept.unsqueeze(1), reading.contexts)  # (B, K, D)
            readings.append(reading)
            caches.append(cache)
            # The constraint depends on the state before this step, not on the reading.
            endings.append(source.ending(memory, before))
        return Advanced(hidden, tuple(readings), tuple(caches), Ending.of_all(endings))

    def predict(self, advanced: Advanced, pending: Rows) -> Prediction:
        """Compute the distribution over the next token.

        Args:
            advanced: The result of `advance`.
            pending: The decoder's state before it is updated with the chosen token.
        """
        hidden, several = self.ready(advanced.hidden), self.sources[-1].observes
        return predict(hidden, self.output, advanced.readings, pending, advanced.ending, several)

    # --- training -------------------------------------------------------------------------------------

    def outcome(
        self,
        x: Float[Tensor, "B T D"],
        memories: Memories,
        half: Ask,
        batch: Batch,
        *,
        average: bool,
        look: Look,
        likeliest: bool,
        reference: Reference | None,
        encoder: tuple[Tensor, ...] = (),
    ) -> Outcome:
        """Compute the log-likelihoods of the targets (teacher forcing).

        Args:
            x: The input of the lowest layer.
            memories: Each layer's memory, not prepared.
            half: A function that computes the first half of a layer.
            batch: Sources and targets.
            average: Whether to compute `Outcome.average`.
            look: The attention weights to return.
            likeliest: Whether to compute `Outcome.likeliest`.
            reference: The target embeddings, for mechanisms with an inference network.
            encoder: `Outcome.encoder`.

        Raises:
            InfeasibleBounds: if the fertilities of a sentence are exhausted. The message names the sentence.
        """
        assert batch.target is not None
        weights: list[Tensor] = []
        beliefs: list[Tensor] = []
        seen: list[Tensor] = []
        penalty = torch.zeros((), device=x.device)
        try:
            for i, memory in enumerate(memories[:-1]):
                asking = half(i, x)
                contexts, reading = _read(self.sources[i], asking, memory, look)
                x = asking.finish(asking.kept, contexts)
                if reading is not None:
                    weights.append(reading.weights)
                    beliefs.append(reading.weights if reading.beliefs is None else reading.beliefs)
                    penalty = penalty + reading.penalty
                if asking.seen is not None:
                    seen.append(asking.seen)
            asking = half(len(memories) - 1, x)
            if asking.seen is not None:
                seen.append(asking.seen)
            # Mechanisms that observe have several contexts, which are scored one by one.
            if self.sources[-1].observes:
                scored = self._score_contexts(asking, memories[-1], batch, average, reference)
            else:
                scored = self._score(asking, memories[-1], batch, average, look, likeliest)
        except InfeasibleBounds as error:
            raise used_up(batch, error) from None
        # `None` if no attention was requested and the mechanism used its fast path.
        last = scored.reading
        if last is not None:
            weights.append(last.weights)
            beliefs.append(last.weights if last.beliefs is None else last.beliefs)
            penalty = penalty + last.penalty
        zeros = torch.zeros_like(scored.log_likelihoods)
        return Outcome(
            log_likelihoods=scored.log_likelihoods,
            average=scored.average,
            log_weights=zeros if last is None else last.log_weights,
            log_policy=zeros if last is None else last.log_policy,
            # Without any penalty it is still a scalar zero.
            penalty=penalty.expand(batch.target.tokens.shape),
            mask=batch.target.mask,
            weights=tuple(weights),
            beliefs=tuple(beliefs),
            likeliest=scored.likeliest,
            expected=None if last is None else last.expected,
            encoder=encoder,
            decoder=tuple(seen),
        )

    def _score(
        self, asking: Asking, memory: Memory, batch: Batch, average: bool, look: Look, likeliest: bool
    ) -> _Scored:
        """Attend in a last layer with one context, and score the targets."""
        assert batch.target is not None
        contexts, reading = _read(self.sources[-1], asking, memory, look)
        hidden = asking.finish(asking.kept, contexts).unsqueeze(2)
        found = likeliest_tokens(self.ready(hidden[:, :, 0]), self.output) if likeliest else None
        return _Scored(
            *self._score_real(hidden, batch.target.tokens, batch.target.mask, average), reading, found
        )

    def _score_contexts(
        self, asking: Asking, memory: Memory, batch: Batch, average: bool, reference: Reference | None
    ) -> _Scored:
        """Attend in a last layer with several contexts, and score the targets under each of them."""
        assert batch.target is not None
        targets, mask = batch.target.tokens, batch.target.mask
        source = self.sources[-1]
        prepared = source.prepare(memory)
        steps: list[tuple[Tensor, Tensor]] = []

        def likelihood(contexts: Float[Tensor, "B K D"], t: int) -> Float[Tensor, "B K"]:
            hidden = asking.finish(asking.kept[:, t].unsqueeze(1), contexts).unsqueeze(1)
            found = self._score_real(hidden, targets[:, t : t + 1], mask[:, t : t + 1], average)
            steps.append((found[0][:, 0], found[1][:, 0]))
            return steps[-1][0]

        state = source.start(prepared, reference)
        reading = source.read_all(asking.queries, prepared, state, likelihood)
        # Mechanisms that observe call `likelihood` once per step; the others are scored for all steps at
        # once.
        if steps:
            found, means = (torch.stack(items, dim=1) for items in zip(*steps, strict=True))
            return _Scored(found, means, reading)
        hidden = asking.finish(asking.kept.unsqueeze(2), reading.contexts)
        return _Scored(*self._score_real(hidden, targets, mask, average, readable(reading)), reading)

    def _score_real(
        self,
        hidden: Float[Tensor, "B T K D"],
        targets: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
        average: bool,
        wanted: Bool[Tensor, "B T K"] | None = None,
    ) -> tuple[Float[Tensor, "B T K"], Float[Tensor, "B T K"]]:
        """Return log p(y_t | context k), and its mean over the vocabulary; zero at padding."""
        real, picked = self.ready(real_tokens(hidden, mask)), real_tokens(targets, mask)
        asked = None if wanted is None else real_tokens(wanted, mask)
        found, means = (spread(x, mask) for x in score_tokens(real, self.output, picked, average, asked))
        return found, means


def observed(
    prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"], several: bool
) -> tuple[State, ...]:
    """Return the state of each mechanism for the hypotheses that are continued.

    Args:
        prediction: The result of `SourceStack.predict`.
        rows: The row of the prediction that each hypothesis extends.
        tokens: The token that each hypothesis is extended with.
        several: Whether the last layer's mechanism is updated with the token.
    """
    # Only the last layer's mechanism may depend on the token.
    attentions = [select_rows(reading.state, rows) for reading in prediction.readings[:-1]]
    last = prediction.readings[-1]
    if several:
        attentions.append(last.select(rows).observe(prediction.likelihood(rows, tokens)))
    else:
        attentions.append(last.state.select(rows))
    return tuple(attentions)


def _read(
    source: Attention, asking: Asking, memory: Memory, look: Look
) -> tuple[Float[Tensor, "B T D"], Reading | None]:
    """Return the contexts of a layer with one context per step, and the attention if it was requested."""
    prepared = source.prepare(memory)
    state = source.start(prepared)
    # Without weights some mechanisms have a faster path, which returns None where it does not apply.
    if look == "nothing":
        contexts = source.glance(asking.queries, prepared, state)
        if contexts is not None:
            return contexts, None
    reading = source.read_all(asking.queries, prepared, state)
    return reading.contexts[:, :, 0], reading
