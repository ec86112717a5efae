"""The input and output options that all modes of `regard analyze` share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.generation.base import BaseTranslator

__all__ = ["AnalysisInput"]


@dataclass(frozen=True)
class AnalysisInput:
    """The models, the text and the output files of an analysis.

    Attributes:
        models: Model directories; where systems are compared, also files with translations.
        source: File with the source text.
        reference: File with the reference translations, one line per source line.
        output: File for the report. None means standard output.
        json_file: File for the results in JSON. None writes no such file.
        batch_size: Maximum number of sentences in a batch. None uses the model's setting.
        precision: float32, bfloat16 or int8.
        device: Device of the computation, such as "cpu" or "cuda:0".
    """

    models: list[Path]
    source: Path
    reference: Path
    output: Path | None
    json_file: Path | None
    batch_size: int | None
    precision: str
    device: str

    def read_pairs(self) -> list[tuple[str, str]]:
        """Return the pairs of source and reference lines.

        Raises:
            DataError: If a file cannot be read or contains no text.
        """
        from regard.config import from_dict
        from regard.data.corpus import CorpusConfig, read_pairs

        files = {"source": str(self.source), "target": str(self.reference)}
        pairs = list(read_pairs(from_dict(CorpusConfig, files)))
        for side, path in enumerate((self.source, self.reference)):
            if not any(pair[side].strip() for pair in pairs):
                raise DataError(f"{path}: the file contains no text")
        return pairs

    def display_names(self, given: str | None) -> list[str]:
        """Return the display name of each model.

        Args:
            given: Names separated by commas. None uses the names of the directories.

        Raises:
            UsageError: If the number of names differs from the number of models, or a name is empty or
                occurs twice.
        """
        if given is not None:
            names = [name.strip() for name in given.split(",")]
        else:
            names = [path.resolve().name for path in self.models]
            # Two models may be in directories of the same name, such as a/model and b/model.
            if len(set(names)) < len(names):
                names = [str(path) for path in self.models]
        if len(names) != len(self.models):
            raise UsageError(
                f"--names has {len(names)} names but there are {len(self.models)} models: "
                "give one name per model"
            )
        if len(set(names)) < len(names) or not all(names):
            raise UsageError(
                f"the names of the models must be different and not empty, not {', '.join(names)}: "
                "choose them with --names"
            )
        return names

    def load_translator(
        self, directories: Sequence[Path], options: Mapping[str, Any], num_threads: int | None = None
    ) -> "BaseTranslator":
        """Load the translator of a model or an ensemble, which returns one translation per line.

        Args:
            directories: Model directories.
            options: Search settings, as arguments of `search_settings`.
            num_threads: Number of CPU threads. None uses all processors.
        """
        from regard.api.loading import load_translator

        settings = {"num_return": 1, "batch_size": self.batch_size, **options}
        return load_translator(directories, self.device, self.precision, settings, num_threads=num_threads)

    def load_systems(
        self, num_lines: int, options: Mapping[str, Any], num_threads: int | None = None
    ) -> "Iterator[tuple[int, BaseTranslator]]":
        """Yield the translator of each model, and then of each file, with its index in `models`.

        Files are split into words by the tokenizers of the first model, so that the words of all systems are
        comparable; without a model, at white space.

        Args:
            num_lines: Number of lines of the text.
            options: Search settings of the models, as arguments of `search_settings`.
            num_threads: Number of CPU threads. None uses all processors.

        Raises:
            UsageError: If there is no such model or file.
            DataError: If a file has the wrong number of lines.
        """
        from dataclasses import replace

        from regard.data.text import TextProcessor
        from regard.generation.file_translator import FileTranslator

        # Files are read before models, which take longer, so that a wrong file is reported at once.
        files = {
            index: FileTranslator.read(path, num_lines, self.source)
            for index, path in enumerate(self.models)
            if not path.is_dir()
        }
        text: TextProcessor | None = None
        for index, path in enumerate(self.models):
            if index not in files:
                # One model at a time: the systems are compared and do not form an ensemble.
                translator = self.load_translator([path], options, num_threads)
                # The words of a file have no fertilities.
                text = text or TextProcessor(translator.text.source, translator.text.target)
                yield index, translator
        for index, file in files.items():
            yield index, file if text is None else replace(file, text=text)
