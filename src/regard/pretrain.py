"""Pre-training of a language model on text of one language: a Hugging Face folder comes out.

    FOLDER/config.json, model.safetensors, tokenizer...   what `transformers` loads, and what the options
                                                          `encoder` and `decoder` of models take
    FOLDER/run/                                           the trainer's: record, states to go on from

The folder's own files come last, so that a folder with a `config.json` is trained to the end.
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
    """Text of one language."""

    train: tuple[str, ...] = option(help="Files of text, plain or gzip, a sentence a line.", min_length=1)
    valid: str = option(help="The file of validation text.")
    max_length: int = option(
        default=126,
        help="Lines are cut to so many tokens, the symbols around them not counted.",
        ge=1,
        le=100_000,
    )
    tokenizer: str | None = option(
        default=None,
        help="A Hugging Face folder whose tokenizer to take; none: one is learned from the text.",
    )
    size: int = option(default=8_000, help="Tokens of a tokenizer that is learned.", ge=300, le=1_000_000)


@config
class LanguageModelConfig:
    """A language model: masked as BERT (Devlin et al. 2019) or causal as GPT-2 (Radford et al. 2019)."""

    kind: Literal["masked", "causal"] = option(
        default="masked",
        help="masked: an encoder, BERT, which learns what hidden tokens were; causal: a decoder, GPT-2, "
        "which learns each token from those before.",
    )
    layers: int = option(default=6, help="How many layers.", ge=1, le=256)
    width: int = option(default=512, help="Their width, a multiple of the heads.", ge=2, le=16_384)
    heads: int = option(default=8, help="Heads of self-attention.", ge=1, le=256)
    feed_forward: int = option(default=2048, help="Width of the feed-forward networks.", ge=1, le=65_536)
    dropout: float = option(default=0.1, help="Probability of dropping a number.", ge=0, lt=1)
    start: str | None = option(
        default=None,
        help="A Hugging Face folder to go on from, in the place of these sizes; its tokenizer too.",
    )


@config
class PretrainConfig:
    """One run of pre-training."""

    folder: str | None = option(
        default=None, help="The folder; none: `runs/` and the name of the config's file."
    )
    seed: int = option(
        default=1,
        help="Seed of the first weights, the order of the text, what is hidden.",
        ge=0,
        le=4_294_967_295,
    )
    device: str = option(default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:N.")
    threads: int = option(
        default=0,
        help="Threads for products on the CPU; 0: as many as the processors that the process may use.",
        ge=0,
        le=1_024,
    )
    text: MonolingualConfig = option(help="The text.")
    model: LanguageModelConfig = option(default=LanguageModelConfig, help="The model and what it learns.")
    training: TrainingConfig = option(default=TrainingConfig, help="How it is trained.")

    def __post_init__(self) -> None:
        """Refuse what there is not without translations."""
        if self.training.validation.metric != "perplexity":
            raise ValueError("training.validation.metric: a language model is judged by perplexity")
        if self.model.start is not None and self.text.tokenizer not in (None, self.model.start):
            raise ValueError("text.tokenizer: model.start brings a tokenizer of its own")
        if self.model.start is None and self.model.width % self.model.heads:
            raise ValueError("model.width is not a multiple of model.heads")


def read_pretraining(path: Path | str, overrides: list[str]) -> PretrainConfig:
    """The config of a run of pre-training from its file.

    Raises:
        ConfigError: if the file or a setting is wrong.
    """
    found = load(PretrainConfig, path, overrides)
    return dataclasses.replace(found, folder=found.folder or f"runs/{Path(path).stem}")


def pretrain(config: PretrainConfig, folder: Path | str) -> Result:
    """Pre-train a language model in a folder, or go on where an earlier run stopped.

    Args:
        config: The run.
        folder: Where the Hugging Face folder is made.

    Raises:
        ConfigError: if the folder holds a run with another config.
        DataError: if the text is missing or broken.
        UsageError: if transformers is not installed, or the folder holds another model.
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
        if result.signal is None and processes.is_main:
            put_weights(model, load_weights(run), str(run / MODEL_FILE))
            _finish(model, tokenizer, folder)
        processes.wait()
        return result


def _examples(config: PretrainConfig, paths: tuple[str, ...], tokenizer: Any) -> MaskedLines | CausalLines:
    lines = read_monolingual(paths, tokenizer, config.text.max_length)
    if config.model.kind == "masked":
        if tokenizer.mask_token_id is None:
            raise DataError("the tokenizer has no mask symbol, which masked language models need")
        return MaskedLines(lines, tokenizer)
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id
    starts = (tokenizer.bos_token_id, tokenizer.cls_token_id, end)
    start = next((one for one in starts if one is not None), None)
    if start is None or end is None:
        raise DataError("the tokenizer has no end symbol, which causal language models need")
    return CausalLines(lines, start, end)


def _begin(config: PretrainConfig, folder: Path) -> None:
    """Make the folder of the run with its tokenizer, or find that it is this run's."""
    run = folder / RUN
    about = to_dict(config)
    for harmless in ("folder", "device", "threads"):
        about.pop(harmless, None)
    about["training"].pop("stop", None)
    text = json.dumps(about, indent=2, sort_keys=True) + "\n"
    if (run / SETTINGS).is_file():
        if (run / SETTINGS).read_text(encoding="utf-8") != text:
            raise ConfigError(
                f"{folder} holds a run of pre-training with another config; give another folder"
            )
        return
    if (folder / HF_CONFIG).exists() or (folder / "config.toml").exists():
        raise UsageError(f"{folder}: holds a model already; give another folder")
    given = config.model.start or config.text.tokenizer
    try:
        if given is None:
            with quiet():
                learned = learn_tokenizer(config.model.kind, config.text.train, config.text.size)
        else:
            learned = open_tokenizer(Path(given), given)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be made: {error.strerror or error}") from None
    with library_errors(CheckpointError, f"{run}: cannot be written"):
        learned.save_pretrained(run)
    write_atomic(run / SETTINGS, text.encode())


def _finish(model: LanguageModel, tokenizer: Any, folder: Path) -> None:
    """Write the files of the Hugging Face folder, each whole, the config last."""
    try:
        with partial_folder(folder / HF_CONFIG) as made:
            # The library's own files end in errors of several kinds when the disk is full.
            with quiet(), library_errors(CheckpointError, f"{folder}: cannot be written"):
                tokenizer.save_pretrained(made)
                model.model.save_pretrained(made)
            for file in sorted(made.iterdir(), key=lambda one: (one.name == HF_CONFIG, one.name)):
                sync_file(file)
                os.replace(file, folder / file.name)
        sync_folder(folder)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written: {error.strerror or error}") from None
