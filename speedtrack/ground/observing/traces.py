"""Spans of requests and tasks for OpenTelemetry, if OTEL_EXPORTER_OTLP_ENDPOINT is set; otherwise nothing.

Its libraries are in requirements-traces.txt, and are imported only then. All its settings (``OTEL_...``) apply.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def is_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    return any(environ.get(name) for name in ENDPOINTS) and environ.get("OTEL_SDK_DISABLED", "").lower() != "true"


def lack() -> str:
    """Why spans are enabled but cannot be sent; empty if nothing is missing."""
    if not is_wanted() or find_spec("opentelemetry"):
        return ""
    return f"{ENDPOINTS[0]}: OpenTelemetry is not installed: `pip install -r requirements-traces.txt`, or unset it"


@cache
def tracer() -> "Tracer | None":
    """Return the tracer of this process, made at its first use; None if spans are off."""
    if not is_wanted():
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "speedtrack")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("speedtrack")


@contextmanager
def span(name: str, caller: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """A span around the block. ``caller``: headers that may name the caller's span.

    Yields a dictionary to fill with attributes; ``name`` in it renames the span.
    """
    attributes: dict[str, Any] = {}
    own = tracer()
    if own is None:
        yield attributes
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {key.lower(): value for key, value in (caller or {}).items()}
    context = TraceContextTextMapPropagator().extract(carrier) if carrier else None
    with own.start_as_current_span(name, context=context, record_exception=False) as current:
        try:
            yield attributes
        finally:
            current.update_name(attributes.pop("name", name))
            current.set_attributes(attributes)
