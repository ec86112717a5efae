"""Phrase-based systems from their folders, wherever any trained model is taken."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.decoding.config import SearchConfig
    from regard.decoding.phrases import PhraseTranslator
    from regard.decoding.translate import Translator
    from regard.experiment import RunConfig
    from regard.smt.model import PhraseModel

__all__ = [
    "is_phrase_based",
    "load_phrase_model",
    "load_translator",
    "no_probability",
    "phrase_search",
    "phrase_translator",
]

_KNOWN = ("beam", "nbest", "batch")
"""Search settings that mean something there."""


def is_phrase_based(folders: Sequence[Path]) -> bool:
    """Whether one of some model folders holds a phrase-based system."""
    from regard.training.phrases import is_phrase_folder

    return any(is_phrase_folder(folder) for folder in folders)


def no_probability(folder: Path) -> UsageError:
    """Why a phrase-based system scores no translation that is given."""
    return UsageError(
        f"{folder}: a phrase-based system ranks its own translations of a sentence by sums of features; "
        "it gives a translation that it is shown no probability"
    )


def load_translator(
    folders: Sequence[Path],
    device: str,
    precision: str,
    options: Mapping[str, Any],
    threads: int | None = None,
) -> "Translator | PhraseTranslator":
    """What translates with a model of any kind, or with an ensemble of neural ones.

    Args:
        folders: Model folders.
        device: Where a neural model runs.
        precision: What its products are made in.
        options: Search settings as `search_settings` takes them; those left out or none are the model's own.
        threads: On the CPU.

    Raises:
        UsageError: if an option is not for the model, or models do not fit together.
        CheckpointError: if a folder is missing or broken.
    """
    from regard.api.loading import load_models, search_settings
    from regard.decoding.translate import Translator

    if is_phrase_based(folders):
        return phrase_translator(folders, threads, options, {})
    model, text, base = load_models(folders, device, precision)
    return Translator(model, text, search_settings(base, options))


def phrase_translator(
    folders: Sequence[Path], threads: int | None, options: Mapping[str, Any], others: Mapping[str, Any]
) -> "PhraseTranslator":
    """A translator of a phrase-based system.

    Args:
        folders: One.
        threads: On the CPU; none: as many as there are processors.
        options: Search settings as `search_settings` takes them; those left out or none are the model's own.
        others: Options that it does not have, by name; those left out are none or false.

    Raises:
        UsageError: if an option is given that it does not have, or there are several models.
        CheckpointError: if the folder is broken.
    """
    from regard.decoding.phrases import PhraseTranslator

    unknown = {f"--{name.replace('_', '-')}": value for name, value in options.items() if name not in _KNOWN}
    for name, value in {**others, **unknown}.items():
        if value is not None and value is not False and value != []:
            raise UsageError(f"{name}: not for phrase-based models; {folders[0]} is one")
    model, config = load_phrase_model(folders)
    known = {name: options.get(name) for name in _KNOWN}
    return PhraseTranslator(model, phrase_search(config.search, known), threads or 0)


def load_phrase_model(folders: Sequence[Path]) -> "tuple[PhraseModel, RunConfig]":
    """A phrase-based system from its folder, and its run's settings, with the stacks' size as beam.

    Raises:
        UsageError: if there are several models, or the settings are not of such a system.
        CheckpointError: if the folder is broken.
    """
    from regard.config import to_dict
    from regard.experiment import load_config
    from regard.smt.config import PhraseConfig
    from regard.smt.model import PHRASE_FOLDER, load_phrases, phrases_beside
    from regard.training.resume import compare_beside, files_beside

    if len(folders) > 1:
        raise UsageError("several models: phrase-based ones make no ensembles")
    config = load_config(folders[0])
    if not isinstance(config.model, PhraseConfig):
        raise UsageError(f"{folders[0]}: model.kind = {config.model.kind!r} beside a phrase-based system")
    found = files_beside(folders[0], to_dict(config))
    compare_beside(phrases_beside(folders[0]), folders[0] / PHRASE_FOLDER, folders[0], found)
    search = replace(config.search, beam=config.model.stack, nbest=1)
    return load_phrases(folders[0], config.model), replace(config, search=search)


def phrase_search(base: "SearchConfig", options: Mapping[str, Any]) -> "SearchConfig":
    """Search settings with the options that were given in their places; stacks hold what is returned.

    Args:
        base: The system's own.
        options: As `search_settings` takes them.

    Raises:
        UsageError: if an option means nothing to such a system.
        ConfigError: if they do not fit together; names the option.
    """
    from regard.api.loading import search_settings

    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() - set(_KNOWN):
        raise UsageError(f"{name}: not for phrase-based models, which know {', '.join(_KNOWN)}")
    wide = max(base.beam, given.get("nbest", 1))
    return search_settings(replace(base, beam=wide), given)
