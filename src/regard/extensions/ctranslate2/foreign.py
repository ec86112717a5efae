"""Translation with CTranslate2 directories that other programs have written, by their Hugging Face tokenizer.

Such a directory holds the model and its vocabulary. Text is tokenized by the tokenizer files in it, which
`ct2-transformers-converter --copy_files` copies there. The engine searches; it returns no attention.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from regard.data.hf import HF_CONFIG
from regard.data.text import TextProcessor, TextSide
from regard.errors import CheckpointError, DataError, DeviceError, UsageError
from regard.extensions.ctranslate2.export import import_ctranslate2
from regard.extensions.ctranslate2.search import EngineCandidate, EngineSearch
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.blocks import length_sorted_batches
from regard.generation.config import GenerationBatchConfig, GenerationConfig, LengthLimits
from regard.generation.lines import InputLine, LineResult
from regard.models.hf.generation import GENERATION_CONFIG, read_generation_settings
from regard.run_config import CONFIG_FILE
from regard.text.reading import InvalidJsonError, checked_file, read_json, read_limited
from regard.text.tokenizers.pretrained import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.training.weights import EXPORTED_FILE, MODEL_FILE

__all__ = ["ForeignTranslator", "is_foreign_export", "load_foreign"]

MAX_VOCABULARY_BYTES = 64 << 20
MIN_KNOWN_TOKENS = 0.9
"""Share of the tokenizer's tokens that must be in the vocabulary of the model."""
FOREIGN_MAX_LENGTH = 1024
"""Maximum number of source tokens, because the engine does not report the number of positions."""


def is_foreign_export(model_dir: Path) -> bool:
    """Return whether a directory contains a CTranslate2 model that regard has not written."""
    if not all((model_dir / name).is_file() for name in (EXPORTED_FILE, HF_CONFIG)):
        return False
    if (model_dir / CONFIG_FILE).exists() or (model_dir / MODEL_FILE).exists():
        return False
    return "model_type" not in _read_config(model_dir)


def _read_config(model_dir: Path) -> dict[str, Any]:
    """Return the engine's configuration; empty if it is not a JSON object, which the engine reports."""
    try:
        return read_json(checked_file(model_dir, HF_CONFIG), dict[str, Any], MAX_VOCABULARY_BYTES)
    except (DataError, InvalidJsonError):
        return {}


def load_foreign(
    model_dir: Path, device: str = "auto", num_threads: int | None = None
) -> "ForeignTranslator":
    """Load a CTranslate2 model that regard has not written.

    Args:
        model_dir: The directory, with the files of a Hugging Face tokenizer.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        num_threads: Number of CPU threads. None means CTranslate2's default.

    Raises:
        UsageError: if the package ctranslate2 or transformers is missing.
        CheckpointError: if the directory has no tokenizer, or one of another model; if the model is not a
            sequence-to-sequence model; or if a file is broken. The message states the reason.
        DeviceError: if the device is not available.
    """
    package = import_ctranslate2()
    text = _load_text(model_dir)
    banned = _check_vocabulary(model_dir, text)
    device_type, _, index = device.partition(":")
    settings = {"device_index": int(index) if index.isdigit() else 0, "intra_threads": num_threads or 0}
    try:
        engine = package.Translator(str(model_dir), device=device_type, **settings)
    except (RuntimeError, ValueError) as error:
        if device_type == "cuda":
            raise DeviceError(f"device {device!r}: ctranslate2 cannot use it: {error}") from None
        raise CheckpointError(f"{model_dir}: ctranslate2 cannot use this model: {error}") from None
    search = GenerationConfig()
    if (model_dir / GENERATION_CONFIG).is_file():
        found, _ = read_generation_settings(model_dir)
        search = replace(search, beam_size=found.num_beams or search.beam_size)
    return ForeignTranslator(engine, text, search, _read_config(model_dir), banned, str(model_dir))


def _load_text(model_dir: Path) -> TextProcessor:
    """Load the tokenizers of both sides.

    Raises:
        CheckpointError: if the directory has no tokenizer; the message names the remedy.
    """
    config = PretrainedTokenizerConfig(path=str(model_dir))
    if not (model_dir / "tokenizer_config.json").is_file():
        raise CheckpointError(
            f"{model_dir}: a CTranslate2 model that was not written by `regard export ctranslate2`, without "
            "the files of its tokenizer (tokenizer_config.json and others). Copy them from the original "
            "model, or convert it again with `ct2-transformers-converter --copy_files`"
        )
    try:
        tokenizers = [PretrainedTokenizer.from_directory(config, side) for side in ("source", "target")]
    except DataError as error:
        raise CheckpointError(str(error)) from None
    source, target = (TextSide(one, one.vocabulary) for one in tokenizers)
    return TextProcessor(source, target)


