"""Trained models and ensembles that translate and score text: `regard.load` and `Translator`.

model = regard.load("runs/first")
t = model.translate("Ein Hund läuft.")
t.plot()
"""

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from regard.api.arguments import NamedText, check_texts
from regard.api.line_arguments import WordFertilities, input_lines
from regard.api.loading import as_paths, load_translator
from regard.api.translations import Scores, Translations
from regard.data.text import TextProcessor
from regard.errors import DataError, UsageError
from regard.generation.base import BaseTranslator
from regard.generation.blocks import Pair, read_blocks
from regard.generation.config import GenerationConfig, SearchOverrides
from regard.generation.repair import TranslateOptions, configure_translator
from regard.generation.translation import Translation

AttentionOutput = Literal["source", "all"]
"""Attention in a translation: to the source, or also the self-attention of encoder and decoder."""


def load(
    *directories: Path | str,
    device: str = "auto",
    precision: Literal["float32", "bfloat16"] = "float32",
    overrides: Sequence[str] = (),
    tokenized: bool = False,
    engine: Literal["regard", "ctranslate2"] | None = None,
    num_threads: int | None = None,
    **search: Unpack[SearchOverrides],
) -> "Translator":
    """Load a trained model, or several as an ensemble.

    Args:
        directories: Model directories, as written by `regard train` or `regard export`, or those of Hugging
            Face models.
        device: Device: `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`...
        precision: Number format of matrix multiplications; `bfloat16` is faster on recent GPUs.
        overrides: Settings of the model that are changed, as key=value, for example
            `model.attention.top_k=0`. The weights of the model must still fit.
        tokenized: Whether to use the text as it is, tokenized in the same way as the training text. By
            default, punctuation is separated from words if the training text is tokenized.
        engine: Inference engine. Default: `ctranslate2` for an exported model, otherwise `regard`.
        num_threads: Number of CPU threads. Default: all available processors.
        search: Search settings by name, which override those of the model; see `SearchOverrides`.
            `regard config` describes them under `[generation]`.

    Raises:
        UsageError: if no directory is given, the models of an ensemble are not compatible, or the precision
            is unknown or not supported by the model.
        CheckpointError: if a directory is missing or damaged; names the file.
        ConfigError: if a setting is invalid; names it.
        DeviceError: if the device is not available.
    """
    paths = as_paths(directories)
    translator = load_translator(paths, device, precision, search, overrides, num_threads, engine)
    if tokenized:
        translator = replace(translator, text=translator.text.without_conversion())
    return Translator(tuple(paths), translator)


def load_with_search(
    directories: Sequence[Path | str], settings: Mapping[str, Any]
) -> "tuple[Translator, dict[str, Any]]":
    """Return a translator, and those arguments of `load` that are search settings, which are not applied."""
    arguments = {name: value for name, value in settings.items() if name in load.__annotations__}
    if "num_threads" in arguments:
        from regard.runs.device import set_num_threads

        set_num_threads(arguments["num_threads"])
    search = {name: value for name, value in settings.items() if name not in arguments}
    return load(*directories, **arguments), search


