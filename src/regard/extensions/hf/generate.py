"""Continuation of text with a decoder-only model: `regard.generate_text`.

result = regard.generate_text("models/gpt2", "The lecture begins", sampling=regard.Sampling(top_k=40))
print(result.continuations[0].text)
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from regard.api.loading import load_translator
from regard.api.translator import Translator
from regard.config import configclass, from_dict, option
from regard.config.results import Result
from regard.errors import DataError, UsageError
from regard.extensions.hf.causal import HfCausal
from regard.extensions.hf.prompt_tokenizer import SOURCE_FIELD, PromptTokenizer, PromptTokenizerConfig
from regard.generation.base import BaseTranslator
from regard.generation.beam import beam_search
from regard.generation.config import Sampling
from regard.generation.hypothesis import Hypothesis
from regard.generation.neural_translator import NeuralTranslator
from regard.generation.sampling import sample
from regard.runs.description import load_description
from regard.text.vocabulary import BOS

__all__ = ["Continuation", "ContinuationConfig", "Continuations", "generate_text"]


@configclass
class ContinuationConfig:
    """A text to continue, and the settings of its continuation."""

    prompt: str = option(help="Text that is continued, without changes.")
    max_new_tokens: int = option(
        default=50, help="Maximum number of tokens of a continuation.", ge=1, le=100_000
    )
    num_continuations: int = option(default=1, help="Number of continuations.", ge=1, le=1_000)
    beam_size: int = option(
        default=1, help="Number of unfinished hypotheses. 1 is greedy search.", ge=1, le=1_000
    )


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

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Return one row per continuation."""
        columns = ("text", "score", "log_probability")
        return [{name: getattr(row, name) for name in columns} for row in self.continuations]

    def __repr__(self) -> str:
        """Return the prompt with each continuation."""
        return "\n".join(f"{self.prompt}{continuation.text}" for continuation in self.continuations)


def generate_text(
    model: Path | str | Translator,
    prompt: str,
    *,
    max_new_tokens: int = 50,
    num_continuations: int = 1,
    beam_size: int = 1,
    sampling: Sampling | None = None,
    device: str = "auto",
    precision: Literal["float32", "bfloat16"] = "float32",
) -> Continuations:
    """Continue a text with a decoder-only model.

    Args:
        model: The directory of the model, or a loaded model.
        prompt: Text that is continued, without changes: the template of translations is not added.
        max_new_tokens: Maximum number of tokens of a continuation.
        num_continuations: Number of continuations.
        beam_size: Number of unfinished hypotheses. 1 is greedy search.
        sampling: The settings of sampling, instead of beam search.
        device: Device: auto (a GPU if available), cpu, cuda or cuda:N.
        precision: Number format of matrix multiplications; bfloat16 is faster on recent GPUs.

    Raises:
        UsageError: if the model cannot continue text, or an argument is wrong.
        ConfigError: if a setting is invalid; names it.
        DataError: if the prompt is longer than the context of the model.
        CheckpointError: if the directory is missing or damaged; names the file.
    """
    options: dict[str, Any] = {"num_continuations": num_continuations, "beam_size": beam_size}
    options |= {"prompt": prompt, "max_new_tokens": max_new_tokens}
    config = from_dict(ContinuationConfig, options, origin="generate")
    if sampling is not None and config.beam_size > 1:
        raise UsageError("beam_size: a setting of beam search, which cannot be combined with sampling")
    translator = model.backend if isinstance(model, Translator) else _load(Path(model), device, precision)
    if not isinstance(translator, NeuralTranslator) or not isinstance(translator.model, HfCausal):
        raise UsageError(
            f"{model}: cannot continue text; use a decoder-only model, such as one of `regard pretrain` with "
            "kind = 'causal'"
        )
    # A loaded model may be in use by other threads.
    with model.lock if isinstance(model, Translator) else nullcontext():
        return Continuations(prompt, _continue(translator, translator.model, config, sampling))


def _load(directory: Path, device: str, precision: str) -> BaseTranslator:
    """Load a translator; one that translates with prompts needs no languages here."""
    overrides: list[str] = []
    if isinstance(load_description(directory).data.source_tokenizer, PromptTokenizerConfig):
        # A template without languages, since the prompt of a translation is not used.
        overrides = [f"data.source_tokenizer.template={SOURCE_FIELD}"]
    return load_translator([directory], device, precision, overrides=overrides)


def _continue(
    translator: NeuralTranslator, model: HfCausal, config: ContinuationConfig, sampling: Sampling | None
) -> tuple[Continuation, ...]:
    """Return continuations of a text, best first, or samples in their order.

    Raises:
        DataError: if the text is empty and the tokenizer has no start symbol, or if it is longer than the
            context of the model.
    """
    text, search = translator.text, translator.search
    tokenizer = text.source.tokenizer
    assert isinstance(tokenizer, PromptTokenizer)
    continuing = model.without_template()
    ids = tokenizer.text_ids(config.prompt) or [tokenizer.library_ids[BOS]]
    # The first of several equal ids of the library, since they stand for the same token.
    ours = {number: place for place, number in reversed(list(enumerate(tokenizer.library_ids)))}
    if unknown := [number for number in ids if number not in ours]:
        raise DataError(f"the prompt has the token {unknown[0]}, which the tokenizer does not list")
    if continuing.max_length is not None:
        limit = continuing.max_length - len(text.sink_tokens)
        if len(ids) > limit:
            raise DataError(
                f"the prompt has {len(ids)} tokens; the maximum is {limit}, so that one token can follow "
                "within the context of the model"
            )
    batch = text.batch([[ours[number] for number in ids]], None, [0])
    batch = batch.to(next(model.parameters()).device)
    settings = replace(
        search,
        beam_size=max(config.beam_size, config.num_continuations),
        num_return=config.num_continuations,
        max_length_ratio=0.0,
        # The scheme of transformers counts the start symbol.
        max_length_offset=config.max_new_tokens + int(search.scheme.hf_compatible),
        suppress_unk=False,
    )
    if sampling is None:
        (hypotheses,) = beam_search(continuing, batch.source, settings)
    else:
        (hypotheses,) = sample(continuing, batch, settings, sampling)
    start = tokenizer.decode_ids(ids)

    def continuation(hypothesis: Hypothesis) -> Continuation:
        new = [tokenizer.library_ids[token] for token in hypothesis.tokens]
        # Some tokenizers write a space before a word only within a text.
        whole = tokenizer.decode_ids([*ids, *new])
        return Continuation(
            whole.removeprefix(start) if whole.startswith(start) else tokenizer.decode_ids(new),
            tuple(text.target.vocabulary.to_tokens(hypothesis.tokens)),
            hypothesis.score,
            hypothesis.log_probability,
            hypothesis.token_log_probs,
        )

    return tuple(map(continuation, hypotheses))
