"""A whole run from one config: data prepared, model built, trained, and loaded again from its folder.

A model folder rebuilds its model by itself: `config.toml` is the config it was trained with, the text files
are its tokenizers and vocabularies, `model.safetensors` its best weights (see `regard.training.checkpoint`).
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
"""A config cut off in the midst would still be a config, with defaults in the place of what is gone."""


@config
class RunConfig:
    """One run: everything it takes to train a model and to translate with it."""

    folder: str | None = option(
        default=None, help="The model folder; none: `runs/` and the name of the config's file."
    )
    seed: int = option(
        default=1, help="Seed of the first weights, the order of the data and dropout.", ge=0, le=2**32 - 1
    )
    device: str = option(default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:N.")
    threads: int = option(
        default=0,
        help="Threads for products on the CPU; 0: as many as the processors that the process may use.",
        ge=0,
        le=1_024,
    )
    data: DataConfig = option(help="The text.")
    model: Annotated[ModelConfig | PhraseConfig, Kinds("lstm")] = option(
        default=LstmConfig, help="The model."
    )
    training: TrainingConfig = option(default=TrainingConfig, help="How it is trained.")
    guided: GuidedConfig | None = option(
        default=None, help="Word links to teach attention by (Chen et al. 2016); none: it finds its own."
    )
    sequence: SequenceConfig | None = option(
        default=None,
        help="Whole translations judged by BLEU too (Wu et al. 2018); none: they are not.",
    )
    finetune: FinetuneConfig | None = option(
        default=None, help="How the pre-trained part of the model is trained; none: as all of it."
    )
    search: SearchConfig = option(default=SearchConfig, help="How it translates, unless told otherwise.")

    def with_alignment(self) -> "RunConfig":
        """Return the config with the attention that was taught (`guided`) as that of its word links.

        What `search.alignment` names itself stays.
        """
        own, taught = self.search.alignment, self.guided
        if taught is None or own.layer is not None:
            return self
        found = dataclasses.replace(own, layer=taught.layer, heads=own.heads or taught.heads)
        return dataclasses.replace(self, search=dataclasses.replace(self.search, alignment=found))

    def __post_init__(self) -> None:
        """Refuse a mechanism whose kind of target there is not, such as a pointer that nothing would move."""
        if isinstance(self.model, PhraseConfig):
            if self.data.fertility or self.guided or self.sequence:
                raise ValueError("data.fertility, guided, sequence: model.kind = 'phrase' has no attention")
            return
        attention = self.model.attention
        wanted = getattr(attention, "target_tokenizer", None)
        if wanted is not None and self.data.target_tokenizer.kind != wanted:
            raise ValueError(f"attention {attention.kind!r} wants data.target_tokenizer.kind = {wanted!r}")


@dataclass(frozen=True)
class LoadedModel:
    """A trained model, ready to translate.

    Attributes:
        folder: Where it came from.
        config: What it was trained with.
        text: Its tokenizers and vocabularies.
        model: In evaluation mode, on `device`.
        device: Where it is.
        precision: What its products are made in; see `regard.models.precision`.
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
    """Train a model in a folder, preparing its data if needed, or go on where an earlier run stopped.

    Args:
        config: The run.
        folder: The model folder; made where it is absent.
        preparing: Makes what shows the progress of the preparing while that lasts.

    Raises:
        ConfigError: if the folder holds a run with another config; names the keys that differ.
        DataError: if the text is missing or broken.
        CheckpointError: if a file of the folder is corrupt or cannot be written, or another process trains in
            it: then nothing was written.
        TrainingDiverged: if the loss stayed not finite.
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
        processes.wait()
        prepared = prepare(config.data)
        prepared = with_fertilities(prepared, config.data.fertility, prepared.fingerprint)
        if isinstance(config.model, PhraseConfig):
            beside = files_beside(folder, to_dict(config))
            phrases = partial(run_phrases, config.model, prepared, folder, prepared.fingerprint, beside)
            # One process makes it; the others find it made.
            result = phrases(config.seed, config.threads) if processes.is_main else None
            processes.wait()
            return phrases(config.seed, config.threads) if result is None else result
        return _trainer(config, prepared, folder, device, processes).run()


def _trainer(
    config: RunConfig, prepared: Prepared, folder: Path, device: torch.device, processes: Processes
) -> Trainer:
    """What trains a network in a model folder that is begun."""
    identity = {"training data": prepared.fingerprint}
    if config.guided is not None and config.guided.links is not None:
        identity["guided links"] = file_digest(Path(config.guided.links))
    split = prepared.split("train")
    links = guiding_links(config.guided, prepared, config.data.train, prepared.fingerprint)
    assert not isinstance(config.model, PhraseConfig)
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
    """The config of a run from its file; folders that it does not name are named after the file.

    Args:
        path: The TOML file; `NAME.toml` makes `runs/NAME` and `prepared/NAME`.
        overrides: `a.b.c=value`.

    Raises:
        ConfigError: if the file or a setting is wrong; see `regard.config.load`.
    """
    config, name = load(RunConfig, path, overrides), Path(path).stem
    data = dataclasses.replace(config.data, folder=config.data.folder or f"prepared/{name}")
    return dataclasses.replace(config, folder=config.folder or f"runs/{name}", data=data)


def load_config(folder: Path | str) -> RunConfig:
    """The config a model was trained with; of a Hugging Face folder one that names its parts.

    Raises:
        CheckpointError: if the folder or its config is missing or not readable; names the file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such model folder")
    if is_hf_folder(folder):
        return RunConfig(**foreign_parts(folder))
    path = folder / CONFIG_FILE
    if (folder / HF_CONFIG).is_file() and not path.exists():
        read_hf_config(folder)  # says what is wrong with it
    try:
        if not read_bytes(own_file(folder, CONFIG_FILE)).decode().endswith(LAST_LINE):
            raise CheckpointError(f"{path}: truncated: it does not end with {LAST_LINE.strip()!r}")
        return load(RunConfig, path)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: altered: not UTF-8 at byte {error.start + 1}") from None
    except ConfigError as error:
        raise CheckpointError(
            f"{error}\n{folder} is not a model folder, or of another version of regard"
        ) from None


