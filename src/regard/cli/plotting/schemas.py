"""Pydantic models of the files that figures are plotted from.

The files may come from other machines or may have been edited, so all values are validated.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from regard.results import SCHEMA_VERSION

__all__ = ["AttentionResults", "LengthResults", "PaperTableResults", "ScoreEntry", "TranslationEntry"]

Finite = Annotated[float, Field(ge=-1e15, le=1e15)]
Version = Annotated[int, Field(ge=1, le=SCHEMA_VERSION)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000_000)]


class _Histogram(BaseModel):
    """A histogram."""

    edges: list[Finite] = Field(min_length=2, max_length=1_000_000)
    counts: list[Count]
    num_correct: list[Count] | None = None

    @model_validator(mode="after")
    def _fit(self) -> Self:
        rising = all(one < other for one, other in zip(self.edges, self.edges[1:], strict=False))
        correct = self.counts if self.num_correct is None else self.num_correct
        fewer = all(own <= of for own, of in zip(correct, self.counts, strict=False))
        if (
            len(self.counts) != len(self.edges) - 1
            or len(correct) != len(self.counts)
            or not (rising and fewer)
        ):
            raise ValueError("the edges and the counts of the bins are inconsistent")
        return self


class _AttentionStatistics(BaseModel):
    """The statistics of a model's attention. Other fields of the file are kept unchanged."""

    model_config = {"extra": "allow"}

    sentences: Count
    steps: Count
    accuracy: Finite
    entropy: Finite
    support: Finite
    coverage: Finite
    entropies: _Histogram
    coverages: _Histogram
    aer: Finite | None = None
    precision: Finite | None = None
    recall: Finite | None = None


class AttentionResults(BaseModel):
    """The format of `regard analyze attention --json`."""

    name: Literal["attention_analysis"] = Field(alias="schema")
    schema_version: Version
    models: dict[str, _AttentionStatistics] = Field(min_length=1)


class ScoreEntry(BaseModel):
    """A score and its 95 % confidence interval."""

    value: float
    interval: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        for value in (self.value, *(self.interval or ())):
            # NaN, which is not equal to itself, is allowed.
            if value == value and abs(value) > 1e15:
                raise ValueError("the absolute value of a score is above 1e15")
        return self


class _Scores(BaseModel):
    signature: str = ""
    buckets: list[ScoreEntry | None]
    all: ScoreEntry


class _Bucket(BaseModel):
    low: Count
    high: Count | None = None
    sentences: Count


class _System(BaseModel):
    bleu: _Scores | None = None
    rep: _Scores | None = None
    drop: _Scores | None = None
    sacrebleu: _Scores | None = None


class LengthResults(BaseModel):
    """The format of `regard analyze length --json`."""

    name: Literal["length_analysis"] = Field(alias="schema")
    schema_version: Version
    buckets: list[_Bucket] = Field(min_length=1)
    systems: dict[str, _System] = Field(min_length=1)

    @model_validator(mode="after")
    def _fit(self) -> Self:
        for name, system in self.systems.items():
            found = [own for _, own in system if own is not None]
            if not found or any(len(own.buckets) != len(self.buckets) for own in found):
                raise ValueError(f"{name} does not have one score per length bucket")
        return self


class _Cell(BaseModel):
    score: Annotated[float, Field(ge=-1e15, le=1e15)]
    interval: tuple[Finite, Finite] | None = None
    sentences: Count | None = None


class _Row(BaseModel):
    row: str
    metrics: dict[str, _Cell]


class PaperTableResults(BaseModel):
    """The format of `regard reproduce indurthi2019-figure2 --json`."""

    rows: list[_Row] = Field(min_length=1)


class TranslationEntry(BaseModel):
    """A line in the format of `regard translate --attention-output`.

    Its attention weights are not validated.
    """

    model_config = {"extra": "allow"}

    line: Count
    source_tokens: list[str]
    tokens: list[str]

    def extra_field(self, name: str) -> Any:
        """Return the unvalidated value of another field of the line: such as `attention`."""
        return (self.model_extra or {}).get(name)
