"""Pre-training of a language model on monolingual text, with a Hugging Face directory as the result.

    FOLDER/config.json, model.safetensors, tokenizer...   the model, for `transformers` and for the options
                                                          `encoder` and `decoder` of regard's models
    FOLDER/run/                                           files of the trainer: record and checkpoints

The files of the model are written last. A directory with a `config.json` holds a fully trained model.
"""

import dataclasses
import hashlib
import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, cast

import torch

from regard.config import config, load, option, to_dict
from regard.data.files import file_digest, sync_file, sync_folder, write_atomic
from regard.data.hf import HF_CONFIG, library_errors, open_tokenizer, quiet
from regard.data.locking import claimed
from regard.data.monolingual import CausalLines, MaskedLines, read_monolingual
from regard.data.partial import partial_folder
from regard.errors import CheckpointError, ConfigError, DataError, UsageError
from regard.models.base import TranslationModel
from regard.models.hf.language import LanguageModel
from regard.models.hf.learned import learn_tokenizer, open_language_model
from regard.training.config import TrainingConfig
from regard.training.device import pick_device, use_threads
from regard.training.distributed import join
from regard.training.trainer import Result, Trainer
from regard.training.weights import MODEL_FILE, load_weights, put_weights

__all__ = [
    "LanguageModelConfig",
    "MonolingualConfig",
    "PretrainConfig",
    "pretrain",
    "read_pretraining",
]

RUN = "run"
SETTINGS = "pretrain.json"


@config
class MonolingualConfig:
    """Monolingual training and validation text."""

    train: tuple[str, ...] = option(
        help="Training files, plain text or gzip, one sentence per line.", min_length=1
    )
    valid: str = option(help="Validation file, plain text or gzip, one sentence per line.")
    max_length: int = option(
        default=126,
        help="Maximum number of tokens per line, without start and end symbols; longer lines are truncated.",
        ge=1,
        le=100_000,
    )
    tokenizer: str | None = option(
        default=None,
        help="Hugging Face directory with the tokenizer. Default: a new tokenizer, trained on the text.",
    )
    size: int = option(
        default=8_000, help="Vocabulary size of a tokenizer trained here.", ge=300, le=1_000_000
    )


@config
class LanguageModelConfig:
    """A masked or causal language model: BERT (Devlin et al., 2019) or GPT-2 (Radford et al., 2019)."""

    kind: Literal["masked", "causal"] = option(
        default="masked",
        help="Training objective: masked (BERT, an encoder that predicts masked tokens) or causal (GPT-2, a "
        "decoder that predicts the next token).",
    )
    layers: int = option(default=6, help="Number of layers.", ge=1, le=256)
    width: int = option(default=512, help="Hidden size, a multiple of `heads`.", ge=2, le=16_384)
    heads: int = option(default=8, help="Number of attention heads per layer.", ge=1, le=256)
    feed_forward: int = option(
        default=2048, help="Hidden size of the feed-forward networks.", ge=1, le=65_536
    )
    dropout: float = option(default=0.1, help="Dropout probability.", ge=0, lt=1)
    start: str | None = option(
        default=None,
        help="Hugging Face directory of a model to continue training; its tokenizer is used, and the sizes "
        "above are ignored. Default: a new model.",
    )


@config
class PretrainConfig:
    """All settings of a pre-training run."""

    folder: str | None = option(
        default=None, help="Output directory. Default: `runs/NAME` for a config file `NAME.toml`."
    )
    seed: int = option(
        default=1,
        help="Random seed of the initial weights, the order of the text and the masked positions.",
        ge=0,
        le=4_294_967_295,
    )
    device: str = option(
        default="auto", help="Device: auto (a GPU if available, else the CPU), cpu, cuda or cuda:N."
    )
    threads: int = option(
        default=0,
        help="Number of CPU threads for matrix multiplications. 0 uses all available processors.",
        ge=0,
        le=1_024,
    )
    text: MonolingualConfig = option(help="Training and validation text.")
    model: LanguageModelConfig = option(
        default=LanguageModelConfig, help="Training objective and size of the model."
    )
    training: TrainingConfig = option(default=TrainingConfig, help="Optimization and validation.")

    def __post_init__(self) -> None:
        """Check that the options are compatible."""
        if self.training.validation.metric != "perplexity":
            raise ValueError("training.validation.metric: a language model supports only 'perplexity'")
        if self.model.start is not None and self.text.tokenizer not in (None, self.model.start):
            raise ValueError("text.tokenizer: not allowed with model.start, whose own tokenizer is used")
        if self.model.start is None and self.model.width % self.model.heads:
            raise ValueError("model.width must be a multiple of model.heads")


