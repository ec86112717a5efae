"""`regard fertility`: count or predict the fertility of source words."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from regard.cli.command import Writes, expand_groups, setting
from regard.cli.options import JsonOption, NumThreadsOption, OutputOption, SeedOption
from regard.cli.output import open_output, print_message, write_json, write_rows
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.api.fertility import PredictorTraining, SourceFertilities

__all__ = ["fertility"]


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
        setting(
            "regard.data.fertility.PredictedFertilityConfig:slack",
            note="1 is that of Malaviya et al. (2018).",
            min=0,
            max=99,
        ),
    ] = 0.0
    json_file: JsonOption = None

    def write(self, found: "SourceFertilities") -> None:
        """Write the fertilities, one line per sentence or one line per word."""
        with open_output(self.output) as file:
            if self.per_word:
                cells = (
                    (row["word"], f"{row['maximum'] + self.slack:g}", f"{row['mean']:.3f}", row["count"])
                    for row in found.rows()
                )
                write_rows(file, cells)
            else:
                file.write("".join(f"{line}\n" for line in found.lines(self.slack)))


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
        Writes.DIRECTORY,
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
    from regard.api.fertility import fertilities, train_fertility_predictor

    if tagger.save_predictor is not None or tagger.predictor is not None:
        from regard.training.device import set_num_threads

        set_num_threads(runtime.num_threads)
    other = text.target if text.links is None else text.links
    if tagger.save_predictor is not None:
        # `_check` has ensured that both texts are given.
        assert other is not None and tagger.validation is not None
        trained = train_fertility_predictor(
            tagger.save_predictor,
            (text.source, other),
            tagger.validation,
            links=text.links is not None,
            model=text.model,
            seed=runtime.seed,
            num_threads=runtime.num_threads,
        )
        _report(trained, tagger.save_predictor)
        write_json(output.json_file, trained.to_dict())
        return
    aligner: dict[str, Any] = {"seed": runtime.seed, "num_threads": runtime.num_threads or 0}
    result = fertilities(
        text.source,
        text.target,
        links=text.links,
        predictor=tagger.predictor,
        model=text.model,
        **({} if text.target is None else aligner),
    )
    output.write(result)
    if (counts := result.frequencies) is not None:
        shares = (f"{value}: {100 * count / result.num_words:.1f} %" for value, count in counts.items())
        print_message("fertilities " + ", ".join(shares))
    write_json(output.json_file, result.to_dict())


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


def _report(trained: "PredictorTraining", directory: Path) -> None:
    """Print the scores of a predictor, or exit if its training was interrupted."""
    if trained.score is None:
        print_message("The state is saved. Run the same command again to resume.")
        raise typer.Exit(128 + (trained.training.signal or 0))
    print_message(
        f"validation accuracy {100 * trained.score.accuracy:.2f} %, F1 on fertilities other than 1 "
        f"{100 * trained.score.f1:.2f} %. The predictor is in {directory}."
    )
