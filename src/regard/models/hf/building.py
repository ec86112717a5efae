"""Construction of sequence-to-sequence models from one directory, or from an encoder and a language model."""

from pathlib import Path
from typing import Any

from regard.data.hf import convert_errors
from regard.data.text import TextProcessor
from regard.data.tokenizers.pretrained import PretrainedTokenizer
from regard.data.vocabulary import BOS, SINK
from regard.errors import ConfigError
from regard.models.hf.config import HfConfig
from regard.models.hf.folder import (
    check_tokenizer_fit,
    config_dirs,
    copy_configs,
    load_decoder,
    load_encoder,
    load_seq2seq,
)
from regard.models.hf.generation import GenerationSettings, read_generation_settings, to_constraints
from regard.models.hf.layout import pretrained_side
from regard.models.hf.seq2seq import HfSeq2Seq
from regard.models.registry import register_model
from regard.models.system import TrainableSystem

__all__ = ["HfSystem", "build_hf", "decoder_prefix"]


def decoder_prefix(model: Any, target: PretrainedTokenizer) -> tuple[int, ...]:
    """Return the ids of the prefix of every translation: the start symbol, and the language token if any.

    Raises:
        ConfigError: if the model is multilingual and the target language is not specified.
    """
    generation, config = model.generation_config, model.config
    start = _first_of("decoder_start_token_id", generation, config)
    start = target.library_ids[BOS] if start is None else start
    starts_with_language = start not in target.library_ids[:SINK]
    forced = _first_of("forced_bos_token_id", generation)
    if target.language_id is not None and (target.config.language is not None or forced is None):
        # The language that the config requests, or the tokenizer's if generation forces none. If the targets
        # of transformers end with the language token (mBART), training moves it to the front instead of a
        # start symbol, so there is no other prefix.
        ends_with_language = target.language_id in target.suffix_ids
        return (
            (target.language_id,)
            if starts_with_language or ends_with_language
            else (start, target.language_id)
        )
    if forced is not None:
        return (start, forced)
    if target.multilingual and not starts_with_language:
        raise ConfigError(
            f"{target.where}: its model is multilingual, but the target language is not specified: set "
            "src_lang and tgt_lang in its tokenizer_config.json, or set data.source_tokenizer.language "
            "and data.target_tokenizer.language"
        )
    return (start,)


def _first_of(name: str, *configs: Any) -> int | None:
    return next((found for one in configs if (found := getattr(one, name, None)) is not None), None)


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
    source, target = pretrained_side(text.source, "source"), pretrained_side(text.target, "target")
    directories = config_dirs(config.folders, model_dir)
    new: list[str] = []
    if config.path is not None:
        model = load_seq2seq(directories["path"], model_dir is None)
        start = decoder_prefix(model, target)
    else:
        model, new = _combine(directories, model_dir is None)
        start = (target.library_ids[BOS],)
    constraints = to_constraints(_generation(directories.get("path")), start, target)
    paths = config.folders
    path = paths.get("path", "")
    check_tokenizer_fit(
        source, _vocab_size(model.get_encoder()), model.get_encoder().config, paths.get("encoder_path", path)
    )
    check_tokenizer_fit(
        target, _vocab_size(model.get_decoder()), model.get_decoder().config, paths.get("decoder_path", path)
    )
    return HfSeq2Seq(model, config, source, target, start, constraints, new)


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


def _vocab_size(part: Any) -> int:
    """Return the vocabulary size of an encoder or decoder.

    Raises:
        ConfigError: if the model does not expose its embeddings.
    """
    with convert_errors(ConfigError, f"{type(part).__name__}: regard cannot work with this kind of model"):
        return part.get_input_embeddings().weight.shape[0]
