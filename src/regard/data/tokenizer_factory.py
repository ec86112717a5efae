"""Training and loading of all tokenizer types that a configuration can select."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from regard.config import TaggedUnion
from regard.data.punctuation import TextFormat, TextFormatDetector
from regard.data.tokenizers.actions import ActionsConfig, ActionsTokenizer
from regard.data.tokenizers.base import Tokenizer
from regard.data.tokenizers.bpe import BytePairConfig, BytePairTokenizer, learn_merges
from regard.data.tokenizers.inflection import InflectionConfig, InflectionTokenizer
from regard.data.tokenizers.moses import MosesConfig, MosesTokenizer
from regard.data.tokenizers.pretrained import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.data.tokenizers.sentencepiece import (
    SentencePieceConfig,
    SentencePieceTokenizer,
    train_sentencepiece,
)
from regard.data.tokenizers.words import CharactersConfig, CharactersTokenizer, WordsConfig, WordsTokenizer

__all__ = [
    "ActionsConfig",
    "BytePairConfig",
    "CharactersConfig",
    "InflectionConfig",
    "MosesConfig",
    "PretrainedTokenizerConfig",
    "SentencePieceConfig",
    "Tokenizer",
    "TokenizerConfig",
    "WordsConfig",
    "check_joint_tokenizers",
    "create_tokenizers",
    "detect_text_format",
    "learn_bpe_tokenizers",
    "load_tokenizer",
]

TokenizerConfig = Annotated[
    WordsConfig
    | MosesConfig
    | BytePairConfig
    | SentencePieceConfig
    | CharactersConfig
    | InflectionConfig
    | ActionsConfig
    | PretrainedTokenizerConfig,
    TaggedUnion("words"),
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
    match config:
        case WordsConfig():
            return WordsTokenizer(config)
        case CharactersConfig():
            return CharactersTokenizer(config)
        case InflectionConfig():
            return InflectionTokenizer(config)
        case ActionsConfig():
            return ActionsTokenizer(config)
        case MosesConfig():
            return MosesTokenizer(config)
        case BytePairConfig():
            return BytePairTokenizer.load(config, directory, side)
        case SentencePieceConfig():
            return SentencePieceTokenizer.load(config, directory, side)
        case PretrainedTokenizerConfig():
            return PretrainedTokenizer.load(config, directory, side)


def detect_text_format(
    counter: TextFormatDetector, config: TokenizerConfig, files: Sequence[str | None]
) -> TextFormat:
    """Return the format of the training text of one side.

    Args:
        counter: The punctuation counts of the text.
        config: The tokenizer. If it separates punctuation itself, the text counts as plain.
        files: The files of the text. Their extensions (`train.de`, `train.de.gz`) give the language.
    """
    names = [Path("" if name is None else name.removesuffix(".gz")) for name in files]
    extensions = {name.suffix.removeprefix(".") for name in names}
    extension = extensions.pop() if len(extensions) == 1 else ""
    language = extension if re.fullmatch("[a-z]{2}", extension) else None
    match config:
        case WordsConfig() | CharactersConfig() | SentencePieceConfig() | BytePairConfig(tokenized=True):
            return counter.detect(language)
        case MosesConfig() | BytePairConfig():
            return TextFormat(language=config.language)
        case _:
            return TextFormat(language=language)


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
    """Return tokenizers that can `pretokenize`; SentencePiece models are trained on raw text here.

    Args:
        source: Configuration of the source tokenizer.
        target: Configuration of the target tokenizer.
        texts: The training lines of each side, which are consumed only if needed.
    """
    if isinstance(source, SentencePieceConfig) and isinstance(target, SentencePieceConfig) and source.joint:
        model = train_sentencepiece((line for text in texts for line in text), source)
        return SentencePieceTokenizer(source, model), SentencePieceTokenizer(target, model)
    return _start(source, texts[0], "source"), _start(target, texts[1], "target")


def _start(config: TokenizerConfig, text: Iterable[str], side: str) -> Tokenizer:
    match config:
        case SentencePieceConfig():
            return SentencePieceTokenizer(config, train_sentencepiece(text, config))
        case BytePairConfig():
            return BytePairTokenizer(config, learn_merges({}, 0))  # trained later, by `learn_bpe_tokenizers`
        case PretrainedTokenizerConfig():
            return PretrainedTokenizer.from_directory(config, side)
        case _:
            return load_tokenizer(config, Path(), side)


def learn_bpe_tokenizers(
    tokenizers: tuple[Tokenizer, Tokenizer], counts: tuple[Mapping[str, int], Mapping[str, int]]
) -> tuple[Tokenizer, Tokenizer]:
    """Return tokenizers that can also `segment`; byte pair encoding is learned from unit counts here.

    Args:
        tokenizers: The source and the target tokenizer of `create_tokenizers`.
        counts: The frequency of each unit in the training text of each side.
    """
    source, target = tokenizers
    if (
        isinstance(source, BytePairTokenizer)
        and isinstance(target, BytePairTokenizer)
        and source.config.joint
    ):
        units = {unit: counts[0].get(unit, 0) + counts[1].get(unit, 0) for side in counts for unit in side}
        codes = learn_merges(units, source.config.num_merges)
        return BytePairTokenizer(source.config, codes), BytePairTokenizer(target.config, codes)
    return _finish(source, counts[0]), _finish(target, counts[1])


def _finish(tokenizer: Tokenizer, counts: Mapping[str, int]) -> Tokenizer:
    if isinstance(tokenizer, BytePairTokenizer):
        return BytePairTokenizer(tokenizer.config, learn_merges(counts, tokenizer.config.num_merges))
    return tokenizer
