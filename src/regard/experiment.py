"""Runs from one config: prepare the data, build and train the model, and load it from its directory.

A model directory is self-contained: `config.toml` holds the config of the run, further files hold the
tokenizers and vocabularies, and `model.safetensors` holds the best weights (see
`regard.training.checkpoint`).
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import torch

from regard.config import Kinds, config, dump_toml, from_dict, load, option, set_option, to_dict
from regard.data.corpus import DataConfig
from regard.data.files import file_digest, read_bytes, write_atomic
from regard.data.guidance import GuidedSplit
from regard.data.hf import HF_CONFIG, is_hf_folder, read_hf_config
from regard.data.locking import claimed
from regard.data.prepared import Prepared, prepare
from regard.data.sealed import own_file
from regard.data.swapped import tell_swapped
from regard.data.text import TextPair
from regard.data.units import Progress
from regard.decoding.config import SearchConfig
from regard.errors import CheckpointError, ConfigError, DataError, UsageError
from regard.foreign import foreign_parts, foreign_text, warn_not_followed
from regard.models.base import TranslationModel
from regard.models.lstm_config import LstmConfig
from regard.models.precision import SearchPrecision, as_precision, set_precision
from regard.models.registry import PRETRAINED, ModelConfig, assemble, keep_parts
from regard.smt.config import PhraseConfig
from regard.training.aligned import guiding_links
from regard.training.checkpoint import state_files
from regard.training.config import TrainingConfig
from regard.training.device import pick_device, use_threads
from regard.training.distributed import Processes, join
from regard.training.fertility import load_text, save_text, with_fertilities
from regard.training.finetune import FinetuneConfig
from regard.training.guided import GuidedConfig
from regard.training.lengths import check_lengths
from regard.training.phrases import phrases_begun, run_phrases
from regard.training.resume import check_weights, differences, files_beside, is_harmless
from regard.training.searched import Searched
from regard.training.sequence import SequenceConfig
from regard.training.store import read_about
from regard.training.trainer import Result, Trainer
from regard.training.weights import (
    EXPORTED_FILE,
    MODEL_FILE,
    check_sizes,
    load_weights,
    put_weights,
    weights_file,
)

__all__ = [
    "CONFIG_FILE",
    "LoadedModel",
    "RunConfig",
    "load_config",
    "load_model",
    "model_folder",
    "read_run",
    "train",
    "write_config",
]

_log = logging.getLogger(__name__)

CONFIG_FILE = "config.toml"
LAST_LINE = "# end of config\n"
"""Last line of a config file. It detects truncation: a truncated config would still be valid TOML, with
defaults for the missing options."""


@config
class RunConfig:
    """All settings of a run: data, model, training and search."""

    folder: str | None = option(
        default=None, help="Output directory. Default: `runs/NAME` for a config file `NAME.toml`."
    )
    seed: int = option(
        default=1,
        help="Random seed of the initial weights, the order of the data and dropout.",
        ge=0,
        le=2**32 - 1,
    )
    device: str = option(
        default="auto", help="Device: auto (a GPU if available, else the CPU), cpu, cuda or cuda:N."
    )
    threads: int = option(
        default=0,
        help="Number of CPU threads for matrix multiplications. 0 uses all available processors.",
        ge=0,
        le=1_024,
    )
    data: DataConfig = option(help="Training and validation data.")
    model: Annotated[ModelConfig | PhraseConfig, Kinds("rnn")] = option(
        default=LstmConfig, help="Architecture and size of the model."
    )
    training: TrainingConfig = option(default=TrainingConfig, help="Optimization and validation.")
    guided: GuidedConfig | None = option(
        default=None,
        help="Supervision of attention by word alignments (Chen et al., 2016). Default: no supervision.",
    )
    sequence: SequenceConfig | None = option(
        default=None,
        help="Sequence-level training with sentence BLEU (Wu et al., 2018). Default: token-level loss only.",
    )
    finetune: FinetuneConfig | None = option(
        default=None,
        help="Fine-tuning of the pre-trained part of the model. Default: trained like the other parts.",
    )
    search: SearchConfig = option(default=SearchConfig, help="Default search settings for translation.")

    def with_alignment(self) -> "RunConfig":
        """Return the config with the supervised attention (`guided`) as the source of word alignments.

        A layer or heads given in `search.alignment` take precedence.
        """
        own, taught = self.search.alignment, self.guided
        if taught is None or own.layer is not None:
            return self
        found = dataclasses.replace(own, layer=taught.layer, heads=own.heads or taught.heads)
        return dataclasses.replace(self, search=dataclasses.replace(self.search, alignment=found))

    def __post_init__(self) -> None:
        """Check that the sections of the config are compatible."""
        if isinstance(self.model, PhraseConfig):
            if self.data.fertility or self.guided or self.sequence:
                raise ValueError(
                    "data.fertility, guided, sequence: model.kind = 'phrase' has no attention; "
                    "remove these sections"
                )
            return
        attention = self.model.attention
        # Pointer attention advances at `step` actions, which only the tokenizer `actions` produces.
        wanted = getattr(attention, "target_tokenizer", None)
        if wanted is not None and self.data.target_tokenizer.kind != wanted:
            raise ValueError(f"attention {attention.kind!r} requires data.target_tokenizer.kind = {wanted!r}")


@dataclass(frozen=True)
class LoadedModel:
    """A trained model that is ready to translate.

    Attributes:
        folder: The directory that the model was loaded from.
        config: The config of its run, with the overrides given to `load_model`.
        text: The tokenizers and vocabularies of both languages.
        model: The model in evaluation mode, on `device`.
        device: The device of the model.
        precision: The precision of its matrix multiplications; see `regard.models.precision`.
    """

    folder: Path
    config: RunConfig
    text: TextPair
    model: TranslationModel
    device: torch.device
    precision: SearchPrecision


def train(
    config: RunConfig,
    folder: Path | str,
    preparing: Callable[[], AbstractContextManager[Progress | None]] = nullcontext,
) -> Result:
    """Train a model, or resume an interrupted run; the data is prepared first if necessary.

    Args:
        config: The settings of the run.
        folder: The model directory. It is created if it does not exist.
        preparing: Returns a context manager that is entered during data preparation and yields the progress
            display, or None for no display.

    Returns:
        The result of the training.

    Raises:
        ConfigError: if the directory holds a run with another config; names the keys that differ.
        DataError: if the data is missing or malformed.
        CheckpointError: if a file of the directory is corrupt or cannot be written, or another process trains
            in it. In the latter case no file was written.
        TrainingDiverged: if the loss is repeatedly not finite.
    """
    folder, config = Path(folder), config.with_alignment()
    device = pick_device(config.device)
    use_threads(config.threads or None)
    with join(device) as processes, claimed(folder) if processes.is_main else nullcontext():
        if processes.is_main:
            _check_same_run(config, folder)
            with preparing() as progress:
                prepared = prepare(config.data, progress=progress)
            prepared.verify()
            tell_swapped(prepared)
            prepared = with_fertilities(prepared, config.data.fertility, prepared.fingerprint)
            _check_start(config.training.start, prepared.text)
            guiding_links(config.guided, prepared, config.data.train, prepared.fingerprint)
            _begin(config, prepared, folder)
        # The main process has prepared and cached the data; the others load it from the cache.
        processes.wait()
        prepared = prepare(config.data)
        prepared = with_fertilities(prepared, config.data.fertility, prepared.fingerprint)
        if isinstance(config.model, PhraseConfig):
            checksums = files_beside(folder, to_dict(config))
            phrases = partial(run_phrases, config.model, prepared, folder, prepared.fingerprint, checksums)
            # The main process trains the model; the others then only read its result.
            result = phrases(config.seed, config.threads) if processes.is_main else None
            processes.wait()
            return phrases(config.seed, config.threads) if result is None else result
        return _trainer(config, prepared, folder, device, processes).run()


def _trainer(
    config: RunConfig, prepared: Prepared, folder: Path, device: torch.device, processes: Processes
) -> Trainer:
    """Return the trainer of a neural model; its model directory must exist."""
    identity = {"training data": prepared.fingerprint}
    if config.guided is not None and config.guided.links is not None:
        identity["guided links"] = file_digest(Path(config.guided.links))
    split = prepared.split("train")
    links = guiding_links(config.guided, prepared, config.data.train, prepared.fingerprint)
    assert not isinstance(config.model, PhraseConfig)
    # The seed is set just before the initial weights are sampled, so that they do not depend on the data.
    torch.manual_seed(config.seed)
    model = assemble(config.model, prepared.text, folder if _is_begun(folder) else None)
    check_lengths(model, prepared)
    return Trainer(
        model.to(device),
        split if links is None else GuidedSplit(split, links),
        prepared.split("valid"),
        config.training,
        folder=folder,
        seed=config.seed,
        processes=processes,
        identity=identity,
        beside=files_beside(folder, to_dict(config)),
        searched=Searched(config.search, config.training, prepared, device),
        guided=config.guided,
        sequence=config.sequence,
        finetune=config.finetune,
    )


def read_run(path: Path | str, overrides: Iterable[str] = ()) -> RunConfig:
    """Read the config of a run; directories that are not set are named after the file.

    Args:
        path: The TOML file. For `NAME.toml` the default directories are `runs/NAME` and `prepared/NAME`.
        overrides: Overrides of the form `a.b.c=value`.

    Raises:
        ConfigError: if the file or a setting is wrong; see `regard.config.load`.
    """
    config, name = load(RunConfig, path, overrides), Path(path).stem
    data = dataclasses.replace(config.data, folder=config.data.folder or f"prepared/{name}")
    return dataclasses.replace(config, folder=config.folder or f"runs/{name}", data=data)


def load_config(folder: Path | str) -> RunConfig:
    """Return the config of the run that trained a model, or an equivalent one for a Hugging Face directory.

    Raises:
        CheckpointError: if the directory or its config is missing or unreadable; names the file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such model directory")
    if is_hf_folder(folder):
        return RunConfig(**foreign_parts(folder))
    path = folder / CONFIG_FILE
    if (folder / HF_CONFIG).is_file() and not path.exists():
        read_hf_config(folder)  # raises an error that explains why this is not a usable Hugging Face model
    try:
        if not read_bytes(own_file(folder, CONFIG_FILE)).decode().endswith(LAST_LINE):
            raise CheckpointError(f"{path}: truncated: the file does not end with {LAST_LINE.strip()!r}")
        return load(RunConfig, path)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: corrupt: not UTF-8 at byte {error.start + 1}") from None
    except ConfigError as error:
        raise CheckpointError(
            f"{error}\n{folder} is not a model directory, or was written by another version of regard"
        ) from None


