"""`regard phrasebook`: write the built-in corpus to files."""

from regard.cli.api_flags import ApiCall, ApiCommand
from regard.cli.command import Writes
from regard.cli.output import print_message


@ApiCommand(
    "regard.extensions.phrasebook.corpus:write_corpus", ["output_dir"], writes={"output_dir": Writes.INTO}
)
def phrasebook(call: ApiCall) -> None:
    """Write the built-in German-English corpus to files, with gold word links and fertilities.

    The files of train, valid and test end in .de and .en (one sentence per line, words and punctuation
    separated by spaces), .talp (gold links `i-j` of German word i and English word j, counted from 0) and
    .fertility (number of English words linked to each German word). The three parts share no sentences. The
    corpus of a seed is the same on every machine.

    Example: regard phrasebook corpus --num-train 60000 --seed 7
    """
    files = call()
    print_message(f"phrasebook: wrote {len(files)} files to {call.values['output_dir']}")
