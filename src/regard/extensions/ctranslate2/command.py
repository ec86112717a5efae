"""`regard export`: convert a model for CTranslate2."""

from regard.cli.api_flags import ApiCall, ApiCommand
from regard.cli.command import Writes
from regard.cli.output import print_message


@ApiCommand(
    "regard.extensions.ctranslate2.export:export_ctranslate2",
    ["model_dir"],
    writes={"output_dir": Writes.DIRECTORY},
)
def export(call: ApiCall) -> None:
    """Convert a model for CTranslate2, a small and fast inference engine.

    The model must be a Transformer with softmax attention.

    Example: regard export runs/first -o exported --quantization int8; then
    regard translate exported --engine ctranslate2 < input.txt
    """
    call()
    print_message(f"{call.values['output_dir']}: exported {call.values['model_dir']} for CTranslate2")
