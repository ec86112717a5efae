"""Trained models and ensembles that translate and score text: `regard.load` and `Model`.

model = regard.load("runs/first")
t = model.translate("Ein Hund läuft.")
t.plot()
"""

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from regard.api.arguments import as_list, broadcast, check_texts, join_terms
from regard.api.fertilities import WordFertilities, format_fertilities
from regard.api.loading import load_translator
from regard.api.result import TranslationResult
from regard.api.results import AttentionOutput, scored_result, translation_result
from regard.config import from_dict
from regard.data.text import TextProcessor
from regard.errors import DataError, UsageError
from regard.generation.base import BaseTranslator
from regard.generation.config import GenerationConfig, MbrConfig, SamplingConfig
from regard.generation.lines import InputLine
from regard.generation.pairs import PretokenizedPair
from regard.plugins import load_plugins

__all__ = ["Model", "load"]


def load(
    *directories: Path | str,
    device: str = "auto",
    precision: str = "float32",
    settings: Sequence[str] = (),
    tokenized: bool = False,
    plugins: Sequence[str] = (),
    **search: Any,
) -> "Model":
    """Load a trained model, or several as an ensemble.

    Args:
        directories: Model directories, as written by `regard train` or `regard export`, or those of Hugging
            Face models.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`...
        precision: Data type of matrix multiplications: `float32`, or the faster `bfloat16` and (on a CPU)
            `int8`.
        settings: Overrides of the configuration of the run, such as `model.attention.top_k=0`.
        tokenized: Whether all text is tokenized in the same way as the training text and is used unchanged.
            Otherwise plain text is tokenized if the training text is.
        plugins: Plugins to import: Python packages or files (.py) that register parts of the model.
        search: Search settings by name, which override those of the model: `beam_size`, `length_penalty`,
            `coverage_penalty`, `no_repeat_ngram_size`, `max_length_ratio`, `batch_size`...
            `regard config` lists all of them under `[generation]`. `layer`, `head` (or `heads`) and `shift`
            select the attention for word links, attention maps and the replacement of unknown words
            (`[generation.alignment]`).

    Raises:
        UsageError: if no directory is given, the models of an ensemble are not compatible, or the precision
            is unknown or not supported by the model.
        CheckpointError: if a directory is missing or damaged; names the file.
        ConfigError: if a setting is invalid; names it.
        PluginError: if a plugin is missing or cannot be imported.
        DeviceError: if the device is not available, or does not support exact int8 matrix multiplication.
    """
    if not directories:
        raise UsageError("regard.load() needs a model directory: regard.load('runs/first')")
    for directory in directories:
        if not isinstance(directory, str | Path):
            raise UsageError(f"regard.load({directory!r}): expected directories, one per argument")
    load_plugins(plugins)
    paths = [Path(directory) for directory in directories]
    translator = load_translator(paths, device, precision, search, settings)
    return Model(tuple(paths), translator.pretokenized() if tokenized else translator)


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model or an ensemble. It may be shared by threads; a lock serializes their calls.

    Attributes:
        directories: Directories it was loaded from.
        translator: The translator, with text processing and the default search settings.
    """

    directories: tuple[Path, ...]
    translator: BaseTranslator
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock, init=False)

    @property
    def text(self) -> TextProcessor:
        """Text processing of both sides."""
        return self.translator.text

    @property
    def search(self) -> GenerationConfig:
        """The default search settings."""
        return self.translator.search

    # A string is also an iterable of strings, so pyright reports overlapping overloads.
    @overload
    def translate(  # pyright: ignore[reportOverlappingOverload]
        self,
        text: str,
        *,
        fertilities: WordFertilities | None = None,
        prefix: str = "",
        terms: Sequence[str] = (),
        sample: bool | Mapping[str, Any] = False,
        mbr: str | Mapping[str, Any] | None = None,
        output_attentions: AttentionOutput = "source",
        **search: Any,
    ) -> TranslationResult: ...

    @overload
    def translate(
        self,
        text: Iterable[str],
        *,
        fertilities: WordFertilities | Sequence[WordFertilities | None] | None = None,
        prefix: str | Sequence[str] = "",
        terms: Sequence[str] | Sequence[Sequence[str]] = (),
        sample: bool | Mapping[str, Any] = False,
        mbr: str | Mapping[str, Any] | None = None,
        output_attentions: AttentionOutput = "source",
        **search: Any,
    ) -> list[TranslationResult]: ...

    def translate(
        self,
        text: str | Iterable[str],
        *,
        fertilities: Any = None,
        prefix: Any = "",
        terms: Any = (),
        sample: bool | Mapping[str, Any] = False,
        mbr: str | Mapping[str, Any] | None = None,
        output_attentions: AttentionOutput = "source",
        **search: Any,
    ) -> TranslationResult | list[TranslationResult]:
        """Translate a sentence, or several sentences.

        Args:
            text: A sentence, or an iterable of sentences, whose translations are returned as a list in order.
            fertilities: Maximum attention that words may receive, for models with constrained attention:
                `{"Hund": 1}` for all occurrences of a word, or a list with one number per word (None keeps
                the model's own). `(minimum, maximum)` also sets a minimum. For several sentences: a dict for
                all of them, or a list with a dict, a list or None for each.
            prefix: Text that the translation must start with. For several sentences: one for all, or one for
                each.
            terms: Words and phrases that the translation must contain. For several sentences: one list for
                all, or one list for each.
            sample: Sample from the model instead of searching. True, or a dict with `temperature`, `top_k`,
                `top_p` and `seed`. `num_return` is the number of samples.
            mbr: Minimum Bayes risk decoding over the beam or over samples: the utility `bleu`, `chrf` or
                `rep`, or a dict with `utility`, `num_candidates` and `weighting`; see
                `regard.generation.mbr`.
            output_attentions: `all` returns the self-attention of encoder and decoder as well, if the model
                is a single Transformer.
            search: Search settings for this call, by name, such as `beam_size`, `num_return`, `layer` and
                `head`; see `load`. If `beam_size` is not given, it is raised to `num_return` if necessary.

        Returns:
            A result, or a list with one result per sentence. In a list, the result of a sentence that is
            rejected (for example because it is too long) states the reason in `error`.

        Raises:
            DataError: if a single sentence is rejected; states the reason.
            UsageError: if an argument is not compatible with the text or the model.
            ConfigError: if a search setting is invalid; names it.
        """
        if output_attentions not in ("source", "all"):
            raise UsageError(f"output_attentions={output_attentions!r}: expected 'source' or 'all'")
        single = isinstance(text, str)
        texts = check_texts([text] if single else text, "text")
        lines = self._lines(texts, single, fertilities, prefix, terms)
        if output_attentions == "all":
            self.translator.require("self_attention", "output_attentions='all'")
        translator = self._translator(search, sample, mbr)
        with self._lock:
            # Blocks are sorted by length inside `translate_block`, which limits padding and memory.
            size = translator.search.buffer_lines
            blocks = [lines[start : start + size] for start in range(0, len(lines), size)]
            results = [
                translation_result(translator, each, output_attentions)
                for block in blocks
                for each in translator.translate_block(block)
            ]
        if single and results[0].error:
            raise DataError(f"the text cannot be translated: {results[0].error}")
        return results[0] if single else results

    @overload
    def score(  # pyright: ignore[reportOverlappingOverload]
        self, source: str, target: str | TranslationResult, **search: Any
    ) -> TranslationResult: ...

    @overload
    def score(
        self, source: Iterable[str], target: Iterable[str | TranslationResult], **search: Any
    ) -> list[TranslationResult]: ...

    def score(
        self,
        source: str | Iterable[str],
        target: str | TranslationResult | Iterable[str | TranslationResult],
        **search: Any,
    ) -> TranslationResult | list[TranslationResult]:
        """Compute the scores of one or several given translations.

        Args:
            source: A sentence, or several.
            target: Its translation, or one per sentence. Results of `translate` are scored with the generated
                tokens. A string is tokenized, which may give other tokens.
            search: Search settings by name. The length and the coverage penalty define the score; `layer`,
                `head` and `shift` select the attention for the links.

        Returns:
            A result, or a list with one result per sentence, whose text is the given translation.

        Raises:
            DataError: if a single sentence is rejected (empty or too long); states the reason.
            UsageError: if the numbers of sentences and translations differ, or the model cannot score given
                translations.
            ConfigError: if a search setting is invalid; names it.
        """
        self.translator.require("score", "score")
        single = isinstance(source, str)
        if single != isinstance(target, str | TranslationResult):
            raise UsageError("source and target: expected two strings, or two lists of strings")
        sources = check_texts([source] if single else source, "source")
        targets = as_list([target] if single else target, "target")
        if len(sources) != len(targets):
            raise UsageError(f"{len(sources)} sources but {len(targets)} targets: expected one each")
        pairs = [self._pair(*pair) for pair in zip(sources, targets, strict=True)]
        translator = self.translator.with_search(search)
        with self._lock:
            found = list(translator.score(pairs))
        results = [
            scored_result(self.text, pair, one, translator.search)
            for pair, one in zip(pairs, found, strict=True)
        ]
        if single and results[0].error:
            raise DataError(f"the translation cannot be scored: {results[0].error}")
        return results[0] if single else results

    def _pair(self, source: str, target: Any) -> tuple[str, str] | PretokenizedPair:
        """Return a pair to score, with the tokens of a result if one is given."""
        if not isinstance(target, TranslationResult):
            return source, check_texts([target], "target")[0]
        tokens = target.source_tokens[: len(target.source_tokens) - len(self.text.sink_tokens)]
        # A source that differs from that of the result is tokenized again.
        own = tokens if source == target.source else None
        return PretokenizedPair(source, target.text, own, target.tokens)

    def _translator(
        self,
        options: dict[str, Any],
        sample: bool | Mapping[str, Any],
        mbr: str | Mapping[str, Any] | None,
    ) -> BaseTranslator:
        """Return a translator that searches, samples or reranks, depending on the arguments."""
        sampling = mbr_config = None
        if sample:
            given = dict(sample) if isinstance(sample, Mapping) else {}
            sampling = from_dict(SamplingConfig, given, origin="sample")
        if mbr:
            given = dict(mbr) if isinstance(mbr, Mapping) else {"utility": mbr}
            mbr_config = from_dict(MbrConfig, given, origin="mbr")
        return self.translator.with_search(options, sampling, mbr_config)

    def _lines(
        self, texts: list[str], single: bool, fertilities: Any, prefix: Any, terms: Any
    ) -> list[InputLine]:
        """Return the sentences with their prefixes, fertilities and terms."""
        if fertilities is not None:
            self.translator.require("fertility", "fertilities")
        if isinstance(terms, str):
            raise UsageError(f"terms={terms!r}: expected a list of words and phrases, not a single string")
        terms = as_list(terms, "terms")
        shared = single or fertilities is None or isinstance(fertilities, Mapping)
        bounds_by_line = broadcast(fertilities, shared, len(texts), "fertilities")
        prefixes = broadcast(prefix, single or isinstance(prefix, str), len(texts), "prefix")
        shared = single or all(isinstance(term, str) for term in terms)
        terms_by_line = broadcast(terms, shared, len(texts), "terms")
        return [
            InputLine(
                number,
                text,
                check_texts([before], "prefix")[0],
                format_fertilities(text, self.text.source, bounds),
                join_terms(line_terms),
            )
            for number, (text, before, bounds, line_terms) in enumerate(
                zip(texts, prefixes, bounds_by_line, terms_by_line, strict=True), 1
            )
        ]

    def __repr__(self) -> str:
        """Return the model's directories."""
        return f"Model({', '.join(repr(str(directory)) for directory in self.directories)})"
