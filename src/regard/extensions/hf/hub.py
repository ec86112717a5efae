"""Models and checkers on the Hugging Face Hub: download by name, and upload with a card.

Only files that belong to a model are transferred, and of weights only those that cannot contain code. This
module imports neither PyTorch nor transformers, because checkers need neither.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.config.extensions import require_hook
from regard.errors import CheckpointError, DataError, RegardError, UsageError
from regard.extensions.hf.files import convert_errors, import_package
from regard.text.files import write_atomic
from regard.text.paths import check_link
from regard.version import __version__

_NAME = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w./-]+))?")
_PARTS = [
    *("README.md", "LICENSE*", "config.toml", "*.safetensors", "model.safetensors.index.json"),
    *("text.json", "*aligner.json", "*checker.json", "predictor/predictor.json", "phrase/about.json"),
    *("*.vocabulary", "*.words", "*.fertility", "*.bpe", "*.sentencepiece", "*.pretrained", "*.model"),
    *("*config.json", "*tokenizer*.json", "*tokens*.json", "*vocab*.json", "*vocab*.txt", "*.vocab"),
    *("merges.txt", "*.spm", "chat_template.*", "sealed.json"),
    "model.bin",  # of CTranslate2, no pickle
]
"""Patterns of the files of a model."""
_NO_PARTS = [".*", "*/.*", "training/*", "run/*", "*checkpoint*", "*optimizer*", "onnx/*", "openvino/*"]
"""Patterns of files with such names that are not, such as the state of a training."""


def _import_hub(purpose: str) -> Any:
    message = f"{purpose} the package huggingface_hub: pip install 'regard[hub]'"
    return import_package("huggingface_hub", message)


@contextmanager
def _connect(subject: str) -> Iterator[None]:
    """Convert the errors of a connection to one message about a subject. Only terminals show progress."""
    from huggingface_hub import errors, utils

    unreachable = "cannot be reached, and the model is not in its cache"
    reasons = {
        errors.RevisionNotFoundError: "has no such revision",
        errors.RepositoryNotFoundError: "has no such model, or you must log in (`hf auth login`)",
        errors.LocalEntryNotFoundError: unreachable,
        errors.OfflineModeIsEnabled: unreachable,
    }
    is_silenced = not utils.are_progress_bars_disabled() and not sys.stderr.isatty()
    if is_silenced:
        utils.disable_progress_bars()
    try:
        yield
    except RegardError:
        raise
    except Exception as error:
        known = (reason for kind, reason in reasons.items() if isinstance(error, kind))
        cause = str(error).strip().partition("\n")[0] or type(error).__name__
        reason = next(known, f"cannot be used: {cause}")
        raise CheckpointError(f"{subject} the Hugging Face Hub {reason}") from None
    finally:
        if is_silenced:
            utils.enable_progress_bars()


def download(name: str) -> Path:
    """Return the directory of a model in the cache of Hugging Face, to which it is downloaded.

    Args:
        name: `organization/name` or `organization/name@revision`. Other names are returned as paths.

    Raises:
        CheckpointError: if there is no such model, or it cannot be downloaded.
        UsageError: if `huggingface_hub` is not installed.
    """
    match = _NAME.fullmatch(name)
    # `runs/first` is no name if there are other runs.
    if match is None or Path(match[1]).parent.exists():
        return Path(name)
    hub = _import_hub(f"{name}: no such path, and a model of the Hugging Face Hub needs")
    patterns = {"allow_patterns": _PARTS, "ignore_patterns": _NO_PARTS}
    with _connect(f"{name}: no such path, and"):
        return Path(hub.snapshot_download(match[1], revision=match[2], **patterns))


def upload(
    directory: Path | str,
    repository: str,
    private: bool = False,
    revision: str | None = None,
    languages: Sequence[str] = (),
    dry_run: bool = False,
    on_message: Callable[[str], None] = lambda message: None,
) -> str:
    """Upload a model or a checker to the Hugging Face Hub, with a card.

    Args:
        directory: Model directory, or directory of a checker. If it has no card (`README.md`), one is written
            to it. State of the training, logs and text are not uploaded.
        repository: Name on the Hub, such as `organization/name`. A repository is created if there is none.
        private: Whether to hide a new repository from others.
        revision: Branch, which is created if there is none. Default: the main branch.
        languages: Language codes of source and target in a new card. Default: those of the model.
        dry_run: Whether to only write the card and list the files, without an upload.
        on_message: Function that is called with the names of the files.

    Returns:
        The address of the commit; an empty string of a dry run.

    Raises:
        CheckpointError: if the model is damaged, or the Hub does not accept it.
        DataError: if a file is damaged, or the card has no metadata with a license.
        UsageError: if the directory is neither a model nor a checker, `private` is set for a repository that
            is public, or `huggingface_hub` is not installed.
    """
    directory = Path(directory)
    match = _NAME.fullmatch(repository)
    if match is None or match[2]:
        raise UsageError(f"{repository}: expected a name on the Hub, such as organization/name")
    hub = _import_hub("an upload needs")
    card = directory / "README.md"
    is_new_card = _check_card(directory, card, repository, languages, hub)
    sizes, others = _list_files(directory)
    on_message(f"{directory}: {sum(sizes.values()):,} bytes for {repository}")
    on_message("\n".join(f"  {name}  {size:,} bytes" for name, size in sizes.items()))
    if others:
        on_message(f"not uploaded, because they are not part of the model: {', '.join(others)}")
    if is_new_card:
        on_message(f"the card {card} is new: complete its license, data and limits")
    if dry_run:
        return ""
    api = hub.HfApi(library_name="regard", library_version=__version__)
    with _connect(f"{repository}:"):
        api.create_repo(repository, private=private, exist_ok=True)
        if private and not api.model_info(repository).private:
            raise UsageError(f"{repository}: is public on the Hub already; upload without --private")
        if revision is not None:
            api.create_branch(repository, branch=revision, exist_ok=True)
        added = [hub.CommitOperationAdd(name, directory / name) for name in sizes]
        message = f"Upload with regard {__version__}"
        commit = api.create_commit(repository, added, commit_message=message, revision=revision)
    return str(commit.commit_url)


def _list_files(directory: Path) -> tuple[dict[str, int], list[str]]:
    """Return the files of a model with their sizes in bytes, and the names of the others."""
    from huggingface_hub.utils import filter_repo_objects

    names = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    files = list(filter_repo_objects(names, allow_patterns=_PARTS, ignore_patterns=_NO_PARTS))
    if not any(name.endswith((".safetensors", "model.bin")) for name in files):
        raise UsageError(f"{directory}: has no weights in safetensors, and pickled ones are not uploaded")
    sizes = {name: check_link(directory / name, directory).stat().st_size for name in files}
    shared = {name.partition("/")[0] for name in sizes}
    others = {name: name.partition("/")[0] for name in names if name not in sizes}
    return sizes, sorted({name if top in shared else top for name, top in others.items()})


def _check_card(directory: Path, path: Path, repository: str, languages: Sequence[str], hub: Any) -> bool:
    """Load the model, check the metadata of its card, and return whether the card was written now."""
    is_checker = (directory / "checker.json").is_file()
    content = _describe_checker(directory) if is_checker else _describe_model(directory)
    if is_new := not path.exists():
        data = hub.ModelCardData(
            language=list(languages) or content["languages"] or None,
            license="unknown",
            library_name="regard",
            pipeline_tag=None if is_checker else "translation",
            tags=["translation", *(["quality-estimation"] if is_checker else [])],
            metrics=list(content["figures"]) or None,
        )
        template = Path(__file__).parent / "assets" / "card.md"
        content |= {"repository": repository, "is_checker": is_checker}
        card = hub.ModelCard.from_template(data, str(template), **content)
        write_atomic(path, f"{card}\n".encode())
    with convert_errors(DataError, f"{path}: not a card"):
        if not hub.ModelCard.load(check_link(path, directory)).data.get("license"):
            raise DataError(f"{path}: the metadata at its start, between lines ---, have no license")
    return is_new


def _describe_checker(directory: Path) -> dict[str, Any]:
    """Return the content of the card of a checker, which has neither figures nor names of languages."""
    properties = {"kind": "checker", "software": f"regard {__version__}"}
    # A checker that was trained with an encoder is not loaded without it.
    with suppress(UsageError):
        model = require_hook("checker", "check").load(directory).model
        words = "{:,} source and {:,} target words".format(*map(len, model.aligner.vocabularies))
        properties["vocabulary of the training text"] = words
    return {"properties": properties, "figures": {}, "languages": []}


def _describe_model(directory: Path) -> dict[str, Any]:
    """Return the content of the card of a model: properties, best validation scores, and languages."""
    from regard.analysis.inputs import System
    from regard.api.loading import load_translator
    from regard.reporting.model_card import model_card
    from regard.training.metrics_logger import read_metrics

    translator = load_translator([directory], "cpu")
    rows = model_card(System("", (str(directory),), translator)).rows()
    best = [entry for entry in read_metrics(directory) if entry.get("best")][-1:]
    measures = "bleu", "accuracy", "perplexity"
    formats = translator.text.source.text_format, translator.text.target.text_format
    return {
        "properties": {name: value for name, value, _ in rows if name != "location"},
        "figures": {name: entry[name] for entry in best for name in measures if name in entry},
        "languages": [each.language for each in formats if each.language],
    }
