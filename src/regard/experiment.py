"""Runs from one config: prepare the data, build and train the model, and load it from its directory.

A model directory is self-contained: `config.toml` holds the config of the run, further files hold the
tokenizers and vocabularies, and `model.safetensors` holds the best weights (see
`regard.training.checkpoint`).
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import torch

from regard.config import (
    TaggedUnion,
    apply_override,
    configclass,
    dump_toml,
    from_dict,
    option,
    read_config,
    to_dict,
)
from regard.data.checksums import checked_file
from regard.data.corpus import DataConfig
from regard.data.dataset import PreparedData, prepare_data
from regard.data.files import file_digest, read_bytes, write_atomic
from regard.data.guided_alignment import GuidedSplit
from regard.data.hf import HF_CONFIG, is_hf_directory, missing_directory_message, read_hf_config
from regard.data.locking import directory_lock
from regard.data.pretokenization import ProgressCallback
from regard.data.swap_detection import warn_if_swapped
from regard.data.text import TextProcessor
from regard.decoding.config import GenerationConfig
from regard.errors import CheckpointError, ConfigError, DataError, UsageError
from regard.hf_directory import hf_run_sections, load_hf_text, warn_ignored_settings
from regard.models.base import TranslationModel
from regard.models.lstm_config import RnnConfig
from regard.models.precision import SearchPrecision, parse_precision, set_precision
from regard.models.registry import PRETRAINED, ModelConfig, build_for_text, copy_pretrained_configs
from regard.smt.config import PhraseConfig
from regard.training.checkpoint import state_files
from regard.training.config import TrainingConfig
from regard.training.device import pick_device, set_num_threads
from regard.training.distributed import ProcessGroup, init_process_group
from regard.training.fertility import add_fertilities, load_text_processing, save_text_processing
from regard.training.fine_tuning import FineTuningConfig
from regard.training.guided_alignment import GuidedAlignmentConfig
from regard.training.guided_links import load_guided_links
from regard.training.length_check import check_max_lengths
from regard.training.phrase_training import has_phrase_run, run_phrase_training
from regard.training.resume import check_model_files, config_differences, file_checksums, is_resumable
from regard.training.sequence_loss import SequenceLossConfig
from regard.training.serialization import read_metadata
from regard.training.trainer import Trainer, TrainingResult
from regard.training.translation_metric import TranslationMetric
from regard.training.weights import (
    EXPORTED_FILE,
    MODEL_FILE,
    check_weight_shapes,
    copy_weights,
    load_weights,
    weights_file,
)
from regard.version import __version__

__all__ = [
    "CONFIG_FILE",
    "LoadedModel",
    "RunConfig",
    "find_model_dir",
    "load_config",
    "load_model",
    "read_run_config",
    "train",
    "write_config",
]

_log = logging.getLogger(__name__)

CONFIG_FILE = "config.toml"
VERSION_MARKER = "# Written by regard "
"""Start of the first line of a config file; the version follows."""
END_MARKER = "# end of config\n"
"""Last line of a config file. It detects truncation: a truncated config would still be valid TOML, with
defaults for the missing options."""


@configclass
class RunConfig:
    """All settings of a run: data, model, training and search."""

    output_dir: str | None = option(
        default=None, help="Output directory. Default: `runs/NAME` for a config file `NAME.toml`."
    )
    seed: int = option(
        default=1,
        help="Random seed of the initial weights, the order of the data and dropout.",
        ge=0,
        le=2**32 - 1,
    )
    device: str = option(
        default="auto", help="Device: auto (a GPU if available, else the CPU), cpu, cuda or cuda:N."
    )
    num_threads: int = option(
        default=0,
        help="Number of CPU threads for matrix multiplications. 0 uses all available processors.",
        ge=0,
        le=1_024,
    )
    data: DataConfig = option(help="Training and validation data.")
    model: Annotated[ModelConfig | PhraseConfig, TaggedUnion("rnn")] = option(
        default=RnnConfig, help="Architecture and size of the model."
    )
    training: TrainingConfig = option(default=TrainingConfig, help="Optimization and validation.")
    guided_alignment: GuidedAlignmentConfig | None = option(
        default=None,
        help="Supervision of attention by word alignments (Chen et al., 2016). Default: no supervision.",
    )
    sequence_loss: SequenceLossConfig | None = option(
        default=None,
        help="Sequence-level training with sentence BLEU (Wu et al., 2018). Default: token-level loss only.",
    )
    fine_tuning: FineTuningConfig | None = option(
        default=None,
        help="Fine-tuning of the pre-trained part of the model. Default: trained like the other parts.",
    )
    generation: GenerationConfig = option(
        default=GenerationConfig, help="Default search settings for translation."
    )

    def with_alignment(self) -> "RunConfig":
        """Return the config in which word alignments come from the supervised attention.

        A layer or heads given in `generation.alignment` take precedence.
        """
        own, taught = self.generation.alignment, self.guided_alignment
        if taught is None or own.layer is not None:
            return self
        found = dataclasses.replace(own, layer=taught.layer, heads=own.heads or taught.heads)
        return dataclasses.replace(self, generation=dataclasses.replace(self.generation, alignment=found))

    def __post_init__(self) -> None:
        """Check that the sections of the config are compatible."""
        if isinstance(self.model, PhraseConfig):
            if self.data.fertility or self.guided_alignment or self.sequence_loss:
                raise ValueError(
                    "data.fertility, guided_alignment, sequence_loss: model.kind = 'phrase' has no "
                    "attention; remove these sections"
                )
            return
        attention = self.model.attention
        # Pointer attention advances at `step` actions, which only the tokenizer `actions` produces.
        wanted = getattr(attention, "target_tokenizer", None)
        if wanted is not None and self.data.target_tokenizer.kind != wanted:
            raise ValueError(f"attention {attention.kind!r} requires data.target_tokenizer.kind = {wanted!r}")


@dataclass(frozen=True)
class LoadedModel:
    """A trained model that is ready to translate.

    Attributes:
        model_dir: The directory that the model was loaded from.
        config: The config of its run, with the overrides given to `load_model`.
        text: The tokenizers and vocabularies of both languages.
        model: The model in evaluation mode, on `device`.
        device: The device of the model.
        precision: The precision of its matrix multiplications; see `regard.models.precision`.
    """

    model_dir: Path
    config: RunConfig
    text: TextProcessor
    model: TranslationModel
    device: torch.device
    precision: SearchPrecision


def train(
    config: RunConfig,
    output_dir: Path | str,
    progress_context: Callable[[], AbstractContextManager[ProgressCallback | None]] = nullcontext,
) -> TrainingResult:
    """Train a model, or resume an interrupted run; the data is prepared first if necessary.

    Args:
        config: The settings of the run.
        output_dir: The model directory. It is created if it does not exist.
        progress_context: Returns a context manager that is entered during data preparation and yields the
            progress display, or None for no display.

    Returns:
        The result of the training.

    Raises:
        ConfigError: if the directory holds a run with another config (names the keys that differ), or the
            model of `training.init_from` has other vocabularies.
        UsageError: if the directory contains an exported or averaged model.
        DataError: if the data is missing or malformed.
        CheckpointError: if a file of the directory is corrupt or cannot be written, or another process trains
            in it. In the latter case no file was written.
        TrainingDivergedError: if the loss is repeatedly not finite.
    """
    output_dir, config = Path(output_dir), config.with_alignment()
    device = pick_device(config.device)
    set_num_threads(config.num_threads or None)
    with (
        init_process_group(device) as processes,
        directory_lock(output_dir) if processes.is_main else nullcontext(),
    ):
        if processes.is_main:
            _check_same_run(config, output_dir)
            with progress_context() as progress:
                prepared = prepare_data(config.data, progress=progress)
            prepared.verify()
            warn_if_swapped(prepared)
            prepared = add_fertilities(prepared, config.data.fertility, prepared.fingerprint)
            _check_init_from(config.training.init_from, prepared.text)
            load_guided_links(config.guided_alignment, prepared, config.data.train, prepared.fingerprint)
            _create_model_dir(config, prepared, output_dir)
        # The main process has prepared and cached the data; the others load it from the cache.
        processes.barrier()
        prepared = prepare_data(config.data)
        prepared = add_fertilities(prepared, config.data.fertility, prepared.fingerprint)
        if isinstance(config.model, PhraseConfig):
            checksums = file_checksums(output_dir, to_dict(config))
            phrases = partial(
                run_phrase_training, config.model, prepared, output_dir, prepared.fingerprint, checksums
            )
            # The main process trains the model; the others then only read its result.
            result = phrases(config.seed, config.num_threads) if processes.is_main else None
            processes.barrier()
            return phrases(config.seed, config.num_threads) if result is None else result
        return _build_trainer(config, prepared, output_dir, device, processes).run()


def _build_trainer(
    config: RunConfig, prepared: PreparedData, output_dir: Path, device: torch.device, processes: ProcessGroup
) -> Trainer:
    """Return the trainer of a neural model; its model directory must exist."""
    identity = {"training data": prepared.fingerprint}
    if config.guided_alignment is not None and config.guided_alignment.links is not None:
        identity["guided links"] = file_digest(Path(config.guided_alignment.links))
    split = prepared.split("train")
    links = load_guided_links(config.guided_alignment, prepared, config.data.train, prepared.fingerprint)
    assert not isinstance(config.model, PhraseConfig)
    # The seed is set just before the initial weights are sampled, so that they do not depend on the data.
    torch.manual_seed(config.seed)
    model = build_for_text(config.model, prepared.text, output_dir if _has_checkpoint(output_dir) else None)
    check_max_lengths(model, prepared)
    return Trainer(
        model.to(device),
        split if links is None else GuidedSplit(split, links),
        prepared.split("valid"),
        config.training,
        output_dir=output_dir,
        seed=config.seed,
        processes=processes,
        identity=identity,
        file_checksums=file_checksums(output_dir, to_dict(config)),
        translation_metric=TranslationMetric(config.generation, config.training, prepared, device),
        guided=config.guided_alignment,
        sequence=config.sequence_loss,
        finetune=config.fine_tuning,
    )


def read_run_config(path: Path | str, overrides: Iterable[str] = ()) -> RunConfig:
    """Read the config of a run; directories that are not set are named after the file.

    Args:
        path: The TOML file. For `NAME.toml` the default directories are `runs/NAME` and `prepared/NAME`.
        overrides: Overrides of the form `a.b.c=value`.

    Raises:
        ConfigError: if the file or a setting is wrong; see `regard.config.read_config`.
    """
    config, name = read_config(RunConfig, path, overrides), Path(path).stem
    data = dataclasses.replace(config.data, cache_dir=config.data.cache_dir or f"prepared/{name}")
    return dataclasses.replace(config, output_dir=config.output_dir or f"runs/{name}", data=data)


def load_config(model_dir: Path | str) -> RunConfig:
    """Return the config of the run that trained a model, or an equivalent one for a Hugging Face directory.

    Raises:
        CheckpointError: if the directory or its config is missing or unreadable; names the file.
    """
    model_dir = Path(model_dir)
    if not model_dir.is_dir():
        raise CheckpointError(missing_directory_message(model_dir))
    if is_hf_directory(model_dir):
        return RunConfig(**hf_run_sections(model_dir))
    path = model_dir / CONFIG_FILE
    if (model_dir / HF_CONFIG).is_file() and not path.exists():
        read_hf_config(model_dir)  # raises an error that explains why this is not a usable Hugging Face model
    try:
        if not read_bytes(checked_file(model_dir, CONFIG_FILE)).decode().endswith(END_MARKER):
            raise CheckpointError(f"{path}: truncated: the file does not end with {END_MARKER.strip()!r}")
        return read_config(RunConfig, path)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: corrupt: not UTF-8 at byte {error.start + 1}") from None
    except ConfigError as error:
        written_by = _written_by(path)
        if written_by != __version__ and "it is now called" in str(error):
            raise CheckpointError(
                f"{model_dir}: the model was trained with regard {written_by}, whose options and weights "
                f"had other names than in version {__version__}. Train it again with this version."
            ) from None
        raise CheckpointError(
            f"{error}\n{model_dir} is not a model directory, or was written by another version of regard"
        ) from None


def load_model(
    model_dir: Path | str,
    device: str = "auto",
    precision: str = "float32",
    overrides: Iterable[str] = (),
) -> LoadedModel:
    """Load a trained model from its directory.

    Args:
        model_dir: A model directory, or the directory of a Hugging Face sequence-to-sequence model.
        device: As in the config: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: Precision of matrix multiplications: `float32`, `bfloat16` or, on a CPU, `int8`.
        overrides: Overrides of the config of the run, such as `model.attention.top_k=0`.

    Raises:
        UsageError: if the precision is unknown or not supported by this model, or the model is phrase-based.
        CheckpointError: if a file of the directory is missing or corrupt (names it), or the weights do not
            match the model.
        ConfigError: if an override is wrong.
        DeviceError: if the device is not available or does not support the precision.
    """
    model_dir, chosen = Path(model_dir), parse_precision(precision)
    place = pick_device(device)
    config = load_config(model_dir)
    data = to_dict(config)
    if not (foreign := is_hf_directory(model_dir)) and not isinstance(config.model, PhraseConfig):
        check_model_files(weights_file(model_dir), model_dir, data)
    if overrides := list(overrides):
        for setting in overrides:
            apply_override(data, setting)
        config = from_dict(RunConfig, data, origin=str(model_dir))
    if isinstance(config.model, PhraseConfig):
        raise UsageError(f"{model_dir}: this is a phrase-based model; a neural model is required here")
    try:
        text = load_hf_text(config.data) if foreign else load_text_processing(model_dir)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    # Compare shapes before the weights are loaded. Pre-trained models check their own parts.
    if not foreign and type(config.model) not in PRETRAINED:
        check_weight_shapes(partial(build_for_text, config.model, text, model_dir), model_dir)
    model = build_for_text(config.model, text, None if foreign else model_dir)
    if foreign:
        warn_ignored_settings(model_dir)
    else:
        copy_weights(model, load_weights(model_dir), str(model_dir / MODEL_FILE))
    model = model.to(place).eval()
    set_precision(model, chosen)
    return LoadedModel(model_dir, config, text, model, place, chosen)


def find_model_dir(file: Path) -> Path:
    """Return the model directory that contains a weight file.

    Raises:
        CheckpointError: if neither the file's directory nor its parent is a model directory.
    """
    for folder in file.absolute().parents[:2]:
        if (folder / CONFIG_FILE).is_file():
            return folder
    raise CheckpointError(f"{file}: not in a model directory (no {CONFIG_FILE} next to it)")


def _create_model_dir(config: RunConfig, prepared: PreparedData, model_dir: Path) -> None:
    """Create the model directory. The config is written last, so its presence marks a complete directory."""
    try:
        model_dir.mkdir(parents=True, exist_ok=True)
        if _has_checkpoint(model_dir):
            # Stop before training if the files that translation needs are corrupt.
            load_text_processing(model_dir)
            if (model_dir / MODEL_FILE).is_file():
                check_model_files(model_dir / MODEL_FILE, model_dir, to_dict(config), ignore_unreadable=True)
        else:
            save_text_processing(prepared.text, model_dir)
            if not isinstance(config.model, PhraseConfig):
                copy_pretrained_configs(config.model, model_dir)
        write_config(config, model_dir)
    except OSError as error:
        raise CheckpointError(f"{model_dir}: directory cannot be created: {error.strerror}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _has_checkpoint(model_dir: Path) -> bool:
    """Return whether a directory contains a checkpoint or trained weights."""
    return bool(state_files(model_dir)) or (model_dir / MODEL_FILE).exists() or has_phrase_run(model_dir)


def _written_by(path: Path) -> str:
    """Return the version that wrote a config, from its first line.

    Versions up to 0.1 did not write this line.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline(200)
    return (
        first.removeprefix(VERSION_MARKER).strip() if first.startswith(VERSION_MARKER) else "0.1 or earlier"
    )


