"""The systems of an analysis or a report: loaded models, model directories and files of translations.

The word aligner and other parts that they need are the `Companions` of a model directory. They are trained on
the text that trained the model when they are first needed, and kept in directories of the model, such as
`aligner`. Their text is the part of the training text that the model directory contains; see
`regard.data.training_text`. The files that its configuration names are not read.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from regard.alignment import Corpus, TrainingSetup, WordAligner, train_both
from regard.alignment.base import DEFAULT_ALIGNER, default_config
from regard.analysis.inputs import System, check_names, line_words
from regard.api.loading import as_paths, load_translator
from regard.api.translator import Translator
from regard.data.text import TextProcessor
from regard.data.training_text import MAX_STORED_PAIRS, read_training_pairs
from regard.errors import RegardError, UsageError
from regard.generation.base import FileTranslator
from regard.runs.description import CONFIG_FILE
from regard.text.paths import check_link, shown_path

FEW_PAIRS = 10_000
"""Number of training pairs below which marks of errors are of doubtful precision."""

_log = logging.getLogger(__name__)


def single_model(model: Translator | Path | str | Iterable[Path | str]) -> dict[str, Translator | list[Path]]:
    """Return a model, or an ensemble of several directories, as the only system of an analysis."""
    if isinstance(model, Translator):
        return {"the model": model}
    # A string is a sequence, too, so a single path must be recognized by its type.
    return {"the model": as_paths([model] if isinstance(model, Path | str) else model)}


def name_models(models: Any, names: Sequence[str] | None = None) -> dict[str, Translator | list[Path]]:
    """Return models by display name: loaded models, or lists with one directory or file each.

    Args:
        models: A directory, a file or a loaded model, or several of them.
        names: The names. Default: the names of the directories and files.

    Raises:
        UsageError: if there is no model, or the names do not match the models.
    """
    sources = [models] if isinstance(models, Translator | Path | str) else list(models)
    if not sources:
        raise UsageError("models: expected at least one model")
    loaded = [source if isinstance(source, Translator) else as_paths([source]) for source in sources]
    paths = [model.directories if isinstance(model, Translator) else model for model in loaded]
    defaults = ["+".join(shown_path(path.resolve()).name for path in model_paths) for model_paths in paths]
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


@dataclass(frozen=True)
class Companions:
    """The aligner and other parts of a model directory that are trained on its text.

    Attributes:
        directory: The model directory.
        num_threads: Number of threads. 0 uses all processors.
        max_pairs: Maximum number of training pairs that are read.
    """

    directory: Path
    num_threads: int = 0
    max_pairs: int = MAX_STORED_PAIRS

    @classmethod
    def of(cls, models: Iterable[Any], num_threads: int = 0) -> "Companions | None":
        """Return the companions of the first model directory; None if there is none.

        Args:
            models: Lists of directories, loaded models with `directories`, or files of translations.
            num_threads: Number of threads. 0 uses all processors.
        """
        for model in models:
            directories = model if isinstance(model, list) else getattr(model, "directories", ())
            for directory in map(Path, directories):
                # The directory of another library has no training text.
                if (directory / CONFIG_FILE).is_file():
                    return cls(directory, num_threads)
        return None

    def aligner(self) -> WordAligner | None:
        """Return the word aligner, for the words of the model's tokenizers; None without a training text."""
        return self.load_or_train("aligner", "word aligner", WordAligner.load, self._train_aligner)

    def load_or_train(
        self, name: str, title: str, load: Callable[[Path], Any], train: Callable[[], tuple[Any, Any]]
    ) -> Any:
        """Return a part that was saved earlier, or train and save it; None if it cannot be trained.

        Args:
            name: Name of its directory in the model directory.
            title: Name of the part in messages.
            load: Loads the part from its directory.
            train: Trains the part; returns it and the function that saves it.
        """
        path = check_link(self.directory / name, self.directory)
        if path.is_dir():
            return load(path)
        try:
            _log.info("training a %s on the training text of %s ...", title, self.directory)
            part, save = train()
        except RegardError as error:
            _log.warning("there is no %s of %s: %s; name one with --%s", title, self.directory, error, name)
            return None
        try:
            save(path)
        except RegardError as error:
            # A directory that cannot be written costs the training each time, but no report.
            _log.warning("the %s was not kept: %s", title, error)
        return part

    def _train_aligner(self) -> tuple[WordAligner, Any]:
        text = TextProcessor.load(self.directory)
        words = (
            (line_words(source, text.source), line_words(target, text.target))
            for source, target in self.pairs()
        )
        usable = ((source, target) for source, target in words if source and target)
        corpus = Corpus.from_tokens(usable, names=("source", "target"))
        config = default_config(DEFAULT_ALIGNER)
        aligner = train_both(corpus, config, TrainingSetup(self.num_threads))
        return aligner, aligner.save

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Return the first pairs of the training text that the directory contains."""
        return islice(read_training_pairs(self.directory), self.max_pairs)

    def few_pairs_notes(self) -> list[str]:
        """Return a caveat for the reader of a page if the parts are trained on little text."""
        try:
            num_pairs = sum(1 for _ in self.pairs())
        except RegardError:
            return []
        if not 0 < num_pairs < FEW_PAIRS:
            return []
        return [
            f"The word aligner and the coverage model were trained on only {num_pairs:,} sentence pairs, so "
            f"some marks are wrong. They become reliable with about {FEW_PAIRS:,} pairs: train both on more "
            "text (regard align --save-aligner, regard check --save-checker), and give them with --aligner "
            "and --checker."
        ]
