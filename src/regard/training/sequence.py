"""Sequence-level losses (Shen et al. 2016; Wu et al. 2018): minimum risk training and REINFORCE with BLEU.

For each sentence, n candidate translations y' are sampled from the model or taken from a beam. Let R be the
BLEU of `regard.metrics.prefix_bleu`, which is scaled by the length of the reference. The losses are

    risk       - sum_y' Q(y') R(y'),   Q(y') proportional to P(y')^s, over the distinct candidates
    reinforce  - 1/n sum_y' sum_t (G_t - b_t) log p(y'_t)

where G_t is R(y') (reward = terminal) or R(y') - R(y'_1..t-1), the gain from the tokens from t on (reward =
shaped), and b_t is the mean of the other candidates' G_t. The total loss is m times the model's own objective
plus 1 - m times the sequence loss.

Two approximations bias the gradient. Candidates from a beam are not samples. Candidates are generated in
evaluation mode, without dropout and without sampling of hard attention, while log p is computed in training
mode. The EOS token that ends a candidate at the maximum length is not sampled, so its log p is excluded.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.nn import functional as F

from regard.config import config, option
from regard.data.batch import Batch, Sequences
from regard.data.vocabulary import EOS, PAD, UNK
from regard.decoding.beam import beam_search
from regard.decoding.config import SamplingConfig, SearchConfig
from regard.decoding.sampling import sample
from regard.functional.estimators import leave_one_out, reinforce
from regard.metrics.prefix_bleu import prefix_bleu
from regard.models.base import Outcome, TranslationModel
from regard.types import Bool, Float, Tensor

__all__ = ["Candidate", "Judged", "SequenceConfig", "draw_candidates", "part", "sequence_loss"]

TALL, MORE = 1.5, 10
"""The maximum length of a candidate is TALL times the source length plus MORE, in tokens."""


@config
class SequenceConfig:
    """A sequence-level loss on BLEU in addition to the model's own objective."""

    loss: Literal["mrt", "reinforce"] = option(
        default="mrt", help="Sequence loss: minimum risk training or REINFORCE."
    )
    candidates: Literal["sample", "beam"] = option(
        default="sample", help="Source of the candidates: samples of the model or the best of a beam."
    )
    count: int = option(default=5, help="n: number of candidates per sentence.", ge=1, le=10_000)
    reward: Literal["terminal", "shaped"] = option(
        default="terminal",
        help="Reward of a token: BLEU of the whole translation (terminal), or the gain in BLEU from that "
        "token on (shaped).",
    )
    sharpness: float = option(
        default=5e-3,
        help="s: exponent of the candidates' probabilities in minimum risk training.",
        gt=0,
        le=1e6,
    )
    own: float = option(
        default=0.3,
        help="m: weight of the model's own objective, in [0, 1]; the sequence loss has the weight 1 - m.",
        ge=0,
        le=1,
    )

    def __post_init__(self) -> None:
        """Reject options that contradict each other."""
        if self.loss == "mrt" and self.reward == "shaped":
            raise ValueError(
                "reward = 'shaped' needs loss = 'reinforce': minimum risk training scores whole translations"
            )
        if self.loss == "mrt" and self.count < 2:
            raise ValueError("minimum risk training compares candidates: count must be 2 or more")


@dataclass(frozen=True)
class Candidate:
    """A candidate translation.

    Attributes:
        tokens: The token ids, ending with `EOS`.
        cut: Whether `EOS` was forced by the maximum length instead of sampled.
    """

    tokens: tuple[int, ...]
    cut: bool = False


def draw_candidates(
    model: TranslationModel, batch: Batch, config: SequenceConfig, seed: int
) -> list[list[Candidate]]:
    """Return `config.count` candidates per sentence; the best one is repeated if a beam returns fewer.

    Args:
        model: The model; it is in evaluation mode during the call.
        batch: The sentences.
        config: The number of candidates and their source.
        seed: The random seed of the samples.
    """
    search = SearchConfig(
        beam=config.count,
        nbest=config.count,
        length_penalty=0.0,
        max_length_ratio=TALL,
        max_length_extra=MORE,
    )
    if config.candidates == "beam":
        found = beam_search(model, batch.source, search, None, batch.upper, batch.lower)
    else:
        sampling, lines = SamplingConfig(seed=seed), batch.rows.tolist()
        found = sample(model, batch.source, search, sampling, lines, None, batch.upper, batch.lower)
    made = [[Candidate((*one.tokens, EOS), one.cut) for one in hypotheses] for hypotheses in found]
    return [[*own, *own[:1] * (config.count - len(own))] for own in made]


