"""`regard pretrain`: pre-train an encoder or a decoder, and `regard upload`: share a model or a checker."""

from regard.cli.api_flags import ApiCall, ApiCommand
from regard.cli.command import Writes
from regard.cli.output import print_message
from regard.cli.train import exit_if_interrupted, is_main_process, print_training_result


@ApiCommand(
    "regard.extensions.hf.pretraining:pretrain_model",
    arguments=["config", "overrides"],
    writes={"output_dir": Writes.INTO},
)
def pretrain_command(call: ApiCall) -> None:
    """Pretrain an encoder (model.kind = "masked") or a decoder ("causal") on monolingual text.

    The output directory has the Hugging Face format. It can be loaded by `transformers`, and by `regard
    train` with model.kind = "pretrained" or "hf". Run the same command again to resume a run that was
    stopped. The command needs the package transformers (extra: hf).

    Example: regard pretrain encoder.toml 'text.train=["mono.de"]' text.valid=valid.de --output-dir
        encoders/de
    """
    result = call()
    if is_main_process():
        best = f"Best validation perplexity: {result.progress.best_score or 0:.2f}."
        print_training_result(result, f"{best} The model is in {result.output_dir}.")
    exit_if_interrupted(result)


@ApiCommand("regard.extensions.hf.hub:upload", ["directory", "repository"])
def upload_command(call: ApiCall) -> None:
    """Upload a model or a checker to the Hugging Face Hub, with a card.

    The files are listed first. Others use the model by its name, as in `regard translate organization/name`.
    The command needs the package huggingface_hub (extra: hub) and a login: `hf auth login`.

    Example: regard upload runs/first organization/name --private --dry-run
    """
    address = call(on_message=print_message)
    print_message(f"uploaded: {address}" if address else "nothing was uploaded (--dry-run)")
