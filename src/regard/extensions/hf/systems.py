"""The kinds of models of Hugging Face directories, and their construction.

`hf` is a sequence-to-sequence model; `pretrained` is an encoder with a new Transformer decoder; `causal` is a
decoder-only model, with low-rank adaptation by peft.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from torch import nn

from regard.attention.registry import AttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.config.extensions import resolve_directory
from regard.data.batch import PaddedSequences
from regard.data.text import TextProcessor, TextSide
from regard.errors import CheckpointError, ConfigError
from regard.extensions.hf.attention_session import use_regard_attention
from regard.extensions.hf.causal import CausalConfig, HfCausal, LoraConfig
from regard.extensions.hf.files import (
    GENERATION_CONFIG,
    HF_CONFIG,
    convert_errors,
    import_package,
    read_hf_config,
)
from regard.extensions.hf.layouts import InputLayout
from regard.extensions.hf.loading import check_tokenizer_fit, load_auto_model, load_encoder, max_positions
from regard.extensions.hf.model_format import (
    GenerationSettings,
    decoder_prefix,
    read_generation_settings,
    to_constraints,
)
from regard.extensions.hf.prompt_tokenizer import PromptTokenizer
from regard.extensions.hf.seq2seq import HfConfig, HfSeq2Seq
from regard.extensions.hf.tokenizer import PretrainedTokenizer
from regard.layers.linear import Linear
from regard.models.base import PARTS_DIR, TrainableSystem
from regard.models.registry import register_model
from regard.models.stack_layer import ATTENTION_HELP, LAYER_ATTENTION_HELP, check_exclusive
from regard.models.transformer.model import (
    FeedForwardConfig,
    SourceEncoder,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    TransformerModel,
)
from regard.text.reading import checked_file
from regard.text.vocabulary import BOS, EOS
from regard.types import Float, Tensor


@configclass
class PretrainedConfig:
    """A pre-trained Hugging Face encoder with a new Transformer decoder."""

    kind: Literal["pretrained"] = option(
        default="pretrained", help="A pre-trained encoder with a new decoder; requires the extra `hf`."
    )
    encoder_path: str = option(
        help="Directory of the encoder: a model of the BERT family, or a sequence-to-sequence model."
    )
    num_layers: int = option(default=6, help="Number of decoder layers.", ge=1, le=256)
    d_model: int = option(
        default=512,
        help="Model dimension (d_model) of the decoder, a multiple of `num_heads`.",
        ge=2,
        le=16_384,
    )
    num_heads: int = option(default=8, help="Number of attention heads of the decoder.", ge=1, le=256)
    feed_forward: FeedForwardConfig = option(
        default=FeedForwardConfig, help="The feed-forward networks of the decoder."
    )
    norm_position: Literal["post", "pre"] = option(
        default="post",
        help="Layer normalization after each residual sum (post), or before each sublayer (pre).",
    )
    attention: AttentionConfig = option(
        default=SoftAttentionConfig,
        help=ATTENTION_HELP,
    )
    layer_attention: tuple[AttentionConfig, ...] = option(
        default=(),
        help=LAYER_ATTENTION_HELP,
    )
    dropout: float = option(
        default=0.1, help="Dropout probability on embeddings and on the output of each sublayer.", ge=0, lt=1
    )
    tie_embeddings: Literal["none", "decoder"] = option(
        default="decoder",
        help="Tie the target embeddings with the output layer (decoder), or not (none).",
    )

    def __post_init__(self) -> None:
        """Check that `attention` and `layer_attention` are not both set."""
        check_exclusive(self)

    @property
    def transformer(self) -> TransformerConfig:
        """The configuration of the decoder as a Transformer; its encoder part is not used."""
        return TransformerConfig(
            d_model=self.d_model,
            num_heads=self.num_heads,
            feed_forward=self.feed_forward,
            encoder=TransformerEncoderConfig(num_layers=1),
            decoder=TransformerDecoderConfig(num_layers=self.num_layers),
            norm_position=self.norm_position,
            attention=self.attention,
            layer_attention=self.layer_attention,
            dropout=self.dropout,
            tie_embeddings=self.tie_embeddings,
        )


class HfEncoder(SourceEncoder):
    """An encoder, with a linear projection to the decoder's dimension `width` if the dimensions differ."""

    def __init__(self, model: Any, tokenizer: PretrainedTokenizer, width: int) -> None:
        """Combine the parts."""
        super().__init__()
        use_regard_attention(model)
        self.model, self.layout = model, InputLayout(tokenizer)
        hidden_size = model.config.hidden_size
        # The projection is new, so it is not among the pre-trained layers.
        self.output_proj = nn.Identity() if hidden_size == width else Linear(hidden_size, width)

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, given by the position embeddings; see `SourceEncoder.max_length`."""
        limit = max_positions(self.model)
        # `max_length` includes one sink or end symbol; the other special symbols take positions too.
        return None if limit is None else limit - max(0, self.layout.num_special - 1)

    def forward(
        self, source: PaddedSequences, output_attentions: bool
    ) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """Return the states in the order of our tokens; see `SourceEncoder.forward`."""
        states, attentions = self.layout.encode(self.model, source, output_attentions)
        return self.output_proj(states), attentions

    def pretrained_parameters(self) -> tuple[str, ...]:
        """Return those of the library's encoder; see `SourceEncoder.pretrained_parameters`."""
        return tuple(name for name, _ in self.named_parameters() if not name.startswith("output_proj."))


