"""Continuation of text with a decoder-only model: `regard.generate_text`.

found = regard.generate_text("models/gpt2", "The lecture begins", sampling=regard.Sampling(top_k=40))
print(found.continuations[0].text)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from regard.api.loading import load_translator
from regard.api.model import Model
from regard.config import from_dict
from regard.config.results import Result, json_value
from regard.errors import UsageError
from regard.generation.base import BaseTranslator
from regard.generation.config import Sampling
from regard.generation.continuation import ContinuationConfig, continue_text
from regard.generation.translator import Translator
from regard.runs.config import load_config
from regard.text.tokenizers.prompt import SOURCE_FIELD, PromptTokenizerConfig

__all__ = ["Continuation", "Continuations", "generate_text"]


@dataclass(frozen=True)
class Continuation:
    """A continuation of a text.

    Attributes:
        text: The text, without that of the prompt.
        tokens: The generated tokens, without the end symbol.
        score: The score that search ranks by.
        log_probability: log p(tokens, end symbol | prompt) under the model, in nats.
        token_log_probs: The log-probability of each token and, last, of the end symbol, in nats.
    """

    text: str
    tokens: tuple[str, ...]
    score: float
    log_probability: float
    token_log_probs: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class Continuations(Result):
    """The continuations of a text, best first, or samples in their order.

    Attributes:
        prompt: The text that is continued.
        continuations: The continuations.
    """

    schema: ClassVar[str] = "continuations"
    prompt: str
    continuations: tuple[Continuation, ...]

    def to_data(self) -> Mapping[str, Any]:
        """Return the prompt and the continuations as JSON values."""
        return {
            "prompt": self.prompt,
            "continuations": [
                {
                    "text": continuation.text,
                    "tokens": list(continuation.tokens),
                    "score": json_value(continuation.score),
                    "log_probability": json_value(continuation.log_probability),
                    "token_log_probs": [json_value(value) for value in continuation.token_log_probs],
                }
                for continuation in self.continuations
            ],
        }

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Return one row per continuation."""
        return [
            {
                "text": continuation.text,
                "score": continuation.score,
                "log_probability": continuation.log_probability,
            }
            for continuation in self.continuations
        ]

    def __repr__(self) -> str:
        """Return the prompt with each continuation."""
        return "\n".join(f"{self.prompt}{continuation.text}" for continuation in self.continuations)


def generate_text(
    model: Path | str | Model,
    prompt: str,
    *,
    sampling: Sampling | None = None,
    device: str = "auto",
    precision: str = "float32",
    **options: Any,
) -> Continuations:
    """Continue a text with a decoder-only model.

    Args:
        model: The directory of the model, or a loaded model.
        prompt: The text, which is used unchanged: the template of translations is not added.
        sampling: The settings of sampling, instead of beam search.
        device: Device of a model that is not loaded, as in `regard.load`.
        precision: Data type of the matrix multiplications of a model that is not loaded.
        options: `max_new_tokens`, `num_continuations` and `beam_size`; see
            `regard.generation.continuation.ContinuationConfig`.

    Raises:
        UsageError: if the model cannot continue text, or an argument is wrong.
        ConfigError: if a setting is invalid; names it.
        DataError: if the prompt is longer than the context of the model.
        CheckpointError: if the directory is missing or damaged; names the file.
    """
    config = from_dict(ContinuationConfig, {"prompt": prompt, **options}, origin="generate")
    if sampling is not None and config.beam_size > 1:
        raise UsageError("beam_size: a setting of beam search, which cannot be combined with sampling")
    loaded = model if isinstance(model, Model) else None
    translator = _load(Path(model), device, precision) if not isinstance(model, Model) else model.translator
    translator.require("continuation", "generate")
    assert isinstance(translator, Translator)
    if loaded is None:
        return _continue(translator, config, sampling)
    with loaded.lock:
        return _continue(translator, config, sampling)


def _load(directory: Path, device: str, precision: str) -> BaseTranslator:
    """Load a translator; one that translates with prompts needs no languages here."""
    overrides: list[str] = []
    if isinstance(load_config(directory).data.source_tokenizer, PromptTokenizerConfig):
        # A template without languages, since the prompt of a translation is not used.
        overrides = [f"data.source_tokenizer.template={SOURCE_FIELD}"]
    return load_translator([directory], device, precision, overrides=overrides)


def _continue(translator: Translator, config: ContinuationConfig, sampling: Sampling | None) -> Continuations:
    continuations = continue_text(translator.model, translator.text, translator.search, config, sampling)
    vocabulary = translator.text.target.vocabulary
    return Continuations(
        config.prompt,
        tuple(
            Continuation(
                text,
                tuple(vocabulary.to_tokens(hypothesis.tokens)),
                hypothesis.score,
                hypothesis.log_probability,
                hypothesis.token_log_probs,
            )
            for text, hypothesis in continuations
        ),
    )