def load_model(
    folder: Path | str,
    device: str = "auto",
    precision: str = "float32",
    settings: Iterable[str] = (),
) -> LoadedModel:
    """Load a trained model from its directory.

    Args:
        folder: A model directory, or the directory of a Hugging Face sequence-to-sequence model.
        device: As in the config: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: Precision of matrix multiplications: `float32`, `bfloat16` or, on a CPU, `int8`.
        settings: Overrides of the config of the run, such as `model.attention.contexts=0`.

    Raises:
        UsageError: if the precision is unknown or not supported by this model, or the model is phrase-based.
        CheckpointError: if a file of the directory is missing or corrupt (names it), or the weights do not
            match the model.
        ConfigError: if an override is wrong.
        DeviceError: if the device is not available or does not support the precision.
    """
    folder, chosen = Path(folder), as_precision(precision)
    place = pick_device(device)
    config = load_config(folder)
    data = to_dict(config)
    if not (foreign := is_hf_folder(folder)) and not isinstance(config.model, PhraseConfig):
        check_weights(weights_file(folder), folder, data)
    if settings := list(settings):
        for setting in settings:
            set_option(data, setting)
        config = from_dict(RunConfig, data, where=str(folder))
    if isinstance(config.model, PhraseConfig):
        raise UsageError(f"{folder}: this is a phrase-based model; a neural model is required here")
    try:
        text = foreign_text(config.data) if foreign else load_text(folder)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    # Compare shapes before the weights are loaded. Pre-trained models check their own parts.
    if not foreign and type(config.model) not in PRETRAINED:
        check_sizes(partial(assemble, config.model, text, folder), folder)
    model = assemble(config.model, text, None if foreign else folder)
    if foreign:
        warn_not_followed(folder)
    else:
        put_weights(model, load_weights(folder), str(folder / MODEL_FILE))
    model = model.to(place).eval()
    set_precision(model, chosen)
    return LoadedModel(folder, config, text, model, place, chosen)