def write_config(config: RunConfig, model_dir: Path) -> None:
    """Write the config into a model directory, after a line with the version of regard.

    Raises:
        DataError: if the file cannot be written.
    """
    write_atomic(
        model_dir / CONFIG_FILE, f"{VERSION_MARKER}{__version__}\n{dump_toml(config)}\n{END_MARKER}".encode()
    )


def _check_same_run(config: RunConfig, model_dir: Path) -> None:
    """Raise an error if the directory belongs to a run with another config, or to another kind of model."""
    if not _has_checkpoint(model_dir):
        if (model_dir / EXPORTED_FILE).exists():
            raise UsageError(
                f"{model_dir}: contains an exported model; choose another directory (--output-dir)"
            )
        return
    weights = model_dir / MODEL_FILE
    if weights.exists() and not state_files(model_dir) and "averaged" in read_metadata(weights):
        raise UsageError(f"{model_dir}: contains an averaged model; choose another directory (--output-dir)")
    shown = config_differences(to_dict(load_config(model_dir)), to_dict(config), is_resumable)
    if shown:
        raise ConfigError(
            f"{model_dir} contains a run with another config; choose another directory (--output-dir) or "
            "restore these settings:\n" + "\n".join(f"  {line}" for line in shown)
        )


def _check_init_from(init_from: str | None, text: TextProcessor) -> None:
    """Raise an error if the initial weights belong to other vocabularies than those of this run."""
    if init_from is None:
        return
    path = Path(init_from)
    folder = path if path.is_dir() else find_model_dir(path)
    other = TextProcessor.load(folder)
    for side in ("source", "target"):
        mine, its = getattr(text, side).vocabulary, getattr(other, side).vocabulary
        if mine != its:
            raise ConfigError(
                f"training.init_from = {init_from!r}: the {side} vocabulary of that model ({len(its)} "
                f"tokens) differs from that of this run ({len(mine)} tokens): both models must have the same "
                "vocabularies"
            )
