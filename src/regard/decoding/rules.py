"""What a hypothesis may say next.

Padding, start and sink are never said; the unknown word, repeated n-grams, an early or a late end are
forbidden where that is asked for; a forced prefix leaves one choice. Rules are applied to the few best
tokens of each row, so that they never take a pass over the vocabulary (blocking n-grams does).
"""

from collections.abc import Sequence

import torch

from regard.attention.base import Ending
from regard.data.batch import Sequences
from regard.data.vocabulary import EOS, PAD, SINK, UNK
from regard.decoding.best import best_tokens
from regard.decoding.config import SearchConfig
from regard.types import Float, Int, Tensor

__all__ = ["Rules"]

_NEVER = -float("inf")
_SPECIALS = SINK + 1  # PAD, UNK, BOS, EOS and SINK are the first ids


class Rules:
    """The rules of one batch.

    Args:
        config: Which rules.
        source: The batch.
        prefixes: The tokens that the translation of each sentence must start with.
        longest: The most tokens that the model can read, the end symbol included; none: any number.
        room: How many tokens each translation must have room for beyond its prefix; none: no more.
    """

    def __init__(
        self,
        config: SearchConfig,
        source: Sequences,
        prefixes: Sequence[Sequence[int]] | None = None,
        longest: int | None = None,
        room: Sequence[int] | None = None,
    ) -> None:
        """Work out the limits of each sentence."""
        self.config = config
        device = source.tokens.device
        prefixes = prefixes if prefixes is not None else [()] * len(source)
        room = room if room is not None else [0] * len(source)
        limits = [
            max(
                int(config.max_length_ratio * length) + config.max_length_extra,
                config.min_length,
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
        self.remembers = config.no_repeat_ngram > 0

    def candidates(
        self,
        log_probs: Float[Tensor, "R V"],
        count: int | None,
        step: int,
        sentences: Int[Tensor, "R"],
        history: Int[Tensor, "R T"] | None,
        ending: Ending | None = None,
        wanted: Int[Tensor, "R K"] | None = None,
    ) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
        """The end symbol and the best `count` other tokens of each row, or all.

        Args:
            log_probs: What the model says.
            count: How many tokens are wanted; there may be more, and at the end of a small vocabulary fewer.
                None: all.
            step: How many tokens each row has.
            sentences: The sentence of each row.
            history: Those tokens, where `remembers`.
            ending: Where the model's attention leaves no choice but to end, or forbids it.
            wanted: Tokens that are candidates however unlikely; `PAD` is none.

        Returns:
            Log-probabilities, minus infinity where a token may not follow, and the tokens: the end symbol
            in the first column, the others from the best down (all: in the vocabulary's order), then what is
            wanted and not among them.
        """
        allowed = log_probs
        if history is not None and step >= self.config.no_repeat_ngram:
            allowed = _block_repeats(log_probs, history, self.config.no_repeat_ngram)
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
        ends = log_probs[:, EOS : EOS + 1]
        if ending is not None:
            values = values.masked_fill(ending.must.unsqueeze(1), _NEVER)
            may = ending.may | (self.limits[sentences] <= step)
            ends = ends.masked_fill(~may.unsqueeze(1), _NEVER)
        if step >= self._shortest:
            values = values.masked_fill((self.limits[sentences] <= step).unsqueeze(1), _NEVER)
        if step < self.config.min_length:
            # Where blocked n-grams or what the model can read leave nothing else to say, the end comes early.
            ends = ends.masked_fill((values > _NEVER).any(dim=1, keepdim=True), _NEVER)
        if step < self._prefix_end:
            forced = self._prefixes[sentences, step].unsqueeze(1)
            bound = forced != PAD
            ends = ends.masked_fill(bound, _NEVER)
            values = values.masked_fill(bound, _NEVER)
            first = torch.where(bound, log_probs.gather(1, forced), values[:, :1])
            values = torch.cat([first, values[:, 1:]], dim=1)
            tokens = torch.cat([torch.where(bound, forced, tokens[:, :1]), tokens[:, 1:]], dim=1)
        return torch.cat([ends, values], dim=1), torch.cat(
            [torch.full_like(tokens[:, :1], EOS), tokens], dim=1
        )


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
