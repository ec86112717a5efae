"""Hugging Face language models, masked (BERT) and causal (GPT-2), with their tokenizers and training data.

In masked language modeling, 15 % of the tokens of each line, and at least one, are predicted. Of these, 80 %
are replaced by the mask token, 10 % by a random token, and 10 % are unchanged (Devlin et al., 2019, Section
3.1). The positions are sampled in each epoch as a function of seed, epoch and line. In causal language
modeling, each token and the end symbol are predicted from the preceding tokens. Token ids are those of
transformers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.attention.base import Objective
from regard.data.batch import Batch, BatchConfig, collate, make_batches
from regard.errors import DataError
from regard.extensions.hf.files import import_transformers, quiet_transformers
from regard.models.base import ForwardOutput, OutputAttentions
from regard.models.output import scatter_real_tokens
from regard.text.corpus import read_lines
from regard.types import Bool, Float, Int, Tensor

PREDICTED_RATIO, MASK_TOKEN_RATIO, RANDOM_TOKEN_RATIO = 0.15, 0.8, 0.1
TOKENIZER_CHUNK = 1000
MASKED_SPECIAL_TOKENS = {
    f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")
}
CAUSAL_SPECIAL_TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
SPECIAL_PER_LINE = 2
"""Number of special symbols around a line."""


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """A batch for masked language modeling: sentences with masked tokens as source, these tokens as target.

    Attributes:
        masked: [B, S], True at the positions to predict. Each row has one True per target token.
    """

    masked: Bool[Tensor, "B S"] | None = None

    def to(self, device: torch.device | str) -> "MaskedBatch":
        """Return a copy on another device."""
        assert self.target is not None and self.masked is not None
        parts = (self.source.to(device), self.target.to(device), self.rows.to(device))
        return MaskedBatch(*parts, masked=self.masked.to(device))


@dataclass(frozen=True)
class TokenizedLines:
    """Lines as token ids, without the special tokens around them.

    Attributes:
        ids: The ids of all lines, concatenated.
        ends: The end offset of each line in `ids`.
    """

    ids: np.ndarray
    ends: np.ndarray

    def line(self, row: int) -> np.ndarray:
        """Return the ids of a line."""
        return self.ids[self.ends[row - 1] if row else 0 : self.ends[row]]


def read_monolingual(paths: Sequence[str], tokenizer: Any, max_tokens: int) -> TokenizedLines:
    """Tokenize files, plain or compressed; empty lines are skipped, long lines are truncated.

    Raises:
        DataError: if a file is missing or invalid, or the files contain no text.
    """
    flat: list[np.ndarray] = []
    ends: list[int] = []
    total = 0
    lines = (line for line in chain.from_iterable(map(read_lines, paths)) if line.strip())
    while chunk := list(islice(lines, TOKENIZER_CHUNK)):
        for ids in tokenizer(chunk, add_special_tokens=False, verbose=False)["input_ids"]:
            if ids:
                flat.append(np.array(ids[:max_tokens], dtype=np.int32))
                ends.append(total := total + len(flat[-1]))
    if not ends:
        raise DataError(f"{', '.join(paths)}: contains no text")
    return TokenizedLines(np.concatenate(flat), np.array(ends, dtype=np.int64))


def num_masked(length: int) -> int:
    """Return the number of tokens to predict in a line of the given length."""
    return max(1, round(PREDICTED_RATIO * length))


def mask_tokens(
    ids: np.ndarray, random: np.random.Generator, mask_id: int, random_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mask tokens of a line (Devlin et al., 2019, Section 3.1); random ones are sampled from `random_ids`.

    Returns:
        The masked line, and the sorted positions of the tokens to predict.
    """
    # Sorted, so that targets are in the order of the text.
    positions = np.sort(random.permutation(len(ids))[: num_masked(len(ids))])
    uniform = random.random(len(positions))
    masked = ids.copy()
    sampled = random.choice(random_ids, len(positions))
    masked[positions] = np.where(
        uniform < MASK_TOKEN_RATIO,
        mask_id,
        np.where(uniform < MASK_TOKEN_RATIO + RANDOM_TOKEN_RATIO, sampled, ids[positions]),
    )
    return masked, positions


