"""`regard lm`: estimate n-gram language models, stored as ARPA files, and compute perplexities."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.api_flags import ApiCall, ApiCommand
from regard.cli.command import Writes
from regard.cli.options import JsonOption
from regard.cli.output import open_output, print_message, write_json
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.extensions.smt.language_model import LanguageModelSummary


def language_model(
    text: Path, *, order: int = 5, output: Path | None = None, perplexity: Path | None = None
) -> "LanguageModelSummary":
    """Estimate a language model, write it, and compute the perplexity of another text.

    Args:
        text: Training text, plain or compressed: one sentence per line, words separated by whitespace.
        order: Order of the n-gram model, from 1 to 9.
        output: Output file in ARPA format.
        perplexity: Text for which the perplexity is computed.

    Raises:
        UsageError: if there is nothing to do, or the order is out of range.
        DataError: if a file cannot be read or written.
    """
    from regard.extensions.smt.kneser_ney import estimate_language_model
    from regard.extensions.smt.language_model import LanguageModelSummary
    from regard.text.corpus import read_lines
    from regard.text.words import split_whitespace

    if output is None and perplexity is None:
        raise UsageError("there is nothing to do. Give --output, --perplexity or both.")
    if not 1 <= order <= 9:
        raise UsageError(f"--order {order}: expected a number from 1 to 9")
    # The name of the file is used in error messages.
    model = estimate_language_model(map(split_whitespace, read_lines(text)), order, str(text))
    if output is not None:
        model.write_arpa(output)
    stats = None if perplexity is None else model.perplexity(map(split_whitespace, read_lines(perplexity)))
    return LanguageModelSummary(
        order, tuple(end - start for start, end in pairwise(model.trie.levels[1:])), stats
    )


@ApiCommand("regard.extensions.smt.command:language_model", ["text"], writes={"output": Writes.FILE})
def lm(call: ApiCall, json_file: JsonOption = None) -> None:
    """Estimate an n-gram model with interpolated modified Kneser-Ney smoothing (Chen & Goodman 1998).

    Example: regard lm train.en --order 5 -o train.arpa.gz --perplexity valid.en
    """
    result: LanguageModelSummary = call()
    print_message(f"order {result.order}: {', '.join(f'{count:,}' for count in result.ngrams)} n-grams")
    if (stats := result.perplexity) is not None:
        with open_output(None) as file:
            file.write(
                f"perplexity {stats.with_unknown:.4f}; without {stats.num_unknown} unknown words "
                f"{stats.without_unknown:.4f}; {stats.num_words} words, {stats.num_sentences} sentences\n"
            )
    write_json(json_file, result)
