"""Numbers for Prometheus. No label holds an id, a name that somebody gave, or any other text of users."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

import ragforge
from ragforge.app import Ragforge
from ragforge.operate.counters import BOUNDS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ELSE = "other"
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WS"}
_PLAIN = {
    "files": "Files that were taken in",
    "chunks": "Chunks that were taken in",
    "embedding_calls": "Calls of embedders",
    "searches": "Searches",
    "provider_calls": "Requests to language models, second tries too",
}
_OUTCOMES = ("answered", "abstained", "failed")


class Metrics:
    """What this process counts, as a page; `shared` is what all workers see alike."""

    def __init__(self, forge: Ragforge) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a date for each row, which nobody asks for
        self.own = CollectorRegistry()
        self.shared = CollectorRegistry()
        self.own.register(_Done(forge))
        self.shared.register(_Queue(forge))
        ProcessCollector(registry=self.own)
        self._requests = Counter(
            "ragforge_http_requests",
            "Requests by route, method and status",
            ("route", "method", "status"),
            registry=self.own,
        )
        self._seconds = Histogram(
            "ragforge_http_request_seconds",
            "Until an answer began",
            ("route", "method"),
            buckets=BOUNDS,
            registry=self.own,
        )
        self.at_work = Gauge("ragforge_http_requests_at_work", "Requests that wait for their answer", registry=self.own)
        self.streams = Gauge("ragforge_open_streams", "Streams and WebSockets that are open", registry=self.own)
        self._refused = Counter("ragforge_http_overload", "Requests that were sent away", registry=self.own)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """One request has its answer. `route` is a template of ours; a method of a client's invention has no row."""
        known = method if method in _METHODS else _ELSE
        self._requests.labels(route or _ELSE, known, str(status)).inc()
        self._seconds.labels(route or _ELSE, known).observe(seconds)

    def overloaded(self) -> None:
        self._refused.inc()

    def own_page(self) -> str:
        return generate_latest(self.own).decode()

    def page(self, number: int = 0, others: Mapping[int, str] | None = None) -> str:
        """All of it. Where there are several workers, this is the one with `number`; `others` are their own pages."""
        own = together({number: self.own_page(), **(others or {})}) if number else self.own_page()
        return own + generate_latest(self.shared).decode()


def together(pages: Mapping[int, str]) -> str:
    """The pages of several workers as one, in which each row says whose it is.

    Sums would fall when a worker is replaced, and Prometheus would count all that the others did once more.
    """
    families: dict[str, Metric] = {}
    for number, page in sorted(pages.items()):
        for family in text_string_to_metric_families(page):
            whole = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                whole.add_sample(sample.name, {**sample.labels, "worker": str(number)}, sample.value)
    registry = CollectorRegistry()
    registry.register(_Given(list(families.values())))
    return generate_latest(registry).decode()


class _Given(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


class _Done(Collector):
    """What was done in this process, through whichever surface."""

    def __init__(self, forge: Ragforge) -> None:
        self._counters = forge.measured()
        model = forge.settings.model
        self._models = {model.name, model.cheap, model.balanced, model.premium} - {""}

    def collect(self) -> Iterator[Metric]:
        counts = self._counters.all()
        for name, told in _PLAIN.items():
            yield CounterMetricFamily(f"ragforge_{name}", told, value=counts[name])
        answers = CounterMetricFamily("ragforge_answers", "Questions by how they ended", labels=["outcome"])
        for outcome in _OUTCOMES:
            answers.add_metric([outcome], counts[outcome])
        yield answers
        for what, durations in self._counters.durations().items():
            bounds = [*map(str, BOUNDS), "+Inf"]
            upto = [(bound, float(sum(durations.counts[: place + 1]))) for place, bound in enumerate(bounds)]
            family = HistogramMetricFamily(f"ragforge_{what}_seconds", f"How long it took to {what}")
            family.add_metric([], upto, durations.seconds)
            yield family
        yield from self._spent()
        yield GaugeMetricFamily("ragforge_threads", "Threads of the process", value=threading.active_count())
        yield InfoMetricFamily("ragforge_build", "What runs", value={"version": ragforge.__version__})

    def _spent(self) -> Iterator[Metric]:
        """By the models of the settings; one that a caller named is among the others."""
        tokens = CounterMetricFamily("ragforge_tokens", "Tokens of language models", labels=["model", "direction"])
        cost = CounterMetricFamily("ragforge_cost_dollars", "Where a price is known", labels=["model"])
        sums: dict[str, tuple[int, int, float]] = {}
        for name, usage in self._counters.usage().items():
            label = name if name in self._models else _ELSE
            into, out, dollars = sums.get(label, (0, 0, 0.0))
            sums[label] = into + usage.input_tokens, out + usage.output_tokens, dollars + float(usage.cost or 0)
        for label, (into, out, dollars) in sums.items():
            tokens.add_metric([label, "in"], into)
            tokens.add_metric([label, "out"], out)
            cost.add_metric([label], dollars)
        yield tokens
        yield cost


class _Queue(Collector):
    """Read from the catalog, which all workers share."""

    def __init__(self, forge: Ragforge) -> None:
        self._forge = forge

    def collect(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("ragforge_jobs", "Long work by kind and state", labels=["kind", "state"])
        for (kind, state), number in sorted(self._forge.queue().items()):
            jobs.add_metric([kind, state], number)
        yield jobs
