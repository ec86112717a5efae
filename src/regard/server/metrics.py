"""What a server counts, for Prometheus, in a registry of its own."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from regard.server.batcher import Watcher

__all__ = ["Metrics", "QueueMetrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.4, 0.75, 1.5, 3, 6, 12, 30)


class Metrics:
    """The counts of a server."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "regard_requests", "Answers given.", ("path", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "regard_request_seconds",
            "From a request's first byte to the end of its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.waiting = Gauge(
            "regard_waiting_sentences", "Sentences in a queue.", ("model",), registry=self.registry
        )
        self.waited = Histogram(
            "regard_waited_seconds",
            "How long sentences were in a queue.",
            ("model",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.batches = Histogram(
            "regard_batch_sentences",
            "Sentences of a batch.",
            ("model",),
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            registry=self.registry,
        )
        self.work = Histogram(
            "regard_batch_seconds",
            "How long a batch takes.",
            ("model",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.freed = Counter(
            "regard_freed_sentences",
            "Sentences taken out of a queue because their client went away or their time was over.",
            ("model",),
            registry=self.registry,
        )

    def answered(self, path: str, status: int, seconds: float) -> None:
        """An answer is out."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)


class QueueMetrics(Watcher):
    """Counts what happens in the queue of a model."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        """Begin at zero."""
        self._waiting, self._waited = metrics.waiting.labels(model), metrics.waited.labels(model)
        self._batches, self._work = metrics.batches.labels(model), metrics.work.labels(model)
        self._freed = metrics.freed.labels(model)

    def waiting(self, count: int) -> None:
        """So many sentences wait now."""
        self._waiting.set(count)

    def batch(self, size: int, waited: Sequence[float], seconds: float) -> None:
        """A batch is done."""
        self._batches.observe(size)
        self._work.observe(seconds)
        for one in waited:
            self._waited.observe(one)

    def freed(self, count: int) -> None:
        """So many sentences were taken out."""
        self._freed.inc(count)
