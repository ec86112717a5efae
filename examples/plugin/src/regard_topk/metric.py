"""The ratio of output words to reference words, which shows translations that are too short or too long."""

import regard
from regard.metrics.base import MetricInput, SentenceCounts


@regard.register_metric("length_ratio", label="length ratio")
def count_length_ratio(data: MetricInput) -> SentenceCounts:
    """Return the number of words of each output and of its first reference."""
    pairs = zip(data.outputs, data.references[0], strict=True)
    rows = [(len(output.split()), len(reference.split())) for output, reference in pairs]
    return SentenceCounts.ratio("length ratio", rows)
