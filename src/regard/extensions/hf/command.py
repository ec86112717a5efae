"""The commands `regard generate` and `regard pretrain`."""

from regard.cli.api_flags import ApiCall, from_api
from regard.cli.command import Writes
from regard.cli.options import JsonOption
from regard.cli.output import open_output, write_json
from regard.cli.train import exit_if_interrupted, is_main_process, print_training_result

__all__ = ["generate_command", "pretrain_command"]


@from_api(
    "regard.extensions.hf.generate:generate_text",
    ["model"],
    panels={
        "Search": "prompt max_new_tokens num_continuations beam_size",
        "Sampling instead of beam search, if one of these is given": "sampling",
        "Computation": "precision device",
    },
)
def generate_command(call: ApiCall, json_file: JsonOption = None) -> None:
    """Continue a text with a decoder-only model (GPT-2, Llama, ...).

    The text is printed with its continuation; several are separated by lines with three hyphens. The default
    is greedy search.

    Example: regard generate models/gpt2 --prompt "The lecture begins" --top-k 40 --temperature 0.8

    Beam search: regard generate models/gpt2 --prompt "The lecture begins" --beam-size 4
    """
    result = call()
    with open_output(None) as file:
        file.write(
            "\n---\n".join(f"{result.prompt}{continuation.text}" for continuation in result.continuations)
            + "\n"
        )
    write_json(json_file, result)


@from_api(
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
