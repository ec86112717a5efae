"""Exported models at the command line: which of them is translated with, and what they do not have."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.export.engine import ExportedTranslator

__all__ = ["exported_translator", "refuse_exported"]


def refuse_exported(folders: Sequence[Path]) -> None:
    """Refuse exported models where regard itself is to run.

    Raises:
        UsageError: names the first.
    """
    from regard.training.weights import EXPORTED_FILE, MODEL_FILE

    for folder in folders:
        if (folder / EXPORTED_FILE).exists() and not (folder / MODEL_FILE).exists():
            raise UsageError(f"{folder}: is an exported model: add --engine ctranslate2")


def exported_translator(
    folders: Sequence[Path],
    device: str,
    threads: int | None,
    options: Mapping[str, Any],
    others: Mapping[str, Any],
) -> "ExportedTranslator":
    """A translator of an exported model.

    Args:
        folders: One.
        device: Where it runs.
        threads: Threads on the CPU.
        options: Search settings as `search_settings` takes them; those left out are the model's own.
        others: Options that it does not have, by name; those left out are none or false.

    Raises:
        UsageError: if an option is given that it does not have, or there is not one exported model.
    """
    for name, value in others.items():
        if value:
            raise UsageError(f"{name}: not with --engine ctranslate2, which gives plain translations alone")
    if len(folders) > 1:
        raise UsageError("several models: --engine ctranslate2 has no ensembles")

    from regard.api.loading import search_settings
    from regard.export.engine import ExportedTranslator, load_exported

    model = load_exported(folders[0], device, threads)
    wide = max(model.search.beam, options.get("nbest") or 1)  # as many are kept as are returned
    beam = wide if options.get("beam") is None else options["beam"]
    return ExportedTranslator(model, search_settings(model.search, {**options, "beam": beam}))
