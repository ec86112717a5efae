"""A served model that processes batches of sentences; an error in one sentence does not affect the others."""

import itertools
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from regard.api.loading import load_translator
from regard.data.fertility import Bounds
from regard.data.text import TextProcessor
from regard.data.training_text import read_training_text, select_examples
from regard.errors import DataError, UsageError
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.schemas import SentencePair
from regard.generation.base import BaseTranslator
from regard.generation.config import GenerationConfig
from regard.generation.lines import Line
from regard.generation.translation import AttentionDetail
from regard.runs.device import release_unused_memory
from regard.text.paths import shown_path
from regard.text.tokenizers import moses
from regard.text.tokenizers.base import TextFormat
from regard.text.words import split_whitespace

_log = logging.getLogger(__name__)

Job = TypeVar("Job")
Reply = TypeVar("Reply")
_BATCHES_PER_CLEANUP = 50
"""Number of batches after which free memory is returned to the system; batches have hundreds of shapes."""


@dataclass(frozen=True)
class SearchSettings:
    """The settings common to the translations of a batch.

    Attributes:
        num_return: Number of translations per sentence.
        beam_size: Beam size. Default: the model's own.
        tokenized: Whether the text is already tokenized and must not be changed.
    """

    num_return: int = 1
    beam_size: int | None = None
    tokenized: bool = False


@dataclass(frozen=True)
class ScoreSettings:
    """The settings common to the scores of a batch.

    Attributes:
        tokenized: Whether the text is already tokenized and must not be changed.
    """

    tokenized: bool = False


@dataclass(frozen=True)
class SentenceJob:
    """A sentence to translate.

    Attributes:
        text: The sentence, without line breaks.
        fertilities: Tuples of word index, lower bound and upper bound of the attention of the word. An upper
            bound of None is the model's own. The bounds apply to each subword token of the word.
        attention: The attention in the answer; see `Translation.to_data`.
    """

    text: str
    fertilities: tuple[tuple[int, float, float | None], ...] = ()
    attention: AttentionDetail = "words"


class ModelServer:
    """A served model.

    Args:
        name: Name of the model in requests.
        translator: The model with its default search settings.
        config: The limits.
        directory: Its model directory, which contains examples.

    Attributes:
        text: Tokenizers and vocabularies of both sides.
        properties: The properties for `GET /models`.
        language: The source language as a code of two or three letters; None if unknown.
    """

    def __init__(self, name: str, translator: BaseTranslator, config: ServeConfig, directory: Path) -> None:
        """Store the model; no computation takes place."""
        longest = min(translator.search.max_source_length, 4 * config.max_words)
        limits = {"batch_size": config.batch_size, "max_source_length": longest}
        self.name, self.translator = name, translator.with_search(limits)
        self.text = translator.text
        self.properties = {
            **_model_properties(self.translator),
            "examples": example_sentences(self.text, directory),
        }
        match = re.match("[a-z]{2,3}(?![a-z])", self.properties["languages"][0] or "")
        self.language = match and match[0]
        self._batches = 0

    def process_batch(self, settings: Any, jobs: Sequence[Any]) -> list[dict[str, Any] | Exception]:
        """Return the answers, or errors, of a batch; the `process_batch` function of a `Batcher`.

        Args:
            settings: `SearchSettings` to translate `SentenceJob`s, `ScoreSettings` to score `SentencePair`s.
            jobs: The sentences or pairs of the batch.
        """
        self._batches += 1
        if self._batches % _BATCHES_PER_CLEANUP == 0:
            release_unused_memory()
        translator = self.configure(settings)
        work = self._score if isinstance(settings, ScoreSettings) else self._translate
        return isolate_failures(partial(work, translator), jobs)

    def configure(self, settings: SearchSettings | ScoreSettings) -> BaseTranslator:
        """Return the translator with the settings of a batch."""
        translator = self.translator
        if settings.tokenized:
            translator = replace(translator, text=translator.text.without_conversion())
        if isinstance(settings, ScoreSettings):
            return translator
        num_return = settings.num_return
        beam_size = max(settings.beam_size or translator.search.beam_size, num_return)
        return translator.with_search({"beam_size": beam_size, "num_return": num_return})

    def _translate(
        self, translator: BaseTranslator, jobs: Sequence[SentenceJob]
    ) -> Iterator[dict[str, Any] | Exception]:
        lines = [
            Line(number, job.text, fertilities=self._bounds(translator, job))
            for number, job in enumerate(jobs, 1)
        ]
        for job, result in zip(jobs, translator.translate_block(lines), strict=True):
            if result.error:
                yield DataError(result.error)
                continue
            translation = result.to_data(job.attention)
            ranked = [translation, *translation["alternatives"]]
            target_format = self.text.target.text_format
            plain_texts = [to_plain_text(answer["text"], target_format) for answer in ranked]
            yield translation | {"plain_texts": plain_texts}

    def _bounds(self, translator: BaseTranslator, job: SentenceJob) -> Bounds | None:
        """Return the fertilities of the tokens of a sentence, None for those of the model."""
        if not job.fertilities:
            return None
        translator.require("fertility", "fertilities")
        source = translator.text.source
        # `words` has one entry per token; the fertility of a word is repeated for each of its tokens.
        words = source.word_ids(source.tokenize(job.text))
        count = words[-1] + 1 if words else 0
        fertilities: dict[int, tuple[float, float]] = {}
        for word, lower, upper in job.fertilities:
            if word >= count:
                raise UsageError(
                    f"a fertility for word {word}: the sentence has {count} words, counted from 0"
                )
            fertilities[word] = lower, math.nan if upper is None else upper
        return tuple(fertilities.get(word, (0.0, math.nan)) for word in words)

    def _score(
        self, translator: BaseTranslator, jobs: Sequence[SentencePair]
    ) -> Iterator[dict[str, Any] | Exception]:
        translator.require("score", "scores of given translations")
        pairs = [(job.source, job.target) for job in jobs]
        for translation in translator.score(pairs):
            yield DataError(translation.error) if translation.error else translation.to_data("none")


