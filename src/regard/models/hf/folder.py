"""Models of the library from their folders: with their weights, or as their configurations describe them."""

import math
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from regard.data.hf import HF_CONFIG, check_weights, library_errors, quiet, read_hf_config, weight_files
from regard.data.sealed import own_file
from regard.data.tokenizers.pretrained import PretrainedTokenizer
from regard.data.vocabulary import EOS, PAD
from regard.errors import CheckpointError, ConfigError, DataError
from regard.models.hf.generation import GENERATION

__all__ = ["check_fit", "keep_folders", "kept_folders", "open_decoder", "open_encoder", "open_whole"]

KEPT = "pretrained"
"""The folder of a model folder that holds configurations."""
SMALL = 1 << 20
"""Parameters that any machine has room for."""
SLACK, SHARE = 128, 1.05
"""How many more rows than tokens an embedding may have: sizes are rounded up."""


def keep_folders(folders: Mapping[str, str], into: Path) -> None:
    """Copy the configurations of folders into a model folder, so that it is whole without them.

    Args:
        folders: Their paths by name.
        into: The model folder.

    Raises:
        CheckpointError: if one is no such folder.
        OSError: if they cannot be written.
    """
    for name, path in folders.items():
        read_hf_config(Path(path))
        place = into / KEPT / name
        place.mkdir(parents=True, exist_ok=True)
        for file in (HF_CONFIG, GENERATION):
            if own_file(Path(path), file).is_file():
                shutil.copyfile(Path(path) / file, place / file)


def kept_folders(folders: Mapping[str, str], kept: Path | None) -> dict[str, Path]:
    """Where to read models from.

    Args:
        folders: Their paths by name.
        kept: The model folder that has their configurations; none: the folders themselves.
    """
    if kept is None:
        return {name: Path(path) for name, path in folders.items()}
    return {name: kept / KEPT / name for name in folders}


def open_whole(folder: Path, weights: bool) -> Any:
    """A sequence-to-sequence model.

    Args:
        folder: Its folder.
        weights: Whether its weights are read; else they are drawn anew.

    Raises:
        CheckpointError: if it is of another kind, or a file is missing or broken.
    """
    content = read_hf_config(folder)
    if not content.get("is_encoder_decoder"):
        raise CheckpointError(
            f"{folder}: a {content['model_type']} model translates nothing by itself; it can be the encoder "
            "of model.kind = 'pretrained', or with a decoder that of model.kind = 'hf'"
        )
    return _open("AutoModelForSeq2SeqLM", folder, weights, absent=("encoder.pooler",))


def open_encoder(folder: Path, weights: bool) -> Any:
    """An encoder, without what is put on top of it; of a sequence-to-sequence model its encoder.

    Args:
        folder: Its folder.
        weights: Whether its weights are read.

    Raises:
        CheckpointError: as of `open_whole`.
    """
    model = _open("AutoModel", folder, weights, absent=("pooler",))
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def open_decoder(folder: Path, weights: bool) -> tuple[Any, list[str]]:
    """A language model with attention to a source added to its layers, and the names of what that is new.

    Args:
        folder: Its folder.
        weights: Whether its weights are read.

    Raises:
        CheckpointError: as of `open_whole`.
        ConfigError: if the library can add no such attention to it.
    """
    content = read_hf_config(folder)
    added = {"is_decoder": True, "add_cross_attention": True}
    with quiet() as transformers:
        plain = _config(transformers, folder)
        with torch.device("meta"):
            own = set(_made(transformers, "AutoModelForCausalLM", plain, folder).state_dict())
            whole = _config(transformers, folder, **added)
            names = list(_made(transformers, "AutoModelForCausalLM", whole, folder).state_dict())
    new = [name for name in names if name not in own]
    if not new:
        raise ConfigError(
            f"{folder}: transformers adds no attention to a source to a {content['model_type']} model; "
            "GPT-2 and the BERT family take it"
        )
    return _open("AutoModelForCausalLM", folder, weights, absent=new, **added), new


