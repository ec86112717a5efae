"""Conversion of published weights (`pytorch_model.bin`) to safetensors.

The pickle is read with `torch.load(weights_only=True)`, which creates tensors and calls no code of the file.
Files that contain anything else are refused. The new files appear in the directory only when they are
complete and the model gives the same outputs with them.
"""

import os
import pickle
import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from regard.config.results import Result
from regard.data.hf import (
    HF_CONFIG,
    convert_errors,
    pickled_files,
    quiet_transformers,
    read_hf_config,
    weight_files,
)
from regard.errors import CheckpointError, DataError, UsageError
from regard.text.files import partial_directory, sync_directory, sync_file
from regard.text.reading import checked_file
from regard.types import Tensor

__all__ = ["ConvertedWeights", "convert_weights", "read_pickled_tensors"]

INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class ConvertedWeights(Result):
    """The result of a conversion.

    Attributes:
        directory: The model directory.
        files: The names of the new files.
        num_tensors: Number of tensors in them. Tensors that the model ties are stored once.
        num_parameters: Number of values in them.
        dtypes: The data types, which are those of the pickled weights.
    """

    schema: ClassVar[str] = "converted_weights"

    directory: str
    files: tuple[str, ...]
    num_tensors: int
    num_parameters: int
    dtypes: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """Return all fields."""
        return {
            "directory": self.directory,
            "files": list(self.files),
            "num_tensors": self.num_tensors,
            "num_parameters": self.num_parameters,
            "dtypes": list(self.dtypes),
        }

    def __repr__(self) -> str:
        """Return the directory and the sizes."""
        return (
            f"ConvertedWeights({self.directory!r}, {self.num_tensors:,} tensors in {len(self.files)} file"
            f"{'' if len(self.files) == 1 else 's'})"
        )


def convert_weights(directory: Path | str) -> ConvertedWeights:
    """Write the pickled weights of a Hugging Face directory as safetensors next to them.

    Other files stay as they are. Data types are kept. Sharded weights stay sharded, in files of
    similar size. This needs memory for the model in float32, and for the weights.

    Args:
        directory: The directory, with `pytorch_model.bin` or `pytorch_model.bin.index.json`.

    Raises:
        CheckpointError: if the directory has no such weights; a file is broken, or contains more than
            tensors (names it); the model cannot be created; its outputs differ; or a file cannot be written.
        UsageError: if the directory already contains safetensors.
    """
    directory = Path(directory)
    read_hf_config(directory)
    if (directory / "model.safetensors").exists() or (directory / INDEX).exists():
        raise UsageError(f"{directory}: already contains weights as safetensors; there is nothing to convert")
    pickles = pickled_files(directory)
    tensors: dict[str, Tensor] = {}
    for path in pickles:
        tensors.update(read_pickled_tensors(path))
    if not tensors:
        raise CheckpointError(f"{pickles[0]}: contains no tensors")
    try:
        with partial_directory(directory / "model.safetensors") as made:
            _write(directory, tensors, made, None if len(pickles) == 1 else _largest(pickles))
            names = _check_written(directory, made, tensors)
            _check_outputs(directory, made, tensors)
            _move(made, directory, names)
    except OSError as error:
        raise CheckpointError(f"{directory}: cannot be written: {error.strerror or error}") from None
    stored = _read(directory / name for name in names if name.endswith(".safetensors"))
    return ConvertedWeights(
        str(directory),
        tuple(name for name in names if name.endswith(".safetensors")),
        len(stored),
        sum(tensor.numel() for tensor in stored.values()),
        tuple(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in stored.values()})),
    )


