"""Hugging Face directories as model directories: their tokenizers and search settings make a description.

The functions of this module implement the contract `regard.models.registry.ModelFormat`.
"""

import logging
import os
from pathlib import Path
from typing import Any, Literal

from regard.config import from_dict
from regard.data.config import DataConfig
from regard.data.text import TextProcessor, TextSide
from regard.errors import CheckpointError, ConfigError
from regard.extensions.hf.config import CausalConfig, HfConfig
from regard.extensions.hf.files import HF_CONFIG, import_transformers, read_hf_config
from regard.extensions.hf.generation_settings import read_generation_settings
from regard.extensions.hf.prompt_tokenizer import PromptTokenizerConfig
from regard.extensions.hf.tokenizer import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.generation.config import GenerationConfig
from regard.runs.description import CONFIG_FILE, ModelDescription
from regard.text.corpus import CorpusConfig
from regard.text.tokenizers.base import TOKENIZERS

__all__ = ["describe_model", "load_text", "recognizes"]

_log = logging.getLogger(__name__)
MAX_GENERATED_LENGTH = 100_000
"""Largest maximum length of a translation, in tokens, that is taken from a generation config."""


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
    defaults of transformers are 1 beam and 20 tokens, and the latter truncates translations.

    Args:
        directory: The directory.
        causal: Whether its model is decoder-only. Then `max_length` and `min_length` include the prompt and
            are ignored.

    Raises:
        CheckpointError: if a setting is invalid or out of range; names the file and the setting.
    """
    hf_settings, path = read_generation_settings(directory)
    defaults = GenerationConfig()
    min_length, max_length = (None, None) if causal else (hf_settings.min_length, hf_settings.max_length)
    # `max_new_tokens` and `min_new_tokens` do not count the start symbol.
    min_length = min_length if hf_settings.min_new_tokens is None else hf_settings.min_new_tokens + 1
    max_length = max_length if hf_settings.max_new_tokens is None else hf_settings.max_new_tokens + 1
    stopping: dict[bool | str | None, Literal["heuristic", "exact", "first_n"]] = {
        True: "first_n",
        "never": "exact",
    }
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
            "stopping": stopping.get(hf_settings.early_stopping, "heuristic"),
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

    Raises:
        CheckpointError: if the directory has no valid `config.json`.
        UsageError: if transformers is not installed.
    """
    content = read_hf_config(directory)
    import_transformers()
    from transformers.models.auto import modeling_auto as auto

    kind = content["model_type"]
    if content.get("is_encoder_decoder") or kind not in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return False
    return kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES or bool(content.get("is_decoder"))
