"""Hugging Face language models, masked (BERT) and causal (GPT-2), and their tokenizers.

The trainer uses only a model's objective, its `ForwardOutput` and its floating-point operations. Token ids
are those of transformers.
"""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from torch import nn

from regard.attention.base import Objective
from regard.data.batch import Batch
from regard.errors import ConfigError
from regard.extensions.hf.files import import_transformers, quiet_transformers
from regard.extensions.hf.loading import load_auto_model, max_positions
from regard.extensions.hf.monolingual import MaskedBatch
from regard.models.base import ForwardOutput, OutputAttentions
from regard.models.output import score_logits
from regard.text.corpus import read_lines

__all__ = ["HfLanguageModel", "build_language_model", "train_tokenizer"]

MASKED_SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
CAUSAL_SPECIAL_TOKENS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
SPECIAL_PER_LINE = 2
"""Number of special symbols around a line."""


class HfLanguageModel(nn.Module):
    """A language model; it predicts the masked tokens of a `MaskedBatch`, and otherwise the next tokens.

    Args:
        model: A model of transformers with its output layer.
    """

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

        Args:
            batch: For a causal model, sources that begin with a start symbol, and targets of the same length
                that end with an end symbol.
            mean_log_probs: Whether to compute `ForwardOutput.mean_log_probs`.
            output_attentions: Ignored: there is no cross-attention.
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


def train_tokenizer(kind: str, paths: Sequence[str], size: int) -> Any:
    """Train a byte-level BPE tokenizer as in GPT-2 (Radford et al., 2019). The result is deterministic.

    Args:
        kind: `masked`, with BERT's special symbols, or `causal`.
        paths: Text files.
        size: Maximum vocabulary size.

    Raises:
        DataError: if a file is missing or broken.
        UsageError: if transformers is not installed.
    """
    transformers = import_transformers()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    masked = kind == "masked"
    special_tokens = MASKED_SPECIAL_TOKENS if masked else CAUSAL_SPECIAL_TOKENS
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special_tokens.values()),
        # All 256 bytes, so that no text is unknown.
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(chain.from_iterable(map(read_lines, paths)), trainer)
    if masked:
        ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special_tokens)


def build_language_model(config: Any, max_length: int, tokenizer: Any) -> Any:
    """Build the model that a config describes, with new weights or with those of a directory.

    Args:
        config: A `LanguageModelConfig`.
        max_length: Maximum number of tokens per line.
        tokenizer: The tokenizer of the model.

    Raises:
        CheckpointError: if the directory is missing or broken.
        ConfigError: if lines can be longer than the model's maximum length.
    """
    masked = config.kind == "masked"
    if config.init_from is not None:
        return _load_pretrained(Path(config.init_from), masked, max_length)
    shared = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    with quiet_transformers() as transformers:
        if masked:
            hf_config = transformers.BertConfig(
                hidden_size=config.d_model,
                num_hidden_layers=config.num_layers,
                num_attention_heads=config.num_heads,
                intermediate_size=config.ffn_size,
                hidden_dropout_prob=config.dropout,
                attention_probs_dropout_prob=config.dropout,
                max_position_embeddings=max_length + SPECIAL_PER_LINE,
                **shared,
            )
            return transformers.BertForMaskedLM(hf_config)
        hf_config = transformers.GPT2Config(
            n_embd=config.d_model,
            n_layer=config.num_layers,
            n_head=config.num_heads,
            n_inner=config.ffn_size,
            resid_pdrop=config.dropout,
            embd_pdrop=config.dropout,
            attn_pdrop=config.dropout,
            n_positions=max_length + SPECIAL_PER_LINE,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **shared,
        )
        return transformers.GPT2LMHeadModel(hf_config)


def _load_pretrained(directory: Path, masked: bool, max_length: int) -> Any:
    """Load a model from a directory, to continue training it."""
    auto_class = "AutoModelForMaskedLM" if masked else "AutoModelForCausalLM"
    # An encoder attends in both directions unless it is configured as a decoder.
    changes = {} if masked else {"is_decoder": True}
    # Any parameter may be missing: an encoder gets a new output layer.
    model = load_auto_model(auto_class, directory, optional=("",), **changes)
    limit = max_positions(model.base_model)
    if limit is not None and max_length + SPECIAL_PER_LINE > limit:
        raise ConfigError(
            f"text.max_length = {max_length}, with {SPECIAL_PER_LINE} special symbols per line, exceeds the "
            f"{limit} positions of {directory}: decrease text.max_length"
        )
    return model
