"""Export of trained models to CTranslate2, a C++ inference engine: Transformers with softmax attention.

The exported model has the probabilities of the original, up to rounding and quantization. Sinusoidal position
encodings are exported as a table, because CTranslate2's own start at position 1 and have other wavelengths.
The export also contains the config and the text files of the model, so that translation needs no other files.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from regard.attention.soft import SoftAttentionConfig
from regard.data.training_text import copy_training_text
from regard.errors import CheckpointError, ConfigError, DataError, UsageError
from regard.layers.position_encoding import PositionEncoding
from regard.models.stack_layer import layer_mechanisms
from regard.models.transformer.model import (
    DecoderLayer,
    EncoderLayer,
    LayerNorm,
    TransformerConfig,
    TransformerModel,
)
from regard.runs.description import CONFIG_FILE, ModelDescription, read_stated_config, write_config
from regard.runs.fertility_predictor import save_text_processing
from regard.runs.loading import LoadedModel, load_model
from regard.runs.weights import EXPORTED_FILE, MODEL_FILE
from regard.text.files import atomic_directory
from regard.text.paths import check_name, check_outputs
from regard.text.reading import (
    Checksums,
    InvalidJsonError,
    checked_file,
    compute_checksums,
    read_json,
    verify_checksums,
)
from regard.text.vocabulary import BOS, EOS, SPECIAL_TOKENS, UNK, Vocabulary
from regard.types import Float, Tensor

POSITIONS_KEY = "positions"
"""The key of CTranslate2's `config.json` that holds the number of positions of the tables."""
CHECKSUM_FILE = "sealed.json"
Quantization = Literal[
    "float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16"
]
LAYER_NORM_EPSILON = 1e-5  # epsilon of layer normalization, PyTorch's default


def import_ctranslate2() -> Any:
    """Import and return the package `ctranslate2`.

    Raises:
        UsageError: if the package is not installed.
    """
    try:
        import ctranslate2
    except ImportError:
        raise UsageError("ctranslate2 is not installed: pip install 'regard[ctranslate2]'") from None
    return ctranslate2


def token_names(vocabulary: Vocabulary) -> list[str]:
    """Return a unique name for each id; tokens that equal a special token get an apostrophe."""
    taken = set(vocabulary.tokens)
    names: list[str] = list(SPECIAL_TOKENS)
    for token in vocabulary.tokens[len(SPECIAL_TOKENS) :]:
        name = token
        while name in SPECIAL_TOKENS or (name != token and name in taken):
            name += "'"
        taken.add(name)
        names.append(name)
    return names


def export_ctranslate2(
    model_dir: Path | str,
    output_dir: Path | str,
    quantization: Quantization = "float32",
    overwrite: bool = False,
) -> None:
    """Export a model to CTranslate2.

    Args:
        model_dir: Model directory.
        output_dir: Output directory.
        quantization: Storage type of the weights.
        overwrite: Whether to replace an earlier export in `output_dir`.

    Raises:
        UsageError: if the quantization does not exist, `output_dir` is not empty or contains the model, or
            the package is missing.
        ConfigError: if CTranslate2 does not support the model; the message names the setting.
        CheckpointError: if a file is missing, corrupt or cannot be written.
    """
    output_dir = Path(output_dir)
    if quantization not in get_args(Quantization):
        raise UsageError(
            f"--quantization {quantization!r}: unknown quantization; expected one of "
            f"{', '.join(get_args(Quantization))}"
        )
    check_name(output_dir)
    _check_output_dir(output_dir, overwrite)
    check_outputs([model_dir], directories=[output_dir])
    loaded = load_model(model_dir, "cpu")
    _check_model(loaded.config)
    import_ctranslate2()
    spec = _specification(loaded)
    spec.validate()
    spec.optimize(quantization=quantization)
    try:
        # The directory is renamed into place when complete, so that a failure leaves no partial export.
        with atomic_directory(output_dir) as temp_dir:
            spec.save(str(temp_dir))
            save_text_processing(loaded.text, temp_dir)
            # A directory of another library has no config of ours.
            is_ours = (loaded.model_dir / CONFIG_FILE).is_file()
            write_config(read_stated_config(loaded.model_dir) if is_ours else loaded.config, temp_dir)
            # The fertility predictor in a directory of its own has its own checksums.
            names = sorted(path.name for path in temp_dir.iterdir() if path.is_file())
            checksums = json.dumps({"sha256": compute_checksums(temp_dir, names)}, indent=2) + "\n"
            (temp_dir / CHECKSUM_FILE).write_text(checksums, encoding="utf-8")
            copy_training_text(loaded.model_dir, temp_dir)
    except OSError as error:
        raise CheckpointError(f"{output_dir}: cannot be written: {error.strerror or error}") from None


