"""Construction of models from Hugging Face directories.

A model is a sequence-to-sequence model, an encoder combined with a language model, or a pre-trained encoder
with a new Transformer decoder.
"""

from pathlib import Path
from typing import Any

from regard.data.text import TextProcessor, TextSide
from regard.errors import ConfigError
from regard.models.base import TrainableSystem
from regard.models.hf.config import HfConfig, PretrainedConfig
from regard.models.hf.generation import (
    GenerationSettings,
    decoder_prefix,
    read_generation_settings,
    to_constraints,
)
from regard.models.hf.layers import HfEncoder
from regard.models.hf.loading import (
    check_tokenizer_fit,
    config_dirs,
    copy_configs,
    load_decoder,
    load_encoder,
    load_seq2seq,
)
from regard.models.hf.model import HfSeq2Seq
from regard.models.registry import register_model
from regard.models.transformer.model import TransformerModel
from regard.text.tokenizers.pretrained import PretrainedTokenizer
from regard.text.vocabulary import BOS

__all__ = ["HfSystem", "PretrainedEncoderSystem", "build_hf", "build_pretrained"]


@register_model("hf", HfConfig)
class HfSystem(TrainableSystem):
    """A sequence-to-sequence model of a Hugging Face directory, or of an encoder and a language model."""

    checks_own_weights = True

    @classmethod
    def build(cls, config: HfConfig, text: TextProcessor, model_dir: Path | None = None) -> HfSeq2Seq:
        """Build the model; see `build_hf`."""
        return build_hf(config, text, model_dir)

    @classmethod
    def copy_configs(cls, config: HfConfig, model_dir: Path) -> None:
        """Copy the configurations of the pre-trained models."""
        copy_configs(config.folders, model_dir)


def build_hf(config: HfConfig, text: TextProcessor, model_dir: Path | None = None) -> HfSeq2Seq:
    """Build the model that a config describes.

    Args:
        config: The directories and mechanisms.
        text: The tokenizers.
        model_dir: A model directory that contains the configurations, and whose weights the caller loads
            afterward. Default: None, which loads the weights of the original directories.

    Raises:
        CheckpointError: if a directory is missing or broken.
        ConfigError: if a tokenizer does not match, or if the model is of the wrong kind.
    """
    source, target = _pretrained_side(text.source, "source"), _pretrained_side(text.target, "target")
    directories = config_dirs(config.folders, model_dir)
    new: list[str] = []
    if config.path is not None:
        model = load_seq2seq(directories["path"], model_dir is None)
        start = decoder_prefix(model, target)
    else:
        model, new = _combine(directories, model_dir is None)
        start = (target.library_ids[BOS],)
    constraints = to_constraints(_generation(directories.get("path")), start, target)
    translation_model = HfSeq2Seq(model, config, source, target, start, constraints, new)
    for side, part, path in (
        (source, model.get_encoder(), config.path or config.encoder_path),
        (target, model.get_decoder(), config.path or config.decoder_path),
    ):
        check_tokenizer_fit(side, part.get_input_embeddings().weight.shape[0], part.config, str(path))
    return translation_model


@register_model("pretrained", PretrainedConfig)
class PretrainedEncoderSystem(TrainableSystem):
    """A Transformer whose encoder is pre-trained."""

    checks_own_weights = True

    @classmethod
    def build(
        cls, config: PretrainedConfig, text: TextProcessor, model_dir: Path | None = None
    ) -> TransformerModel:
        """Build the model; see `build_pretrained`."""
        return build_pretrained(config, text, model_dir)

    @classmethod
    def copy_configs(cls, config: PretrainedConfig, model_dir: Path) -> None:
        """Copy the configuration of the encoder."""
        copy_configs(config.folders, model_dir)


def build_pretrained(
    config: PretrainedConfig, text: TextProcessor, model_dir: Path | None = None
) -> TransformerModel:
    """Build the model that a config describes.

    Args:
        config: The encoder's directory, and the decoder.
        text: The tokenizers; the source tokenizer is the encoder's.
        model_dir: A model directory that contains the encoder's configuration. Default: None, which loads the
            encoder's weights.

    Raises:
        CheckpointError: if the directory is missing or broken.
        ConfigError: if the tokenizer does not match, or if parts of the decoder are incompatible.
    """
    source = _pretrained_side(text.source, "source")
    model = load_encoder(config_dirs(config.folders, model_dir)["encoder_path"], weights=model_dir is None)
    check_tokenizer_fit(
        source, model.get_input_embeddings().weight.shape[0], model.config, config.encoder_path
    )
    encoder = HfEncoder(model, source, config.d_model)
    sizes = (len(side.vocabulary) for side in (text.source, text.target))
    return TransformerModel(config.transformer, *sizes, pretrained_encoder=encoder)


def _pretrained_side(side: TextSide, name: str) -> PretrainedTokenizer:
    """Return the pre-trained tokenizer of a side.

    Raises:
        ConfigError: if the side has another kind of tokenizer.
    """
    if not isinstance(side.tokenizer, PretrainedTokenizer):
        raise ConfigError(
            f"the model's {name} side needs the tokenizer that it was pre-trained with: set "
            f"data.{name}_tokenizer = {{kind = 'pretrained', path = ...}}"
        )
    return side.tokenizer


def _generation(directory: Path | None) -> GenerationSettings:
    """Return the generation settings of a model directory; defaults if the model has two directories."""
    return GenerationSettings() if directory is None else read_generation_settings(directory)[0]


def _combine(directories: dict[str, Path], weights: bool) -> tuple[Any, list[str]]:
    """Combine an encoder and a language model."""
    from transformers import EncoderDecoderModel

    encoder = load_encoder(directories["encoder_path"], weights)
    decoder, added = load_decoder(directories["decoder_path"], weights)
    model = EncoderDecoderModel(encoder=encoder, decoder=decoder)
    return model, [*(f"decoder.{name}" for name in added), "enc_to_dec_proj"]
