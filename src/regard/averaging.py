"""Weight averaging over several models or checkpoints."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from regard.config import to_dict
from regard.data.folders import is_empty, whole_folder
from regard.errors import CheckpointError, UsageError
from regard.experiment import load_config, model_folder, write_config
from regard.models.hf.folder import KEPT
from regard.training.checkpoint import epoch_files
from regard.training.fertility import load_text, save_text
from regard.training.resume import check_weights, write_weights
from regard.training.weights import MODEL_FILE, average

__all__ = ["average_models"]


def average_models(out: Path | str, paths: Sequence[Path | str], last: int = 0) -> list[Path]:
    """Write a model whose weights are the mean of the weights of several models or checkpoints.

    Args:
        out: The directory of the new model. It must be empty or not exist yet.
        paths: Model directories, or weight files inside model directories. The config, tokenizers and
            vocabularies are copied from the first one.
        last: Number of epochs to average per directory, counted from the last one, instead of the best
            weights. `training.checkpoint.keep` sets how long the weights of an epoch are kept. 0 averages
            the best weights.

    Returns:
        The files whose weights were averaged.

    Raises:
        UsageError: if `out` is not empty, or a directory has kept fewer than `last` epochs.
        CheckpointError: if a file is missing or corrupt, or the models differ in vocabulary or architecture.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or not is_empty(out)):
        raise UsageError(f"{out}: the output directory is not empty; choose a new directory")
    files = [file for path in paths for file in _files_to_average(Path(path), last)]
    folders = [model_folder(file) for file in files]
    texts = [load_text(folder) for folder in dict.fromkeys(folders)]
    for text, folder in zip(texts, dict.fromkeys(folders), strict=True):
        for side in ("source", "target"):
            if getattr(text, side).vocabulary != getattr(texts[0], side).vocabulary:
                raise CheckpointError(
                    f"{folder}: the {side} vocabulary differs from that of {folders[0]}; only models with "
                    "the same vocabularies can be averaged"
                )
    configs = {folder: load_config(folder) for folder in folders}
    for file, folder in zip(files, folders, strict=True):
        check_weights(file, folder, to_dict(configs[folder]))
    weights = average(files)
    try:
        # The directory appears under its name only when every file in it is complete.
        with whole_folder(out, fresh=True) as made:
            save_text(texts[0], made)
            if (folders[0] / KEPT).is_dir():
                shutil.copytree(folders[0] / KEPT, made / KEPT)
            write_config(configs[folders[0]], made)
            about = {"averaged": [str(file) for file in files]}
            write_weights(made, to_dict(configs[folders[0]]), weights, about)
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{out}: cannot be written: {reason}") from None
    return files


def _files_to_average(path: Path, last: int) -> list[Path]:
    """Return the weight files that one path stands for."""
    if not last:
        return [path / MODEL_FILE if path.is_dir() else path]
    kept = epoch_files(path)
    if len(kept) < last:
        raise UsageError(
            f"{path}: has the weights of {len(kept)} epochs, but {last} are needed; train with "
            f"training.checkpoint.keep={last}"
        )
    return kept[-last:]
