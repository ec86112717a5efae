"""Loading of models and ensembles from their directories, and search settings by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.data.text import TextProcessor
    from regard.decoding.config import GenerationConfig
    from regard.experiment import LoadedModel
    from regard.models.base import TranslationModel

__all__ = ["load_models", "search_settings"]

_NESTED_OPTIONS = {
    "coverage_penalty": ("coverage_penalty", "weight"),
    "coverage_epsilon": ("coverage_penalty", "epsilon"),
    "layer": ("alignment", "layer"),
    "heads": ("alignment", "heads"),
    "shift": ("alignment", "shift"),
    "replace_unk": ("alignment", "replace_unk"),
}


def load_models(
    directories: Sequence[Path], device: str, precision: str, settings: Sequence[str] = ()
) -> "tuple[TranslationModel, TextProcessor, GenerationConfig]":
    """Load one model or an ensemble, with the shared text processing and the first model's search settings.

    Raises:
        UsageError: if the precision is unknown or not supported by the model, or the models of an ensemble
            differ in vocabularies or fertilities.
        CheckpointError: if a model directory is missing or damaged.
        DeviceError: if the device is not available, or does not support the precision.
    """
    from regard.decoding.ensemble import Ensemble
    from regard.experiment import load_model

    loaded = [load_model(directory, device, precision, settings) for directory in directories]
    for other in loaded[1:]:
        _check_same_text(loaded[0], other)
    model = loaded[0].model if len(loaded) == 1 else Ensemble([one.model for one in loaded])
    return model, loaded[0].text, loaded[0].config.generation


def _check_same_text(first: "LoadedModel", other: "LoadedModel") -> None:
    for name in ("target", "source"):
        ours, theirs = getattr(first.text, name), getattr(other.text, name)
        if ours.vocabulary != theirs.vocabulary:
            raise UsageError(
                f"{other.model_dir}: its {name} vocabulary ({len(theirs.vocabulary)} tokens) differs from "
                f"that of {first.model_dir} ({len(ours.vocabulary)} tokens); models of an ensemble must "
                "share vocabularies"
            )
        if getattr(ours.tokenizer, "config", None) != getattr(theirs.tokenizer, "config", None):
            raise UsageError(
                f"{other.model_dir}: its {name} tokenizer differs from that of {first.model_dir}; "
                "models of an ensemble must share tokenizers"
            )
    if first.text.budget != other.text.budget:
        raise UsageError(
            f"{other.model_dir}: its fertilities (data.fertility) differ from those of {first.model_dir}; "
            "models of an ensemble must share them"
        )


def search_settings(base: "GenerationConfig", options: Mapping[str, Any]) -> "GenerationConfig":
    """Return search settings in which the given options (those that are not None) are replaced.

    Args:
        base: Search settings of the model.
        options: Options by the names of `GenerationConfig` or of `_NESTED_OPTIONS`. `head` selects a single
            head. If a layer is given without heads, all of its heads are used.

    Raises:
        ConfigError: if the options are not consistent; names the option.
    """
    from regard.config import from_dict, to_dict
    from regard.decoding.config import GenerationConfig

    data, options = to_dict(base), dict(options)
    head = options.pop("head", None)
    if head is not None:
        options["heads"] = [head]
    # The heads in the model's settings belong to its own layer.
    elif options.get("layer") is not None and options.get("heads") is None:
        options["heads"] = []
    for name, value in options.items():
        if value is None:
            continue
        part, key = _NESTED_OPTIONS.get(name, (None, name))
        (data if part is None else data[part])[key] = value
    return from_dict(GenerationConfig, data, origin="search options")
