"""Checks of translations for omissions, additions and repetitions: `POST /check`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from regard.extensions.check.api import CoverageModel, check
from regard.extensions.check.base import DETECTORS, build_detector
from regard.extensions.check.detectors import NOTES
from regard.extensions.check.result import CoverageCheck
from regard.extensions.check.sentences import CheckedSentence
from regard.extensions.serve.config import ServeConfig
from regard.extensions.serve.dispatcher import Dispatcher, collect_answers
from regard.extensions.serve.engine import isolate_failures
from regard.extensions.serve.schemas import SentencePair, VersionedAnswer
from regard.extensions.serve.validation import pair_jobs
from regard.text.words import split_whitespace

_NO_DETECTOR = "the server has no detector of errors: start it with --checker DIRECTORY"


class CheckRequest(BaseModel):
    """A request to check translations."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"example": {"pairs": [{"source": "Ein Hund läuft.", "target": "A dog."}]}},
    )
    pairs: list[SentencePair] = Field(description="Sentences and their translations.")
    detector: str | None = Field(
        None, description="Name of a detector in `GET /models`. Default: the first detector.", max_length=100
    )


class MismatchRecord(BaseModel):
    """A word without a counterpart on the other side."""

    error: str = Field(description="`number`, `name`, `negation` or `markup`.")
    side: str = Field(description="`source` or `target`.")
    start: int = Field(description="Its first character (code points).")
    end: int = Field(description="The character after its last.")
    probability: float = Field(description="Probability of an error.")


class PairCheck(BaseModel):
    """The errors of a pair: the fields of `CheckedSentence.to_data`."""

    line: int = Field(description="Number of the pair, counted from 1.")
    source: str = Field(description="The sentence, with single spaces between words.")
    translation: str = Field(description="Its translation, with single spaces between words.")
    source_words: list[list[int]] = Field(
        description="First character of each source word, and the one after its last (code points)."
    )
    target_words: list[list[int]] = Field(description="The same for the words of the translation.")
    probabilities: dict[str, float | None] = Field(
        description="Probability of each error that the detector finds: `omission`, `addition`, "
        "`repetition`, `unrelated` (the translation is that of another sentence), `number`, `name`, "
        "`negation` and `markup`."
    )
    omitted: list[float] = Field(
        description="Probability that the translation omits each source word. Empty if the detector judges "
        "sentences only."
    )
    added: list[float] = Field(
        description="Probability that each target word translates nothing in the source."
    )
    repeated: list[float] = Field(description="Probability that each target word is an incorrect repetition.")
    mismatches: list[MismatchRecord] = Field(
        description="Numbers, names, negations and markup without a counterpart on the other side."
    )
    note: str | None = Field(
        description="Why the pair is no ordinary translation, by the names of the notes in `GET /models`."
    )
    id: None = Field(description="Identifier of a segment in a file; not in answers.")
    file_line: None = Field(description="Line of a segment in a file; not in answers.")


class CheckAnswer(VersionedAnswer):
    """The errors that a detector finds in pairs."""

    detector: str = Field(description="Name of the detector.")
    num_sentences: int = Field(description="Number of pairs.")
    counts: dict[str, int] = Field(
        description="Number of pairs in which each error has a probability of at least 0.5."
    )
    notes: list[str] = Field(description="The notes on all pairs in words.")
    evaluation: None = Field(description="Comparison with labels; only in Python and on the command line.")
    sentences: list[PairCheck]


class CheckServer:
    """The served detectors, which process batches of pairs.

    Args:
        model: The model of good translations. None for detectors that need none.
        detector: Name of the default detector. All others that need no further inputs are served, too.
        threshold: Probability from which the page marks a word.

    Raises:
        UsageError: if there is no such detector, or an input that it needs is missing.
    """

    name = "/check"
    """Name of the queue. Names of models are the ends of paths, and do not start with a slash."""

    def __init__(
        self, model: CoverageModel | None = None, detector: str = "combined", threshold: float = 0.5
    ) -> None:
        """Check that the detectors can be built."""
        self.model, self.threshold = model, threshold
        build_detector(detector, None if model is None else model.model)
        kinds = ((name, DETECTORS.get(name)) for name in DETECTORS.names() if name != detector)
        others = (name for name, kind in kinds if kind and (model is not None or not kind.needs_model))
        self.detectors = (detector, *others)

    @classmethod
    def load(cls, checker: Path | None, detector: str) -> Self:
        """Load the model of good translations of a directory.

        Raises:
            UsageError: if there is no such detector, or it needs a model.
            DataError: if the model cannot be read.
        """
        return cls(None if checker is None else CoverageModel.load(checker, num_threads=1), detector)

    def describe(self) -> dict[str, Any]:
        """Return the names of the detectors, the threshold and the notes for `GET /models`."""
        return {"detectors": list(self.detectors), "threshold": self.threshold, "notes": dict(NOTES)}

    def process_batch(self, detector: str, jobs: Sequence[SentencePair]) -> list[CheckedSentence | Exception]:
        """Return the checks, or errors, of a batch; the `work` function of a `Batcher`."""

        def work(jobs: Sequence[SentencePair]) -> Iterator[CheckedSentence | Exception]:
            texts = [job.source for job in jobs], [job.target for job in jobs]
            # One thread: the batcher already runs this function in a thread of its own.
            yield from check(*texts, detector, checker=self.model, num_threads=1).sentences

        return isolate_failures(work, jobs)

    @staticmethod
    def add_route(
        app: FastAPI, desk: Dispatcher, checker: "CheckServer | None", config: ServeConfig, responses: Any
    ) -> None:
        """Add the endpoint `POST /check` to an application.

        Args:
            app: The application.
            desk: The queues.
            checker: The detectors. Without them, the endpoint answers with 404.
            config: The limits.
            responses: The error responses, for the OpenAPI description.
        """

        @app.post("/check", response_model=CheckAnswer, responses=responses)
        async def check_translations(request: Request, asked: CheckRequest) -> Response:
            """Find omissions, additions and repetitions in translations of any system."""
            if checker is None:
                raise HTTPException(404, _NO_DETECTOR)
            detector = asked.detector or checker.detectors[0]
            if detector not in checker.detectors:
                known = ", ".join(map(repr, checker.detectors))
                raise HTTPException(404, f"detector {detector[:100]!r} is not served: expected {known}")
            jobs = pair_jobs(asked.pairs, config)
            lengths = [len(split_whitespace(job.source)) for job in jobs]
            if 0 in lengths:
                raise HTTPException(422, f"sentence {lengths.index(0) + 1}: the source is empty")
            futures = desk.queues[checker.name].submit(jobs, detector, lengths)
            sentences = await collect_answers(request, futures, config.request_timeout)
            numbered = tuple(replace(sentence, line=number) for number, sentence in enumerate(sentences, 1))
            return JSONResponse(CoverageCheck(detector, numbered).to_dict())
