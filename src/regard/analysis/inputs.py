"""The inputs that all analyses share: systems, a text with references, and a display of the progress."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, runtime_checkable

from regard.errors import DataError, UsageError
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.paths import readable

if TYPE_CHECKING:
    from regard.generation.base import BaseTranslator

__all__ = ["ParallelText", "Progress", "System", "check_names", "no_progress"]

_T = TypeVar("_T")


@runtime_checkable
class Progress(Protocol):
    """A progress display that passes items through."""

    def __call__(self, items: Iterable[_T], name: str, total: int) -> Iterator[_T]:
        """Yield the items and show the progress; `name` labels the task, `total` is the number of items."""
        ...


def no_progress(items: Iterable[_T], name: str, total: int) -> Iterator[_T]:
    """Yield the items without a display."""
    return iter(items)


@dataclass(frozen=True)
class System:
    """A system that is analyzed: a model, an ensemble, or a file of translations.

    Attributes:
        name: Display name.
        paths: The model directories, or the file.
        translator: The translator, with its search settings.
    """

    name: str
    paths: tuple[str, ...]
    translator: "BaseTranslator"


@dataclass(frozen=True)
class ParallelText:
    """Source lines and their reference translations.

    Attributes:
        sources: The source lines.
        references: One reference per source line.
        source_path: The file of the source lines. None for a text from Python.
        reference_path: The file of the references. None for a text from Python.

    Raises:
        DataError: if the numbers of lines differ, or a side contains no text.
    """

    sources: tuple[str, ...]
    references: tuple[str, ...]
    source_path: str | None = None
    reference_path: str | None = None

    def __post_init__(self) -> None:
        """Check the numbers of lines, and that both sides contain text."""
        if len(self.sources) != len(self.references):
            raise DataError(
                f"{self.source_name} has {len(self.sources)} lines but {self.reference_name} has "
                f"{len(self.references)}: both must have the same number of lines"
            )
        for lines, name, path in (
            (self.sources, self.source_name, self.source_path),
            (self.references, self.reference_name, self.reference_path),
        ):
            # A text of empty lines is nearly always the wrong file, and would get meaningless scores.
            if not any(line.strip() for line in lines):
                raise DataError(f"{name}: the {'list' if path is None else 'file'} contains no text")

    @classmethod
    def read(cls, source: Path | str, reference: Path | str) -> Self:
        """Read the lines of two parallel files, plain or compressed.

        Raises:
            DataError: if a file cannot be read or contains no text, or the numbers of lines differ.
        """
        pairs = list(read_pairs(CorpusConfig(source=str(source), target=str(reference))))
        sources, references = (tuple(pair[side] for pair in pairs) for side in (0, 1))
        return cls(sources, references, str(source), str(reference))

    @property
    def source_name(self) -> str:
        """Name of the source side, for messages."""
        return self.source_path or "sources"

    @property
    def reference_name(self) -> str:
        """Name of the references, for messages."""
        return self.reference_path or "references"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of source and reference lines."""
        return list(zip(self.sources, self.references, strict=True))

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.sources)


def check_names(names: Sequence[str] | None, defaults: Sequence[str], kind: str = "models") -> list[str]:
    """Return the display names of systems, by default `defaults`.

    Raises:
        UsageError: if the number of names differs from the number of systems, or a name is empty or occurs
            twice.
    """
    chosen = [readable(name) for name in (defaults if names is None else names)]
    if len(chosen) != len(defaults):
        raise UsageError(
            f"--names has {len(chosen)} names but there are {len(defaults)} {kind}: "
            f"give one name per {kind.removesuffix('s')}"
        )
    # Names are the keys of results, so a second system of the same name would replace the first.
    if len(set(chosen)) < len(chosen) or not all(chosen):
        raise UsageError(
            f"the names of the {kind} must be different and not empty, not {', '.join(chosen)}: "
            "choose them with --names"
        )
    return chosen
