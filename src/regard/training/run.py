"""Runs from one config: prepare the data, then build and train the model in its directory."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.config import to_dict
from regard.data.arrays import ProgressCallback
from regard.data.dataset import PreparedData, open_data, prepare_data
from regard.data.text import TextProcessor
from regard.data.training_text import save_training_text
from regard.errors import CheckpointError, ConfigError, DataError, UsageError
from regard.metrics.base import METRICS, MetricInput
from regard.models.base import TranslationModel
from regard.models.registry import MODELS, build_for_text
from regard.runs.checksums import CHECKSUMS_KEY, compare_checksums, file_checksums
from regard.runs.description import read_stated_config, write_config
from regard.runs.device import pick_device, set_num_threads
from regard.runs.fertility_predictor import load_text_processing, save_text_processing
from regard.runs.loading import find_model_dir
from regard.runs.serialization import read_metadata
from regard.runs.weights import EXPORTED_FILE, MODEL_FILE, state_file
from regard.text.files import directory_lock
from regard.text.paths import check_outputs
from regard.training.fertility import add_fertilities
from regard.training.losses.base import LOSSES, LossTerm
from regard.training.run_config import (
    RunConfig,
    config_differences,
    fixed_options_checksum,
    load_config,
    resumed_config,
)
from regard.training.run_context import Callback, ProcessGroup, RunContext, autocast, init_process_group
from regard.training.trainer import Trainer, TrainingResult


def run_training(
    config: RunConfig,
    output_dir: Path | str,
    progress_context: Callable[[], AbstractContextManager[ProgressCallback | None]] = nullcontext,
    callbacks: Sequence[Callback] = (),
) -> TrainingResult:
    """Train a model, or resume an interrupted run; the data is prepared first if necessary.

    Args:
        config: The settings of the run.
        output_dir: The model directory. It is created if it does not exist.
        progress_context: Returns a context manager that is entered during data preparation and yields the
            progress display; see `regard.training.display.preparation_progress`. If it is given, the progress
            of training is shown as well. By default, nothing is written to stderr.
        callbacks: Callbacks that the first process calls during the training of a neural model.

    Returns:
        The result of the training.

    Raises:
        ConfigError: if the directory holds a run with another config (names the keys that differ), or the
            model of `training.init_from` has other vocabularies.
        UsageError: if the directory contains an exported or averaged model, or is in that of the data, which
            may be replaced.
        DataError: if the data is missing or malformed.
        CheckpointError: if a file of the directory is corrupt or cannot be written, or another process trains
            in it. In the latter case no file was written.
        TrainingDivergedError: if the loss is repeatedly not finite.
    """
    losses = [LOSSES.part_of(loss)(loss) for loss in config.training.losses]
    output_dir, config = Path(output_dir), _with_alignment(config, losses).with_plugins()
    if config.data.cache_dir is not None:
        check_outputs([], [output_dir], [config.data.cache_dir])
    device = pick_device(config.device)
    set_num_threads(config.num_threads or None)
    with (
        init_process_group(device) as processes,
        directory_lock(output_dir) if processes.is_main else nullcontext(),
    ):
        prepared, stated = _prepare_run(config, output_dir, processes, losses, progress_context)
        checksums = file_checksums(output_dir, stated)
        system = MODELS.part_of(config.model)
        if not system.is_neural:
            arguments = config.model, prepared, output_dir, checksums, config.seed, config.num_threads
            # The main process trains the model; the others then only read its result.
            result = system.train_run(*arguments) if processes.is_main else None
            processes.barrier()
            return system.train_run(*arguments) if result is None else result
        run = RunContext(
            output_dir,
            config.seed,
            processes,
            identity={"training data": prepared.fingerprint, "config": fixed_options_checksum(stated)},
            file_checksums=checksums,
            translation_metric=partial(_score_translations, config, prepared, device),
            show_progress=progress_context is not nullcontext,
        )
        return _build_trainer(config, prepared, run, losses, callbacks).run()


def _score_translations(
    config: RunConfig, prepared: PreparedData, device: torch.device, model: TranslationModel
) -> float:
    """Return the validation metric of a model's greedy translations of the validation split."""
    from regard.generation.lines import enumerate_lines
    from regard.generation.neural_translator import NeuralTranslator

    sources, references = prepared.split("valid").raw_lines()
    if (prefix := config.data.valid.source_prefix) is not None:
        sources = [f"{prefix} {line}" for line in sources]
    # The score only ranks the steps of one run; greedy search keeps the validation short.
    search = dataclasses.replace(config.generation, beam_size=1, num_return=1)
    translator = NeuralTranslator(model, prepared.text, search)
    with autocast(device, config.training.precision):
        translations = [result.text for result in translator.translate(enumerate_lines(sources))]
    metric = METRICS.get(config.training.validation.metric)
    assert metric is not None
    to_plain_text = prepared.text.target.tokenizer.to_plain_text
    data = MetricInput(translations, [[to_plain_text(line) for line in references]])
    return metric.count(data).corpus_score()