class _DirectorySystem(TrainableSystem):
    """A model with a part from a Hugging Face directory, whose configuration a model directory contains."""

    path_option = "path"
    """The name of the option with the directory."""

    @classmethod
    def _directory(cls, config: Any, model_dir: Path | None) -> Path:
        """Return the directory to read the part from: the original one, or its copy in a model directory."""
        if model_dir is None:
            return resolve_directory(getattr(config, cls.path_option))
        return model_dir / PARTS_DIR / cls.path_option

    @classmethod
    def copy_configs(cls, config: Any, model_dir: Path) -> None:
        """Copy the configuration of the pre-trained part; see `TrainableSystem.copy_configs`."""
        source, target = cls._directory(config, None), cls._directory(config, model_dir)
        read_hf_config(source)
        target.mkdir(parents=True, exist_ok=True)
        for name in (HF_CONFIG, GENERATION_CONFIG):
            if checked_file(source, name).is_file():
                shutil.copyfile(source / name, target / name)

    @classmethod
    def part_options(cls, model_dir: Path) -> Mapping[str, Any]:
        """Return the content of the copied `config.json`; see `TrainableSystem.part_options`."""
        return {cls.path_option: read_hf_config(cls._directory(None, model_dir))}


@register_model("hf", HfConfig)
class HfSystem(_DirectorySystem):
    """A sequence-to-sequence model of a Hugging Face directory."""

    @classmethod
    def build(cls, config: HfConfig, text: TextProcessor, model_dir: Path | None = None) -> HfSeq2Seq:
        """Build the model; see `TrainableSystem.build`."""
        source, target = _pretrained_side(text.source, "source"), _pretrained_side(text.target, "target")
        directory = cls._directory(config, model_dir)
        content = read_hf_config(directory)
        if not content.get("is_encoder_decoder"):
            raise CheckpointError(
                f"{directory}: a {content['model_type']} model is not a translation model; use it as the "
                "encoder of model.kind = 'pretrained'"
            )
        model = load_auto_model("AutoModelForSeq2SeqLM", directory, model_dir is None, ("encoder.pooler",))
        start = decoder_prefix(model, target)
        constraints = to_constraints(read_generation_settings(directory)[0], start, target)
        translation_model = HfSeq2Seq(model, config, source, target, start, constraints)
        for side, part in ((source, model.get_encoder()), (target, model.get_decoder())):
            check_tokenizer_fit(side, part.get_input_embeddings().weight.shape[0], part.config, config.path)
        return translation_model


