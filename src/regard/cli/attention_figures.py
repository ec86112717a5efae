"""Figures of attention weights: in translation, under teacher forcing, and self-attention."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from regard.cli.figures import FigureInput, format_value
from regard.errors import DataError, UsageError
from regard.plot.figure import PlottedFigure
from regard.text.whitespace import split_whitespace

if TYPE_CHECKING:
    import numpy as np

    from regard.metrics.alignment import AttentionMap

__all__ = ["plot_differences", "plot_encoder_attention", "plot_histories", "plot_translations"]

_ATTENTION = "regard translate --attention-output"


@dataclass(frozen=True)
class _Map:
    """The attention weights of one sentence, of shape [T, S], with its source and target tokens."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: "np.ndarray"

    def record(self) -> dict[str, Any]:
        return {"source": self.source, "target": self.target, "weights": self.weights.tolist()}


class TranslationEntry(BaseModel):
    """A line in the format of `regard translate --attention-output`.

    Its attention weights are not validated.
    """

    # The weights are extra fields: validating each of them would be slow for a long line.
    model_config = {"extra": "allow"}

    line: Annotated[int, Field(ge=0, le=1_000_000_000_000)]
    source_tokens: list[str]
    tokens: list[str]

    def extra_field(self, name: str) -> Any:
        """Return the unvalidated value of another field of the line: such as `attention`."""
        return (self.model_extra or {}).get(name)


def plot_translations(inputs: FigureInput) -> PlottedFigure:
    """Plot the attention maps of translations and mark repeated words.

    The figure is that of Malaviya et al. (2018), Figure 2.

    Args:
        inputs: Model directories with a source text, or files of `regard translate --attention-output`.

    Raises:
        UsageError: If a required option is missing.
        DataError: If a file has the wrong format.
    """
    from regard.analysis.errors import SentenceErrors
    from regard.plot.heatmap import HeatMap, attention_heatmap, combined_figure

    translations = _translation_maps(inputs)
    reference = () if inputs.reference is None else tuple(split_whitespace(inputs.read_line()[1] or ""))
    maps: dict[str, HeatMap] = {}
    rows = [["system", "translation", "repeated words"]]
    for name, translation in translations.items():
        repeated = SentenceErrors(inputs.line, translation.source, reference, translation.target).repeated
        maps[name] = attention_heatmap(
            translation.weights, translation.source, translation.target, marked=repeated
        )
        words = " ".join(translation.target[position] for position in sorted(repeated))
        rows.append([name, " ".join(translation.target), words])
    texts = "; ".join(f"{name}: {' '.join(translation.target)}" for name, translation in translations.items())
    figure = combined_figure(maps, "Attention of each system during translation", f"{texts}.")
    values = {
        "line": inputs.line,
        "systems": {name: translation.record() for name, translation in translations.items()},
    }
    return PlottedFigure({f"translations-{inputs.line}": figure}, rows, values)


def plot_histories(inputs: FigureInput) -> PlottedFigure:
    """Plot the attention history: the source sentence, once per target word, with its attention weights.

    The figure is that of the lecture by Martins (2020).

    Args:
        inputs: Model directories with a source text, or files of `regard translate --attention-output`.

    Raises:
        UsageError: If a required option is missing.
        DataError: If a file has the wrong format.
    """
    from regard.plot.figure import Figure
    from regard.plot.word_attention import history_figure

    translations = _translation_maps(inputs)
    rows = [["system", "word", "attends to", "weight"]]
    images: dict[str, Figure] = {}
    for name, translation in translations.items():
        end = "" if len(translations) == 1 else f"-{name}"
        images[f"history-{inputs.line}{end}"] = history_figure(
            translation.weights, translation.source, translation.target, name
        )
        for word, row in zip(translation.target, translation.weights, strict=True):
            best = int(row.argmax())
            rows.append(
                [
                    name,
                    word,
                    translation.source[best] if row[best] > 0 else "",
                    format_value(float(row[best])),
                ]
            )
    values = {
        "line": inputs.line,
        "systems": {name: translation.record() for name, translation in translations.items()},
    }
    return PlottedFigure(images, rows, values)


