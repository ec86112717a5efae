"""What every mode of `regard analyse` is given."""

from dataclasses import dataclass
from pathlib import Path

from regard.errors import DataError

__all__ = ["Analysed"]


@dataclass(frozen=True)
class Analysed:
    """Models, a text and its translations, and where results go.

    Attributes:
        models: Model folders.
        source: The text.
        reference: Its translations, line by line.
        output: Where what is shown goes; none: standard output.
        json_file: Where everything goes; none: nowhere.
        batch: The most sentences in a batch; none: as the model's settings say.
        precision: float32 or bfloat16.
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
