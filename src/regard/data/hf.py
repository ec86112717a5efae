"""Folders of Hugging Face's library: what is in them, and the library, which is imported when it is needed.

Nothing is ever fetched from the network, no code of a folder is run, and weights are read from safetensors
alone: other files of weights are pickles, which run code when they are opened.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.data.files import read_bytes
from regard.errors import CheckpointError, DataError, RegardError, UsageError

__all__ = [
    "HF_CONFIG",
    "check_weights",
    "import_transformers",
    "is_hf_folder",
    "library_errors",
    "open_tokenizer",
    "pack_texts",
    "quiet",
    "read_hf_config",
    "text_files",
    "unpack_texts",
]

HF_CONFIG = "config.json"
_OURS = "config.toml"
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
_TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "*.spm", "*.bpe", "merges.txt")
_TEXTS = (".json", ".txt", ".model", ".spm", ".bpe", ".vocab")
_NO_TEXTS = ("index.json", "trainer_state.json", "requirements.txt", "README.txt")
_FIRST = (1980, 1, 1, 0, 0, 0)
"""The time of every file in an archive, so that the same files make the same archive."""


def import_transformers() -> Any:
    """The package `transformers`.

    Raises:
        UsageError: if it is not installed.
    """
    try:
        import transformers
    except ImportError:
        raise UsageError(
            "transformers is not installed, which Hugging Face folders need: pip install 'regard[hf]'"
        ) from None
    return transformers


@contextmanager
def library_errors(kind: type[RegardError], message: str) -> Iterator[None]:
    """A context in which whatever one of the library's hundreds of classes raises is one of our errors.

    Args:
        kind: Which.
        message: What it says; the first line of the library's own follows.
    """
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise kind(f"{message}: {reason}") from None


def open_tokenizer(folder: Path, where: str) -> Any:
    """The library's tokenizer of a folder.

    Args:
        folder: The folder.
        where: What to call it in messages.

    Raises:
        DataError: if there is no such folder, or none in it that the library can read.
    """
    # Without files the library makes an empty tokenizer of the model's kind.
    if folder.is_dir() and not any(path for kind in _TOKENIZERS for path in folder.glob(kind)):
        raise DataError(f"{where}: there are no files of a tokenizer beside the model's")
    with (
        quiet() as transformers,
        library_errors(DataError, f"{where}: transformers can read no tokenizer"),
    ):
        return transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )


@contextmanager
def quiet() -> Iterator[Any]:
    """The package, silent meanwhile: neither its log nor its progress bars; what is wrong is raised."""
    transformers = import_transformers()
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL)
    log.disable_progress_bar()
    try:
        yield transformers
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def is_hf_folder(folder: Path) -> bool:
    """Whether a folder is one of the library's, and no model folder of ours."""
    if (folder / _OURS).exists() or not (folder / HF_CONFIG).is_file():
        return False
    try:
        return "model_type" in json.loads((folder / HF_CONFIG).read_bytes())
    except (OSError, ValueError, TypeError):
        return False


def read_hf_config(folder: Path) -> dict[str, Any]:
    """The content of a folder's `config.json`.

    Raises:
        CheckpointError: if the folder or the file is missing, or it is not such a file.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder; Hugging Face models are read from local folders")
    path = folder / HF_CONFIG
    try:
        content = json.loads(read_bytes(path))
    except DataError as error:
        raise CheckpointError(f"{error}: not a Hugging Face model folder") from None
    except ValueError:
        raise CheckpointError(f"{path}: truncated or not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise CheckpointError(f"{path}: has no model_type: not of a Hugging Face model")
    return content


def _parts(index: Path) -> set[str]:
    """The files that the index of weights in several files names."""
    try:
        return set(json.loads(read_bytes(index))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, DataError):
        raise CheckpointError(f"{index}: not an index of weights") from None


def check_weights(folder: Path) -> None:
    """Refuse a folder without weights in safetensors.

    Raises:
        CheckpointError: if there are none, or pickled ones alone; names them.
    """
    single, index = (folder / name for name in _WEIGHTS)
    if single.is_file() or (index.is_file() and all(name.endswith(".safetensors") for name in _parts(index))):
        return
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if pickled:
        raise CheckpointError(
            f"{folder}: its weights are pickled ({pickled[0]}), which is refused: a pickle runs code when it "
            "is opened; have it saved as safetensors (model.safetensors)"
        )
    raise CheckpointError(f"{folder}: holds no weights (model.safetensors)")


def text_files(folder: Path) -> list[Path]:
    """The files that a tokenizer may be made of: neither weights nor code.

    Raises:
        DataError: if there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; Hugging Face tokenizers are read from local folders")
    found = (path for path in folder.iterdir() if path.is_file() and path.suffix in _TEXTS)
    return sorted(path for path in found if not path.name.endswith(_NO_TEXTS))


def pack_texts(folder: Path) -> bytes:
    """The files of a tokenizer as one archive, the same for the same files.

    Raises:
        DataError: if there is no such folder, or a file cannot be read.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in text_files(folder):
            archive.writestr(zipfile.ZipInfo(path.name, _FIRST), read_bytes(path), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def unpack_texts(content: bytes, folder: Path, where: str) -> None:
    """Write the files of an archive into a folder.

    Args:
        content: What `pack_texts` made.
        folder: An empty folder.
        where: Where the archive comes from, for messages.

    Raises:
        DataError: if it is not such an archive.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                if Path(name).name != name:
                    raise zipfile.BadZipFile
                (folder / name).write_bytes(archive.read(name))
    except (zipfile.BadZipFile, EOFError, zlib.error):
        raise DataError(f"{where}: truncated, or not the files of a Hugging Face tokenizer") from None
