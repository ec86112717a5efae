"""Loading of models and ensembles from their directories."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.data.text import TextProcessor
    from regard.experiment import LoadedModel
    from regard.generation.base import BaseTranslator
    from regard.generation.config import GenerationConfig
    from regard.models.base import TranslationModel

__all__ = ["load_models", "load_translator"]


def load_translator(
    directories: Sequence[Path],
    device: str = "auto",
    precision: str = "float32",
    options: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    num_threads: int | None = None,
    engine: Literal["regard", "ctranslate2"] | None = None,
) -> "BaseTranslator":
    """Load the translator of a trained model of any kind, of an ensemble, or of an export.

    Args:
        directories: Model directories. Several form an ensemble.
        device: Device of a neural model.
        precision: Data type of the matrix multiplications of a neural model.
        options: Search settings as in `search_settings`. Missing options and None keep the model's own.
            Default: the search settings are not changed.
        overrides: Overrides of the configuration of the run, such as `model.attention.top_k=0`.
        num_threads: Number of CPU threads of a system that is not a PyTorch module. None for one per
            processor.
        engine: Inference engine. Default: `ctranslate2` for an exported model, otherwise `regard`.

    Raises:
        UsageError: if the models do not support an argument, or are not compatible with each other.
        CheckpointError: if a directory is missing or damaged; names the file.
        ConfigError: if a setting is invalid; names it.
        DeviceError: if the device is not available, or does not support the precision.
    """
    from regard.export.translator import is_exported, load_exported
    from regard.models.registry import MODELS
    from regard.run_config import load_config

    first = directories[0]
    if engine == "ctranslate2" or (engine is None and is_exported(first)):
        translator = load_exported(first, device, num_threads)
        if precision != "float32":
            translator.require("precision", f"precision {precision} (--precision)")
    elif (system := MODELS.part_of((run := load_config(first)).model)).is_neural:
        from regard.generation.translator import Translator

        name = ", ".join(map(str, directories))
        translator = Translator(*load_models(directories, device, precision, overrides), name=name)
    else:
        translator = system.load_translator(run, first, num_threads or 0)
    if len(directories) > 1:
        translator.require("ensemble", "an ensemble of several models")
    if overrides:
        translator.require("overrides", "overrides of the configuration (--set)")
    return translator if options is None else translator.with_search(options)


def load_models(
    directories: Sequence[Path], device: str, precision: str, settings: Sequence[str] = ()
) -> "tuple[TranslationModel, TextProcessor, GenerationConfig]":
    """Load one model or an ensemble, with the shared text processing and the first model's search settings.

    Raises:
        UsageError: if the precision is unknown or not supported by the model, or the models of an ensemble
            differ in vocabularies, tokenizers or fertilities.
        CheckpointError: if a model directory is missing or damaged.
        DeviceError: if the device is not available, or does not support the precision.
    """
    from regard.experiment import load_model
    from regard.generation.ensemble import Ensemble

    loaded = [load_model(directory, device, precision, settings) for directory in directories]
    for other in loaded[1:]:
        _check_same_text(loaded[0], other)
    model = loaded[0].model if len(loaded) == 1 else Ensemble([one.model for one in loaded])
    return model, loaded[0].text, loaded[0].config.generation


def _check_same_text(first: "LoadedModel", other: "LoadedModel") -> None:
    ours, theirs = other.text, first.text
    difference = ours.difference(theirs, str(first.model_dir))
    if difference is None and ours.budget != theirs.budget:
        difference = f"its fertilities (data.fertility) differ from those of {first.model_dir}"
    if difference is not None:
        raise UsageError(
            f"{other.model_dir}: {difference}; models of an ensemble must share vocabularies, tokenizers and "
            "fertilities"
        )
