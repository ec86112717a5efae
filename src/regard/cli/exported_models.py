"""Support for exported models in `regard translate`: loading, and checks of unsupported options."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.export.translator import ExportedTranslator

__all__ = ["check_not_exported", "load_exported_translator"]


def check_not_exported(directories: Sequence[Path]) -> None:
    """Check that no model directory contains an exported model, which regard itself cannot run.

    Raises:
        UsageError: If a directory contains one; the message names the first.
    """
    from regard.run_config import CONFIG_FILE
    from regard.training.weights import EXPORTED_FILE, MODEL_FILE

    for directory in directories:
        # A directory may have both kinds of weights; regard then uses its own.
        exported = (directory / EXPORTED_FILE).exists() and (directory / CONFIG_FILE).exists()
        if exported and not (directory / MODEL_FILE).exists():
            raise UsageError(f"{directory}: this is an exported model. Add --engine ctranslate2.")


def load_exported_translator(
    directories: Sequence[Path],
    device: str,
    num_threads: int | None,
    options: Mapping[str, Any],
    unsupported: Mapping[str, Any],
) -> "ExportedTranslator":
    """Return a translator for an exported model.

    Args:
        directories: Model directories. Only one is supported.
        device: Device of the computation.
        num_threads: Number of CPU threads.
        options: Search settings, as arguments of `search_settings`. A missing value means the model's own.
        unsupported: Unsupported options by name. An option that was not given has a false value.

    Raises:
        UsageError: If an unsupported option is given, or there is more than one model or no exported model.
    """
    for name, value in unsupported.items():
        if value:
            raise UsageError(
                f"{name} cannot be used with --engine ctranslate2, which supports plain translation only"
            )
    if len(directories) > 1:
        raise UsageError("--engine ctranslate2 does not support ensembles: give one model")

    from regard.api.loading import search_settings
    from regard.export.translator import ExportedTranslator, load_exported

    model = load_exported(directories[0], device, num_threads)
    beam_size = options.get("beam_size")
    if beam_size is None:
        # A beam of N holds at most N translations.
        beam_size = max(model.search.beam_size, options.get("num_return") or 1)
    return ExportedTranslator(model, search_settings(model.search, {**options, "beam_size": beam_size}))
