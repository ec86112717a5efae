"""Figures of where models look: in their own translations, under teacher forcing, within a sentence."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.drawing.figure import Figure, Given, digits
from regard.cli.drawing.written import Translated
from regard.data.spacing import split_at_spaces
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from regard.metrics.maps import AttentionMap

__all__ = ["draw_difference", "draw_history", "draw_self_attention", "draw_translations"]

_ATTENTION = "regard translate --attention"


@dataclass(frozen=True)
class _Map:
    """Where a model looked in one sentence, [T, S], words or tokens."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: "np.ndarray"

    def record(self) -> dict[str, Any]:
        return {"source": self.source, "target": self.target, "weights": self.weights.tolist()}


def draw_translations(given: Given) -> Figure:
    """Malaviya et al. (2018), Figure 2: where systems look as they translate; what they say again is marked.

    Args:
        given: Model folders with a source text, or files of `regard translate --attention`.

    Raises:
        UsageError: if what is needed is not given.
        DataError: if a file is not what it should be.
    """
    from regard.report.beside import svg_beside
    from regard.report.heatmap import svg_map
    from regard.report.worst import Sentence

    found = _own_translations(given)
    reference = () if given.reference is None else tuple(split_at_spaces(given.text()[1] or ""))
    pictures: dict[str, str] = {}
    rows = [["system", "translation", "said again"]]
    for name, one in found.items():
        again = Sentence(given.line, one.source, reference, one.target).repeated
        pictures[name] = svg_map(one.weights, one.source, one.target, marked=again)
        words = " ".join(one.target[place] for place in sorted(again))
        rows.append([name, " ".join(one.target), words])
    said = "; ".join(f"{name}: {' '.join(one.target)}" for name, one in found.items())
    svg = svg_beside(pictures, "Where each system looks as it translates", f"{said}.")
    numbers = {"line": given.line, "systems": {name: one.record() for name, one in found.items()}}
    return Figure({f"translations-{given.line}.svg": svg}, rows, numbers)


def draw_history(given: Given) -> Figure:
    """The lecture's attention history: the source sentence as each word of the translation saw it.

    Args:
        given: As for `draw_translations`.

    Raises:
        UsageError: if what is needed is not given.
        DataError: if a file is not what it should be.
    """
    from regard.report.history import svg_history

    found = _own_translations(given)
    rows = [["system", "word", "looks at", "weight"]]
    pictures: dict[str, str] = {}
    for name, one in found.items():
        end = "" if len(found) == 1 else f"-{name}"
        pictures[f"history-{given.line}{end}.svg"] = svg_history(one.weights, one.source, one.target, name)
        for word, row in zip(one.target, one.weights, strict=True):
            best = int(row.argmax())
            rows.append([name, word, one.source[best] if row[best] > 0 else "", digits(float(row[best]))])
    numbers = {"line": given.line, "systems": {name: one.record() for name, one in found.items()}}
    return Figure(pictures, rows, numbers)


def draw_difference(given: Given) -> Figure:
    """Shankar & Sarawagi (2019), Figures 2 and 5: maps of a given translation, and how they differ.

    Args:
        given: Model folders, a source text and its translations.

    Raises:
        UsageError: if what is needed is not given, or there is no such layer or head.
        DataError: if a model cannot read the line, or cuts it into other words than the first. A sink that
            only some of them have counts as 0 in the others.
    """
    import numpy as np

    from regard.metrics.maps import map_difference
    from regard.report.difference import difference_pictures

    if not given.files:
        raise UsageError("figure difference is drawn --from model folders, with --source and --reference")
    source, reference = given.text()
    if reference is None:
        raise UsageError("figure difference leads models through given translations: give --reference")
    found = {name: _forced(given, name, path, (source, reference)) for name, path in given.systems().items()}
    (first, base), *others = found.items()
    pictures = difference_pictures(given.line, found)
    rows = [["system", "differs from", "sum of differences", "largest"]]
    for name, one in others:
        apart = map_difference(one, base, (name, first)).weights
        total, most = float(np.abs(apart).sum()), float(np.abs(apart).max(initial=0.0))
        rows.append([name, first, digits(total), digits(most)])
    systems = {
        name: {"source": one.columns, "target": one.target, "weights": one.weights.tolist()}
        for name, one in found.items()
    }
    return Figure(pictures, rows, {"line": given.line, "systems": systems})


