"""Published Hugging Face models: download, and conversion of pickled weights to safetensors.

regard.download("Helsinki-NLP/opus-mt-de-en")
regard.convert("opus-mt-de-en")
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import CheckpointError, UsageError
from regard.text.directories import atomic_directory

if TYPE_CHECKING:
    from regard.models.hf.conversion import ConvertedWeights

__all__ = ["convert", "download"]

MARKDOWN = ["README.md", "LICENSE*"]
TEXTS = ["*.json", "*.txt", "*.model", "*.spm", "*.bpe", "*.vocab", *MARKDOWN]
"""The files of tokenizers and configurations."""
SAFETENSORS, PICKLED = ["model*.safetensors"], ["pytorch_model*.bin"]


def convert(directory: Path | str) -> "ConvertedWeights":
    """Convert the pickled weights of a Hugging Face directory to safetensors, which regard loads.

    The pickle is read without executing its code (`torch.load(weights_only=True)`). The new files appear
    next to it when they are complete and the model's outputs are equal. Other files stay as they are.

    Args:
        directory: The directory, with `pytorch_model.bin` or its shards.

    Returns:
        The names of the new files, and their numbers of tensors and values.

    Raises:
        CheckpointError: if there are no such weights, a file is broken or contains more than tensors, or the
            outputs differ; the message names the file.
        UsageError: if the directory already contains safetensors, or transformers is not installed.
    """
    from regard.models.hf.conversion import convert_weights

    return convert_weights(directory)


def download(name: str, output_dir: Path | str | None = None) -> Path:
    """Download a model from the Hugging Face Hub into a new directory, and convert pickled weights.

    Only weights, configurations and tokenizers are downloaded, and never code.

    Args:
        name: The name on the Hub, such as `Helsinki-NLP/opus-mt-de-en`.
        output_dir: The new directory. Default: the last part of the name, in the current directory.

    Returns:
        The directory.

    Raises:
        UsageError: if the name is not one of the Hub, the directory is not empty, or huggingface_hub is not
            installed.
        CheckpointError: if the Hub cannot be reached or has no such model, or the weights cannot be used.
    """
    hub = _import_hub()
    try:
        hub.utils.validate_repo_id(name)
    except ValueError:
        raise UsageError(
            f"{name!r}: not a name of a model on the Hugging Face Hub; expected OWNER/NAME"
        ) from None
    directory = Path(output_dir if output_dir is not None else name.rpartition("/")[2])
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory}: already exists; give another directory (--output-dir)")
    try:
        with atomic_directory(directory, require_empty=True) as made:
            _fetch(hub, name, made)
            if not any(made.glob(SAFETENSORS[0])):
                _convert_download(made, name)
    except OSError as error:
        raise CheckpointError(f"{directory}: cannot be written: {error.strerror or error}") from None
    return directory


def _convert_download(directory: Path, name: str) -> None:
    """Convert the weights in a temporary directory; messages contain the name of the model instead."""
    try:
        convert(directory)
    except CheckpointError as error:
        raise CheckpointError(str(error).replace(str(directory), name)) from None


def _import_hub() -> Any:
    """Import and return the package `huggingface_hub`."""
    try:
        import huggingface_hub
    except ImportError:
        raise UsageError(
            "downloads require the package huggingface_hub, which is not installed: run "
            "pip install 'regard[hf]'"
        ) from None
    return huggingface_hub


def _fetch(hub: Any, name: str, directory: Path) -> None:
    """Download the files of a model: safetensors if there are any, else pickled weights.

    Raises:
        CheckpointError: if the Hub cannot be reached, or has no such model.
    """
    try:
        files = hub.HfApi().list_repo_files(name)
        weights = SAFETENSORS if any(file.endswith(".safetensors") for file in files) else PICKLED
        hub.snapshot_download(name, local_dir=directory, allow_patterns=[*TEXTS, *weights])
    except Exception as error:  # the library has no common error for network and names
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise CheckpointError(
            f"{name}: cannot be downloaded from the Hugging Face Hub: {reason}. Check the name and the "
            "network; a model that is copied by other means can be used as a local directory"
        ) from None
