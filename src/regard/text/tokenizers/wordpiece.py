"""WordPiece (Schuster & Nakajima, 2012), the subword tokens of BERT, trained with the package tokenizers.

It is applied to Moses tokens, or to the words of tokenized text, and by default learned on source and target
together. A token that does not start its word begins with `##`: `low ##est`. A word is split from the left,
each time into the longest token in the vocabulary (Wu et al., 2016, Section 4.1; Devlin et al., 2019). A word
with a character that did not occur in the training text is a single token, which is unknown.

The package chooses the tokens by frequency, as byte pair encoding does, not by likelihood as in the paper.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

from regard.config import configclass, option
from regard.errors import UsageError
from regard.text.tokenizers.base import joint_option, register_tokenizer
from regard.text.tokenizers.moses import WordSplitter, check_language, language_option, tokenized_option

__all__ = ["WordPieceConfig", "WordPieceTokenizer", "train_wordpiece"]

_MARK = "##"
_MAX_LENGTH = 128
"""Maximum length of a word in characters; a longer word is a single token, which is unknown."""
_UNKNOWN = "[UNK]"


@configclass
class WordPieceConfig:
    """WordPiece tokens of words."""

    kind: Literal["wordpiece"] = option(
        default="wordpiece", help="WordPiece tokens of Moses tokens, as in BERT (Schuster & Nakajima, 2012)."
    )
    language: str = language_option()
    vocab_size: int = option(
        default=8_000,
        help="Maximum number of tokens to learn, including characters. All characters of the text are kept.",
        ge=1,
        le=1_000_000,
    )
    joint: bool = joint_option()
    tokenized: bool = tokenized_option()

    def __post_init__(self) -> None:
        """Check that Moses supports the language, unless the text is tokenized."""
        if not self.tokenized:
            check_language(self.language)


def _library() -> Any:
    """Return the package tokenizers.

    Raises:
        UsageError: if it is not installed.
    """
    try:
        import tokenizers
    except ImportError:
        raise UsageError(
            "the tokenizer wordpiece requires tokenizers: run pip install 'regard[hf]'"
        ) from None
    return tokenizers


def train_wordpiece(counts: Mapping[str, int], vocab_size: int) -> bytes:
    """Learn the tokens from word frequencies. The result is deterministic.

    Args:
        counts: The frequency of each word.
        vocab_size: Maximum number of tokens. All characters are kept, even if they are more.

    Returns:
        The tokens, one per line, as in the file `vocab.txt` of BERT: the characters, at the start of a word
        and inside of words, then longer tokens in the order in which they were learned.
    """
    known = [word for word in sorted(counts) if len(word) <= _MAX_LENGTH]
    inside = {character for word in known for character in word[1:]}
    starts = {word[0] for word in known}
    characters = [*sorted(starts | inside), *(f"{_MARK}{symbol}" for symbol in sorted(inside))]
    if not characters:
        return b""
    library = _library()
    model = library.Tokenizer(library.models.WordPiece(unk_token=_UNKNOWN))
    model.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=max(vocab_size, len(characters)),
        min_frequency=2,
        show_progress=False,
        continuing_subword_prefix=_MARK,
        # Fixed ids of all characters: otherwise ties between merges depend on the order of a hash table.
        special_tokens=characters,
    )
    # The library counts words by itself, so each word is repeated as often as it occurs.
    model.train_from_iterator((" ".join([word] * counts[word]) for word in known), trainer)
    ids = model.get_vocab(with_added_tokens=False)
    return "".join(f"{token}\n" for token in sorted(ids, key=ids.__getitem__)).encode()


@register_tokenizer("wordpiece", WordPieceConfig)
class WordPieceTokenizer(WordSplitter):
    """A tokenizer that splits Moses tokens, or white space separated words, into WordPiece tokens.

    Attributes:
        tokens: The learned tokens.
    """

    libraries = ("sacremoses", "tokenizers")
    extension = "wordpiece"

    def __init__(self, config: WordPieceConfig, learned: bytes = b"") -> None:
        """Initialize from the learned tokens, as returned by `train_wordpiece`."""
        super().__init__(config, learned)
        # Only `\n` separates lines: a token may be another line separator of Unicode.
        lines = learned.decode().removesuffix("\n")
        self.tokens = tuple(lines.split("\n")) if lines else ()
        if not all(self.tokens) or len(set(self.tokens)) < len(self.tokens):
            raise ValueError("not a list of tokens: expected one per line, each once")
        vocabulary = {token: number for number, token in enumerate((_UNKNOWN, *self.tokens))}
        self._model = _library().models.WordPiece(
            vocabulary,
            unk_token=_UNKNOWN,
            max_input_chars_per_word=_MAX_LENGTH,
            continuing_subword_prefix=_MARK,
        )

    def learn(self, counts: Mapping[str, int]) -> "WordPieceTokenizer":
        """Learn the tokens."""
        return WordPieceTokenizer(self.config, train_wordpiece(counts, self.config.vocab_size))

    def segment(self, unit: str) -> Sequence[str]:
        """Return the subword tokens of a word; all except the first begin with `##`."""
        # A word that starts like the mark would continue the word before it, so its characters are apart.
        if unit.startswith(_MARK) and unit != _MARK:
            return [unit[0], *(f"{_MARK}{character}" for character in unit[1:])]
        tokens = [token.value for token in self._model.tokenize(unit)]
        # An unknown word is kept, so that it can be copied.
        return (unit,) if tokens == [_UNKNOWN] else tokens

    def join(self, tokens: Sequence[str]) -> str:
        """Join subword tokens to words, separated by spaces."""
        return "".join(
            token.removeprefix(_MARK) if token.startswith(_MARK) and len(token) > len(_MARK) else f" {token}"
            for token in tokens
        )

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index of each token; a word starts at every token without the mark."""
        starts = (not token.startswith(_MARK) or len(token) == len(_MARK) for token in tokens)
        return list(accumulate(int(start and place > 0) for place, start in enumerate(starts)))