def load_model(
    folder: Path | str,
    device: str = "auto",
    precision: str = "float32",
    settings: Iterable[str] = (),
) -> LoadedModel:
    """A trained model from its folder alone.

    Args:
        folder: The model folder, or that of a sequence-to-sequence model of Hugging Face's.
        device: As in the config: `auto`, `cpu`, `cuda`...
        precision: What products are made in: `float32`, `bfloat16` or, on a CPU, `int8`.
        settings: Other settings than those it was trained with, as `model.attention.contexts=0`.

    Raises:
        UsageError: if the precision is not known, or not for this model.
        CheckpointError: if a file of the folder is missing or corrupt (names it), or the weights do not fit.
        ConfigError: if a setting is wrong.
        DeviceError: if the device is not there, or has no products in that precision.
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
        raise UsageError(f"{folder}: is a phrase-based model, which this does not work with")
    try:
        text = foreign_text(config.data) if foreign else load_text(folder)
    except DataError as error:
        raise CheckpointError(str(error)) from None
    if not foreign and type(config.model) not in PRETRAINED:  # those compare the parts themselves
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
    """The model folder a file of weights lies in.

    Raises:
        CheckpointError: if it lies in none.
    """
    for folder in file.absolute().parents[:2]:
        if (folder / CONFIG_FILE).is_file():
            return folder
    raise CheckpointError(f"{file}: lies in no model folder (no {CONFIG_FILE} beside it)")


def _begin(config: RunConfig, prepared: Prepared, folder: Path) -> None:
    """Make the folder a model folder; its config comes last, so that a folder with a config is whole."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if _is_begun(folder):
            load_text(folder)  # nobody could translate with what is trained beside broken files
            if (folder / MODEL_FILE).is_file():
                check_weights(folder / MODEL_FILE, folder, to_dict(config), lost=True)
        else:
            save_text(prepared.text, folder)
            if not isinstance(config.model, PhraseConfig):
                keep_parts(config.model, folder)
        write_config(config, folder)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be made: {error.strerror}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _is_begun(folder: Path) -> bool:
    """Whether a folder holds anything that was learned."""
    return bool(state_files(folder)) or (folder / MODEL_FILE).exists() or phrases_begun(folder)


def write_config(config: RunConfig, folder: Path) -> None:
    """Write the config of a model folder.

    Raises:
        DataError: if it cannot be written.
    """
    write_atomic(folder / CONFIG_FILE, (dump_toml(config) + "\n" + LAST_LINE).encode())


def _check_same_run(config: RunConfig, folder: Path) -> None:
    """Refuse to go on with a run that was begun with another config."""
    if not _is_begun(folder):
        if (folder / EXPORTED_FILE).exists():
            raise UsageError(f"{folder}: holds an exported model; give another folder (--out)")
        return
    weights = folder / MODEL_FILE
    if weights.exists() and not state_files(folder) and "averaged" in read_about(weights):
        raise UsageError(f"{folder}: holds an averaged model; give another folder (--out)")
    shown = differences(to_dict(load_config(folder)), to_dict(config), is_harmless)
    if shown:
        raise ConfigError(
            f"{folder} holds a run with another config; give another folder (--out), or what it had:\n"
            + "\n".join(f"  {line}" for line in shown)
        )


def _check_start(start: str | None, text: TextPair) -> None:
    """Refuse weights to start from whose rows stand for other words."""
    if start is None:
        return
    path = Path(start)
    folder = path if path.is_dir() else model_folder(path)
    other = TextPair.load(folder)
    for side in ("source", "target"):
        mine, its = getattr(text, side).vocabulary, getattr(other, side).vocabulary
        if mine != its:
            raise ConfigError(
                f"training.start = {start!r}: its {side} vocabulary ({len(its)} tokens) is not that of this "
                f"run's text ({len(mine)} tokens): its weights would stand for other words"
            )
