"""Spans for OpenTelemetry, if `OTEL_EXPORTER_OTLP_ENDPOINT` is set and its packages are installed; else nothing."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_EXPORTERS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
)
_MILLION = 1_000_000

_tracer: Any = None


def begin(environment: Mapping[str, str] = os.environ) -> str:
    """Send spans from now on, if that is wanted. Returns what is missing for it, in words; empty if nothing is."""
    if not environment.get(ENDPOINT):
        return ""
    found = next((name for name in _EXPORTERS if _is_there(name)), None)
    if found is None or not _is_there("opentelemetry.sdk.trace"):
        return f'{ENDPOINT} is set, but not what it takes: pip install "ragforge[otel]"'
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    begin_with(BatchSpanProcessor(importlib.import_module(found).OTLPSpanExporter()))
    return ""


def begin_with(processor: Any) -> None:
    """Hand every span to this processor."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    global _tracer
    provider = TracerProvider(
        resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "ragforge")})
    )
    provider.add_span_processor(processor)
    _tracer = provider.get_tracer("ragforge")


def end() -> None:
    global _tracer
    _tracer = None


@contextmanager
def span(name: str, **facts: str | int | float) -> Iterator[None]:
    """Everything that is done meanwhile belongs to it. The facts hold no text of users."""
    if _tracer is None:
        yield
        return
    with _tracer.start_as_current_span(
        name, attributes=facts, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield
        except BaseException as problem:  # what it says may hold text of a document
            from opentelemetry.trace import Status, StatusCode

            current.set_status(Status(StatusCode.ERROR, type(problem).__name__))
            raise


@contextmanager
def aside(name: str, **facts: str | int | float) -> Iterator[None]:
    """The same for work that goes on in steps, each perhaps in another thread: nothing begins below it."""
    if _tracer is None:
        yield
        return
    begun = _tracer.start_span(name, attributes=facts)
    try:
        yield
    finally:
        begun.end()


def fact(name: str, value: str | int) -> None:
    """Something that is learned of the current span while it lasts."""
    if _tracer is not None:
        from opentelemetry import trace

        trace.get_current_span().set_attribute(name, value)


def stages(name: str, timings: Mapping[str, float], **facts: str | int | float) -> None:
    """Work that has ended, and its stages: milliseconds of each, one after the other."""
    if _tracer is None:
        return
    from opentelemetry import trace

    began = time.time_ns() - int(sum(timings.values()) * _MILLION)
    whole = _tracer.start_span(name, start_time=began, attributes=facts)
    for stage, milliseconds in timings.items():
        ended = began + int(milliseconds * _MILLION)
        each = _tracer.start_span(f"{name} {stage}", trace.set_span_in_context(whole), start_time=began)
        each.end(ended)
        began = ended
    whole.end(began)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
