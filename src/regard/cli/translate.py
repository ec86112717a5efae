"""`regard translate` and `regard score`: translate or score text with one model or an ensemble."""

import html
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.api import format_json
from regard.cli.api_flags import ATTENTION_FLAGS, COMPUTATION_FLAGS, ApiCall, ApiCommand, Switch
from regard.cli.command import Writes
from regard.cli.options import JsonOption, LinksOutputOption, OutputOption
from regard.cli.output import open_output, print_message, track, write_json, write_rows
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.generation.translation import Translation

_PANELS = {
    "Input": "input tokenized prefixes required_terms fertilities word_fertility",
    "Search": "beam_size length_penalty coverage_penalty coverage_epsilon num_return no_repeat_ngram_size "
    "min_length max_length_ratio max_length_offset suppress_unk replace_unk",
    **ATTENTION_FLAGS,
    "Sampling and minimum Bayes risk decoding": "sampling mbr",
    "Check and repair of omissions": "repair checker",
    "Computation": COMPUTATION_FLAGS["Computation"] + " engine overrides",
    "Output": "outputs",
}


@dataclass(frozen=True)
class TranslationFiles:
    """The output of `regard translate`.

    Attributes:
        output: Output file, compressed if its name ends in .gz, .bz2, .xz or .zst. Default: standard output.
        with_scores: Whether to write the score and a tab before each translation, which is quoted if it
            contains a quotation mark.
        links_output: Output file for the word links of each line (0-0 1-2), derived from attention. - appends
            them to the translations.
        attention_output: Output file for the attention weights, with one JSON object per line. `attention` is
            the attention before a target token is observed, and `posterior_attention` is the attention given
            the token. Both are nested by layer, time step (including the end symbol), head and source token.
        tokens_output: Output file for the tokens, with one JSON object per line.
        show_attention: Whether to print the attention map of each line to the terminal.
        svg: SVG file for the attention map of the first line. The maps of other lines are written to
            NAME-2.svg, NAME-3.svg and so on.
    """

    output: Path | None = None
    with_scores: bool = False
    links_output: Path | None = None
    attention_output: Path | None = None
    tokens_output: Path | None = None
    show_attention: bool = False
    svg: Path | None = None


@ApiCommand(
    "regard.api.translation_files:translate_files",
    ["models"],
    skip=["needs", "repair.num_candidates"],
    panels=_PANELS,
    switches={
        "sampling": Switch("sample"),
        "mbr": Switch("mbr", "mbr_", value="utility"),
        "repair": Switch("check", "check_"),
    },
    parts={"outputs": "regard.cli.translate:TranslationFiles"},
    writes=dict.fromkeys(["output", "links_output", "attention_output", "tokens_output", "svg"], Writes.FILE),
    repeated=["word_fertility"],
)
def translate(call: ApiCall) -> None:
    """Translate text, one line at a time.

    Options that are not given have the values in the configuration of the model.

    Example: regard translate runs/first --beam-size 5 --show-attention < input.txt

    Best of 64 samples: regard translate runs/first --sample --mbr chrf --mbr-candidates 64 < input.txt

    Required terms: regard translate runs/first --required-terms terms.txt < input.txt

    Repair of omissions: regard translate runs/first --check --checker checkers/de-en < input.txt
    """
    files = call.take("outputs")
    if files.svg is not None and find_spec("matplotlib") is None:
        raise UsageError("--svg needs the package matplotlib: pip install 'regard[plot]'")
    outputs = {
        "--links-output": files.links_output,
        "--attention-output": files.attention_output,
        "--show-attention": files.show_attention,
        "--svg": files.svg,
    }
    call.values["needs"] = {flag: "attention" for flag, value in outputs.items() if value}
    # In interactive use, a block would wait for more lines before it shows the first translation.
    interactive = "input" not in call.options.get("files", {}) and sys.stdin.isatty()
    if interactive:
        call.values["buffer_lines"] = 1
    results = call(on_message=print_message)
    with ExitStack() as stack:
        writer = _Writer(stack, files, is_nbest=call.values.get("num_return", 1) > 1)
        # A progress bar would be mixed with translations on the same terminal.
        quiet = interactive or (files.output is None and sys.stdout.isatty())
        for result in results if quiet else track(results, "translate", None):
            writer.write(result)


