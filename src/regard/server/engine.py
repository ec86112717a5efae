"""A model that answers a batch of sentences; one sentence's mistake is its own answer."""

import itertools
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.api.loading import search_settings
from regard.api.phrases import is_phrase_based, load_phrase_model, no_probability, phrase_search
from regard.data.text import TextPair
from regard.decoding.by_hand import check_bounded
from regard.decoding.config import SearchConfig
from regard.decoding.phrases import PhraseTranslator
from regard.decoding.scoring import score_lines
from regard.decoding.translate import Line, Translator
from regard.errors import DataError, RegardError, UsageError
from regard.models.base import TranslationModel
from regard.server.answers import score_answer, sentence_answer
from regard.server.jobs import PairJob, ScoreSettings, SearchSettings, SentenceJob
from regard.smt.model import PhraseModel
from regard.training.device import give_back_memory

if TYPE_CHECKING:
    from regard.experiment import RunConfig

__all__ = ["Engine", "load_engines"]

_log = logging.getLogger(__name__)

Job = TypeVar("Job")
_GIVE_BACK = 50
"""Batches after which free memory goes back to the system: they come in hundreds of shapes."""


class Engine:
    """A model with its name.

    Args:
        name: What requests call it.
        model: The model; a phrase-based one scores no translations.
        text: How its two sides are written.
        search: How it searches, unless told otherwise.
        facts: What `GET /models` tells of it beyond the name.
        batch: The most sentences translated together.
        longest: The most tokens of a sentence.
    """

    def __init__(
        self,
        name: str,
        model: TranslationModel | PhraseModel,
        text: TextPair,
        search: SearchConfig,
        facts: dict[str, Any],
        batch: int,
        longest: int,
    ) -> None:
        """Keep the model; nothing is computed."""
        self.name, self.model, self.text, self.facts = name, model, text, facts
        limits = replace(search.batch, sentences=batch, longest=min(search.batch.longest, longest))
        self.search = replace(search, batch=limits)
        self._translator = lru_cache(64)(self._make)
        self._batches = 0

    @property
    def language(self) -> str | None:
        """The source language, as a code of two or three letters; none where it is not known."""
        found = re.match("[a-z]{2,3}(?![a-z])", self.facts["languages"][0] or "")
        return found and found[0]

    def beam(self, settings: SearchSettings) -> int:
        """How wide a search is."""
        return max(settings.beam or self.search.beam, settings.nbest)

    def work(self, settings: Any, jobs: Sequence[Any]) -> list[dict[str, Any] | Exception]:
        """Answers, or what went wrong, of a batch; what a `Batcher` calls.

        Args:
            settings: `SearchSettings` to translate `SentenceJob`s, `ScoreSettings` to score `PairJob`s.
            jobs: They.
        """
        self._batches += 1
        if self._batches % _GIVE_BACK == 0:
            give_back_memory()
        if isinstance(settings, ScoreSettings):
            return _each(lambda pairs: self._score(settings, pairs), jobs)
        return _each(lambda sentences: self._translate(settings, sentences), jobs)

    def _make(self, settings: SearchSettings) -> Translator | PhraseTranslator:
        search = replace(self.search, beam=self.beam(settings), nbest=settings.nbest)
        text = self._text(settings)
        if isinstance(self.model, PhraseModel):
            return PhraseTranslator(replace(self.model, text=text), search, threads=1)
        return Translator(self.model, text, search)

    def _text(self, settings: SearchSettings | ScoreSettings) -> TextPair:
        return self.text.as_written() if settings.tokenized else self.text

    def _translate(
        self, settings: SearchSettings, jobs: Sequence[SentenceJob]
    ) -> Iterator[dict[str, Any] | Exception]:
        fields: list[str | RegardError] = []
        for job in jobs:
            try:
                fields.append(self._fields(settings, job))
            except RegardError as mistake:
                fields.append(mistake)
        lines = [
            Line(number, job.text, fertility=field)
            for number, (job, field) in enumerate(zip(jobs, fields, strict=True), 1)
            if isinstance(field, str)
        ]
        results = iter(self._translator(settings).block(lines))
        for job, field in zip(jobs, fields, strict=True):
            if isinstance(field, RegardError):
                yield field
                continue
            result = next(results)
            yield DataError(result.refused) if result.refused else sentence_answer(job, result, self.text)

    def _fields(self, settings: SearchSettings, job: SentenceJob) -> str:
        """The fertilities of a sentence as a line that `read_fertilities` reads; empty where none is given.

        Raises:
            UsageError: if the model has no fertilities, or the sentence no such word.
        """
        if not job.fertilities:
            return ""
        check_bounded(self.model, self.text, self.name)
        source = self._text(settings).source
        words = source.word_ids(source.tokenize(job.text))
        count = words[-1] + 1 if words else 0
        given: dict[int, str] = {}
        for word, least, most in job.fertilities:
            if word >= count:
                raise UsageError(f"fertility of word {word}: the sentence has {count} words, counted from 0")
            given[word] = f"{least!r}:{'' if most is None else repr(most)}"
        return " ".join(given.get(word, "-") for word in words)

    def _score(
        self, settings: ScoreSettings, jobs: Sequence[PairJob]
    ) -> Iterator[dict[str, Any] | Exception]:
        if isinstance(self.model, PhraseModel):
            raise no_probability(Path(self.name))
        pairs = [(job.source, job.target) for job in jobs]
        problems = [self._problem(job) for job in jobs]
        readable = [pair for pair, problem in zip(pairs, problems, strict=True) if problem is None]
        scores = score_lines(self.model, self._text(settings), readable, self.search)
        for job, problem in zip(jobs, problems, strict=True):
            if problem is not None:
                yield DataError(problem)
                continue
            found = next(scores)
            if found.hypothesis is None:
                yield DataError(found.problem)
            else:
                yield score_answer(job.source, job.target, found, self.text)

    def _problem(self, job: PairJob) -> str | None:
        """Why a pair cannot be scored, as far as a glance at the text tells."""
        for side, line in ((self.text.source, job.source), (self.text.target, job.target)):
            if problem := side.problem(line):
                return problem
        return None if self.text.source.tokenize(job.source) else "the source is empty"


