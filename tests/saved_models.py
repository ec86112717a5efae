"""Small models with random weights, saved as training saves them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config import dump_toml, from_dict, to_dict
from regard.data.fertility import Budget, ConstantFertilityConfig
from regard.data.text import TextProcessor, TextSide
from regard.models import build_model
from regard.runs.checksums import write_weights
from regard.runs.description import CONFIG_FILE, END_MARKER
from regard.runs.weights import named_weights
from regard.text.tokenizers.subwords import BytePairConfig, BytePairTokenizer
from regard.text.tokenizers.words import WordsConfig, WordsTokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from regard.training.run_config import RunConfig

SOURCE, TARGET = "a b c d e f g", "A B C D E F G"
LSTM = {"embedding_size": 8, "encoder": {"hidden_size": 8}, "decoder": {"hidden_size": 8}, "init_range": 0.7}


def small_rnn(size: int) -> dict[str, Any]:
    """Return the settings of a model with one layer of the given size in the encoder and in the decoder."""
    layers = {"num_layers": 1, "hidden_size": size}
    return {"embedding_size": size, "encoder": layers, "decoder": layers}


def words_side(words: str) -> TextSide:
    """Return the text processing of words that are separated by spaces."""
    return TextSide(WordsTokenizer(WordsConfig()), Vocabulary((*SPECIAL_TOKENS, *words.split())))


def subword_side(tokens: str) -> TextSide:
    """Return the text processing of subword tokens; without merges, each character is one."""
    tokenizer = BytePairTokenizer(BytePairConfig(tokenized=True), b"#version: 0.2\n")
    return TextSide(tokenizer, Vocabulary((*SPECIAL_TOKENS, *tokens.split())))


def save_model(
    directory: Path,
    seed: int = 0,
    *,
    model: Mapping[str, Any] = LSTM,
    attention: Mapping[str, Any] | None = None,
    fertility: float | None = None,
    sink: bool = True,
    source: str | TextSide = SOURCE,
    target: str | TextSide = TARGET,
    data: Mapping[str, Any] = {},
    generation: Mapping[str, Any] = {},
    initialize: Callable[[nn.Module], object] = lambda network: None,
) -> Path:
    """Save a model; a fertility gives it bounded attention."""
    directory.mkdir(exist_ok=True)
    settings: dict[str, Any] = {
        "data": {"train": [{"source": "s", "target": "t"}], "valid": {"source": "s", "target": "t"}, **data},
        "model": dict(model),
        "generation": {"beam_size": 3, "min_length": 1, "max_length_ratio": 1.0, "max_length_offset": 4}
        | dict(generation),
    }
    sides = [words_side(side) if isinstance(side, str) else side for side in (source, target)]
    sizes = [len(side.vocabulary) for side in sides]
    budget = None
    if fertility is not None:
        settings["data"]["fertility"] = {"kind": "constant", "value": fertility, "sink": sink}
        budget = Budget.constant(ConstantFertilityConfig(value=fertility, sink=sink), sizes[0])
        attention = attention or {"kind": "constrained"}
    if attention is not None:
        settings["model"]["attention"] = dict(attention)
    config = from_dict(RunConfig, settings)
    TextProcessor(*sides, budget).save(directory)
    torch.manual_seed(seed)
    network = build_model(config.model, *sizes)
    initialize(network)
    write_weights(directory, to_dict(config), named_weights(network), {})
    (directory / CONFIG_FILE).write_text(dump_toml(config) + END_MARKER, encoding="utf-8")
    return directory
