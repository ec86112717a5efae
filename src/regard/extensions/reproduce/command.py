"""`regard reproduce`: train the models of a table in a paper and compare the scores."""

from regard.cli.api_flags import ApiCall, ApiCommand
from regard.cli.command import Writes
from regard.cli.options import JsonOption, OutputOption
from regard.cli.output import open_output, print_message, write_json


@ApiCommand(
    "regard.extensions.reproduce.reproduction:reproduce_table",
    ["table"],
    panels={
        "Text": "data_dir target_language max_train_pairs columns",
        "Runs": "size seeds rows overrides train output_dir device",
    },
    writes={"output_dir": Writes.INTO},
)
def reproduce(call: ApiCall, output: OutputOption = None, json_file: JsonOption = None) -> None:
    """Train the models of a table in a paper, score them, and print the scores next to those of the paper.

    Models are trained one after another, and finished models are reused. Run the same command again to resume
    after an interruption. The output is a table in Markdown. A setting of --set applies to all runs,
    or to the rows before a colon, as in row,row:key=value. By default, all files are in a directory in
    reproduce/, named after the paper, the data and the options.

    Example: regard reproduce malaviya2018-table1 --data-dir multi30k --size small
    """
    results = call(on_message=print_message)
    with open_output(output) as file:
        if file.is_terminal:
            from rich.console import Console
            from rich.markdown import Markdown

            Console().print(Markdown(results.to_markdown()))
        else:
            file.write(results.to_markdown())
    write_json(json_file, results)
