"""Loading of phrase-based systems, with the same interface as other trained models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.decoding.config import GenerationConfig
    from regard.decoding.translator import Translator
    from regard.run_config import RunConfig
    from regard.smt.model import PhraseModel
    from regard.smt.translator import PhraseTranslator

__all__ = [
    "is_phrase_based",
    "load_phrase_model",
    "load_phrase_translator",
    "load_translator",
    "no_probability_error",
    "phrase_search_settings",
]

_SUPPORTED_OPTIONS = ("beam_size", "num_return", "batch_size")
"""Search settings that phrase-based systems support."""


def is_phrase_based(directories: Sequence[Path]) -> bool:
    """Return whether one of several model directories contains a phrase-based system."""
    from regard.smt.system import is_phrase_model

    return any(is_phrase_model(directory) for directory in directories)


def no_probability_error(directory: Path) -> UsageError:
    """Return the error for scoring given translations with a phrase-based system."""
    return UsageError(
        f"{directory}: a phrase-based system ranks its own translations by weighted sums of features and "
        "cannot compute the probability of a given translation; use a neural model"
    )


def load_translator(
    directories: Sequence[Path],
    device: str,
    precision: str,
    options: Mapping[str, Any],
    num_threads: int | None = None,
) -> "Translator | PhraseTranslator":
    """Load a translator for a model of any kind, or for an ensemble of neural models.

    Args:
        directories: Model directories.
        device: Device of a neural model.
        precision: Data type of the matrix multiplications of a neural model.
        options: Search settings as in `search_settings`. Missing options and None keep the model's own.
        num_threads: Number of CPU threads of a phrase-based system.

    Raises:
        UsageError: if an option is not supported by the model, or the models are not compatible.
        CheckpointError: if a directory is missing or damaged.
    """
    from regard.api.loading import load_models, search_settings
    from regard.decoding.translator import Translator

    if is_phrase_based(directories):
        return load_phrase_translator(directories, num_threads, options, {})
    model, text, base = load_models(directories, device, precision)
    return Translator(model, text, search_settings(base, options))


def load_phrase_translator(
    directories: Sequence[Path],
    num_threads: int | None,
    options: Mapping[str, Any],
    unsupported: Mapping[str, Any],
) -> "PhraseTranslator":
    """Load a translator for a phrase-based system.

    Args:
        directories: A list with one directory.
        num_threads: Number of CPU threads. None for one per processor.
        options: Search settings as in `search_settings`. Missing options and None keep the model's own.
        unsupported: Other options, by name, that are not supported. They must be None, false or empty.

    Raises:
        UsageError: if an option is given that is not supported, or there are several models.
        CheckpointError: if the directory is damaged.
    """
    from regard.smt.translator import PhraseTranslator

    unknown = {
        f"--{name.replace('_', '-')}": value
        for name, value in options.items()
        if name not in _SUPPORTED_OPTIONS
    }
    for name, value in {**unsupported, **unknown}.items():
        if value is not None and value is not False and value != []:
            raise UsageError(f"{name}: not available for phrase-based models such as {directories[0]}")
    model, config = load_phrase_model(directories)
    known = {name: options.get(name) for name in _SUPPORTED_OPTIONS}
    return PhraseTranslator(model, phrase_search_settings(config.generation, known), num_threads or 0)


def load_phrase_model(directories: Sequence[Path]) -> "tuple[PhraseModel, RunConfig]":
    """Load a phrase-based system and its run configuration, in which the beam is the stack size.

    Raises:
        UsageError: if there are several models, or the configuration is not that of such a system.
        CheckpointError: if the directory is damaged.
    """
    from regard.config import to_dict
    from regard.run_config import load_config
    from regard.smt.config import PhraseConfig
    from regard.smt.model import PHRASE_DIR, load_phrases, read_file_checksums
    from regard.training.resume import compare_checksums, file_checksums

    if len(directories) > 1:
        raise UsageError("several models are given, but ensembles of phrase-based models are not supported")
    config = load_config(directories[0])
    if not isinstance(config.model, PhraseConfig):
        raise UsageError(
            f"{directories[0]}: the directory contains a phrase-based system, but its configuration has "
            f"model.kind = {config.model.kind!r}"
        )
    found = file_checksums(directories[0], to_dict(config))
    compare_checksums(read_file_checksums(directories[0]), directories[0] / PHRASE_DIR, directories[0], found)
    search = replace(config.generation, beam_size=config.model.stack_size, num_return=1)
    return load_phrases(directories[0], config.model), replace(config, generation=search)


def phrase_search_settings(base: "GenerationConfig", options: Mapping[str, Any]) -> "GenerationConfig":
    """Return search settings in which the given options are replaced.

    The beam is raised to the number of translations returned.

    Args:
        base: Search settings of the system.
        options: Options as in `search_settings`.

    Raises:
        UsageError: if an option is not supported by phrase-based systems.
        ConfigError: if the options are not consistent; names the option.
    """
    from regard.api.loading import search_settings

    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() - set(_SUPPORTED_OPTIONS):
        raise UsageError(
            f"{name}: not available for phrase-based models, which support {', '.join(_SUPPORTED_OPTIONS)}"
        )
    beam_size = max(base.beam_size, given.get("num_return", 1))
    return search_settings(replace(base, beam_size=beam_size), given)