def model_folder(file: Path) -> Path:
    """Return the model directory that contains a weight file.

    Raises:
        CheckpointError: if neither the file's directory nor its parent is a model directory.
    """
    for folder in file.absolute().parents[:2]:
        if (folder / CONFIG_FILE).is_file():
            return folder
    raise CheckpointError(f"{file}: not in a model directory (no {CONFIG_FILE} next to it)")


def _begin(config: RunConfig, prepared: Prepared, folder: Path) -> None:
    """Create the model directory. The config is written last, so its presence marks a complete directory."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if _is_begun(folder):
            # Stop before training if the files that translation needs are corrupt.
            load_text(folder)
            if (folder / MODEL_FILE).is_file():
                check_weights(folder / MODEL_FILE, folder, to_dict(config), lost=True)
        else:
            save_text(prepared.text, folder)
            if not isinstance(config.model, PhraseConfig):
                keep_parts(config.model, folder)
        write_config(config, folder)
    except OSError as error:
        raise CheckpointError(f"{folder}: directory cannot be created: {error.strerror}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _is_begun(folder: Path) -> bool:
    """Return whether a directory contains a checkpoint or trained weights."""
    return bool(state_files(folder)) or (folder / MODEL_FILE).exists() or phrases_begun(folder)


def write_config(config: RunConfig, folder: Path) -> None:
    """Write the config into a model directory.

    Raises:
        DataError: if the file cannot be written.
    """
    write_atomic(folder / CONFIG_FILE, (dump_toml(config) + "\n" + LAST_LINE).encode())


def _check_same_run(config: RunConfig, folder: Path) -> None:
    """Raise an error if the directory belongs to a run with another config, or to another kind of model."""
    if not _is_begun(folder):
        if (folder / EXPORTED_FILE).exists():
            raise UsageError(f"{folder}: contains an exported model; choose another directory (--out)")
        return
    weights = folder / MODEL_FILE
    if weights.exists() and not state_files(folder) and "averaged" in read_about(weights):
        raise UsageError(f"{folder}: contains an averaged model; choose another directory (--out)")
    shown = differences(to_dict(load_config(folder)), to_dict(config), is_harmless)
    if shown:
        raise ConfigError(
            f"{folder} contains a run with another config; choose another directory (--out) or restore these "
            "settings:\n" + "\n".join(f"  {line}" for line in shown)
        )


def _check_start(start: str | None, text: TextPair) -> None:
    """Raise an error if the initial weights belong to other vocabularies than those of this run."""
    if start is None:
        return
    path = Path(start)
    folder = path if path.is_dir() else model_folder(path)
    other = TextPair.load(folder)
    for side in ("source", "target"):
        mine, its = getattr(text, side).vocabulary, getattr(other, side).vocabulary
        if mine != its:
            raise ConfigError(
                f"training.start = {start!r}: the {side} vocabulary of that model ({len(its)} tokens) "
                f"differs from that of this run ({len(mine)} tokens): both models must have the same "
                "vocabularies"
            )
