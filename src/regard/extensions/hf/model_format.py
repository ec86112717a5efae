"""Hugging Face directories as model directories: their tokenizers and search settings make a description.

`recognizes`, `describe_model` and `load_text` implement the contract `regard.models.registry.ModelFormat`.

Generation settings come from `generation_config.json` or else `config.json`. As in transformers, the latter
is ignored if the first file exists. Constraints on the generated tokens are converted to
`GenerationConstraints` with our ids.
"""

import json
import logging
import os
from pathlib import Path
from typing import Any, Literal

import pydantic
from pydantic import ConfigDict, Field

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.text import TextProcessor, TextSide
from regard.errors import CheckpointError, ConfigError, DataError
from regard.extensions.hf.causal import CausalConfig
from regard.extensions.hf.files import (
    GENERATION_CONFIG,
    HF_CONFIG,
    TokenId,
    import_transformers,
    read_hf_config,
)
from regard.extensions.hf.prompt_tokenizer import PromptTokenizerConfig
from regard.extensions.hf.seq2seq import HfConfig
from regard.extensions.hf.tokenizer import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.generation.config import GenerationConfig
from regard.models.base import GenerationConstraints
from regard.runs.description import CONFIG_FILE, ModelDescription
from regard.text.corpus import CorpusConfig
from regard.text.reading import checked_file, read_expected_json
from regard.text.tokenizers.base import TOKENIZERS
from regard.text.vocabulary import BOS, EOS, PAD, SINK, UNK

_log = logging.getLogger(__name__)
MAX_GENERATED_LENGTH = 100_000
"""Largest maximum length of a translation, in tokens, that is taken from a generation config."""
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
        """Return the settings that search does not support; some models support several end symbols."""
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
        file = checked_file(directory, path.name)
        return read_expected_json(file, GenerationSettings, "generation settings"), path
    except DataError as error:
        raise CheckpointError(str(error)) from None


def to_constraints(
    settings: GenerationSettings, start: tuple[int, ...], tokenizer: PretrainedTokenizer
) -> GenerationConstraints:
    """Convert the ids of the prefix of every translation (`start`) and the forbidden tokens to ours.

    Tokens outside the vocabulary of the target tokenizer are never generated.
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


def recognizes(directory: Path) -> bool:
    """Return whether a directory is a Hugging Face directory, and not one of this package."""
    # A model directory of this package may contain a `config.json`, too.
    return (directory / HF_CONFIG).is_file() and not (directory / CONFIG_FILE).exists()


def describe_model(directory: Path) -> ModelDescription:
    """Return the description that stands for a directory: its tokenizers and its search settings."""
    path, causal = str(directory), _is_causal(directory)
    model = CausalConfig(path=path) if causal else HfConfig(path=path)
    tokenizer = PromptTokenizerConfig(path=path) if causal else PretrainedTokenizerConfig(path=path)
    # A data config requires training and validation text, which the directory does not contain.
    empty = CorpusConfig(source=os.devnull, target=os.devnull)
    data = DataConfig(train=(empty,), valid=empty, source_tokenizer=tokenizer, target_tokenizer=tokenizer)
    return ModelDescription(data=data, model=model, generation=_search_config(directory, causal))


def load_text(directory: Path, config: ModelDescription) -> TextProcessor:
    """Load the tokenizers of a directory, and log a warning if some of its search settings are ignored."""
    settings, path = read_generation_settings(directory)
    if names := settings.unsupported(several_ends=_is_causal(directory)):
        _log.warning("%s: regard ignores %s", path, ", ".join(names))
    data = config.data
    return TextProcessor(_side(data.source_tokenizer, "source"), _side(data.target_tokenizer, "target"))


def _side(config: Any, name: str) -> TextSide:
    if not isinstance(config, PretrainedTokenizerConfig | PromptTokenizerConfig):
        raise ConfigError(
            f"data.{name}_tokenizer.kind: a Hugging Face model uses its own tokenizer; remove this setting"
        )
    tokenizer = TOKENIZERS.part_of(config).create(config, (), name)
    assert isinstance(tokenizer, PretrainedTokenizer)
    return TextSide(tokenizer, tokenizer.vocabulary)


def _search_config(directory: Path, causal: bool) -> GenerationConfig:
    """Return the search settings that `generate` of transformers would use for this directory.

    If the generation config gives no number of beams or no maximum length, regard's default applies. The
    defaults of transformers are 1 beam and 20 tokens, and the latter truncates translations. `max_length` and
    `min_length` of a decoder-only (causal) model include the prompt and are ignored.
    """
    hf_settings, path = read_generation_settings(directory)
    defaults = GenerationConfig()
    min_length, max_length = (None, None) if causal else (hf_settings.min_length, hf_settings.max_length)
    # `max_new_tokens` and `min_new_tokens` do not count the start symbol.
    min_length = min_length if hf_settings.min_new_tokens is None else hf_settings.min_new_tokens + 1
    max_length = max_length if hf_settings.max_new_tokens is None else hf_settings.max_new_tokens + 1
    early = hf_settings.early_stopping
    # Some files give a very large number to mean "no limit".
    offset = defaults.max_length_offset if max_length is None else min(max_length, MAX_GENERATED_LENGTH)
    settings = {
        "beam_size": hf_settings.num_beams or defaults.beam_size,
        "length_penalty": 1.0 if hf_settings.length_penalty is None else hf_settings.length_penalty,
        "min_length": min_length or 0,
        # transformers has an absolute maximum: with the ratio 0, the offset alone is the maximum.
        "max_length_ratio": defaults.max_length_ratio if max_length is None else 0.0,
        "max_length_offset": offset,
        "no_repeat_ngram_size": hf_settings.no_repeat_ngram_size or 0,
        "suppress_unk": False,  # `generate` may produce the unknown token unless the settings suppress it
        "scheme": {
            "stopping": "first_n" if early is True else "exact" if early == "never" else "heuristic",
            "hf_compatible": True,
            "forced_eos": hf_settings.forces_end,
            "renormalize_logits": bool(hf_settings.renormalize_logits),
        },
    }
    try:
        return from_dict(GenerationConfig, settings, origin=str(path))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None


def _is_causal(directory: Path) -> bool:
    """Return whether a Hugging Face directory has a decoder-only language model.

    Masked language models (BERT), which the library can run as decoders too, count only if their
    configuration states that they are decoders.
    """
    content = read_hf_config(directory)
    import_transformers()
    from transformers.models.auto import modeling_auto as auto

    kind = content["model_type"]
    if content.get("is_encoder_decoder") or kind not in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return False
    return kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES or bool(content.get("is_decoder"))
