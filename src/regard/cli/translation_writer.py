"""The output files of `regard translate`: translations, links, tokens and attention."""

import html
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from regard.cli.command import Writes
from regard.cli.options import LinksOutputOption, OutputOption
from regard.cli.output import Output, open_output, print_message, write_rows
from regard.text.files import format_json

if TYPE_CHECKING:
    from regard.generation.coverage import LineRepair
    from regard.generation.translation import AttentionDetail, Translation

__all__ = [
    "TranslationOutput",
    "TranslationWriter",
    "report_missing_words",
    "report_repairs",
    "report_unknown_tokens",
]


@dataclass(frozen=True)
class TranslationOutput:
    """The output files, and the maps that are shown."""

    panel: ClassVar[str] = "Output"

    output: OutputOption = None
    with_scores: Annotated[
        bool,
        typer.Option(
            "--with-scores",
            help="Write the score and a tab before each translation, which is quoted if it contains a "
            "quotation mark.",
        ),
    ] = False
    links_output: LinksOutputOption = None
    attention_output: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the attention weights, with one JSON object per line. `attention` is the "
            "attention before a target token is observed, and `posterior_attention` is the attention given "
            "the token. Both are nested by layer, time step (including the end symbol), head and source "
            "token."
        ),
        Writes.FILE,
    ] = None
    tokens_output: Annotated[
        Path | None,
        typer.Option(
            help="Output file for the tokens, with one JSON object per line, for "
            "`regard score --tokens-from`."
        ),
        Writes.FILE,
    ] = None
    show_attention: Annotated[
        bool, typer.Option("--show-attention", help="Print the attention map of each line to the terminal.")
    ] = False
    svg: Annotated[
        Path | None,
        typer.Option(
            help="SVG file for the attention map of the first line. The maps of other lines are written to "
            "NAME-2.svg, NAME-3.svg and so on."
        ),
        Writes.FILE,
    ] = None


class TranslationWriter:
    """Write results to the output files."""

    def __init__(self, files: ExitStack, options: TranslationOutput, nbest: bool) -> None:
        """Open the output files.

        Args:
            files: Stack that closes the files.
            options: The output files.
            nbest: Whether to write n-best lists.
        """

        def opened(path: Path | str | None) -> Output | None:
            return None if path is None else files.enter_context(open_output(Path(path)))

        self.text = files.enter_context(open_output(options.output))
        self.append = options.links_output == Path("-")
        self.links = None if self.append else opened(options.links_output)
        self.attention, self.tokens = opened(options.attention_output), opened(options.tokens_output)
        self.nbest, self.scores = nbest, options.with_scores
        self.show, self.svg = options.show_attention, options.svg

    def write(self, translation: "Translation") -> None:
        """Write the results of one line."""
        from regard.text.links import format_links

        self._write_text(translation)
        # A rejected line gets an empty line, so that the files stay parallel.
        if self.links is not None:
            self.links.write(format_links(translation.links) + "\n")
        outputs: "list[tuple[Output | None, AttentionDetail]]" = [
            (self.attention, "layers"),
            (self.tokens, "none"),
        ]
        for output, detail in outputs:
            if output is not None:
                content = {"line": translation.number, **translation.to_dict(detail)}
                output.write(format_json(content) + "\n")
        if translation.nbest:
            if self.show:
                self._show_map(translation)
            if self.svg is not None:
                self._write_svg(self.svg, translation)
        # In interactive use, each translation must appear at once.
        if self.text.is_terminal or self.show:
            self.text.flush()

    def _write_text(self, best: "Translation") -> None:
        """Write the translation, a row with its score and links, or the n-best list."""
        from regard.text.links import format_links

        if self.nbest:
            for translation in best.nbest:
                # The n-best lists of Moses also count lines from 0.
                fields = [str(best.number - 1), _escape(translation.text), f"{translation.score:.4f}"]
                fields += [format_links(translation.links)] if self.append else []
                self.text.write(" ||| ".join(fields) + "\n")
            return
        fields = [f"{best.score:.4f}" if best.nbest else ""] if self.scores else []
        fields.append(best.text)
        fields += [format_links(best.links)] if self.append else []
        if len(fields) == 1:
            self.text.write(best.text + "\n")
        else:
            write_rows(self.text, [fields])

    def _show_map(self, best: "Translation") -> None:
        from rich.console import Console

        from regard.plot.terminal import terminal_map

        self.text.flush()
        # Without markup: rich would interpret square brackets in the text.
        console = Console(highlight=False, markup=False)
        console.print(terminal_map(best.attention_map, best.source_tokens, best.tokens))
        console.print()

    def _write_svg(self, path: Path, best: "Translation") -> None:
        from regard.plot.heatmap import attention_heatmap

        name = path if best.number == 1 else path.with_name(f"{path.stem}-{best.number}{path.suffix}")
        with open_output(name) as file:
            heat = attention_heatmap(best.attention_map, best.source_tokens, best.tokens)
            file.write(heat.figure().svg)


def _escape(text: str) -> str:
    """Return a text as a field of an n-best list, from which `html.unescape` restores it.

    Moses writes `&` and `|` as `&amp;` and `&#124;`. Here only a text that contains the separator of the
    fields or looks escaped is changed, so that other texts can be used as they are.
    """
    if "|||" in text or html.unescape(text) != text:
        return text.replace("&", "&amp;").replace("|", "&#124;")
    return text


def report_repairs(results: "Iterator[Translation]", threshold: float) -> "Iterator[Translation]":
    """Yield the results with a message for each changed translation, and the totals at the end."""
    from regard.generation.repair import RepairSummary

    summary = RepairSummary(threshold)
    for result in results:
        summary.add(result.repair)
        if result.repair is not None and result.repair.changed:
            print_message(_describe(result.number, result.repair, result.text, threshold))
        yield result
    print_message(str(summary))


def _describe(line: int, record: "LineRepair", text: str, threshold: float) -> str:
    """Return a message about a changed translation: the omitted words, both texts and their probabilities."""
    pairs = zip(record.before.source_words, record.before.omitted, strict=True)
    words = ", ".join(f"{word} ({share:.2f})" for word, share in pairs if share >= threshold)
    return (
        f"line {line} is repaired ({record.strategy}): {words} probably omitted; probability of an omission "
        f"{record.before.omission:.2f} before, {record.after.omission:.2f} after\n"
        f"  - {record.text_before}\n  + {text}"
    )


def report_missing_words(results: "Iterator[Translation]", words: Iterable[str]) -> "Iterator[Translation]":
    """Yield the results, then report the words of `--word-fertility` that did not occur in the text."""
    left = set(words)
    for result in results:
        if left:
            left.difference_update(result.source_words)
        yield result
    for word in words:
        if word in left:
            print_message(f"--word-fertility {word}: this word does not occur in the text")


def report_unknown_tokens(results: "Iterator[Translation]") -> "Iterator[Translation]":
    """Yield the results, then report the share of unknown tokens in the best translations."""
    from regard.text.vocabulary import SPECIAL_TOKENS, UNK

    tokens = unknown = 0
    for result in results:
        tokens += len(result.tokens)
        unknown += result.tokens.count(SPECIAL_TOKENS[UNK])
        yield result
    if unknown:
        print_message(
            f"{unknown:,} of {tokens:,} generated tokens are unknown ({100 * unknown / tokens:.2f} %)"
        )
