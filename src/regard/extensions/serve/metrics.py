"""The metrics of a server for Prometheus, in a separate registry."""

from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics", "QueueMetrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.4, 0.75, 1.5, 3, 6, 12, 30)


class Metrics:
    """The metrics of a server."""

    def __init__(self) -> None:
        """Create all metrics with the value zero."""
        self.registry = CollectorRegistry()
        requests: Any = {"registry": self.registry}
        queues: Any = {"labelnames": ("model",), "registry": self.registry}
        self._requests = Counter(
            "regard_requests", "Number of answered requests.", ("path", "status"), **requests
        )
        text = "Time in seconds from the first byte of a request to the end of its answer."
        self._seconds = Histogram("regard_request_seconds", text, ("path",), buckets=_SECONDS, **requests)
        self.waiting = Gauge("regard_waiting_sentences", "Number of sentences in the queue.", **queues)
        text = "Time in seconds that a sentence waited in the queue."
        self.waited = Histogram("regard_waited_seconds", text, buckets=_SECONDS, **queues)
        text, sizes = "Number of sentences in a batch.", (1, 2, 4, 8, 16, 32, 64, 128)
        self.batches = Histogram("regard_batch_sentences", text, buckets=sizes, **queues)
        text = "Time in seconds to process a batch."
        self.work = Histogram("regard_batch_seconds", text, buckets=_SECONDS, **queues)
        text = (
            "Number of sentences removed from the queue because of a disconnected client or the time limit."
        )
        self.freed = Counter("regard_freed_sentences", text, **queues)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request and its time."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class QueueMetrics:
    """Records the events of the queue of a model."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        """Create the metrics of one model."""
        self._waiting, self._waited = metrics.waiting.labels(model), metrics.waited.labels(model)
        self._batches, self._work = metrics.batches.labels(model), metrics.work.labels(model)
        self._freed = metrics.freed.labels(model)

    def waiting(self, count: int) -> None:
        """Record the current number of waiting sentences."""
        self._waiting.set(count)

    def batch_finished(self, size: int, waited: Sequence[float], seconds: float) -> None:
        """Record a finished batch: its size, the waiting time of each item and the run time, in seconds."""
        self._batches.observe(size)
        self._work.observe(seconds)
        for duration in waited:
            self._waited.observe(duration)

    def removed(self, count: int) -> None:
        """Count sentences whose requests were canceled."""
        self._freed.inc(count)
