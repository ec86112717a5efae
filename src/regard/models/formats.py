"""The contract of model directories in the format of another library, which an extension reads.

An extension provides the format by the hook `model_format`, and by the hook `missing_directory_hint` a
function that returns what to do about the name of a directory that does not exist.
"""

from pathlib import Path
from typing import Any, Protocol

from regard.config.extensions import hook
from regard.data.text import TextProcessor

__all__ = ["ModelFormat", "foreign_format", "missing_directory_message"]


class ModelFormat(Protocol):
    """A format of model directories, which contain a model that was trained by another library."""

    def recognizes(self, directory: Path) -> bool:
        """Return whether a directory has this format."""
        ...

    def describe_model(self, directory: Path) -> Any:
        """Return a `regard.runs.description.ModelDescription` that stands for a directory, without text.

        Raises:
            CheckpointError: if a file is missing or invalid; names it.
        """
        ...

    def load_text(self, directory: Path, config: Any) -> TextProcessor:
        """Return the tokenizers of a directory, and log a warning if some of its settings are ignored.

        Args:
            directory: The directory.
            config: The description of `describe_model`, possibly with overrides.

        Raises:
            DataError: if the directory has no tokenizer.
            ConfigError: if an override names another tokenizer.
        """
        ...


def foreign_format(directory: Path) -> ModelFormat | None:
    """Return the format of a directory of another library; None for a model directory of this package."""
    model_format: ModelFormat | None = hook("model_format")
    return model_format if model_format is not None and model_format.recognizes(directory) else None


def missing_directory_message(path: Path | str, expected: str = "model directory") -> str:
    """Return the message about a missing directory, with the hint of an extension, if it has one."""
    hint = hook("missing_directory_hint")
    return f"{path}: no such {expected}" + ("" if hint is None else hint(path))
