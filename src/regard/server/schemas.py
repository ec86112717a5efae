"""The schemas of requests and answers, from which the OpenAPI description is generated."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from regard.server.config import ServeConfig

__all__ = [
    "ErrorResponse",
    "Health",
    "ModelsAnswer",
    "PairAnswer",
    "ScoreAnswer",
    "ScoreRequest",
    "SentenceAnswer",
    "SentencePair",
    "SplitAnswer",
    "SplitRequest",
    "SplitSentence",
    "TranslateAnswer",
    "TranslateRequest",
    "WordFertility",
    "add_limits",
]

_REQUEST_CONFIG = ConfigDict(extra="forbid", strict=True)
_MAX_FERTILITY = 1e6


def _to_integer(value: Any) -> Any:
    """Convert a float with an integral value to an integer; JSON does not distinguish 68.0 from 68."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Integer = Annotated[int, BeforeValidator(_to_integer)]
Number = Annotated[float, Field(ge=0, le=_MAX_FERTILITY, allow_inf_nan=False)]
Index = Annotated[Integer, Field(ge=0, le=1_000_000)]


class WordFertility(BaseModel):
    """Bounds of the attention that a source word receives."""

    model_config = _REQUEST_CONFIG
    sentence: Index = Field(
        0, description="Index of the sentence among all sentences of the request, counted from 0."
    )
    word: Index = Field(description="Index of the word in the sentence, counted from 0.")
    least: Number = Field(
        0.0, description="Lower bound of the attention that each subword token of the word must receive."
    )
    most: Number | None = Field(
        None,
        description="Upper bound of the attention of each subword token. Default: the model's fertility.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> "WordFertility":
        if self.most is not None and self.least > self.most:
            raise ValueError(f"least = {self.least:g} exceeds most = {self.most:g}: expected least <= most")
        return self


class TranslateRequest(BaseModel):
    """A request to translate `text` or `texts`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "oneOf": [
                {"required": ["text"], "properties": {"text": {"type": "string"}, "texts": {"type": "null"}}},
                {"required": ["texts"], "properties": {"texts": {"type": "array"}, "text": {"type": "null"}}},
            ],
            "example": {"text": "Ein Hund läuft über die Wiese.", "num_return": 3},
        },
    )
    model: str | None = Field(
        None, description="Name of a model in `GET /models`. Default: the first model.", max_length=500
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
    num_return: Integer = Field(1, ge=1, description="Number of translations per sentence.")
    beam_size: Integer | None = Field(
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
    attention: bool = Field(True, description="Whether to return the attention weights of words.")
    tokens: bool = Field(False, description="Whether to return the attention weights of tokens, too.")
    tokenized: bool = Field(
        False,
        description="Whether the text is already tokenized and must not be changed. By default, punctuation "
        "is separated from words if the training text of the model is tokenized.",
    )
    stream: bool = Field(
        False, description="Whether to answer with JSON Lines: one line per sentence, as soon as available."
    )

    @model_validator(mode="after")
    def _one(self) -> "TranslateRequest":
        if (self.text is None) == (self.texts is None):
            raise ValueError("expected either text or texts, not both")
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


class ScoreRequest(BaseModel):
    """A request to score given translations."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"example": {"pairs": [{"source": "Ein Hund läuft.", "target": "A dog runs."}]}},
    )
    model: str | None = Field(
        None, description="Name of a model in `GET /models`. Default: the first model.", max_length=500
    )
    pairs: list[SentencePair] = Field(description="Sentences and their translations.")
    tokenized: bool = Field(
        False,
        description="Whether the text is already tokenized and must not be changed. By default, punctuation "
        "is separated from words if the training text of the model is tokenized.",
    )


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
    """A sentence of a text."""

    text: str = Field(description="The sentence, with single spaces between words.")
    start: int = Field(description="Index of its first character in the text (code points).")
    end: int = Field(description="Index after its last character in the text (code points).")


class SplitAnswer(BaseModel):
    """The sentences of a text."""

    sentences: list[SplitSentence]


class Bounds(BaseModel):
    """Bounds of the attention of a word: the sums of the bounds of its subword tokens."""

    least: float
    most: float | None = Field(description="Upper bound; `null` for no bound.")


