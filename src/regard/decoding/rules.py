"""What a hypothesis may say next.

Padding, start and sink are never said; the unknown word, repeated n-grams, an early or a late end are
forbidden where that is asked for; a forced prefix leaves one choice. Rules are applied to the few best
tokens of each row, so that they never take a pass over the vocabulary (blocking n-grams does).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.attention.base import Ending
from regard.data.batch import Sequences
from regard.data.vocabulary import EOS, PAD, SINK, UNK
from regard.decoding.best import best_tokens
from regard.decoding.config import SearchConfig
from regard.decoding.suppressed import Suppressed
from regard.models.base import Constraints
from regard.types import Bool, Float, Int, Tensor

__all__ = ["Candidates", "Rules"]

_NEVER = -float("inf")
_SPECIALS = SINK + 1  # PAD, UNK, BOS, EOS and SINK are the first ids


@dataclass(frozen=True)
class Candidates:
    """What rows may go on with.

    Attributes:
        values: Log-probabilities, minus infinity where a token may not follow.
        tokens: The tokens: the end symbol in the first column, the others from the best down (all: in the
            vocabulary's order), then what is wanted and not among them.
        mass: The log of the sum of the probabilities of all allowed tokens, where search divides by it.
        free: Rows that end at their maximum length at no cost.
    """

    values: Float[Tensor, "R C"]
    tokens: Int[Tensor, "R C"]
    mass: Float[Tensor, "R"] | None = None
    free: Bool[Tensor, "R"] | None = None

    @property
    def ranked(self) -> Float[Tensor, "R C"]:
        """What search adds to the scores of hypotheses."""
        values = self.values if self.mass is None else self.values - self.mass.unsqueeze(1)
        if self.free is None:
            return values
        return torch.cat([values[:, :1].masked_fill(self.free.unsqueeze(1), 0.0), values[:, 1:]], dim=1)


class Rules:
    """The rules of one batch.

    Args:
        config: Which rules.
        source: The batch.
        prefixes: The tokens that the translation of each sentence must start with.
        longest: The most tokens that the model can read, the end symbol included; none: any number.
        room: How many tokens each translation must have room for beyond its prefix; none: no more.
        constraints: What the model's directory prescribes; none: nothing.

    Attributes:
        longest: The most tokens of a translation in the batch.
        limits: The most tokens of each, [B].
        remembers: Whether the tokens of the hypotheses are needed.
    """

    def __init__(
        self,
        config: SearchConfig,
        source: Sequences,
        prefixes: Sequence[Sequence[int]] | None = None,
        longest: int | None = None,
        room: Sequence[int] | None = None,
        constraints: Constraints | None = None,
    ) -> None:
        """Work out the limits of each sentence."""
        self.config = config
        constraints = constraints if constraints is not None else Constraints()
        self._before = constraints.before
        self._suppressed = Suppressed(constraints, config, source.tokens.device)
        scheme = config.scheme
        # What transformers counts among a translation's tokens, and we do not.
        counted = len(self._before) if scheme.transformers else 0
        self._min_length = max(config.min_length - counted, 0)
        least = 0 if scheme.transformers else self._min_length
        counted += int(scheme.forced_end)
        device = source.tokens.device
        prefixes = prefixes if prefixes is not None else [()] * len(source)
        room = room if room is not None else [0] * len(source)
        limits = [
            max(
                int(config.max_length_ratio * length) + config.max_length_extra - counted,
                least,
                len(prefix) + more,
            )
            for length, prefix, more in zip(source.lengths.tolist(), prefixes, room, strict=True)
        ]
        if longest is not None:
            limits = [min(limit, longest - 1) for limit in limits]
        self.longest = max(limits, default=0)
        self._shortest = min(limits, default=0)
        self.limits = torch.tensor(limits, device=device)
        self._prefix_end = max((len(prefix) for prefix in prefixes), default=0)
        padded = [[*prefix, *[PAD] * (self._prefix_end - len(prefix))] for prefix in prefixes]
        self._prefixes = torch.tensor(padded, dtype=torch.long, device=device).view(len(source), -1)
        self.remembers = config.no_repeat_ngram > 0 or bool(self._suppressed.sequences)

    def history(self, rows: int) -> Int[Tensor, "R T"]:
        """What stands before the translations of rows."""
        return torch.tensor(self._before, device=self.limits.device).expand(rows, -1)

    def is_cut(self, step: int) -> Bool[Tensor, "B"]:
        """Whether a sentence's hypotheses of `step` tokens are cut there, as none may be longer."""
        scheme = self.config.scheme
        return (self.limits <= step) & (scheme.transformers and not scheme.forced_end)

    def candidates(
        self,
        log_probs: Float[Tensor, "R V"],
        count: int | None,
        step: int,
        sentences: Int[Tensor, "R"],
        history: Int[Tensor, "R T"] | None,
        ending: Ending | None = None,
        wanted: Int[Tensor, "R K"] | None = None,
    ) -> Candidates:
        """The end symbol and the best `count` other tokens of each row, or all.

        Args:
            log_probs: What the model says.
            count: How many tokens are wanted; there may be more, and at the end of a small vocabulary fewer.
                None: all.
            step: How many tokens each row has.
            sentences: The sentence of each row.
            history: Those tokens after what stands before them, where `remembers`; see `history`.
            ending: Where the model's attention leaves no choice but to end, or forbids it.
            wanted: Tokens that are candidates however unlikely; `PAD` is none.
        """
        allowed = self._suppressed.masked(log_probs, step, history)
        size = self.config.no_repeat_ngram
        if history is not None and size and history.shape[1] >= size:
            allowed = _block_repeats(allowed, history, size)
        if count is None:
            values, tokens = allowed, torch.arange(allowed.shape[1], device=allowed.device).expand_as(allowed)
        else:
            values, tokens = best_tokens(allowed, count + _SPECIALS)
        if wanted is not None:
            values, tokens = _with_wanted(values, tokens, allowed, wanted)
        hidden = tokens < _SPECIALS
        if not self.config.forbid_unknown:
            hidden &= tokens != UNK
        values = values.masked_fill(hidden, _NEVER)
        full = self.limits[sentences] <= step
        ends = torch.where(full, log_probs[:, EOS], allowed[:, EOS]).unsqueeze(1)
        if ending is not None:
            values = values.masked_fill(ending.must.unsqueeze(1), _NEVER)
            ends = ends.masked_fill(~(ending.may | full).unsqueeze(1), _NEVER)
        if step >= self._shortest:
            values = values.masked_fill(full.unsqueeze(1), _NEVER)
        if step < self._min_length:
            # Where blocked n-grams or what the model can read leave nothing else to say, the end comes early.
            ends = ends.masked_fill((values > _NEVER).any(dim=1, keepdim=True), _NEVER)
        mass = self._mass(allowed, ends) if self.config.scheme.renormalize else None
        if step < self._prefix_end:
            ends, values, tokens = self._with_prefix(log_probs, step, sentences, ends, values, tokens)
        return Candidates(
            values=torch.cat([ends, values], dim=1),
            tokens=torch.cat([torch.full_like(tokens[:, :1], EOS), tokens], dim=1),
            mass=mass,
            free=full if self.config.scheme.transformers else None,
        )

    def _with_prefix(
        self,
        log_probs: Float[Tensor, "R V"],
        step: int,
        sentences: Int[Tensor, "R"],
        ends: Float[Tensor, "R 1"],
        values: Float[Tensor, "R C"],
        tokens: Int[Tensor, "R C"],
    ) -> tuple[Float[Tensor, "R 1"], Float[Tensor, "R C"], Int[Tensor, "R C"]]:
        """Ends and other candidates, the forced token alone where the prefix goes on."""
        forced = self._prefixes[sentences, step].unsqueeze(1)
        bound = forced != PAD
        values = values.masked_fill(bound, _NEVER)
        first = torch.where(bound, log_probs.gather(1, forced), values[:, :1])
        return (
            ends.masked_fill(bound, _NEVER),
            torch.cat([first, values[:, 1:]], dim=1),
            torch.cat([torch.where(bound, forced, tokens[:, :1]), tokens[:, 1:]], dim=1),
        )

    def _mass(self, allowed: Float[Tensor, "R V"], ends: Float[Tensor, "R 1"]) -> Float[Tensor, "R"]:
        """The log of the sum of the probabilities of allowed tokens."""
        hidden = [PAD, UNK, EOS] if self.config.forbid_unknown else [PAD, EOS]
        others = allowed.index_fill(1, torch.tensor(hidden, device=allowed.device), _NEVER)
        found = torch.logsumexp(torch.cat([others, ends], dim=1), dim=1)
        return found.clamp_min(torch.finfo(found.dtype).min)  # of rows in which nothing is allowed


def _with_wanted(
    values: Float[Tensor, "R C"],
    tokens: Int[Tensor, "R C"],
    log_probs: Float[Tensor, "R V"],
    wanted: Int[Tensor, "R K"],
) -> tuple[Float[Tensor, "R D"], Int[Tensor, "R D"]]:
    """Candidates and those that are wanted, padding in the place of what is there already."""
    known = torch.cat([tokens, wanted], dim=1)
    before = torch.ones_like(known[0], dtype=torch.bool).expand(wanted.shape[1], -1).tril(tokens.shape[1] - 1)
    again = ((wanted.unsqueeze(2) == known.unsqueeze(1)) & before).any(dim=2)
    wanted = wanted.masked_fill(again, PAD)
    return torch.cat([values, log_probs.gather(1, wanted)], dim=1), torch.cat([tokens, wanted], dim=1)


def _block_repeats(
    log_probs: Float[Tensor, "R V"], history: Int[Tensor, "R T"], size: int
) -> Float[Tensor, "R V"]:
    """The same with minus infinity at every token that would end an n-gram the row has said before."""
    windows = history.unfold(1, size, 1)  # (R, T - size + 1, size)
    recent = history[:, history.shape[1] - size + 1 :].unsqueeze(1)
    said = (windows[:, :, :-1] == recent).all(dim=2)
    # Padding is never said, so it takes the writes of windows that do not match.
    return log_probs.scatter(1, torch.where(said, windows[:, :, -1], PAD), _NEVER)
