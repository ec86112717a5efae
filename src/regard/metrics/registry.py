"""The registry of metrics of translations, with the counts from which scores and intervals are computed.

A metric is a function of a `MetricInput` that returns `SentenceCounts`: counts of each sentence, and the
function from summed counts to the score. Bootstrap intervals, comparisons and sentence scores need no more:

    @register_metric("length_ratio", label="length ratio")
    def count_length_ratio(data: MetricInput) -> SentenceCounts:
        rows = [(len(a.split()), len(b.split())) for a, b in zip(data.outputs, data.references[0])]
        return SentenceCounts.ratio("length ratio", rows)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.data.links import Links
from regard.metrics.counts import SentenceCounts
from regard.registry import NamedRegistry

__all__ = ["METRICS", "Metric", "MetricFunction", "MetricInput", "register_metric"]

DEFAULT_REPETITION = (2, 1.0, 2.0)
"""Values of n, lambda1 and lambda2 of REP in Malaviya et al. (2018)."""


@dataclass(frozen=True)
class MetricInput:
    """The text that a metric scores, and the options of `regard evaluate`.

    Attributes:
        outputs: One output per sentence.
        references: One or more sets of references, each as long as `outputs`.
        tokenize: Tokenizer of words: a `regard.metrics.translation.BleuTokenizer`.
        lowercase: Whether to ignore case.
        repetition: n, lambda1 and lambda2 of REP.
        links: For DROP: the word links of the source with each reference, and with each output.
    """

    outputs: Sequence[str]
    references: Sequence[Sequence[str]]
    tokenize: str = "13a"
    lowercase: bool = False
    repetition: tuple[int, float, float] = DEFAULT_REPETITION
    links: tuple[Sequence[Links], Sequence[Links]] | None = None


MetricFunction = Callable[[MetricInput], SentenceCounts]


@dataclass(frozen=True)
class Metric:
    """A registered metric.

    Attributes:
        label: Label in tables.
        count: Returns the counts of each sentence.
        higher_is_better: Whether a higher score is better.
        needs_links: Whether the metric needs `MetricInput.links`. Such a metric cannot select the best model.
    """

    label: str
    count: MetricFunction
    higher_is_better: bool = True
    needs_links: bool = False


METRICS: NamedRegistry[Metric] = NamedRegistry(
    "metric",
    packages=["regard.metrics"],
    contract=lambda part: None if callable(part) else "is not a function of a MetricInput",
)


def register_metric(
    name: str, *, label: str | None = None, higher_is_better: bool = True, needs_links: bool = False
) -> Callable[[MetricFunction], MetricFunction]:
    """Return a decorator that registers a function from `MetricInput` to `SentenceCounts` as a metric.

    Args:
        name: The name, as in `regard evaluate --metrics NAME` and `training.validation.metric`.
        label: Label in tables. Default: the name.
        higher_is_better: Whether a higher score is better.
        needs_links: Whether the metric needs word links.

    Raises:
        PluginError: if another metric has this name.
    """

    def decorate(function: MetricFunction) -> MetricFunction:
        METRICS.add(name, Metric(label or name, function, higher_is_better, needs_links), source=function)
        return function

    return decorate
