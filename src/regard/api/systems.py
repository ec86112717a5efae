"""The systems of an analysis or a report: loaded models, model directories, and files of translations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.analysis.inputs import System, check_names
from regard.api.arguments import as_list
from regard.api.loading import as_paths, load_translator
from regard.api.translator import Translator
from regard.data.text import TextProcessor
from regard.errors import UsageError
from regard.generation.base import FileTranslator

__all__ = ["load_systems", "lock_models", "name_models"]


def name_models(models: Any, names: Sequence[str] | None = None) -> dict[str, Translator | list[Path]]:
    """Return models by display name: loaded models, or lists with one directory or file each.

    Args:
        models: A directory, a file or a loaded model, or several of them.
        names: The names. Default: the names of the directories and files.

    Raises:
        UsageError: if there is no model, or the names do not match the models.
    """
    sources = [models] if isinstance(models, Translator | Path | str) else as_list(models, "models")
    if not sources:
        raise UsageError("models: expected at least one model")
    loaded = [source if isinstance(source, Translator) else as_paths([source]) for source in sources]
    paths = [model.directories if isinstance(model, Translator) else model for model in loaded]
    defaults = ["+".join(path.resolve().name for path in model_paths) for model_paths in paths]
    # Two models may be in directories of the same name, such as a/model and b/model.
    if len(set(defaults)) < len(defaults):
        defaults = ["+".join(map(str, model_paths)) for model_paths in paths]
    return dict(zip(check_names(names, defaults), loaded, strict=True))


@contextmanager
def lock_models(models: Iterable[Translator | list[Path]]) -> Iterator[None]:
    """Hold the locks of the loaded models among some models.

    They are acquired in one order everywhere, so two threads that share several models never wait for each
    other.
    """
    with ExitStack() as locks:
        for model in sorted((candidate for candidate in models if isinstance(candidate, Translator)), key=id):
            locks.enter_context(model.lock)
        yield


def load_systems(
    systems: Mapping[str, Translator | list[Path]], settings: Mapping[str, Any], num_lines: int, source: str
) -> Iterator[System]:
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
    search = dict(settings)
    loading = {name: search.pop(name) for name in ("device", "precision", "num_threads") if name in search}
    if (num_threads := loading.get("num_threads")) is not None:
        from regard.runs.device import set_num_threads

        set_num_threads(num_threads)
    # Files are read before models, which take longer, so that a wrong file is reported at once.
    files: dict[str, FileTranslator] = {}
    for name, system in systems.items():
        if not isinstance(system, Translator) and len(system) == 1 and not system[0].is_dir():
            files[name] = FileTranslator.read(system[0], num_lines, Path(source))
    tokenizers: TextProcessor | None = None
    for name, system in systems.items():
        if name in files:
            continue
        if isinstance(system, Translator):
            # `num_threads` also applies to the aligner of a report, so it is allowed with a loaded model.
            wrong = loading.keys() - {"num_threads"}
            if wrong:
                raise UsageError(f"{min(wrong)}: {system!r} is loaded already; give it to regard.load()")
            paths, translator = system.directories, system.backend
        else:
            paths, translator = system, load_translator(system, **loading)
        # An analysis uses one translation per line, although the model may be set to return more.
        translator = translator.with_search({"num_return": 1, **search})
        # The words of a file have no fertilities.
        tokenizers = tokenizers or TextProcessor(translator.text.source, translator.text.target)
        yield System(name, tuple(map(str, paths)), translator)
    for name, file in files.items():
        yield System(name, (file.name,), file if tokenizers is None else replace(file, text=tokenizers))
