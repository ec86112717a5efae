"""Generation settings of a Hugging Face model, from `generation_config.json` or else `config.json`.

As in transformers, `config.json` is ignored if the first file exists. Constraints on the generated tokens are
converted to `GenerationConstraints` with our ids. The description of a
model (`regard.extensions.hf.model_format`) uses the settings of beam search.
"""

import json
from pathlib import Path
from typing import Any, Literal

import pydantic
from pydantic import ConfigDict, Field, ValidationError

from regard.errors import CheckpointError, ConfigError, DataError
from regard.extensions.hf.files import HF_CONFIG, TokenId
from regard.extensions.hf.tokenizer import PretrainedTokenizer
from regard.models.base import GenerationConstraints
from regard.text.reading import checked_file, read_bytes
from regard.text.vocabulary import BOS, EOS, PAD, SINK, UNK

__all__ = [
    "GENERATION_CONFIG",
    "GenerationSettings",
    "decoder_prefix",
    "read_generation_settings",
    "to_constraints",
]

GENERATION_CONFIG = "generation_config.json"
_TokenId = TokenId | Literal[-1]
"""Some files have -1 instead of no token."""
UNSUPPORTED = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "guidance_scale"), 1.0),
    **dict.fromkeys(("num_return_sequences", "num_beam_groups"), 1),
    **dict.fromkeys(
        (
            *("do_sample", "diversity_penalty", "penalty_alpha", "encoder_no_repeat_ngram_size"),
            *("exponential_decay_length_penalty", "sequence_bias", "force_words_ids", "stop_strings"),
        )
    ),
}
"""Settings of `generate` that change translations and that search does not have, with their neutral value."""


class GenerationSettings(pydantic.BaseModel):
    """The keys of `generation_config.json` that concern search; missing keys and null are `None`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    num_beams: int | None = Field(default=None, ge=1)
    length_penalty: float | None = Field(default=None, allow_inf_nan=False)
    early_stopping: bool | Literal["never"] | None = None
    min_length: int | None = Field(default=None, ge=0)
    min_new_tokens: int | None = Field(default=None, ge=0)
    max_length: int | None = Field(default=None, ge=1)
    max_new_tokens: int | None = Field(default=None, ge=1)
    no_repeat_ngram_size: int | None = Field(default=None, ge=0)
    renormalize_logits: bool | None = None
    forced_eos_token_id: _TokenId | list[_TokenId] | None = None
    eos_token_id: _TokenId | list[_TokenId] | None = None
    bad_words_ids: list[list[_TokenId]] | None = None
    suppress_tokens: list[_TokenId] | None = None
    begin_suppress_tokens: list[_TokenId] | None = None

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The ids of the end symbols in transformers."""
        ids = self.eos_token_id
        return () if ids is None else tuple(ids) if isinstance(ids, list) else (ids,)

    @property
    def forces_end(self) -> bool:
        """Whether the end symbol is forced, without a score, when a translation has the maximum length."""
        ids = self.forced_eos_token_id
        forced = {ids} if isinstance(ids, int) else set(ids or ())
        return bool(forced) and (not self.end_ids or bool(forced & set(self.end_ids[:1])))

    def unsupported(self, several_ends: bool = False) -> list[str]:
        """Return the settings that search does not support, in the format of the file.

        Args:
            several_ends: Whether the model supports several end symbols.
        """
        settings = {
            name: value
            for name, value in (self.model_extra or {}).items()
            if name in UNSUPPORTED and value and value != UNSUPPORTED[name]
        }
        if len(self.end_ids) > 1 and not several_ends:
            settings["eos_token_id"] = self.eos_token_id
        if self.forced_eos_token_id is not None and not self.forces_end:
            settings["forced_eos_token_id"] = self.forced_eos_token_id
        return [f"{name} = {json.dumps(value)}" for name, value in settings.items()]


