"""A first run from two text files: `regard.init_run` examines them and writes a commented TOML file."""

import filecmp
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from regard.api.run_template import RunPlan, plan_run, render_run
from regard.config import from_dict
from regard.config.results import Result
from regard.errors import DataError, UsageError
from regard.text.compression import remove_suffix
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.files import atomic_directory, write_atomic
from regard.text.paths import check_name, check_outputs, is_special_file
from regard.text.reading import open_regular_file
from regard.text.text_survey import TextSurvey, survey_pairs
from regard.training.run_config import RunConfig

__all__ = ["InitializedRun", "init_run"]

MIN_PAIRS = 50
"""Number of training pairs below which no run is written."""
MAX_VALID_PAIRS, MIN_VALID_PAIRS, VALID_SHARE = 1_000, 10, 20
"""By default, a twentieth of the pairs is the validation text, within these limits."""
_Files = tuple[str, str]
"""The names of the source and the target file."""


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
        survey = {
            name: value for name, value in asdict(self.survey).items() if name not in ("pairs", "hashes")
        }
        return {
            "path": str(self.path),
            "output_dir": self.output_dir,
            "num_train": self.num_train,
            "num_valid": self.num_valid,
            **survey,
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
    train = str(source), str(target)
    files = {"train": train, "valid": train if valid is None else (str(valid[0]), str(valid[1]))}
    _check_files(path, files, is_split=valid is None)
    model_dir = f"runs/{path.stem}" if output_dir is None else str(output_dir)
    survey = survey_pairs(_read(train))
    if valid is None:
        most = min(MAX_VALID_PAIRS, max(MIN_VALID_PAIRS, survey.pairs // VALID_SHARE))
        held_out = most if num_valid is None else num_valid
        num_train = max(0, survey.pairs - held_out)
        shared, files = survey.count_shared(num_train), _text_files(path, train)
    else:
        num_train, held_out, shared = survey.pairs, sum(1 for _ in _read(files["valid"])), 0
    _check_size(survey, num_train, held_out, train)
    plan, findings = plan_run(survey, num_train), survey.describe(num_train, held_out)
    content = render_run(plan, files["train"], files["valid"], (model_dir, f"prepared/{path.stem}"), findings)
    from_dict(RunConfig, tomllib.loads(content), origin=str(path))
    # The same file was written by an earlier call, which may have been killed before it wrote the text.
    if not overwrite and path.is_file() and path.read_bytes() != content.encode():
        raise _exists_error(path)
    if valid is None:
        _write_text(path, content, train, files, num_train, overwrite)
    else:
        write_atomic(path, content.encode())
    warnings = survey.warnings(num_train, held_out, shared)
    return InitializedRun(path, model_dir, num_train, held_out, survey, plan, findings, warnings)


def _read(files: _Files) -> Iterator[tuple[str, str]]:
    return iter(read_pairs(CorpusConfig(source=files[0], target=files[1])))


def _check_files(path: Path, files: dict[str, _Files], is_split: bool) -> None:
    """Check the names of all files, before the text is read.

    Raises:
        DataError: if a file of the text is missing or not a regular file.
        UsageError: if two files are the same, or the output cannot be written.
    """
    inputs = [Path(name) for names in files.values() for name in names]
    for file in inputs:
        check_name(file)
        open_regular_file(file).close()
    for source, target in files.values():
        if Path(source).resolve() == Path(target).resolve():
            raise UsageError(f"{source}: source and target are the same file")
    check_name(path)
    if path.is_dir():
        raise UsageError(f"{path}: Is a directory; give the name of a file, such as {path / 'run.toml'}")
    if is_split and is_special_file(path):
        raise UsageError(f"{path}: the text is written next to the output, which must be a regular file")
    check_outputs(inputs, [path], [_text_dir(path)] if is_split else [])


def _check_size(survey: TextSurvey, num_train: int, num_valid: int, files: _Files) -> None:
    """Raise DataError if there are too few training pairs; those with an empty side are dropped."""
    usable = max(0, num_train - survey.empty)
    if usable < MIN_PAIRS:
        raise DataError(
            f"{files[0]} and {files[1]}: {usable} training pairs, without {num_valid} for validation and "
            f"{survey.empty} with an empty side, are too few: training needs at least {MIN_PAIRS}, and "
            "useful translations several thousand"
        )


def _text_dir(path: Path) -> Path:
    return path.with_name(f"{path.stem}-text")


def _text_files(path: Path, train: _Files) -> dict[str, _Files]:
    """Return the files of the training and the validation part, with the endings of the original files."""
    first, second = (Path(remove_suffix(name)).suffix[1:] for name in train)
    if not (first.isalnum() and second.isalnum()) or first == second:
        first, second = "source", "target"
    directory = _text_dir(path)
    return {
        split: (str(directory / f"{split}.{first}"), str(directory / f"{split}.{second}"))
        for split in ("train", "valid")
    }


def _exists_error(path: Path) -> UsageError:
    return UsageError(f"{path}: the file exists; choose another output file or give --overwrite")


def _write_text(
    path: Path, content: str, train: _Files, files: dict[str, _Files], num_train: int, overwrite: bool
) -> None:
    """Write the text of both parts and the TOML file; all are complete before one replaces an old one.

    Raises:
        UsageError: if the directory of the text has other files, or a text that may not be replaced.
        DataError: if a file cannot be written. The old ones are then unchanged.
    """
    directory, pairs = _text_dir(path), _read(train)
    try:
        with atomic_directory(directory) as new:
            for names, number in ((files["train"], num_train), (files["valid"], None)):
                with ExitStack() as stack:
                    outputs = [stack.enter_context(open(new / Path(name).name, "wb")) for name in names]
                    for pair in islice(pairs, number):
                        for output, line in zip(outputs, pair, strict=True):
                            output.write(f"{line}\n".encode())
            for old in sorted(directory.iterdir()) if directory.exists() else ():
                if not (new / old.name).is_file():
                    raise UsageError(
                        f"{old}: this file would be lost; move it, or choose another output file"
                    )
                if not overwrite and not filecmp.cmp(old, new / old.name, shallow=False):
                    raise _exists_error(old)
            write_atomic(path, content.encode())
    except OSError as error:
        raise DataError(f"{directory}: cannot be written: {error.strerror or error}") from None
