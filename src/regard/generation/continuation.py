"""The continuation of any text by a decoder-only model, with beam search or sampling."""

from dataclasses import replace
from typing import Protocol, cast

from regard.config import configclass, option
from regard.data.text import TextProcessor
from regard.errors import DataError
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig, Sampling
from regard.generation.hypothesis import Hypothesis
from regard.generation.sampling import sample
from regard.models.base import TranslationModel
from regard.text.tokenizers.prompt import PromptTokenizer
from regard.text.vocabulary import BOS

__all__ = ["ContinuationConfig", "ContinuationModel", "continue_text"]


@configclass
class ContinuationConfig:
    """A text to continue, and the settings of its continuation."""

    prompt: str = option(help="Text that is continued, without changes.")
    max_new_tokens: int = option(
        default=50, help="Maximum number of tokens of a continuation.", ge=1, le=100_000
    )
    num_continuations: int = option(default=1, help="Number of continuations.", ge=1, le=1_000)
    beam_size: int = option(
        default=1,
        help="Number of unfinished hypotheses per sentence. 1 is greedy search.",
        ge=1,
        le=1_000,
    )


class ContinuationModel(Protocol):
    """A model that can continue any text."""

    def without_template(self) -> TranslationModel:
        """Return a model with the same parameters that continues the source itself."""
        ...


def continue_text(
    model: TranslationModel,
    text: TextProcessor,
    search: GenerationConfig,
    config: ContinuationConfig,
    sampling: Sampling | None,
) -> list[tuple[str, Hypothesis]]:
    """Return continuations of a text, best first, or samples in their order.

    Args:
        model: A model whose attribute `continues_text` is true.
        text: Its text processing.
        search: Its search settings.
        config: The text, the number and length of the continuations, and the beam size.
        sampling: The settings of sampling. None means beam search.

    Returns:
        The text of each continuation, with the tokens and their probabilities.

    Raises:
        DataError: if the text is empty and the tokenizer has no start symbol, or if it is longer than the
            context of the model.
    """
    tokenizer = text.source.tokenizer
    assert isinstance(tokenizer, PromptTokenizer)
    continuing = cast(ContinuationModel, model).without_template()
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
    return [(_continuation(tokenizer, ids, hypothesis), hypothesis) for hypothesis in hypotheses]


def _continuation(tokenizer: PromptTokenizer, ids: list[int], hypothesis: Hypothesis) -> str:
    """Return the text of a hypothesis that continues a text with these ids of the library."""
    start, new = tokenizer.decode_ids(ids), [tokenizer.library_ids[token] for token in hypothesis.tokens]
    # Some tokenizers write a space before a word only within a text.
    whole = tokenizer.decode_ids([*ids, *new])
    return whole.removeprefix(start) if whole.startswith(start) else tokenizer.decode_ids(new)
