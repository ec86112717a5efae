"""Sequence-level losses (Shen et al. 2016; Wu et al. 2018): minimum risk training and REINFORCE with BLEU.

For each sentence, n candidate translations y' are sampled from the model or taken from a beam. Let R be the
BLEU of `regard.metrics.translation.prefix_bleu`, scaled by the length of the reference. The losses are

    mrt        - sum_y' Q(y') R(y'),   Q(y') proportional to P(y')^alpha, over the distinct candidates
    reinforce  - 1/n sum_y' sum_t (G_t - b_t) log p(y'_t)

where G_t is R(y') (reward = terminal) or R(y') - R(y'_1..t-1), the gain from the tokens from t on (reward =
shaped), and b_t is the mean of the other candidates' G_t. The total loss is m times the model's own objective
and the loss terms before this one, plus 1 - m times the sequence loss.

Two approximations bias the gradient. Candidates from a beam are not samples. Candidates are generated in
evaluation mode, without dropout and without sampling of hard attention, while log p is computed in training
mode. The EOS token that ends a candidate at the maximum length is not sampled, so its log p is excluded.
"""

from typing import Literal

import torch

from regard.attention.base import Attention
from regard.config import configclass, option
from regard.data.batch import Batch, PaddedSequences
from regard.errors import ConfigError
from regard.functional.latent import leave_one_out, reinforce_objective
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig, Sampling
from regard.generation.hypothesis import Hypothesis
from regard.generation.sampling import sample
from regard.metrics.translation import prefix_bleu
from regard.models.base import ForwardOutput, TranslationModel
from regard.text.vocabulary import EOS, UNK
from regard.training.losses.base import LossTerm, TermBatch, register_loss
from regard.types import Bool, Float, Int, Tensor

MAX_LENGTH_RATIO, MAX_LENGTH_OFFSET = 1.5, 10
"""Maximum length of a candidate in tokens: MAX_LENGTH_RATIO times the source length plus this offset."""


@configclass
class SequenceLossConfig:
    """A sequence-level loss on BLEU in addition to the model's own objective."""

    kind: Literal["sequence"] = option(
        default="sequence",
        help="Sequence-level training with sentence BLEU (Wu et al., 2018), from the first step on. Set "
        "training.init_from to start from a trained model.",
    )
    method: Literal["mrt", "reinforce"] = option(
        default="mrt", help="Sequence loss: minimum risk training (mrt) or REINFORCE (reinforce)."
    )
    candidates: Literal["sample", "beam"] = option(
        default="sample", help="Source of the candidates: samples of the model or the best of a beam."
    )
    num_candidates: int = option(default=5, help="Number n of candidates per sentence.", ge=1, le=10_000)
    reward: Literal["terminal", "shaped"] = option(
        default="terminal",
        help="Reward of a token: BLEU of the whole translation (terminal) or, only with reinforce, the "
        "gain in BLEU from that token on (shaped).",
    )
    alpha: float = option(
        default=5e-3,
        help="Only with mrt: exponent of the candidates' probabilities before normalization. Smaller values "
        "make them more equal.",
        gt=0,
        le=1e6,
    )
    likelihood_weight: float = option(
        default=0.3,
        help="Weight m of the model's own objective and of the loss terms before this one; the sequence loss "
        "has the weight 1 - m.",
        ge=0,
        le=1,
    )

    def __post_init__(self) -> None:
        """Reject options that contradict each other."""
        if self.method == "mrt" and self.reward == "shaped":
            raise ValueError(
                "reward = 'shaped' needs method = 'reinforce': minimum risk training scores whole "
                "translations"
            )
        if self.method == "mrt" and self.num_candidates < 2:
            raise ValueError("minimum risk training compares candidates: num_candidates must be 2 or more")


def generate_candidates(
    model: TranslationModel, batch: Batch, config: SequenceLossConfig, seed: int
) -> list[list[Hypothesis]]:
    """Return `config.num_candidates` candidates per sentence; the best one may be repeated.

    Args:
        model: The model; it is in evaluation mode during the call.
        batch: The sentences.
        config: The number of candidates and their source.
        seed: The random seed of the samples.
    """
    search = GenerationConfig(
        beam_size=config.num_candidates,
        num_return=config.num_candidates,
        length_penalty=0.0,
        max_length_ratio=MAX_LENGTH_RATIO,
        max_length_offset=MAX_LENGTH_OFFSET,
    )
    if config.candidates == "beam":
        translations = beam_search(
            model, batch.source, search, upper=batch.upper_bounds, lower=batch.lower_bounds
        )
    else:
        translations = sample(model, batch, search, Sampling(seed=seed))
    return [[*row, *row[:1] * (config.num_candidates - len(row))] for row in translations]


