"""`regard score`: log-probabilities of given translations, by forced decoding.

The tokens of a translation cannot be recovered from its text. A model may generate the tokens `a@@ b`, but
the tokenizer may segment the same word as `ab`. The actions of pointer attention do not appear in the text at
all. `--tokens-from` therefore reads the tokens from a file of `regard translate`.
"""

import math
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
    ModelArgument,
    ModelSettingsOption,
    OutputOption,
    RuntimeOptions,
    TokenizedOption,
)
from regard.cli.output import open_output, print_message, write_json
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.data.text import TextProcessor
    from regard.generation.base import BaseTranslator
    from regard.generation.blocks import PretokenizedPair
    from regard.generation.forced import LineScore

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
    links_output: Annotated[
        Path | None,
        typer.Option(help="Output file for the word links of each line (0-0 1-2), derived from attention."),
    ] = None
    json_file: JsonOption = None
    settings: ModelSettingsOption = None


@dataclass(frozen=True)
class PenaltyOptions:
    """The penalties of the scores."""

    length_penalty: Annotated[float, setting(f"{GENERATION}:length_penalty", min=0)] = 0.0
    coverage_penalty: Annotated[float, setting(f"{GENERATION}:coverage_penalty.weight", min=0)] = 0.0
    coverage_epsilon: CoverageEpsilonOption = None


@expand_groups
def score(
    model: ModelArgument,
    source: Annotated[Path, typer.Argument(help="Source text, plain or gzip.", show_default=False)],
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
    from regard.config import from_dict
    from regard.data.corpus import CorpusConfig, read_pairs
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
    pairs = read_pairs(from_dict(CorpusConfig, {"source": str(source), "target": str(target)}))
    results, retokenized = _score(translator, pairs, options)
    perplexity = results["perplexity"]
    # A mean log-probability below -700 has no perplexity in a float.
    shown = "no perplexity" if not results["tokens"] else "perplexity above e^700"
    if perplexity is not None:
        shown = f"perplexity {perplexity:.4f}"
    print_message(f"{results['sentences']} sentences, {results['tokens']} tokens, {shown}")
    if options.tokens_from is not None:
        results["retokenized"] = retokenized
    if retokenized:
        print_message(
            f"{retokenized} lines were tokenized differently when they were generated: their scores would "
            "differ without --tokens-from"
        )
    write_json(options.json_file, results)


def _score(
    translator: "BaseTranslator", pairs: Iterable[tuple[str, str]], options: ScoreOptions
) -> tuple[dict[str, Any], int]:
    """Write the score and the links of each pair.

    Returns:
        The sums over all pairs and the perplexity, and the number of lines whose tokens in `--tokens-from`
        are not those of the tokenizer.
    """
    from regard.data.links import format_links

    path = options.tokens_from
    tokenized = pairs if path is None else read_tokens(path, pairs, translator.text)
    results: dict[str, Any] = {"sentences": 0, "skipped": 0, "tokens": 0, "log_probability": 0.0}
    retokenized = 0
    with ExitStack() as files:
        file = files.enter_context(open_output(options.output))
        links = options.links_output
        linked = None if links is None else files.enter_context(open_output(links))
        for result in translator.score(tokenized):
            retokenized += result.retokenized
            if linked is not None:
                # Write a line also for a skipped pair, so that the files stay parallel.
                linked.write(format_links(result.links) + "\n")
            file.write(_format_score(result, options.token_scores) + "\n")
            if result.hypothesis is None:
                results["skipped"] += 1
                continue
            results["sentences"] += 1
            results["tokens"] += len(result.hypothesis.token_log_probs)
            results["log_probability"] += result.hypothesis.log_probability
    results["perplexity"] = None
    if results["tokens"]:
        mean = results["log_probability"] / results["tokens"]
        # exp(x) overflows a float above x = 709.
        results["perplexity"] = math.exp(-mean) if mean > -700 else None
    return results, retokenized


def _format_score(result: "LineScore", by_token: bool) -> str:
    found = result.hypothesis
    if found is None:
        return "" if by_token else "nan"
    if not by_token:
        return f"{found.score:.4f}"
    named = zip((*result.tokens, "</s>"), found.token_log_probs, strict=True)
    return " ".join(f"{name}|{value:.4f}" for name, value in named)


def read_tokens(
    path: Path, pairs: Iterable[tuple[str, str]], text: "TextProcessor"
) -> "Iterator[PretokenizedPair]":
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

    from regard.data.corpus import read_lines
    from regard.data.reading import InvalidJsonError, parse_json
    from regard.generation.blocks import PretokenizedPair

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
            kept = parse_json(line, Line)
        except InvalidJsonError as error:
            raise DataError(
                f"{path}:{number}: the line was not written by `regard translate --tokens-output`: {error}"
            ) from None
        if kept.text != target:
            raise DataError(
                f"{path}:{number}: the tokens belong to {kept.text[:60]!r}, but the translation is "
                f"{target[:60]!r}: give the output file of the same run of `regard translate`"
            )
        read = kept.source_tokens
        # The source tokens in the file include the sink, which is added again when the pair is scored.
        if text.sink_tokens and tuple(read[-len(text.sink_tokens) :]) == text.sink_tokens:
            read = read[: -len(text.sink_tokens)]
        yield PretokenizedPair(source, target, tuple(read), tuple(kept.tokens))
    if next(lines, None) is not None:
        raise DataError(
            f"{path} has more lines than the text, which has {number}: it must have one line per translation"
        )
