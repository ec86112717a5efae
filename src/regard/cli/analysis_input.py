"""The input and output options that all modes of `regard analyze` share."""

from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError, UsageError

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
