"""Notes for the reader of a report page: skipped lines, doubtful marks, unequal systems."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.analysis.inputs import ParallelText
from regard.api.companions import FEW_PAIRS, Companions
from regard.metrics.translation import looks_tokenized
from regard.reporting.systems import SystemResults
from regard.runs.description import CONFIG_FILE, read_stated_config

__all__ = ["differing_options", "few_pairs_notes", "page_notes"]

_ATTENTION = ("data.fertility", "model.attention")
_NOT_COMPARED = (
    "data.cache_dir",
    "device",
    "generation",
    "num_threads",
    "output_dir",
    "plugins",
    "training.logging",
)
_MAX_SHOWN = 4  # options in a note
_MAX_VALUE = 40  # characters


def page_notes(systems: Sequence[SystemResults], text: ParallelText, tokenize: str) -> list[str]:
    """Return notes for the reader of the page, such as the number of skipped lines.

    Args:
        systems: The systems.
        text: The whole text, of which the systems may have translated the first lines only.
        tokenize: Tokenizer of BLEU.
    """
    notes: list[str] = []
    num_lines = len(systems[0].sentences)
    if num_lines < len(text):
        notes.append(f"Only the first {num_lines:,} of {len(text):,} lines are included.")
    if tokenize != "none" and looks_tokenized(text.references[:num_lines]):
        notes.append(
            f"Many references end in ' .', so the text may be tokenized. The tokenizer {tokenize} of "
            "BLEU expects detokenized text. Use --tokenize none for tokenized text."
        )
    for system in systems:
        num_too_long = sum(result.error is not None for result in system.sentences)
        if num_too_long:
            notes.append(
                f"{system.name}: {num_too_long} lines are too long for the model and were not translated."
            )
    return notes + _difference_notes(systems)


def few_pairs_notes(companions: Companions | None) -> list[str]:
    """Return a caveat for the reader if the aligner and the coverage model have seen little text."""
    num_pairs = 0 if companions is None else companions.num_pairs()
    if not 0 < num_pairs < FEW_PAIRS:
        return []
    return [
        f"The word aligner and the coverage model were trained on only {num_pairs:,} sentence pairs, so some "
        f"marks are wrong. They become reliable with about {FEW_PAIRS:,} pairs: train both on more text "
        "(regard align --save-aligner, regard check --save-checker), and give them with --aligner and "
        "--checker."
    ]


def differing_options(directories: Sequence[Path]) -> dict[str, list[str]]:
    """Return the options in which models differ from each other.

    The attention mechanism is one option, `attention`: all that `model.attention` and `data.fertility`
    describe. Devices, directories, logs and the settings of search are not compared.

    Args:
        directories: Model directories.

    Returns:
        For each option its value in each model, `-` where it has none; for `attention`, its kind.
    """
    contents = [read_stated_config(directory) for directory in directories]
    flat_configs = [dict(_flat(config)) for config in contents]
    names = dict.fromkeys(name for flat_config in flat_configs for name in flat_config)
    values = {name: [str(flat_config.get(name, "-")) for flat_config in flat_configs] for name in names}
    values = {name: model_values for name, model_values in values.items() if len(set(model_values)) > 1}
    attention = [name for name in values if _belongs(name, _ATTENTION)]
    options = {
        name: model_values
        for name, model_values in values.items()
        if not _belongs(name, _ATTENTION + _NOT_COMPARED)
    }
    if attention:
        options["attention"] = [config["model"].get("attention", {}).get("kind", "-") for config in contents]
    return options


def _belongs(name: str, options: Sequence[str]) -> bool:
    """Return whether a dotted name is one of some options, or within one."""
    return any(name == option or name.startswith(f"{option}.") for option in options)


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the value of each option; a list is one value."""
    for name, item in value.items():
        if isinstance(item, dict):
            yield from _flat(item, f"{prefix}{name}.")
        else:
            yield prefix + name, item


def _difference_notes(systems: Sequence[SystemResults]) -> list[str]:
    """Return a caveat if models of the same kind differ in more than one option."""
    directories = [Path(system.card.paths[0]) for system in systems if system.card is not None]
    directories = [directory for directory in directories if (directory / CONFIG_FILE).is_file()]
    options = differing_options(directories)
    if len(options) < 2 or "model.kind" in options:
        return []
    differences = [
        f"{name} ({', '.join(value[:_MAX_VALUE] for value in values)})" for name, values in options.items()
    ]
    if len(differences) > _MAX_SHOWN:
        differences = [*differences[:_MAX_SHOWN], f"{len(differences) - _MAX_SHOWN} more options"]
    return [
        f"The configurations differ in {', '.join(differences[:-1])} and {differences[-1]}: a difference of "
        "the scores may have more than one cause."
    ]