class CausalDataset:
    """Training examples of a causal language model: lines between the start and the end symbol.

    Attributes:
        lengths: The source and target length of every line, including the start or end symbol.
    """

    def __init__(self, text: TokenizedLines, tokenizer: Any) -> None:
        """Compute the lengths."""
        self.text, self._mask_seed = text, (0, 0)
        self.start, self.end = tokenizer.bos_token_id, tokenizer.eos_token_id
        lengths = np.diff(text.ends, prepend=0) + 1
        self.lengths = lengths, lengths

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the rows of each batch of an epoch, and use the masks of this epoch from now on."""
        self._mask_seed = (seed, epoch)
        return make_batches(*self.lengths, config, seed, epoch)

    def batch(self, rows: Sequence[int] | np.ndarray) -> Batch:
        """Return rows as a padded batch."""
        lines = [self.text.line(int(row)) for row in rows]
        sources = [np.concatenate([[self.start], line]) for line in lines]
        return collate(sources, [np.concatenate([line, [self.end]]) for line in lines], rows)


class MaskedDataset(CausalDataset):
    """Training examples of a masked language model: lines between `[CLS]` and `[SEP]`.

    The target length of a line is its number of masked tokens.
    """

    def __init__(self, text: TokenizedLines, tokenizer: Any) -> None:
        """Compute the lengths."""
        super().__init__(text, tokenizer)
        self.mask: int = tokenizer.mask_token_id
        self.start, self.end = tokenizer.cls_token_id, tokenizer.sep_token_id
        special = set(tokenizer.all_special_ids)
        self.random_ids = np.array([number for number in range(len(tokenizer)) if number not in special])
        lengths = np.diff(text.ends, prepend=0)
        masked = np.array([num_masked(int(length)) for length in lengths])
        self.lengths = lengths + SPECIAL_PER_LINE, masked

    def batch(self, rows: Sequence[int] | np.ndarray) -> MaskedBatch:
        """Return rows as a padded batch with masked tokens."""
        sources, targets = [], []
        length = int(max(self.lengths[0][int(row)] for row in rows))
        masked = np.zeros((len(rows), length), dtype=bool)
        for number, row in enumerate(rows):
            line = self.text.line(int(row))
            # Seeded by row, so that the mask does not depend on the composition of batches.
            random = np.random.default_rng([*self._mask_seed, int(row)])
            masked_ids, positions = mask_tokens(line, random, self.mask, self.random_ids)
            sources.append(np.concatenate([[self.start], masked_ids, [self.end]]))
            targets.append(line[positions])
            masked[number, positions + 1] = True
        batch = collate(sources, targets, rows)
        assert batch.target is not None
        return MaskedBatch(batch.source, batch.target, batch.rows, masked=torch.from_numpy(masked))


class HfLanguageModel(nn.Module):
    """A language model, which predicts the masked tokens of a `MaskedBatch`, or otherwise the next tokens."""

    objective: Objective = "marginal"
    reward: None = None

    def __init__(self, model: Any) -> None:
        """Wrap the model."""
        super().__init__()
        self.model = model

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets; see `TranslationModel.forward`.

        The sources of a causal model begin with a start symbol, and its targets, of the same length, end with
        an end symbol. There is no cross-attention to return.
        """
        assert batch.target is not None
        target = batch.target
        output = self.model(input_ids=batch.source.tokens, attention_mask=batch.source.mask.long())
        # The positions to predict: the masked ones, or all.
        predicted = (
            batch.masked if isinstance(batch, MaskedBatch) and batch.masked is not None else target.mask
        )
        logits = output.logits[predicted].float()  # (N, V)
        scores = score_logits(logits, target.tokens[target.mask], target.mask, mean_log_probs)
        return ForwardOutput.with_one_context(*scores, target.mask)


def score_logits(
    logits: Float[Tensor, "N V"],
    targets: Int[Tensor, "N"],
    mask: Bool[Tensor, "B T"],
    mean_log_probs: bool,
) -> tuple[Float[Tensor, "B T 1"], Float[Tensor, "B T 1"] | None]:
    """Return log p(y) at the real tokens, and its mean over the vocabulary if requested, given the logits."""
    # log p(y) = logit - logsumexp, which does not store the log-softmax of the whole vocabulary.
    total = torch.logsumexp(logits, dim=-1, keepdim=True)
    log_likelihoods = scatter_real_tokens(logits.gather(1, targets.unsqueeze(1)) - total, mask)
    if not mean_log_probs:
        return log_likelihoods, None
    return log_likelihoods, scatter_real_tokens(logits.mean(-1, keepdim=True) - total, mask)


def train_tokenizer(kind: str, paths: Sequence[str], size: int) -> Any:
    """Train a byte-level BPE tokenizer as in GPT-2 (Radford et al., 2019). The result is deterministic.

    The special symbols are those of BERT if the kind is `masked`. The size is the maximum.

    Raises:
        DataError: if a file is missing or broken.
        UsageError: if transformers is not installed.
    """
    transformers = import_transformers()
    from tokenizers import ByteLevelBPETokenizer, Tokenizer
    from tokenizers.processors import BertProcessing

    special_tokens = MASKED_SPECIAL_TOKENS if kind == "masked" else CAUSAL_SPECIAL_TOKENS
    tokenizer = ByteLevelBPETokenizer(add_prefix_space=True)
    lines = chain.from_iterable(map(read_lines, paths))
    names = list(special_tokens.values())
    tokenizer.train_from_iterator(lines, size, min_frequency=0, show_progress=False, special_tokens=names)
    if kind == "masked":
        end, start = ((name, tokenizer.token_to_id(name)) for name in ("[SEP]", "[CLS]"))
        tokenizer.post_processor = BertProcessing(end, start)
    tokenizer_object = Tokenizer.from_str(tokenizer.to_str())
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_object, **special_tokens)


def build_language_model(config: Any, max_length: int, tokenizer: Any) -> Any:
    """Build the model of a `LanguageModelConfig` with new weights, for lines of up to `max_length` tokens."""
    shared = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "max_position_embeddings": max_length + SPECIAL_PER_LINE,
    }
    with quiet_transformers() as transformers:
        if config.kind == "masked":
            hf_config = transformers.BertConfig(
                intermediate_size=config.ffn_size,
                hidden_dropout_prob=config.dropout,
                attention_probs_dropout_prob=config.dropout,
                **shared,
            )
            return transformers.BertForMaskedLM(hf_config)
        dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), config.dropout)
        ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
        hf_config = transformers.GPT2Config(n_inner=config.ffn_size, **shared, **dropout, **ends)
        return transformers.GPT2LMHeadModel(hf_config)
