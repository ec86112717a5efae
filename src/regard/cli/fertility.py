"""`regard fertility`: count or predict the fertility of source words."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from regard.cli.command import expand_groups
from regard.cli.options import JsonOption, NumThreadsOption, OutputOption, SeedOption
from regard.cli.output import open_output, print_message, write_json
from regard.errors import DataError, UsageError

__all__ = ["fertility"]

FertilityTokenizer = Callable[[str], list[str]]
Counts = list[list[int]] | list[list[float]]


@dataclass(frozen=True)
class FertilityText:
    """The texts, and how they are linked and split."""

    panel: ClassVar[str] = "Text"

    source: Annotated[Path, typer.Argument(help="Source text.", show_default=False)]
    target: Annotated[
        Path | None,
        typer.Argument(
            help="Translations, one line per source line. Not needed with --links.", show_default=False
        ),
    ] = None
    links: Annotated[
        Path | None,
        typer.Option(
            help="File with word links of each line (0-0 1-2). By default, the texts are aligned.",
            show_default=False,
        ),
    ] = None
    model: Annotated[
        Path | None,
        typer.Option(
            help="Model directory whose tokenizers split the texts. By default, tokens are separated by "
            "whitespace.",
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True)
class FertilityOutput:
    """The fertilities that are written."""

    panel: ClassVar[str] = "Output"

    output: OutputOption = None
    per_word: Annotated[
        bool,
        typer.Option(
            "--per-word",
            help="Write one line per word instead of one per sentence: WORD, maximum, mean, count.",
        ),
    ] = False
    slack: Annotated[
        float,
        typer.Option(
            help="Value added to every fertility. 1 is the slack of Malaviya et al. (2018).", min=0, max=99
        ),
    ] = 0.0
    json_file: JsonOption = None

    def write(self, sentences: list[list[str]], counts: Counts) -> None:
        """Write the fertilities, one line per sentence or one line per word."""
        with open_output(self.output) as file:
            if self.per_word:
                for line in _summarize_words(sentences, counts, self.slack):
                    file.write(line + "\n")
            else:
                for own in counts:
                    # A fertility of 0 would forbid all attention to the word, so the minimum is 1.
                    file.write(" ".join(f"{max(count, 1) + self.slack:g}" for count in own) + "\n")


@dataclass(frozen=True)
class PredictorOptions:
    """The sequence tagger that predicts fertilities from source text."""

    panel: ClassVar[str] = "Predictor"

    save_predictor: Annotated[
        Path | None,
        typer.Option(
            help="Directory for a sequence tagger, which is trained to predict fertilities from source text. "
            "Needs --validation.",
            show_default=False,
        ),
    ] = None
    validation: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Validation text for the choice of the best epoch: source file and translations (with "
            "--links: source file and links).",
            show_default=False,
        ),
    ] = None
    predictor: Annotated[
        Path | None,
        typer.Option(
            help="Directory of a trained tagger, whose expected fertilities are written.", show_default=False
        ),
    ] = None


@dataclass(frozen=True)
class AlignmentRuntime:
    """The options of the computation."""

    panel: ClassVar[str] = "Computation"

    seed: SeedOption = 1
    num_threads: NumThreadsOption = None


@expand_groups
def fertility(
    text: FertilityText, output: FertilityOutput, tagger: PredictorOptions, runtime: AlignmentRuntime
) -> None:
    """Count the target words that are linked to each source word; a word without links gets fertility 1.

    The output has the fertilities of one sentence per line, in the format of --fertilities of `regard
    translate`. The links are those of the forward direction, which links each target word to at most one
    source word. For text without translations, a tagger trained with --save-predictor predicts the expected
    fertilities. Use --model for a model with subword tokens or with a tokenizer that separates punctuation:
    fertilities then refer to the tokens of this model.

    Example: regard fertility train.de train.en --per-word -o fertility.tsv
    """
    _check(text, output, tagger)
    split = _tokenizers(text.model)
    sentences = _sentences(text.source, split[0])
    if tagger.predictor is not None:
        predicted = _predict(sentences, tagger.predictor, runtime.num_threads)
        output.write(sentences, predicted)
        total, amount = sum(map(len, predicted)), sum(map(sum, predicted))
        results = {"sentences": len(predicted), "words": total, "mean": amount / max(1, total)}
        write_json(output.json_file, results)
        return
    other = text.target if text.links is None else text.links
    # `_check` has ensured that one of the two is given.
    assert other is not None
    texts = [(sentences, text.source, other)]
    if tagger.validation is not None:
        texts.append((_sentences(tagger.validation[0], split[0]), *tagger.validation))
    if text.links is not None:
        counted = [_count_links(*one) for one in texts]
    else:
        counted = _count_aligned([one[1:] for one in texts], split, runtime)
    if tagger.save_predictor is not None:
        trained = _train(tagger.save_predictor, [one[0] for one in texts], counted, runtime)
        write_json(output.json_file, trained)
        return
    output.write(sentences, counted[0])
    write_json(output.json_file, _describe(counted[0]))


def _check(text: FertilityText, output: FertilityOutput, tagger: PredictorOptions) -> None:
    """Check that the options can be combined.

    Raises:
        UsageError: If they cannot.
    """
    if text.model is not None and text.links is not None:
        raise UsageError("--links refers to words separated by whitespace, so it cannot be used with --model")
    if tagger.predictor is not None:
        if not (text.target is text.links is tagger.save_predictor is tagger.validation is None):
            raise UsageError(
                "--predictor needs only source text: it cannot be used with translations, --links, "
                "--save-predictor or --validation"
            )
    elif (text.target is None) == (text.links is None):
        raise UsageError("give either the translations or --links with the word links of each line")
    if (tagger.save_predictor is None) != (tagger.validation is None):
        raise UsageError("--save-predictor and --validation need each other: give both or neither")
    if tagger.save_predictor is not None and (output.per_word or output.slack or output.output is not None):
        raise UsageError(
            "--save-predictor writes no fertilities, so it cannot be used with --per-word, --slack or "
            "--output"
        )


def _describe(counts: list[list[int]]) -> dict[str, Any]:
    """Print the share of each fertility, and return the frequencies."""
    found = Counter(count for own in counts for count in own)
    total = sum(found.values())
    shares = (f"{count}: {100 * found[count] / total:.1f} %" for count in sorted(found))
    print_message("fertilities " + ", ".join(shares))
    return {
        "sentences": len(counts),
        "words": total,
        # The denominator avoids a division by zero for a text without words.
        "mean": sum(count * number for count, number in found.items()) / max(1, total),
        "fertilities": {str(count): found[count] for count in sorted(found)},
    }


def _predict(sentences: list[list[str]], directory: Path, num_threads: int | None) -> list[list[float]]:
    """Return the fertility that a tagger predicts for each source word."""
    from regard.training.device import set_num_threads
    from regard.training.fertility_predictor import FertilityPredictor

    set_num_threads(num_threads)
    return FertilityPredictor.load(directory).expected_fertilities(sentences)


def _train(
    directory: Path,
    sentences: list[list[list[str]]],
    counted: list[list[list[int]]],
    runtime: AlignmentRuntime,
) -> dict[str, Any]:
    """Train a tagger on the first text and return its validation scores on the second."""
    from regard.training.device import set_num_threads
    from regard.training.fertility_predictor import FertilityPredictor, TaggedSentences, train_predictor

    set_num_threads(runtime.num_threads)
    train, valid = (TaggedSentences(*text) for text in zip(sentences, counted, strict=True))
    result = train_predictor(directory, train, valid, seed=runtime.seed)
    if result.signal is not None:
        print_message("The state is saved. Run the same command again to resume.")
        raise typer.Exit(128 + result.signal)
    score = FertilityPredictor.load(directory).score(valid)
    shares = f"accuracy {100 * score.accuracy:.2f} %, F1 on fertilities other than 1 {100 * score.f1:.2f} %"
    print_message(f"validation {shares}. The predictor is in {directory}.")
    return {"words": score.num_words, "loss": score.loss, "accuracy": score.accuracy, "f1": score.f1}


def _tokenizers(model: Path | None) -> tuple[FertilityTokenizer, FertilityTokenizer]:
    """Return the tokenizers of source and target lines."""
    if model is None:
        return str.split, str.split
    from regard.data.text import TextProcessor

    text = TextProcessor.load(model)
    return text.source.tokenize, text.target.tokenize


def _sentences(path: Path, split: FertilityTokenizer) -> list[list[str]]:
    """Return the tokens of each line of a file."""
    from regard.data.corpus import read_lines

    return [split(line) for line in read_lines(path)]


def _count_aligned(
    texts: list[tuple[Path, Path]],
    split: tuple[FertilityTokenizer, FertilityTokenizer],
    runtime: AlignmentRuntime,
) -> list[list[list[int]]]:
    """Return the number of links of each source word, by an aligner that is trained on the first text."""
    from regard.alignment import Corpus, TrainingSetup
    from regard.alignment.fertility import align_fertilities
    from regard.data.corpus import CorpusConfig, read_pairs

    corpora: list[Corpus] = []
    for source, target in texts:
        names = str(source), str(target)
        lines = read_pairs(CorpusConfig(source=names[0], target=names[1]))
        pairs = ((split[0](left), split[1](right)) for left, right in lines)
        # Further texts use the vocabulary of the first one, on which the aligner is trained.
        words = (corpora[0].source.words, corpora[0].target.words) if corpora else None
        corpora.append(Corpus.from_tokens(pairs, words, names))
    found: list[list[list[int]]] = []
    counted = align_fertilities(
        corpora, TrainingSetup(num_threads=runtime.num_threads or 0, seed=runtime.seed)
    )
    for corpus, counts in zip(corpora, counted, strict=True):
        # The counts of all sentences are in one array, which the offsets divide.
        offsets = corpus.source.offsets.tolist()
        found.append([counts[i:j].tolist() for i, j in itertools.pairwise(offsets)])
    return found


def _count_links(sentences: list[list[str]], source: Path, links: Path) -> list[list[int]]:
    """Return the number of links of each source word, from a file with links."""
    from regard.data.corpus import read_lines
    from regard.data.links import parse_links

    given = list(read_lines(links))
    if len(given) != len(sentences):
        raise DataError(
            f"{links} has {len(given)} lines but {source} has {len(sentences)}: links need one line per "
            "source line"
        )
    counts = [[0] * len(words) for words in sentences]
    for number, (own, line) in enumerate(zip(counts, given, strict=True), 1):
        for word, _ in parse_links(line, f"{links}, line {number}"):
            if word >= len(own):
                raise DataError(
                    f"{links}, line {number}: a link points to source word {word}, but the sentence has only "
                    f"{len(own)} words, counted from 0"
                )
            own[word] += 1
    return counts


def _summarize_words(sentences: list[list[str]], counts: Counts, slack: float) -> Iterator[str]:
    """Yield lines with word, maximum fertility, mean fertility and count, by descending count."""
    found: dict[str, list[float]] = {}
    for words, own in zip(sentences, counts, strict=True):
        for word, count in zip(words, own, strict=True):
            found.setdefault(word, []).append(count)
    # Equally frequent words are sorted, so their order does not depend on that of the text.
    for word, own in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        # A maximum of 0 would forbid all attention to the word, as in the output by sentence.
        yield f"{word}\t{max(1, *own) + slack:g}\t{sum(own) / len(own):.3f}\t{len(own)}"
