"""Scores of the translations in two files, their sums, and the file of token scores of `regard score`.

The tokens of a translation cannot be recovered from its text. A model may generate the tokens `a@@ b`, but
the tokenizer may segment the same word as `ab`. The actions of pointer attention do not appear in the text at
all. `tokens_from` therefore reads the tokens from a file of `regard translate`.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from regard.config.results import Result, json_value, perplexity
from regard.errors import DataError
from regard.text.corpus import CorpusConfig, read_lines, read_pairs
from regard.text.reading import InvalidJsonError, parse_json
from regard.text.whitespace import split_whitespace

if TYPE_CHECKING:
    from regard.data.text import TextProcessor
    from regard.generation.translation import Translation

__all__ = ["ScoreTotals", "ScoredText", "read_token_scores", "read_tokens", "score_files"]


@dataclass(frozen=True)
class ScoreTotals:
    """Sums over the scores of given translations.

    Attributes:
        num_sentences: Number of pairs, including those that could not be scored.
        num_skipped: Number of pairs that could not be scored.
        num_retokenized: Number of pairs whose tokens were given and differ from those of the tokenizer.
        num_tokens: Number of scored tokens, including end symbols.
        log_probability: Log-probability of all scored translations, in nats.
    """

    num_sentences: int = 0
    num_skipped: int = 0
    num_retokenized: int = 0
    num_tokens: int = 0
    log_probability: float = 0.0

    def add(self, token_log_probs: Sequence[float] | None, retokenized: bool = False) -> "ScoreTotals":
        """Return the sums with another pair.

        Args:
            token_log_probs: Its log-probabilities, in nats. None if it could not be scored.
            retokenized: Whether its tokens were given and differ from those of the tokenizer.
        """
        logs = token_log_probs or ()
        return ScoreTotals(
            self.num_sentences + 1,
            self.num_skipped + (token_log_probs is None),
            self.num_retokenized + retokenized,
            self.num_tokens + len(logs),
            self.log_probability + math.fsum(logs),
        )

    @property
    def perplexity(self) -> float:
        """Return the perplexity per token, NaN without tokens; see `regard.config.results.perplexity`."""
        return perplexity(-self.log_probability / self.num_tokens) if self.num_tokens else math.nan

    def to_data(self) -> dict[str, Any]:
        """Return the sums and the perplexity as JSON values."""
        data = dataclasses.asdict(self) | {"perplexity": json_value(self.perplexity)}
        return data | {"log_probability": json_value(self.log_probability)}


@dataclass(frozen=True, repr=False)
class ScoredText(Result):
    """The scores of a text by `regard score`.

    Attributes:
        totals: The sums over all pairs.
        sentences: The JSON form of each pair.
    """

    schema = "scores"
    totals: ScoreTotals
    sentences: Sequence[Mapping[str, Any]]

    def to_data(self) -> dict[str, Any]:
        """Return the sums, and the fields of each pair."""
        return self.totals.to_data() | {"sentences": list(self.sentences)}


def score_files(
    model: Path | str,
    source: Path | str,
    target: Path | str,
    *,
    ensemble_with: Sequence[Path | str] = (),
    tokens_from: Path | str | None = None,
    length_penalty: float = 0.0,
    coverage_penalty: float = 0.0,
    **settings: Any,
) -> "Iterator[Translation]":
    """Yield the translations of a file with their scores, one after another; see `Translator.score`.

    Args:
        model: Model directory.
        source: Source text, plain or compressed.
        target: Translations to score, one line per source line.
        ensemble_with: Directories of the other models of an ensemble.
        tokens_from: File with the tokens of the pairs, written by `regard translate` with --tokens-output or
            --attention-output. Default: the text is tokenized again, and its tokens may differ from the
            generated ones.
        length_penalty: Exponent alpha of the length penalty ((5 + length) / 6)^alpha of Wu et al. (2016).
        coverage_penalty: Weight beta of the coverage penalty of Wu et al. (2016), added to the score.
        settings: Arguments of `regard.load`, such as `device` and `coverage_epsilon`.

    Raises:
        UsageError: if the models do not support an argument.
        DataError: if a file cannot be read or does not match the others.
    """
    from regard.api.translator import load_with_search

    penalties = {"length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    loaded, search = load_with_search((model, *ensemble_with), settings | penalties)
    loaded.backend.require("score", "regard score")
    translator = loaded.backend.with_search(search)
    pairs = read_pairs(CorpusConfig(source=str(source), target=str(target)))
    given_pairs = pairs if tokens_from is None else read_tokens(Path(tokens_from), pairs, translator.text)
    yield from translator.score(given_pairs)


class _TokenLine(BaseModel):
    """The fields of a line of tokens that are used. The weights of `--attention-output` are ignored."""

    source_tokens: list[Annotated[str, Field(min_length=1)]]
    tokens: list[Annotated[str, Field(min_length=1)]]
    text: str


def read_tokens(
    path: Path, pairs: Iterable[tuple[str, str]], text: "TextProcessor"
) -> "Iterator[Translation]":
    """Yield sentence pairs together with their tokens from a file.

    Args:
        path: File written by `regard translate --tokens-output` or `--attention-output`.
        pairs: Source lines and their translations.
        text: Tokenizers and vocabularies of the two sides.

    Raises:
        DataError: if a line of the file has another form or belongs to another translation, or the numbers
            of lines differ. The message gives the line.
    """
    from regard.generation.translation import Translation

    lines = read_lines(path)
    number = 0
    for number, (source, target) in enumerate(pairs, 1):
        line = next(lines, None)
        if line is None:
            raise DataError(
                f"{path} has only {number - 1} lines, fewer than the text: it must have one line per "
                "translation"
            )
        try:
            record = parse_json(line, _TokenLine)
        except InvalidJsonError as error:
            raise DataError(
                f"{path}:{number}: the line was not written by `regard translate --tokens-output`: {error}"
            ) from None
        if record.text != target:
            raise DataError(
                f"{path}:{number}: the tokens belong to {record.text[:60]!r}, but the translation is "
                f"{target[:60]!r}: give the output file of the same run of `regard translate`"
            )
        read = tuple(record.source_tokens)
        # A file of a model without a sink may be scored by one with a sink.
        if read[len(read) - len(text.sink_tokens) :] != text.sink_tokens:
            read += text.sink_tokens
        tokens = tuple(record.tokens)
        yield Translation(source, text, text=target, source_tokens=read, tokens=tokens)
    if next(lines, None) is not None:
        raise DataError(
            f"{path} has more lines than the text, which has {number}: it must have one line per translation"
        )


def read_token_scores(path: Path | str) -> ScoreTotals:
    """Return the sums of the log-probabilities in a file of `regard score --token-scores`.

    An empty line stands for a pair that was not scored.

    Raises:
        DataError: if the file cannot be read, a field does not have the form TOKEN|LOG-PROBABILITY, there is
            no token, or the perplexity exceeds the range of a float.
    """
    totals = ScoreTotals()
    for number, line in enumerate(read_lines(path), 1):
        logs = []
        for item in split_whitespace(line):
            # A token may contain "|", so split at the last one.
            name, separator, value = item.rpartition("|")
            try:
                logs.append(float(value))
                # A log-probability is at most 0. The negated comparison also rejects NaN.
                if not separator or not name or not logs[-1] <= 0:
                    raise ValueError
            except ValueError:
                raise DataError(
                    f"{path}:{number}: {item!r} does not have the form TOKEN|LOG-PROBABILITY written by "
                    "`regard score --token-scores`"
                ) from None
        totals = totals.add(logs or None)
    if not totals.num_tokens:
        raise DataError(f"{path}: the file contains no tokens")
    if not math.isfinite(totals.perplexity):
        raise DataError(
            f"{path}: the perplexity cannot be computed: the mean log-probability is "
            f"{totals.log_probability / totals.num_tokens:g}"
        )
    return totals
