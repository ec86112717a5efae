"""The schemas of requests and answers, from which the OpenAPI description is generated.

That of a translation is derived from the class of the result.
"""

import inspect
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from regard.generation.base import FileTranslator
from regard.generation.config import AlignmentConfig
from regard.generation.reranking import LineRepair
from regard.generation.translation import Translation

_REQUEST_CONFIG = ConfigDict(extra="forbid", strict=True)
_MAX_FERTILITY = 1e6

Number = Annotated[float, Field(ge=0, le=_MAX_FERTILITY, allow_inf_nan=False)]
Index = Annotated[int, Field(ge=0, le=1_000_000)]


class WordFertility(BaseModel):
    """Bounds of the attention that a source word receives."""

    model_config = _REQUEST_CONFIG
    sentence: Index = Field(
        0, description="Index of the sentence among all sentences of the request, counted from 0."
    )
    word: Index = Field(description="Index of the word in the sentence, counted from 0.")
    lower: Number = Field(
        0.0, description="Lower bound of the attention that each subword token of the word must receive."
    )
    upper: Number | None = Field(
        None,
        description="Upper bound of the attention of each subword token. Default: the model's fertility.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> "WordFertility":
        if self.upper is not None and self.lower > self.upper:
            raise ValueError(
                f"lower = {self.lower:g} exceeds upper = {self.upper:g}: expected lower <= upper"
            )
        return self


class _ModelRequest(BaseModel):
    """A request to a model."""

    model_config = _REQUEST_CONFIG
    model: str | None = Field(
        None, description="Name of a model in `GET /models`. Default: the first model.", max_length=500
    )
    tokenized: bool = Field(
        False,
        description="Whether the text is already tokenized and must not be changed. By default, punctuation "
        "is separated from words if the training text of the model is tokenized.",
    )


class TranslateRequest(_ModelRequest):
    """A request to translate `text` or `texts`."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["text"], "properties": {"text": {"type": "string"}, "texts": {"type": "null"}}},
                {"required": ["texts"], "properties": {"texts": {"type": "array"}, "text": {"type": "null"}}},
            ],
            "example": {"text": "Ein Hund läuft über die Wiese.", "num_return": 3},
        },
    )
    text: str | None = Field(None, description="A single text.")
    texts: list[str] | None = Field(None, description="A list of texts, instead of `text`.")
    split: bool = Field(
        True,
        description="Whether to split texts into sentences. If false, only line breaks separate sentences.",
    )
    language: str | None = Field(
        None,
        description="Language code of the text, such as `de`, for sentence splitting (abbreviations do not "
        "end a sentence). Default: the source language of the model if known, otherwise English.",
        pattern="^[a-z]{2,3}$",
    )
    num_return: int = Field(1, ge=1, description="Number of translations per sentence.")
    beam_size: int | None = Field(
        None,
        ge=1,
        description="Beam size; at least `num_return` is used. Default: that of the model.",
    )
    fertilities: list[WordFertility] = Field(
        [],
        description="User-specified fertilities: bounds of the attention of source words, for models with "
        "fertilities.",
        max_length=1000,
    )
    # All layers and heads would let a small request ask for an answer of gigabytes.
    attention: Literal["none", "words", "tokens"] = Field(
        "words",
        description="Attention in the answer: none, between words, or also between tokens.",
    )
    stream: bool = Field(
        False, description="Whether to answer with JSON Lines: one line per sentence, as soon as available."
    )

    @model_validator(mode="after")
    def _one(self) -> "TranslateRequest":
        if self.text is None and self.texts is None:
            raise ValueError("text is required: a text, or texts for several of them")
        if self.text is not None and self.texts is not None:
            raise ValueError("give either text or texts, not both")
        return self


class SentencePair(BaseModel):
    """A sentence and its translation."""

    model_config = _REQUEST_CONFIG
    # The constraints are only documented here: the engine rejects an empty sentence with a clearer message.
    source: str = Field(
        description="The sentence; at least one word.",
        json_schema_extra={"minLength": 1, "pattern": r"[^\t-\r ]"},
    )
    target: str = Field(description="The translation; it may be empty.")


class ScoreRequest(_ModelRequest):
    """A request to score given translations."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"pairs": [{"source": "Ein Hund läuft.", "target": "A dog runs."}]}},
    )
    pairs: list[SentencePair] = Field(description="Sentences and their translations.")


class SplitRequest(BaseModel):
    """A request to split a text into sentences."""

    model_config = _REQUEST_CONFIG
    text: str = Field(description="The text.")
    language: str | None = Field(
        None,
        description="Language code of the text, such as `de` (abbreviations do not end a sentence). Default: "
        "English.",
        pattern="^[a-z]{2,3}$",
    )


class SplitSentence(BaseModel):
    """A sentence and its position in a text."""

    text: str = Field(description="The sentence, with single spaces between words.")
    start: int = Field(description="Index of its first character in the text (code points).")
    end: int = Field(description="Index after its last character in the text (code points).")


class SplitAnswer(BaseModel):
    """The sentences of a text."""

    sentences: list[SplitSentence]


