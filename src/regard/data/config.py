"""The configuration of the data of a run, and the manifest of preprocessed data that records it.

`manifest.json` is written last, so that a directory with a manifest is complete. The data is preprocessed
again if the entry `wanted` (settings) or `inputs` (size and checksum of each input file) has changed.
"""

import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from regard.config import configclass, option, to_dict
from regard.data.fertility import FertilityConfig
from regard.errors import DataError
from regard.text.corpus import CorpusConfig
from regard.text.paths import readable
from regard.text.reading import InvalidJsonError, checked_file, file_digest, parse_json, read_json
from regard.text.tokenizers.base import TOKENIZERS, TokenizerConfig, check_joint_tokenizers
from regard.text.tokenizers.words import WordsConfig

MANIFEST = "manifest.json"
MANIFEST_VERSION = 2


def _vocab_size_option(side: str, other: str) -> int | None:
    return option(
        default=None,
        help=f"Maximum size of the {side} vocabulary, without special symbols, by decreasing frequency. With "
        f"`shared_vocab`: size of the common vocabulary, equal to `{other}_vocab_size`. Default: no limit.",
        ge=1,
        le=10_000_000,
    )


@configclass
class DataConfig:
    """Corpora, tokenizers and vocabularies.

    Relative paths start at the current directory.
    """

    cache_dir: str | None = option(
        default=None,
        help="Directory of the preprocessed data. Default: `prepared/NAME` in the current directory for a "
        "config file `NAME.toml`.",
    )
    train: tuple[CorpusConfig, ...] = option(help="Training corpora, one table per corpus.", min_length=1)
    valid: CorpusConfig = option(
        help="Validation corpus, required. All of it is used: it has no `sampling_weight`. Pairs with more "
        "than max(`max_length`, 1024) tokens on a side are dropped. `source_prefix` is prepended for every "
        "validation metric."
    )
    test: CorpusConfig | None = option(
        default=None,
        help="Corpus that `regard report` uses instead of data.valid, without `source_prefix`; it has no "
        "`sampling_weight`. It is preprocessed, but not used in training.",
    )
    source_tokenizer: TokenizerConfig = option(default=WordsConfig, help="Source tokenizer.")
    target_tokenizer: TokenizerConfig = option(default=WordsConfig, help="Target tokenizer.")
    source_vocab_size: int | None = _vocab_size_option("source", "target")
    target_vocab_size: int | None = _vocab_size_option("target", "source")
    min_frequency: int = option(
        default=1,
        help="Minimum frequency of a token in the training text. Rarer tokens are unknown.",
        ge=1,
        le=1_000_000_000,
    )
    shared_vocab: bool = option(
        default=False,
        help='Use one vocabulary for source and target, as model.tie_embeddings = "all" requires.',
    )
    max_length: int = option(
        default=200,
        help="Maximum number of tokens in a source or target sentence. Training pairs with longer sentences "
        "are dropped.",
        ge=1,
        le=100_000,
    )
    fertility: FertilityConfig | None = option(
        default=None,
        help="Maximum amount of attention that each source token may receive, which attention `constrained` "
        "requires. Other kinds of attention use only the sink.",
    )

    def __post_init__(self) -> None:
        """Check that the settings of source and target are compatible."""
        if TOKENIZERS.part_of(self.source_tokenizer).serves_both_sides:
            # The options are given once. The dataclass is frozen.
            object.__setattr__(self, "target_tokenizer", self.source_tokenizer)
        check_joint_tokenizers(self.source_tokenizer, self.target_tokenizer)
        for name, corpus in (("valid", self.valid), ("test", self.test)):
            if corpus is not None and corpus.sampling_weight != 1:
                raise ValueError(f"{name}.sampling_weight: the whole text is used: remove this key")
        if self.shared_vocab and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "shared_vocab requires the same value for source_vocab_size and target_vocab_size"
            )
        if (
            getattr(self.target_tokenizer, "prefix", "")
            and self.target_tokenizer is not self.source_tokenizer
        ):
            # Translations would have to be generated with the prefix.
            raise ValueError(
                "target_tokenizer.prefix: a prefix is prepended to source lines only: remove this key"
            )
        for side in ("source", "target"):
            tokenizer = getattr(self, f"{side}_tokenizer")
            sized = self.shared_vocab or getattr(self, f"{side}_vocab_size") is not None
            if sized and TOKENIZERS.part_of(tokenizer).has_vocabulary:
                raise ValueError(
                    f"{side}_tokenizer.kind = {tokenizer.kind!r} has its own vocabulary: remove shared_vocab "
                    f"and {side}_vocab_size"
                )