class TranslationAnswer(BaseModel):
    """A translation of a sentence."""

    text: str
    tokens: list[str] = Field(description="Generated tokens.")
    words: list[str] = Field(description="Generated words, joined from the tokens.")
    score: float = Field(description="Score by which the search ranks translations; higher is better.")
    log_probability: float = Field(
        description="Log-probability of all tokens including the end symbol, in nats."
    )
    token_log_probs: list[float] = Field(
        description="Log-probability of each token in nats; the last is that of the end symbol."
    )
    alignment: list[list[int]] = Field(
        description="Word links as pairs of source word and target word, counted from 0."
    )
    attention: list[list[float]] | None = Field(
        description="Attention map: one row per target word, one column per source word, and a last column "
        "for the sink if the model has one. It is the posterior attention of the layer and heads from which "
        "word links are computed, summed over the subword tokens of a source word and averaged over those of "
        "a target word."
    )
    received: list[float] | None = Field(
        description="Total attention of each source word, and of the sink, over all time steps including the "
        "end symbol's."
    )
    token_attention: list[list[float]] | None = Field(
        description="The attention map of tokens instead of words."
    )


class SentenceAnswer(BaseModel):
    """The translations of a sentence."""

    sentence: int = Field(
        description="Index of the sentence among all sentences of the request, counted from 0."
    )
    text: int = Field(description="Index of the text that contains the sentence, counted from 0.")
    source: str
    source_tokens: list[str]
    source_words: list[str]
    unknown: list[int] = Field(
        description="Indices of the source words with a token that is not in the vocabulary."
    )
    sink: bool = Field(description="Whether the last column of the attention maps is the sink.")
    bounds: list[Bounds] | None = Field(
        description="Bounds of each source word; `null` for a model without fertilities."
    )
    translations: list[TranslationAnswer] = Field(description="Translations, best first.")


class TranslateAnswer(BaseModel):
    """The translations of texts."""

    model: str
    sentences: list[SentenceAnswer]
    texts: list[str] = Field(description="Best translation of each text, with the line breaks of the text.")


class PairAnswer(BaseModel):
    """The score of a given translation."""

    source: str
    target: str
    source_tokens: list[str]
    tokens: list[str]
    source_words: list[str]
    words: list[str]
    score: float
    log_probability: float
    token_log_probs: list[float]
    alignment: list[list[int]]


class ScoreAnswer(BaseModel):
    """Scores of translations."""

    model: str
    pairs: list[PairAnswer]


class ModelAnswer(BaseModel):
    """A served model."""

    name: str
    kind: str
    attention: str
    map: str | None
    fertility: str | None = Field(
        description="Kind of the fertility predictor; `null` for a model without fertilities."
    )
    sink: bool
    beam_size: int = Field(description="Default beam size.")
    parameters: int | None = Field(
        description="Number of parameters, or of entries of the model's table; `null` if unknown."
    )
    tokenizers: list[str] = Field(description="Kinds of the source and the target tokenizer.")
    languages: list[str | None] = Field(
        description="Source and target language; `null` if the tokenizer does not specify one."
    )
    vocabulary: list[int] = Field(description="Sizes of the source and the target vocabulary.")


class ModelsAnswer(BaseModel):
    """The served models and the limits of the server."""

    models: list[ModelAnswer]
    limits: dict[str, float] = Field(description="Limits of the server, by the names in `ServeConfig`.")


class Health(BaseModel):
    """The status of the server."""

    status: str
    version: str
    models: list[str]
    waiting: int = Field(description="Number of sentences in the queues.")


class ErrorResponse(BaseModel):
    """An error; all error responses have this form."""

    error: str = Field(description="Error message for the user.")
    identifier: str | None = Field(
        None, description="Identifier of an unexpected error, also in the server's log."
    )


def add_limits(description: dict[str, Any], config: ServeConfig) -> None:
    """Add the limits of a server to its OpenAPI description, which is modified.

    Args:
        description: The OpenAPI description.
        config: The limits.
    """
    schemas = description["components"]["schemas"]
    asked = schemas["TranslateRequest"]["properties"]
    _any(asked["text"])["maxLength"] = config.max_characters
    _any(asked["texts"])["maxItems"] = config.max_sentences
    _any(asked["texts"])["items"]["maxLength"] = config.max_characters
    asked["num_return"]["maximum"] = config.max_beam_size
    _any(asked["beam_size"])["maximum"] = config.max_beam_size
    schemas["ScoreRequest"]["properties"]["pairs"]["maxItems"] = config.max_sentences
    schemas["SplitRequest"]["properties"]["text"]["maxLength"] = config.max_characters
    for side in ("source", "target"):
        schemas["SentencePair"]["properties"][side]["maxLength"] = config.max_characters


def _any(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the member of a union that is not null."""
    return next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
