"""A model whose weights are the mean of several models' or checkpoints'."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from regard.errors import CheckpointError, UsageError
from regard.experiment import CONFIG_FILE, load_config, model_folder, write_config
from regard.models.hf.folder import KEPT
from regard.training.checkpoint import epoch_files
from regard.training.fertility import load_text, save_text
from regard.training.store import write_tensors
from regard.training.weights import MODEL_FILE, average

__all__ = ["average_models"]


def average_models(out: Path | str, paths: Sequence[Path | str], last: int = 0) -> list[Path]:
    """Write a model whose weights are the mean of several models' or checkpoints'.

    Args:
        out: The new model folder.
        paths: Model folders, or files of weights inside model folders; config and text are the first one's.
        last: Take this many last epochs kept in each folder instead of its best weights
            (`training.checkpoint.keep`).

    Returns:
        The files whose weights were averaged.

    Raises:
        UsageError: if `out` holds a model already, or a folder has not kept so many epochs.
        CheckpointError: if a file is missing or corrupt, or the models are not alike.
    """
    out = Path(out)
    if (out / CONFIG_FILE).exists() or (out / MODEL_FILE).exists():
        raise UsageError(f"{out}: holds a model already; give a new folder")
    files = [file for path in paths for file in _files_to_average(Path(path), last)]
    folders = [model_folder(file) for file in files]
    texts = [load_text(folder) for folder in dict.fromkeys(folders)]
    for text, folder in zip(texts, dict.fromkeys(folders), strict=True):
        for side in ("source", "target"):
            if getattr(text, side).vocabulary != getattr(texts[0], side).vocabulary:
                raise CheckpointError(f"{folder}: its {side} vocabulary is not that of {folders[0]}")
    weights = average(files)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{out}: cannot be made: {error.strerror}") from None
    save_text(texts[0], out)
    write_tensors(out / MODEL_FILE, weights, {"averaged": [str(file) for file in files]})
    if (folders[0] / KEPT).is_dir():
        try:
            shutil.copytree(folders[0] / KEPT, out / KEPT)
        except (OSError, shutil.Error) as error:
            raise CheckpointError(f"{out / KEPT}: cannot be written: {error}") from None
    write_config(load_config(folders[0]), out)
    return files


def _files_to_average(path: Path, last: int) -> list[Path]:
    if not last:
        return [path / MODEL_FILE if path.is_dir() else path]
    kept = epoch_files(path)
    if len(kept) < last:
        raise UsageError(
            f"{path}: keeps the weights of {len(kept)} epochs, not of {last}; train with "
            f"training.checkpoint.keep={last}"
        )
    return kept[-last:]
