"""`regard translate`: translate text with one model or an ensemble, and show or save its attention."""

import html
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.api import format_json
from regard.cli.api_flags import ATTENTION_FLAGS, COMPUTATION_FLAGS, ApiCall, Switch, from_api
from regard.cli.command import Writes
from regard.cli.options import LinksOutputOption, OutputOption
from regard.cli.output import Output, join_links, open_output, print_message, track, write_rows

if TYPE_CHECKING:
    from regard.generation.translation import Translation

__all__ = ["translate"]

_PANELS = {
    "Input": "input tokenized prefixes required_terms fertilities word_fertility",
    "Search": "beam_size length_penalty coverage_penalty coverage_epsilon num_return no_repeat_ngram_size "
    "min_length max_length_ratio max_length_offset suppress_unk replace_unk",
    **ATTENTION_FLAGS,
    "Sampling and minimum Bayes risk decoding": "sampling mbr",
    "Check and repair of omissions": "repair checker",
    "Computation": COMPUTATION_FLAGS["Computation"] + " engine overrides",
}


@from_api(
    "regard.api.translation_files:translate_files",
    ["models"],
    skip=["needs", "repair.num_candidates", "max_words", "num_translations", "min_fertility"],
    panels=_PANELS,
    switches={
        "sampling": Switch("sample"),
        "mbr": Switch("mbr", "mbr_", value="utility"),
        "repair": Switch("check", "check_"),
    },
    repeated=["word_fertility"],
)
def translate(
    call: ApiCall,
    output: OutputOption = None,
    with_scores: Annotated[
        bool,
        typer.Option(
            "--with-scores",
            help="Write the score and a tab before each translation, which is quoted if it contains a "
            "quotation mark.",
            rich_help_panel="Output",
        ),
    ] = False,
    links_output: LinksOutputOption = None,
    attention_output: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the attention weights, with one JSON object per line. `attention` is the "
            "attention before a target token is observed, and `posterior_attention` is the attention given "
            "the token. Both are nested by layer, time step (including the end symbol), head and source "
            "token.",
            rich_help_panel="Output",
        ),
        Writes.FILE,
    ] = None,
    tokens_output: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the tokens, with one JSON object per line, for `regard score "
            "--tokens-from`.",
            rich_help_panel="Output",
        ),
        Writes.FILE,
    ] = None,
    show_attention: Annotated[
        bool,
        typer.Option(
            "--show-attention",
            help="Print the attention map of each line to the terminal.",
            rich_help_panel="Output",
        ),
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option(
            help="SVG file for the attention map of the first line. The maps of other lines are written to "
            "NAME-2.svg, NAME-3.svg and so on.",
            rich_help_panel="Output",
        ),
        Writes.FILE,
    ] = None,
) -> None:
    """Translate text, one line at a time.

    Options that are not given have the values in the configuration of the model.

    Example: regard translate runs/first --beam-size 5 --show-attention < input.txt

    Best of 64 samples: regard translate runs/first --sample --mbr chrf --mbr-candidates 64 < input.txt

    Required terms: regard translate runs/first --required-terms terms.txt < input.txt

    Repair of omissions: regard translate runs/first --check --checker checkers/de-en < input.txt
    """
    outputs = {
        "--links-output": links_output,
        "--attention-output": attention_output,
        "--show-attention": show_attention,
        "--svg": svg,
    }
    call.values["needs"] = {flag: "attention" for flag, value in outputs.items() if value}
    # In interactive use, a block would wait for more lines before it shows the first translation.
    interactive = "input" not in call.values and sys.stdin.isatty()
    if interactive:
        call.values["buffer_lines"] = 1
    results = call(on_message=print_message)
    with ExitStack() as files:
        writer = _Writer(files, output, links_output, attention_output, tokens_output)
        writer.nbest, writer.scores = call.values.get("num_return", 1) > 1, with_scores
        # A progress bar would be mixed with translations on the same terminal.
        quiet = interactive or (output is None and sys.stdout.isatty())
        for result in results if quiet else track(results, "translate", None):
            writer.write(result)
            if result.nbest and show_attention:
                _show_map(result)
            if result.nbest and svg is not None:
                _write_svg(svg, result)


class _Writer:
    """Write the results to the output files: translations, links, attention and tokens.

    Attributes:
        nbest: Whether to write n-best lists.
        scores: Whether to write the scores.
    """

    nbest = scores = False

    def __init__(
        self,
        files: ExitStack,
        text: Path | None,
        links: Path | None,
        attention: Path | None,
        tokens: Path | None,
    ) -> None:
        """Open the output files, which `files` closes."""
        self.text = files.enter_context(open_output(text))
        self.append = links == Path("-")
        self.links, self.attention, self.tokens = (
            None if path is None else files.enter_context(open_output(path))
            for path in (None if self.append else links, attention, tokens)
        )

    def write(self, translation: "Translation") -> None:
        """Write the results of one line."""
        self._write_text(translation)
        # A rejected line gets an empty line, so that the files stay parallel.
        if self.links is not None:
            self.links.write(join_links(translation.alignment) + "\n")
        if self.attention is not None:
            _write_json(self.attention, {"line": translation.number, **translation.to_dict("layers")})
        if self.tokens is not None:
            _write_json(self.tokens, {"line": translation.number, **translation.to_dict("none")})
        # In interactive use, each translation must appear at once.
        if self.text.is_terminal:
            self.text.flush()

    def _write_text(self, best: "Translation") -> None:
        """Write the translation, a row with its score and links, or the n-best list."""
        for translation in best.nbest if self.nbest else ():
            # The n-best lists of Moses also count lines from 0.
            fields = [str(best.number - 1), _escape(translation.text), f"{translation.score:.4f}"]
            fields += [join_links(translation.alignment)] if self.append else []
            self.text.write(" ||| ".join(fields) + "\n")
        if self.nbest:
            return
        if not self.scores and not self.append:
            self.text.write(best.text + "\n")
            return
        fields = [f"{best.score:.4f}" if best.nbest else ""] if self.scores else []
        write_rows(self.text, [[*fields, best.text, *([join_links(best.alignment)] if self.append else [])]])


def _write_json(file: Output, content: dict[str, object]) -> None:
    file.write(format_json(content) + "\n")


def _show_map(translation: "Translation") -> None:
    from rich.console import Console

    from regard.api.translation_files import attention_text

    sys.stdout.flush()
    # Without markup: rich would interpret square brackets in the text.
    console = Console(highlight=False, markup=False)
    console.print(attention_text(translation))
    console.print()


def _write_svg(path: Path, translation: "Translation") -> None:
    from regard.api.translation_files import attention_svg

    number = translation.number
    name = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
    with open_output(name) as file:
        file.write(attention_svg(translation))


def _escape(text: str) -> str:
    """Return a text as a field of an n-best list, from which `html.unescape` restores it.

    Moses writes `&` and `|` as `&amp;` and `&#124;`. Here only a text that contains the separator of the
    fields or looks escaped is changed, so that other texts can be used as they are.
    """
    if "|||" in text or html.unescape(text) != text:
        return text.replace("&", "&amp;").replace("|", "&#124;")
    return text
