"""A tokenizer of Hugging Face's library, with the very numbers that its model was trained with.

Its tokens are those of the library, its vocabulary is given and not counted: ids follow the library's order,
without the padding, unknown and end symbols, whose places our own have. `places` leads from our ids to the
library's. What its models read around a source line (`[CLS]`, `</s>`, a language) is no word of the text: it
goes where a sink goes, see `regard.data.text`.
"""

import tempfile
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from regard.config import config, option
from regard.data.files import read_bytes, write_atomic
from regard.data.hf import open_tokenizer, pack_texts, unpack_texts
from regard.data.tokenizers.base import Tokenizer
from regard.data.vocabulary import SPECIALS, Vocabulary
from regard.errors import DataError, UsageError

__all__ = ["PretrainedTokenizer", "PretrainedTokenizerConfig"]

STARTS = ("▁", "Ġ")
"""Marks that a word starts: of SentencePiece, of byte pairs."""
GOES_ON, ENDS = "##", "</w>"
"""Marks that a word goes on (word pieces), and that it ends (older byte pairs)."""


@config
class PretrainedTokenizerConfig:
    """The tokenizer of a Hugging Face folder."""

    kind: Literal["pretrained"] = option(
        default="pretrained", help="The tokenizer of a Hugging Face folder (extra `hf`)."
    )
    folder: str = option(help="The folder.")
    language: str | None = option(
        default=None,
        help="The language, as the tokenizer names it (de_DE, deu_Latn), where it knows several; none: as "
        "its own files say (src_lang, tgt_lang).",
    )
    prefix: str = option(default="", help="Text before every source line, such as T5's task.")


