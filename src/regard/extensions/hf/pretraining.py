"""Pre-training of a language model on monolingual text, with a Hugging Face directory as the result.

    FOLDER/config.json, model.safetensors, tokenizer...   the model, for `transformers` and for the options
                                                          `encoder_path` and `decoder_path` of regard's models
    FOLDER/run/                                           files of the trainer: metrics log and checkpoints

The files of the model are written last. A directory with a `config.json` holds a fully trained model.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import torch

from regard.config import configclass, from_dict, option, read_config, to_dict
from regard.errors import CheckpointError, ConfigError, UsageError
from regard.extensions.hf.files import HF_CONFIG, convert_errors, load_hf_tokenizer, quiet_transformers
from regard.extensions.hf.language_model import (
    CausalDataset,
    HfLanguageModel,
    MaskedDataset,
    build_language_model,
    read_monolingual,
    train_tokenizer,
)
from regard.models.base import TranslationModel
from regard.runs.device import pick_device, set_num_threads
from regard.runs.weights import MODEL_FILE, copy_weights, load_weights
from regard.text.files import directory_lock, partial_directory, sync, write_atomic
from regard.text.reading import InvalidJsonError, file_digest, read_json
from regard.training.config import RunOptions, TrainingConfig
from regard.training.run_config import fixed_options_checksum
from regard.training.run_context import RunContext, init_process_group
from regard.training.trainer import Trainer, TrainingResult

RUN_DIR = "run"
SETTINGS_FILE = "pretrain.json"


@configclass
class MonolingualConfig:
    """Monolingual training and validation text."""

    train: tuple[str, ...] = option(
        help="Training files, plain or compressed, one sentence per line.", min_length=1
    )
    valid: str = option(help="Validation file, plain or compressed, one sentence per line.")
    max_length: int = option(
        default=126,
        help="Maximum number of tokens per line, without start and end symbols; longer lines are truncated.",
        ge=1,
        le=100_000,
    )
    vocab_size: int = option(
        default=8_000,
        help="Vocabulary size of the tokenizer.",
        ge=300,
        le=1_000_000,
    )


@configclass
class LanguageModelConfig:
    """A masked or causal language model: BERT (Devlin et al., 2019) or GPT-2 (Radford et al., 2019)."""

    kind: Literal["masked", "causal"] = option(
        default="masked",
        help="Training objective: masked (BERT, an encoder that predicts masked tokens) or causal (GPT-2, a "
        "decoder that predicts the next token).",
    )
    num_layers: int = option(default=6, help="Number of layers.", ge=1, le=256)
    d_model: int = option(default=512, help="Hidden size, a multiple of `num_heads`.", ge=2, le=16_384)
    num_heads: int = option(default=8, help="Number of attention heads per layer.", ge=1, le=256)
    ffn_size: int = option(default=2048, help="Hidden size of the feed-forward networks.", ge=1, le=65_536)
    dropout: float = option(default=0.1, help="Dropout probability.", ge=0, lt=1)


@configclass
class PretrainConfig(RunOptions):
    """All settings of a pre-training run."""

    text: MonolingualConfig = option(help="Training and validation text.")
    model: LanguageModelConfig = option(
        default=LanguageModelConfig, help="Training objective and size of the model."
    )
    training: TrainingConfig = option(default=TrainingConfig, help="Optimization and validation.")

    def __post_init__(self) -> None:
        """Check that the options are compatible."""
        if self.training.validation.metric != "perplexity":
            raise ValueError("training.validation.metric: a language model supports only 'perplexity'")
        if self.training.losses:
            raise ValueError("training.losses: not available for a language model")
        if self.model.d_model % self.model.num_heads:
            raise ValueError("model.d_model must be a multiple of model.num_heads")


def pretrain_model(
    config: Path | str, output_dir: Path | str | None = None, *, overrides: Sequence[str] = ()
) -> TrainingResult:
    """Pretrain an encoder or a decoder on monolingual text, or resume an interrupted run.

    Args:
        config: TOML file with the configuration of the run.
        output_dir: Output directory in the format of Hugging Face. Default: that of the configuration, or
            `runs/NAME` for a file `NAME.toml`.
        overrides: Settings that override those of the file, as key=value.

    Raises:
        ConfigError: if a key or value is wrong, or the directory holds a run with another config.
        DataError: if the text is missing or malformed.
        UsageError: if transformers is not installed, or the directory holds another model.
        CheckpointError: if a file is corrupt or cannot be written.
    """
    settings = read_config(PretrainConfig, config, overrides)
    directory = Path(output_dir or settings.output_dir or f"runs/{Path(config).stem}")
    return replace(pretrain(settings, directory), output_dir=directory)


def pretrain(config: PretrainConfig, output_dir: Path | str) -> TrainingResult:
    """Pre-train a language model, or resume an interrupted run; see `pretrain_model`."""
    output_dir = Path(output_dir)
    device = pick_device(config.device)
    set_num_threads(config.num_threads or None)
    run = output_dir / RUN_DIR
    with init_process_group(device) as processes, directory_lock(run) if processes.is_main else nullcontext():
        if processes.is_main:
            _create_run_dir(config, output_dir)
        processes.barrier()
        tokenizer = load_hf_tokenizer(run, str(run))
        dataset = MaskedDataset if config.model.kind == "masked" else CausalDataset
        train, valid = (
            dataset(read_monolingual(paths, tokenizer, config.text.max_length), tokenizer)
            for paths in (config.text.train, (config.text.valid,))
        )
        # The seed is set just before the initial weights are sampled, so that reading the text has no effect
        # on them.
        torch.manual_seed(config.seed)
        model = HfLanguageModel(build_language_model(config.model, config.text.max_length, tokenizer))
        texts = [part.text.ids.tobytes() + part.text.ends.tobytes() for part in (train, valid)]
        digest = hashlib.sha256("".join(hashlib.sha256(text).hexdigest() for text in texts).encode())
        checksums = {SETTINGS_FILE: file_digest(run / SETTINGS_FILE)}
        trainer = Trainer(
            cast(TranslationModel, model.to(device)),
            train,
            valid,
            config.training,
            RunContext(
                run, config.seed, processes, {"text": digest.hexdigest()}, checksums, show_progress=True
            ),
        )
        result = trainer.run()
        # Export the best weights, unless a signal interrupted the training.
        if result.signal is None and processes.is_main:
            copy_weights(model, load_weights(run), str(run / MODEL_FILE))
            _export_model(model, tokenizer, output_dir)
        # No process returns before the exported directory is complete.
        processes.barrier()
        return result


def _create_run_dir(config: PretrainConfig, output_dir: Path) -> None:
    """Create the directory of the run with its tokenizer, or check that it belongs to this run."""
    run, options = output_dir / RUN_DIR, to_dict(config)
    if (run / SETTINGS_FILE).is_file():
        # The file may lack options of a later version, which then have their defaults.
        try:
            known = to_dict(from_dict(PretrainConfig, read_json(run / SETTINGS_FILE, dict[str, Any])))
        except (ConfigError, InvalidJsonError):
            known = {}
        if fixed_options_checksum(known) != fixed_options_checksum(options):
            raise ConfigError(
                f"{output_dir} contains a pre-training run with another config; choose another directory"
            )
        return
    if (output_dir / HF_CONFIG).exists() or (output_dir / "config.toml").exists():
        raise UsageError(f"{output_dir}: already contains a model; choose another directory")
    with quiet_transformers():
        tokenizer = train_tokenizer(config.model.kind, config.text.train, config.text.vocab_size)
    with convert_errors(CheckpointError, f"{run}: cannot be written"):
        tokenizer.save_pretrained(run)
    # The settings come last: their presence marks a complete directory for a later call.
    write_atomic(run / SETTINGS_FILE, (json.dumps(options, indent=2, sort_keys=True) + "\n").encode())


def _export_model(model: HfLanguageModel, tokenizer: Any, output_dir: Path) -> None:
    """Write the Hugging Face directory: each file atomically, the config last."""
    try:
        with partial_directory(output_dir / HF_CONFIG) as temporary_dir:
            # A full disk causes several kinds of exceptions in transformers.
            with quiet_transformers(), convert_errors(CheckpointError, f"{output_dir}: cannot be written"):
                tokenizer.save_pretrained(temporary_dir)
                model.model.save_pretrained(temporary_dir)
            for file in sorted(temporary_dir.iterdir(), key=lambda one: (one.name == HF_CONFIG, one.name)):
                # The content must be on disk before the file gets its final name: a crash leaves no empty
                # file.
                sync(file)
                os.replace(file, output_dir / file.name)
        sync(output_dir)
    except OSError as error:
        raise CheckpointError(f"{output_dir}: cannot be written: {error.strerror or error}") from None
