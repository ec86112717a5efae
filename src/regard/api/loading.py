"""Loading of models and ensembles from their directories."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.api.arguments import as_list
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.analysis.inputs import System
    from regard.api.model import Model
    from regard.data.text import TextProcessor
    from regard.generation.base import BaseTranslator
    from regard.generation.config import GenerationConfig
    from regard.generation.coverage import CoverageJudge
    from regard.models.base import TranslationModel
    from regard.runs.experiment import LoadedModel

__all__ = [
    "as_paths",
    "load_checker",
    "load_models",
    "load_systems",
    "load_translator",
    "lock_models",
    "name_models",
]


def load_translator(
    directories: Sequence[Path],
    device: str = "auto",
    precision: str = "float32",
    options: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    num_threads: int | None = None,
    engine: Literal["regard", "ctranslate2"] | None = None,
) -> "BaseTranslator":
    """Load the translator of a trained model of any kind, of an ensemble, or of an export.

    Args:
        directories: Model directories. Several form an ensemble.
        device: Device of a neural model.
        precision: Data type of the matrix multiplications of a neural model.
        options: Search settings as in `search_settings`. Missing options and None keep the model's own.
            Default: the search settings are not changed.
        overrides: Overrides of the configuration of the run, such as `model.attention.top_k=0`.
        num_threads: Number of CPU threads of a system that is not a PyTorch module. None for one per
            processor.
        engine: Inference engine. Default: `ctranslate2` for an exported model, otherwise `regard`.

    Raises:
        UsageError: if the models do not support an argument, or are not compatible with each other.
        CheckpointError: if a directory is missing or damaged; names the file.
        ConfigError: if a setting is invalid; names it.
        DeviceError: if the device is not available, or does not support the precision.
    """
    from regard.config.extensions import hook
    from regard.models.registry import MODELS
    from regard.runs.config import load_config

    first, exported = directories[0], hook("engine")
    if engine == "ctranslate2" and exported is None:
        raise UsageError("the extension `ctranslate2` is not installed")
    if exported and (engine == "ctranslate2" or (engine is None and exported.reads(first))):
        translator = exported.load(first, device, num_threads)
        # An export has a fixed data type, so another one is an error instead of being ignored.
        if precision != "float32":
            translator.require("precision", f"precision {precision} (--precision)")
    elif (system := MODELS.part_of((run := load_config(first)).model)).is_neural:
        from regard.generation.translator import Translator

        name = ", ".join(map(str, directories))
        translator = Translator(*load_models(directories, device, precision, overrides), name=name)
    else:
        translator = system.load_translator(run, first, num_threads or 0)
    # The user gets an error instead of an ensemble or an override without effect.
    if len(directories) > 1:
        translator.require("ensemble", "an ensemble of several models")
    if overrides:
        translator.require("overrides", "overrides of the configuration (--set)")
    return translator if options is None else translator.with_search(options)


def load_checker(directory: Path | str) -> "CoverageJudge":
    """Load the detector of coverage errors of a directory, for repair and reranking.

    Raises:
        UsageError: if no extension provides detectors.
        DataError: if a file is missing or damaged; names it.
    """
    from regard.config.extensions import hook

    checker = hook("checker")
    if checker is None:
        raise UsageError("the extension `check` is not installed")
    return checker.load(directory)


def load_models(
    directories: Sequence[Path], device: str, precision: str, settings: Sequence[str] = ()
) -> "tuple[TranslationModel, TextProcessor, GenerationConfig]":
    """Load one model or an ensemble, with the shared text processing and the first model's search settings.

    Raises:
        UsageError: if the precision is unknown or not supported by the model, or the models of an ensemble
            differ in vocabularies, tokenizers or fertilities.
        CheckpointError: if a model directory is missing or damaged.
        DeviceError: if the device is not available, or does not support the precision.
    """
    from regard.generation.ensemble import Ensemble
    from regard.runs.experiment import load_model

    loaded = [load_model(directory, device, precision, settings) for directory in directories]
    # An ensemble averages distributions, so a token must have the same number in all models.
    for other in loaded[1:]:
        _check_same_text(loaded[0], other)
    model = loaded[0].model if len(loaded) == 1 else Ensemble([one.model for one in loaded])
    return model, loaded[0].text, loaded[0].config.generation


def _check_same_text(first: "LoadedModel", other: "LoadedModel") -> None:
    difference = other.text.difference(first.text, str(first.model_dir))
    if difference is not None:
        raise UsageError(
            f"{other.model_dir}: {difference}; models of an ensemble must share vocabularies, tokenizers and "
            "fertilities"
        )


def name_models(models: Any, names: Sequence[str] | None = None) -> "dict[str, Model | list[Path]]":
    """Return models by display name: loaded models, or lists with one directory or file each.

    Args:
        models: A directory, a file or a loaded model, or several of them.
        names: The names. Default: the names of the directories and files.

    Raises:
        UsageError: if there is no model, or the names do not match the models.
    """
    from regard.analysis.inputs import check_names

    # An import at the top of the file would be circular, because that module imports this one.
    from regard.api.model import Model

    given = [models] if isinstance(models, Model | Path | str) else as_list(models, "models")
    _check_any(given)
    loaded = [one if isinstance(one, Model) else as_paths([one]) for one in given]
    paths = [one.directories if isinstance(one, Model) else one for one in loaded]
    defaults = ["+".join(path.resolve().name for path in own) for own in paths]
    # Two models may be in directories of the same name, such as a/model and b/model.
    if len(set(defaults)) < len(defaults):
        defaults = ["+".join(map(str, own)) for own in paths]
    return dict(zip(check_names(names, defaults), loaded, strict=True))


def as_paths(given: Sequence[Any]) -> list[Path]:
    """Return directories or files as paths.

    Raises:
        UsageError: if there is none, or one is neither a string nor a path.
    """
    _check_any(given)
    for path in given:
        if not isinstance(path, Path | str):
            raise UsageError(f"models: expected model directories or a loaded model, got {path!r}")
    return [Path(path) for path in given]


def _check_any(models: Sequence[Any]) -> None:
    if not models:
        raise UsageError("models: expected at least one model")


@contextmanager
def lock_models(models: "Iterable[Model | list[Path]]") -> Iterator[None]:
    """Hold the locks of the loaded models among some models.

    They are acquired in one order everywhere, so two threads that share several models never wait for each
    other.
    """
    from regard.api.model import Model

    with ExitStack() as locks:
        for model in sorted((one for one in models if isinstance(one, Model)), key=id):
            locks.enter_context(model.lock)
        yield


def load_systems(
    systems: "Mapping[str, Model | list[Path]]", settings: Mapping[str, Any], num_lines: int, source: str
) -> "Iterator[System]":
    """Yield the systems of an analysis: first the models, each when it is needed, then the files.

    A file of translations is split into words by the tokenizers of the first model, so that the words of all
    systems are comparable; without a model, at white space.

    Args:
        systems: Loaded models, or their directories (several form an ensemble), or files of translations, by
            display name.
        settings: The settings of a model that is loaded: `device`, `precision`, `num_threads` (see
            `load_translator`), and search settings. Only the latter apply to a loaded model.
        num_lines: Number of lines of the text, which is that of the files, too.
        source: Name of the text, for messages.

    Raises:
        UsageError: if there is no such model or file, or a setting does not apply.
        DataError: if a file has the wrong number of lines.
    """
    from dataclasses import replace

    from regard.analysis.inputs import System
    from regard.api.model import Model
    from regard.data.text import TextProcessor
    from regard.generation.file_translator import FileTranslator

    search = dict(settings)
    loading = {name: search.pop(name) for name in ("device", "precision", "num_threads") if name in search}
    # Files are read before models, which take longer, so that a wrong file is reported at once.
    files: dict[str, FileTranslator] = {}
    for name, given in systems.items():
        if not isinstance(given, Model) and len(given) == 1 and not given[0].is_dir():
            files[name] = FileTranslator.read(given[0], num_lines, Path(source))
    tokenizers: TextProcessor | None = None
    for name, given in systems.items():
        if name in files:
            continue
        if isinstance(given, Model):
            # `num_threads` also applies to the aligner of a report, so it is allowed with a loaded model.
            wrong = loading.keys() - {"num_threads"}
            if wrong:
                raise UsageError(f"{min(wrong)}: {given!r} is loaded already; give it to regard.load()")
            paths, translator = given.directories, given.translator
        else:
            paths, translator = given, load_translator(given, **loading)
        # An analysis uses one translation per line, although the model may be set to return more.
        translator = translator.with_search({"num_return": 1, **search})
        # The words of a file have no fertilities.
        tokenizers = tokenizers or TextProcessor(translator.text.source, translator.text.target)
        yield System(name, tuple(map(str, paths)), translator)
    for name, file in files.items():
        yield System(name, (file.name,), file if tokenizers is None else replace(file, text=tokenizers))