class PretrainedTokenizer(Tokenizer):
    """Tokens of a tokenizer of the library.

    Args:
        config: What it was made with.
        archive: The files of its folder, from `regard.data.hf.pack_texts`.
        side: `source` or `target`.
        where: Where it comes from, for messages.

    Attributes:
        places: For each of our ids, specials included, the library's.
        before: The library's ids that a model reads before every source line.
        after: Those that it reads after it.
        code: The library's id of the language; none where it has none.

    Raises:
        DataError: if the library cannot read the files, or the tokenizer lacks what a model needs.
        UsageError: if the library is not installed, or the tokenizer has no such language.
    """

    subword = True

    def __init__(
        self, config: PretrainedTokenizerConfig, archive: bytes, side: str, where: str = "the tokenizer"
    ) -> None:
        """Open it."""
        self.config, self.archive, self.side, self.where = config, archive, side, where
        self._hf = hf = _opened(archive, where)
        self.code = self._set_language()
        vocabulary = self._vocabulary()
        end = hf.eos_token_id if hf.eos_token_id is not None else hf.sep_token_id
        if end is None:
            raise DataError(f"{where}: the tokenizer has neither an end symbol (eos) nor a separator (sep)")
        pad = end if hf.pad_token_id is None else hf.pad_token_id
        unknown = pad if hf.unk_token_id is None else hf.unk_token_id
        start = next(one for one in (hf.bos_token_id, hf.cls_token_id, end) if one is not None)
        own = {pad, unknown, end}
        ranked = sorted((number, token) for token, number in vocabulary.items())
        kept = [(n, token) for n, token in ranked if n not in own and token and "\n" not in token]
        self.listed = tuple(token for _, token in kept)
        self.places = (pad, unknown, start, end, end, *(number for number, _ in kept))
        self._names = {number: token for token, number in vocabulary.items()}
        self._specials = {*hf.all_special_tokens, *self._languages()} - {hf.unk_token}
        self.before, self.after = self._reads_around()
        around = (*self.before, *self.after) if side == "source" else ()
        self.around = tuple(self._names[number] for number in around)
        self._style = _style(vocabulary)

    def __reduce__(self) -> tuple[type["PretrainedTokenizer"], tuple[Any, ...]]:
        """Rebuild from the archive."""
        return PretrainedTokenizer, (self.config, self.archive, self.side, self.where)

    @property
    def vocabulary(self) -> Vocabulary:
        """All of its tokens."""
        return Vocabulary((*SPECIALS, *(self.listed or ())))

    @property
    def size(self) -> int:
        """One more than the library's largest id."""
        return max(self._names) + 1

    def _set_language(self) -> int | None:
        """Tell the tokenizer its language, where the config names one or its own files do; returns the id."""
        language, hf = self.config.language, self._hf
        if self.side == "target" and self.multilingual:
            language = language or hf.tgt_lang
            # It cuts no target text without one; any will do, for it writes the language beside the text.
            hf.tgt_lang = language or hf.src_lang
        if language is None:
            return None
        find = getattr(hf, "get_lang_id", hf.convert_tokens_to_ids)
        try:
            number = find(language) if self.multilingual else None
        except KeyError:
            number = None
        if number is None or number == hf.unk_token_id:
            raise UsageError(f"{self.where}: the tokenizer knows no language {language!r}")
        hf.src_lang = language
        return number

    @property
    def multilingual(self) -> bool:
        """Whether it writes a language beside each line."""
        return hasattr(self._hf, "set_src_lang_special_tokens")

    def _vocabulary(self) -> dict[str, int]:
        """Ids by token."""
        own = getattr(self._hf, "target_encoder", None) if self.side == "target" else None
        return {**(self._hf.get_vocab() if own is None else own), **self._languages()}

    def _languages(self) -> dict[str, int]:
        """Ids of languages that the library keeps apart from its vocabulary (M2M-100)."""
        return dict(getattr(self._hf, "lang_token_to_id", {}))

    def _encoded(self, text: str, specials: bool) -> list[int]:
        if self.side == "source":
            return list(self._hf(text, add_special_tokens=specials, verbose=False)["input_ids"])
        return list(self._hf(text_target=text, add_special_tokens=specials, verbose=False)["input_ids"])

    def _reads_around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What is read before a line and after it, the prefix included."""
        bare, whole = self._encoded("a", False), self._encoded("a", True)
        for first in range(len(whole) - len(bare) + 1):
            if whole[first : first + len(bare)] == bare:
                before, after = whole[:first], whole[first + len(bare) :]
                return (*before, *self._encoded(self.config.prefix, False)), tuple(after)
        raise DataError(f"{self.where}: the tokenizer cuts text otherwise where it adds its own symbols")

    def pretokenize(self, line: str) -> list[str]:
        """The tokens of the line, without what is read around it."""
        line = " ".join(line.split())
        return [self._names[number] for number in self._encoded(line, False)] if line else []

    def decode(self, tokens: Sequence[str]) -> str:
        """The text of tokens, as the library joins it, its special symbols left out."""
        said = [token for token in tokens if token not in self._specials]
        if not said:
            return ""
        text = self._hf.convert_tokens_to_string(said)
        if getattr(self._hf, "clean_up_tokenization_spaces", False):
            text = self._hf.clean_up_tokenization(text)
        return text.strip()

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """A word more at every token that the marks of the tokenizer's kind say starts one."""
        if self._style == GOES_ON:
            new = [not token.startswith(GOES_ON) for token in tokens]
        elif self._style == ENDS:
            new = [True, *(token.endswith(ENDS) for token in tokens)][: len(tokens)]
        else:
            new = [token.startswith(self._style) or token in self._specials for token in tokens]
        return list(accumulate(int(one and place > 0) for place, one in enumerate(new)))

    def save(self, folder: Path, side: str) -> None:
        """Write the archive as `SIDE.pretrained`."""
        write_atomic(folder / f"{side}.pretrained", self.archive)

    @classmethod
    def load(cls, config: PretrainedTokenizerConfig, folder: Path, side: str) -> "PretrainedTokenizer":
        """Read what `save` wrote.

        Raises:
            DataError: if the file is missing or broken.
        """
        path = folder / f"{side}.pretrained"
        return cls(config, read_bytes(path), side, str(path))

    @classmethod
    def of_folder(cls, config: PretrainedTokenizerConfig, side: str) -> "PretrainedTokenizer":
        """The tokenizer of a Hugging Face folder.

        Raises:
            DataError: if the folder is missing or holds no tokenizer.
        """
        return cls(config, pack_texts(Path(config.folder)), side, config.folder)


def _style(vocabulary: Iterable[str]) -> str:
    """The mark that most tokens carry; none: every token is a word."""
    counts = {mark: sum(token.startswith(mark) for token in vocabulary) for mark in (*STARTS, GOES_ON)}
    counts[ENDS] = sum(token.endswith(ENDS) for token in vocabulary)
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ""


def _opened(archive: bytes, where: str) -> Any:
    """The tokenizer of some files."""
    with tempfile.TemporaryDirectory() as name:
        unpack_texts(archive, Path(name), where)
        return open_tokenizer(Path(name), where)
