"""`regard lm`: estimate n-gram language models, stored as ARPA files, and compute perplexities."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.api_flags import ApiCall, from_api
from regard.cli.command import Writes
from regard.cli.options import JsonOption
from regard.cli.output import open_output, print_message, write_json
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.extensions.smt.language_model import LanguageModelSummary

__all__ = ["language_model", "lm"]


def language_model(
    text: Path | None = None,
    *,
    order: int = 5,
    output: Path | None = None,
    model: Path | None = None,
    perplexity: Path | None = None,
) -> "LanguageModelSummary":
    """Estimate a language model or read one, write it, and compute the perplexity of a text.

    Args:
        text: Training text, plain or compressed: one sentence per line, words separated by whitespace.
        order: Order of the n-gram model, from 1 to 9.
        output: Output file in ARPA format.
        model: ARPA file with a language model, which is used instead of a new one.
        perplexity: Text for which the perplexity is computed.

    Raises:
        UsageError: if arguments are missing or contradict each other.
        DataError: if a file cannot be read or written.
    """
    from regard.extensions.smt.arpa import read_arpa, write_arpa
    from regard.extensions.smt.kneser_ney import estimate_language_model
    from regard.extensions.smt.language_model import read_sentences

    if (text is None) == (model is None):
        raise UsageError("give either a training text or --model with an ARPA file")
    if output is None and perplexity is None:
        raise UsageError("there is nothing to do. Give --output, --perplexity or both.")
    if not 1 <= order <= 9:
        raise UsageError(f"--order {order}: expected a number from 1 to 9")
    if model is not None:
        estimated = read_arpa(model)
    else:
        assert text is not None
        # The name of the file is used in error messages.
        estimated = estimate_language_model(read_sentences(text), order, str(text))
    if output is not None:
        write_arpa(estimated, output)
    return estimated.summary(None if perplexity is None else read_sentences(perplexity))


@from_api("regard.extensions.smt.command:language_model", ["text"], writes={"output": Writes.FILE})
def lm(call: ApiCall, json_file: JsonOption = None) -> None:
    """Estimate an n-gram model with interpolated modified Kneser-Ney smoothing (Chen & Goodman 1998).

    Example: regard lm train.en --order 5 -o train.arpa.gz --perplexity valid.en

    Example: regard lm --model train.arpa.gz --perplexity valid.en
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
