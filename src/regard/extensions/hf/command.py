"""The commands `regard generate` and `regard pretrain`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from regard.cli.api_flags import ApiCall, from_api
from regard.cli.command import Writes, expand_groups, given, setting
from regard.cli.options import (
    DeviceOption,
    JsonOption,
    ModelDirArgument,
    PrecisionOption,
)
from regard.cli.output import open_output, write_json
from regard.cli.train import exit_if_interrupted, is_main_process, print_training_result
from regard.cli.translate import SAMPLING

__all__ = ["generate_command", "pretrain_command"]

CONTINUATION = "regard.extensions.hf.generate.ContinuationConfig"


@dataclass(frozen=True)
class ContinuationOptions:
    """The text, the number and the length of its continuations, and beam search."""

    panel: ClassVar[str] = "Search"

    prompt: Annotated[str, setting(f"{CONTINUATION}:prompt")]
    max_new_tokens: Annotated[int | None, setting(f"{CONTINUATION}:max_new_tokens")] = None
    num_continuations: Annotated[int | None, setting(f"{CONTINUATION}:num_continuations")] = None
    beam_size: Annotated[int | None, setting(f"{CONTINUATION}:beam_size")] = None


@dataclass(frozen=True)
class ContinuationSampling:
    """Sampling, which each of these flags turns on."""

    panel: ClassVar[str] = "Sampling instead of beam search, if one of these is given"

    temperature: Annotated[float | None, setting(f"{SAMPLING}:temperature")] = None
    top_k: Annotated[int | None, setting(f"{SAMPLING}:top_k")] = None
    top_p: Annotated[float | None, setting(f"{SAMPLING}:top_p")] = None
    seed: Annotated[int | None, setting(f"{SAMPLING}:seed")] = None


@expand_groups
def generate_command(
    model_dir: ModelDirArgument,
    search: ContinuationOptions,
    sampling: ContinuationSampling,
    json_file: JsonOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "auto",
) -> None:
    """Continue a text with a decoder-only model (GPT-2, Llama, ...).

    The text is printed with its continuation; several are separated by lines with three hyphens. The default
    is greedy search.

    Example: regard generate models/gpt2 --prompt "The lecture begins" --top-k 40 --temperature 0.8

    Beam search: regard generate models/gpt2 --prompt "The lecture begins" --beam-size 4
    """
    from regard.config import from_dict
    from regard.extensions.hf.generate import generate_text
    from regard.generation.config import Sampling

    # Without any of its flags, the text is searched for instead of sampled.
    flags = given(sampling)
    chosen = from_dict(Sampling, flags, origin="sampling options") if flags else None
    result = generate_text(model_dir, sampling=chosen, device=device, precision=precision, **given(search))
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
