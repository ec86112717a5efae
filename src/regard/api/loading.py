"""Trained models from their folders, one or an ensemble, and search settings by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.data.text import TextPair
    from regard.decoding.config import SearchConfig
    from regard.experiment import LoadedModel
    from regard.models.base import TranslationModel

__all__ = ["load_models", "search_settings"]

_NESTED = {
    "batch": ("batch", "sentences"),
    "coverage_penalty": ("coverage_penalty", "weight"),
    "coverage_floor": ("coverage_penalty", "floor"),
    "layer": ("alignment", "layer"),
    "heads": ("alignment", "heads"),
    "shift": ("alignment", "shift"),
    "replace_unknown": ("alignment", "replace_unknown"),
}


def load_models(
    folders: Sequence[Path], device: str, precision: str, settings: Sequence[str] = ()
) -> "tuple[TranslationModel, TextPair, SearchConfig]":
    """One model or an ensemble, the text handling they share, and the first one's search settings.

    Raises:
        UsageError: if the precision is not known or not for a model, or models of an ensemble have other
            vocabularies or fertilities.
        CheckpointError: if a model folder is missing or broken.
        DeviceError: if the device is not there, or has no products in that precision.
    """
    from regard.decoding.ensemble import Ensemble
    from regard.experiment import load_model

    loaded = [load_model(folder, device, precision, settings) for folder in folders]
    for other in loaded[1:]:
        _check_same_text(loaded[0], other)
    model = loaded[0].model if len(loaded) == 1 else Ensemble([one.model for one in loaded])
    return model, loaded[0].text, loaded[0].config.search


def _check_same_text(first: "LoadedModel", other: "LoadedModel") -> None:
    for name in ("target", "source"):
        ours, theirs = getattr(first.text, name), getattr(other.text, name)
        if ours.vocabulary != theirs.vocabulary:
            raise UsageError(
                f"{other.folder}: its {name} vocabulary ({len(theirs.vocabulary)} tokens) is not that of "
                f"{first.folder} ({len(ours.vocabulary)} tokens): models of an ensemble share vocabularies"
            )
        if getattr(ours.tokenizer, "config", None) != getattr(theirs.tokenizer, "config", None):
            raise UsageError(
                f"{other.folder}: its {name} tokenizer is not that of {first.folder}: "
                "models of an ensemble share tokenizers"
            )
    if first.text.budget != other.text.budget:
        raise UsageError(
            f"{other.folder}: its fertilities (data.fertility) are not those of {first.folder}: "
            "models of an ensemble read the same text"
        )


def search_settings(base: "SearchConfig", options: Mapping[str, Any]) -> "SearchConfig":
    """The model's search settings with the options that were given (not `None`) in their places.

    Args:
        base: The model's own.
        options: By the names of `SearchConfig`, or by those of `_NESTED`; `head` is one of `heads`. With
            another layer and no heads all of its heads are meant.

    Raises:
        ConfigError: if they do not fit together; names the option.
    """
    from regard.config import from_dict, to_dict
    from regard.decoding.config import SearchConfig

    data, options = to_dict(base), dict(options)
    head = options.pop("head", None)
    if head is not None:
        options["heads"] = [head]
    elif options.get("layer") is not None and options.get("heads") is None:
        options["heads"] = []
    for name, value in options.items():
        if value is None:
            continue
        if name in _NESTED:
            part, key = _NESTED[name]
            data[part][key] = value
        else:
            data[name] = value
    return from_dict(SearchConfig, data, where="search options")
