"""`regard score`: log-probabilities of given translations, by forced decoding."""

import math
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.attention_options import HeadOption, LayerOption, ShiftOption
from regard.cli.common_options import (
    BatchSizeOption,
    DeviceOption,
    NumThreadsOption,
    PrecisionOption,
)

__all__ = ["score"]


def score(
    model: Annotated[Path, typer.Argument(help="Model directory.", show_default=False)],
    source: Annotated[Path, typer.Argument(help="Source text, plain or gzip.", show_default=False)],
    target: Annotated[
        Path, typer.Argument(help="Translations to score, one line per source line.", show_default=False)
    ],
    other_models: Annotated[
        list[Path] | None,
        typer.Option(
            "--ensemble-with", help="Directory of another model of an ensemble. The option may be repeated."
        ),
    ] = None,
    tokenized: Annotated[
        bool,
        typer.Option(
            "--tokenized",
            help="The texts are already tokenized in the same way as the training text. By default, "
            "punctuation is separated from words if the training text is tokenized.",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Output file for the scores. Default: standard output.")
    ] = None,
    token_scores: Annotated[
        bool, typer.Option("--token-scores", help="Write the log-probability of each token, as TOKEN|VALUE.")
    ] = False,
    tokens_from: Annotated[
        Path | None,
        typer.Option(
            help="File with the tokens of the pairs, written by `regard translate` with --tokens-output or "
            "--attention-output. By default, the text is tokenized again, and its tokens may differ from the "
            "generated ones.",
        ),
    ] = None,
    links_output: Annotated[
        Path | None,
        typer.Option(help="Output file for the word links of each line (0-0 1-2), derived from attention."),
    ] = None,
    layer: LayerOption = None,
    head: HeadOption = None,
    shift: ShiftOption = None,
    length_penalty: Annotated[
        float,
        typer.Option(
            help="Alpha of the length penalty: scores are divided by ((5 + length) / 6)^alpha. 0 "
            "disables it.",
            min=0,
        ),
    ] = 0.0,
    coverage_penalty: Annotated[
        float, typer.Option(help="Beta of the coverage penalty. 0 disables it.", min=0)
    ] = 0.0,
    coverage_epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon of the coverage penalty: lower bound of the attention of a source word."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the results to this JSON file.")
    ] = None,
    batch_size: BatchSizeOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Override a setting of the model, as key=value, for example model.attention.top_k=0. "
            "The weights of the model must still fit.",
            show_default=False,
        ),
    ] = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "auto",
    num_threads: NumThreadsOption = None,
) -> None:
    """Score given translations by forced decoding.

    The output has one log-probability per line, in nats and including the end symbol. A line that is too long
    or has an empty source scores `nan` and does not count for the perplexity. Word links are derived in the
    same way as by `regard translate`; `regard evaluate --gold-links` scores them.

    Example: regard score runs/first input.txt translation.txt --json scores.json
    """
    from regard.api.loading import load_translator
    from regard.cli.output import open_output, write_json
    from regard.cli.token_file import read_tokens
    from regard.config import from_dict
    from regard.data.corpus import CorpusConfig, read_pairs
    from regard.data.links import format_links
    from regard.training.device import set_num_threads

    set_num_threads(num_threads)
    penalties = {"length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    chosen = {"layer": layer, "head": head, "shift": shift}
    others = {"coverage_epsilon": coverage_epsilon, "batch_size": batch_size, **chosen}
    models = [model, *(other_models or [])]
    translator = load_translator(models, device, precision, None, settings or [])
    translator.require("score", "regard score")
    translator = translator.with_search({**penalties, **others})
    if tokenized:
        translator = translator.pretokenized()
    pairs = read_pairs(from_dict(CorpusConfig, {"source": str(source), "target": str(target)}))
    given = pairs if tokens_from is None else read_tokens(tokens_from, pairs, translator.text)
    results: dict[str, Any] = {"sentences": 0, "skipped": 0, "tokens": 0, "log_probability": 0.0}
    retokenized = 0
    with ExitStack() as files:
        file = files.enter_context(open_output(output))
        linked = None if links_output is None else files.enter_context(open_output(links_output))
        for result in translator.score(given):
            found = result.hypothesis
            retokenized += result.retokenized
            if linked is not None:
                # Write a line also for a skipped pair, so that the files stay parallel.
                linked.write(format_links(result.links) + "\n")
            if found is None:
                results["skipped"] += 1
                file.write("\n" if token_scores else "nan\n")
                continue
            results["sentences"] += 1
            results["tokens"] += len(found.token_log_probs)
            results["log_probability"] += found.log_probability
            if token_scores:
                named = zip((*result.tokens, "</s>"), found.token_log_probs, strict=True)
                file.write(" ".join(f"{name}|{value:.4f}" for name, value in named) + "\n")
            else:
                file.write(f"{found.score:.4f}\n")
    results["perplexity"], shown = None, "no perplexity"
    if results["tokens"]:
        mean = results["log_probability"] / results["tokens"]
        # exp(x) overflows a float above x = 709.
        results["perplexity"] = math.exp(-mean) if mean > -700 else None
        shown = "perplexity " + ("above e^700" if mean <= -700 else f"{results['perplexity']:.4f}")
    print(f"{results['sentences']} sentences, {results['tokens']} tokens, {shown}", file=sys.stderr)
    if tokens_from is not None:
        results["retokenized"] = retokenized
    if retokenized:
        print(
            f"{retokenized} lines were tokenized differently when they were generated: their scores would "
            "differ without --tokens-from",
            file=sys.stderr,
        )
    write_json(json_file, results)