def plot_differences(inputs: FigureInput) -> PlottedFigure:
    """Plot attention maps under forced decoding, and the differences from the map of the first model.

    The figures are those of Shankar & Sarawagi (2019), Figures 2 and 5. A sink that only some models have
    gets weight 0 in the maps of the others.

    Args:
        inputs: Model directories, a source text and its references.

    Raises:
        UsageError: If a required option is missing, or a model has no such layer or head.
        DataError: If a line is empty or too long for a model, or the models split it into different words.
    """
    import numpy as np

    from regard.metrics.alignment import map_difference
    from regard.plot.heatmap import maps_and_differences

    if not inputs.files:
        raise UsageError("figure difference needs model directories (--input), --source and --reference")
    source, reference = inputs.read_line()
    if reference is None:
        raise UsageError("figure difference uses forced decoding of reference translations: give --reference")
    maps = {
        name: _forced_map(inputs, name, path, (source, reference))
        for name, path in inputs.named_files().items()
    }
    (first, base), *others = maps.items()
    images = maps_and_differences(inputs.line, maps)
    rows = [["system", "differs from", "sum of differences", "largest"]]
    for name, word_map in others:
        difference = map_difference(word_map, base, (name, first)).weights
        total, largest = float(np.abs(difference).sum()), float(np.abs(difference).max(initial=0.0))
        rows.append([name, first, format_value(total), format_value(largest)])
    systems = {
        name: {"source": word_map.columns, "target": word_map.target, "weights": word_map.weights.tolist()}
        for name, word_map in maps.items()
    }
    return PlottedFigure(images, rows, {"line": inputs.line, "systems": systems})


def plot_encoder_attention(inputs: FigureInput) -> PlottedFigure:
    """Plot the self-attention of a word in one layer of the encoder, for each head.

    The figure is that of the lecture by Martins (2020).

    Args:
        inputs: The directory of a Transformer and a source text. The default layer is layer 4 (counted from
            0), or the last one if there are fewer layers.

    Raises:
        UsageError: If a required option is missing, or there is no such layer or word.
        DataError: If the line is empty or too long.
    """
    from regard.api.model import load
    from regard.plot.heatmap import attention_heatmap
    from regard.plot.word_attention import self_attention_figure

    if len(inputs.files) != 1:
        raise UsageError("figure self-attention needs exactly one model directory (--input) and --source")
    directory = inputs.files[0]
    result = load(directory, device=inputs.device).translate(inputs.read_line()[0], output_attentions="all")
    layers, words = result.encoder_attention, result.source_tokens
    if not words:
        raise DataError(f"{inputs.source}:{inputs.line}: the line is empty")
    if not layers:
        raise UsageError(
            f"{directory}: the model has no self-attention. Figure self-attention is for Transformers only."
        )
    layer = _resolve_position(
        "--layer", inputs.layer, len(layers), min(4, len(layers) - 1), f"layers in {directory}"
    )
    word = _resolve_position(
        "--token", inputs.token, len(words), (len(words) - 1) // 2, f"tokens in line {inputs.line}"
    )
    weights = layers[layer]  # (H, S, S)
    title = f"Encoder, layer {layer}: self-attention of {words[word]!r}"
    heads = attention_heatmap(weights, words, words, f"Encoder, layer {layer}, all heads")
    images = {
        "self-attention": self_attention_figure(weights[:, word], words, word, title),
        "self-attention-heads": heads.figure(),
    }
    rows = [["head", *words]]
    rows += [[f"{h}", *map(format_value, row)] for h, row in enumerate(weights[:, word].tolist())]
    values = {"layer": layer, "word": word, "words": words, "weights": weights.tolist()}
    return PlottedFigure(images, rows, values)


def _translation_maps(inputs: FigureInput) -> dict[str, _Map]:
    """Return the attention maps of the translations of all systems, by display name."""
    if not inputs.files:
        raise UsageError(
            f"this figure needs model directories (--input) and --source, or files of `{_ATTENTION}` "
            "(--input)"
        )
    systems = inputs.named_files()
    return {
        name: _map_from_model(inputs, path) if path.is_dir() else _map_from_file(inputs, path)
        for name, path in systems.items()
    }