def check_export(directory: Path) -> None:
    """Compare the files of an exported model with their checksums.

    Raises:
        CheckpointError: if a file is missing, truncated, altered or has no checksum; the message names it.
    """
    path = directory / CHECKSUM_FILE
    try:
        checksums = read_json(checked_file(directory, CHECKSUM_FILE), dict[Literal["sha256"], Checksums])
        # Later, people write a card and a license, and remove the training text, before they share a model.
        others = CHECKSUM_FILE, "README", "LICENSE", "training_"
        files = (file.name for file in directory.iterdir() if file.is_file())
        names = {name for name in files if not name.startswith(others)}
        verify_checksums(directory, checksums["sha256"], names | {EXPORTED_FILE}, CHECKSUM_FILE)
    except (InvalidJsonError, KeyError) as error:
        raise CheckpointError(f"{path}: not a checksum file of an exported model: {error}") from None
    except DataError as error:
        raise CheckpointError(f"{error}; export the model again") from None


def _check_output_dir(output_dir: Path, force: bool) -> None:
    """Reject an output directory that is not empty, except for an earlier export with `force`."""
    if not output_dir.exists() or (output_dir.is_dir() and not any(output_dir.iterdir())):
        return
    if not (output_dir / EXPORTED_FILE).is_file() or (output_dir / MODEL_FILE).exists():
        raise UsageError(f"{output_dir}: already exists and is not an exported model; give a new directory")
    if not force:
        raise UsageError(
            f"{output_dir}: already contains an exported model; give a new directory, or --overwrite"
        )


def _check_model(config: ModelDescription) -> None:
    """Reject a model that CTranslate2 does not support."""
    model = config.model
    if not isinstance(model, TransformerConfig):
        raise ConfigError(
            f"model.kind = {model.kind!r}: CTranslate2 needs a Transformer (regard init --model transformer)"
        )
    if layers := model.encoder.num_localness_layers:
        raise ConfigError(f"model.encoder.num_localness_layers = {layers}: CTranslate2 has no localness bias")
    for number, attention in enumerate(layer_mechanisms(model)):
        name = f"model.layer_attention[{number}]" if model.layer_attention else "model.attention"
        if not isinstance(attention, SoftAttentionConfig):
            raise ConfigError(f"{name}.kind = {attention.kind!r}: CTranslate2 supports only soft attention")
        if attention.normalizer != "softmax":
            raise ConfigError(
                f"{name}.normalizer = {attention.normalizer!r}: CTranslate2 supports only softmax"
            )
        if attention.score_function not in (None, "scaled_dot"):
            raise ConfigError(
                f"{name}.score_function = {attention.score_function!r}: CTranslate2 supports only scaled dot "
                "products"
            )