class _Writer:
    """Write the results to the output files: translations, links, attention, tokens and maps."""

    def __init__(self, stack: ExitStack, files: TranslationFiles, is_nbest: bool) -> None:
        """Open the output files, which `stack` closes."""
        self.files, self.is_nbest = files, is_nbest
        self.text = stack.enter_context(open_output(files.output))
        self.append = files.links_output == Path("-")
        links = None if self.append else files.links_output
        self.links, self.attention, self.tokens = (
            None if path is None else stack.enter_context(open_output(path))
            for path in (links, files.attention_output, files.tokens_output)
        )

    def write(self, translation: "Translation") -> None:
        """Write the results of one line."""
        self._write_text(translation)
        # A rejected line gets an empty line, so that the files stay parallel.
        if self.links is not None:
            self.links.write(_format_links(translation) + "\n")
        if self.attention is not None:
            data = {"line": translation.number, **translation.to_dict("layers")}
            self.attention.write(format_json(data) + "\n")
        if self.tokens is not None:
            data = {"line": translation.number, **translation.to_dict("none")}
            self.tokens.write(format_json(data) + "\n")
        # In interactive use, each translation must appear at once.
        if self.text.is_terminal or self.files.show_attention:
            self.text.flush()
        if translation.nbest and self.files.show_attention:
            from rich.console import Console

            from regard.api.translation_files import attention_text

            # Without markup: rich would interpret square brackets in the text.
            Console(highlight=False, markup=False).print(attention_text(translation), end="\n\n")
        if translation.nbest and self.files.svg is not None:
            path, number = self.files.svg, translation.number
            name = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
            with open_output(name) as file:
                file.write(translation.plot().svg)

    def _write_text(self, best: "Translation") -> None:
        """Write the translation, a row with its score and links, or the n-best list."""
        for translation in best.nbest if self.is_nbest else (best,):
            links = [_format_links(translation)] if self.append else []
            score = [f"{translation.score:.4f}" if best.nbest else ""]
            if self.is_nbest:
                # The n-best lists of Moses also count lines from 0.
                fields = [str(best.number - 1), _escape(translation.text), *score, *links]
                self.text.write(" ||| ".join(fields) + "\n")
            elif self.files.with_scores or links:
                write_rows(self.text, [[*(score if self.files.with_scores else []), best.text, *links]])
            else:
                self.text.write(best.text + "\n")


def _format_links(translation: "Translation") -> str:
    """Return the word links of a translation as one line, such as `0-0 1-2`."""
    return " ".join(f"{i}-{j}" for i, j in translation.alignment.tolist())


def _escape(text: str) -> str:
    """Return a text as a field of an n-best list, from which `html.unescape` restores it.

    Moses writes `&` and `|` as `&amp;` and `&#124;`. Here only a text that contains the separator of the
    fields or looks escaped is changed, so that other texts can be used as they are.
    """
    if "|||" in text or html.unescape(text) != text:
        return text.replace("&", "&amp;").replace("|", "&#124;")
    return text


@ApiCommand(
    "regard.api.translation_files:score_files",
    ["model", "source", "target"],
    panels={
        "Input": "tokenized",
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
    from regard.api.translations import ScoreTotals

    totals, sentences = ScoreTotals(), list[dict[str, Any]]()
    with ExitStack() as files:
        file = files.enter_context(open_output(output))
        linked = None if links_output is None else files.enter_context(open_output(links_output))
        for scored in call():
            if linked is not None:
                # Write a line also for a skipped pair, so that the files stay parallel.
                linked.write(_format_links(scored) + "\n")
            file.write(_format_score(scored, token_scores) + "\n")
            totals = totals.add(scored)
            # The JSON form of all pairs needs memory, so it is built only for --json.
            if json_file is not None:
                sentences.append(scored.to_data("none"))
    perplexity = f"perplexity {totals.perplexity:.4f}" if totals.num_tokens else "no perplexity"
    num_scored = totals.num_sentences - totals.num_skipped
    print_message(f"{num_scored} sentences, {totals.num_tokens} tokens, {perplexity}")
    write_json(json_file, replace(totals, sentences=tuple(sentences)))


def _format_score(scored: "Translation", by_token: bool) -> str:
    if scored.error is not None:
        return "" if by_token else "nan"
    if not by_token:
        return f"{scored.score:.4f}"
    named = zip((*scored.tokens, "</s>"), scored.token_log_probs.tolist(), strict=True)
    return " ".join(f"{name}|{value:.4f}" for name, value in named)
