"""What every mode of `regard analyse` is given."""

from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError, UsageError

__all__ = ["Analysed"]


@dataclass(frozen=True)
class Analysed:
    """Models, a text and its translations, and where results go.

    Attributes:
        models: Model folders; where they stand side by side perhaps files of translations among them.
        source: The text.
        reference: Its translations, line by line.
        output: Where what is shown goes; none: standard output.
        json_file: Where everything goes; none: nowhere.
        batch: The most sentences in a batch; none: as the model's settings say.
        precision: float32, bfloat16 or int8.
        device: Where to compute.
    """

    models: list[Path]
    source: Path
    reference: Path
    output: Path | None
    json_file: Path | None
    batch: int | None
    precision: str
    device: str

    def pairs(self) -> list[tuple[str, str]]:
        """The lines.

        Raises:
            DataError: if a file cannot be read or holds no text.
        """
        from regard.config import from_dict
        from regard.data.corpus import CorpusConfig, read_pairs

        files = {"source": str(self.source), "target": str(self.reference)}
        pairs = list(read_pairs(from_dict(CorpusConfig, files)))
        for side, path in enumerate((self.source, self.reference)):
            if not any(pair[side].strip() for pair in pairs):
                raise DataError(f"{path}: holds no text")
        return pairs

    def names(self, given: str | None) -> list[str]:
        """What each model is called.

        Args:
            given: Names separated by commas; none: as their folders.

        Raises:
            UsageError: if there are not as many names as models, or two of one name.
        """
        if given is not None:
            names = [name.strip() for name in given.split(",")]
        else:
            names = [folder.resolve().name for folder in self.models]
            if len(set(names)) < len(names):
                names = [str(folder) for folder in self.models]
        if len(names) != len(self.models):
            raise UsageError(f"--names gives {len(names)} names to {len(self.models)} models")
        if len(set(names)) < len(names) or not all(names):
            raise UsageError(f"models must have names of their own, not {', '.join(names)}; give --names")
        return names
