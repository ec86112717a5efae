"""Loading of models and ensembles from their directories."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.config.extensions import resolve_directory
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.generation.base import BaseTranslator


def as_paths(models: Iterable[Any]) -> list[Path]:
    """Return model directories, which may be names on the Hugging Face Hub, or files of translations.

    Raises:
        UsageError: if there is none, or one is neither a string nor a path.
    """
    paths = list(models)
    if not paths:
        raise UsageError("models: expected at least one model, such as 'runs/first'")
    for path in paths:
        if not isinstance(path, Path | str):
            raise UsageError(f"models: expected a path, such as 'runs/first', got {path!r}")
    return [resolve_directory(path) for path in paths]


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
        overrides: Overrides of the configuration of the model, such as `model.attention.top_k=0`.
        num_threads: Number of CPU threads of a system that is not a PyTorch module. None for one per
            processor.
        engine: Inference engine. Default: `ctranslate2` for an exported model, otherwise `regard`.

    Raises:
        UsageError: if the models do not support an argument, or are not compatible with each other.
        CheckpointError: if a directory is missing or damaged; names the file.
        ConfigError: if a setting is invalid; names it.
        DeviceError: if the device is not available, or does not support the precision.
    """
    from regard.config.extensions import hook, require_hook
    from regard.models.registry import MODELS
    from regard.runs.description import load_description

    first = directories[0]
    exported = require_hook("engine", "ctranslate2") if engine == "ctranslate2" else hook("engine")
    if exported and (engine == "ctranslate2" or (engine is None and exported.reads(first))):
        translator = exported.load(first, device, num_threads)
        # An export has a fixed data type, so another one is an error instead of being ignored.
        if precision != "float32":
            translator.require("precision", f"precision {precision} (--precision)")
    elif (system := MODELS.part_of((run := load_description(first)).model)).is_neural:
        translator = _load_neural(directories, device, precision, overrides)
    else:
        translator = system.load_translator(run, first, num_threads or 0)
    # The user gets an error instead of an ensemble or an override without effect.
    if len(directories) > 1:
        translator.require("ensemble", "an ensemble of several models")
    if overrides:
        translator.require("overrides", "overrides of the configuration (--set)")
    return translator if options is None else translator.with_search(options)


def _load_neural(
    directories: Sequence[Path], device: str, precision: str, overrides: Sequence[str]
) -> "BaseTranslator":
    """Load one neural model, or an ensemble with the search settings of its first model."""
    from regard.generation.ensemble import Ensemble
    from regard.generation.neural_translator import NeuralTranslator
    from regard.runs.loading import load_model

    first, *others = loaded = [load_model(path, device, precision, overrides) for path in directories]
    for other in others:
        # An ensemble averages distributions, so a token must have the same number in all models.
        if (difference := other.text.difference(first.text, str(first.model_dir))) is not None:
            raise UsageError(
                f"{other.model_dir}: {difference}; models of an ensemble must share vocabularies, tokenizers "
                "and fertilities"
            )
    model = Ensemble([member.model for member in loaded]) if others else first.model
    name = ", ".join(map(str, directories))
    return NeuralTranslator(model, first.text, first.config.generation, name=name)
