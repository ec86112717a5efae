"""What decoders without recurrence share: layers of which each attends to the source with its own mechanism.

A layer stands between two halves when it asks for the source (`Asking`): what it made of the target so far,
and what becomes of it with the contexts that its mechanism found. Training asks for all steps at once, search
for one. A mechanism of several contexts is in the last layer, whose second half, and the distribution over
the next token, is made for each of them.
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
    """The decoder after a step.

    Attributes:
        caches: What each layer keeps of the words so far.
        attentions: The state of each layer's mechanism.
    """

    caches: tuple[Rows, ...]
    attentions: tuple[State, ...]


@dataclass(frozen=True)
class Asking:
    """A layer that waits for what it reads of the source.

    Attributes:
        kept: What `finish` adds the contexts to.
        queries: What the mechanism is asked with.
        finish: The layer's states, given `kept` (its leading axes may be 1) and the contexts.
        seen: The layer's attention to the target itself, where it has any and it is looked at.
    """

    kept: Float[Tensor, "*B D"]
    queries: Float[Tensor, "*B Q"]
    finish: Callable[[Tensor, Tensor], Tensor]
    seen: Float[Tensor, "B _ T T"] | None = None


Ask = Callable[[int, Tensor], Asking]
"""The first half of layer i over a whole text: from [B, T, D]."""
Advance = Callable[[int, Tensor], tuple[Asking, Rows]]
"""The first half of layer i on one more word, from [B, D], and what it keeps from then on."""


@dataclass(frozen=True)
class Advanced(Rows):
    """What a step of all layers came to.

    Attributes:
        hidden: [B, K, D], the last layer's states.
        readings: One a layer.
        caches: What each layer keeps.
        ending: What the mechanisms demand of the end.
    """

    hidden: Float[Tensor, "B K D"]
    readings: tuple[Reading, ...]
    caches: tuple[Rows, ...]
    ending: Ending | None


@dataclass(frozen=True)
class _Scored:
    """The last layer's reading, where somebody looks, and what the output layer makes of it."""

    log_likelihoods: Float[Tensor, "B T K"]
    average: Float[Tensor, "B T K"]
    reading: Reading | None
    likeliest: Int[Tensor, "B T"] | None = None


class SourceStack:
    """The mechanisms of all layers, and the output layer above them.

    Args:
        sources: Each layer's mechanism, from the lowest.
        ready: From the last layer's states to what the output layer reads.
        output: The output layer.
    """

    def __init__(
        self, sources: Sequence[Attention], ready: Callable[[Tensor], Tensor], output: Layer
    ) -> None:
        """Remember the parts."""
        self.sources, self.ready, self.output = sources, ready, output

    # --- search ---------------------------------------------------------------------------------------

    def advance(
        self, x: Float[Tensor, "B D"], memories: Memories, attentions: tuple[State, ...], half: Advance
    ) -> Advanced:
        """One step of all layers.

        Args:
            x: What the lowest layer reads.
            memories: Each layer's prepared memory.
            attentions: Each mechanism's state after the step before.
            half: The first half of a layer.
        """
        readings: list[Reading] = []
        caches: list[Rows] = []
        endings: list[Ending | None] = []
        hidden = x.unsqueeze(1)
        for i, (source, memory, before) in enumerate(zip(self.sources, memories, attentions, strict=True)):
            asking, cache = half(i, hidden[:, 0])
            reading = source.read(asking.queries, memory, before)
            hidden = asking.finish(asking.kept.unsqueeze(1), reading.contexts)  # (B, K, D)
            readings.append(reading)
            caches.append(cache)
            endings.append(source.ending(memory, before))
        return Advanced(hidden, tuple(readings), tuple(caches), Ending.of_all(endings))

    def predict(self, advanced: Advanced, pending: Rows) -> Prediction:
        """The distribution over the next token.

        Args:
            advanced: What `advance` gave.
            pending: The decoder's state before it knows the token.
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
        """Teacher forcing.

        Args:
            x: What the lowest layer reads.
            memories: Each layer's memory, not prepared.
            half: The first half of a layer.
            batch: Sources and targets.
            average: Whether `Outcome.average` is wanted.
            look: Which attention is wanted.
            likeliest: Whether `Outcome.likeliest` is wanted.
            reference: For a mechanism that looks at it.
            encoder: `Outcome.encoder`.

        Raises:
            InfeasibleBounds: fertilities that run out; names the sentence.
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
            if self.sources[-1].observes:
                scored = self._score_contexts(asking, memories[-1], batch, average, reference)
            else:
                scored = self._score(asking, memories[-1], batch, average, look, likeliest)
        except InfeasibleBounds as error:
            raise used_up(batch, error) from None
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
        """Read the source in a last layer with one context, and score the targets."""
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
        """Read the source in a last layer with several contexts, and score the targets under each."""
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
        """Log p(y_t | context k), and the mean over the vocabulary, of real tokens; zero elsewhere."""
        real, picked = self.ready(real_tokens(hidden, mask)), real_tokens(targets, mask)
        asked = None if wanted is None else real_tokens(wanted, mask)
        found, means = (spread(x, mask) for x in score_tokens(real, self.output, picked, average, asked))
        return found, means


def observed(
    prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"], several: bool
) -> tuple[State, ...]:
    """Each mechanism's state in the hypotheses that go on.

    Args:
        prediction: What `SourceStack.predict` gave.
        rows: The row of the prediction that each goes on from.
        tokens: The token chosen for each.
        several: Whether the last layer's mechanism is told the token.
    """
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
    """What a layer with one context a step reads, and the reading where somebody looks."""
    prepared = source.prepare(memory)
    state = source.start(prepared)
    if look == "nothing":
        contexts = source.glance(asking.queries, prepared, state)
        if contexts is not None:
            return contexts, None
    reading = source.read_all(asking.queries, prepared, state)
    return reading.contexts[:, :, 0], reading
