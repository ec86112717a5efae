"""`regard lm`: an n-gram language model of a text, as an ARPA file, and the perplexity of another."""

from pathlib import Path
from typing import Annotated

import typer

from regard.errors import UsageError

__all__ = ["lm"]


def lm(
    text: Annotated[
        Path | None,
        typer.Argument(
            help="The text, plain or gzip: one sentence a line, words between blanks.", show_default=False
        ),
    ] = None,
    order: Annotated[int, typer.Option(help="The most words of an n-gram.", min=1, max=9)] = 5,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The ARPA file; through gzip if it ends in .gz.", show_default=False
        ),
    ] = None,
    load: Annotated[
        Path | None,
        typer.Option("--load", help="Read this ARPA file instead of counting a text.", show_default=False),
    ] = None,
    perplexity: Annotated[
        Path | None, typer.Option(help="A text to be predicted.", show_default=False)
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the results to this JSON file.", show_default=False),
    ] = None,
) -> None:
    """Estimate a language model with interpolated modified Kneser-Ney smoothing (Chen & Goodman 1998).

    Example: regard lm train.en --order 5 -o train.arpa.gz --perplexity valid.en

    Example: regard lm --load train.arpa.gz --perplexity valid.en
    """
    from itertools import pairwise

    from regard.cli.output import open_output, write_json
    from regard.cli.progress import say
    from regard.smt.arpa import read_arpa, write_arpa
    from regard.smt.kneser_ney import estimate
    from regard.smt.language_model import read_sentences

    if (text is None) == (load is None):
        raise UsageError("regard lm: give a text to count, or --load and an ARPA file")
    if output is None and perplexity is None:
        raise UsageError("regard lm: nothing to do; give --output, --perplexity or both")
    if text is not None:
        model = estimate(read_sentences(text), order, str(text))
    else:
        assert load is not None
        model = read_arpa(load)
    levels = model.trie.levels
    counts = [end - start for start, end in pairwise(levels[1:])]
    figures: dict[str, object] = {"order": model.order, "ngrams": counts}
    say(f"order {model.order}: {', '.join(f'{count:,}' for count in counts)} n-grams")
    if output is not None:
        write_arpa(model, output)
    if perplexity is not None:
        found = model.perplexity(read_sentences(perplexity))
        figures |= {
            "perplexity": found.with_unknown,
            "perplexity_known": found.without_unknown,
            "words": found.words,
            "unknown": found.unknown,
            "sentences": found.sentences,
            "log10": found.log_prob,
        }
        with open_output(None) as file:
            file.write(
                f"perplexity {found.with_unknown:.4f}; without {found.unknown} unknown words "
                f"{found.without_unknown:.4f}; {found.words} words, {found.sentences} sentences\n"
            )
    write_json(json_file, figures)