def _with_alignment(config: RunConfig, losses: Sequence[LossTerm]) -> RunConfig:
    """Return the config in which word alignments come from the supervised attention.

    A layer or heads given in `generation.alignment` take precedence.
    """
    alignment = config.generation.alignment
    supervised = next((term.supervised_attention for term in losses if term.supervised_attention), None)
    if supervised is None or alignment.layer is not None or alignment.map != "attention":
        return config
    settings = dataclasses.replace(alignment, layer=supervised[0], heads=alignment.heads or supervised[1])
    return dataclasses.replace(config, generation=dataclasses.replace(config.generation, alignment=settings))


def _prepare_run(
    config: RunConfig,
    output_dir: Path,
    processes: ProcessGroup,
    losses: Sequence[LossTerm],
    progress_context: Callable[[], AbstractContextManager[ProgressCallback | None]],
) -> tuple[PreparedData, Mapping[str, Any]]:
    """Prepare the data and the model directory in the main process, and open the data in the others.

    Returns:
        The data, and the options that the config file of the model directory states.
    """
    if not processes.is_main:
        # The data exists only when the main process has prepared it.
        processes.barrier()
        return _add_prepared(config, open_data(config.data), losses), read_stated_config(output_dir)
    # The check comes first, so that a wrong directory fails before a long preparation.
    _check_same_run(config, output_dir)
    with progress_context() as progress:
        prepared = prepare_data(config.data, progress=progress)
    prepared.verify()
    prepared = _add_prepared(config, prepared, losses)
    _check_init_from(config.training.init_from, prepared.text)
    stated = _create_model_dir(config, prepared, output_dir)
    processes.barrier()
    return prepared, stated


def _add_prepared(config: RunConfig, prepared: PreparedData, losses: Sequence[LossTerm]) -> PreparedData:
    """Return the prepared text with its fertilities, and prepare the loss terms."""
    prepared = add_fertilities(prepared, config.data.fertility, prepared.fingerprint)
    for term in losses:
        term.prepare(prepared, config.data)
    return prepared


def _build_trainer(
    config: RunConfig,
    prepared: PreparedData,
    run: RunContext,
    losses: Sequence[LossTerm],
    callbacks: Sequence[Callback],
) -> Trainer:
    """Return the trainer of a neural model; its model directory must exist."""
    # The seed is set just before the initial weights are sampled, so that they do not depend on the data.
    torch.manual_seed(config.seed)
    model = build_for_text(
        config.model, prepared.text, run.output_dir if _has_checkpoint(run.output_dir) else None
    )
    _check_lengths(model, prepared)
    train, valid = prepared.split("train"), prepared.split("valid")
    return Trainer(model.to(run.processes.device), train, valid, config.training, run, losses, callbacks)


