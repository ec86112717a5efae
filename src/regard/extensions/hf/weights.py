"""Checks of weight files before a model is loaded: their format and size, and the memory that is available.

Weights are read from safetensors, or from pickles with `torch.load(weights_only=True)`, which creates tensors
and calls no code of the file.
"""

import logging
import math
import pickle
import re
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from regard.errors import CheckpointError, DataError
from regard.extensions.hf.files import HF_CONFIG, convert_errors
from regard.text.array_files import open_safetensors
from regard.text.reading import checked_file
from regard.types import Tensor

__all__ = ["available_memory", "check_size", "choose_placement"]

_log = logging.getLogger(__name__)
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
BYTES_PER_PARAMETER = 4  # models are loaded in float32
SMALL_MODEL_SIZE = 1 << 20
"""A number of parameters that fits into memory on any machine."""
_USED_SHARE = 0.8  # the rest is left to activations and to the weights that are read from the disk


def check_size(model: Any, files: Iterable[Path], directory: Path) -> int:
    """Compare the number of parameters with the weight files, before allocating memory, and return it.

    Args:
        model: The model, on the meta device.
        files: The weight files, of which only the shapes are used.
        directory: The directory of the configuration.

    Raises:
        CheckpointError: if the model has far more parameters than the weight files, or one is broken.
    """
    num_stored = sum(math.prod(shape) for file in files for shape in _shapes(file))
    num_needed = sum(parameter.numel() for parameter in model.parameters())
    # Added cross-attention makes a decoder at most twice as large.
    if num_needed > 2 * num_stored + SMALL_MODEL_SIZE:
        raise CheckpointError(
            f"{directory / HF_CONFIG}: describes a model of {num_needed:,} parameters, but the weight files "
            f"contain {num_stored:,}"
        )
    return num_needed


def _shapes(file: Path) -> list[tuple[int, ...]]:
    """Return the shapes of the tensors in a weight file.

    Raises:
        CheckpointError: if the file is broken, or contains more than tensors.
    """
    try:
        path = checked_file(file.parent, file.name)
        if file.suffix != ".safetensors":
            return [tuple(tensor.shape) for tensor in _read_pickle(path).values()]
        with open_safetensors(path, "pt") as opened:
            return [tuple(opened.get_slice(name).get_shape()) for name in opened.keys()]
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _read_pickle(path: Path) -> Mapping[str, Tensor]:
    """Return the tensors of a pickled file (`pytorch_model.bin`) by name, without executing code of the file.

    The tensors of the zip format stay on the disk until they are used.

    Raises:
        CheckpointError: if the file is broken, or contains more than tensors; names it.
    """
    from transformers.utils.import_utils import check_torch_load_is_safe

    refusal = f"{path}: refused, because it contains more than tensors:"
    with convert_errors(CheckpointError, f"{path}: cannot be read"):
        check_torch_load_is_safe()  # `weights_only` executed code before version 2.6 of PyTorch
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        code = re.search(r"GLOBAL ([\w.]+)|type ([\w.]+)", str(error))
        reason = f"it refers to the code {code[1] or code[2]}" if code else str(error).split("\n")[0]
        raise CheckpointError(
            f"{refusal} {reason}. A pickle can execute code when it is loaded. Ask its author for weights as "
            "safetensors"
        ) from None
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, AttributeError, TypeError) as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        raise CheckpointError(f"{path}: truncated or not a file of PyTorch weights: {reason}") from None
    if not isinstance(content, Mapping):
        raise CheckpointError(f"{refusal} a {type(content).__name__} instead of tensors by name")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or value.layout != torch.strided:
            raise CheckpointError(f"{refusal} {name!r} is a {type(value).__name__}")
    return content


def available_memory() -> int | None:
    """Return the main memory that a process can allocate, in bytes; None if the system does not report it.

    The smaller of the memory of the machine and of the limit of the container (control group, version 2).
    """
    limits: list[int] = []
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = _MEMINFO.read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        limits.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):
        # Without a limit, the file contains `max`, which is not a number.
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        limits.append(limit - used)
    return min(limits, default=None)


def choose_placement(directory: Path, num_parameters: int, whole: bool = False) -> dict[str, Any]:
    """Return where the weights of a model are kept, as arguments of `from_pretrained` of transformers.

    A model that does not fit into memory is distributed by accelerate, if it is installed, over the GPUs, the
    main memory and the disk (https://huggingface.co/docs/accelerate, "Big Model Inference"). Weights on the
    disk are read again for each step.

    Args:
        directory: The directory of the model, for the message.
        num_parameters: The number of parameters, from the headers of the weight files.
        whole: Whether all weights must be in memory.

    Raises:
        CheckpointError: if the model does not fit, and `whole` is set or accelerate is missing; the message
            names both sizes.
    """
    needed, available = num_parameters * BYTES_PER_PARAMETER, available_memory()
    if available is None or needed <= available:
        return {}
    sizes = (
        f"{directory}: the model has {num_parameters:,} parameters and needs {_gigabytes(needed)} of memory "
        f"in float32, but {_gigabytes(available)} are available"
    )
    if whole or find_spec("accelerate") is None:
        advice = "" if whole else ", or install accelerate, which keeps a part of the weights on the disk"
        raise CheckpointError(f"{sizes}; use a smaller model, or a machine with more memory{advice}")
    _log.warning(
        "%s; accelerate keeps a part of the weights on other devices or on the disk, which is slow", sizes
    )
    memory: dict[int | str, int] = {"cpu": int(_USED_SHARE * available)}
    for index in range(torch.cuda.device_count()):
        memory[index] = int(_USED_SHARE * torch.cuda.mem_get_info(index)[0])
    return {"device_map": "auto", "max_memory": memory}


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