@register_model("pretrained", PretrainedConfig)
class PretrainedEncoderSystem(_DirectorySystem):
    """A Transformer whose encoder is pre-trained."""

    path_option = "encoder_path"

    @classmethod
    def build(
        cls, config: PretrainedConfig, text: TextProcessor, model_dir: Path | None = None
    ) -> TransformerModel:
        """Build the model; see `TrainableSystem.build`."""
        source = _pretrained_side(text.source, "source")
        directory = cls._directory(config, model_dir)
        model = load_encoder(directory, weights=model_dir is None)
        rows = model.get_input_embeddings().weight.shape[0]
        check_tokenizer_fit(source, rows, model.config, config.encoder_path)
        encoder = HfEncoder(model, source, config.d_model)
        sizes = (len(side.vocabulary) for side in (text.source, text.target))
        return TransformerModel(config.transformer, *sizes, pretrained_encoder=encoder)


@register_model("causal", CausalConfig)
class CausalSystem(_DirectorySystem):
    """A decoder-only model of a Hugging Face directory."""

    @classmethod
    def build(cls, config: CausalConfig, text: TextProcessor, model_dir: Path | None = None) -> HfCausal:
        """Build the model; see `TrainableSystem.build`.

        Raises:
            CheckpointError: if a directory is missing or broken.
            ConfigError: if the tokenizer does not match, or the model does not work with our search.
            UsageError: if peft is needed and not installed.
        """
        source, target = text.source.tokenizer, text.target.tokenizer
        if not isinstance(source, PromptTokenizer) or not isinstance(target, PromptTokenizer):
            raise ConfigError(
                "model.kind = 'causal' needs the tokenizer of the model: set data.source_tokenizer = {kind = "
                f"'prompt', path = {config.path!r}, source_language = ..., target_language = ...}}"
            )
        directory = cls._directory(config, model_dir)
        model = load_auto_model("AutoModelForCausalLM", directory, model_dir is None)
        # Padding and several end symbols may differ: search uses neither the model's padding nor one end.
        check_tokenizer_fit(target, model.get_input_embeddings().weight.shape[0], None, config.path)
        settings = read_generation_settings(directory)[0]
        model_end = getattr(model.config.get_text_config(), "eos_token_id", None)
        ends = [*(settings.end_ids or GenerationSettings(eos_token_id=model_end).end_ids)]
        ends = ends or [target.library_ids[EOS]]
        if target.stop_at_newline:
            ends += target.newline_ids
        start = (target.library_ids[BOS],)
        constraints = replace(to_constraints(settings, start, target), prefix=(BOS,))
        if config.lora is not None:
            _add_lora(model, config.lora)
        return HfCausal(model, config, source, target, ends, constraints)


def _pretrained_side(side: TextSide, name: str) -> PretrainedTokenizer:
    if not isinstance(side.tokenizer, PretrainedTokenizer):
        raise ConfigError(
            f"the model's {name} side needs the tokenizer that it was pre-trained with: set "
            f"data.{name}_tokenizer = {{kind = 'pretrained', path = ...}}"
        )
    return side.tokenizer


def _add_lora(model: Any, config: LoraConfig) -> None:
    """Add trainable low-rank matrices to the layers of a model in place, and fix its own parameters."""
    from transformers.pytorch_utils import Conv1D

    peft = import_package("peft", "model.lora requires the package peft: run pip install 'regard[lora]'")
    with convert_errors(
        ConfigError, "model.lora: peft cannot adapt this model; set model.lora.target_modules"
    ):
        settings = peft.LoraConfig(
            r=config.rank,
            lora_alpha=config.alpha,
            lora_dropout=config.dropout,
            target_modules=list(config.target_modules) or None,
            # GPT-2 stores its matrices transposed, in layers of this class.
            fan_in_fan_out=any(isinstance(part, Conv1D) for part in model.modules()),
            task_type=peft.TaskType.CAUSAL_LM,
        )
        peft.inject_adapter_in_model(settings, model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
