"""Loading of a model from its directory, and averaging of the weights of several models or checkpoints.

A model directory is self-contained: `config.toml` holds the config of the run, further files hold the
tokenizers and vocabularies, and `model.safetensors` holds the best weights.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.config import apply_overrides, from_dict, to_dict
from regard.config.extensions import resolve_directory
from regard.data.text import TextProcessor
from regard.data.training_text import copy_training_text
from regard.errors import CheckpointError, DataError, UsageError
from regard.models.base import PARTS_DIR, Precision, TranslationModel, parse_precision
from regard.models.registry import MODELS, build_for_text, foreign_format
from regard.runs.checksums import check_model_files, compare_options, write_weights
from regard.runs.description import (
    CONFIG_FILE,
    ModelDescription,
    load_description,
    read_stated_config,
    write_config,
)
from regard.runs.device import pick_device
from regard.runs.fertility_predictor import load_text_processing, save_text_processing
from regard.runs.weights import (
    MODEL_FILE,
    average_weights,
    copy_weights,
    epoch_files,
    load_weights,
    weights_file,
)
from regard.text.files import atomic_directory, is_empty
from regard.text.paths import check_name


@dataclass(frozen=True)
class LoadedModel:
    """A trained model that is ready to translate.

    Attributes:
        model_dir: The directory that the model was loaded from.
        config: Its description, with the overrides given to `load_model`.
        text: The tokenizers and vocabularies of both languages.
        model: The model in evaluation mode, on `device`.
        device: The device of the model.
        precision: The precision of its matrix multiplications; see `regard.models.base`.
    """

    model_dir: Path
    config: ModelDescription
    text: TextProcessor
    model: TranslationModel
    device: torch.device
    precision: Precision


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
        overrides: Overrides of the description, such as `model.attention.top_k=0`.

    Raises:
        UsageError: if the precision is unknown or not supported by this model, or the model is not neural.
        CheckpointError: if a file of the directory is missing or corrupt (names it), or the weights do not
            match the model.
        ConfigError: if an override is wrong.
        DeviceError: if the device is not available.
    """
    model_dir, chosen = resolve_directory(model_dir), parse_precision(precision)
    place = pick_device(device)
    config = load_description(model_dir)
    system = MODELS.part_of(config.model)
    model_format = foreign_format(model_dir)
    if model_format is None and system.is_neural:
        check_model_files(weights_file(model_dir), model_dir)
    # The checksums are those of the config as trained, so overrides apply only after the check.
    if overrides := list(overrides):
        data = apply_overrides(to_dict(config), overrides)
        config = from_dict(ModelDescription, data, origin=str(model_dir))
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
    model = build_for_text(config.model, text, model_dir if model_format is None else None)
    if model_format is None:
        copy_weights(model, load_weights(model_dir), str(model_dir / MODEL_FILE))
    model = model.to(place).eval()
    model.to(torch.bfloat16 if chosen == "bfloat16" else torch.float32)
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


def average_models(output_dir: Path | str, paths: Sequence[Path | str], last_epochs: int = 0) -> list[Path]:
    """Write a model whose weights are the mean of the weights of several models or checkpoints.

    Args:
        output_dir: The directory of the new model. It must be empty or not exist yet.
        paths: Model directories, or checkpoint files in their `training/` directories. The config, tokenizers
            and vocabularies are copied from the first one.
        last_epochs: Number of epochs to average per directory, counted from the last one, instead of the best
            weights. `training.checkpoint.keep_last_epochs` sets how long the weights of an epoch are kept. 0
            averages the best weights.

    Returns:
        The files whose weights were averaged.

    Raises:
        UsageError: if `output_dir` is not empty, or a directory has kept fewer than `last_epochs` epochs.
        CheckpointError: if a file is missing or corrupt, or the models differ in their model
            configuration, other than dropout, or in their vocabularies and text processing.
    """
    output_dir = Path(output_dir)
    check_name(output_dir)
    if output_dir.exists() and (not output_dir.is_dir() or not is_empty(output_dir)):
        raise UsageError(f"{output_dir}: the output directory is not empty; choose a new directory")
    files = [file for path in paths for file in _files_to_average(Path(path), last_epochs)]
    model_dirs = [find_model_dir(file) for file in files]
    # Several files may share a directory, as the epochs of one run do; each one is loaded once.
    configs = {model_dir: load_description(model_dir) for model_dir in model_dirs}
    texts = [load_text_processing(model_dir) for model_dir in configs]
    # The options of pre-trained parts are in files of their own.
    options = [
        {"model": to_dict(config.model), **MODELS.part_of(config.model).part_options(model_dir)}
        for model_dir, config in configs.items()
    ]
    for model_dir, config, text in zip(configs, options, texts, strict=True):
        difference = _difference(options[0], config) or text.difference(texts[0], str(model_dirs[0]))
        if difference is not None:
            raise CheckpointError(
                f"{model_dir}: {difference}; only models with the same model configuration (except dropout), "
                f"vocabularies and text processing as {model_dirs[0]} can be averaged"
            )
    # All files are checked before the weights, which may be large, are loaded.
    for file, model_dir in zip(files, model_dirs, strict=True):
        check_model_files(file, model_dir)
    weights = average_weights(files)
    try:
        # The directory appears under its name only when every file in it is complete.
        with atomic_directory(output_dir, require_empty=True) as temporary_dir:
            save_text_processing(texts[0], temporary_dir)
            copy_training_text(model_dirs[0], temporary_dir)
            if (model_dirs[0] / PARTS_DIR).is_dir():
                shutil.copytree(model_dirs[0] / PARTS_DIR, temporary_dir / PARTS_DIR)
            stated = read_stated_config(model_dirs[0])
            write_config(stated, temporary_dir)
            metadata = {"averaged": [str(file) for file in files]}
            write_weights(temporary_dir, stated, weights, metadata)
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{output_dir}: cannot be written: {reason}") from None
    return files


def _difference(first: dict[str, Any], other: dict[str, Any]) -> str | None:
    """Return the first option that differs, with both values, or None. Dropout has no effect on weights."""
    differing = compare_options(first, other)
    # Among the names in a `config.json` are `dropout_rate`, `resid_pdrop` and `encoder_layerdrop`.
    decisive = (option for option in differing if "drop" not in option[0].rpartition(".")[2])
    return next((f"{key} is {there}, not {here}" for key, here, there in decisive), None)


def _files_to_average(path: Path, last_epochs: int) -> list[Path]:
    """Return the weight files that one path stands for."""
    if not last_epochs:
        return [path / MODEL_FILE if path.is_dir() else path]
    files = epoch_files(path)
    if len(files) < last_epochs:
        raise UsageError(
            f"{path}: has the weights of {len(files)} epochs, but {last_epochs} are needed; train with "
            f"training.checkpoint.keep_last_epochs={last_epochs}"
        )
    return files[-last_epochs:]
