"""The contract of translators: neural models and ensembles, phrase-based systems, exports and finished files.

Commands, the report and the server use this interface only. They ask for capabilities, never for classes, and
`BaseTranslator.require` refuses a missing one, always with the same message.
"""

import dataclasses
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from regard.data.text import TextProcessor, TextSide
from regard.errors import ConfigError, DataError, UsageError
from regard.generation.blocks import Pair, length_error, read_blocks
from regard.generation.config import GenerationConfig, LengthLimits, Sampling, search_settings
from regard.generation.lines import Line
from regard.generation.reranking import MBR
from regard.generation.translation import Translation
from regard.text.corpus import read_lines
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary

_log = logging.getLogger(__name__)

Capability = Literal[
    "attribution",  # maps show the effect of leaving out source tokens instead of attention
    "attention",  # translations have attention weights, from which word links are extracted
    "ensemble",  # several systems of this kind can be combined
    "fertility",  # lines may specify fertilities
    "gradient",  # maps show gradients with respect to the source embeddings
    "mbr",  # minimum Bayes risk decoding
    "overrides",  # the configuration of the run can be overridden when the model is loaded
    "precision",  # matrix multiplications can be computed in other precisions than float32
    "prefix",  # lines may have a prefix
    "sample",  # translations can be sampled
    "score",  # forced decoding of given translations
    "self_attention",  # the self-attention of a translation can be computed
    "terms",  # lines may have required terms
]


@dataclass(frozen=True)
class Description:
    """The properties of a translator that a reader compares.

    Attributes:
        kind: Kind of the model, such as `transformer`.
        num_parameters: Number of parameters, or of entries of its table; None if unknown.
        attention: Kind of its attention mechanism; `none` without attention.
        normalizer: Transformation of attention scores into weights; None if there is none.
        score_function: Function that computes the attention scores; None if there is none.
    """

    kind: str
    num_parameters: int | None = None
    attention: str = "none"
    normalizer: str | None = None
    score_function: str | None = None


class BaseTranslator(ABC):
    """Base class of everything that translates lines. Subclasses are frozen dataclasses.

    A method that needs a capability raises the error of `require` if the capability is missing.

    Attributes:
        text: Text processing of both sides.
        search: Search settings.
        name: Name of the system in messages, such as its directory.
        search_options: Names of the search settings that have an effect. None means all.
    """

    text: TextProcessor
    search: GenerationConfig
    name: str
    search_options: ClassVar[frozenset[str] | None] = None
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    @abstractmethod
    def capabilities(self) -> frozenset[Capability]:
        """The requests that the translator supports in addition to the translation of lines."""

    @abstractmethod
    def describe(self) -> Description:
        """Return the properties of the system."""

    @abstractmethod
    def translate_block(self, lines: Sequence[Line]) -> list[Translation]:
        """Translate the lines of one block."""

    def unsupported(
        self, what: str, remedy: str = "leave it out, or use another kind of model"
    ) -> UsageError:
        """Return the error for a request, by the name that the user gave it, that is not supported."""
        supported = [capability.replace("_", "-") for capability in sorted(self.capabilities)]
        supported += sorted(self.search_options or ())
        return UsageError(
            f"{what}: not supported by {self.name} ({self.describe().kind}), which supports "
            f"{', '.join(supported) or 'plain translation only'}: {remedy}"
        )

    def require(self, capability: Capability, what: str) -> None:
        """Check that the translator has a capability, which the request `what` needs.

        Raises:
            UsageError: if not. The message names the request, the system and its capabilities.
        """
        if capability == "fertility" and capability not in self.capabilities:
            remedy = "use a model with constrained attention that was trained with data.fertility"
            raise self.unsupported(what, remedy)
        if capability not in self.capabilities:
            raise self.unsupported(what)

    def with_search(
        self,
        options: Mapping[str, Any],
        sampling: Sampling | None = None,
        mbr: MBR | None = None,
        fertilities: Mapping[str, tuple[float, float]] | None = None,
    ) -> "BaseTranslator":
        """Return a copy with other search settings.

        Args:
            options: Search settings by name; see `search_settings`. None keeps a setting. If `beam_size` is
                not given, or translations are sampled, the beam is raised to the number of candidates.
            sampling: Settings of sampling. Default: translations are searched for, not sampled.
            mbr: Settings of minimum Bayes risk decoding. Default: translations are ranked by search.
            fertilities: Minimum and maximum attention for words.

        Raises:
            UsageError: if the translator does not support one of them.
            ConfigError: if the settings are not consistent; names the setting.
        """
        extensions = {"sampling": sampling, "mbr": mbr, "fertilities": fertilities}
        extensions = {name: value for name, value in extensions.items() if value}
        if sampling is not None:
            self.require("sample", "sampling (--sample)")
        if mbr is not None:
            self.require("mbr", "mbr (--mbr)")
        if fertilities:
            self.require("fertility", "fertilities (--word-fertility)")
        settings = {name: value for name, value in options.items() if value is not None}
        for name in settings:
            if self.search_options is not None and name not in self.search_options:
                raise self.unsupported(f"{name} (--{name.replace('_', '-')})")
        if "beam_size" not in settings or sampling is not None:
            # A beam of N holds at most N translations.
            num_candidates = 1 if mbr is None else mbr.num_candidates
            settings["beam_size"] = max(self.search.beam_size, settings.get("num_return", 1), num_candidates)
        changed = dataclasses.replace(self, search=search_settings(self.search, settings), **extensions)
        chosen = changed.search.alignment.map
        if chosen != "attention":
            changed.require(
                "attribution" if chosen == "leave_one_out" else "gradient", f"map {chosen} (--map)"
            )
        _ = changed.resolved_search  # raises an error for a setting that is not supported
        most, search = changed.length_limits.target, changed.search
        # Without a limit of the model, `max_source_length` is the limit, which applies to given text only.
        if most < min(search.min_length, search.max_source_length):
            raise ConfigError(
                f"min_length = {search.min_length} exceeds {most}, the maximum length of a translation of "
                f"{self.name}"
            )
        return changed

    @property
    def resolved_search(self) -> GenerationConfig:
        """The search settings, with `suppress_unk` resolved; raises `UsageError` for an unsupported one."""
        search, subword = self.search, self.text.target.tokenizer.subword
        if search.suppress_unk is not None:
            return search
        return dataclasses.replace(search, suppress_unk=subword and not search.alignment.replace_unk)

    @property
    def length_limits(self) -> LengthLimits:
        """The maximum numbers of tokens in a sentence pair."""
        return self.search.length_limits(None, 0)

    def translate(self, lines: Iterable[Line]) -> Iterator[Translation]:
        """Translate lines in blocks of `generation.buffer_lines` lines and yield the results in order."""
        for block in read_blocks(lines, self.search.buffer_lines):
            for translation in self.translate_block(block):
                number = translation.number
                if translation.error:
                    _log.warning(
                        "line %d is rejected, its translation is empty: %s", number, translation.error
                    )
                for term in translation.missing_terms:
                    _log.warning("line %d: the translation does not contain the term %s", number, term)
                for place, received in translation.unmet_lower_bounds:
                    _log.warning(
                        "line %d: source token %d (from 0), %r, received %.2f of attention, less than the "
                        "minimum of its fertility",
                        number,
                        place,
                        translation.source_tokens[place],
                        received,
                    )
                yield translation

    def tokenize(self, line: Line) -> Translation:
        """Return an untranslated line with its source tokens, or the reason why it is rejected.

        Raises:
            UsageError: if the line has a prefix, terms or fertilities, and the translator does not support
                them.
        """
        if line.prefix:
            self.require("prefix", "prefix")
        if line.terms:
            self.require("terms", "terms")
        if line.fertilities:
            self.require("fertility", "fertilities")
        untranslated = Translation(
            line.text, self.text, number=line.number, alignment_config=self.search.alignment
        )
        limit, side = self.length_limits.source, self.text.source
        error = length_error(line.text, None, limit) or side.format_error(line.text)
        tokens = [] if error else side.tokenize(line.text)
        if error := error or length_error(line.text, len(tokens), limit):
            return dataclasses.replace(untranslated, error=error)
        # A line without tokens is not translated, so it has no sink.
        sinks = self.text.sink_tokens if tokens else ()
        return dataclasses.replace(untranslated, source_tokens=(*tokens, *sinks))

    def score(self, pairs: Iterable[Pair], predictions: bool = False) -> Iterator[Translation]:
        """Score given translations in order and in bounded memory (capability `score`).

        The length and the coverage penalty of the search settings define the score, and the alignment
        settings select the attention for the links. A pair that cannot be scored has an error, and a warning
        is logged.

        Args:
            pairs: Source lines and their translations. The tokens of a `Translation` are used unchanged.
            predictions: Whether to compute `Translation.correct`, which needs a step for each token.
        """
        raise self.unsupported("scoring of given translations")

    def with_self_attention(self, translation: Translation) -> Translation:
        """Return a translation and its alternatives with self-attention (capability `self_attention`)."""
        raise self.unsupported("self-attention")


