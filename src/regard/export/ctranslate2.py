"""Export of a Transformer with softmax attention to CTranslate2, a C++ inference engine.

The exported model has the probabilities of the original, up to rounding and quantization. Sinusoidal position
encodings are exported as a table, because CTranslate2's own start at position 1 and have other wavelengths.
The export also contains the config and the text files of the model, so that translation needs no other files.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.attention.registry import AttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import config, option
from regard.data.folders import whole_folder
from regard.data.reading import NotJson, read_json
from regard.data.sealed import Digests, check_seal, own_file, seal
from regard.data.vocabulary import BOS, EOS, SPECIALS, UNK, Vocabulary
from regard.decoding.config import SearchConfig
from regard.errors import CheckpointError, ConfigError, DataError, UsageError
from regard.experiment import LoadedModel, RunConfig, load_model, write_config
from regard.layers.linear import Linear
from regard.layers.position import Positions
from regard.models.transformer import TransformerModel
from regard.models.transformer_config import TransformerConfig
from regard.models.transformer_layers import DecoderLayer, EncoderLayer, Norm
from regard.training.fertility import save_text
from regard.training.weights import EXPORTED_FILE, MODEL_FILE
from regard.types import Float, Tensor

__all__ = ["POSITIONS", "QUANTIZATIONS", "check_exported", "export", "import_ctranslate2", "token_names"]

POSITIONS = "positions"
"""The key of CTranslate2's `config.json` that holds the number of positions of the tables."""
SEAL_FILE = "sealed.json"
QUANTIZATIONS = (
    "float32",
    "float16",
    "bfloat16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
)
EPSILON = 1e-5  # epsilon of layer normalization, PyTorch's default


def import_ctranslate2() -> Any:
    """Import and return the package `ctranslate2`.

    Raises:
        UsageError: The package is not installed.
    """
    try:
        import ctranslate2
    except ImportError:
        raise UsageError("ctranslate2 is not installed: pip install 'regard[ctranslate2]'") from None
    return ctranslate2


def token_names(vocabulary: Vocabulary) -> list[str]:
    """Return a unique name for each id; tokens that equal a special token get an apostrophe."""
    taken = set(vocabulary.tokens)
    names: list[str] = list(SPECIALS)
    for token in vocabulary.tokens[len(SPECIALS) :]:
        name = token
        while name in SPECIALS or (name != token and name in taken):
            name += "'"
        taken.add(name)
        names.append(name)
    return names


def export(folder: Path | str, out: Path | str, quantization: str = "float32", force: bool = False) -> None:
    """Export a model to CTranslate2.

    Args:
        folder: The model directory.
        out: The new directory.
        quantization: Data type of the weights, one of `QUANTIZATIONS`.
        force: Whether to replace an earlier export in `out`.

    Raises:
        UsageError: The quantization does not exist, `out` is not empty, or the package is missing.
        ConfigError: CTranslate2 does not support the model; the message names the setting.
        CheckpointError: A file is missing, corrupt or cannot be written.
    """
    out = Path(out)
    if quantization not in QUANTIZATIONS:
        raise UsageError(
            f"--quantization {quantization!r}: unknown quantization; expected one of "
            f"{', '.join(QUANTIZATIONS)}"
        )
    _check_place(out, force)
    import_ctranslate2()
    loaded = load_model(folder, "cpu")
    _check(loaded.config)
    spec = _specification(loaded)
    spec.validate()
    spec.optimize(quantization=quantization)
    try:
        # The directory is renamed into place when complete, so that a failure leaves no partial export.
        with whole_folder(out) as made:
            spec.save(str(made))
            save_text(loaded.text, made)
            write_config(loaded.config, made)
            _write_seal(made)
    except OSError as error:
        raise CheckpointError(f"{out}: cannot be written: {error.strerror or error}") from None


def _write_seal(folder: Path) -> None:
    """Write the checksums of an exported model's files; its fertility predictor has its own checksums."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    text = json.dumps({"sha256": seal(folder, names)}, indent=2) + "\n"
    (folder / SEAL_FILE).write_text(text, encoding="utf-8")


@config
class _Seal:
    """The content of `sealed.json`."""

    sha256: Digests = option(help="The checksum of each file in the same directory.")


def check_exported(folder: Path) -> None:
    """Compare the files of an exported model with their checksums.

    Raises:
        CheckpointError: A file is missing, truncated, altered or has no checksum; the message names it.
    """
    path = folder / SEAL_FILE
    try:
        sealed = read_json(own_file(folder, SEAL_FILE), _Seal)
        names = (one.name for one in folder.iterdir() if one.is_file() and one.name != SEAL_FILE)
        check_seal(folder, sealed.sha256, {*names, EXPORTED_FILE}, SEAL_FILE)
    except NotJson as error:
        raise CheckpointError(f"{path}: not a checksum file of an exported model: {error}") from None
    except DataError as error:
        raise CheckpointError(f"{error}; export the model again") from None


def _check_place(out: Path, force: bool) -> None:
    """Reject an output directory that is not empty, except for an earlier export with `force`."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / EXPORTED_FILE).is_file() or (out / MODEL_FILE).exists():
        raise UsageError(f"{out}: already exists and is not an exported model; give a new directory")
    if not force:
        raise UsageError(f"{out}: already contains an exported model; give a new directory, or --force")


