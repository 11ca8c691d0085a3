"""A run as spans: its phases, and the headers by which the server's spans join its trace."""

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from runners import traces
from runners.errors import SettingsError
from runners.tests.api import Api
from runners.tests.conftest import SHA, make_job
from runners.work.agent import Agent


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "tracer", lambda: provider.get_tracer("test"))
    return exporter


def test_a_run_is_one_trace(api: Api, agent: Agent, spans: InMemorySpanExporter) -> None:
    api.jobs = [make_job()]
    agent.work()
    found = {span.name: span for span in spans.get_finished_spans()}
    run = found["run: push"]
    assert run.attributes == {"run": 17, "attempt": 1, "project": "tiny"}
    assert found["build"].attributes == {"side": "head", "sha": SHA}
    for phase in ("build", "measure"):
        assert found[phase].parent and found[phase].parent.span_id == run.context.span_id


def test_the_server_is_told_the_span(spans: InMemorySpanExporter) -> None:
    request, outside = httpx.Request("POST", "http://x/"), httpx.Request("POST", "http://x/")
    with traces.span("run"):
        traces.name_span(request)
    traces.name_span(outside)
    (run,) = spans.get_finished_spans()
    told, _, flags = request.headers["traceparent"].rpartition("-")  # of the flags, the lowest bit says: sampled
    assert told == f"00-{run.context.trace_id:032x}-{run.context.span_id:016x}" and int(flags, 16) & 1
    assert "traceparent" not in outside.headers


def test_without_an_endpoint_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    traces.tracer.cache_clear()
    request = httpx.Request("POST", "http://x/")
    with traces.span("run"):
        traces.name_span(request)
    assert "traceparent" not in request.headers


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    traces.check()
    monkeypatch.setattr(traces, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="install opentelemetry-sdk"):
        traces.check()
