"""A first run from two text files: `regard.init_run` examines them and writes a commented TOML file."""

import filecmp
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from regard.api.run_template import RunPlan, plan_run, render_run
from regard.config import from_dict
from regard.config.results import Result
from regard.errors import DataError, UsageError
from regard.text.compression import is_compressed, remove_suffix
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.directories import atomic_directory
from regard.text.files import is_special_file, write_atomic
from regard.text.paths import check_name, check_outputs
from regard.text.reading import open_regular_file
from regard.text.text_survey import TextSurvey, survey_pairs
from regard.training.run_config import RunConfig

__all__ = ["InitializedRun", "init_run"]

MIN_PAIRS = 50
"""Number of training pairs below which no run is written."""
MAX_VALID_PAIRS, MIN_VALID_PAIRS, VALID_SHARE = 1_000, 10, 20
"""By default, a twentieth of the pairs is the validation text, within these limits."""


@dataclass(frozen=True, repr=False)
class InitializedRun(Result):
    """A new run and the survey of its text.

    Attributes:
        path: The TOML file.
        output_dir: The model directory of the run.
        num_train: The number of training pairs.
        num_valid: The number of validation pairs.
        survey: The survey of the text, with the validation pairs if they are its last lines.
        plan: The settings that were chosen by the amount of text.
        findings: Sentences that describe the text.
        warnings: Sentences about what may harm the translations.
    """

    schema: ClassVar[str] = "init"

    path: Path
    output_dir: str
    num_train: int
    num_valid: int
    survey: TextSurvey
    plan: RunPlan
    findings: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """Return the numbers of the text, the settings and the warnings."""
        survey = self.survey
        return {
            "path": str(self.path),
            "output_dir": self.output_dir,
            "num_train": self.num_train,
            "num_valid": self.num_valid,
            "source": asdict(survey.source),
            "target": asdict(survey.target),
            "empty": survey.empty,
            "duplicates": survey.duplicates,
            "untranslated": survey.untranslated,
            "suspicious": survey.suspicious,
            "examples": {name: list(lines) for name, lines in survey.examples.items()},
            "plan": asdict(self.plan),
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        """Return the file, the numbers of pairs and the number of warnings."""
        return (
            f"InitializedRun({self.path}: {self.num_train:,} training and {self.num_valid:,} validation "
            f"pairs, {self.plan.kind}, {len(self.warnings)} warnings)"
        )


def init_run(
    source: Path | str,
    target: Path | str,
    output: Path | str = "run.toml",
    *,
    valid: tuple[Path | str, Path | str] | None = None,
    num_valid: int | None = None,
    output_dir: Path | str | None = None,
    overwrite: bool = False,
) -> InitializedRun:
    """Examine two parallel files and write a commented TOML file of a run, as `regard init` does.

    Without `valid`, the last lines become the validation text: both parts are written to the directory
    `NAME-text` next to the file `NAME.toml`. If the call is interrupted, the same call completes the run.

    Args:
        source: Source text, one sentence per line, plain or compressed.
        target: Target text, one line per source line.
        output: TOML file to write.
        valid: Source and target text for validation. Default: the last lines of the training text.
        num_valid: Number of last lines for validation. Default: a twentieth of the text, from 10 to 1,000.
        output_dir: Model directory of the run. Default: `runs/NAME`.
        overwrite: Whether to replace an existing TOML file and its text, if they differ from the new ones.

    Returns:
        The result: the file, the settings, and the survey of the text.

    Raises:
        DataError: if a file is missing, empty, not text or too short, or the numbers of lines differ.
        UsageError: if the output exists and differs, or is an input or a directory, a name is not valid
            UTF-8, or arguments contradict each other.
    """
    path = Path(output)
    if num_valid is not None and num_valid < 1:
        raise UsageError(f"num_valid (--num-valid) is {num_valid}: expected at least 1")
    if valid is not None and num_valid is not None:
        raise UsageError("give either files for validation (--valid) or a number of lines (--num-valid)")
    corpus, files = _check_files(source, target, valid)
    validation = None if valid is None else CorpusConfig(source=str(valid[0]), target=str(valid[1]))
    model_dir = f"runs/{path.stem}" if output_dir is None else str(output_dir)
    # Without files for validation, the text is split into two new ones.
    _check_output(path, files, split=validation is None)
    text = _text_files(path, corpus) if validation is None else {"train": corpus, "valid": validation}
    survey = survey_pairs(read_pairs(corpus))
    if validation is not None:
        num_train, held_out, shared = survey.pairs, sum(1 for _ in read_pairs(validation)), 0
    else:
        held_out = _default_valid(survey.pairs) if num_valid is None else num_valid
        num_train = max(0, survey.pairs - held_out)
        shared = survey.count_shared(num_train)
    _check_size(survey, num_train, held_out, corpus)
    plan, findings = plan_run(survey, num_train), survey.describe(num_train, held_out)
    directories = model_dir, f"prepared/{path.stem}"
    content = render_run(plan, _names(text["train"]), _names(text["valid"]), directories, findings)
    from_dict(RunConfig, tomllib.loads(content), origin=str(path))
    write_text = partial(_write_split, corpus, text, num_train) if validation is None else None
    _write_run(path, content, write_text, overwrite)
    warnings = survey.warnings(num_train, held_out, shared, str(corpus.source))
    return InitializedRun(path, model_dir, num_train, held_out, survey, plan, findings, warnings)


def _check_size(survey: TextSurvey, num_train: int, num_valid: int, corpus: CorpusConfig) -> None:
    """Raise DataError if there are too few training pairs; those with an empty side are dropped."""
    usable = max(0, num_train - survey.empty)
    if usable < MIN_PAIRS:
        raise DataError(
            f"{corpus.source} and {corpus.target}: {usable} training pairs, without {num_valid} for "
            f"validation and {survey.empty} with an empty side, are too few: training needs at "
            f"least {MIN_PAIRS}, and useful translations several thousand"
        )


def _names(corpus: CorpusConfig) -> tuple[str, str]:
    return str(corpus.source), str(corpus.target)


def _check_files(
    source: Path | str, target: Path | str, valid: tuple[Path | str, Path | str] | None
) -> tuple[CorpusConfig, list[Path]]:
    """Return the corpus of the training text and all input files, after checking that they are text.

    Raises:
        DataError: if a file is missing or not text.
        UsageError: if source and target are the same file.
    """
    files = [Path(source), Path(target), *map(Path, valid or ())]
    for path in files:
        check_name(path)
        with open_regular_file(path) as file:
            start = file.read(1 << 13)
        # UTF-16 text without a byte order mark can be valid UTF-8 with zero bytes.
        if b"\0" in start and not is_compressed(start):
            raise DataError(f"{path}: not a text file: it contains zero bytes; convert it to UTF-8")
    for pair in (files[:2], files[2:]):
        if pair and pair[0].resolve() == pair[1].resolve():
            raise UsageError(f"{pair[0]}: source and target are the same file")
    return CorpusConfig(source=str(source), target=str(target)), files


def _text_files(path: Path, corpus: CorpusConfig) -> dict[str, CorpusConfig]:
    """Return the files of the training and the validation part, with the endings of the original files."""
    endings = [Path(remove_suffix(name)).suffix[1:] for name in _names(corpus)]
    if not all(ending.isalnum() for ending in endings) or endings[0] == endings[1]:
        endings = ["source", "target"]
    directory = _text_dir(path)
    return {
        split: CorpusConfig(
            source=str(directory / f"{split}.{endings[0]}"), target=str(directory / f"{split}.{endings[1]}")
        )
        for split in ("train", "valid")
    }


def _text_dir(path: Path) -> Path:
    return path.with_name(f"{path.stem}-text")


def _check_output(path: Path, inputs: list[Path], split: bool) -> None:
    """Raise UsageError if the output is an input, a directory, or a device next to which text is written."""
    check_name(path)
    if path.is_dir():
        raise UsageError(f"{path}: Is a directory; give the name of a file, such as {path / 'run.toml'}")
    if split and is_special_file(path):
        raise UsageError(f"{path}: the text is written next to the output, which must be a regular file")
    check_outputs(inputs, [path], [_text_dir(path)] if split else [])


def _exists_error(path: Path) -> UsageError:
    return UsageError(f"{path}: the file exists; choose another output file or give --overwrite")


def _default_valid(pairs: int) -> int:
    return min(MAX_VALID_PAIRS, max(MIN_VALID_PAIRS, pairs // VALID_SHARE))


def _write_run(path: Path, content: str, write_text: Callable[[Path], None] | None, overwrite: bool) -> None:
    """Write the TOML file and its text, both of which are complete before one replaces an old one.

    Args:
        path: The TOML file.
        content: Its content.
        write_text: Writes the text into a directory. None if the run has its own files.
        overwrite: Whether existing files may be replaced.

    Raises:
        UsageError: if the file exists with another content, or the text exists; see `_check_old_text`.
        DataError: if a file cannot be written. The old ones are then unchanged.
    """
    # The same file was written by an earlier call, which may have been killed before it wrote the text.
    if not overwrite and path.is_file() and path.read_bytes() != content.encode():
        raise _exists_error(path)
    if write_text is None:
        write_atomic(path, content.encode())
        return
    directory = _text_dir(path)
    try:
        with atomic_directory(directory) as new_directory:
            write_text(new_directory)
            _check_old_text(directory, new_directory, path.is_file(), overwrite)
            write_atomic(path, content.encode())
    except OSError as error:
        raise DataError(f"{directory}: cannot be written: {error.strerror or error}") from None


def _write_split(
    corpus: CorpusConfig, text: dict[str, CorpusConfig], num_train: int, directory: Path
) -> None:
    """Write the first pairs as the training text and the others as the validation text."""
    pairs: Iterator[tuple[str, str]] = iter(read_pairs(corpus))
    for split, number in (("train", num_train), ("valid", None)):
        with ExitStack() as stack:
            names = [directory / Path(name).name for name in _names(text[split])]
            files = [stack.enter_context(open(name, "wb")) for name in names]
            for pair in islice(pairs, number):
                for file, line in zip(files, pair, strict=True):
                    file.write(f"{line}\n".encode())


def _check_old_text(old: Path, new: Path, continues: bool, overwrite: bool) -> None:
    """Check that replacing a directory loses nothing.

    Args:
        old: The directory, which need not exist.
        new: Its new content.
        continues: Whether the TOML file is that of an earlier call, so that its text may exist, too.
        overwrite: Whether the text may be replaced.

    Raises:
        UsageError: if it has other files, or a text that may not be replaced.
    """
    for path in sorted(old.iterdir()) if old.exists() else ():
        if not (new / path.name).is_file():
            raise UsageError(f"{path}: this file would be lost; move it, or choose another output file")
        if not overwrite and not (continues and filecmp.cmp(path, new / path.name, shallow=False)):
            raise _exists_error(path)