def _map_from_model(inputs: FigureInput, directory: Path) -> _Map:
    from regard.api.model import load
    from regard.generation.linking import attention_map

    # A missing value must not override the setting of the model.
    settings = {name: value for name, value in inputs.link_settings.items() if value is not None}
    result = load(directory, device=inputs.device, **settings).translate(inputs.read_line()[0])
    if not result.attention:
        raise DataError(f"{inputs.source}:{inputs.line}: the line is empty")
    layers = result.attention if inputs.prior else result.posterior_attention
    return _Map(
        result.source_tokens, result.tokens, attention_map(layers, result.alignment_config, str(directory))
    )


def _map_from_file(inputs: FigureInput, path: Path) -> _Map:
    """Return the map of the line's best translation in a file of `regard translate --attention-output`."""
    import numpy as np

    from regard.config import from_dict
    from regard.generation.config import AlignmentConfig, GenerationConfig, search_settings
    from regard.generation.linking import attention_map

    for entry in _entries(path):
        if entry.line != inputs.line:
            continue
        source, target = tuple(entry.source_tokens), tuple(entry.tokens)
        try:
            kind = "attention" if inputs.prior else "posterior_attention"
            layers = [np.asarray(layer, dtype=np.float64) for layer in entry.extra_field(kind)]
            # A null in the file becomes NaN in the array.
            if not all(np.isfinite(layer).all() for layer in layers):
                raise ValueError
            alignment = from_dict(
                AlignmentConfig,
                entry.extra_field("alignment_config") or {},
                origin=f"{path}: alignment_config",
            )
        # The weights are not validated, so a wrong type or nesting raises one of these errors.
        except (TypeError, ValueError, OverflowError, IndexError):
            raise DataError(f"{path}: the file was not written by `{_ATTENTION}`") from None
        if not target or not layers:
            raise DataError(f"{path}: line {inputs.line} was not translated, as it is empty or too long")
        # Expected shape: [T + 1, H, S], where the last step is the end symbol.
        if any(layer.ndim != 3 or layer.shape[::2] != (len(target) + 1, len(source)) for layer in layers):
            raise DataError(
                f"{path}: the file was not written by `{_ATTENTION}`: the attention has shape "
                f"{layers[0].shape}"
            )
        if inputs.map not in (None, alignment.map):
            raise UsageError(
                f"--map {inputs.map}: {path} was written with --map {alignment.map}; translate the text again"
            )
        # The file has the settings of the run that wrote it; the flags of this command replace them.
        config = search_settings(GenerationConfig(alignment=alignment), inputs.link_settings).alignment
        return _Map(source, target, attention_map(layers, config, str(path)))
    raise DataError(f"{path}: there is no line {inputs.line} in the file")


def _entries(path: Path) -> Iterator[TranslationEntry]:
    from regard.text.corpus import read_lines
    from regard.text.reading import MAX_JSON_BYTES, InvalidJsonError, parse_json

    for number, line in enumerate(read_lines(path, MAX_JSON_BYTES), 1):
        try:
            yield parse_json(line, TranslationEntry)
        except InvalidJsonError as error:
            raise DataError(f"{path}:{number}: the line was not written by `{_ATTENTION}`: {error}") from None


def _resolve_position(option: str, wanted: int | None, count: int, default: int, what: str) -> int:
    """Return a valid position from 0; a negative position counts from the end.

    Raises:
        UsageError: If there is no such position; the message has the option.
    """
    position = default if wanted is None else wanted
    if not -count <= position < count:
        raise UsageError(f"{option} {position}: there are {count} {what}, counted from 0; -1 is the last")
    return position % count


def _forced_map(inputs: FigureInput, name: str, directory: Path, pair: tuple[str, str]) -> "AttentionMap":
    """Return the attention map of a model under forced decoding of a translation, by words."""
    from regard.analysis.attention import forced_map
    from regard.analysis.inputs import System
    from regard.api.loading import load_translator

    translator = load_translator([directory], inputs.device, options=inputs.link_settings)
    translator.require("score", "figure difference")
    word_map = forced_map(System(name, (str(directory),), translator), pair, inputs.prior)
    if word_map is None:
        raise DataError(f"{inputs.source}:{inputs.line}: the line is empty or too long for {name}")
    return word_map
