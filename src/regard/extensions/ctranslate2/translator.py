"""Translation with an exported model: CTranslate2 runs the search, regard processes text and scores."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from regard.data.text import TextProcessor
from regard.errors import CheckpointError, DataError, DeviceError, UsageError
from regard.extensions.ctranslate2.export import POSITIONS_KEY, check_export, import_ctranslate2, token_names
from regard.extensions.ctranslate2.search import EngineSearch
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.blocks import length_sorted_batches
from regard.generation.config import GenerationBatchConfig, GenerationConfig, LengthLimits
from regard.generation.hypothesis import Hypothesis
from regard.generation.lines import Line
from regard.generation.translation import Translation
from regard.runs.description import CONFIG_FILE, load_description
from regard.runs.fertility_predictor import load_text_processing
from regard.runs.weights import EXPORTED_FILE, MODEL_FILE
from regard.text.reading import read_json

__all__ = ["ExportedTranslator"]


@dataclass(frozen=True)
class ExportedTranslator(BaseTranslator):
    """An exported model with search settings; it returns no attention and no token log-probabilities.

    Attributes:
        engine: A `ctranslate2.Translator`.
        text: Text processing of both sides.
        search: The search settings.
        max_length: Maximum number of tokens of a sentence, including a sink or end symbol.
        name: Name of the model in messages.
    """

    engine: Any
    text: TextProcessor
    search: GenerationConfig
    max_length: int
    name: str = "the exported model"
    search_options = frozenset(
        {
            *(field.name for field in fields(GenerationBatchConfig)),
            *("beam_size", "num_return", "length_penalty", "coverage_penalty", "coverage_epsilon"),
            *("min_length", "max_length_ratio", "max_length_offset", "no_repeat_ngram_size"),
            *("suppress_unk", "replace_unk"),
        }
    )

    @staticmethod
    def reads(model_dir: Path) -> bool:
        """Return whether a directory contains an exported model and no weights that regard itself uses."""
        exported = (model_dir / EXPORTED_FILE).exists() and (model_dir / CONFIG_FILE).exists()
        return exported and not (model_dir / MODEL_FILE).exists()

    @classmethod
    def load(cls, model_dir: Path | str, device: str = "auto", num_threads: int | None = None) -> Self:
        """Load a model that `regard export` has written.

        Args:
            model_dir: The model's directory.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            num_threads: Number of CPU threads. None means CTranslate2's default.

        Raises:
            UsageError: if the directory contains a model that is not exported, or the package is missing.
            CheckpointError: if a file is missing or corrupt; the message names it.
            DeviceError: if the device is not available.
        """
        model_dir = Path(model_dir)
        if model_dir.is_dir() and not (model_dir / EXPORTED_FILE).exists():
            raise UsageError(
                f"{model_dir}: not a model for ctranslate2; export it first with "
                f"regard export {model_dir} -o NEW"
            )
        package = import_ctranslate2()
        config = load_description(model_dir)
        check_export(model_dir)
        try:
            text = load_text_processing(model_dir)
        except DataError as error:
            raise CheckpointError(str(error)) from None
        path = model_dir / "config.json"
        try:
            longest = int(read_json(path, dict[str, Any])[POSITIONS_KEY])
        except (DataError, ValueError, KeyError, TypeError):
            raise CheckpointError(
                f"{path}: missing, or not written by `regard export`; export the model again"
            ) from None
        device_type, _, index = device.partition(":")
        settings = {"device_index": int(index) if index.isdigit() else 0, "intra_threads": num_threads or 0}
        try:
            engine = package.Translator(str(model_dir), device=device_type, **settings)
        except (RuntimeError, ValueError) as error:
            if device_type == "cuda":
                raise DeviceError(f"device {device!r}: ctranslate2 cannot use it: {error}") from None
            raise CheckpointError(
                f"{model_dir / EXPORTED_FILE}: ctranslate2 cannot read it: {error}"
            ) from None
        return cls(engine, text, config.generation, longest, str(model_dir))

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
            UsageError: if CTranslate2 does not support a search setting; the message names the setting.
        """
        search = self.search
        coverage, scheme = search.coverage_penalty.weight, search.scheme
        if coverage:
            raise self.unsupported(
                f"--coverage-penalty (generation.coverage_penalty.weight) = {coverage}", "0 disables it"
            )
        if search.alignment.replace_unk:
            raise self.unsupported("--replace-unk (generation.alignment.replace_unk)")
        if scheme.hf_compatible:
            raise self.unsupported("generation.scheme.hf_compatible")
        if scheme.stopping != "heuristic":
            raise self.unsupported(f"generation.scheme.stopping = {scheme.stopping!r}")
        return search.resolve_suppress_unk(self.text.target.tokenizer.subword)

    @property
    def length_limits(self) -> LengthLimits:
        """The maximum numbers of tokens in a sentence pair that the model can process."""
        return self.search.length_limits(self.max_length, len(self.text.sink_tokens))

    @cached_property
    def _token_names(self) -> tuple[list[str], list[str]]:
        """Return the engine's token names of the source and the target side."""
        text = self.text
        return token_names(text.source.vocabulary), token_names(text.target.vocabulary)

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Return the id of each target token name."""
        return {name: number for number, name in enumerate(self._token_names[1])}

    def translate_block(self, lines: Sequence[Line]) -> list[Translation]:
        """Translate a list of lines."""
        translations = [self.tokenize(line) for line in lines]
        lengths = [len(translation.text_source_tokens) for translation in translations]
        target = self.text.target
        for rows in length_sorted_batches(lengths, self.search):
            batch_hypotheses = self._search([translations[row] for row in rows])
            for row, hypotheses in zip(rows, batch_hypotheses, strict=True):
                tokens = [target.vocabulary.to_tokens(hypothesis.tokens) for hypothesis in hypotheses]
                texts = [target.tokenizer.decode(words) for words in tokens]
                candidates = zip(texts, tokens, hypotheses, strict=True)
                translations[row] = translations[row].with_nbest(candidates)
        return translations

    def _search(self, lines: Sequence[Translation]) -> list[list[Hypothesis]]:
        """Find the best translations of a batch of lines."""
        text, search = self.text, self.resolved_search
        sources: list[list[str]] = []
        for line in lines:
            ids = text.source.vocabulary.to_ids(line.text_source_tokens)
            sources.append([*(self._token_names[0][number] for number in ids), *text.sink_tokens])
        limits = [min(search.max_target_length(len(source)), self.max_length - 1) for source in sources]
        return EngineSearch(self.engine, search, self._ids).find(sources, limits)
