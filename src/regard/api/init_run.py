"""A first run from two text files: `regard.init_run` examines them and writes a commented TOML file.

Little text needs few subwords, a small recurrent model and much dropout (Sennrich & Zhang, 2019); much text
needs the Transformer in the sizes of Vaswani et al. (2017). The recurrent model of 512 units is that of
`recipes/multi30k-lstm.toml`, which was measured.
"""

import filecmp
import json
import math
import tomllib
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from importlib.resources import files as package_files
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, StrictUndefined

from regard.api.arguments import corpus_files
from regard.config import from_dict
from regard.config.results import Result
from regard.errors import DataError, UsageError
from regard.text.compression import remove_suffix
from regard.text.corpus import CorpusConfig, corpus_name, read_pairs, read_segments
from regard.text.files import atomic_directory, write_atomic
from regard.text.formats.base import FileOptions
from regard.text.paths import check_name, check_outputs, is_special_file
from regard.text.reading import open_regular_file
from regard.text.text_survey import TextSurvey, survey_pairs
from regard.training.run_config import RunConfig

MIN_PAIRS = 50
"""Number of training pairs below which no run is written."""
MAX_VALID_PAIRS, MIN_VALID_PAIRS, VALID_SHARE = 1_000, 10, 20
"""By default, a twentieth of the pairs is the validation text, within these limits."""
CHARACTERS_PER_TOKEN = {"CJK": 1.3}
OTHER_CHARACTERS_PER_TOKEN = 3.5
"""Average characters of a subword token, for estimates of lengths and numbers of tokens."""
NUM_BYTE_TOKENS = 256
MIN_EPOCHS = 3


@dataclass(frozen=True)
class RunPlan:
    """The chosen settings.

    Attributes:
        kind: The architecture.
        vocab_size: The size of the subword vocabulary.
        width: The embedding and hidden size, or d_model.
        num_layers: The number of layers of encoder and decoder.
        dropout: The dropout probability.
        batch_size: The batch size, in sentences for `rnn` and in tokens for `transformer`.
        max_epochs: The maximum number of epochs.
        joint: Whether source and target share subwords and embeddings, since they have the same script.
        max_length: The maximum number of tokens of a training sentence.
        steps_per_epoch: The approximate number of steps of an epoch.
    """

    kind: Literal["rnn", "transformer"]
    vocab_size: int
    width: int
    num_layers: int
    dropout: float
    batch_size: int
    max_epochs: int
    joint: bool = False
    max_length: int = 100
    steps_per_epoch: int = 1


MODEL_CLASSES = (
    (5_000, 6_000, RunPlan("rnn", 2_000, 256, 1, 0.4, 32, 100)),
    (20_000, 8_000, RunPlan("rnn", 4_000, 384, 1, 0.4, 64, 60)),
    (100_000, 25_000, RunPlan("rnn", 8_000, 512, 2, 0.4, 64, 40)),
    (1_000_000, 50_000, RunPlan("transformer", 16_000, 512, 4, 0.2, 8_192, 30)),
    (math.inf, 100_000, RunPlan("transformer", 32_000, 512, 6, 0.1, 16_384, 10)),
)
"""The maximum number of pairs, the approximate number of training steps, and the settings."""


OTHER_CLASSES: dict[str, dict[str, Any]] = {
    "rnn": {"kind": "rnn", "width": 512, "num_layers": 2, "batch_size": 64},
    "transformer": {
        "kind": "transformer",
        "width": 256,
        "num_layers": 3,
        "dropout": 0.3,
        "batch_size": 2_048,
    },
}
"""The settings of an architecture that is not that of its amount of text, as in `recipes/multi30k-*.toml`."""