def read_generation_settings(directory: Path) -> tuple[GenerationSettings, Path]:
    """Return the generation settings of a directory, and the path of their file.

    Raises:
        CheckpointError: if the file is missing or broken, or if a value is invalid. The message names both.
    """
    path = directory / GENERATION_CONFIG
    path = path if path.is_file() else directory / HF_CONFIG
    try:
        content = read_bytes(checked_file(directory, path.name))
        return GenerationSettings.model_validate_json(content), path
    except DataError as error:
        raise CheckpointError(str(error)) from None
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False)
        place = ".".join(str(part) for part in first["loc"])
        raise CheckpointError(f"{path}: {place + ': ' if place else ''}{first['msg']}") from None


def to_constraints(
    settings: GenerationSettings, start: tuple[int, ...], tokenizer: PretrainedTokenizer
) -> GenerationConstraints:
    """Convert the prefix of translations and the forbidden tokens to our ids.

    Args:
        settings: The generation settings.
        start: The ids, in transformers, of the prefix of every translation.
        tokenizer: The target tokenizer. Tokens outside its vocabulary are never generated.
    """
    # From ids of transformers to ours. The special symbols below take precedence where ids coincide.
    ours = {number: place for place, number in enumerate(tokenizer.library_ids) if place not in (BOS, SINK)}
    for place in (EOS, UNK, PAD):
        ours[tokenizer.library_ids[place]] = place
    prefix = tuple(ours.get(number, PAD) for number in start)
    ends = set(settings.end_ids) or {tokenizer.library_ids[EOS]}
    # As in transformers, a single end symbol is not treated as a bad word.
    words = [word for word in settings.bad_words_ids or () if not (len(word) == 1 and word[0] in ends)]
    # A sequence with a token that we cannot generate never occurs.
    words = [[ours[number] for number in word] for word in words if all(number in ours for number in word)]
    single = [word[0] for word in words if len(word) == 1]
    suppressed, first = (
        [ours[number] for number in numbers or () if number in ours]
        for numbers in (settings.suppress_tokens, settings.begin_suppress_tokens)
    )
    return GenerationConstraints(
        prefix=prefix,
        suppressed=tuple(sorted({*single, *suppressed})),
        suppressed_first=tuple(sorted(set(first))),
        banned_sequences=tuple(tuple(word) for word in words if len(word) > 1),
    )


def decoder_prefix(model: Any, target: PretrainedTokenizer) -> tuple[int, ...]:
    """Return the ids of the prefix of every translation: the start symbol, and the language token if any.

    Raises:
        ConfigError: if the model is multilingual and the target language is not specified.
        CheckpointError: if a symbol is not a token.
    """
    generation, config = model.generation_config, model.config

    def find(name: str, *configs: Any) -> int | None:
        values = (getattr(configuration, name, None) for configuration in configs)
        number = next((value for value in values if value is not None), None)
        if number is not None and not (isinstance(number, int) and 0 <= number < target.num_library_ids):
            raise CheckpointError(
                f"{target.where}: {name} = {number!r} in {GENERATION_CONFIG} or {HF_CONFIG}; expected the id "
                "of a token"
            )
        return number

    # Like `generate`, which prefers the start symbol of the model to that of the tokenizer.
    start = find("decoder_start_token_id", generation, config)
    start = find("bos_token_id", generation, config) if start is None else start
    start = target.library_ids[BOS] if start is None else start
    starts_with_language = start not in target.library_ids[:SINK]
    forced = find("forced_bos_token_id", generation)
    if target.language_id is not None and (target.config.language is not None or forced is None):
        # The language that the config requests, or the tokenizer's if generation forces none. If the targets
        # of transformers end with the language token (mBART), training moves it to the front instead of a
        # start symbol, so there is no other prefix.
        ends_with_language = target.language_id in target.suffix_ids
        return (
            (target.language_id,)
            if starts_with_language or ends_with_language
            else (start, target.language_id)
        )
    if forced is not None:
        return (start, forced)
    if target.multilingual and not starts_with_language:
        raise ConfigError(
            f"{target.where}: its model is multilingual, but the target language is not specified: set "
            "src_lang and tgt_lang in its tokenizer_config.json, or set data.source_tokenizer.language "
            "and data.target_tokenizer.language"
        )
    return (start,)
