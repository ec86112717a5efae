"""The configuration of a decoder-only model that translates, and the recognition of its directory."""

from pathlib import Path
from typing import Any, Literal

from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.data.hf import import_transformers, read_hf_config

__all__ = ["CausalConfig", "LoraConfig", "is_causal"]


@configclass
class LoraConfig:
    """Low-rank adaptation (Hu et al., 2022): each weight matrix W becomes W + alpha / rank * B A.

    The pre-trained weights stay fixed; only A and B are trained.
    """

    rank: int = option(default=8, help="Rank of the product B A.", ge=1, le=4_096)
    alpha: float = option(
        default=16.0, help="Scale alpha; the product is multiplied by alpha / rank.", gt=0, le=1e6
    )
    dropout: float = option(default=0.0, help="Dropout probability on the input of A.", ge=0, lt=1)
    target_modules: tuple[str, ...] = option(
        default=(),
        help="Names of the adapted layers, such as q_proj. Default: those that peft chooses for the kind of "
        "model.",
    )


@configclass
class CausalConfig:
    """A decoder-only Hugging Face model, which translates the source sentence in its prompt."""

    kind: Literal["causal"] = option(
        default="causal",
        help="A decoder-only Hugging Face model; requires the extra `hf` and the tokenizer `prompt`.",
    )
    path: str = option(help="Directory of the model (GPT-2, Llama, Qwen, Gemma, ...).")
    lora: LoraConfig | None = option(
        default=None,
        help="Fine-tuning of low-rank additions to the weights; requires the package peft. Default: all "
        "weights are trained.",
    )

    @property
    def folders(self) -> dict[str, str]:
        """The model directories by option name."""
        return {"path": self.path}

    @property
    def attention(self) -> SoftAttentionConfig:
        """The attention of the model, which is not replaced: softmax over the prompt and the translation."""
        return SoftAttentionConfig()


def is_causal(directory: Path) -> bool:
    """Return whether a Hugging Face directory has a decoder-only language model.

    Masked language models (BERT), which the library can run as decoders too, count only if their
    configuration states that they are decoders.

    Raises:
        CheckpointError: if the directory has no valid `config.json`.
        UsageError: if transformers is not installed.
    """
    content: dict[str, Any] = read_hf_config(directory)
    import_transformers()
    from transformers.models.auto import modeling_auto as auto

    kind = content["model_type"]
    if content.get("is_encoder_decoder") or kind not in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return False
    return kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES or bool(content.get("is_decoder"))
