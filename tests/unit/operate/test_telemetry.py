"""Spans are sent if they are wanted, and belong to the request that brought them; else nothing is even imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragforge.operate import telemetry


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    telemetry.begin_with(SimpleSpanProcessor(exporter))
    yield exporter
    telemetry.end()


def test_spans_below_spans(exported: InMemorySpanExporter) -> None:
    with telemetry.span("request", method="GET"):
        telemetry.fact("request.id", "0123")
        with telemetry.span("search"):
            pass
        with telemetry.aside("provider call", model="openai:m"):
            pass
        telemetry.stages("ask", {"retrieve": 20.0, "answer": 30.0}, trace="t")
    spans = {span.name: span for span in exported.get_finished_spans()}
    assert set(spans) == {"request", "search", "provider call", "ask", "ask retrieve", "ask answer"}
    request, ask = spans["request"], spans["ask"]
    assert dict(request.attributes or {}) == {"method": "GET", "request.id": "0123"}
    for name in ("search", "provider call", "ask"):
        assert spans[name].parent == request.context
    for name in ("ask retrieve", "ask answer"):
        assert spans[name].parent == ask.context
    assert ask.end_time and ask.start_time and (ask.end_time - ask.start_time) == 50_000_000
    assert spans["ask answer"].start_time == spans["ask retrieve"].end_time


def test_what_an_exception_says_is_not_sent(exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError), telemetry.span("search"):
        raise ValueError("a sentence of a document")
    (span,) = exported.get_finished_spans()
    assert not span.status.is_ok and "sentence" not in span.to_json()


def test_nothing_is_imported_unless_it_is_wanted() -> None:
    script = """
import sys
from ragforge.operate import telemetry
assert telemetry.begin({}) == ""
with telemetry.span("a"), telemetry.aside("b"):
    telemetry.fact("c", 1)
telemetry.stages("d", {"e": 1.0})
assert not any(name.startswith("opentelemetry") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_EXPORTERS", ("opentelemetry_that_is_not_there.exporter",))
    assert 'pip install "ragforge[otel]"' in telemetry.begin({telemetry.ENDPOINT: "http://localhost:4318"})
