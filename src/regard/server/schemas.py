"""What requests hold and what answers hold: the description that the API publishes is made of these."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from regard.server.config import ServeConfig

__all__ = [
    "Health",
    "Models",
    "Pair",
    "PairAnswer",
    "Piece",
    "Problem",
    "ScoreAnswer",
    "ScoreRequest",
    "SentenceAnswer",
    "SplitAnswer",
    "SplitRequest",
    "TranslateAnswer",
    "TranslateRequest",
    "WordFertility",
    "tell_limits",
]

_ASKED = ConfigDict(extra="forbid", strict=True)
_MOST = 1e6


def _whole(value: Any) -> Any:
    """JSON has one kind of numbers: 68.0 is an integer there."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Integer = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, Field(ge=0, le=_MOST, allow_inf_nan=False)]
Place = Annotated[Integer, Field(ge=0, le=1_000_000)]


class WordFertility(BaseModel):
    """How much attention a word must and may receive."""

    model_config = _ASKED
    sentence: Place = Field(0, description="Of all sentences of the request, counted from 0.")
    word: Place = Field(description="The word of the sentence, counted from 0.")
    least: Number = Field(0.0, description="The least attention that each of its pieces must receive.")
    most: Number | None = Field(None, description="The most it may; absent: as the model has it.")

    @model_validator(mode="after")
    def _ordered(self) -> "WordFertility":
        if self.most is not None and self.least > self.most:
            raise ValueError(f"at least {self.least:g} and at most {self.most:g} leave nothing between")
        return self


class TranslateRequest(BaseModel):
    """Text to translate: `text` or `texts`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "oneOf": [
                {"required": ["text"], "properties": {"text": {"type": "string"}, "texts": {"type": "null"}}},
                {"required": ["texts"], "properties": {"texts": {"type": "array"}, "text": {"type": "null"}}},
            ],
            "example": {"text": "Ein Hund läuft über die Wiese.", "nbest": 3},
        },
    )
    model: str | None = Field(None, description="A name of `GET /models`; absent: the first.", max_length=500)
    text: str | None = Field(None, description="A text.")
    texts: list[str] | None = Field(None, description="Texts, in the place of `text`.")
    split: bool = Field(True, description="Split texts into sentences; else each line break ends one.")
    language: str | None = Field(
        None,
        description="The language of the text, as a code (`de`): its abbreviations end no sentence. Absent: "
        "the model's source language where it is known, else English.",
        pattern="^[a-z]{2,3}$",
    )
    nbest: Integer = Field(1, ge=1, description="Translations of each sentence.")
    beam: Integer | None = Field(
        None, ge=1, description="Hypotheses kept alive, `nbest` at least; absent: as the model has it."
    )
    fertilities: list[WordFertility] = Field(
        [], description="For models with fertilities: what words must and may receive.", max_length=1000
    )
    attention: bool = Field(True, description="Whether the weights of words are wanted.")
    tokens: bool = Field(False, description="Whether the weights of tokens are wanted, too.")
    tokenized: bool = Field(
        False,
        description="The text is tokenised already: it is taken as it stands. By default, the punctuation of "
        "plain text is set apart where the model's training text is tokenised.",
    )
    stream: bool = Field(
        False, description="Answer with a line of JSON for each sentence, as soon as it is translated."
    )

    @model_validator(mode="after")
    def _one(self) -> "TranslateRequest":
        if (self.text is None) == (self.texts is None):
            raise ValueError("expected either text or texts")
        return self


class Pair(BaseModel):
    """A sentence and its translation."""

    model_config = _ASKED
    # One that holds no word is refused with a sentence of its own.
    source: str = Field(
        description="The sentence: a word at least.",
        json_schema_extra={"minLength": 1, "pattern": r"[^\t-\r ]"},
    )
    target: str = Field(description="The translation; it may be empty.")


class ScoreRequest(BaseModel):
    """Translations to score."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"example": {"pairs": [{"source": "Ein Hund läuft.", "target": "A dog runs."}]}},
    )
    model: str | None = Field(None, description="A name of `GET /models`; absent: the first.", max_length=500)
    pairs: list[Pair] = Field(description="Sentences and their translations.")
    tokenized: bool = Field(
        False,
        description="The text is tokenised already: it is taken as it stands. By default, the punctuation of "
        "plain text is set apart where the model's training text is tokenised.",
    )


class SplitRequest(BaseModel):
    """A text to cut into sentences."""

    model_config = _ASKED
    text: str = Field(description="The text.")
    language: str | None = Field(
        None,
        description="Its language, as a code (`de`): its abbreviations end no sentence. Absent: English.",
        pattern="^[a-z]{2,3}$",
    )


