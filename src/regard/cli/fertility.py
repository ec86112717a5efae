"""`regard fertility`: how many target words each source word is linked to."""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import DataError, UsageError

__all__ = ["fertility"]


def fertility(
    source: Annotated[Path, typer.Argument(help="The source text.", show_default=False)],
    target: Annotated[
        Path | None,
        typer.Argument(help="Its translations, line by line; not needed beside --links.", show_default=False),
    ] = None,
    links: Annotated[
        Path | None,
        typer.Option(
            help="Word links of each line (0-0 1-2); else the texts are aligned.", show_default=False
        ),
    ] = None,
    words: Annotated[
        bool,
        typer.Option("--words", help="One line a word, instead of a sentence: WORD, largest, mean, count."),
    ] = False,
    add: Annotated[
        float, typer.Option(help="Added to every fertility; 1 is the slack of Malaviya et al. (2018).")
    ] = 0.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The fertilities; else standard output.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is drawn at random.", min=0)] = 1,
    threads: Annotated[int, typer.Option(help="Threads; 0: as many as there are processors.", min=0)] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures to this file.", show_default=False)
    ] = None,
) -> None:
    """Count how many target words each source word is linked to, 1 for a word that is linked to none.

    Writes the fertilities of each sentence, as `regard translate --fertility` reads them. The links are those
    of the forward direction, at most one source word a target word.

    Example: regard fertility train.de train.en --words -o fertility.tsv
    """
    from regard.cli.output import open_output, write_json
    from regard.data.corpus import read_lines

    if (target is None) == (links is None):
        raise UsageError("give the translations, or --links with the word links of each line")
    sentences = [line.split() for line in read_lines(source)]
    if target is not None:
        counts = _aligned(source, target, threads, seed)
    else:
        assert links is not None
        counts = _linked(sentences, source, links)
    with open_output(output) as file:
        if words:
            for line in _by_word(sentences, counts, add):
                file.write(line + "\n")
        else:
            for own in counts:
                file.write(" ".join(f"{max(count, 1) + add:g}" for count in own) + "\n")
    found = Counter(count for own in counts for count in own)
    total = sum(found.values())
    figures: dict[str, Any] = {
        "sentences": len(counts),
        "words": total,
        "mean": sum(count * number for count, number in found.items()) / max(1, total),
        "fertilities": {str(count): found[count] for count in sorted(found)},
    }
    shares = (f"{count}: {100 * found[count] / total:.1f} %" for count in sorted(found))
    typer.echo("fertilities " + ", ".join(shares), err=True)
    write_json(json_file, figures)


def _aligned(source: Path, target: Path, threads: int, seed: int) -> list[list[int]]:
    """How often each source word is linked, from the aligner."""
    from regard.alignment import Corpus, Setting
    from regard.alignment.fertility import align_forward, count_fertilities

    corpus = Corpus.read(source, target)
    counts = count_fertilities(corpus, align_forward(corpus, Setting(threads=threads, seed=seed)))
    edges = corpus.source.offsets
    return [counts[first:last].tolist() for first, last in itertools.pairwise(edges.tolist())]


def _linked(sentences: list[list[str]], source: Path, links: Path) -> list[list[int]]:
    """How often each source word is linked, from a file of links."""
    from regard.data.corpus import read_lines
    from regard.data.links import parse_links

    given = list(read_lines(links))
    if len(given) != len(sentences):
        raise DataError(f"{links}: {len(given)} lines, and {source} has {len(sentences)}")
    counts = [[0] * len(words) for words in sentences]
    for number, (own, line) in enumerate(zip(counts, given, strict=True), 1):
        for word, _ in parse_links(line, f"{links}, line {number}"):
            if word >= len(own):
                raise DataError(f"{links}, line {number}: a link of word {word}; the sentence has {len(own)}")
            own[word] += 1
    return counts


def _by_word(sentences: list[list[str]], counts: list[list[int]], add: float) -> Iterator[str]:
    """WORD, largest fertility, mean, number: the most frequent words first."""
    found: dict[str, list[int]] = {}
    for words, own in zip(sentences, counts, strict=True):
        for word, count in zip(words, own, strict=True):
            found.setdefault(word, []).append(count)
    for word, own in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"{word}\t{max(1, *own) + add:g}\t{sum(own) / len(own):.3f}\t{len(own)}"
