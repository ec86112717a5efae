"""The tokenizer of a decoder-only model that translates: prompts with a source sentence, and their answers.

A prompt is a template with the source sentence in it, or the tokenizer's chat template around that text. The
source side of `PromptTokenizer` returns the tokens of the source sentence within the prompt; the tokens
before and after it are the same in all prompts (`prefix_ids`, `suffix_ids`). No token spans the border of the
source: where the tokenizer would merge the last punctuation mark of a sentence and the line break after it,
they stay apart. The target side returns the tokens of a translation as they follow a prompt.

In attention maps two symbols stand for everything that is not a source token: `<template>` for the tokens of
the template, among them the first token of the prompt, where such models put attention that they do not need
(the attention sink of Xiao et al., 2024), and `<translation>` for the tokens generated before.
"""

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.config import configclass, from_dict, option, to_dict
from regard.errors import ConfigError
from regard.extensions.hf.files import convert_errors
from regard.extensions.hf.tokenizer import PretrainedTokenizer
from regard.text.reading import InvalidJsonError, parse_json
from regard.text.tokenizers.base import register_tokenizer
from regard.text.words import normalize_whitespace

PROMPT_FILE = "regard_prompt.json"
"""The file of a model directory with the options of its prompts."""
DEFAULT_TEMPLATE = "Translate from {source_language} to {target_language}: {source}\n"
SOURCE_FIELD = "{source}"
LANGUAGE_FIELDS = ("source_language", "target_language")
SINK_NAMES = ("<template>", "<translation>")
"""The symbols for the tokens of the template, and for the tokens of the translation generated before."""
LINE_BREAK = "⏎"
"""Stands for a line break in the name of a token."""
_FIELD = re.compile(r"\{([a-z_]+)\}")
_PLACEHOLDER = "\ue000"
"""A private-use character, which no chat template contains."""
_WORD = "a"
"""A word with which the tokens around a sentence are found."""
_CHAT_OPTIONS = {"enable_thinking": False, "date_string": "26 Jul 2024"}
"""Variables of chat templates: no reasoning before the answer, and prompts that do not depend on the day."""


@configclass
class PromptTokenizerConfig:
    """The tokenizer and the prompt of a decoder-only model that translates.

    An option that is not given has the value in the file `regard_prompt.json` of the tokenizer's directory.
    """

    kind: Literal["prompt"] = option(
        default="prompt",
        help="The tokenizer of a decoder-only model, with the prompt of a translation; requires the extra "
        "`hf`. Both sides use it.",
    )
    path: str = option(help="Directory of the Hugging Face tokenizer.")
    template: str | None = option(
        default=None,
        help="Prompt of a translation, which contains {source} and may contain {source_language} and "
        f"{{target_language}}. Default: that of `{PROMPT_FILE}`, or else {DEFAULT_TEMPLATE!r}.",
    )
    source_language: str | None = option(
        default=None, help="Name of the source language in the prompt, such as German."
    )
    target_language: str | None = option(
        default=None, help="Name of the target language in the prompt, such as English."
    )
    chat: bool | None = option(
        default=None,
        help="Whether the prompt is a message in the tokenizer's chat template. Default: true if the "
        "tokenizer has one.",
    )
    stop_at_newline: bool | None = option(
        default=None,
        help="Whether a line break ends a translation, as a model needs that was not trained to end it with "
        "the end symbol. Default: false.",
    )

    def __post_init__(self) -> None:
        """Check the fields of the template."""
        if self.template is None:
            return
        fields = _FIELD.findall(self.template)
        if unknown := set(fields) - {"source", *LANGUAGE_FIELDS}:
            raise ValueError(f"template {self.template!r}: unknown field {{{min(unknown)}}}")
        if fields.count("source") != 1:
            raise ValueError(f"template {self.template!r}: must contain {SOURCE_FIELD} exactly once")


@dataclass(frozen=True)
class _Prompt:
    """A prompt, split at the source sentence.

    Attributes:
        before: Text before the source.
        after: Text after it; without a chat template, without spaces at the end, since tokenizers join a
            space with the next word.
        separator: The spaces between the prompt and the translation.
        chat: Whether the text contains its special tokens, so that the tokenizer adds none.
    """

    before: str
    after: str
    separator: str
    chat: bool

    @classmethod
    def build(cls, hf: Any, config: PromptTokenizerConfig, where: str) -> "_Prompt":
        """Fill in the template of a config, in the chat template of the library's tokenizer if wanted."""
        template = DEFAULT_TEMPLATE if config.template is None else config.template
        for name in LANGUAGE_FIELDS:
            language = getattr(config, name) or ""
            if f"{{{name}}}" in template and not language:
                raise ConfigError(
                    f"{where}: the prompt template {template!r} needs {name}: write it to {PROMPT_FILE} in "
                    f"the directory of the model, or set data.source_tokenizer.{name}"
                )
            template = template.replace(f"{{{name}}}", language)
        chat = hf.chat_template is not None if config.chat is None else config.chat
        if chat:
            content = template.replace(SOURCE_FIELD, _PLACEHOLDER).strip()
            with convert_errors(ConfigError, f"{where}: the chat template of the tokenizer cannot be used"):
                text = hf.apply_chat_template(
                    [{"role": "user", "content": content}],
                    tokenize=False,
                    add_generation_prompt=True,
                    **_CHAT_OPTIONS,
                )
            if text.count(_PLACEHOLDER) != 1:
                raise ConfigError(
                    f"{where}: the chat template of the tokenizer does not contain the message once; set "
                    "data.source_tokenizer.chat = false"
                )
            # The text of a chat template is used unchanged, also a space at its end.
            return cls(*text.split(_PLACEHOLDER), separator="", chat=True)
        before, after = template.split(SOURCE_FIELD)
        stripped = after.rstrip(" ")
        # Without any text in between, a space separates the source from the translation.
        return cls(before, stripped, after[len(stripped) :] if after else " ", chat=False)


