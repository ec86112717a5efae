"""`regard score`: log-probabilities of given translations, by forced decoding.

The tokens of a translation cannot be recovered from its text. A model may generate the tokens `a@@ b`, but
the tokenizer may segment the same word as `ab`. The actions of pointer attention do not appear in the text at
all. `--tokens-from` therefore reads the tokens from a file of `regard translate`.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import expand_groups, given, setting
from regard.cli.options import (
    GENERATION,
    CoverageEpsilonOption,
    JsonOption,
    LinkOptions,
    LinksOutputOption,
    ModelDirArgument,
    ModelSettingsOption,
    OutputOption,
    RuntimeOptions,
    TokenizedOption,
)
from regard.cli.output import open_output, print_message, write_json
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.api.score_totals import ScoreTotals
    from regard.data.text import TextProcessor
    from regard.generation.base import BaseTranslator
    from regard.generation.translation import Translation

__all__ = ["read_tokens", "score"]


@dataclass(frozen=True)
class ScoreOptions:
    """The models of an ensemble, the tokens of the text, and the output files."""

    ensemble_with: Annotated[
        list[Path] | None,
        typer.Option(help="Directory of another model of an ensemble. The option may be repeated."),
    ] = None
    tokenized: TokenizedOption = False
    tokens_from: Annotated[
        Path | None,
        typer.Option(
            help="File with the tokens of the pairs, written by `regard translate` with --tokens-output or "
            "--attention-output. By default, the text is tokenized again, and its tokens may differ from the "
            "generated ones.",
        ),
    ] = None
    output: OutputOption = None
    token_scores: Annotated[
        bool, typer.Option("--token-scores", help="Write the log-probability of each token, as TOKEN|VALUE.")
    ] = False
    links_output: LinksOutputOption = None
    json_file: JsonOption = None
    settings: ModelSettingsOption = None


@dataclass(frozen=True)
class PenaltyOptions:
    """The penalties of the scores."""

    length_penalty: Annotated[float, setting(f"{GENERATION}:length_penalty")] = 0.0
    coverage_penalty: Annotated[float, setting(f"{GENERATION}:coverage_penalty.weight")] = 0.0
    coverage_epsilon: CoverageEpsilonOption = None


@expand_groups
def score(
    model: ModelDirArgument,
    source: Annotated[Path, typer.Argument(help="Source text, plain or compressed.", show_default=False)],
    target: Annotated[
        Path, typer.Argument(help="Translations to score, one line per source line.", show_default=False)
    ],
    options: ScoreOptions,
    penalties: PenaltyOptions,
    links: LinkOptions,
    runtime: RuntimeOptions,
) -> None:
    """Score given translations by forced decoding.

    The output has one log-probability per line, in nats and including the end symbol. A line that is too long
    or has an empty source scores `nan` and does not count for the perplexity. Word links are derived in the
    same way as by `regard translate`; `regard evaluate --gold-links` scores them.

    Example: regard score runs/first input.txt translation.txt --json scores.json
    """
    from regard.api.loading import load_translator
    from regard.api.translations import Scores
    from regard.config.results import SCHEMA_VERSION
    from regard.text.corpus import CorpusConfig, read_pairs
    from regard.training.device import set_num_threads

    set_num_threads(runtime.num_threads)
    models = [model, *(options.ensemble_with or [])]
    translator = load_translator(models, runtime.device, runtime.precision, None, options.settings or [])
    translator.require("score", "regard score")
    translator = translator.with_search(
        {**given(penalties), **given(links), "batch_size": runtime.batch_size}
    )
    if options.tokenized:
        translator = translator.pretokenized()
    pairs = read_pairs(CorpusConfig(source=str(source), target=str(target)))
    totals, sentences = _score(translator, pairs, options)
    perplexity = f"perplexity {totals.perplexity:.4f}" if totals.num_tokens else "no perplexity"
    num_scored = totals.num_sentences - totals.num_skipped
    print_message(f"{num_scored} sentences, {totals.num_tokens} tokens, {perplexity}")
    retokenized = totals.num_retokenized
    if retokenized:
        print_message(
            f"{retokenized} lines were tokenized differently when they were generated: their scores would "
            "differ without --tokens-from"
        )
    header = {"schema": Scores.schema, "schema_version": SCHEMA_VERSION}
    write_json(options.json_file, header | totals.to_data() | {"sentences": sentences})


def _score(
    translator: "BaseTranslator", pairs: Iterable[tuple[str, str]], options: ScoreOptions
) -> "tuple[ScoreTotals, list[dict[str, Any]]]":
    """Write the score and the links of each pair, and return the sums and the JSON form of each pair."""
    from regard.api.score_totals import ScoreTotals
    from regard.text.links import format_links

    path = options.tokens_from
    tokenized = pairs if path is None else read_tokens(path, pairs, translator.text)
    totals, sentences = ScoreTotals(), []
    with ExitStack() as files:
        file = files.enter_context(open_output(options.output))
        links = options.links_output
        linked = None if links is None else files.enter_context(open_output(links))
        for result in translator.score(tokenized):
            if linked is not None:
                # Write a line also for a skipped pair, so that the files stay parallel.
                linked.write(format_links(result.links) + "\n")
            file.write(_format_score(result, options.token_scores) + "\n")
            # None marks a skipped pair, which does not count for the perplexity.
            logs = None if result.error else result.token_log_probs.tolist()
            totals = totals.add(logs, result.retokenized)
            # The JSON form of all pairs needs memory, so it is built only for --json.
            if options.json_file is not None:
                sentences.append(result.to_data("none"))
    return totals, sentences


def _format_score(result: "Translation", by_token: bool) -> str:
    if result.error:
        return "" if by_token else "nan"
    if not by_token:
        return f"{result.score:.4f}"
    named = zip((*result.tokens, "</s>"), result.token_log_probs.tolist(), strict=True)
    return " ".join(f"{name}|{value:.4f}" for name, value in named)


def read_tokens(
    path: Path, pairs: Iterable[tuple[str, str]], text: "TextProcessor"
) -> "Iterator[Translation]":
    """Yield sentence pairs together with their tokens from a file.

    Args:
        path: File written by `regard translate --tokens-output` or `--attention-output`.
        pairs: Source lines and their translations.
        text: Tokenizers and vocabularies of the two sides.

    Raises:
        DataError: If a line of the file has another form or belongs to another translation, or the numbers
            of lines differ. The message gives the line.
    """
    from pydantic import BaseModel, Field

    from regard.generation.translation import Translation
    from regard.text.corpus import read_lines
    from regard.text.reading import InvalidJsonError, parse_json

    class Line(BaseModel):
        """The fields of a line that are used. The weights of `--attention-output` are ignored."""

        source_tokens: list[Annotated[str, Field(min_length=1)]]
        tokens: list[Annotated[str, Field(min_length=1)]]
        text: str

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
            record = parse_json(line, Line)
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
