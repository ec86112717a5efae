"""A Hugging Face folder in the place of a model folder: what a run would have told of it."""

import logging
import os
from pathlib import Path
from typing import Any, Literal

from regard.config import from_dict
from regard.data.corpus import CorpusConfig, DataConfig
from regard.data.text import Side, TextPair
from regard.data.tokenizers.pretrained import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.decoding.config import SearchConfig
from regard.errors import CheckpointError, ConfigError
from regard.models.hf.config import HfConfig
from regard.models.hf.generation import read_generation

__all__ = ["foreign_parts", "foreign_text", "warn_not_followed"]

LONGEST = 100_000
"""The most tokens of a translation that a search may be told."""
_log = logging.getLogger(__name__)


def foreign_parts(folder: Path) -> dict[str, Any]:
    """What a run's config would say of a folder: its text, its model, how it searches."""
    model = HfConfig(folder=str(folder))
    return {"data": _data(folder), "model": model, "search": _search(folder)}


def _data(folder: Path) -> DataConfig:
    """Its tokenizers, and no corpus."""
    nothing = CorpusConfig(source=os.devnull, target=os.devnull)
    tokenizer = PretrainedTokenizerConfig(folder=str(folder))
    return DataConfig(train=(nothing,), valid=nothing, source_tokenizer=tokenizer, target_tokenizer=tokenizer)


def foreign_text(data: DataConfig) -> TextPair:
    """Tokenizers and vocabularies of a folder.

    Raises:
        DataError: if it holds no tokenizer.
    """
    source, target = (
        _side(config, name)
        for name, config in (("source", data.source_tokenizer), ("target", data.target_tokenizer))
    )
    return TextPair(source, target)


def _side(config: Any, name: str) -> Side:
    if not isinstance(config, PretrainedTokenizerConfig):
        raise ConfigError(f"data.{name}_tokenizer.kind: a Hugging Face folder has a tokenizer of its own")
    tokenizer = PretrainedTokenizer.of_folder(config, name)
    return Side(tokenizer, tokenizer.vocabulary)


def _search(folder: Path) -> SearchConfig:
    """How its model searches: as `generate` of transformers would with the settings of its directory.

    Where these name no number of beams or no maximum length, ours is taken: the library's are 1 and 20, and
    the latter cuts translations off.

    Raises:
        CheckpointError: if a setting is broken, or beyond what any machine could do; names file and setting.
    """
    found, path = read_generation(folder)
    plain = SearchConfig()
    least, most = found.min_length, found.max_length
    # New tokens are those after the start symbol.
    least = least if found.min_new_tokens is None else found.min_new_tokens + 1
    most = most if found.max_new_tokens is None else found.max_new_tokens + 1
    stops: dict[bool | str | None, Literal["likely", "certain", "full"]] = {True: "full", "never": "certain"}
    settings = {
        "beam": found.num_beams or plain.beam,
        "length_penalty": 1.0 if found.length_penalty is None else found.length_penalty,
        "min_length": least or 0,
        "max_length_ratio": plain.max_length_ratio if most is None else 0.0,
        # Some files name a number that stands for no limit.
        "max_length_extra": plain.max_length_extra if most is None else min(most, LONGEST),
        "no_repeat_ngram": found.no_repeat_ngram_size or 0,
        "forbid_unknown": False,  # `generate` may produce it unless the settings suppress it
        "scheme": {
            "stop": stops.get(found.early_stopping, "likely"),
            "transformers": True,
            "forced_end": found.forces_end,
            "renormalize": bool(found.renormalize_logits),
        },
    }
    try:
        return from_dict(SearchConfig, settings, where=str(path))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None


def warn_not_followed(folder: Path) -> None:
    """Say which of the settings of generation of a directory search does not follow."""
    settings, path = read_generation(folder)
    if names := settings.not_followed():
        _log.warning("%s: regard does not follow %s", path, ", ".join(names))
