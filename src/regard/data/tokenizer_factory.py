"""Training and loading of the tokenizers of both sides of a corpus."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from regard.data.punctuation import TextFormat, TextFormatDetector
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.registry import TOKENIZERS, TokenizerConfig

__all__ = [
    "check_joint_tokenizers",
    "create_tokenizers",
    "detect_text_format",
    "learn_tokenizers",
    "load_tokenizer",
]


def load_tokenizer(config: TokenizerConfig, directory: Path, side: str) -> Tokenizer:
    """Load a tokenizer that was written by `Tokenizer.save`.

    Args:
        config: The configuration of the tokenizer.
        directory: The directory of its files.
        side: `source` or `target`.

    Raises:
        DataError: if a file is missing or invalid.
    """
    return TOKENIZERS.part_of(config).load(config, directory, side)


def detect_text_format(
    counter: TextFormatDetector, config: TokenizerConfig, files: Sequence[str | None]
) -> TextFormat:
    """Return the format of the training text of one side; see `Tokenizer.detect_format`.

    Args:
        counter: The punctuation counts of the text.
        config: The configuration of the tokenizer.
        files: The files of the text. Their extensions (`train.de`, `train.de.gz`) give the language.
    """
    names = [Path("" if name is None else name.removesuffix(".gz")) for name in files]
    extensions = {name.suffix.removeprefix(".") for name in names}
    extension = extensions.pop() if len(extensions) == 1 else ""
    language = extension if re.fullmatch("[a-z]{2}", extension) else None
    return TOKENIZERS.part_of(config).detect_format(config, counter, language)


def check_joint_tokenizers(source: TokenizerConfig, target: TokenizerConfig) -> None:
    """Check that a joint tokenizer has the same settings on both sides, except for the language.

    Raises:
        ValueError: if the settings differ.
    """
    if getattr(source, "joint", False) or getattr(target, "joint", False):
        settings = [{**vars(side), "language": None} for side in (source, target)]
        if settings[0] != settings[1]:
            raise ValueError(
                "a joint tokenizer is trained on both sides with the same settings, except for the language: "
                "use equal settings for source_tokenizer and target_tokenizer, or set joint = false"
            )


def create_tokenizers(
    source: TokenizerConfig, target: TokenizerConfig, texts: tuple[Iterable[str], Iterable[str]]
) -> tuple[Tokenizer, Tokenizer]:
    """Return tokenizers that can `pretokenize`, trained on raw text if they need it.

    Args:
        source: Configuration of the source tokenizer.
        target: Configuration of the target tokenizer.
        texts: The training lines of each side, which are consumed only if needed.
    """
    if getattr(source, "joint", False):
        first = TOKENIZERS.part_of(source).create(source, chain.from_iterable(texts), "source")
        return first, first.with_config(target)
    return (
        TOKENIZERS.part_of(source).create(source, texts[0], "source"),
        TOKENIZERS.part_of(target).create(target, texts[1], "target"),
    )


def learn_tokenizers(
    tokenizers: tuple[Tokenizer, Tokenizer], counts: tuple[Mapping[str, int], Mapping[str, int]]
) -> tuple[Tokenizer, Tokenizer]:
    """Return tokenizers that can also `segment`, trained on unit counts if they need it.

    Args:
        tokenizers: The source and the target tokenizer of `create_tokenizers`.
        counts: The frequency of each unit in the training text of each side.
    """
    source, target = tokenizers
    if getattr(source.config, "joint", False):
        units = {unit: counts[0].get(unit, 0) + counts[1].get(unit, 0) for side in counts for unit in side}
        learned = source.learn(units)
        return learned, learned.with_config(target.config)
    return source.learn(counts[0]), target.learn(counts[1])
