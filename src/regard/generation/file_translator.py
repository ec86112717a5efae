"""A file of finished translations, with the contract of a translator."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.text import TextProcessor, TextSide
from regard.errors import DataError, UsageError
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.config import GenerationConfig
from regard.generation.hypothesis import Hypothesis
from regard.generation.lines import Line
from regard.generation.translation import Translation
from regard.models.formats import missing_directory_message
from regard.text.corpus import read_lines
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary

__all__ = ["FileTranslator"]


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
            raise UsageError(missing_directory_message(path, "model directory or file with translations"))
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
            output = self.lines[line.number - 1]
            tokens = self.text.target.tokenize(output)
            unscored = Hypothesis(tuple(self.text.target.vocabulary.to_ids(tokens)), 0.0, 0.0, (), ())
            untranslated = Translation(
                line.text,
                self.text,
                number=line.number,
                source_tokens=tuple(self.text.source.tokenize(line.text)),
                alignment_config=self.search.alignment,
            )
            translations.append(untranslated.with_hypothesis(output, tokens, unscored))
        return translations