def _read_vocabulary(model_dir: Path, side: str) -> tuple[Path, list[str]]:
    """Return the vocabulary of a side of the model, and its file.

    Raises:
        CheckpointError: if it is missing or broken.
    """
    # Versions before 4 of the engine write one token per line.
    names = [f"{name}_vocabulary.{kind}" for name in (side, "shared") for kind in ("json", "txt")]
    path = next((model_dir / name for name in names if (model_dir / name).is_file()), None)
    if path is None:
        raise CheckpointError(f"{model_dir}: contains no vocabulary ({names[2]} or {names[0]})")
    try:
        if path.suffix == ".txt":
            content = read_limited(checked_file(model_dir, path.name), MAX_VOCABULARY_BYTES)
            return path, content.decode().removesuffix("\n").split("\n")
        return path, read_json(checked_file(model_dir, path.name), list[str], MAX_VOCABULARY_BYTES)
    except (DataError, InvalidJsonError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: not a list of tokens: {error}") from None


def _check_vocabulary(model_dir: Path, text: TextProcessor) -> frozenset[str]:
    """Check that the tokenizer belongs to the model, and return the target tokens that it does not have.

    Raises:
        CheckpointError: if a vocabulary is missing or broken, or does not contain the tokenizer's tokens.
    """
    others: frozenset[str] = frozenset()
    for side, name in ((text.source, "source"), (text.target, "target")):
        path, tokens = _read_vocabulary(model_dir, name)
        assert isinstance(side.tokenizer, PretrainedTokenizer)
        own, stored = set(side.tokenizer.pretrained_tokens or ()), set(tokens)
        if len(own & stored) < MIN_KNOWN_TOKENS * len(own):
            raise CheckpointError(
                f"{model_dir}: its tokenizer does not belong to its model: {path.name} contains "
                f"{len(own & stored):,} of the tokenizer's {len(own):,} tokens"
            )
        others = frozenset(stored - own - {side.tokenizer.end_token, side.tokenizer.unknown_token or ""})
    return others


@dataclass(frozen=True)
class ForeignTranslator(BaseTranslator):
    """A CTranslate2 model with the tokenizer of its Hugging Face original; it returns no attention.

    Attributes:
        engine: A `ctranslate2.Translator`.
        text: The tokenizers.
        search: The search settings.
        config: The engine's configuration, from `config.json`.
        banned: The tokens of the model that its tokenizer does not have, such as padding.
        name: Name of the model in messages.
    """

    engine: Any
    text: TextProcessor
    search: GenerationConfig
    config: Mapping[str, Any]
    banned: frozenset[str] = frozenset()
    name: str = "the CTranslate2 model"
    search_options = frozenset(
        {
            *(one.name for one in fields(GenerationBatchConfig)),
            *("beam_size", "num_return", "length_penalty", "min_length", "max_length_ratio"),
            *("max_length_offset", "no_repeat_ngram_size", "suppress_unk"),
        }
    )

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The empty set: the engine only translates."""
        return frozenset()

    def describe(self) -> Description:
        """Return the kind of the model; the engine does not report the number of parameters."""
        return Description("ctranslate2", attention="soft", normalizer="softmax")

    @property
    def resolved_search(self) -> GenerationConfig:
        """The search settings, with `suppress_unk` resolved for the tokenizer.

        Raises:
            UsageError: if the engine does not support a setting.
        """
        search = self.search
        if search.coverage_penalty.weight or search.alignment.replace_unk:
            raise UsageError(
                f"{self.name}: coverage_penalty and replace_unk need attention, which the engine lacks"
            )
        return search.resolve_suppress_unk(self.text.target.tokenizer.subword)

    @property
    def length_limits(self) -> LengthLimits:
        """The maximum numbers of tokens in a sentence pair."""
        return self.search.length_limits(FOREIGN_MAX_LENGTH, len(self.text.sink_tokens))

    def translate_block(self, lines: Sequence[InputLine]) -> list[LineResult]:
        """Translate a list of lines."""
        results = [self.tokenize(line) for line in lines]
        lengths = [0 if result.error else len(result.source_tokens) for result in results]
        for rows in length_sorted_batches(lengths, self.search):
            found = self._search([results[row] for row in rows])
            for row, hypotheses in zip(rows, found, strict=True):
                results[row] = self._detokenize(results[row], hypotheses)
        return results

    def _source(self, result: LineResult) -> list[str]:
        """Return the tokens of a line with the special tokens around it that the engine does not add."""
        tokenizer = self.text.source.tokenizer
        assert isinstance(tokenizer, PretrainedTokenizer)
        specials, count = list(tokenizer.special_tokens), len(tokenizer.prefix_ids)
        before, after = specials[:count], specials[count:]
        if self.config.get("add_source_bos") and before[:1] == [self.config.get("bos_token")]:
            before = before[1:]
        if self.config.get("add_source_eos") and after[-1:] == [self.config.get("eos_token")]:
            after = after[:-1]
        return [*before, *result.source_tokens, *after]

    def _search(self, results: Sequence[LineResult]) -> list[list[EngineCandidate]]:
        """Return the best translations of a batch of lines."""
        search, tokenizer = self.resolved_search, self.text.target.tokenizer
        assert isinstance(tokenizer, PretrainedTokenizer)
        sources = [self._source(result) for result in results]
        limits = [search.max_target_length(len(source)) for source in sources]
        # Every translation of a multilingual model starts with the language.
        prefix = () if tokenizer.language_token is None else (tokenizer.language_token,)
        return EngineSearch(self.engine, search, tokenizer.end_token, self.banned, prefix).find(
            sources, limits
        )

    def _detokenize(self, result: LineResult, found: Sequence[EngineCandidate]) -> LineResult:
        """Convert the translations of a line to text."""
        target, written = self.text.target, []
        for one in found:
            hypothesis, tokens = one.to_hypothesis(target.vocabulary.to_ids(one.tokens)), list(one.tokens)
            written.append(self.to_translation(result, target.tokenizer.decode(tokens), tokens, hypothesis))
        return LineResult(result.line, (*result.source_tokens, *self.text.sink_tokens), tuple(written))
