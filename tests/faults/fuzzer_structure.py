"""Changes inside the format of a file, after which the checksums in its directory are written again.

Changed bytes rarely pass the checksum. These changes do, and so reach the checks of names, dtypes, shapes and
values behind it.
"""

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from regard.errors import RegardError
from regard.runs.checksums import file_checksums
from regard.runs.description import read_stated_config
from regard.runs.serialization import METADATA_KEY, read_tensors, write_tensors
from regard.text.reading import compute_checksums

from .fuzzer_inputs import mutated

_DTYPES = "float8_e4m3fn bfloat16 float16 float32 float64 int8 int32 int64 complex64 bool".split()
_NUMBERS = (float("nan"), float("inf"), -1, 0, 1, 1e-40, 1e38, 2**31 - 1)
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 7, 0.5, 2**31, 2**63, 10**30, 1e308, float("nan"), float("inf")),
    *("", "x", "../x", "/dev/zero", "</s>", "\udc80", "a" * 5000, [], {}, [[1]], ["a"], {"a": 1}),
    json.loads("[" * 500 + "]" * 500),
)


def forge(path: Path, rng: random.Random) -> None:
    """Change the content of a file, if possible within its format, and update the checksums of the file."""
    whole = path.read_bytes()
    with contextlib.suppress(ValueError, TypeError, RegardError):
        if path.suffix == ".safetensors":
            _forge_tensors(path, rng)
        elif path.suffix == ".json":
            path.write_text(json.dumps(_changed_json(json.loads(whole), rng)), encoding="utf-8")
    if path.read_bytes() == whole:
        path.write_bytes(mutated(whole, rng))
    for description in path.parent.glob("*.json"):
        # The changed file may be the description itself.
        with contextlib.suppress(ValueError, RecursionError, TypeError, LookupError):
            content = json.loads(description.read_bytes())
            if path.name in content["sha256"]:
                content["sha256"] |= compute_checksums(path.parent, [path.name])
                description.write_text(json.dumps(content), encoding="utf-8")
    with contextlib.suppress(RegardError):
        weights = path.with_name("model.safetensors")
        tensors, metadata = read_tensors(weights)
        checksums = file_checksums(path.parent, read_stated_config(path.parent))
        write_tensors(weights, tensors, metadata | {"file_checksums": checksums})


def _forge_tensors(path: Path, rng: random.Random) -> None:
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}
        header = file.metadata() or {}
    name = rng.choice(sorted(tensors))
    tensor, way = tensors.pop(name), rng.randrange(6)
    if way:
        tensors[f"{name}x" if way == 1 else name] = _changed_tensor(tensor, rng).contiguous()
    if METADATA_KEY in header:
        write_tensors(path, tensors, read_tensors(path)[1])
    else:
        save_file(tensors, path, header)


def _changed_tensor(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Return a tensor of another dtype or shape, or with other values."""
    flat, way = tensor.flatten().clone(), rng.randrange(4)
    if way == 0:
        return tensor.to(getattr(torch, rng.choice(_DTYPES)))
    if way == 1:
        return rng.choice((flat, tensor[None], flat[:-1], flat[:0]))
    with contextlib.suppress(RuntimeError):  # the dtype does not have this value
        flat[rng.randrange(len(flat) + 1) :][: rng.choice((1, 1, len(flat)))] = rng.choice(_NUMBERS)
    return flat.reshape(tensor.shape)


def _changed_json(value: Any, rng: random.Random) -> Any:
    """Return JSON with another value at a random place, or without a key."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.05:
        return rng.choice(_VALUES)
    place = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    if rng.random() < 0.1:
        del value[place]
    else:
        value[place] = _changed_json(value[place], rng)
    return value