def sequence_loss(
    outcome: ForwardOutput,
    candidates: PaddedSequences,
    reference: PaddedSequences,
    config: SequenceLossConfig,
    forced_eos: Bool[Tensor, "N"] | None = None,
) -> Float[Tensor, ""]:
    """Return the sequence loss, summed over sentences.

    Args:
        outcome: The result of teacher forcing with the candidates as targets. The `config.num_candidates`
            candidates of a sentence are consecutive rows.
        candidates: The tokens of the N candidates.
        reference: The reference of each candidate, in the same order.
        config: The options of the loss.
        forced_eos: Whether the `EOS` of each candidate was forced. Default: all were sampled.
    """
    log_p = outcome.log_likelihood  # (N, T)
    tokens, num_tokens = candidates.tokens.cpu().numpy(), candidates.lengths.cpu().numpy()
    reference_tokens, lengths = reference.tokens.cpu().numpy(), reference.lengths.cpu().numpy()
    scores = torch.from_numpy(prefix_bleu(tokens, num_tokens, reference_tokens, lengths, EOS, UNK)).to(log_p)
    final = scores.gather(1, candidates.lengths.unsqueeze(1) - 1)  # (N, 1)
    num_sentences = len(log_p) // config.num_candidates
    if config.method == "mrt":
        candidate_tokens = candidates.tokens.view(num_sentences, config.num_candidates, -1)
        same = (candidate_tokens.unsqueeze(2) == candidate_tokens.unsqueeze(1)).all(-1)  # (sentences, n, n)
        repeated = same.tril(-1).any(-1)  # Q is over distinct candidates: repetitions get probability 0
        # Q is proportional to p to the power of alpha (Shen et al. 2016).
        logits = (config.alpha * log_p.sum(1)).view(num_sentences, -1)
        weights = logits.masked_fill(repeated, -torch.inf).softmax(-1)
        return -(weights * final.view(num_sentences, -1)).sum()
    returns = final.expand_as(log_p)
    if config.reward == "shaped":
        returns = final - torch.cat([torch.zeros_like(final), scores[:, :-1]], dim=1)
    mask = candidates.mask
    grouped, valid = (x.reshape(num_sentences, config.num_candidates, -1) for x in (returns, mask))
    # A terminal reward is also defined after the end of a shorter candidate; a shaped one is not.
    if config.reward == "terminal":
        valid = torch.ones_like(valid)
    # The baseline of a candidate excludes its own return, so that the gradient stays unbiased.
    baseline = leave_one_out(grouped, valid, dim=1).reshape(returns.shape)
    sampled = mask
    if forced_eos is not None:
        last = candidates.lengths.unsqueeze(1) - 1 == torch.arange(mask.shape[1], device=mask.device)
        sampled = mask & ~(last & forced_eos.unsqueeze(1))
    gained = reinforce_objective(log_p, returns, baseline).masked_fill(~sampled, 0.0)
    return -gained.sum() / config.num_candidates


@register_loss("sequence", SequenceLossConfig)
class SequenceLoss(LossTerm):
    """Adds candidates to each batch and combines their sequence loss with the loss so far."""

    def check_model(self, model: TranslationModel) -> None:
        """Reject models whose attention is conditioned on the reference in training."""
        if any(part.uses_reference for part in model.modules() if isinstance(part, Attention)):
            raise ConfigError(
                "training.losses: sequence: the attention of this model is conditioned on the reference in "
                "training, so that the probability of a candidate would not be that of the model; remove "
                "this term or use another attention mechanism"
            )

    def prepare_batch(
        self, model: TranslationModel, batch: Batch, rows: Int[Tensor, "B"], seed: int
    ) -> TermBatch:
        """Return the candidates of all sentences, sentence by sentence, and whether each `EOS` was forced."""
        candidates = generate_candidates(model, batch, self.config, seed)
        flat = [hypothesis for group in candidates for hypothesis in group]
        device = batch.source.tokens.device
        targets = PaddedSequences.pad([(*hypothesis.tokens, EOS) for hypothesis in flat]).to(device)
        forced_eos = torch.tensor([hypothesis.truncated for hypothesis in flat], device=device)
        owners = torch.arange(len(batch), device=device).repeat_interleave(self.config.num_candidates)
        return TermBatch(batch.with_targets(owners, targets), forced_eos)

    def add(
        self, total: Float[Tensor, ""], batch: Batch, outcome: ForwardOutput, own: TermBatch
    ) -> Float[Tensor, ""]:
        """Return m times the loss so far plus 1 - m times the sequence loss."""
        assert batch.target is not None and own.outcome is not None
        assert own.rows is not None and own.rows.target is not None
        device = batch.target.tokens.device
        owners = torch.arange(len(batch), device=device).repeat_interleave(self.config.num_candidates)
        references = PaddedSequences(batch.target.tokens[owners], batch.target.lengths[owners])
        loss = sequence_loss(own.outcome, own.rows.target, references, self.config, own.values)
        weight = self.config.likelihood_weight
        return weight * total + (1 - weight) * loss
