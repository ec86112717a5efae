"""A Hugging Face folder in the place of a model folder: what a run would have told of it."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from regard.data.corpus import CorpusConfig, DataConfig
from regard.data.text import Side, TextPair
from regard.data.tokenizers.pretrained import PretrainedTokenizer, PretrainedTokenizerConfig
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError
from regard.models.hf.config import HfConfig

__all__ = ["foreign_parts", "foreign_text"]


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
    """How its model searches, as far as its `generation_config.json` or `config.json` say so."""
    found: dict[str, Any] = {}
    for name in ("config.json", "generation_config.json"):
        try:
            found |= json.loads((folder / name).read_bytes())
        except (OSError, ValueError):
            continue  # who opens the model says what is wrong
    beam, repeats = found.get("num_beams") or 0, found.get("no_repeat_ngram_size") or 0
    search = SearchConfig()
    return dataclasses.replace(search, beam=beam if beam > 1 else search.beam, no_repeat_ngram=repeats)
