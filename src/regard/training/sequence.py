"""Sequence-level losses (Wu et al. 2018; Shen et al. 2016): whole translations, judged by BLEU.

For each sentence n candidates y' are drawn from the model or are its beam's best. With R the BLEU of
`regard.metrics.prefix_bleu`, which is as large as the reference is long,

    risk       - sum_y' Q(y') R(y'),   Q(y') proportional to P(y')^s, over the candidates that differ
    reinforce  - 1/n sum_y' sum_t (G_t - b_t) log p(y'_t)

G_t being R(y') (terminal) or what the words from t on add to it, R(y') - R(y'_1..t-1) (shaped), and b_t the
mean of the other candidates' G_t. Minimised is m times the model's own objective and 1 - m times this.
Candidates of a beam are no draws: their estimate is biased. Nor is the end symbol of a drawn candidate that
is as long as may be: its log p is left out. Candidates are made as in translation, without dropout, and by
hard attention without chance, while log p is that of training: what comes of that is a bias too.
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
"""Candidates have at most so many tokens for each source token, and so many more."""


@config
class SequenceConfig:
    """Whole translations judged by BLEU, beside the model's own objective."""

    loss: Literal["risk", "reinforce"] = option(
        default="risk", help="Minimum risk over the candidates, or REINFORCE."
    )
    candidates: Literal["sample", "beam"] = option(
        default="sample", help="Draw them from the model, or take the best of a beam."
    )
    count: int = option(default=5, help="n: how many candidates a sentence has.", ge=1, le=10_000)
    reward: Literal["terminal", "shaped"] = option(
        default="terminal", help="Reward each word by the whole translation, or by what comes from it on."
    )
    sharpness: float = option(
        default=5e-3, help="s: the power of probabilities among the candidates of a risk.", gt=0, le=1e6
    )
    own: float = option(default=0.3, help="m: the share of the model's own objective.", ge=0, le=1)

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if self.loss == "risk" and self.reward == "shaped":
            raise ValueError(
                "a risk is of whole translations: reward = 'shaped' goes with loss = 'reinforce'"
            )
        if self.loss == "risk" and self.count < 2:
            raise ValueError("a risk compares candidates: count must be 2 or more")


@dataclass(frozen=True)
class Candidate:
    """A translation to be judged.

    Attributes:
        tokens: Its tokens, `EOS` the last.
        cut: Whether `EOS` was no draw, nothing else being allowed there.
    """

    tokens: tuple[int, ...]
    cut: bool = False


def draw_candidates(
    model: TranslationModel, batch: Batch, config: SequenceConfig, seed: int
) -> list[list[Candidate]]:
    """The candidates of each sentence; of a beam with too few the best comes again.

    Args:
        model: Is put into evaluation mode meanwhile.
        batch: The sentences.
        config: How many, and where from.
        seed: Of what is drawn.
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
    """A batch with further rows for its sentences' candidates.

    Attributes:
        batch: The B sentences with their references, then the candidates, sentence by sentence.
        reference: The reference of each candidate.
        cut: [N], of each candidate whether its end was no draw.
        config: How they are judged.
    """

    batch: Batch
    reference: Sequences
    cut: Bool[Tensor, "N"]
    config: SequenceConfig

    @classmethod
    def of(cls, batch: Batch, candidates: Sequence[Sequence[Candidate]], config: SequenceConfig) -> "Judged":
        """Put it together.

        Args:
            batch: The sentences.
            candidates: Of each sentence, `config.count`.
            config: How they are judged.
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
        """The loss of the candidates, given the outcome of the whole batch."""
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
    """The loss, summed over sentences.

    Args:
        outcome: Of teacher forcing with the candidates, those of a sentence one after the other, as many for
            each.
        candidates: Their tokens.
        reference: Each candidate's reference, in the same order.
        config: Which loss.
        cut: Of which candidates the end was no draw; none: of none.
    """
    log_p = outcome.log_likelihood  # (N, T)
    said, steps = candidates.tokens.cpu().numpy(), candidates.lengths.cpu().numpy()
    wanted, lengths = reference.tokens.cpu().numpy(), reference.lengths.cpu().numpy()
    scores = torch.from_numpy(prefix_bleu(said, steps, wanted, lengths, EOS, UNK)).to(log_p)
    final = scores.gather(1, candidates.lengths.unsqueeze(1) - 1)  # (N, 1)
    groups = len(log_p) // config.count
    if config.loss == "risk":
        own = candidates.tokens.view(groups, config.count, -1)
        same = (own.unsqueeze(2) == own.unsqueeze(1)).all(-1)  # (sentences, n, n)
        again = same.tril(-1).any(-1)
        logits = (config.sharpness * log_p.sum(1)).view(groups, -1)
        weights = logits.masked_fill(again, -torch.inf).softmax(-1)
        return -(weights * final.view(groups, -1)).sum()
    returns = final.expand_as(log_p)
    if config.reward == "shaped":
        returns = final - torch.cat([torch.zeros_like(final), scores[:, :-1]], dim=1)
    mask = candidates.mask
    grouped, real = (x.reshape(groups, config.count, -1) for x in (returns, mask))
    if config.reward == "terminal":
        real = torch.ones_like(real)
    expected = leave_one_out(grouped, real, dim=1).reshape(returns.shape)
    drawn = mask
    if cut is not None:
        last = candidates.lengths.unsqueeze(1) - 1 == torch.arange(mask.shape[1], device=mask.device)
        drawn = mask & ~(last & cut.unsqueeze(1))
    gained = reinforce(log_p, returns, expected).masked_fill(~drawn, 0.0)
    return -gained.sum() / config.count


def part(outcome: Outcome, rows: slice, steps: int | None = None) -> Outcome:
    """Some rows of an outcome, and of these the first steps; without self-attention.

    Args:
        outcome: Of teacher forcing.
        rows: Which sentences.
        steps: How many steps; none: all.
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
