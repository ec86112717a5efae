"""Safe access to Hugging Face model directories and lazy import of the `transformers` library.

No code from a model directory is executed.
"""

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from regard.errors import CheckpointError, DataError, RegardError, UsageError
from regard.text.reading import InvalidJsonError, checked_file, read_bytes, read_expected_json, read_json

HF_CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
MAX_LAYERS, MAX_SETTING = 1_000, 1 << 24
"""Maximum number of layers and maximum value of other sizes in a `config.json`."""
TokenId = Annotated[int, Field(strict=True, ge=0, le=MAX_SETTING)]
"""The id of a token in a JSON file."""
_WEIGHTS = tuple(
    name + suffix for name in ("model.safetensors", "pytorch_model.bin") for suffix in ("", ".index.json")
)
"""The names of weight files and of indices of weight files; the first that exists is used."""
_TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "*.spm", "*.bpe", "merges.txt")
_VOCABULARIES = ("vocab*.json", "added_tokens.json")
_TEXTS = (".json", ".txt", ".model", ".spm", ".bpe", ".vocab", ".jinja")
_NO_TEXTS = ("index.json", "trainer_state.json", "requirements.txt", "README.txt")
_MAX_TOKENIZER_BYTES = 64 << 20
"""Maximum total size of the files of a tokenizer in bytes. One with 250,000 tokens has about 40 MB."""
_FIRST = (1980, 1, 1, 0, 0, 0)
"""Fixed modification time of the files in an archive, so that the same files give the same archive."""


def import_package(name: str, message: str) -> Any:
    """Import and return an optional package.

    Raises:
        UsageError: with the message, if it is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(message) from None


def import_transformers() -> Any:
    """Import and return the package `transformers`.

    Raises:
        UsageError: if it is not installed.
    """
    return import_package(
        "transformers",
        "Hugging Face models require the package transformers, which is not installed: run pip install "
        "'regard[hf]'",
    )


@contextmanager
def convert_errors(error_type: type[RegardError], message: str) -> Iterator[None]:
    """Convert exceptions of the library into errors, whose message ends with the first line of theirs."""
    try:
        yield
    except RegardError:
        raise
    except BaseException as error:
        # A panic of the Rust code of tokenizers is not an `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise error_type(f"{message}: {reason}") from None


def load_hf_tokenizer(directory: Path, where: str) -> Any:
    """Load the Hugging Face tokenizer of a directory, which messages call `where`.

    Raises:
        DataError: if the directory does not exist or has no tokenizer that the library can load.
    """
    # Without tokenizer files, the library would return an empty tokenizer of the model type.
    if directory.is_dir() and not any(path for kind in _TOKENIZERS for path in directory.glob(kind)):
        raise DataError(f"{where}: the directory contains no tokenizer files")
    for path in (path for pattern in _VOCABULARIES for path in sorted(directory.glob(pattern))):
        try:
            read_json(path, dict[str, TokenId], _MAX_TOKENIZER_BYTES)
        except InvalidJsonError as error:
            raise DataError(f"{where}: {path.name}: not a vocabulary: {error}") from None
    with (
        quiet_transformers() as transformers,
        convert_errors(DataError, f"{where}: transformers cannot load a tokenizer"),
    ):
        # Neither downloads nor code of the model directory.
        return transformers.AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )


@contextmanager
def quiet_transformers() -> Iterator[Any]:
    """Yield the package `transformers` with its log messages and progress bars disabled during the block."""
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


def read_hf_config(directory: Path) -> dict[str, Any]:
    """Return the content of the file `config.json` of a model directory.

    Raises:
        CheckpointError: if the directory or the file is missing, or the file is not a model configuration.
    """
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: no such model directory")
    path = directory / HF_CONFIG
    try:
        content = read_json(checked_file(directory, HF_CONFIG), dict[str, Any], _MAX_TOKENIZER_BYTES)
    except DataError as error:
        raise CheckpointError(f"{error}: not a Hugging Face model directory") from None
    except InvalidJsonError as error:
        raise CheckpointError(f"{path}: truncated or not a JSON object: {error}") from None
    if not isinstance(content.get("model_type"), str) and (directory / "model.bin").is_file():
        raise CheckpointError(
            f"{directory}: a CTranslate2 model that was not written by `regard export`; give the "
            "directory of the original Hugging Face model"
        )
    if not isinstance(content.get("model_type"), str):
        raise CheckpointError(f"{path}: has no model_type: not the configuration of a Hugging Face model")
    _check_settings(content, path)
    return content


def _check_settings(content: Mapping[str, Any], path: Path) -> None:
    """Reject extreme sizes and references to remote code before the library constructs a model."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            _check_settings(value, path)
        limit = MAX_LAYERS if name.endswith(("layers", "n_layer")) else MAX_SETTING
        if isinstance(value, int) and abs(value) > limit and not name.endswith("length"):
            raise CheckpointError(f"{path}: {name} = {value}; the maximum is {limit:,}")
        # The library interprets a value such as `user/kernel` as the name of code to download.
        if "attn_implementation" in name and isinstance(value, str) and "/" in value:
            raise CheckpointError(f"{path}: {name} = {value!r} refers to remote code, which is not executed")


