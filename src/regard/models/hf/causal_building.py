"""Construction of decoder-only models from Hugging Face directories, and low-rank adaptation with peft."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.data.hf import convert_errors
from regard.data.text import TextProcessor
from regard.errors import ConfigError, UsageError
from regard.models.base import TrainableSystem
from regard.models.hf.causal import HfCausal
from regard.models.hf.causal_config import CausalConfig, LoraConfig
from regard.models.hf.generation import GenerationSettings, read_generation_settings, to_constraints
from regard.models.hf.loading import check_tokenizer_fit, config_dirs, copy_configs, load_auto_model
from regard.models.registry import register_model
from regard.text.tokenizers.prompt import PromptTokenizer
from regard.text.vocabulary import BOS, EOS

__all__ = ["CausalSystem", "build_causal"]


@register_model("causal", CausalConfig)
class CausalSystem(TrainableSystem):
    """A decoder-only model of a Hugging Face directory."""

    checks_own_weights = True

    @classmethod
    def build(cls, config: CausalConfig, text: TextProcessor, model_dir: Path | None = None) -> HfCausal:
        """Build the model; see `build_causal`."""
        return build_causal(config, text, model_dir)

    @classmethod
    def copy_configs(cls, config: CausalConfig, model_dir: Path) -> None:
        """Copy the configuration of the model."""
        copy_configs(config.folders, model_dir)


def build_causal(config: CausalConfig, text: TextProcessor, model_dir: Path | None = None) -> HfCausal:
    """Build the model that a config describes.

    Args:
        config: The directory, and the low-rank adaptation.
        text: The tokenizers.
        model_dir: A model directory that contains the configuration, and whose weights the caller loads
            afterward. Default: None, which loads the weights of the original directory.

    Raises:
        CheckpointError: if a directory is missing or broken.
        ConfigError: if the tokenizer does not match, or the model does not work with our search.
        UsageError: if peft is needed and not installed.
    """
    source, target = text.source.tokenizer, text.target.tokenizer
    if not isinstance(source, PromptTokenizer) or not isinstance(target, PromptTokenizer):
        raise ConfigError(
            f"model.kind = 'causal' needs the tokenizer of the model: set data.source_tokenizer = {{kind = "
            f"'prompt', path = {config.path!r}, source_language = ..., target_language = ...}}"
        )
    directory = config_dirs(config.folders, model_dir)["path"]
    model = load_auto_model("AutoModelForCausalLM", directory, model_dir is None)
    rows = model.get_input_embeddings().weight.shape[0]
    # Padding and several end symbols may differ: the search uses neither the model's padding nor one end.
    check_tokenizer_fit(target, rows, None, config.path)
    settings = read_generation_settings(directory)[0]
    ends = [*(settings.end_ids or GenerationSettings(eos_token_id=_end(model)).end_ids)]
    ends = ends or [target.library_ids[EOS]]
    if target.stop_at_newline:
        ends += target.newline_ids
    start = (target.library_ids[BOS],)
    constraints = replace(to_constraints(settings, start, target), prefix=(BOS,))
    if config.lora is not None:
        add_lora(model, config.lora)
    return HfCausal(model, config, source, target, ends, constraints)


def _end(model: Any) -> int | list[int] | None:
    return getattr(model.config.get_text_config(), "eos_token_id", None)


def add_lora(model: Any, config: LoraConfig) -> None:
    """Add trainable low-rank matrices to the layers of a model, and fix its own parameters.

    Args:
        model: A model of transformers, changed in place.
        config: The options.

    Raises:
        UsageError: if peft is not installed.
        ConfigError: if peft supports no layers of this kind of model, or the model has no such layers.
    """
    from transformers.pytorch_utils import Conv1D

    try:
        import peft
    except ImportError:
        raise UsageError("model.lora requires the package peft: run pip install 'regard[lora]'") from None
    with convert_errors(
        ConfigError, "model.lora: peft cannot adapt this model; set model.lora.target_modules"
    ):
        settings = peft.LoraConfig(
            r=config.rank,
            # peft declares integers, and only divides by the rank.
            lora_alpha=config.alpha,  # type: ignore[arg-type]
            lora_dropout=config.dropout,
            target_modules=list(config.target_modules) or None,
            # GPT-2 stores its matrices transposed, in layers of this class.
            fan_in_fan_out=any(isinstance(part, Conv1D) for part in model.modules()),
            task_type=peft.TaskType.CAUSAL_LM,
        )
        peft.inject_adapter_in_model(settings, model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