def describe_settings(config: DataConfig) -> dict[str, Any]:
    """Return the settings that determine the preprocessed arrays.

    The output directory, the paths, the sampling weights and the fertility settings are left out, since they
    do not change the arrays.
    """
    settings = to_dict(config)
    settings.pop("cache_dir", None)
    settings.pop("fertility", None)
    for side in ("source_tokenizer", "target_tokenizer"):
        if settings[side]["kind"] == "pretrained":
            settings[side].pop("path")  # its files are inputs
    for corpus in [*settings["train"], settings["valid"], settings.get("test", {})]:
        for name in ("source", "target", "file", "sampling_weight"):
            corpus.pop(name, None)
    return {"format": MANIFEST_VERSION, "settings": settings}


def describe_inputs(config: DataConfig) -> dict[str, dict[str, Any]]:
    """Return path, size and checksum of each input file by its role (`train.0.source`).

    Raises:
        DataError: if a file is missing or not a regular file.
    """
    return {
        role: {
            # Absolute, so that messages name the same file in another working directory.
            "path": readable(os.path.abspath(path)),
            "sha256": file_digest(Path(path)),
            "size": os.stat(path).st_size,
        }
        for role, path in input_files(config)
    }


def read_manifest(directory: Path) -> dict[str, Any]:
    """Read the manifest of a directory and check that each file exists and has the right size.

    Raises:
        DataError: if the directory does not contain preprocessed data, or a file is missing or truncated. The
            message names the file.
    """
    path = directory / MANIFEST
    try:
        manifest = read_json(checked_file(directory, MANIFEST), dict[str, Any])
        # Validated, but returned as it is: other entries are for people and for later versions.
        known = parse_json(json.dumps(manifest), _Manifest)
    except InvalidJsonError as error:
        raise DataError(
            f"{path}: not the manifest of preprocessed data ({error}); prepare again into another directory"
        ) from None
    if known.wanted.get("format") != MANIFEST_VERSION:
        raise DataError(f"{directory}: preprocessed by another version of regard; prepare again")
    for name, about in known.files.items():
        file = checked_file(directory, name, path)
        try:
            size = file.stat().st_size
        except OSError as error:
            raise DataError(f"{file}: {error.strerror}; prepare again") from None
        if size != about.size:
            raise DataError(f"{file}: {size} bytes, expected {about.size}; prepare again")
    return manifest


class _File(BaseModel):
    """The entry of an output or input file."""

    size: int = Field(ge=0)
    sha256: str


class _Manifest(BaseModel):
    """The validated part of `manifest.json`."""

    files: dict[str, _File]
    wanted: dict[str, Any]
    inputs: dict[str, _File]
    splits: dict[str, "_Split"]


class _Split(BaseModel):
    """The entry of a split."""

    corpora: list["_Corpus"]


class _Corpus(BaseModel):
    """The entry of a corpus."""

    name: str
    pairs: int = Field(ge=0)
    kept: int = Field(ge=0)
    weight: float = Field(gt=0, le=1e4)


def input_files(config: DataConfig) -> list[tuple[str, str]]:
    """Return the role (such as `train.0.source`) and the path of each input file."""
    named: list[tuple[str, CorpusConfig]] = [(f"train.{i}", corpus) for i, corpus in enumerate(config.train)]
    named.append(("valid", config.valid))
    if config.test is not None:
        named.append(("test", config.test))
    texts = [
        (f"{name}.{part}", path)
        for name, corpus in named
        for part in ("source", "target", "file")
        if (path := getattr(corpus, part)) is not None
    ]
    tokenizers = (("source", config.source_tokenizer), ("target", config.target_tokenizer))
    return texts + [
        (f"{side}.{path.name}", str(path))
        for side, tokenizer in tokenizers
        for path in TOKENIZERS.part_of(tokenizer).input_files(tokenizer)
    ]
