"""Runs from one config: prepare the data, build and train the model, and load it from its directory.

A model directory is self-contained: `config.toml` holds the config of the run, further files hold the
tokenizers and vocabularies, and `model.safetensors` holds the best weights (see
`regard.training.checkpoint`).
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from regard.config import (
    apply_override,
    from_dict,
    to_dict,
)
from regard.data.dataset import PreparedData, open_data, prepare_data
from regard.data.pretokenization import ProgressCallback
from regard.data.swapped_sides import warn_if_swapped
from regard.data.text import TextProcessor
from regard.data.training_text import save_training_text
from regard.errors import CheckpointError, ConfigError, DataError, UsageError
from regard.models.base import TranslationModel
from regard.models.formats import foreign_format
from regard.models.precision import Precision, parse_precision, set_precision
from regard.models.registry import MODELS, build_for_text
from regard.runs.config import RunConfig, load_config, write_config
from regard.text.directories import directory_lock
from regard.text.paths import check_outputs
from regard.training.checkpoint import state_files
from regard.training.device import ProcessGroup, init_process_group, pick_device, set_num_threads
from regard.training.evaluate import TranslationMetric
from regard.training.fertility import add_fertilities, load_text_processing, save_text_processing
from regard.training.losses.base import LossTerm, build_loss
from regard.training.resume import (
    CONFIG_FILE,
    check_model_files,
    config_differences,
    file_checksums,
    read_stated_config,
    resumed_config,
)
from regard.training.run_context import Callback, RunContext
from regard.training.serialization import read_metadata
from regard.training.trainer import Trainer, TrainingResult
from regard.training.weights import (
    EXPORTED_FILE,
    MODEL_FILE,
    check_weight_shapes,
    copy_weights,
    load_weights,
    weights_file,
)

__all__ = [
    "LoadedModel",
    "find_model_dir",
    "load_model",
    "run_training",
]

_log = logging.getLogger(__name__)


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
    precision: Precision


def run_training(
    config: RunConfig,
    output_dir: Path | str,
    progress_context: Callable[[], AbstractContextManager[ProgressCallback | None]] = nullcontext,
    callbacks: Sequence[Callback] = (),
) -> TrainingResult:
    """Train a model, or resume an interrupted run; the data is prepared first if necessary.

    Args:
        config: The settings of the run.
        output_dir: The model directory. It is created if it does not exist.
        progress_context: Returns a context manager that is entered during data preparation and yields the
            progress display; see `regard.training.display.preparation_progress`. If it is given, the progress
            of training is shown as well. By default, nothing is written to stderr.
        callbacks: Callbacks that the first process calls during the training of a neural model.

    Returns:
        The result of the training.

    Raises:
        ConfigError: if the directory holds a run with another config (names the keys that differ), or the
            model of `training.init_from` has other vocabularies.
        UsageError: if the directory contains an exported or averaged model, or is in that of the data, which
            may be replaced.
        DataError: if the data is missing or malformed.
        CheckpointError: if a file of the directory is corrupt or cannot be written, or another process trains
            in it. In the latter case no file was written.
        TrainingDivergedError: if the loss is repeatedly not finite.
    """
    output_dir, config = Path(output_dir), config.with_alignment().with_plugins()
    if config.data.cache_dir is not None:
        check_outputs([], [output_dir], [config.data.cache_dir])
    device = pick_device(config.device)
    set_num_threads(config.num_threads or None)
    with (
        init_process_group(device) as processes,
        directory_lock(output_dir) if processes.is_main else nullcontext(),
    ):
        losses = [build_loss(loss) for loss in config.training.losses]
        prepared = _prepare_run(config, output_dir, processes, losses, progress_context)
        system = MODELS.part_of(config.model)
        if not system.is_neural:
            checksums = file_checksums(output_dir, read_stated_config(output_dir))
            train_run = partial(
                system.train_run,
                config.model,
                prepared,
                output_dir,
                checksums,
                config.seed,
                config.num_threads,
            )
            # The main process trains the model; the others then only read its result.
            result = train_run() if processes.is_main else None
            processes.barrier()
            return train_run() if result is None else result
        show_progress = progress_context is not nullcontext
        return _build_trainer(config, prepared, output_dir, processes, losses, callbacks, show_progress).run()


def _prepare_run(
    config: RunConfig,
    output_dir: Path,
    processes: ProcessGroup,
    losses: Sequence[LossTerm],
    progress_context: Callable[[], AbstractContextManager[ProgressCallback | None]],
) -> PreparedData:
    """Prepare the data and the model directory in the main process, and open the data in the others."""
    if not processes.is_main:
        # The data exists only when the main process has prepared it.
        processes.barrier()
        return _add_prepared(config, open_data(config.data), losses)
    # The check comes first, so that a wrong directory fails before a long preparation.
    _check_same_run(config, output_dir)
    with progress_context() as progress:
        prepared = prepare_data(config.data, progress=progress)
    prepared.verify()
    warn_if_swapped(prepared)
    prepared = _add_prepared(config, prepared, losses)
    _check_init_from(config.training.init_from, prepared.text)
    _create_model_dir(config, prepared, output_dir)
    processes.barrier()
    return prepared


def _add_prepared(config: RunConfig, prepared: PreparedData, losses: Sequence[LossTerm]) -> PreparedData:
    """Return the prepared text with its fertilities, and prepare the loss terms."""
    prepared = add_fertilities(prepared, config.data.fertility, prepared.fingerprint)
    for term in losses:
        term.prepare(prepared, config.data)
    return prepared


def _build_trainer(
    config: RunConfig,
    prepared: PreparedData,
    output_dir: Path,
    processes: ProcessGroup,
    losses: Sequence[LossTerm],
    callbacks: Sequence[Callback],
    show_progress: bool,
) -> Trainer:
    """Return the trainer of a neural model; its model directory must exist."""
    run = RunContext(
        output_dir,
        config.seed,
        processes,
        identity={"training data": prepared.fingerprint},
        file_checksums=file_checksums(output_dir, read_stated_config(output_dir)),
        translation_metric=TranslationMetric(
            config.generation, config.training, prepared, processes.device, config.data.valid.source_prefix
        ),
        show_progress=show_progress,
    )
    # The seed is set just before the initial weights are sampled, so that they do not depend on the data.
    torch.manual_seed(config.seed)
    model = build_for_text(config.model, prepared.text, output_dir if _has_checkpoint(output_dir) else None)
    _check_max_lengths(model, prepared)
    train, valid = prepared.split("train"), prepared.split("valid")
    return Trainer(model.to(processes.device), train, valid, config.training, run, losses, callbacks)


def load_model(
    model_dir: Path | str,
    device: str = "auto",
    precision: str = "float32",
    overrides: Iterable[str] = (),
) -> LoadedModel:
    """Load a trained model from its directory.

    Args:
        model_dir: A model directory, of this package or in the format of an extension.
        device: As in the config: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: Precision of matrix multiplications: `float32` or `bfloat16`.
        overrides: Overrides of the config of the run, such as `model.attention.top_k=0`.

    Raises:
        UsageError: if the precision is unknown or not supported by this model, or the model is not neural.
        CheckpointError: if a file of the directory is missing or corrupt (names it), or the weights do not
            match the model.
        ConfigError: if an override is wrong.
        DeviceError: if the device is not available.
    """
    model_dir, chosen = Path(model_dir), parse_precision(precision)
    place = pick_device(device)
    config = load_config(model_dir)
    system = MODELS.part_of(config.model)
    model_format = foreign_format(model_dir)
    if model_format is None and system.is_neural:
        check_model_files(weights_file(model_dir), model_dir)
    # The checksums are those of the config as trained, so overrides apply only after the check.
    if overrides := list(overrides):
        data = to_dict(config)
        for setting in overrides:
            apply_override(data, setting)
        config = from_dict(RunConfig, data, origin=str(model_dir))
    if not system.is_neural:
        raise UsageError(
            f"{model_dir}: this model has kind = {config.model.kind!r}; a neural model is required here"
        )
    try:
        text = (
            load_text_processing(model_dir)
            if model_format is None
            else model_format.load_text(model_dir, config)
        )
    except DataError as error:
        raise CheckpointError(str(error)) from None
    # Compare shapes before the weights are loaded. Pre-trained models check their own parts.
    if model_format is None and not system.checks_own_weights:
        check_weight_shapes(partial(build_for_text, config.model, text, model_dir), model_dir)
    model = build_for_text(config.model, text, model_dir if model_format is None else None)
    if model_format is None:
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
    stated = to_dict(config)
    try:
        model_dir.mkdir(parents=True, exist_ok=True)
        if _has_checkpoint(model_dir):
            # Stop before training if the files that translation needs are corrupt.
            load_text_processing(model_dir)
            if (model_dir / MODEL_FILE).is_file():
                check_model_files(model_dir / MODEL_FILE, model_dir, ignore_unreadable=True)
            stated = resumed_config(read_stated_config(model_dir), stated)
        else:
            save_text_processing(prepared.text, model_dir)
            save_training_text(config.data, prepared, model_dir)
            MODELS.part_of(config.model).copy_configs(config.model, model_dir)
        write_config(stated, model_dir)
    except OSError as error:
        raise CheckpointError(f"{model_dir}: directory cannot be created: {error.strerror}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _has_checkpoint(model_dir: Path) -> bool:
    """Return whether a directory contains a checkpoint or trained weights."""
    return (
        bool(state_files(model_dir))
        or (model_dir / MODEL_FILE).exists()
        or any(system.has_run(model_dir) for system in MODELS.parts())
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
    differences = config_differences(to_dict(load_config(model_dir)), to_dict(config))
    if differences:
        raise ConfigError(
            f"{model_dir} contains a run with another config; choose another directory (--output-dir) or "
            "restore these settings:\n" + "\n".join(f"  {line}" for line in differences)
        )


def _check_init_from(init_from: str | None, text: TextProcessor) -> None:
    """Raise an error if the initial weights belong to other vocabularies than those of this run."""
    if init_from is None:
        return
    path = Path(init_from)
    folder = path if path.is_dir() else find_model_dir(path)
    if difference := TextProcessor.load(folder).vocabulary_difference(text, "this run"):
        raise ConfigError(
            f"training.init_from = {init_from!r}: {difference}: both models must have the same vocabularies"
        )


def _check_max_lengths(model: TranslationModel, prepared: PreparedData) -> None:
    """Check that no sentence is longer than the number of learned positions of the model.

    Raises:
        ConfigError: if a sentence is too long; the message gives its file and line.
    """
    if model.max_length is None:
        return
    _check_pair_lengths(model, prepared)
    for split in ("train", "valid"):
        examples = prepared.split(split)
        num_sinks = len(prepared.text.sink_tokens)
        for side, lengths in zip(("source", "target"), examples.lengths, strict=True):
            row = int(lengths.argmax())
            tokens = int(lengths[row]) + (num_sinks if side == "source" else 0)
            if tokens > model.max_length:
                limit = model.max_length - (num_sinks if side == "source" else 1)
                remedy = f"set data.max_length = {limit}" if split == "train" else "shorten the sentence"
                raise ConfigError(
                    f"{examples.location(row)} has {tokens} {side} tokens"
                    f"{' with EOS' if side == 'target' else ''}, but the model has {model.max_length} "
                    f"learned positions: set model.position_encoding.max_length = {tokens} or more, or "
                    f"{remedy}"
                )


def _check_pair_lengths(model: TranslationModel, prepared: PreparedData) -> None:
    """Check that no sentence and its translation are together longer than the context of the model.

    Raises:
        ConfigError: if a pair is too long; the message gives its file and line.
    """
    if (most := model.constraints.max_pair_length) is None:
        return
    limit = most - len(prepared.text.sink_tokens)
    for split in ("train", "valid"):
        examples = prepared.split(split)
        # The end symbol is part of the targets here, but never an input of the model.
        totals = examples.source_lengths + examples.target_lengths - 1
        row = int(totals.argmax())
        if totals[row] > limit:
            raise ConfigError(
                f"{examples.location(row)} has {totals[row]} tokens in source and target together, but the "
                f"context of the model has room for {limit} in addition to the prompt template: set "
                f"data.max_length = {limit // 2}"
            )