def to_plain_text(line: str, text_format: TextFormat) -> str:
    """Return a line as plain text: tokenized text is joined by the rules of Moses (Koehn et al., 2007)."""
    if not text_format.tokenized:
        return line
    # Moses marks hyphens within words, if the option `-a` is set.
    words = split_whitespace(line.replace(" @-@ ", "-"))
    return moses.detokenize(words, text_format.language or "en", unescape=text_format.escaped)


def example_sentences(text: TextProcessor, directory: Path) -> list[str]:
    """Return source sentences that a model can translate, empty if none are known.

    They are sentences of the validation text that the model directory contains. A sentence with an unknown
    token is left out.

    Raises:
        DataError: if the description of the training text in the directory is damaged.
    """
    stored = read_training_text(directory)
    known = select_examples(text, () if stored is None else stored.examples)
    return [to_plain_text(line, text.source.text_format) for line in known]


def isolate_failures(
    work: Callable[[Sequence[Job]], Iterator[Reply | Exception]], jobs: Sequence[Job]
) -> list[Reply | Exception]:
    """Return the answers to jobs; if the batch fails, process each job alone to isolate the failure."""
    try:
        return list(work(jobs))
    # An error in one sentence must not fail the requests of other clients in the batch.
    except Exception as error:
        if len(jobs) == 1:
            return [error]
        _log.debug("a batch of %d failed; processing each item alone: %s", len(jobs), error)
    return list(itertools.chain.from_iterable(isolate_failures(work, [job]) for job in jobs))


def load_engines(
    directories: Sequence[Path],
    device: str = "auto",
    precision: str = "float32",
    output_attention: Mapping[str, Any] | None = None,
    config: ServeConfig | None = None,
) -> list[ModelServer]:
    """Load trained models from their folders.

    Args:
        directories: The model folders.
        device: Device of the models, such as `auto`, `cpu` or `cuda`.
        precision: Precision of matrix multiplications: `float32` or `bfloat16`.
        output_attention: `layer` and `head` of the attention in answers. A missing key or None stands for
            the value with which the model computes word links.
        config: The limits, among them that of the beam size, which also limits the config of a model.

    Raises:
        CheckpointError: if a model folder is missing or damaged.
        UsageError: if a folder is given twice, the precision is unknown or unsupported by a model, or a model
            has no such layer or head.
        DeviceError: if the device is not available.
    """
    from regard.models.base import parse_precision

    names, config = _names(directories), config or ServeConfig()
    parse_precision(precision)  # checked first: an invalid value is an error for all kinds of models
    engines = []
    for name, folder in zip(names, directories, strict=True):
        # One thread: the batcher already runs the engine in a thread of its own.
        loaded = load_translator([folder], device, precision, output_attention or {}, num_threads=1)
        translator = loaded.with_search(_limits(loaded.search, config.max_beam_size, name))
        engine = ModelServer(name, translator, config, folder)
        # Translate once, because the first translation compiles kernels; no client should wait for that.
        # The text is made of the first tokens after the special symbols.
        first = SentenceJob(" ".join(engine.text.source.vocabulary.tokens[5:8]))
        (answer,) = engine.process_batch(SearchSettings(), [first])
        if isinstance(answer, UsageError):
            raise UsageError(f"{folder}: {answer}") from answer
        engines.append(engine)
    return engines


def _limits(search: GenerationConfig, max_beam_size: int, name: str) -> dict[str, int]:
    """Return beam size and number of translations, limited: a model must not decide about its cost."""
    if max(search.beam_size, search.num_return) > max_beam_size:
        _log.warning(
            "%s: the config requests beam %d and %d translations; reduced to the server's maximum of %d "
            "(--max-beam-size N)",
            name,
            search.beam_size,
            search.num_return,
            max_beam_size,
        )
    return {
        "beam_size": min(search.beam_size, max_beam_size),
        "num_return": min(search.num_return, max_beam_size),
    }


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the last part of each folder's path; folders that share it get longer, distinct names."""
    parts = [shown_path(folder).absolute().parts for folder in folders]
    if not parts:
        raise UsageError("no model folder is given: expected one or more")
    if len(set(parts)) < len(parts):
        raise UsageError("a model folder is given twice: give each folder once")
    # Each name is the shortest end of the path that no other path has.
    lengths = range(1, max(map(len, parts)) + 1)
    ends = [["/".join(folder[-length:]) for length in lengths] for folder in parts]
    counts = Counter(end for folder_ends in ends for end in set(folder_ends))
    return [next(end for end in folder_ends if counts[end] == 1) for folder_ends in ends]


def _model_properties(translator: BaseTranslator) -> dict[str, Any]:
    """Return the properties of a model for `GET /models`, in addition to its name."""
    text, description = translator.text, translator.describe()
    sides = text.source, text.target
    configs = [getattr(side.tokenizer, "config", None) for side in sides]
    return {
        "kind": description.kind,
        "attention": description.attention,
        "normalizer": description.normalizer,
        "fertility": None if text.budget is None else text.budget.config.kind,
        "sink": bool(text.sink_tokens),
        "beam_size": translator.search.beam_size,
        "num_parameters": description.num_parameters,
        "tokenizers": [getattr(config, "kind", "") for config in configs],
        "languages": [
            side.text_format.language or getattr(config, "language", None)
            for side, config in zip(sides, configs, strict=True)
        ],
        "vocabulary": [len(side.vocabulary) for side in sides],
    }