# With `eq=False`, models are compared and hashed by identity, not by their weights.
@dataclass(frozen=True, eq=False)
class Translator:
    """A trained model or an ensemble. It may be shared by threads; a lock serializes their calls.

    Attributes:
        directories: Directories it was loaded from.
        backend: The translator of lines, with text processing and the default search settings.
        lock: Held by every use of the backend: translation, scoring, analyses and reports. The thread that
            holds it may acquire it again.
    """

    directories: tuple[Path, ...]
    backend: BaseTranslator
    lock: "threading.RLock" = dataclasses.field(default_factory=threading.RLock, init=False, repr=False)

    @property
    def text(self) -> TextProcessor:
        """Text processing of both sides."""
        return self.backend.text

    @property
    def search(self) -> GenerationConfig:
        """The default search settings."""
        return self.backend.search

    # A string is also an iterable of strings, so pyright reports overlapping overloads.
    @overload
    def translate(  # pyright: ignore[reportOverlappingOverload]
        self,
        text: str,
        *,
        fertilities: WordFertilities | None = None,
        prefix: str = "",
        terms: Sequence[str] = (),
        output_attentions: AttentionOutput = "source",
        **options: Unpack[TranslateOptions],
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Iterable[str] | Path,
        *,
        fertilities: WordFertilities | Sequence[WordFertilities | None] | None = None,
        prefix: str | Sequence[str] = "",
        terms: Sequence[str] | Sequence[Sequence[str]] = (),
        output_attentions: AttentionOutput = "source",
        **options: Unpack[TranslateOptions],
    ) -> Translations: ...

    def translate(
        self,
        text: str | Iterable[str] | Path,
        *,
        fertilities: Any = None,
        prefix: Any = "",
        terms: Any = (),
        output_attentions: AttentionOutput = "source",
        **options: Unpack[TranslateOptions],
    ) -> Translation | Translations:
        """Translate a sentence, or several sentences.

        Args:
            text: A sentence, several sentences, or a file (`Path`) with one sentence per line.
            fertilities: Maximum attention that words may receive, for models with constrained attention:
                `{"Hund": 1}` for all occurrences of a word, or a list with one number per word (None keeps
                the model's own). `(minimum, maximum)` also sets a minimum. For several sentences: a dict for
                all of them, or a list with a dict, a list or None for each.
            prefix: Text that the translation must start with. For several sentences: one for all, or one for
                each.
            terms: Words and phrases that the translation must contain. For several sentences: one list for
                all, or one list for each.
            output_attentions: `all` returns the self-attention of encoder and decoder as well, if the model
                is a single Transformer.
            options: `sampling` (a `regard.Sampling`) samples instead of searching; `num_return` is the number
                of samples. `mbr` (a `regard.MBR`) chooses from the beam or the samples by minimum Bayes risk.
                `repair` (a `regard.Repair`) translates sentences again whose translation probably omits a
                word by the `checker` (a `regard.CoverageModel`); the record is in `Translation.repair`. The
                others are search settings for this call, such as `beam_size`, `num_return`, `layer` and
                `head`; see `SearchOverrides`. If `beam_size` is not given, it is raised to `num_return` if
                necessary.

        Returns:
            The translation of a single sentence, or those of all sentences in order. Of several sentences, a
            rejected one (for example because it is too long) states the reason in `error`.

        Raises:
            DataError: if a single sentence is rejected; states the reason.
            UsageError: if an argument is not compatible with the text or the model.
            ConfigError: if a search setting is invalid; names it.
        """
        single = isinstance(text, str)
        if isinstance(text, Path):
            text = NamedText.read(text, "text").lines
        texts = check_texts([text] if single else text, "text")
        lines = input_lines(self.backend, texts, single, fertilities, prefix, terms)
        if output_attentions == "all":
            self.backend.require("self_attention", "output_attentions='all'")
        translator = configure_translator(self.backend, **options)
        with self.lock:
            # Blocks are sorted by length inside `translate_block`, which limits padding and memory.
            translations = [
                translator.with_self_attention(translation) if output_attentions == "all" else translation
                for block in read_blocks(lines, translator.search.buffer_lines)
                for translation in translator.translate_block(block)
            ]
        if single and translations[0].error:
            raise DataError(f"the text cannot be translated: {translations[0].error}")
        return translations[0] if single else Translations(tuple(translations))

    @overload
    def score(  # pyright: ignore[reportOverlappingOverload]
        self, source: str, target: str | Translation, **search: Unpack[SearchOverrides]
    ) -> Translation: ...

    @overload
    def score(
        self, source: Iterable[str], target: Iterable[str | Translation], **search: Unpack[SearchOverrides]
    ) -> Scores: ...

    def score(
        self,
        source: str | Iterable[str],
        target: str | Translation | Iterable[str | Translation],
        **search: Unpack[SearchOverrides],
    ) -> Translation | Scores:
        """Compute the scores of one or several given translations.

        Args:
            source: A sentence, or several.
            target: Its translation, or one per sentence. Results of `translate` are scored with the generated
                tokens. A string is tokenized, which may give other tokens.
            search: Search settings by name. The length and the coverage penalty define the score; `layer`
                and `head` select the attention for the links.

        Returns:
            The given translation with its scores, or one per sentence.

        Raises:
            DataError: if a single sentence is rejected (empty or too long); states the reason.
            UsageError: if the numbers of sentences and translations differ, the model cannot score given
                translations, or a result of `translate` is from a model with other vocabularies or
                tokenizers.
            ConfigError: if a search setting is invalid; names it.
        """
        self.backend.require("score", "score")
        single = isinstance(source, str)
        if single != isinstance(target, str | Translation):
            raise UsageError("source and target: expected two strings, or two lists of strings")
        sources = check_texts([source] if single else source, "source")
        targets = [target] if isinstance(target, str | Translation) else list(target)
        if len(sources) != len(targets):
            raise UsageError(f"{len(sources)} sources but {len(targets)} targets: expected one each")
        pairs = [self._scored_pair(*pair) for pair in zip(sources, targets, strict=True)]
        translator = self.backend.with_search(search)
        with self.lock:
            scores = tuple(translator.score(pairs))
        if single and scores[0].error:
            raise DataError(f"the translation cannot be scored: {scores[0].error}")
        return scores[0] if single else Scores(scores)

    def _scored_pair(self, source: str, target: Any) -> Pair:
        """Return a pair to score: a translation with its tokens, or texts."""
        if not isinstance(target, Translation):
            return source, check_texts([target], "target")[0]
        # The tokens of another vocabulary would be unknown, and those of other merges are never generated.
        if target.processor.checksum != self.text.checksum:
            raise UsageError(
                "target: the translation is from a model with other vocabularies or tokenizers, so "
                f"{self!r} does not have its tokens: pass its text"
            )
        # A source that differs from that of the translation is tokenized again.
        return target if source == target.source else replace(target, source=source, source_tokens=())

    def __repr__(self) -> str:
        """Return the model's directories."""
        return f"Translator({', '.join(repr(str(directory)) for directory in self.directories)})"