def read_pretraining(path: Path | str, overrides: list[str]) -> PretrainConfig:
    """Read the config of a pre-training run.

    Args:
        path: The TOML file. For `NAME.toml` the default output directory is `runs/NAME`.
        overrides: Overrides of the form `a.b.c=value`.

    Raises:
        ConfigError: if the file or a setting is wrong.
    """
    found = load(PretrainConfig, path, overrides)
    return dataclasses.replace(found, folder=found.folder or f"runs/{Path(path).stem}")


def pretrain(config: PretrainConfig, folder: Path | str) -> Result:
    """Pre-train a language model, or resume an interrupted run.

    Args:
        config: The settings of the run.
        folder: The output directory, which becomes a Hugging Face directory.

    Returns:
        The result of the training.

    Raises:
        ConfigError: if the directory holds a run with another config.
        DataError: if the text is missing or malformed.
        UsageError: if transformers is not installed, or the directory holds another model.
        CheckpointError: if a file is corrupt or cannot be written.
    """
    folder = Path(folder)
    device = pick_device(config.device)
    use_threads(config.threads or None)
    run = folder / RUN
    with join(device) as processes, claimed(run) if processes.is_main else nullcontext():
        if processes.is_main:
            _begin(config, folder)
        processes.wait()
        tokenizer = open_tokenizer(run, str(run))
        train, valid = (
            _examples(config, paths, tokenizer) for paths in (config.text.train, (config.text.valid,))
        )
        torch.manual_seed(config.seed)
        model = LanguageModel(open_language_model(config.model, config.text.max_length, tokenizer))
        trainer = Trainer(
            cast(TranslationModel, model.to(device)),
            train,
            valid,
            config.training,
            folder=run,
            seed=config.seed,
            processes=processes,
            beside={SETTINGS: file_digest(run / SETTINGS)},
            identity={"text": hashlib.sha256((train.text.digest + valid.text.digest).encode()).hexdigest()},
        )
        result = trainer.run()
        # Export the best weights, unless a signal interrupted the training.
        if result.signal is None and processes.is_main:
            put_weights(model, load_weights(run), str(run / MODEL_FILE))
            _finish(model, tokenizer, folder)
        processes.wait()
        return result


def _examples(config: PretrainConfig, paths: tuple[str, ...], tokenizer: Any) -> MaskedLines | CausalLines:
    """Return the examples of the training objective for some files."""
    lines = read_monolingual(paths, tokenizer, config.text.max_length)
    if config.model.kind == "masked":
        if tokenizer.mask_token_id is None:
            raise DataError("the tokenizer has no mask symbol, which a masked language model requires")
        return MaskedLines(lines, tokenizer)
    # BERT-style tokenizers name these symbols cls and sep. GPT-2 has one symbol for start and end.
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id
    starts = (tokenizer.bos_token_id, tokenizer.cls_token_id, end)
    start = next((one for one in starts if one is not None), None)
    if start is None or end is None:
        raise DataError("the tokenizer has no end symbol, which a causal language model requires")
    return CausalLines(lines, start, end)


def _begin(config: PretrainConfig, folder: Path) -> None:
    """Create the directory of the run with its tokenizer, or check that it belongs to this run."""
    run = folder / RUN
    about = to_dict(config)
    # These options may change when a run is resumed.
    for key in ("folder", "device", "threads"):
        about.pop(key, None)
    about["training"].pop("stop", None)
    text = json.dumps(about, indent=2, sort_keys=True) + "\n"
    if (run / SETTINGS).is_file():
        if (run / SETTINGS).read_text(encoding="utf-8") != text:
            raise ConfigError(
                f"{folder} contains a pre-training run with another config; choose another directory"
            )
        return
    if (folder / HF_CONFIG).exists() or (folder / "config.toml").exists():
        raise UsageError(f"{folder}: already contains a model; choose another directory")
    given = config.model.start or config.text.tokenizer
    try:
        if given is None:
            with quiet():
                learned = learn_tokenizer(config.model.kind, config.text.train, config.text.size)
        else:
            learned = open_tokenizer(Path(given), given)
    except OSError as error:
        raise CheckpointError(f"{folder}: directory cannot be created: {error.strerror or error}") from None
    with library_errors(CheckpointError, f"{run}: cannot be written"):
        learned.save_pretrained(run)
    write_atomic(run / SETTINGS, text.encode())


def _finish(model: LanguageModel, tokenizer: Any, folder: Path) -> None:
    """Write the Hugging Face directory: each file atomically, the config last."""
    try:
        with partial_folder(folder / HF_CONFIG) as made:
            # A full disk causes several kinds of exceptions in transformers.
            with quiet(), library_errors(CheckpointError, f"{folder}: cannot be written"):
                tokenizer.save_pretrained(made)
                model.model.save_pretrained(made)
            for file in sorted(made.iterdir(), key=lambda one: (one.name == HF_CONFIG, one.name)):
                sync_file(file)
                os.replace(file, folder / file.name)
        sync_folder(folder)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written: {error.strerror or error}") from None
