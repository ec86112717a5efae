"""`regard lm`: estimate n-gram language models, stored as ARPA files, and compute perplexities."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.command import Writes, check_paths
from regard.cli.options import JsonOption
from regard.cli.output import open_output, print_message, write_json
from regard.errors import UsageError

__all__ = ["lm"]


@check_paths
def lm(
    text: Annotated[
        Path | None,
        typer.Argument(
            help="Training text, plain or compressed: one sentence per line, words separated by whitespace.",
            show_default=False,
        ),
    ] = None,
    order: Annotated[
        int, typer.Option(help="Order of the n-gram model: the maximum length of an n-gram.", min=1, max=9)
    ] = 5,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Output file in ARPA format.",
            show_default=False,
        ),
        Writes.FILE,
    ] = None,
    model_path: Annotated[
        Path | None,
        typer.Option(
            "--model",
            help="ARPA file with a language model, which is used instead of a new one.",
            show_default=False,
        ),
    ] = None,
    perplexity: Annotated[
        Path | None, typer.Option(help="Text for which the perplexity is computed.", show_default=False)
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Estimate an n-gram model with interpolated modified Kneser-Ney smoothing (Chen & Goodman 1998).

    Example: regard lm train.en --order 5 -o train.arpa.gz --perplexity valid.en

    Example: regard lm --model train.arpa.gz --perplexity valid.en
    """
    from regard.extensions.smt.arpa import read_arpa, write_arpa
    from regard.extensions.smt.kneser_ney import estimate_language_model
    from regard.extensions.smt.language_model import read_sentences

    if (text is None) == (model_path is None):
        raise UsageError("give either a training text or --model with an ARPA file")
    if output is None and perplexity is None:
        raise UsageError("there is nothing to do. Give --output, --perplexity or both.")
    if text is not None:
        # The name of the file is used in error messages.
        model = estimate_language_model(read_sentences(text), order, str(text))
    else:
        assert model_path is not None
        model = read_arpa(model_path)
    if output is not None:
        write_arpa(model, output)
    result = model.summary(None if perplexity is None else read_sentences(perplexity))
    print_message(f"order {result.order}: {', '.join(f'{count:,}' for count in result.ngrams)} n-grams")
    if (stats := result.perplexity) is not None:
        with open_output(None) as file:
            file.write(
                f"perplexity {stats.with_unknown:.4f}; without {stats.num_unknown} unknown words "
                f"{stats.without_unknown:.4f}; {stats.num_words} words, {stats.num_sentences} sentences\n"
            )
    write_json(json_file, result)
