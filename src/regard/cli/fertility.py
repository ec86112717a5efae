"""`regard fertility`: count or predict the fertility of source words."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.api_flags import ApiCall, from_api
from regard.cli.command import Writes
from regard.cli.options import JsonOption, NumThreadsOption, OutputOption, SeedOption
from regard.cli.output import open_output, print_message, write_json, write_rows
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.api.fertility import PredictorTraining

__all__ = ["fertility"]


@from_api("regard.api.fertility:fertilities", arguments=["sources", "targets"], skip=["kind"])
def fertility(
    call: ApiCall,
    output: OutputOption = None,
    per_word: Annotated[
        bool,
        typer.Option(
            "--per-word",
            help="Write one line per word instead of one per sentence: WORD, maximum, mean, count.",
        ),
    ] = False,
    slack: Annotated[
        float,
        typer.Option(
            help="Value that is added to each fertility. 1 is that of Malaviya et al. (2018).", min=0, max=99
        ),
    ] = 0.0,
    save_predictor: Annotated[
        Path | None,
        typer.Option(
            help="Directory for a sequence tagger, which is trained to predict fertilities from source text. "
            "Needs --validation.",
            show_default=False,
        ),
        Writes.DIRECTORY,
    ] = None,
    validation: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Validation text for the choice of the best epoch: source file and translations (with "
            "--links: source file and links).",
            show_default=False,
        ),
    ] = None,
    seed: SeedOption = 1,
    num_threads: NumThreadsOption = None,
    json_file: JsonOption = None,
) -> None:
    """Count the target words that are linked to each source word; a word without links gets fertility 1.

    The output has the fertilities of one sentence per line, in the format of --fertilities of `regard
    translate`. The links are those of the forward direction, which links each target word to at most one
    source word. For text without translations, a tagger trained with --save-predictor predicts the expected
    fertilities. Use --model for a model with subword tokens or with a tokenizer that separates punctuation:
    fertilities then refer to the tokens of this model.

    Example: regard fertility train.de train.en --per-word -o fertility.tsv
    """
    if (save_predictor is None) != (validation is None):
        raise UsageError("--save-predictor and --validation need each other: give both or neither")
    if save_predictor is not None:
        assert validation is not None
        if per_word or slack or output is not None or "predictor" in call.values:
            raise UsageError(
                "--save-predictor writes no fertilities, so it cannot be used with --per-word, --slack, "
                "--output or --predictor"
            )
        from regard.api.fertility import train_fertility_predictor

        values = call.values
        # The second part of both texts is their translations, or the word links.
        others = values.get("targets", values.get("links"))
        trained = train_fertility_predictor(
            save_predictor,
            (values["sources"], others),
            validation,
            links="links" in values,
            model=values.get("model"),
            seed=seed,
            num_threads=num_threads,
        )
        _report(trained, save_predictor)
        write_json(json_file, trained)
        return
    aligner = {"seed": seed, "num_threads": num_threads or 0} if "targets" in call.values else {}
    result = call(**aligner)
    with open_output(output) as file:
        if per_word:
            cells = (
                (row["word"], f"{row['maximum'] + slack:g}", f"{row['mean']:.3f}", row["count"])
                for row in result.rows()
            )
            write_rows(file, cells)
        else:
            file.write("".join(f"{line}\n" for line in result.lines(slack)))
    if (counts := result.frequencies) is not None:
        shares = (f"{value}: {100 * count / result.num_words:.1f} %" for value, count in counts.items())
        print_message("fertilities " + ", ".join(shares))
    write_json(json_file, result)


def _report(trained: "PredictorTraining", directory: Path) -> None:
    """Print the scores of a predictor, or exit if its training was interrupted."""
    if trained.score is None:
        print_message("The state is saved. Run the same command again to resume.")
        raise typer.Exit(128 + (trained.training.signal or 0))
    print_message(
        f"validation accuracy {100 * trained.score.accuracy:.2f} %, F1 on fertilities other than 1 "
        f"{100 * trained.score.f1:.2f} %. The predictor is in {directory}."
    )