class VersionedAnswer(BaseModel):
    """The name and the version of the schema of an answer."""

    schema_name: str = Field(alias="schema", description="Kind of the result.")
    schema_version: int = Field(description="Version of the schema; it increases when a field changes.")


class WordBounds(BaseModel):
    """Bounds of the attention of a word: the sums of the bounds of its subword tokens."""

    lower: float
    upper: float | None = Field(description="Upper bound; `null` for no bound.")


class AlignmentSettings(BaseModel):
    """The attention from which the attention map and the word links are computed."""

    map: str = Field(description="Origin of the map: `attention`, or a kind of attribution.")
    layer: int = Field(description="Index of the layer, counted from 0; -1 is the last.")
    heads: list[int] = Field(description="Indices of the heads; an empty list means all.")


def _result_fields(names: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a model for the JSON form of `Translation`.

    A JSON field has the name of the attribute that it contains, so the type and the description come from
    the class. Attention has no further type here.
    """
    listed = re.split(r"\n {8}(\w+): ", (Translation.__doc__ or "").partition("Attributes:")[2])
    descriptions = dict(zip(listed[1::2], listed[2::2], strict=True))
    hints = get_type_hints(Translation)
    fields: dict[str, Any] = {}
    for name in names:
        attribute = inspect.getattr_static(Translation, name, None)
        getter = getattr(attribute, "fget", None) or getattr(attribute, "func", None)
        if getter is not None:
            descriptions[name], hints[name] = getter.__doc__, get_type_hints(getter)["return"]
        text = " ".join(descriptions.get(name, "").split()).removeprefix("Return ")
        text = text[:1].upper() + text[1:]
        fields[name] = (_JSON_TYPES.get(hints.get(name), list[Any] | None), Field(description=text))
    return fields


_JSON_TYPES: dict[Any, Any] = {
    **{kind: kind for kind in (str, bool, str | None, tuple[str, ...], tuple[int, ...], LineRepair | None)},
    float: float | None,
    tuple[tuple[float, float], ...] | None: list[WordBounds] | None,
    AlignmentConfig: AlignmentSettings,
}
_UNTRANSLATED = Translation("", FileTranslator([]).text)
Alternative: Any = create_model(
    "Alternative",
    __doc__="The fields of `Translation.to_data` in which the translations of an n-best list differ.",
    **_result_fields(_UNTRANSLATED.target_data("none")),
)
TranslationData: Any = create_model(
    "TranslationData",
    __doc__="A translation: the fields of `Translation.to_data`, which Python and the command line share.",
    **_result_fields(_UNTRANSLATED.to_data())
    | {
        "sink": (bool, Field(description="Whether the last column of the attention maps is the sink.")),
        "alternatives": (list[Alternative], Field(description="The other translations, best first.")),
    },
)


class SentenceAnswer(TranslationData):
    """The translation of a sentence of a request."""

    sentence: int = Field(
        description="Index of the sentence among all sentences of the request, counted from 0."
    )
    text_index: int = Field(description="Index of the text that contains the sentence, counted from 0.")
    plain_texts: list[str] = Field(
        description="`text` and the texts of the alternatives as plain text: with punctuation attached to "
        "words if the training text of the model is tokenized."
    )


class TranslateAnswer(VersionedAnswer):
    """The translations of texts."""

    model: str
    sentences: list[SentenceAnswer]
    texts: list[str] = Field(description="Best translation of each text, with the line breaks of the text.")


class ScoreAnswer(VersionedAnswer):
    """Scores of translations."""

    model: str
    sentences: list[TranslationData]  # pyright: ignore[reportInvalidTypeForm]


class ModelAnswer(BaseModel):
    """A served model."""

    name: str
    kind: str
    attention: str
    normalizer: str | None = Field(description="Transformation of attention scores to weights.")
    fertility: str | None = Field(
        description="Kind of the fertility predictor; `null` for a model without fertilities."
    )
    sink: bool
    beam_size: int = Field(description="Default beam size.")
    num_parameters: int | None = Field(
        description="Number of parameters, or of entries of the model's table; `null` if unknown."
    )
    tokenizers: list[str] = Field(description="Kinds of the source and the target tokenizer.")
    languages: list[str | None] = Field(
        description="Source and target language; `null` if the tokenizer does not specify one."
    )
    vocabulary: list[int] = Field(description="Sizes of the source and the target vocabulary.")
    examples: list[str] = Field(description="Source sentences that the model can translate, for its page.")


class ServedChecks(BaseModel):
    """The detectors of errors in translations."""

    detectors: list[str] = Field(description="Names for `POST /check`; the first is the default.")
    threshold: float = Field(description="Probability from which the page marks a word.")
    notes: dict[str, str] = Field(description="Notes on pairs that are no ordinary translations, in words.")


class ModelsAnswer(BaseModel):
    """The served models and detectors, and the limits of the server."""

    models: list[ModelAnswer]
    checks: ServedChecks | None = Field(description="`null` if the server cannot check translations.")
    limits: dict[str, float] = Field(description="Limits of the server, by the names in `ServeConfig`.")


class Health(BaseModel):
    """The status of the server."""

    status: str
    version: str
    models: list[str]
    waiting: int = Field(description="Number of sentences in the queues.")
