"""Spans of runs for OpenTelemetry, if OTEL_EXPORTER_OTLP_ENDPOINT names a receiver; otherwise this does nothing.

The server's spans of a run's calls belong to the run's trace: each call names its span (W3C Trace Context).
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import httpx

from runners.errors import SettingsError

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def is_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    return any(environ.get(name) for name in ENDPOINTS) and environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def check() -> None:
    """Raises SettingsError if spans are enabled and the libraries are missing."""
    if is_wanted() and not find_spec("opentelemetry"):
        raise SettingsError(
            f"{ENDPOINTS[0]} is set, and OpenTelemetry is not installed: install opentelemetry-sdk and "
            "opentelemetry-exporter-otlp-proto-http, or unset it"
        )


@cache
def tracer() -> "Tracer | None":
    """The tracer of this process, made with its first span; None if spans are off."""
    if not is_wanted():
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "speedtrack-runner")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("speedtrack-runner")


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[None]:
    """A span around the block."""
    own = tracer()
    if own is None:
        yield
        return
    with own.start_as_current_span(name, attributes=attributes):
        yield


def name_span(request: httpx.Request) -> None:
    """A hook of the HTTP client that adds the current span to a call."""
    if tracer() is not None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(request.headers)
