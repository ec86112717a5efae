"""Training and tuning from Python: `regard.train` trains a model, `regard.tune` chooses its penalties."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.analysis.inputs import Progress, no_progress
from regard.api.arguments import TextSource, parallel_text
from regard.api.systems import load_systems, lock_models, single_model
from regard.api.translator import Translator
from regard.config import dump_toml, from_dict, to_dict
from regard.config.plugins import load_plugins
from regard.config.reference import reference, render_text, select_tables
from regard.data.config import input_files
from regard.data.dataset import PreparedData, prepare_data
from regard.errors import DataError, UsageError
from regard.generation.tune_penalties import PenaltyTuningOptions, PenaltyTuningResult, tune_penalties
from regard.runs.description import CONFIG_FILE, END_MARKER, listed_plugins
from regard.runs.loading import average_models as average_models
from regard.text.files import write_atomic
from regard.text.paths import check_outputs
from regard.training.display import preparation_progress
from regard.training.run import run_training
from regard.training.run_config import RunConfig, read_run_config
from regard.training.run_context import Callback
from regard.training.trainer import TrainingResult

Pairs = Iterable[tuple[str, str]]


def train(
    config: RunConfig | Mapping[str, Any] | Path | str,
    output_dir: Path | str | None = None,
    *,
    pairs: Mapping[str, Pairs] | None = None,
    overrides: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
) -> TrainingResult:
    """Train a model, or resume an interrupted run, as `regard train` does.

    Args:
        config: A TOML file, a dictionary with the same tables, or a `RunConfig`.
        output_dir: Model directory. It is created if it does not exist. Default: that of the configuration,
            or `runs/NAME` in the current directory for a file `NAME.toml`.
        pairs: Sentence pairs instead of files: an iterable of (source, target) for `train` and for `valid`.
            They are written to files in the directory `CACHE_DIR-text`.
        overrides: Settings that override those of a TOML file, as `training.max_steps=100`.
        callbacks: Callbacks that are called during training; see `regard.Callback`.
        progress: Whether to write the progress to stderr: a description of the run, a bar on a terminal or in
            a notebook, and otherwise lines at growing intervals.

    Returns:
        The result: the reason why training ended, and its counters.

    Raises:
        ConfigError: if a key or value is wrong, or the directory holds a run with another config.
        UsageError: if a dictionary has no output directory, overrides are given without a file, or the file
            would be overwritten.
        DataError: if the data is missing or malformed; names the file or the pair.
        CheckpointError: if a file of the directory is corrupt or cannot be written.
        PluginError: if a plugin is missing or cannot be imported.
        TrainingDivergedError: if the loss is repeatedly not finite.
    """
    display = preparation_progress if progress else nullcontext
    if isinstance(config, str | Path):
        if pairs is not None:
            raise UsageError("pairs: a TOML file names its own texts; give a dictionary instead")
        settings = read_run_config(config, overrides)
        directory = _directory(settings, output_dir)
        # A run is resumed from the configuration in its directory, which has the end marker.
        if not Path(config).read_bytes().endswith(END_MARKER.encode()):
            check_outputs([config], [directory / CONFIG_FILE])
        return run_training(settings, directory, display, callbacks)
    if overrides:
        raise UsageError("overrides: only for a TOML file; set the values in the dictionary")
    directory = _directory(config, output_dir)
    return run_training(_dict_settings(config, directory, pairs), directory, display, callbacks)


def _dict_settings(
    config: RunConfig | Mapping[str, Any], directory: Path, pairs: Mapping[str, Pairs] | None
) -> RunConfig:
    """Return the configuration of a run without a file, after its plugins are imported."""
    data = dict(to_dict(config) if isinstance(config, RunConfig) else config)
    # The prepared text of a run without a file lies next to its model.
    data["data"] = {"cache_dir": f"{directory}-prepared", **data.get("data", {})}
    # The directory of the text depends on that of the prepared data, which is set above.
    if pairs is not None:
        data["data"] |= _write_pairs(pairs, Path(f"{data['data']['cache_dir']}-text"))
    load_plugins(listed_plugins(data))
    return from_dict(RunConfig, data)


def prepare(config: RunConfig | Path | str, *, overrides: Sequence[str] = ()) -> PreparedData:
    """Tokenize the text of a run and store it as binary arrays, or open those of the same text and settings.

    Args:
        config: TOML file with the configuration of the run, or a `RunConfig`.
        overrides: Settings that override those of the file, as key=value.

    Raises:
        ConfigError: if a key or value is wrong.
        DataError: if the data is missing or malformed; names the file.
    """
    settings = config if isinstance(config, RunConfig) else read_run_config(config, overrides)
    with preparation_progress() as progress:
        return prepare_data(settings.data, progress=progress)


def check_training_output(config: Path | str, overrides: Sequence[str], output: Path) -> None:
    """Check that an output file does not overwrite the text of a run.

    Raises:
        UsageError: if it does.
    """
    data = read_run_config(config, overrides).data
    check_outputs([path for _, path in input_files(data)], [output])


def describe_options(
    what: Path | str | None = None,
    *,
    overrides: Sequence[str] = (),
    width: int = 100,
) -> str:
    """Return the options with their defaults, or all settings of a run's file.

    Args:
        what: A TOML file, whose settings are checked and printed in full, or the path of a table or option,
            such as model.attention. Default: all options.
        overrides: Settings that override those of the file, as key=value.
        width: Number of columns at which the lines of options are wrapped.

    Raises:
        ConfigError: if there is no such option, or the file is wrong.
    """
    # Overrides apply only to a file. With them, a missing file must not pass as the name of a table.
    if what is not None and (str(what).endswith(".toml") or overrides or Path(what).is_file()):
        return dump_toml(read_run_config(Path(what), overrides))
    tables = reference(RunConfig)
    if what is not None:
        tables = select_tables(tables, str(what))
    wrapped = (textwrap.fill(line, width, subsequent_indent=" " * 6) for line in render_text(tables))
    return "".join(f"{line}\n" for line in wrapped)


def tune(
    model: Translator | Path | str | Sequence[Path | str],
    sources: TextSource,
    references: TextSource,
    *,
    options: PenaltyTuningOptions | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> PenaltyTuningResult:
    """Compare pairs of length penalty (alpha) and coverage penalty (beta) by BLEU, as `regard tune` does.

    The score of a pair is that of beam search with this pair, not that of a rescored n-best list.

    Args:
        model: A model directory or a loaded model. Several directories form an ensemble.
        sources: Source lines for validation, as a file or a list. Do not use the test text.
        references: Their reference translations.
        options: The penalties to compare, and the settings of BLEU.
        progress: Progress display of the pairs of penalties.
        settings: Arguments of `regard.load`, such as `device` and `beam_size`.

    Raises:
        UsageError: if an argument does not apply, or the model does not have these penalties.
        DataError: if a file cannot be read, contains no text, or the numbers of lines differ.
    """
    text, models = parallel_text(sources, references), single_model(model)
    with lock_models(models.values()):
        (system,) = load_systems(models, settings, len(text), text.source_name)
        result = tune_penalties(
            system.translator, text.sources, text.references, options or PenaltyTuningOptions(), progress
        )
    return replace(result, models=system.paths, source=text.source_path, reference=text.reference_path)


def _directory(config: RunConfig | Mapping[str, Any], given: Path | str | None) -> Path:
    """Return the model directory."""
    configured = config.output_dir if isinstance(config, RunConfig) else config.get("output_dir")
    chosen = configured if given is None else given
    if chosen is None:
        raise UsageError("regard.train() needs a model directory: regard.train(config, 'runs/first')")
    return Path(chosen)


def _write_pairs(pairs: Mapping[str, Pairs], directory: Path) -> dict[str, Any]:
    """Write sentence pairs to files and return the keys of the table `data` that name them.

    Raises:
        DataError: if an item is not a pair of strings, or a sentence contains a line break.
    """
    if set(pairs) != {"train", "valid"}:
        raise UsageError(f"pairs: expected the keys 'train' and 'valid', got {sorted(pairs)}")
    corpora: dict[str, Any] = {}
    for split, items in pairs.items():
        lines: tuple[list[str], list[str]] = ([], [])
        for number, pair in enumerate(items, 1):
            is_pair = isinstance(pair, tuple | list) and len(pair) == 2
            if not is_pair or not all(isinstance(sentence, str) for sentence in pair):
                raise DataError(
                    f"pairs[{split!r}], item {number}: expected (source, target), got {pair!r:.60}"
                )
            for side, sentence in zip(lines, pair, strict=True):
                # A line break would shift all later pairs, because the files have one sentence per line.
                if len(sentence.splitlines()) > 1:
                    raise DataError(f"pairs[{split!r}], item {number}: a sentence contains a line break")
                side.append(sentence.rstrip("\r\n"))
        files = [directory / f"{split}.{side}" for side in ("source", "target")]
        directory.mkdir(parents=True, exist_ok=True)
        for file, side in zip(files, lines, strict=True):
            write_atomic(file, "".join(f"{line}\n" for line in side).encode())
        corpora[split] = {"source": str(files[0]), "target": str(files[1])}
    return {"train": [corpora["train"]], "valid": corpora["valid"]}