def _create_model_dir(config: RunConfig, prepared: PreparedData, model_dir: Path) -> Mapping[str, Any]:
    """Create the model directory and return the options that its config states.

    The config is written last, so that its presence marks a complete directory.
    """
    stated: Mapping[str, Any] = to_dict(config)
    try:
        model_dir.mkdir(parents=True, exist_ok=True)
        if _has_checkpoint(model_dir):
            # Stop before training if the files that translation needs are corrupt.
            load_text_processing(model_dir)
            stated = resumed_config(read_stated_config(model_dir), stated)
            weights = model_dir / MODEL_FILE
            # A run that has not been validated yet has no weights.
            if weights.exists():
                try:
                    recorded = read_metadata(weights).get(CHECKSUMS_KEY)
                except CheckpointError as error:
                    advice = "remove the file; the resumed run writes the weights again"
                    raise CheckpointError(f"{error}; {advice}") from None
                compare_checksums(recorded, weights, model_dir, file_checksums(model_dir, stated))
        else:
            save_text_processing(prepared.text, model_dir)
            save_training_text(config.data, prepared, model_dir)
            MODELS.part_of(config.model).copy_configs(config.model, model_dir)
        write_config(stated, model_dir)
    except OSError as error:
        raise CheckpointError(f"{model_dir}: directory cannot be created: {error.strerror}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
    return stated


def _has_checkpoint(model_dir: Path) -> bool:
    """Return whether a directory contains a checkpoint or trained weights."""
    systems = (MODELS.get(name) for name in MODELS.names())
    weights = {system.weights_name for system in systems if system is not None}
    return state_file(model_dir).exists() or any((model_dir / name).exists() for name in weights)


def _check_same_run(config: RunConfig, model_dir: Path) -> None:
    """Raise an error if the directory belongs to a run with another config, or to another kind of model."""
    if not _has_checkpoint(model_dir):
        if (model_dir / EXPORTED_FILE).exists():
            raise UsageError(
                f"{model_dir}: contains an exported model; choose another directory (--output-dir)"
            )
        return
    weights = model_dir / MODEL_FILE
    if weights.exists() and not state_file(model_dir).exists() and "averaged" in read_metadata(weights):
        raise UsageError(f"{model_dir}: contains an averaged model; choose another directory (--output-dir)")
    differences = config_differences(to_dict(load_config(model_dir)), to_dict(config))
    if differences:
        raise ConfigError(
            f"{model_dir} contains a run with another config; choose another directory (--output-dir) or "
            "restore these settings:\n" + "\n".join(f"  {line}" for line in differences)
        )


def _check_init_from(init_from: str | None, text: TextProcessor) -> None:
    """Raise an error if the initial weights belong to other vocabularies than those of this run."""
    if init_from is None:
        return
    path = Path(init_from)
    folder = path if path.is_dir() else find_model_dir(path)
    if difference := TextProcessor.load(folder).vocabulary_difference(text, "this run"):
        raise ConfigError(
            f"training.init_from = {init_from!r}: {difference}: both models must have the same vocabularies"
        )


def _check_lengths(model: TranslationModel, prepared: PreparedData) -> None:
    """Check that every sentence fits the learned positions, and every pair the context, of the model.

    Raises:
        ConfigError: if a sentence or a pair is too long; the message gives its file and line.
    """
    num_sinks = len(prepared.text.sink_tokens)
    limit, pair_limit = model.max_length, model.constraints.max_pair_length
    for split in ("train", "valid"):
        examples = prepared.split(split)
        # The end symbol is part of the targets here, but never an input of a model with one context.
        sides = [
            ("source", examples.source_lengths + num_sinks, limit, "learned positions", num_sinks),
            ("target", examples.target_lengths, limit, "learned positions", 1),
            ("source and target", examples.source_lengths + examples.target_lengths - 1 + num_sinks,
             pair_limit, "positions in addition to the prompt template", num_sinks),
        ]  # fmt: skip
        for side, lengths, maximum, unit, num_added in sides:
            row = int(lengths.argmax())
            if maximum is not None and lengths[row] > maximum:
                longest = (maximum - num_added) // (2 if side == "source and target" else 1)
                raise ConfigError(
                    f"{examples.location(row)} has {lengths[row]} {side} tokens, but the model has "
                    f"{maximum} {unit}: set data.max_length = {longest}, or shorten the sentence"
                )