@dataclass(frozen=True)
class Judged:
    """A batch with additional rows for the candidates, so that one forward pass scores both.

    Attributes:
        batch: The B sentences with their references, followed by the N candidates, sentence by sentence.
        reference: The reference of each candidate.
        cut: [N], whether the `EOS` of a candidate was forced.
        config: The options of the sequence loss.
    """

    batch: Batch
    reference: Sequences
    cut: Bool[Tensor, "N"]
    config: SequenceConfig

    @classmethod
    def of(cls, batch: Batch, candidates: Sequence[Sequence[Candidate]], config: SequenceConfig) -> "Judged":
        """Append the candidates to a batch.

        Args:
            batch: The sentences with their references.
            candidates: `config.count` candidates for each sentence.
            config: The options of the sequence loss.
        """
        assert batch.target is not None
        tokens, device = batch.target.tokens, batch.target.tokens.device
        flat = Sequences.of([one.tokens for own in candidates for one in own]).to(device)
        cut = torch.tensor([one.cut for own in candidates for one in own], device=device)
        owners = torch.arange(len(batch), device=device).repeat_interleave(config.count)
        rows = torch.cat([torch.arange(len(batch), device=device), owners])
        width = max(tokens.shape[1], flat.tokens.shape[1])
        padded = [F.pad(one, (0, width - one.shape[1]), value=PAD) for one in (tokens, flat.tokens)]
        target = Sequences(torch.cat(padded), torch.cat([batch.target.lengths, flat.lengths]))
        upper, lower = (None if x is None else x[rows] for x in (batch.upper, batch.lower))
        source = Sequences(batch.source.tokens[rows], batch.source.lengths[rows])
        whole = Batch(source, target, batch.rows[rows.to(batch.rows.device)], upper, lower)
        return cls(whole, Sequences(tokens[owners], batch.target.lengths[owners]), cut, config)

    def loss(self, outcome: Outcome) -> Float[Tensor, ""]:
        """Return the loss of the candidates from the outcome of the whole batch."""
        assert self.batch.target is not None
        own = slice(len(self.batch) - len(self.reference), None)
        target = self.batch.target
        candidates = Sequences(target.tokens[own], target.lengths[own])
        return sequence_loss(part(outcome, own), candidates, self.reference, self.config, self.cut)


def sequence_loss(
    outcome: Outcome,
    candidates: Sequences,
    reference: Sequences,
    config: SequenceConfig,
    cut: Bool[Tensor, "N"] | None = None,
) -> Float[Tensor, ""]:
    """Return the sequence loss, summed over sentences.

    Args:
        outcome: The result of teacher forcing with the candidates as targets. The `config.count` candidates
            of a sentence are consecutive rows.
        candidates: The tokens of the N candidates.
        reference: The reference of each candidate, in the same order.
        config: The options of the loss.
        cut: Whether the `EOS` of each candidate was forced. Default: all were sampled.
    """
    log_p = outcome.log_likelihood  # (N, T)
    tokens, steps = candidates.tokens.cpu().numpy(), candidates.lengths.cpu().numpy()
    wanted, lengths = reference.tokens.cpu().numpy(), reference.lengths.cpu().numpy()
    scores = torch.from_numpy(prefix_bleu(tokens, steps, wanted, lengths, EOS, UNK)).to(log_p)
    final = scores.gather(1, candidates.lengths.unsqueeze(1) - 1)  # (N, 1)
    groups = len(log_p) // config.count
    if config.loss == "mrt":
        own = candidates.tokens.view(groups, config.count, -1)
        same = (own.unsqueeze(2) == own.unsqueeze(1)).all(-1)  # (sentences, n, n)
        again = same.tril(-1).any(-1)  # Q is over distinct candidates: repetitions get probability 0
        logits = (config.sharpness * log_p.sum(1)).view(groups, -1)
        weights = logits.masked_fill(again, -torch.inf).softmax(-1)
        return -(weights * final.view(groups, -1)).sum()
    returns = final.expand_as(log_p)
    if config.reward == "shaped":
        returns = final - torch.cat([torch.zeros_like(final), scores[:, :-1]], dim=1)
    mask = candidates.mask
    grouped, real = (x.reshape(groups, config.count, -1) for x in (returns, mask))
    # A terminal reward is also defined after the end of a shorter candidate; a shaped one is not.
    if config.reward == "terminal":
        real = torch.ones_like(real)
    expected = leave_one_out(grouped, real, dim=1).reshape(returns.shape)
    sampled = mask
    if cut is not None:
        last = candidates.lengths.unsqueeze(1) - 1 == torch.arange(mask.shape[1], device=mask.device)
        sampled = mask & ~(last & cut.unsqueeze(1))
    gained = reinforce(log_p, returns, expected).masked_fill(~sampled, 0.0)
    return -gained.sum() / config.count


def part(outcome: Outcome, rows: slice, steps: int | None = None) -> Outcome:
    """Return rows of an outcome, cut to the first time steps and without self-attention weights.

    Args:
        outcome: The result of teacher forcing.
        rows: The rows to select.
        steps: The number of time steps. Default: all.
    """
    found: dict[str, Any] = {"encoder": (), "decoder": ()}
    for field in dataclasses.fields(outcome):
        value = getattr(outcome, field.name)
        if field.name in found or value is None:
            continue
        if isinstance(value, tuple):
            found[field.name] = tuple(one[rows, :steps] for one in value)
        else:
            found[field.name] = value[rows, :steps]
    return dataclasses.replace(outcome, **found)