class _Index(BaseModel):
    """The used part of an index of weight files; other entries are ignored."""

    weight_map: dict[str, str]


def weight_files(directory: Path) -> list[Path]:
    """Return the weight files of a model directory: safetensors, or otherwise those of PyTorch.

    Raises:
        CheckpointError: if there are none, or an index contains other names than files of the directory.
    """
    path = next((path for name in _WEIGHTS if (path := directory / name).is_file()), None)
    if path is not None and path.suffix != ".json":
        return [path]
    if path is not None:
        try:
            index = read_expected_json(path, _Index, "an index of weight files")
            return [checked_file(directory, name, path) for name in sorted(set(index.weight_map.values()))]
        except DataError as error:
            raise CheckpointError(str(error)) from None
    raise CheckpointError(
        f"{directory}: contains no weights ({_WEIGHTS[0]} or {_WEIGHTS[2]}; the latter is never downloaded)"
    )


def tokenizer_files(directory: Path) -> list[Path]:
    """Return the files of a directory that may belong to a tokenizer, without weights and code.

    Raises:
        DataError: if the directory does not exist.
    """
    if not directory.is_dir():
        raise DataError(f"{directory}: no such directory with a tokenizer")
    paths = (path for path in directory.iterdir() if path.is_file() and path.suffix in _TEXTS)
    return sorted(path for path in paths if not path.name.endswith(_NO_TEXTS))


def pack_tokenizer(directory: Path) -> bytes:
    """Return the files of a tokenizer as a zip archive; the same files give the same bytes.

    Raises:
        DataError: if the directory does not exist, or a file cannot be read.
    """
    buffer = io.BytesIO()
    files = tokenizer_files(directory)
    _check_sizes((path.stat().st_size for path in files), f"{directory}: the tokenizer files")
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in files:
            content = read_bytes(checked_file(directory, path.name), _MAX_TOKENIZER_BYTES)
            # The files are packed whenever the directory is loaded, so that speed counts more than size.
            info = zipfile.ZipInfo(path.name, _FIRST)
            archive.writestr(info, content, zipfile.ZIP_DEFLATED, compresslevel=1)
    return buffer.getvalue()


def _check_sizes(sizes: Iterable[int], what: str) -> None:
    """Check the total size of tokenizer files before memory is allocated for them."""
    total = sum(sizes)
    # A small archive may expand to gigabytes.
    if total > _MAX_TOKENIZER_BYTES:
        raise DataError(f"{what} have {total:,} bytes in total; the maximum is {_MAX_TOKENIZER_BYTES:,}")


def unpack_tokenizer(content: bytes, directory: Path, where: str) -> None:
    """Extract an archive of `pack_tokenizer`, which messages call `where`, into an empty directory.

    Raises:
        DataError: if the content is not such an archive.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            _check_sizes((entry.file_size for entry in entries), f"{where}: the extracted files")
            for entry in entries:
                # `zipfile` never extracts more than the size that the entry states.
                checked_file(directory, entry.filename, where).write_bytes(archive.read(entry))
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, OSError, ValueError):
        raise DataError(f"{where}: truncated, or not an archive of a Hugging Face tokenizer") from None
