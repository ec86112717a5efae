"""Constraints on the next token of each hypothesis.

Padding, start symbol and sink are never generated. Depending on the settings, the unknown token, repeated
n-grams, and end symbols before the minimum or after the maximum length are excluded. A forced prefix leaves
only one token. The constraints are applied to the top-scoring tokens of each row, to avoid passes over the
whole vocabulary (only n-gram blocking needs one).

Tokens and sequences of tokens that a model's directory excludes have the semantics of `bad_words_ids`,
`suppress_tokens` and `begin_suppress_tokens` of transformers. The last token of a sequence is excluded if the
hypothesis ends in the other tokens of the sequence and at least one token precedes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.attention.base import EosConstraint
from regard.data.batch import PaddedSequences
from regard.generation.config import GenerationConfig
from regard.models.base import GenerationConstraints, TranslationModel
from regard.text.vocabulary import EOS, PAD, SINK, UNK
from regard.types import Bool, Float, Int, Tensor

_NEG_INF = -float("inf")
_BLOCK_SIZE = 16  # number of values that `largest_values` first compares by their maximum
_NUM_SPECIALS = SINK + 1  # number of special tokens: PAD, UNK, BOS, EOS and SINK have the first ids


@dataclass(frozen=True)
class Candidates:
    """Candidate next tokens of each row.

    The first column is the end symbol. Then come the top-scoring other tokens, best first (all tokens in
    vocabulary order if no count is given), and the tokens that required terms need.
    """

    values: Float[Tensor, "R C"]  # log-probabilities, minus infinity for excluded tokens
    tokens: Int[Tensor, "R C"]
    score_increments: Float[Tensor, "R C"]  # the values that search adds to the scores of hypotheses


class TokenConstraints:
    """Constraints of one batch.

    Args:
        config: Search settings.
        source: The batch.
        model: The model, with its maximum length and the constraints from its directory.
        prefixes: Token ids that the translation of each sentence must start with.
        extra_tokens: Number of tokens that each translation must be able to hold beyond its prefix.

    Attributes:
        before: Token ids before each translation.
        max_length: Maximum number of tokens in any translation of the batch.
        max_lengths: Maximum number of tokens in each translation, [B].
        needs_history: Whether the tokens of the hypotheses are needed.
    """

    def __init__(
        self,
        config: GenerationConfig,
        source: PaddedSequences,
        model: TranslationModel,
        prefixes: Sequence[Sequence[int]] | None = None,
        extra_tokens: Sequence[int] | None = None,
    ) -> None:
        """Compute the length limits of each sentence."""
        self.config = config
        constraints = model.constraints
        self.before = torch.tensor(constraints.prefix, device=source.tokens.device)
        scheme, device = config.scheme, source.tokens.device
        banned = constraints if scheme.hf_compatible else GenerationConstraints()
        self._never, self._first = (
            torch.tensor(ids, dtype=torch.long, device=device)
            for ids in (banned.suppressed, (*banned.suppressed, *banned.suppressed_first))
        )
        # Sequences of two or more tokens.
        self._banned = [torch.tensor(ids, dtype=torch.long, device=device) for ids in banned.banned_sequences]
        # transformers includes the tokens before a translation (and the forced end symbol) in its length.
        counted = len(self.before) if scheme.hf_compatible else 0
        self._min_length = max(config.min_length - counted, 0)
        counted += int(scheme.forced_eos)
        prefixes = prefixes if prefixes is not None else [()] * len(source)
        extra_tokens = extra_tokens if extra_tokens is not None else [0] * len(source)
        limits = [
            max(config.max_target_length(length) - counted, len(prefix) + more)
            for length, prefix, more in zip(source.lengths.tolist(), prefixes, extra_tokens, strict=True)
        ]
        if model.max_length is not None:
            # The end symbol counts.
            limits = [min(limit, model.max_length - 1) for limit in limits]
        if (most := constraints.max_pair_length) is not None:
            pairs = zip(limits, source.lengths.tolist(), strict=True)
            limits = [max(0, min(limit, most - length)) for limit, length in pairs]
        self.max_length = max(limits, default=0)
        self._shortest = min(limits, default=0)
        self.max_lengths = torch.tensor(limits, device=device)
        self._prefix_end = max((len(prefix) for prefix in prefixes), default=0)
        # PAD marks positions after the end of a prefix.
        padded = [[*prefix, *[PAD] * (self._prefix_end - len(prefix))] for prefix in prefixes]
        self._prefixes = torch.tensor(padded, dtype=torch.long, device=device).view(len(source), -1)
        self.needs_history = config.no_repeat_ngram_size > 0 or bool(self._banned)

    def is_truncated(self, step: int) -> Bool[Tensor, "B"]:
        """Return whether each sentence's hypotheses are truncated at `step` tokens, their maximum length."""
        scheme = self.config.scheme
        return (self.max_lengths <= step) & (scheme.hf_compatible and not scheme.forced_eos)

    def candidates(
        self,
        log_probs: Float[Tensor, "R V"],
        count: int | None,
        step: int,
        sentences: Int[Tensor, "R"],
        history: Int[Tensor, "R T"] | None,
        eos_constraint: EosConstraint | None = None,
        required_tokens: Int[Tensor, "R K"] | None = None,
    ) -> Candidates:
        """Return the end symbol and the `count` top-scoring other tokens of each row.

        Args:
            log_probs: Log-probabilities of the model.
            count: Number of other tokens, or None for all. A small vocabulary has fewer.
            step: Number of tokens in each row.
            sentences: Sentence index of each row.
            history: Tokens of each row, after `before`, if `needs_history` is set.
            eos_constraint: Rows in which the model's attention requires or excludes the end symbol.
            required_tokens: Tokens that are candidates in any case. `PAD` marks unused entries.
        """
        allowed = self._allowed(log_probs, step, history)
        if count is None:
            values, tokens = allowed, torch.arange(allowed.shape[1], device=allowed.device).expand_as(allowed)
        else:
            # Special tokens may be among the best and are excluded below.
            values, tokens = largest_values(allowed, min(count + _NUM_SPECIALS, allowed.shape[1]))
        if required_tokens is not None:
            values, tokens = _append_required(values, tokens, allowed, required_tokens)
        # The end symbol has its own column, so it is excluded here like the other special tokens.
        hidden = tokens < _NUM_SPECIALS
        if not self.config.suppress_unk:
            hidden &= tokens != UNK
        values = values.masked_fill(hidden, _NEG_INF)
        # At the maximum length the end symbol is allowed even if it is suppressed.
        full = self.max_lengths[sentences] <= step
        ends = torch.where(full, log_probs[:, EOS], allowed[:, EOS]).unsqueeze(1)
        if eos_constraint is not None:
            values = values.masked_fill(eos_constraint.required.unsqueeze(1), _NEG_INF)
            ends = ends.masked_fill(~(eos_constraint.allowed | full).unsqueeze(1), _NEG_INF)
        if step >= self._shortest:
            values = values.masked_fill(full.unsqueeze(1), _NEG_INF)
        if step < self._min_length:
            # If blocked n-grams or the maximum length exclude all other tokens, the end symbol is allowed
            # before the minimum length.
            ends = ends.masked_fill((values > _NEG_INF).any(dim=1, keepdim=True), _NEG_INF)
        scheme, normalizer = self.config.scheme, 0.0
        if scheme.renormalize_logits:
            normalizer = self._log_normalizer(allowed, ends).unsqueeze(1)
        if step < self._prefix_end:
            ends, values, tokens = self._force_prefix(log_probs, step, sentences, ends, values, tokens)
        values = torch.cat([ends, values], dim=1)
        tokens = torch.cat([torch.full_like(tokens[:, :1], EOS), tokens], dim=1)
        increments = values - normalizer
        if scheme.hf_compatible:
            # A row ends at the maximum length at no cost.
            increments[:, 0].masked_fill_(full, 0.0)
        return Candidates(values, tokens, increments)

    def _allowed(
        self, log_probs: Float[Tensor, "R V"], step: int, history: Int[Tensor, "R T"] | None
    ) -> Float[Tensor, "R V"]:
        """Return the log-probabilities, minus infinity for suppressed tokens and repeated n-grams."""
        allowed = log_probs
        never = self._first if step == 0 else self._never
        if len(never):
            allowed = allowed.index_fill(1, never, _NEG_INF)
        if history is None:
            return allowed
        for sequence in self._banned:
            length = len(sequence) - 1
            if history.shape[1] > length:
                matches = (history[:, -length:] == sequence[:-1]).all(dim=1)
                # Copy, because the caller's tensor must not change.
                allowed = allowed.clone()
                allowed[matches, sequence[-1]] = _NEG_INF
        size = self.config.no_repeat_ngram_size
        if size and history.shape[1] >= size:
            return _block_repeated_ngrams(allowed, history, size)
        return allowed

    def _force_prefix(
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
        values = values.masked_fill(bound, _NEG_INF)
        first = torch.where(bound, log_probs.gather(1, forced), values[:, :1])
        return (
            ends.masked_fill(bound, _NEG_INF),
            torch.cat([first, values[:, 1:]], dim=1),
            torch.cat([torch.where(bound, forced, tokens[:, :1]), tokens[:, 1:]], dim=1),
        )

    def _log_normalizer(
        self, allowed: Float[Tensor, "R V"], ends: Float[Tensor, "R 1"]
    ) -> Float[Tensor, "R"]:
        """Return the log of the total probability of the allowed tokens."""
        hidden = [PAD, UNK, EOS] if self.config.suppress_unk else [PAD, EOS]
        others = allowed.index_fill(1, torch.tensor(hidden, device=allowed.device), _NEG_INF)
        total = torch.logsumexp(torch.cat([others, ends], dim=1), dim=1)
        return total.clamp_min(torch.finfo(total.dtype).min)  # finite for rows without any allowed token


def largest_values(values: Float[Tensor, "R V"], k: int) -> tuple[Float[Tensor, "R k"], Int[Tensor, "R k"]]:
    """Return the k largest values of each row and their indices, in descending order.

    They are in the k blocks with the largest maxima. `torch.topk` of these blocks and of the values after the
    last block takes less time than that of all values (`benchmarks/RESULTS.md`).
    """
    num_blocks = values.shape[1] // _BLOCK_SIZE
    if num_blocks <= k:
        return values.topk(k, dim=1)
    end = num_blocks * _BLOCK_SIZE
    # A block is a column: every `num_blocks`-th value.
    maxima = values[:, :end].view(len(values), _BLOCK_SIZE, num_blocks).amax(1)
    blocks = maxima.topk(k, dim=1).indices.unsqueeze(1)  # (R, 1, k)
    members = blocks + torch.arange(0, end, num_blocks, device=values.device).unsqueeze(1)
    others = torch.arange(end, values.shape[1], device=values.device).expand(len(values), -1)
    indices = torch.cat([members.flatten(1), others], dim=1)
    largest, places = values.gather(1, indices).topk(k, dim=1)
    return largest, indices.gather(1, places)


def _append_required(
    values: Float[Tensor, "R C"],
    tokens: Int[Tensor, "R C"],
    log_probs: Float[Tensor, "R V"],
    required_tokens: Int[Tensor, "R K"],
) -> tuple[Float[Tensor, "R D"], Int[Tensor, "R D"]]:
    """Append the required tokens to the candidates, with padding for those that are already candidates."""
    # A required token is a duplicate if it is among the candidates or among the required tokens before it.
    known = torch.cat([tokens, required_tokens], dim=1)
    before = (
        torch.ones_like(known[0], dtype=torch.bool)
        .expand(required_tokens.shape[1], -1)
        .tril(tokens.shape[1] - 1)
    )
    duplicate = ((required_tokens.unsqueeze(2) == known.unsqueeze(1)) & before).any(dim=2)
    required_tokens = required_tokens.masked_fill(duplicate, PAD)
    return torch.cat([values, log_probs.gather(1, required_tokens)], dim=1), torch.cat(
        [tokens, required_tokens], dim=1
    )


def _block_repeated_ngrams(
    log_probs: Float[Tensor, "R V"], history: Int[Tensor, "R T"], size: int
) -> Float[Tensor, "R V"]:
    """Return the log-probabilities, minus infinity for every token that would repeat an n-gram of its row."""
    windows = history.unfold(1, size, 1)  # (R, T - size + 1, size)
    recent = history[:, history.shape[1] - size + 1 :].unsqueeze(1)
    matches = (windows[:, :, :-1] == recent).all(dim=2)
    # Padding is excluded anyway, so the writes of windows that do not match go there.
    return log_probs.scatter(1, torch.where(matches, windows[:, :, -1], PAD), _NEG_INF)