def plan_run(
    survey: TextSurvey, num_train: int, kind: Literal["rnn", "transformer"] | None = None
) -> RunPlan:
    """Return the settings of a run.

    Args:
        survey: The survey of the text.
        num_train: The number of training pairs.
        kind: The architecture. Default: that of the amount of text.
    """
    steps, plan = next((steps, plan) for pairs, steps, plan in MODEL_CLASSES if num_train <= pairs)
    if kind not in (None, plan.kind):
        plan = replace(plan, **OTHER_CLASSES[kind])
    sides = survey.source, survey.target
    rates = [CHARACTERS_PER_TOKEN.get(side.script, OTHER_CHARACTERS_PER_TOKEN) for side in sides]
    joint = survey.source.script == survey.target.script
    distinct = (sum if joint else max)(side.distinct_characters for side in sides)
    # SentencePiece needs a token for each character, and the bytes.
    needed = 500 * math.ceil((1.2 * distinct + NUM_BYTE_TOKENS) / 500)
    examples = float(num_train)
    if plan.kind == "transformer":
        tokens = max(side.characters / rate for side, rate in zip(sides, rates, strict=True))
        examples = tokens * num_train / max(1, survey.pairs)
    steps_per_epoch = max(1, math.ceil(examples / plan.batch_size))
    longest = max(side.long_characters / rate for side, rate in zip(sides, rates, strict=True))
    return replace(
        plan,
        vocab_size=max(plan.vocab_size, needed),
        joint=joint,
        max_length=min(400, max(100, 50 * math.ceil(longest / 50))),
        steps_per_epoch=steps_per_epoch,
        max_epochs=min(plan.max_epochs, max(MIN_EPOCHS, math.ceil(steps / steps_per_epoch))),
    )


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

    schema = "init"
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
    target: Path | str | None = None,
    output: Path | str = "run.toml",
    *,
    valid: tuple[Path | str, Path | str] | None = None,
    output_dir: Path | str | None = None,
    model: Literal["rnn", "transformer"] | None = None,
    file_options: FileOptions | None = None,
) -> InitializedRun:
    """Examine parallel text and write a commented TOML file of a run, as `regard init` does.

    Without `valid`, the last lines become the validation text: both parts are written to the directory
    `NAME-text` next to the file `NAME.toml`. If the call is interrupted, the same call completes the run.

    Args:
        source: Source text, one sentence per line, plain or compressed; or a file with both sides: TSV, CSV,
            JSONL, PO, XLIFF or TMX.
        target: Target text, one line per source line. Default: that of a file with both sides.
        output: TOML file to write.
        valid: Source and target text for validation. Default: the last lines of the training text, a
            twentieth of it but at least 10 and at most 1,000 lines.
        output_dir: Model directory of the run. Default: `runs/NAME`.
        model: Architecture: rnn (an LSTM) or transformer, which `regard export` requires. Default: rnn for up
            to 100,000 training pairs.
        file_options: Format of a file with both sides.

    Raises:
        DataError: if a file is missing, empty, not text or too short, or the numbers of lines differ.
        UsageError: if the output exists and differs, or is an input or a directory, a name is not valid
            UTF-8, or arguments contradict each other.
    """
    path = Path(output)
    train = corpus_files(source, target, file_options)
    files = {"train": train, "valid": train if valid is None else corpus_files(*valid, None)}
    _check_files(path, files, is_split=valid is None)
    model_dir = f"runs/{path.stem}" if output_dir is None else str(output_dir)
    check_name(model_dir)
    survey = survey_pairs((segment.source, segment.target) for segment in read_segments(train))
    if valid is None:
        held_out = min(MAX_VALID_PAIRS, max(MIN_VALID_PAIRS, survey.pairs // VALID_SHARE))
        num_train = max(0, survey.pairs - held_out)
        files = _text_files(path, train)
    else:
        num_train, held_out = survey.pairs, sum(1 for _ in read_pairs(files["valid"]))
    _check_size(survey, num_train, held_out, train)
    plan, findings = plan_run(survey, num_train, model), survey.describe(num_train, held_out)
    content = render_run(plan, files["train"], files["valid"], (model_dir, f"prepared/{path.stem}"), findings)
    from_dict(RunConfig, tomllib.loads(content), origin=str(path))
    # The same file was written by an earlier call, which may have been killed before it wrote the text.
    if path.is_file() and path.read_bytes() != content.encode():
        raise UsageError(f"{path}: the file exists; move it, or choose another output file")
    if valid is None:
        _write_text(path, content, train, files, num_train)
    else:
        write_atomic(path, content.encode())
    warnings = survey.warnings(num_train, held_out)
    return InitializedRun(path, model_dir, num_train, held_out, survey, plan, findings, warnings)


def render_run(
    plan: RunPlan,
    train: CorpusConfig,
    valid: CorpusConfig,
    directories: tuple[str, str],
    findings: tuple[str, ...],
) -> str:
    """Return the TOML file of a run.

    Args:
        plan: The settings.
        train: The files of the training text.
        valid: The files of the validation text.
        directories: The model directory and that of the preprocessed text.
        findings: A description of the text for the first comment, one line each.
    """
    environment = Environment(
        autoescape=False, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    environment.filters["quoted"] = _quote
    template = package_files("regard.api").joinpath("assets", "run.toml.j2").read_text(encoding="utf-8")
    names = {
        "train": _inline_table(train),
        "valid": _inline_table(valid),
        "output_dir": directories[0],
        "cache_dir": directories[1],
    }
    return environment.from_string(template).render(plan=plan, findings=findings, **names)


def _quote(value: Any) -> str:
    """Return a text or a list of texts in TOML, whose escapes are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inline_table(corpus: CorpusConfig) -> str:
    """Return the files of a corpus and their format in TOML."""
    names = ("source", "target", "file", *(field.name for field in fields(FileOptions)))
    options = ((name, getattr(corpus, name)) for name in names)
    return f"{{ {', '.join(f'{name} = {_quote(value)}' for name, value in options if value)} }}"


def _check_files(path: Path, files: dict[str, CorpusConfig], is_split: bool) -> None:
    """Check the names of all files, before the text is read."""
    inputs = [Path(name) for corpus in files.values() for name in _names(corpus)]
    for file in inputs:
        check_name(file)
        open_regular_file(file).close()
    for source, target in (_names(corpus) for corpus in files.values() if corpus.file is None):
        if Path(source).resolve() == Path(target).resolve():
            raise UsageError(f"{source}: source and target are the same file")
    check_name(path)
    if path.is_dir():
        raise UsageError(f"{path}: Is a directory; give the name of a file, such as {path / 'run.toml'}")
    if is_split and is_special_file(path):
        raise UsageError(f"{path}: the text is written next to the output, which must be a regular file")
    check_outputs(inputs, [path], [path.with_name(f"{path.stem}-text")] if is_split else [])


def _names(corpus: CorpusConfig) -> list[str]:
    """Return the files of a corpus."""
    return [name for name in (corpus.source, corpus.target, corpus.file) if name is not None]


def _check_size(survey: TextSurvey, num_train: int, num_valid: int, corpus: CorpusConfig) -> None:
    """Raise DataError if there are too few training pairs; those with an empty side are dropped."""
    usable = max(0, num_train - survey.empty)
    if usable < MIN_PAIRS:
        raise DataError(
            f"{corpus_name(corpus)}: only {usable} training pairs are left after {num_valid} for validation "
            f"and {survey.empty} with an empty side; training needs at least {MIN_PAIRS}, ideally several "
            "thousand"
        )


def _text_files(path: Path, train: CorpusConfig) -> dict[str, CorpusConfig]:
    """Return the files of the training and the validation part, with the endings of the original files."""
    names = train.source or "", train.target or ""
    first, second = (Path(remove_suffix(name)).suffix[1:] for name in names)
    if not (first.isalnum() and second.isalnum()) or first == second:
        first, second = "source", "target"
    directory = path.with_name(f"{path.stem}-text")
    return {
        split: corpus_files(directory / f"{split}.{first}", directory / f"{split}.{second}", None)
        for split in ("train", "valid")
    }


def _write_text(
    path: Path, content: str, train: CorpusConfig, files: dict[str, CorpusConfig], num_train: int
) -> None:
    """Write the text of both parts and the TOML file, if no other file is replaced."""
    directory, pairs = path.with_name(f"{path.stem}-text"), read_pairs(train)
    try:
        with atomic_directory(directory) as new:
            for corpus, number in ((files["train"], num_train), (files["valid"], None)):
                with ExitStack() as stack:
                    outputs = [
                        stack.enter_context(open(new / Path(name).name, "wb")) for name in _names(corpus)
                    ]
                    for pair in islice(pairs, number):
                        for output, line in zip(outputs, pair, strict=True):
                            output.write(f"{line}\n".encode())
            for old in sorted(directory.iterdir()) if directory.exists() else ():
                # The same text was written by an earlier call.
                if not (new / old.name).is_file() or not filecmp.cmp(old, new / old.name, shallow=False):
                    raise UsageError(f"{old}: the file exists; move it, or choose another output file")
            write_atomic(path, content.encode())
    except OSError as error:
        raise DataError(f"{directory}: cannot be written: {error.strerror or error}") from None