def _check(config: RunConfig) -> None:
    """Reject a model that CTranslate2 does not support."""
    model = config.model
    if not isinstance(model, TransformerConfig):
        raise ConfigError(f"model.kind = {model.kind!r}: CTranslate2 supports only Transformers")
    for part in ("encoder", "decoder"):
        if layers := getattr(model, part).local:
            raise ConfigError(f"model.{part}.local = {layers}: CTranslate2 has no localness bias")
    for number, one in enumerate(model.source_attentions):
        _check_attention(one, f"model.attentions[{number}]" if model.attentions else "model.attention")


def _check_attention(one: AttentionConfig, name: str) -> None:
    """Reject an attention mechanism that CTranslate2 does not support."""
    if not isinstance(one, SoftAttentionConfig):
        raise ConfigError(f"{name}.kind = {one.kind!r}: CTranslate2 supports only soft attention")
    if one.map != "softmax":
        raise ConfigError(f"{name}.map = {one.map!r}: CTranslate2 supports only softmax")
    if one.scorer not in (None, "scaled_dot"):
        raise ConfigError(f"{name}.scorer = {one.scorer!r}: CTranslate2 supports only scaled dot products")


def _specification(loaded: LoadedModel) -> Any:
    """Build CTranslate2's specification of the model."""
    from ctranslate2.specs import common_spec, transformer_spec

    model, config = loaded.model, loaded.config.model
    assert isinstance(model, TransformerModel) and isinstance(config, TransformerConfig)
    gelu = config.feed_forward.activation == "gelu"
    # Typed as Any, because CTranslate2 declares the fields with their initial value None.
    spec: Any = transformer_spec.TransformerSpec.from_config(
        (config.encoder.layers, config.decoder.layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=common_spec.Activation.GELU if gelu else common_spec.Activation.RELU,
    )
    places = model.longest or _positions(loaded.config.search)
    _write_ends(spec.encoder, model.source_positions, model.encoder_norm, places)
    _write_ends(spec.decoder, model.target_positions, model.decoder_norm, places)
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
        _write_linears(into.attention, [layer.source.query, layer.source.memory, layer.source.output])
        _write_norm(into.attention.layer_norm, layer.around_source.norm)
    spec.register_source_vocabulary(token_names(loaded.text.source.vocabulary))
    spec.register_target_vocabulary(token_names(loaded.text.target.vocabulary))
    spec.config.unk_token, spec.config.eos_token = SPECIALS[UNK], SPECIALS[EOS]
    spec.config.bos_token = spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.layer_norm_epsilon = EPSILON
    spec.config.add_attribute(POSITIONS, places)
    return spec


def _positions(search: SearchConfig) -> int:
    """Return the number of positions for the longest accepted source and its longest translation."""
    longest = search.longest + 1  # a sink
    made = int(search.max_length_ratio * longest) + search.max_length_extra
    return max(longest, made, search.min_length) + 1


def _write_ends(into: Any, positions: Positions, norm: torch.nn.Module, count: int) -> None:
    """Write the position table and the final layer normalization of an encoder or decoder."""
    into.scale_embeddings = True
    into.position_encodings.encodings = _array(positions(0, count, torch.empty(0, dtype=torch.float32)))
    if isinstance(norm, Norm):
        _write_norm(into.layer_norm, norm)


def _write_layer(into: Any, layer: EncoderLayer | DecoderLayer) -> None:
    """Write the self-attention and the feed-forward network of a layer."""
    _write_linears(into.self_attention, [layer.attention.enter, layer.attention.leave])
    _write_norm(into.self_attention.layer_norm, layer.around_attention.norm)
    _write_linear(into.ffn.linear_0, layer.feed.enter)
    _write_linear(into.ffn.linear_1, layer.feed.leave)
    _write_norm(into.ffn.layer_norm, layer.around_feed.norm)


def _write_linears(into: Any, linears: list[Any]) -> None:
    for one, linear in zip(into.linear, linears, strict=True):
        _write_linear(one, linear)


def _write_linear(into: Any, linear: Linear) -> None:
    into.weight = _array(linear.weight.t())
    if linear.bias is not None:
        into.bias = _array(linear.bias)


def _write_norm(into: Any, norm: Norm) -> None:
    into.gamma, into.beta = _array(norm.scale), _array(norm.shift)


def _array(tensor: Float[Tensor, "*B N"]) -> np.ndarray:
    """Return a copy as a NumPy array, because quantization overwrites its input."""
    return np.array(tensor.detach().numpy(), dtype=np.float32, order="C", copy=True)