def _each(
    work: Callable[[Sequence[Job]], Iterator[dict[str, Any] | Exception]], jobs: Sequence[Job]
) -> list[dict[str, Any] | Exception]:
    """The answers to jobs; where they fail together, each alone, so that one's failure is no other's."""
    try:
        return list(work(jobs))
    except Exception as error:
        if len(jobs) == 1:
            return [error]
        _log.debug("a batch of %d failed, each alone now: %s", len(jobs), error)
    return list(itertools.chain.from_iterable(_each(work, [job]) for job in jobs))


def load_engines(
    folders: Sequence[Path],
    device: str = "auto",
    precision: str = "float32",
    shown: Mapping[str, Any] | None = None,
    *,
    batch: int = 32,
    words: int = 150,
    beam: int = 10,
) -> list[Engine]:
    """Trained models from their folders.

    Args:
        folders: The folders.
        device: `auto`, `cpu`, `cuda`...
        precision: `float32`, `bfloat16` or `int8`.
        shown: The `layer`, `head` and `shift` of the attention that is shown; those left out or none are the
            ones that each model's word links come from.
        batch: The most sentences translated together.
        words: The most words of a sentence.
        beam: The widest beam, and the most translations, whatever a model's config says.

    Raises:
        CheckpointError: if a model folder is missing or broken.
        UsageError: if a folder is given twice, or the precision is not known or not for a model, or a model
            has no such layer or head.
        DeviceError: if the device is not there, or has no products in that precision.
    """
    from regard.experiment import load_model
    from regard.models.precision import as_precision

    names = _names(folders)
    chosen = as_precision(precision)  # a mistake is named whatever the models are
    engines = []
    for name, folder in zip(names, folders, strict=True):
        if is_phrase_based([folder]):
            model, config = load_phrase_model([folder])
            text, size = model.text, len(model.decoder.table)
            search = phrase_search(config.search, shown or {})
        else:
            loaded = load_model(folder, device, chosen)
            model, config, text = loaded.model, loaded.config, loaded.text
            size = sum(math.prod(one.shape) for one in model.parameters())
            search = search_settings(config.search, shown or {})
        search = _narrowed(search, beam, name)
        facts = {**_facts(config, text, size), "beam": search.beam}
        engine = Engine(name, model, text, search, facts, batch, 4 * words)
        # The first translation compiles kernels: no user shall wait for that.
        first = SentenceJob(" ".join(engine.text.source.vocabulary.tokens[5:8]))
        (answer,) = engine.work(SearchSettings(), [first])
        if isinstance(answer, UsageError):
            raise UsageError(f"{folder}: {answer}") from answer
        engines.append(engine)
    return engines


def _narrowed(search: SearchConfig, beam: int, name: str) -> SearchConfig:
    """A model's own search within the server's limit: who made the model does not decide what it costs."""
    if max(search.beam, search.nbest) <= beam:
        return search
    _log.warning(
        "%s: its config asks for a beam of %d and %d translations; the server's most is %d (--set beam=N)",
        name,
        search.beam,
        search.nbest,
        beam,
    )
    return replace(search, beam=min(search.beam, beam), nbest=min(search.nbest, beam))


def _names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the folders' paths that tell them apart."""
    parts = [folder.absolute().parts for folder in folders]
    if len(set(parts)) < len(parts):
        raise UsageError("a model folder is given twice: expected each once")
    for count in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(one[-count:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    raise UsageError("no model folder: expected one or more")


def _facts(config: "RunConfig", text: TextPair, size: int) -> dict[str, Any]:
    """What a person may want to know of a model; `size` is its parameters, or its phrase pairs."""
    attention = getattr(config.model, "attention", None)
    data = config.data
    return {
        "kind": config.model.kind,
        "attention": "phrase" if config.model.kind == "phrase" else getattr(attention, "kind", "none"),
        "map": getattr(attention, "map", None),
        "fertility": None if text.budget is None else text.budget.config.kind,
        "sink": bool(text.sink),
        "beam": config.search.beam,
        "parameters": size,
        "tokenizers": [data.source_tokenizer.kind, data.target_tokenizer.kind],
        "languages": [
            side.form.language or getattr(one, "language", None)
            for side, one in ((text.source, data.source_tokenizer), (text.target, data.target_tokenizer))
        ],
        "vocabulary": [len(text.source.vocabulary), len(text.target.vocabulary)],
    }
