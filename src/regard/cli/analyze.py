"""`regard analyze`: translation errors, attention, faithfulness of maps and scores by length."""

import typer

from regard.cli.api_flags import ATTENTION_FLAGS, COMPUTATION_FLAGS, SEARCH_FLAGS, ApiCall, ApiCommand
from regard.cli.command import Command, CommandGroup
from regard.cli.options import FiguresDirOption, JsonOption, NumSentencesOption, OutputOption
from regard.cli.output import open_output, print_message, write_figures, write_json, write_lines, write_tables

_MAPS = ATTENTION_FLAGS | COMPUTATION_FLAGS

analyze = typer.Typer(
    name="analyze",
    cls=CommandGroup,
    help="Analyze the translation errors, the attention, the faithfulness of maps or the scores by length.",
    no_args_is_help=True,
)


@analyze.command("errors", cls=Command)
@ApiCommand("regard.analyze:errors", ["model"], panels=SEARCH_FLAGS | ATTENTION_FLAGS | COMPUTATION_FLAGS)
def errors_command(
    call: ApiCall,
    num_sentences: NumSentencesOption = 10,
    output: OutputOption = None,
    json_file: JsonOption = None,
) -> None:
    """Show the sentences with the highest number of dropped and repeated words.

    The text is translated. For each sentence, the output shows the source words that are covered by the
    reference but not by the translation, the repeated words, and the attention that each source word received
    next to its fertility (Malaviya et al. 2018). The last line has REP and DROP of the text. Words are those
    of the model's tokenizers, with subword tokens joined. The score of a sentence is its contribution to REP
    plus 1 for each dropped word. A word with little attention may still be translated: regard check finds
    omissions without a reference.

    Example: regard analyze errors runs/first --source test.de --reference test.en

    Example: regard analyze errors runs/first --source test.de --reference test.en --aligner aligner
    """
    from regard.api.analysis_tables import error_lines

    # The output is opened before the analysis, so that an unwritable file is reported at once.
    with open_output(output) as file:
        result = call()
        write_lines(file, lambda width: error_lines(result, num_sentences, width))
        write_json(json_file, result)
    for note in result.notes:
        print_message(note)


@analyze.command("attention", cls=Command)
@ApiCommand("regard.analyze:attention", ["models"], panels=_MAPS)
def attention_command(
    call: ApiCall,
    figures_dir: FiguresDirOption = None,
    output: OutputOption = None,
    json_file: JsonOption = None,
) -> None:
    """Show entropy, accuracy, coverage and alignment error of attention under teacher forcing.

    Forced decoding runs on the references. The tables show the entropy of the attention, the accuracy of the
    next token and how it depends on the entropy, and the coverage of the source sentences. With --gold-links,
    they also show the alignment error of the words with the highest attention (Shankar & Sarawagi 2019,
    Figures 2 to 5, Table 3). The figures show the lines of --lines, by default the one in which the models
    differ most.

    Example: regard analyze attention runs/soft runs/posterior --source test.de --reference test.en
    """
    from regard.api.analysis_tables import attention_tables

    if figures_dir is not None:
        call.options.setdefault("options", {}).setdefault("lines", "auto")
    with open_output(output) as file:
        result = call()
        write_tables(file, attention_tables(result))
        write_json(json_file, result)
    if figures_dir is not None:
        for line_map in result.maps:
            if line_map.error is not None:
                print_message(f"line {line_map.line} is not plotted: {line_map.error}")
        write_figures(figures_dir, result.figures())


@analyze.command("faithfulness", cls=Command)
@ApiCommand("regard.analyze:faithfulness", ["models"], panels=_MAPS)
def faithfulness_command(
    call: ApiCall,
    figures_dir: FiguresDirOption = None,
    output: OutputOption = None,
    json_file: JsonOption = None,
) -> None:
    """Show how faithful attention and attribution maps are to the predictions.

    Forced decoding runs on the references. For each target token, the source token with the largest weight in
    the map is removed; the table shows the fall of the probability of the target token in percentage points,
    next to the mean for a random source token and to the largest fall that is possible. By default,
    all kinds of maps are compared; --map selects one.

    Example: regard analyze faithfulness runs/first --source test.de --reference test.en
    """
    from regard.api.analysis_tables import faithfulness_tables

    with open_output(output) as file:
        result = call()
        write_tables(file, faithfulness_tables(result))
        write_json(json_file, result)
    write_figures(figures_dir, {"faithfulness": result.plot()})


@analyze.command("length", cls=Command)
@ApiCommand("regard.analyze:length", ["systems"], panels=SEARCH_FLAGS | COMPUTATION_FLAGS)
def length_command(
    call: ApiCall,
    figures_dir: FiguresDirOption = None,
    output: OutputOption = None,
    json_file: JsonOption = None,
) -> None:
    """Show BLEU, REP and DROP by source length.

    The text is translated with each model. Sentences of 1 to 10 source words, of 11 to 20 words, and so on up
    to 61 words and more are scored separately (Indurthi et al. 2019, Table 2, Figure 2). The scores have 95 %
    confidence intervals and differences from the first system.

    Example: regard analyze length runs/soft runs/hard --source test.de --reference test.en --figures-dir .
    """
    from regard.api.analysis_tables import length_tables

    with open_output(output) as file:
        result = call()
        write_tables(file, length_tables(result))
        write_json(json_file, result)
    write_figures(figures_dir, {"length": result.plot()})
    for note in result.notes:
        print_message(note)