def _specification(loaded: LoadedModel) -> Any:
    """Build CTranslate2's specification of the model."""
    from ctranslate2.specs import transformer_spec

    model, config = loaded.model, loaded.config.model
    assert isinstance(model, TransformerModel) and isinstance(config, TransformerConfig)
    # Typed as Any, because CTranslate2 declares the fields with their initial value None.
    spec: Any = transformer_spec.TransformerSpec.from_config(
        (config.encoder.num_layers, config.decoder.num_layers),
        config.num_heads,
        pre_norm=config.norm_position == "pre",
    )
    # Without a table of positions, those of the longest accepted source, with a sink, and its translation.
    longest = loaded.config.generation.max_source_length + 1
    num_positions = max(longest, loaded.config.generation.max_target_length(longest)) + 1
    num_positions = model.max_length or num_positions
    _write_positions_and_norm(spec.encoder, model.source_positions, model.encoder_norm, num_positions)
    _write_positions_and_norm(spec.decoder, model.target_positions, model.decoder_norm, num_positions)
    spec.encoder.embeddings[0].weight = _array(model.source_embedding.weight)
    spec.decoder.embeddings.weight = _array(model.target_embedding.weight)
    # Without an output matrix of its own, the model ties it to the target embeddings.
    output = model.target_embedding.weight if model.output is None else model.output
    spec.decoder.projection.weight = _array(output)
    spec.decoder.projection.bias = _array(model.output_bias)
    for into, layer in zip(spec.encoder.layer, model.encoder, strict=True):
        assert isinstance(layer, EncoderLayer)
        _write_layer(into, layer)
    for into, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        assert isinstance(layer, DecoderLayer)
        _write_layer(into, layer)
        cross = layer.cross_attention
        _write_linears(into.attention.linear, [cross.query_proj, cross.key_value_proj, cross.out_proj])
        _write_norm(into.attention.layer_norm, layer.around_source.norm)
    spec.register_source_vocabulary(token_names(loaded.text.source.vocabulary))
    spec.register_target_vocabulary(token_names(loaded.text.target.vocabulary))
    spec.config.unk_token, spec.config.eos_token = SPECIAL_TOKENS[UNK], SPECIAL_TOKENS[EOS]
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL_TOKENS[BOS]
    spec.config.layer_norm_epsilon = LAYER_NORM_EPSILON
    spec.config.add_attribute(POSITIONS_KEY, num_positions)
    return spec


def _write_positions_and_norm(
    into: Any, positions: PositionEncoding, norm: torch.nn.Module, count: int
) -> None:
    """Write the position table and the final layer normalization of an encoder or decoder."""
    into.scale_embeddings = True
    into.position_encodings.encodings = _array(positions(0, count, torch.empty(0, dtype=torch.float32)))
    if isinstance(norm, LayerNorm):
        _write_norm(into.layer_norm, norm)


def _write_layer(into: Any, layer: EncoderLayer | DecoderLayer) -> None:
    """Write the self-attention and the feed-forward network of a layer."""
    _write_linears(into.self_attention.linear, [layer.self_attention.in_proj, layer.self_attention.out_proj])
    _write_norm(into.self_attention.layer_norm, layer.around_attention.norm)
    _write_linears(
        [into.ffn.linear_0, into.ffn.linear_1], [layer.feed_forward.linear1, layer.feed_forward.linear2]
    )
    _write_norm(into.ffn.layer_norm, layer.around_feed.norm)


def _write_linears(specs: Sequence[Any], linears: Sequence[Any]) -> None:
    """Write the weights and biases of linear layers."""
    for into, linear in zip(specs, linears, strict=True):
        into.weight = _array(linear.weight.t())
        if linear.bias is not None:
            into.bias = _array(linear.bias)


def _write_norm(into: Any, norm: LayerNorm) -> None:
    into.gamma, into.beta = _array(norm.scale), _array(norm.shift)


def _array(tensor: Float[Tensor, "*B N"]) -> np.ndarray:
    """Return a copy as a NumPy array, because quantization overwrites its input."""
    return np.array(tensor.detach().numpy(), dtype=np.float32, order="C", copy=True)
