"""Constraints on the next token of each hypothesis.

Padding, start symbol and sink are never generated. Depending on the settings, the unknown token, repeated
n-grams, and end symbols before the minimum or after the maximum length are excluded. A forced prefix leaves
only one token. The constraints are applied to the top-scoring tokens of each row, to avoid passes over the
whole vocabulary (only n-gram blocking needs one).
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
_SPECIALS = SINK + 1  # number of special tokens: PAD, UNK, BOS, EOS and SINK have the first ids


@dataclass(frozen=True)
class Candidates:
    """Candidate next tokens of each row.

    Attributes:
        values: Log-probabilities, minus infinity for excluded tokens.
        tokens: Token ids: the end symbol in the first column, then the top-scoring others, best first (all
            tokens in vocabulary order if no count is given), then the tokens that required terms need.
        mass: Log of the total probability of all allowed tokens, if search renormalizes by it.
        free: True for rows that end at the maximum length at no cost.
    """

    values: Float[Tensor, "R C"]
    tokens: Int[Tensor, "R C"]
    mass: Float[Tensor, "R"] | None = None
    free: Bool[Tensor, "R"] | None = None

    @property
    def ranked(self) -> Float[Tensor, "R C"]:
        """Return the values that search adds to the scores of hypotheses."""
        values = self.values if self.mass is None else self.values - self.mass.unsqueeze(1)
        if self.free is None:
            return values
        return torch.cat([values[:, :1].masked_fill(self.free.unsqueeze(1), 0.0), values[:, 1:]], dim=1)


class Rules:
    """Constraints of one batch.

    Args:
        config: Search settings.
        source: The batch.
        prefixes: Token ids that the translation of each sentence must start with.
        longest: Maximum number of tokens the model can process, including the end symbol. None for no limit.
        room: Number of tokens that each translation must be able to hold beyond its prefix. Default: 0.
        constraints: Constraints from the model's directory. Default: no constraints.

    Attributes:
        longest: Maximum number of tokens in any translation of the batch.
        limits: Maximum number of tokens in each translation, [B].
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
        """Compute the length limits of each sentence."""
        self.config = config
        constraints = constraints if constraints is not None else Constraints()
        self._before = constraints.before
        self._suppressed = Suppressed(constraints, config, source.tokens.device)
        scheme = config.scheme
        # transformers includes the tokens before a translation (and the forced end symbol) in its length.
        counted = len(self._before) if scheme.transformers else 0
        self._min_length = max(config.min_length - counted, 0)
        minimum = 0 if scheme.transformers else self._min_length
        counted += int(scheme.forced_end)
        device = source.tokens.device
        prefixes = prefixes if prefixes is not None else [()] * len(source)
        room = room if room is not None else [0] * len(source)
        limits = [
            max(
                int(config.max_length_ratio * length) + config.max_length_extra - counted,
                minimum,
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
        # PAD marks positions after the end of a prefix.
        padded = [[*prefix, *[PAD] * (self._prefix_end - len(prefix))] for prefix in prefixes]
        self._prefixes = torch.tensor(padded, dtype=torch.long, device=device).view(len(source), -1)
        self.remembers = config.no_repeat_ngram > 0 or bool(self._suppressed.sequences)

    def history(self, rows: int) -> Int[Tensor, "R T"]:
        """Return the tokens before the translations, for each row."""
        return torch.tensor(self._before, device=self.limits.device).expand(rows, -1)

    def is_cut(self, step: int) -> Bool[Tensor, "B"]:
        """Return whether each sentence's hypotheses are truncated at `step` tokens, their maximum length."""
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
        """Return the end symbol and the `count` top-scoring other tokens of each row.

        Args:
            log_probs: Log-probabilities of the model.
            count: Number of other tokens. There may be more, or fewer if the vocabulary is small. None for
                all tokens.
            step: Number of tokens in each row.
            sentences: Sentence index of each row.
            history: Tokens of each row, after those of `history`, if `remembers` is set.
            ending: Rows in which the model's attention requires or excludes the end symbol.
            wanted: Tokens that are candidates regardless of their probability. `PAD` marks unused entries.
        """
        allowed = self._suppressed.masked(log_probs, step, history)
        size = self.config.no_repeat_ngram
        if history is not None and size and history.shape[1] >= size:
            allowed = _block_repeats(allowed, history, size)
        if count is None:
            values, tokens = allowed, torch.arange(allowed.shape[1], device=allowed.device).expand_as(allowed)
        else:
            # Special tokens may be among the best and are excluded below.
            values, tokens = best_tokens(allowed, count + _SPECIALS)
        if wanted is not None:
            values, tokens = _with_wanted(values, tokens, allowed, wanted)
        # The end symbol has its own column, so it is excluded here like the other special tokens.
        hidden = tokens < _SPECIALS
        if not self.config.forbid_unknown:
            hidden &= tokens != UNK
        values = values.masked_fill(hidden, _NEVER)
        # At the maximum length the end symbol is allowed even if it is suppressed.
        full = self.limits[sentences] <= step
        ends = torch.where(full, log_probs[:, EOS], allowed[:, EOS]).unsqueeze(1)
        if ending is not None:
            values = values.masked_fill(ending.must.unsqueeze(1), _NEVER)
            ends = ends.masked_fill(~(ending.may | full).unsqueeze(1), _NEVER)
        if step >= self._shortest:
            values = values.masked_fill(full.unsqueeze(1), _NEVER)
        if step < self._min_length:
            # If blocked n-grams or the model's maximum length exclude all other tokens, the end symbol is
            # allowed before the minimum length.
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
        """Replace the candidates by the prefix token in rows whose prefix has not ended."""
        # The forced token replaces the first candidate; the others are excluded.
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
        """Return the log of the total probability of the allowed tokens."""
        hidden = [PAD, UNK, EOS] if self.config.forbid_unknown else [PAD, EOS]
        others = allowed.index_fill(1, torch.tensor(hidden, device=allowed.device), _NEVER)
        found = torch.logsumexp(torch.cat([others, ends], dim=1), dim=1)
        return found.clamp_min(torch.finfo(found.dtype).min)  # finite for rows without any allowed token


def _with_wanted(
    values: Float[Tensor, "R C"],
    tokens: Int[Tensor, "R C"],
    log_probs: Float[Tensor, "R V"],
    wanted: Int[Tensor, "R K"],
) -> tuple[Float[Tensor, "R D"], Int[Tensor, "R D"]]:
    """Append the wanted tokens to the candidates, with padding for those that are already candidates."""
    # A wanted token is a duplicate if it is among the candidates or among the wanted tokens before it.
    known = torch.cat([tokens, wanted], dim=1)
    before = torch.ones_like(known[0], dtype=torch.bool).expand(wanted.shape[1], -1).tril(tokens.shape[1] - 1)
    again = ((wanted.unsqueeze(2) == known.unsqueeze(1)) & before).any(dim=2)
    wanted = wanted.masked_fill(again, PAD)
    return torch.cat([values, log_probs.gather(1, wanted)], dim=1), torch.cat([tokens, wanted], dim=1)


def _block_repeats(
    log_probs: Float[Tensor, "R V"], history: Int[Tensor, "R T"], size: int
) -> Float[Tensor, "R V"]:
    """Set the log-probability of every token that would repeat an n-gram of its row to minus infinity."""
    windows = history.unfold(1, size, 1)  # (R, T - size + 1, size)
    recent = history[:, history.shape[1] - size + 1 :].unsqueeze(1)
    matches = (windows[:, :, :-1] == recent).all(dim=2)
    # Padding is excluded anyway, so the writes of windows that do not match go there.
    return log_probs.scatter(1, torch.where(matches, windows[:, :, -1], PAD), _NEVER)
