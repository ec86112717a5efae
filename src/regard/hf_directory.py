"""Support for Hugging Face directories as model directories: their config, tokenizers and search settings."""

import logging
import os
from pathlib import Path
from typing import Any, Literal

from regard.config import from_dict
from regard.data.corpus import CorpusConfig, DataConfig
from regard.data.text import TextProcessor, TextSide
from regard.data.tokenizers.pretrained import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.errors import CheckpointError, ConfigError
from regard.generation.config import GenerationConfig
from regard.models.hf.config import HfConfig
from regard.models.hf.generation import read_generation_settings

__all__ = ["hf_run_sections", "load_hf_text", "warn_ignored_settings"]

MAX_GENERATED_LENGTH = 100_000
"""Largest maximum length of a translation, in tokens, that is taken from a generation config."""
_log = logging.getLogger(__name__)


def hf_run_sections(directory: Path) -> dict[str, Any]:
    """Return the sections `data`, `model` and `generation` of a `RunConfig` for a Hugging Face directory."""
    model = HfConfig(path=str(directory))
    return {"data": _data_config(directory), "model": model, "generation": _search_config(directory)}


def _data_config(directory: Path) -> DataConfig:
    """Return a data config with the tokenizers of the directory and an empty corpus."""
    empty = CorpusConfig(source=os.devnull, target=os.devnull)
    tokenizer = PretrainedTokenizerConfig(path=str(directory))
    return DataConfig(train=(empty,), valid=empty, source_tokenizer=tokenizer, target_tokenizer=tokenizer)


def load_hf_text(data: DataConfig) -> TextProcessor:
    """Load the tokenizers and vocabularies of a Hugging Face directory.

    Args:
        data: The section `data` of `hf_run_sections`.

    Raises:
        DataError: if the directory has no tokenizer.
        ConfigError: if `data` names another kind of tokenizer.
    """
    source, target = (
        _side(config, name)
        for name, config in (("source", data.source_tokenizer), ("target", data.target_tokenizer))
    )
    return TextProcessor(source, target)


def _side(config: Any, name: str) -> TextSide:
    if not isinstance(config, PretrainedTokenizerConfig):
        raise ConfigError(
            f"data.{name}_tokenizer.kind: a Hugging Face model uses its own tokenizer; remove this setting"
        )
    tokenizer = PretrainedTokenizer.from_directory(config, name)
    return TextSide(tokenizer, tokenizer.vocabulary)


def _search_config(directory: Path) -> GenerationConfig:
    """Return the search settings that `generate` of transformers would use for this directory.

    If the generation config gives no number of beams or no maximum length, regard's default applies. The
    defaults of transformers are 1 beam and 20 tokens, and the latter truncates translations.

    Raises:
        CheckpointError: if a setting is invalid or out of range; names the file and the setting.
    """
    found, path = read_generation_settings(directory)
    defaults = GenerationConfig()
    min_length, max_length = found.min_length, found.max_length
    # `max_new_tokens` and `min_new_tokens` do not count the start symbol.
    min_length = min_length if found.min_new_tokens is None else found.min_new_tokens + 1
    max_length = max_length if found.max_new_tokens is None else found.max_new_tokens + 1
    stopping: dict[bool | str | None, Literal["heuristic", "exact", "first_n"]] = {
        True: "first_n",
        "never": "exact",
    }
    # Some files give a very large number to mean "no limit".
    offset = defaults.max_length_offset if max_length is None else min(max_length, MAX_GENERATED_LENGTH)
    settings = {
        "beam_size": found.num_beams or defaults.beam_size,
        "length_penalty": 1.0 if found.length_penalty is None else found.length_penalty,
        "min_length": min_length or 0,
        "max_length_ratio": defaults.max_length_ratio if max_length is None else 0.0,
        "max_length_offset": offset,
        "no_repeat_ngram_size": found.no_repeat_ngram_size or 0,
        "suppress_unk": False,  # `generate` may produce the unknown token unless the settings suppress it
        "scheme": {
            "stopping": stopping.get(found.early_stopping, "heuristic"),
            "hf_compatible": True,
            "forced_eos": found.forces_end,
            "renormalize_logits": bool(found.renormalize_logits),
        },
    }
    try:
        return from_dict(GenerationConfig, settings, origin=str(path))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None


def warn_ignored_settings(directory: Path) -> None:
    """Log a warning that lists the settings of the generation config that regard ignores."""
    settings, path = read_generation_settings(directory)
    if names := settings.unsupported():
        _log.warning("%s: regard ignores %s", path, ", ".join(names))
