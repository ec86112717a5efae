"""Faithfulness of attention and attribution maps: the effect of removing the top source token.

A map is faithful if the tokens with large weights are those that the prediction depends on (Jacovi & Goldberg
(2020)). For each token of a reference, under forced decoding, the source token with the largest weight is
removed from the source, as in the erasure of Li et al. (2016), Section 3, and the fall of the token's
probability is compared with the mean fall over all source tokens, the expectation for a token chosen at
random. No map can exceed the largest fall, which is that of leave-one-out itself.

Sinks, symbols that a tokenizer adds, and end symbols are left out. If several source tokens share the largest
weight, the mean of their falls counts, so a map without weights is as good as chance.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from regard.analysis.inputs import ParallelText, Progress, System, no_progress
from regard.config.results import Result
from regard.errors import DataError, UsageError
from regard.generation.config import MapMethod
from regard.generation.linking import attention_map
from regard.generation.translation import Translation
from regard.metrics.base import Estimate, bootstrap
from regard.plot.analyses import faithfulness_chart
from regard.plot.figure import Figure
from regard.types import Bool, Float

MAP_METHODS: tuple[MapMethod, ...] = get_args(MapMethod)


@dataclass(frozen=True)
class MapFaithfulness:
    """The fall of the probabilities of target tokens, in percentage points, with 95 % intervals.

    Attributes:
        most_attributed: Mean fall when the source token with the largest weight is removed.
        difference: `most_attributed` minus the mean fall for a random source token.
    """

    most_attributed: Estimate
    difference: Estimate


@dataclass(frozen=True)
class ModelFaithfulness:
    """The faithfulness of the maps of one model.

    Attributes:
        paths: The model directories.
        maps: The faithfulness of each kind of map.
        random: Mean fall, in percentage points, when a random source token is removed.
        largest: Mean fall when the token whose removal has the largest effect is removed.
        num_sentences: Number of sentences with at least two source tokens.
        num_tokens: Number of their target tokens.
    """

    paths: tuple[str, ...]
    maps: Mapping[MapMethod, MapFaithfulness]
    random: Estimate
    largest: Estimate
    num_sentences: int
    num_tokens: int


@dataclass(frozen=True)
class FaithfulnessAnalysis(Result):
    """The faithfulness of the maps of one or more models.

    Attributes:
        models: The faithfulness of each model, by name.
        source: The file of the source lines. None for a text from Python.
        reference: The file of the references. None for a text from Python.
    """

    schema = "faithfulness_analysis"
    models: Mapping[str, ModelFaithfulness]
    source: str | None
    reference: str | None

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per model and kind of map; falls are in percentage points."""
        return [
            {
                "model": name,
                "map": kind,
                "most_attributed": faithfulness.most_attributed.value,
                "random": model.random.value,
                "difference": faithfulness.difference.value,
                "largest": model.largest.value,
            }
            for name, model in self.models.items()
            for kind, faithfulness in model.maps.items()
        ]

    def plot(self) -> Figure:
        """Return a figure of the falls by kind of map."""
        falls = {
            name: {
                **{kind: faithfulness.most_attributed for kind, faithfulness in model.maps.items()},
                "random": model.random,
            }
            for name, model in self.models.items()
        }
        return faithfulness_chart(falls)

    def __repr__(self) -> str:
        """Return the difference from a random token for each model and kind of map."""
        parts = (
            f"{row['model']}, {row['map']}: {row['most_attributed']:.2f}, at random {row['random']:.2f}"
            for row in self.rows()
        )
        return f"FaithfulnessAnalysis({'; '.join(parts)})"


def analyze_faithfulness(
    systems: Iterable[System],
    text: ParallelText,
    methods: Sequence[MapMethod] = MAP_METHODS,
    progress: Progress = no_progress,
) -> FaithfulnessAnalysis:
    """Remove the source token with the largest weight for each target token of the references.

    Args:
        systems: The models, which may be loaded while they are iterated over.
        text: The text.
        methods: The origins of the maps to compare.
        progress: Progress display.

    Raises:
        UsageError: if there is no such map, or a model does not support it or has no attention.
        DataError: if no line has two source tokens and a target token.
    """
    for method in methods:
        if method not in MAP_METHODS:
            raise UsageError(f"map {method!r}: expected one of {', '.join(MAP_METHODS)}")
    models = {system.name: _analyze_model(system, text, tuple(methods), progress) for system in systems}
    return FaithfulnessAnalysis(models, text.source_path, text.reference_path)


def _analyze_model(
    system: System, text: ParallelText, methods: tuple[MapMethod, ...], progress: Progress
) -> ModelFaithfulness:
    """Return the faithfulness of the maps of one model."""
    system.translator.require("score", "regard analyze faithfulness")
    kinds: tuple[MapMethod, ...] = ("leave_one_out", *methods)
    translators = {kind: system.translator.with_search({"map": kind}) for kind in kinds}
    pairs: list[tuple[str, str]] = []
    # Of each pair, the fall of each target token's probability for each removed word, without the end
    # symbol's row, and which source tokens can be removed.
    effects: list[tuple[Float[np.ndarray, "T W"], Bool[np.ndarray, "S"]]] = []
    forced = translators["leave_one_out"].score(text.pairs)
    lines = progress(forced, f"{system.name}: leave_one_out", len(text))
    for pair, line in zip(text.pairs, lines, strict=True):
        if line.contributions is None or line.error:
            continue
        words = np.array(line.source_word_ids) >= 0
        falls = line.contributions[:-1, words]
        if falls.shape[0] and falls.shape[1] > 1:
            pairs.append(pair)
            effects.append((falls, words))
    if not pairs:
        raise DataError(f"{text.source_name}: no line has two source tokens and a target token")
    counts = np.array([len(falls) for falls, _ in effects])

    def mean(sums: Sequence[float] | np.ndarray) -> Estimate:
        """Return the mean per target token in percentage points, from the sums of each sentence."""
        rows = np.stack([np.asarray(sums), counts], axis=1)
        return bootstrap(rows, lambda summed: 100 * summed[:, 0] / summed[:, 1])

    random = np.array([falls.mean(axis=1).sum() for falls, _ in effects])
    maps: dict[MapMethod, MapFaithfulness] = {}
    for method in methods:
        forced = translators[method].score(pairs)
        lines = progress(forced, f"{system.name}: {method}", len(pairs))
        sums = np.array([_fall_of_largest(*pair, system.name) for pair in zip(lines, effects, strict=True)])
        maps[method] = MapFaithfulness(mean(sums), mean(sums - random))
    largest = mean([falls.max(axis=1).sum() for falls, _ in effects])
    return ModelFaithfulness(system.paths, maps, mean(random), largest, len(effects), int(counts.sum()))


def _fall_of_largest(
    line: Translation, effects: tuple[Float[np.ndarray, "T W"], Bool[np.ndarray, "S"]], name: str
) -> float:
    """Return the sum, over the target tokens, of the fall for the source token with the largest weight."""
    if line.alignment_config.map == "attention" and not line.attends:
        raise UsageError(f"{name} has no attention to the source: choose another --map")
    falls, words = effects
    weights = attention_map(line.posterior_attention, line.alignment_config, name)[:, words]
    largest = weights == weights.max(axis=1, keepdims=True)
    return float(((falls * largest).sum(axis=1) / largest.sum(axis=1)).sum())