@register_tokenizer("prompt", PromptTokenizerConfig)
class PromptTokenizer(PretrainedTokenizer):
    """A pre-trained tokenizer with the prompt of a translation.

    Attributes:
        stop_at_newline: Whether a line break ends a translation.

    Raises:
        ConfigError: if a language that the template needs is not given, there is no chat template, or
            `regard_prompt.json` is not valid.
        DataError: as in `PretrainedTokenizer`.
    """

    serves_both_sides = True
    config: PromptTokenizerConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self, config: PromptTokenizerConfig, archive: bytes, side: str, where: str = "the tokenizer"
    ) -> None:
        """Load the tokenizer and find the tokens around a source sentence."""
        super().__init__(config, archive, side, where)  # type: ignore[arg-type]
        self.special_tokens = SINK_NAMES if side == "source" else ()
        # The longest part of the prompt that does not depend on the source.
        self._context = f"{self._prompt.before}{_WORD}{self._prompt.after}{self._prompt.separator}"
        self._context_ids = [*self.prefix_ids, *self._source_ids(_WORD), *self.suffix_ids]

    @property
    def newline_ids(self) -> tuple[int, ...]:
        """The library's ids of the tokens that begin with a line break."""
        marks = ("Ċ", LINE_BREAK)  # in byte-level BPE, and in a vocabulary of plain text
        return tuple(
            number for number, token in self._names.items() if token.startswith(marks) or token == "<0x0A>"
        )

    def _set_language(self) -> None:
        # The prompt names the languages.
        return None

    def _vocabulary(self) -> dict[str, int]:
        return {token.replace("\n", LINE_BREAK): number for token, number in super()._vocabulary().items()}

    def _ids(self, text: str, bare: bool = False) -> list[int]:
        """Return the library's ids of a text, after its start symbols unless `bare` is true."""
        ids = list(self._hf(text, add_special_tokens=False, verbose=False)["input_ids"])
        return ids if bare else [*self._front, *ids]

    def _special_ids_around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        config = _with_prompt_file(self.config, self.learned, self.where)
        self.stop_at_newline = bool(config.stop_at_newline)
        self._prompt = prompt = _Prompt.build(self._hf, config, self.where)
        # The symbols that the tokenizer adds in front; those behind a text do not belong into a prompt.
        self._front = () if prompt.chat else self._added_ids()[0]
        word = self._ids(prompt.before + _WORD)
        before = self._ids(prompt.before.rstrip(" "))
        # A tokenizer that merges the word with the text before it gets both separately.
        self._joins = len(word) > len(before) and word[: len(before)] == before
        self.prefix_ids = tuple(before if self._joins else self._ids(prompt.before))
        whole = [*self.prefix_ids, *self._source_ids(_WORD)]
        prompt_ids = self._ids(prompt.before + _WORD + prompt.after)
        after = (
            prompt_ids[len(whole) :]
            if prompt_ids[: len(whole)] == whole
            else self._ids(prompt.after, bare=True)
        )
        return self.prefix_ids, tuple(after if prompt.after else ())

    def _source_ids(self, line: str) -> list[int]:
        if self._joins:
            ids = self._ids(self._prompt.before + line)
            if ids[: len(self.prefix_ids)] == list(self.prefix_ids):
                return ids[len(self.prefix_ids) :]
        return self._ids(line, bare=True)

    def pretokenize(self, line: str) -> list[str]:
        """Return the tokens of a source sentence within its prompt, or of a translation after a prompt."""
        line = normalize_whitespace(line)
        if not line:
            return []
        if self.side == "source":
            ids = self._source_ids(line)
        else:
            ids, size = self._ids(self._context + line), len(self._context_ids)
            ids = ids[size:] if ids[:size] == self._context_ids else self._ids(line, bare=True)
        return [self._names[number] for number in ids]

    def decode(self, tokens: Sequence[str]) -> str:
        """Convert tokens to a line of text, without special tokens; line breaks become spaces."""
        text = super().decode([token.replace(LINE_BREAK, "\n") for token in tokens])
        return normalize_whitespace(text) if "\n" in text else text


def _with_prompt_file(config: PromptTokenizerConfig, archive: bytes, where: str) -> PromptTokenizerConfig:
    """Return a config with the options of the file `regard_prompt.json` of an archive where it has none."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        if PROMPT_FILE not in opened.namelist():
            return config
        origin = f"{where}: {PROMPT_FILE}"
        try:
            content = parse_json(opened.read(PROMPT_FILE), dict[str, Any])
        except InvalidJsonError as error:
            raise ConfigError(f"{origin}: {error}") from None
    options = {name: value for name, value in to_dict(config).items() if value is not None}
    return from_dict(PromptTokenizerConfig, content | options, origin=origin)