def check_fit(tokenizer: PretrainedTokenizer, rows: int, config: Any, where: str) -> None:
    """Refuse a tokenizer that is not the model's.

    Args:
        tokenizer: The tokenizer.
        rows: Tokens that the model knows.
        config: The model's.
        where: The model, for messages.

    Raises:
        ConfigError: if the numbers of tokens or of special symbols are not the same.
    """
    misfit = f"{tokenizer.where}: this tokenizer is not that of {where}: "
    if tokenizer.size > rows or rows > SHARE * tokenizer.size + SLACK:
        raise ConfigError(f"{misfit}it has {tokenizer.size} tokens, the model {rows}")
    for place, name in ((PAD, "pad_token_id"), (EOS, "eos_token_id")):
        wanted = getattr(config, name, None)
        wanted = wanted if isinstance(wanted, list) else [wanted]
        if wanted != [None] and tokenizer.places[place] not in wanted:
            raise ConfigError(f"{misfit}its {name} is {tokenizer.places[place]}, the model's {wanted[0]}")


def _config(transformers: Any, folder: Path, **changes: Any) -> Any:
    with library_errors(CheckpointError, f"{folder / HF_CONFIG}: transformers cannot read it"):
        return transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **changes
        )


def _made(transformers: Any, kind: str, config: Any, folder: Path) -> Any:
    """A model with new weights."""
    with library_errors(CheckpointError, f"{folder}: transformers cannot make the model"):
        return getattr(transformers, kind).from_config(config, trust_remote_code=False)


def _check_sizes(transformers: Any, kind: str, config: Any, folder: Path, files: Iterable[Path]) -> None:
    """Compare a model without storage with the headers of the files of its weights, before it takes memory.

    Raises:
        CheckpointError: if the model has far more parameters than the weights, or a header is broken.
    """
    there = sum(math.prod(shape) for file in files for shape in _shapes(file))
    with torch.device("meta"):
        model = _made(transformers, kind, config, folder)
    wanted = sum(parameter.numel() for parameter in model.parameters())
    # A decoder has attention to the source added, half of a layer at most.
    if wanted > 2 * there + SMALL:
        raise CheckpointError(
            f"{folder / HF_CONFIG}: asks for {wanted:,} parameters, and the weights hold {there:,}"
        )


def _shapes(file: Path) -> list[tuple[int, ...]]:
    """The shapes of the tensors of a file, from its header."""
    try:
        with safe_open(own_file(file.parent, file.name), framework="pt") as opened:
            return [tuple(opened.get_slice(name).get_shape()) for name in opened.keys()]
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        raise CheckpointError(f"{file}: truncated or not a file of weights: {error}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _open(kind: str, folder: Path, weights: bool, absent: Iterable[str] = (), **changes: Any) -> Any:
    """A model as one of the library's auto classes makes it.

    Args:
        kind: The class.
        folder: Its folder.
        weights: Whether its weights are read.
        absent: Starts of the names of parameters that the weights may lack.
        changes: Of its configuration.
    """
    read_hf_config(folder)
    if weights:
        check_weights(folder)
    with quiet() as transformers:
        config = _config(transformers, folder, **changes)
        if not weights:
            # A model directory keeps the configurations of its parts in `pretrained/NAME/`.
            _check_sizes(transformers, kind, config, folder, [folder.parent.parent / "model.safetensors"])
            model = _made(transformers, kind, config, folder)
            if (folder / GENERATION).is_file():
                model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
            return model.float()
        _check_sizes(transformers, kind, config, folder, weight_files(folder))
        with library_errors(CheckpointError, f"{folder}: transformers cannot read the weights"):
            model, info = getattr(transformers, kind).from_pretrained(
                folder,
                config=config,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                ignore_mismatched_sizes=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
    for name, own, wanted in sorted(info["mismatched_keys"]):
        raise CheckpointError(
            f"{folder}: {name} is {list(own)} in its weights, and {list(wanted)} as its configuration has it"
        )
    # Positions that are computed are not kept with the weights.
    computed = {
        f"{name}.weight" for name, part in model.named_modules() if "Sinusoidal" in type(part).__name__
    }
    missing = set(info["missing_keys"]) - computed
    lacking = sorted(name for name in missing if not name.startswith(tuple(absent)))
    if lacking:
        raise CheckpointError(f"{folder}: its weights lack {lacking[0]!r}, which its configuration asks for")
    return model
