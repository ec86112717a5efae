"""Writer for the output files of `regard translate`: translations, links, tokens and attention."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.api.translation import AttentionDetail
    from regard.cli.output import Output
    from regard.data.text import TextProcessor
    from regard.generation.lines import LineResult, TextHypothesis

__all__ = ["TranslationWriter"]


class TranslationWriter:
    """Write results to the output files that were chosen by options."""

    def __init__(
        self,
        files: ExitStack,
        output: Path | None,
        nbest: bool,
        scores: bool,
        alignment: str | None,
        attention: Path | None,
        tokens: Path | None,
        show: bool,
        svg: Path | None,
        processor: "TextProcessor",
    ) -> None:
        """Open the output files.

        Args:
            files: Stack that closes the files.
            output: File for the translations. None means standard output.
            nbest: Whether to write n-best lists.
            scores: Whether to write a score before each translation.
            alignment: File for word links. "-" appends the links to the translations.
            attention: File for attention weights.
            tokens: File for tokens.
            show: Whether to print attention maps to the terminal.
            svg: File for the attention map of the first line.
            processor: Text processing of the translator.
        """
        from regard.cli.output import open_output

        def opened(path: Path | None) -> "Output | None":
            return None if path is None else files.enter_context(open_output(path))

        self.text = files.enter_context(open_output(output))
        self.links = opened(Path(alignment)) if alignment not in (None, "-") else None
        self.attention, self.tokens = opened(attention), opened(tokens)
        self.nbest, self.scores, self.append = nbest, scores, alignment == "-"
        self.show, self.svg, self.processor = show, svg, processor

    def write(self, result: "LineResult") -> None:
        """Write the results of one line."""
        from regard.data.links import format_links

        for text in self._texts(result):
            self.text.write(text + "\n")
        best = result.translations[0] if result.translations else None
        if self.links is not None:
            self.links.write((format_links(best.links) if best else "") + "\n")
        if self.attention is not None or self.tokens is not None:
            self._write_json(result)
        if best is not None:
            if self.show:
                self._show_map(result, best)
            if self.svg is not None:
                self._write_svg(self.svg, result, best)
        # In interactive use, each translation must appear at once.
        if self.text.is_terminal or self.show:
            self.text.flush()

    def _write_json(self, result: "LineResult") -> None:
        """Write the line number and the fields of `Translation.to_dict`."""
        from regard.api.translations import searched_translation

        translation = searched_translation(self.processor, result)
        outputs: "list[tuple[Output | None, AttentionDetail]]" = [
            (self.attention, "layers"),
            (self.tokens, "none"),
        ]
        for output, detail in outputs:
            if output is not None:
                content = {"line": result.line.number, **translation.to_dict(detail)}
                output.write(json.dumps(content, ensure_ascii=False) + "\n")

    def _texts(self, result: "LineResult") -> Iterator[str]:
        from regard.data.links import format_links

        if self.nbest:
            for translation in result.translations:
                fields = [str(result.line.number - 1), translation.text, f"{translation.score:.4f}"]
                fields += [format_links(translation.links)] if self.append else []
                yield " ||| ".join(fields)
            return
        best = result.translations[0] if result.translations else None
        fields = [f"{best.score:.4f}" if best else ""] if self.scores else []
        fields.append(result.text)
        fields += [format_links(best.links) if best else ""] if self.append else []
        yield "\t".join(fields)

    def _show_map(self, result: "LineResult", best: "TextHypothesis") -> None:
        from rich.console import Console

        from regard.plotting.terminal import terminal_map

        self.text.flush()
        # Without markup: rich would interpret square brackets in the text.
        console = Console(highlight=False, markup=False)
        console.print(terminal_map(best.weights, result.source_tokens, best.tokens))
        console.print()

    def _write_svg(self, path: Path, result: "LineResult", best: "TextHypothesis") -> None:
        from regard.cli.output import open_output
        from regard.plotting.heatmap import attention_heatmap, heatmap_svg

        number = result.line.number
        name = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        with open_output(name) as file:
            file.write(heatmap_svg(attention_heatmap(best.weights, result.source_tokens, best.tokens)))