def draw_self_attention(given: Given) -> Figure:
    """The lecture's self-attention: what a word gives to its sentence in a layer of the encoder, by head.

    Args:
        given: The folder of a Transformer and a source text; the layer is the fifth, number 4, or the last
            where there are fewer.

    Raises:
        UsageError: if what is needed is not given, or there is no such layer or word.
        DataError: if the model cannot read the line.
    """
    from regard.api.model import load
    from regard.report.fan import svg_fan
    from regard.report.heatmap import svg_map

    if len(given.files) != 1:
        raise UsageError("figure self-attention is drawn --from one model folder, with --source")
    folder = given.files[0]
    result = load(folder, device=given.device).translate(given.text()[0], look="all")
    layers, words = result.encoder, result.source_tokens
    if not words:
        raise DataError(f"{given.source}:{given.line}: the line is empty")
    if not layers:
        raise UsageError(f"{folder}: has no self-attention: figure self-attention is of Transformers")
    layer = _place("--layer", given.chosen.layer, len(layers), min(4, len(layers) - 1), f"layers in {folder}")
    word = _place("--word", given.word, len(words), (len(words) - 1) // 2, f"tokens in line {given.line}")
    weights = layers[layer]  # (H, S, S)
    title = f"Encoder, layer {layer}: what {words[word]!r} looks at"
    pictures = {
        "self-attention.svg": svg_fan(weights[:, word], words, word, title),
        "self-attention-heads.svg": svg_map(weights, words, words, f"Encoder, layer {layer}, all heads"),
    }
    rows = [["head", *words]]
    rows += [[f"{h}", *map(digits, row)] for h, row in enumerate(weights[:, word].tolist())]
    numbers = {"layer": layer, "word": word, "words": words, "weights": weights.tolist()}
    return Figure(pictures, rows, numbers)


def _own_translations(given: Given) -> dict[str, _Map]:
    """The maps of translations that systems made, by their names."""
    if not given.files:
        raise UsageError(
            f"this figure is drawn --from model folders with --source, or files of `{_ATTENTION}`"
        )
    systems = given.systems()
    return {
        name: _translated(given, path) if path.is_dir() else _written(given, path)
        for name, path in systems.items()
    }


def _translated(given: Given, folder: Path) -> _Map:
    from regard.api.model import load
    from regard.decoding.linking import attention_map

    settings = {name: value for name, value in given.chosen.settings.items() if value is not None}
    result = load(folder, device=given.device, **settings).translate(given.text()[0])
    if not result.attention:
        raise DataError(f"{given.source}:{given.line}: the line is empty")
    layers = result.attention if given.chosen.prior else result.posterior
    return _Map(result.source_tokens, result.tokens, attention_map(layers, result.aligned_by, str(folder)))


def _written(given: Given, path: Path) -> _Map:
    """The best translation of the line in a file of `regard translate --attention`."""
    import numpy as np

    from regard.api.loading import search_settings
    from regard.config import from_dict
    from regard.decoding.config import AlignmentConfig, SearchConfig
    from regard.decoding.linking import attention_map

    for entry in _entries(path):
        if entry.line != given.line or entry.rank != 1:
            continue
        source, target = tuple(entry.source), tuple(entry.target)
        try:
            kind = "prior" if given.chosen.prior else "posterior"
            layers = [np.asarray(layer, dtype=np.float64) for layer in entry.extra(kind)]
            if not all(np.isfinite(layer).all() for layer in layers):
                raise ValueError
            own = from_dict(AlignmentConfig, entry.extra("alignment") or {}, where=f"{path}: alignment")
        except (TypeError, ValueError, OverflowError, IndexError):
            raise DataError(f"{path}: not what `{_ATTENTION}` writes") from None
        if not target or not layers:
            raise DataError(f"{path}: line {given.line} was not translated: it is empty or too long")
        if any(layer.ndim != 3 or layer.shape[::2] != (len(target) + 1, len(source)) for layer in layers):
            raise DataError(f"{path}: not what `{_ATTENTION}` writes: attention of {layers[0].shape}")
        config = search_settings(SearchConfig(alignment=own), given.chosen.settings).alignment
        return _Map(source, target, attention_map(layers, config, str(path)))
    raise DataError(f"{path}: has no line {given.line}")


def _entries(path: Path) -> Iterator[Translated]:
    from regard.data.corpus import read_lines
    from regard.data.reading import LARGEST_JSON, NotJson, parse_json

    for number, line in enumerate(read_lines(path, LARGEST_JSON), 1):
        try:
            yield parse_json(line, Translated)
        except NotJson as error:
            raise DataError(f"{path}:{number}: not what `{_ATTENTION}` writes: {error}") from None


def _place(option: str, wanted: int | None, count: int, default: int, what: str) -> int:
    """A number from 0, or one from -1 backwards, as one from 0."""
    place = default if wanted is None else wanted
    if not -count <= place < count:
        raise UsageError(f"{option} {place}: there are {count} {what}, counted from 0; -1 is the last")
    return place % count


def _forced(given: Given, name: str, folder: Path, pair: tuple[str, str]) -> "AttentionMap":
    """Where a model looked on the way through a given translation, in words."""
    from regard.api.loading import load_models, search_settings
    from regard.decoding.analysis import force_lines
    from regard.metrics.maps import AttentionMap

    model, text, base = load_models([folder], given.device, "float32")
    search = search_settings(base, given.chosen.settings)
    (line,) = force_lines(model, text, [pair], search.batch)
    if line is None:
        raise DataError(f"{given.source}:{given.line}: {name} cannot read it")
    weights = line.map(search.alignment, given.chosen.prior, name)
    words = line.source, line.target, line.source_words, line.target_words
    return AttentionMap.of_tokens(weights, *words)
