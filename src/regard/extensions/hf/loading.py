"""Loading of Hugging Face models from directories, and the sizes and limits of loaded models."""

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import CheckpointError, ConfigError, DataError
from regard.extensions.hf.files import (
    GENERATION_CONFIG,
    HF_CONFIG,
    convert_errors,
    quiet_transformers,
    read_hf_config,
    weight_files,
)
from regard.extensions.hf.tokenizer import PretrainedTokenizer
from regard.text.array_files import open_safetensors
from regard.text.reading import checked_file
from regard.text.vocabulary import EOS, PAD

_LIMITS = ("max_position_embeddings", "n_positions")
_TABLES = ("position", "wpe")
MAX_EXTRA_ROWS, MAX_ROW_RATIO = 128, 1.05
"""Maximum excess of embedding rows over tokens (absolute, relative), because sizes are rounded up."""
BYTES_PER_PARAMETER = 4  # models are loaded in float32
SMALL_MODEL_SIZE = 1 << 20
"""A number of parameters that fits into memory on any machine."""


def load_encoder(directory: Path, weights: bool) -> Any:
    """Open an encoder without its pooler, or that of a sequence-to-sequence model; see `load_auto_model`."""
    model = load_auto_model("AutoModel", directory, weights, optional=("pooler",))
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    if getattr(model, "pooler", None) is not None:
        # Unused, and its weights may be missing.
        model.pooler = None
    return model


def check_tokenizer_fit(tokenizer: PretrainedTokenizer, rows: int, config: Any, where: str) -> None:
    """Check that a tokenizer belongs to the model with a vocabulary size (`rows`) and a configuration.

    Raises:
        ConfigError: if the vocabulary sizes or the ids of special symbols differ.
    """
    mismatch = f"{tokenizer.where}: this tokenizer does not belong to {where}: "
    if tokenizer.num_library_ids > rows or rows > MAX_ROW_RATIO * tokenizer.num_library_ids + MAX_EXTRA_ROWS:
        raise ConfigError(f"{mismatch}it has {tokenizer.num_library_ids} tokens, but the model has {rows}")
    for symbol, name in ((PAD, "pad_token_id"), (EOS, "eos_token_id")):
        expected_ids = getattr(config, name, None)
        expected_ids = expected_ids if isinstance(expected_ids, list) else [expected_ids]
        if expected_ids != [None] and tokenizer.library_ids[symbol] not in expected_ids:
            raise ConfigError(
                f"{mismatch}its {name} is {tokenizer.library_ids[symbol]}, but the model's is "
                f"{expected_ids[0]}"
            )


def load_auto_model(
    auto_class: str, directory: Path, weights: bool = True, optional: tuple[str, ...] = ()
) -> Any:
    """Open a model with one of the auto classes of transformers.

    Without `weights`, they are initialized randomly. Parameters may be missing in the weight files if their
    names begin with one of `optional`.

    Raises:
        CheckpointError: if a file is missing or broken, or the weights do not fit the configuration.
    """
    read_hf_config(directory)
    # The configuration is in `pretrained/NAME/` of a model directory, the weights are two levels up.
    files = weight_files(directory) if weights else [directory.parent.parent / "model.safetensors"]
    pickled = any(file.suffix != ".safetensors" for file in files)
    with quiet_transformers() as transformers:
        loader = getattr(transformers, auto_class)
        with convert_errors(CheckpointError, f"{directory / HF_CONFIG}: transformers cannot read this file"):
            config = transformers.AutoConfig.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False
            )
        with convert_errors(CheckpointError, f"{directory}: transformers cannot create the model"):
            with torch.device("meta"):
                _check_size(loader.from_config(config, trust_remote_code=False), files, directory)
            # With new weights.
            model = None if weights else loader.from_config(config, trust_remote_code=False)
        if model is not None:
            if (directory / GENERATION_CONFIG).is_file():
                path = directory / GENERATION_CONFIG
                with convert_errors(CheckpointError, f"{path}: transformers cannot read this file"):
                    model.generation_config = transformers.GenerationConfig.from_pretrained(directory)
            return model.float()
        with convert_errors(CheckpointError, f"{directory}: transformers cannot read the weights"):
            model, info = loader.from_pretrained(
                directory,
                config=config,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=not pickled,
                weights_only=True,
                # Mismatches are reported below with our own message.
                ignore_mismatched_sizes=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
    _check_loading(model, info, directory, optional)
    return model


def _check_size(model: Any, files: Iterable[Path], directory: Path) -> None:
    """Compare the size of a model on the meta device with its weight files and with the memory."""
    num_stored = sum(_num_values(file) for file in files)
    num_needed = sum(parameter.numel() for parameter in model.parameters())
    if num_needed > 2 * num_stored + SMALL_MODEL_SIZE:
        raise CheckpointError(
            f"{directory / HF_CONFIG}: describes a model of {num_needed:,} parameters, but the weight files "
            f"contain {num_stored:,}"
        )
    needed = num_needed * BYTES_PER_PARAMETER
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise CheckpointError(
            f"{directory}: the model needs {needed / 1e9:.1f} GB in float32, but this machine has "
            f"{memory / 1e9:.1f} GB of memory"
        )


def _num_values(file: Path) -> int:
    """Return the number of values in a weight file: of a pickle, its maximum, from the size of the file."""
    try:
        path = checked_file(file.parent, file.name)
        if file.suffix != ".safetensors":
            return path.stat().st_size
        with open_safetensors(path, "pt") as opened:
            return sum(math.prod(opened.get_slice(name).get_shape()) for name in opened.keys())
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _check_loading(model: Any, info: Mapping[str, Any], directory: Path, optional: tuple[str, ...]) -> None:
    """Check that the weight files contain every parameter with its shape."""
    for name, stored, needed in sorted(info["mismatched_keys"]):
        raise CheckpointError(
            f"{directory}: {name} has shape {list(stored)} in the weights, but {list(needed)} according to "
            "the configuration"
        )
    # Computed (sinusoidal) positions are not saved with the weights.
    computed = {
        f"{name}.weight" for name, part in model.named_modules() if "Sinusoidal" in type(part).__name__
    }
    missing = sorted(name for name in set(info["missing_keys"]) - computed if not name.startswith(optional))
    if missing:
        raise CheckpointError(
            f"{directory}: the weights do not contain {missing[0]!r}, which the model needs"
        )


def max_positions(part: Any) -> int | None:
    """Return the maximum number of tokens of an encoder or decoder, or None if there is no maximum.

    In RoBERTa, the rows of the position table up to that of padding do not count. A model without a table has
    relative positions and no maximum, even if its configuration states one.
    """
    limit = next((size for name in _LIMITS if (size := getattr(part.config, name, None))), None)
    for name, module in part.named_modules():
        if isinstance(module, nn.Embedding) and any(sign in name.rpartition(".")[2] for sign in _TABLES):
            skipped = name.endswith("position_embeddings") and module.padding_idx is not None
            return limit - module.padding_idx - 1 if limit is not None and skipped else limit
    return None
