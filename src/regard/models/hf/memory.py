"""Comparison of a model's size with the memory that is available, before the weights are loaded."""

import logging
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from regard.errors import CheckpointError

__all__ = ["available_memory", "choose_placement"]

_log = logging.getLogger(__name__)
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
BYTES_PER_PARAMETER = 4  # models are loaded in float32
_USED_SHARE = 0.8  # the rest is left to activations and to the weights that are read from the disk


def available_memory() -> int | None:
    """Return the main memory that a process can allocate, in bytes; None if the system does not report it.

    The smaller of the memory of the machine and of the limit of the container (control group, version 2).
    """
    found: list[int] = []
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = _MEMINFO.read_text(encoding="utf-8").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):
        # Without a limit, the file contains `max`, which is not a number.
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        found.append(limit - used)
    return min(found, default=None)


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
