"""Weight averaging over several models or checkpoints."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from regard.config import to_dict
from regard.data.directories import atomic_directory, is_empty
from regard.errors import CheckpointError, UsageError
from regard.experiment import find_model_dir
from regard.models.hf.loading import CONFIG_SUBDIR
from regard.run_config import load_config, write_config
from regard.training.checkpoint import epoch_files
from regard.training.fertility import load_text_processing, save_text_processing
from regard.training.resume import check_model_files, write_weights
from regard.training.weights import MODEL_FILE, average_weights

__all__ = ["average_models"]


def average_models(output_dir: Path | str, paths: Sequence[Path | str], last_epochs: int = 0) -> list[Path]:
    """Write a model whose weights are the mean of the weights of several models or checkpoints.

    Args:
        output_dir: The directory of the new model. It must be empty or not exist yet.
        paths: Model directories, or weight files inside model directories. The config, tokenizers and
            vocabularies are copied from the first one.
        last_epochs: Number of epochs to average per directory, counted from the last one, instead of the best
            weights. `training.checkpoint.keep_last_epochs` sets how long the weights of an epoch are kept. 0
            averages the best weights.

    Returns:
        The files whose weights were averaged.

    Raises:
        UsageError: if `output_dir` is not empty, or a directory has kept fewer than `last_epochs` epochs.
        CheckpointError: if a file is missing or corrupt, or the models differ in vocabulary or architecture.
    """
    output_dir = Path(output_dir)
    if output_dir.exists() and (not output_dir.is_dir() or not is_empty(output_dir)):
        raise UsageError(f"{output_dir}: the output directory is not empty; choose a new directory")
    files = [file for path in paths for file in _files_to_average(Path(path), last_epochs)]
    model_dirs = [find_model_dir(file) for file in files]
    # Several files may share a directory, as the epochs of one run do; each one is loaded once.
    texts = [load_text_processing(model_dir) for model_dir in dict.fromkeys(model_dirs)]
    for text, model_dir in zip(texts, dict.fromkeys(model_dirs), strict=True):
        if difference := text.difference(texts[0], str(model_dirs[0])):
            raise CheckpointError(
                f"{model_dir}: {difference}; only models with the same vocabularies and tokenizers can be "
                "averaged"
            )
    configs = {model_dir: load_config(model_dir) for model_dir in model_dirs}
    # All files are checked before the weights, which may be large, are loaded.
    for file, model_dir in zip(files, model_dirs, strict=True):
        check_model_files(file, model_dir)
    weights = average_weights(files)
    try:
        # The directory appears under its name only when every file in it is complete.
        with atomic_directory(output_dir, require_empty=True) as made:
            save_text_processing(texts[0], made)
            if (model_dirs[0] / CONFIG_SUBDIR).is_dir():
                shutil.copytree(model_dirs[0] / CONFIG_SUBDIR, made / CONFIG_SUBDIR)
            write_config(configs[model_dirs[0]], made)
            metadata = {"averaged": [str(file) for file in files]}
            write_weights(made, to_dict(configs[model_dirs[0]]), weights, metadata)
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{output_dir}: cannot be written: {reason}") from None
    return files


def _files_to_average(path: Path, last_epochs: int) -> list[Path]:
    """Return the weight files that one path stands for."""
    if not last_epochs:
        return [path / MODEL_FILE if path.is_dir() else path]
    kept = epoch_files(path)
    if len(kept) < last_epochs:
        raise UsageError(
            f"{path}: has the weights of {len(kept)} epochs, but {last_epochs} are needed; train with "
            f"training.checkpoint.keep_last_epochs={last_epochs}"
        )
    return kept[-last_epochs:]
