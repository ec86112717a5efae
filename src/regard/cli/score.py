"""`regard score`: log-probabilities of given translations, by forced decoding."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.api_flags import ATTENTION_FLAGS, COMPUTATION_FLAGS, ApiCall, from_api
from regard.cli.options import JsonOption, LinksOutputOption, OutputOption
from regard.cli.output import join_links, open_output, print_message, write_json

if TYPE_CHECKING:
    from regard.generation.translation import Translation

__all__ = ["score"]


@from_api(
    "regard.api.translation_files:score_files",
    ["model", "source", "target"],
    panels={
        "Input": "ensemble_with tokenized tokens_from",
        "Penalties": "length_penalty coverage_penalty coverage_epsilon",
        **ATTENTION_FLAGS,
        "Computation": COMPUTATION_FLAGS["Computation"] + " overrides",
    },
)
def score(
    call: ApiCall,
    output: OutputOption = None,
    token_scores: Annotated[
        bool,
        typer.Option(
            "--token-scores",
            help="Write the log-probability of each token, as TOKEN|VALUE.",
            rich_help_panel="Output",
        ),
    ] = False,
    links_output: LinksOutputOption = None,
    json_file: JsonOption = None,
) -> None:
    """Score given translations by forced decoding.

    The output has one log-probability per line, in nats and including the end symbol. A line that is too long
    or has an empty source scores `nan` and does not count for the perplexity. Word links are derived in the
    same way as by `regard translate`; `regard evaluate --gold-links` scores them.

    Example: regard score runs/first input.txt translation.txt --json scores.json
    """
    from regard.api.evaluation_result import ScoreTotals
    from regard.api.translations import ScoredText

    totals, sentences = ScoreTotals(), list[dict[str, Any]]()
    with ExitStack() as files:
        file = files.enter_context(open_output(output))
        linked = None if links_output is None else files.enter_context(open_output(links_output))
        for scored in call():
            if linked is not None:
                # Write a line also for a skipped pair, so that the files stay parallel.
                linked.write(join_links(scored.alignment) + "\n")
            file.write(_format_score(scored, token_scores) + "\n")
            # None marks a skipped pair, which does not count for the perplexity.
            log_probs = None if scored.error is not None else scored.token_log_probs.tolist()
            totals = totals.add(log_probs, scored.retokenized)
            # The JSON form of all pairs needs memory, so it is built only for --json.
            if json_file is not None:
                sentences.append(scored.to_data("none"))
    perplexity = f"perplexity {totals.perplexity:.4f}" if totals.num_tokens else "no perplexity"
    num_scored = totals.num_sentences - totals.num_skipped
    print_message(f"{num_scored} sentences, {totals.num_tokens} tokens, {perplexity}")
    if totals.num_retokenized:
        print_message(
            f"{totals.num_retokenized} lines were tokenized differently when they were generated: their "
            "scores would differ without --tokens-from"
        )
    write_json(json_file, ScoredText(totals, sentences))


def _format_score(scored: "Translation", by_token: bool) -> str:
    if scored.error is not None:
        return "" if by_token else "nan"
    if not by_token:
        return f"{scored.score:.4f}"
    named = zip((*scored.tokens, "</s>"), scored.token_log_probs.tolist(), strict=True)
    return " ".join(f"{name}|{value:.4f}" for name, value in named)