def read_pickled_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a pickled file by name, without executing code of the file.

    The tensors of the zip format stay on the disk until they are used.

    Raises:
        CheckpointError: if the file is broken, or contains anything else than tensors; names it.
    """
    try:
        path = checked_file(path.parent, path.name)
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)|type ([\w.]+)", str(error))
        reason = f"it refers to the code {found[1] or found[2]}" if found else str(error).split("\n")[0]
        raise CheckpointError(
            f"{path}: refused, because it contains more than tensors: {reason}. A pickle can execute code "
            "when it is loaded. Ask its author for weights as safetensors"
        ) from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, AttributeError, TypeError) as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        raise CheckpointError(f"{path}: truncated or not a file of PyTorch weights: {reason}") from None
    if not isinstance(content, Mapping):
        raise CheckpointError(
            f"{path}: refused, because it contains more than tensors: a {type(content).__name__} instead of "
            "tensors by name"
        )
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or value.layout != torch.strided:
            raise CheckpointError(
                f"{path}: refused, because it contains more than tensors: {name!r} is a "
                f"{type(value).__name__}"
            )
    return {name: value.detach() for name, value in content.items()}


def _largest(files: Sequence[Path]) -> int:
    """Return the size of the largest file in bytes."""
    return max(path.stat().st_size for path in files)


def _write(directory: Path, tensors: Mapping[str, Tensor], made: Path, max_bytes: int | None) -> None:
    """Write tensors as safetensors, with one name for each tensor that several names share."""
    from huggingface_hub import save_torch_state_dict

    with quiet_transformers(), torch.device("meta"):
        tied = list(getattr(_create(directory), "all_tied_weights_keys", {}))
    # One file, unless the pickle is sharded.
    limit = 1 + sum(tensor.nbytes for tensor in tensors.values()) if max_bytes is None else max_bytes
    with convert_errors(CheckpointError, f"{directory}: the weights cannot be written as safetensors"):
        save_torch_state_dict(
            dict(tensors), made, max_shard_size=limit, shared_tensors_to_discard=tied or None
        )


def _read(files: Any) -> dict[str, Tensor]:
    """Return the tensors of several safetensors files by name."""
    from safetensors.torch import load_file

    return {name: tensor for path in files for name, tensor in load_file(path).items()}


def _check_written(directory: Path, made: Path, tensors: Mapping[str, Tensor]) -> list[str]:
    """Compare the written tensors with the original ones, and return the names of the files.

    Raises:
        CheckpointError: if a tensor differs, or is missing although no other name shares it.
    """
    written = _read(weight_files(made))
    kept = {tensors[name].data_ptr() for name in written}
    for name, tensor in tensors.items():
        if name in written:
            same = written[name].dtype == tensor.dtype and _equal(written[name], tensor)
        else:
            same = tensor.data_ptr() in kept
        if not same:
            raise CheckpointError(
                f"{directory}: {name!r} differs after the conversion, so nothing was written"
            )
    return sorted(path.name for path in made.iterdir())


def _equal(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have equal values, where NaN equals NaN."""
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)


def _check_outputs(directory: Path, made: Path, tensors: Mapping[str, Tensor]) -> None:
    """Compare the model's outputs with the original tensors and with the new files.

    Raises:
        CheckpointError: if they differ.
    """
    shutil.copyfile(directory / HF_CONFIG, made / HF_CONFIG)
    with (
        quiet_transformers(),
        convert_errors(CheckpointError, f"{directory}: transformers cannot open the model"),
    ):
        before = _outputs(directory, None, state_dict=dict(tensors))
        after = _outputs(directory, made, use_safetensors=True)
    (made / HF_CONFIG).unlink()
    if not _equal(before, after):
        raise CheckpointError(
            f"{directory}: the model's outputs differ after the conversion, so nothing was written"
        )


def _create(directory: Path) -> Any:
    """Return the model of a directory with new weights."""
    with convert_errors(CheckpointError, f"{directory}: transformers cannot create the model"):
        config, kind = _model_class(directory)
        return kind.from_config(config) if hasattr(kind, "from_config") else kind(config)


def _model_class(directory: Path) -> tuple[Any, Any]:
    """Return the configuration of a directory, and the class of its model."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(
        directory, local_files_only=True, trust_remote_code=False
    )
    named = [getattr(transformers, str(name), None) for name in getattr(config, "architectures", None) or ()]
    kinds = [one for one in named if isinstance(one, type) and issubclass(one, transformers.PreTrainedModel)]
    other = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModel
    return config, kinds[0] if kinds else other


@torch.no_grad()
def _outputs(directory: Path, source: Path | None, **options: Any) -> Tensor:
    """Return the model's outputs for a short input, in float32."""
    config, kind = _model_class(directory)
    # Parameters that the file does not contain are initialized randomly, both times with the same numbers.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind.from_pretrained(
            source, config=config, dtype=torch.float32, local_files_only=True, **options
        ).eval()
    ids = torch.arange(5).unsqueeze(0)
    inputs = {"input_ids": ids}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :2]
    return model(**inputs)[0]


def _move(made: Path, directory: Path, names: Sequence[str]) -> None:
    """Move the complete files into the directory; the index, which makes shards visible, comes last."""
    for name in sorted(names, key=lambda name: name == INDEX):
        sync_file(made / name)
        os.replace(made / name, directory / name)
    sync_directory(directory)
