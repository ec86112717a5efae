"""Folders of Hugging Face's library: what is in them, and the library, which is imported when it is needed.

Nothing is ever fetched from the network, no code of a folder is run, and weights are read from safetensors
alone: other files of weights are pickles, which run code when they are opened.
"""

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from regard.data.reading import NotJson, read_json, read_limited
from regard.data.sealed import own_file
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
    "weight_files",
]

HF_CONFIG = "config.json"
MOST_LAYERS, MOST_SIZE = 1_000, 1 << 24
"""The most layers, and the highest of other sizes, that a `config.json` may ask for."""
_OURS = "config.toml"
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
_TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "*.spm", "*.bpe", "merges.txt")
_TEXTS = (".json", ".txt", ".model", ".spm", ".bpe", ".vocab")
_NO_TEXTS = ("index.json", "trainer_state.json", "requirements.txt", "README.txt")
_LARGEST = 64 << 20
"""The most bytes of all files of a tokenizer: those of 250,000 tokens have some 40 MB."""
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
        return "model_type" in read_json(folder / HF_CONFIG, dict[str, Any], _LARGEST)
    except (DataError, NotJson):
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
        content = read_json(own_file(folder, HF_CONFIG), dict[str, Any], _LARGEST)
    except DataError as error:
        raise CheckpointError(f"{error}: not a Hugging Face model folder") from None
    except NotJson as error:
        raise CheckpointError(f"{path}: truncated or not JSON of a model: {error}") from None
    if not isinstance(content.get("model_type"), str):
        raise CheckpointError(f"{path}: has no model_type: not of a Hugging Face model")
    _check_settings(content, path)
    return content


def _check_settings(content: Mapping[str, Any], path: Path) -> None:
    """Refuse sizes that no machine has, and code of other places, before the library makes a model of them.

    Raises:
        CheckpointError: if a setting asks for it; names the setting.
    """
    for name, value in content.items():
        if isinstance(value, Mapping):
            _check_settings(value, path)
        most = MOST_LAYERS if name.endswith(("layers", "n_layer")) else MOST_SIZE
        if isinstance(value, int) and abs(value) > most and not name.endswith("length"):
            raise CheckpointError(f"{path}: {name} = {value}, and {most:,} is the most that is taken")
        if "attn_implementation" in name and isinstance(value, str) and "/" in value:
            raise CheckpointError(f"{path}: {name} = {value!r} names code of another place, which is not run")


def _parts(index: Path) -> set[str]:
    """The files that the index of weights in several files names: each in the same folder."""
    try:
        names = set(read_json(index, _Index, _LARGEST).weight_map.values())
        for name in names:
            own_file(index.parent, name, index)
    except NotJson as error:
        raise CheckpointError(f"{index}: not an index of weights: {error}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    return names


class _Index(BaseModel):
    """What an index of weights says; all else is passed over."""

    weight_map: dict[str, str]


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder's weights, in safetensors.

    Raises:
        CheckpointError: if an index names something else than files of the folder.
    """
    single, index = (folder / name for name in _WEIGHTS)
    return [single] if single.is_file() else [folder / name for name in sorted(_parts(index))]


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
    files = text_files(folder)
    _check_sizes((path.stat().st_size for path in files), f"{folder}: its files of text")
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in files:
            content = read_limited(own_file(folder, path.name), _LARGEST)
            archive.writestr(zipfile.ZipInfo(path.name, _FIRST), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _check_sizes(sizes: Iterable[int], what: str) -> None:
    """Refuse more than the files of any tokenizer, before memory is taken for them."""
    total = sum(sizes)
    if total > _LARGEST:
        raise DataError(f"{what} unpack to {total:,} bytes; those of a tokenizer to {_LARGEST:,} at most")


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
            entries = archive.infolist()
            _check_sizes((one.file_size for one in entries), f"{where}: the files of its archive")
            for one in entries:
                # Nothing is unpacked beyond the size that the entry states.
                own_file(folder, one.filename, where).write_bytes(archive.read(one))
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, OSError, ValueError):
        raise DataError(f"{where}: truncated, or not the files of a Hugging Face tokenizer") from None