_WORDS = TextSide(WordsTokenizer(WordsConfig()), Vocabulary(SPECIAL_TOKENS))
_TEXT = TextProcessor(_WORDS, _WORDS)
_SEARCH = GenerationConfig()


@dataclass(frozen=True)
class FileTranslator(BaseTranslator):
    """Finished translations of a text, one per line. They have neither scores nor attention.

    Attributes:
        lines: The translations. Line n of the text has the translation `lines[n - 1]`.
        text: Tokenizers that split text into words. Default: words are separated by white space.
        search: Search settings, of which only the block size has an effect.
        name: Name of the file.
    """

    lines: Sequence[str]
    text: TextProcessor = _TEXT
    search: GenerationConfig = _SEARCH
    name: str = "the file of translations"
    search_options = frozenset()

    @classmethod
    def read(cls, path: Path, num_lines: int, source: Path) -> "FileTranslator":
        """Read the translations of a text of `num_lines` lines in the file `source`.

        Raises:
            UsageError: if there is no such file.
            DataError: if the file cannot be read, or does not have one line per line of the text.
        """
        if not path.exists():
            raise UsageError(f"{path}: no such model directory or file with translations")
        lines = list(read_lines(path))
        if len(lines) != num_lines:
            raise DataError(
                f"{path} has {len(lines)} lines but {source} has {num_lines}: translations need one line per "
                "source line"
            )
        return cls(lines, name=str(path))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The empty set: the translations are finished."""
        return frozenset()

    def describe(self) -> Description:
        """Return that this is a file."""
        return Description("file")

    def translate_block(self, lines: Sequence[Line]) -> list[Translation]:
        """Return the translations of the lines, which are found by their numbers."""
        translations: list[Translation] = []
        for line in lines:
            text = self.lines[line.number - 1]
            source_tokens, tokens = self.text.source.tokenize(line.text), self.text.target.tokenize(text)
            translation = Translation(
                line.text, self.text, text, line.number, tuple(source_tokens), tuple(tokens), 0.0, 0.0
            )
            translations.append(dataclasses.replace(translation, alignment_config=self.search.alignment))
        return translations
