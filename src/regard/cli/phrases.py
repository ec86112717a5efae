"""Phrase-based systems at the command line: loaded where a command takes any trained model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.decoding.phrases import PhraseTranslator
    from regard.decoding.translate import Translator

__all__ = ["is_phrase_based", "load_translator", "phrase_translator"]

_KNOWN = ("beam", "nbest", "batch")
"""Search settings that mean something there."""


def is_phrase_based(folders: Sequence[Path]) -> bool:
    """Whether one of some model folders holds a phrase-based system."""
    from regard.training.phrases import is_phrase_folder

    return any(is_phrase_folder(folder) for folder in folders)


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
    unknown = {f"--{name.replace('_', '-')}": value for name, value in options.items() if name not in _KNOWN}
    for name, value in {**others, **unknown}.items():
        if value is not None and value is not False and value != []:
            raise UsageError(f"{name}: not for phrase-based models; {folders[0]} is one")
    if len(folders) > 1:
        raise UsageError("several models: phrase-based ones make no ensembles")

    from dataclasses import replace

    from regard.api.loading import search_settings
    from regard.decoding.phrases import PhraseTranslator
    from regard.experiment import load_config
    from regard.smt.config import PhraseConfig
    from regard.smt.model import load_phrases

    config = load_config(folders[0])
    if not isinstance(config.model, PhraseConfig):
        raise UsageError(f"{folders[0]}: model.kind = {config.model.kind!r} beside a phrase-based system")
    wide = max(config.model.stack, options.get("nbest") or 1)  # as many are kept as are returned
    base = replace(config.search, beam=wide, nbest=1)
    search = search_settings(base, {name: options.get(name) for name in _KNOWN})
    return PhraseTranslator(load_phrases(folders[0], config.model), search, threads or 0)
