"""Checks of translations for omissions, additions and repetitions: `POST /check`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from regard.analysis.coverage.base import Detector
from regard.analysis.coverage.text import split_pairs
from regard.data.whitespace import normalize_whitespace, split_whitespace
from regard.results import SCHEMA_VERSION
from regard.server.config import ServeConfig
from regard.server.dispatcher import ClientDisconnectedError, Dispatcher, gather_answers, wait_for_answer
from regard.server.engine import PairJob, isolate_failures
from regard.server.errors import RequestError
from regard.server.schemas import SentencePair
from regard.server.validation import check_lines

__all__ = ["CheckAnswer", "CheckRequest", "CheckServer", "CheckSettings", "add_check"]

_NO_DETECTOR = "the server has no detector of errors: start it with --checker DIRECTORY"


@dataclass(frozen=True)
class CheckSettings:
    """The settings common to the checks of a batch.

    Attributes:
        detector: Name of the detector.
    """

    detector: str


class CheckServer:
    """The served detectors, which process batches of pairs.

    Args:
        detectors: The detectors by name; the first is the default for requests that name none.
        threshold: Probability from which the page marks a word.
    """

    name = "/check"
    """Name of the queue. Names of models are the ends of paths, and do not start with a slash."""

    def __init__(self, detectors: Mapping[str, Detector], threshold: float) -> None:
        """Store the detectors; no computation takes place."""
        self.detectors, self.threshold = dict(detectors), threshold

    def describe(self) -> dict[str, Any]:
        """Return the names of the detectors and the threshold for `GET /models`."""
        return {"detectors": list(self.detectors), "threshold": self.threshold}

    def process_batch(
        self, settings: CheckSettings, jobs: Sequence[PairJob]
    ) -> list[dict[str, Any] | Exception]:
        """Return the checks, or errors, of a batch; the `work` function of a `Batcher`."""

        def work(pairs: Sequence[PairJob]) -> Iterator[dict[str, Any] | Exception]:
            words = split_pairs((job.source for job in pairs), (job.target for job in pairs))
            for pair, scores in zip(words, self.detectors[settings.detector].detect(words), strict=True):
                yield {
                    "source_words": list(pair.source),
                    "target_words": list(pair.target),
                    "sentence": dict(scores.sentence),
                    "words": {error: own.tolist() for error, own in scores.words.items()},
                }

        return isolate_failures(work, jobs)


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


class PairCheck(BaseModel):
    """The errors of a pair; probabilities are between 0 and 1."""

    source_words: list[str] = Field(description="Words and punctuation marks of the sentence.")
    target_words: list[str] = Field(description="Words and punctuation marks of the translation.")
    sentence: dict[str, float] = Field(
        description="Probability of each error in the pair: `omission`, `addition`, `repetition`."
    )
    words: dict[str, list[float]] = Field(
        description="Probability of each error for the words of its side: omissions for those of the source, "
        "additions and repetitions for those of the translation."
    )


class CheckAnswer(BaseModel):
    """The errors that a detector finds in pairs."""

    schema_name: str = Field(alias="schema", description="Kind of the result.")
    schema_version: int = Field(description="Version of the schema; it increases when a field changes.")
    detector: str = Field(description="Name of the detector.")
    sentences: list[PairCheck]


def add_check(
    app: FastAPI, desk: Dispatcher, checker: CheckServer | None, config: ServeConfig, responses: Any
) -> None:
    """Add the endpoint `POST /check` to an application.

    Args:
        app: The application.
        desk: The queues.
        checker: The detectors. None if there are none: the endpoint then answers with 404.
        config: The limits.
        responses: The error responses, for the OpenAPI description.
    """

    @app.post("/check", response_model=CheckAnswer, responses=responses)
    async def check(request: Request, asked: CheckRequest) -> Response:
        """Find omissions, additions and repetitions in translations by any system, without a reference."""
        if checker is None:
            raise RequestError(404, _NO_DETECTOR)
        detector = asked.detector or next(iter(checker.detectors))
        if detector not in checker.detectors:
            known = ", ".join(map(repr, checker.detectors))
            raise RequestError(404, f"detector {detector[:100]!r} is not served: expected {known}")
        if len(asked.pairs) > config.max_sentences:
            raise RequestError(
                422, f"{len(asked.pairs)} pairs: a request may have at most {config.max_sentences}"
            )
        check_lines([line for pair in asked.pairs for line in (pair.source, pair.target)], config)
        jobs = [
            PairJob(normalize_whitespace(pair.source), normalize_whitespace(pair.target))
            for pair in asked.pairs
        ]
        lengths = [len(split_whitespace(job.source)) for job in jobs]
        if 0 in lengths:
            raise RequestError(422, f"sentence {lengths.index(0) + 1}: the source is empty")
        futures = desk.submit(checker, CheckSettings(detector), jobs, lengths)
        try:
            found = await wait_for_answer(request, gather_answers(futures), config.request_timeout)
        except ClientDisconnectedError:
            return Response(status_code=499)
        header = {"schema": "coverage_check", "schema_version": SCHEMA_VERSION}
        content = {**header, "detector": detector, "sentences": found}
        return JSONResponse(content, headers={"Cache-Control": "no-store"})