class Piece(BaseModel):
    """A sentence of a text."""

    text: str = Field(description="Its words, a space between two.")
    start: int = Field(description="Where it starts in the text, in characters (code points).")
    end: int = Field(description="Where it ends.")


class SplitAnswer(BaseModel):
    """The sentences of a text."""

    sentences: list[Piece]


class Bounds(BaseModel):
    """What a word must and may receive: the sums of its pieces'."""

    least: float
    most: float | None = Field(description="`null`: any amount.")


class TranslationAnswer(BaseModel):
    """A translation of a sentence."""

    text: str
    tokens: list[str] = Field(description="As the model said them.")
    words: list[str] = Field(description="Tokens joined to words.")
    score: float = Field(description="What search ranks by.")
    log_probability: float = Field(description="Of the tokens and the end symbol, in nats.")
    token_log_probs: list[float] = Field(description="Its parts, the end symbol's last.")
    alignment: list[list[int]] = Field(description="Source word and target word, counted from 0.")
    attention: list[list[float]] | None = Field(
        description="A row for each target word, a column for each source word and one for the sink, if "
        "there is one. The posterior of the layer and heads that word links come from; summed over the "
        "pieces of a source word, averaged over those of a target word."
    )
    received: list[float] | None = Field(
        description="What each source word, and the sink, received over all steps, the end symbol's included."
    )
    token_attention: list[list[float]] | None = Field(description="The same map, token by token.")


class SentenceAnswer(BaseModel):
    """What became of a sentence."""

    sentence: int = Field(description="Of all sentences of the request, counted from 0.")
    text: int = Field(description="The text it stands in, counted from 0.")
    source: str
    source_tokens: list[str]
    source_words: list[str]
    unknown: list[int] = Field(description="The source words that the model does not know, or not in full.")
    sink: bool = Field(description="Whether the maps have a last column for the sink.")
    bounds: list[Bounds] | None = Field(description="Of each source word; `null`: the model has none.")
    translations: list[TranslationAnswer] = Field(description="Best first.")


class TranslateAnswer(BaseModel):
    """The translations of texts."""

    model: str
    sentences: list[SentenceAnswer]
    texts: list[str] = Field(description="Each text's best translation, its line breaks kept.")


class PairAnswer(BaseModel):
    """What a model thinks of a translation."""

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
    """A model that is served."""

    name: str
    kind: str
    attention: str
    map: str | None
    fertility: str | None = Field(description="Where its fertilities come from; `null`: it has none.")
    sink: bool
    beam: int = Field(description="The width of its beam, unless told otherwise.")
    parameters: int = Field(description="Numbers that were learned; of a phrase-based system, phrase pairs.")
    tokenizers: list[str] = Field(description="Source and target.")
    languages: list[str | None] = Field(description="Source and target, where the tokenizers name them.")
    vocabulary: list[int] = Field(description="Source and target tokens.")


class Models(BaseModel):
    """The models that are served, and what the server takes on."""

    models: list[ModelAnswer]
    limits: dict[str, float] = Field(description="By the names of `ServeConfig`.")


class Health(BaseModel):
    """The server is there."""

    status: str
    version: str
    models: list[str]
    waiting: int = Field(description="Sentences in the queues.")


class Problem(BaseModel):
    """What went wrong; the one shape of every answer but those of success."""

    error: str = Field(description="A sentence for a person.")
    identifier: str | None = Field(None, description="Of an unexpected failure, as in the server's log.")


def tell_limits(description: dict[str, Any], config: ServeConfig) -> None:
    """Put a server's limits into its OpenAPI description, in place."""
    schemas = description["components"]["schemas"]
    asked = schemas["TranslateRequest"]["properties"]
    _any(asked["text"])["maxLength"] = config.characters
    _any(asked["texts"])["maxItems"] = config.sentences
    _any(asked["texts"])["items"]["maxLength"] = config.characters
    asked["nbest"]["maximum"] = config.beam
    _any(asked["beam"])["maximum"] = config.beam
    schemas["ScoreRequest"]["properties"]["pairs"]["maxItems"] = config.sentences
    schemas["SplitRequest"]["properties"]["text"]["maxLength"] = config.characters
    for side in ("source", "target"):
        schemas["Pair"]["properties"][side]["maxLength"] = config.characters


def _any(schema: dict[str, Any]) -> dict[str, Any]:
    """The member that is not null."""
    return next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
