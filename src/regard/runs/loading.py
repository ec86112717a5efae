"""Loading of a model from its directory.

A model directory is self-contained: `config.toml` holds the config of the run, further files hold the
tokenizers and vocabularies, and `model.safetensors` holds the best weights.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.config import apply_override, from_dict, to_dict
from regard.data.text import TextProcessor
from regard.errors import CheckpointError, DataError, UsageError
from regard.models.base import Precision, TranslationModel, parse_precision
from regard.models.formats import foreign_format
from regard.models.registry import MODELS, build_for_text
from regard.runs.checksums import check_model_files
from regard.runs.description import CONFIG_FILE, ModelDescription, load_description
from regard.runs.device import pick_device
from regard.runs.fertility_predictor import load_text_processing
from regard.runs.weights import MODEL_FILE, copy_weights, load_weights, weights_file

__all__ = ["LoadedModel", "find_model_dir", "load_model"]


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
    model_dir, chosen = Path(model_dir), parse_precision(precision)
    place = pick_device(device)
    config = load_description(model_dir)
    system = MODELS.part_of(config.model)
    model_format = foreign_format(model_dir)
    if model_format is None and system.is_neural:
        check_model_files(weights_file(model_dir), model_dir)
    # The checksums are those of the config as trained, so overrides apply only after the check.
    if overrides := list(overrides):
        data = to_dict(config)
        for setting in overrides:
            apply_override(data, setting)
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
