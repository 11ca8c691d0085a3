"""Spans as an OpenTelemetry collector gets them, and that nothing of it is there where none is wanted."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from celery import Celery
from django.conf import settings as live_settings
from django.test import Client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from speedtrack.ground.observing import traces

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Collector:
    """What a collector would store: the spans that arrived, over HTTP."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def spans(self) -> dict[str, Any]:
        """By name."""
        own: Any = traces.tracer()
        own.span_processor.force_flush()
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        scopes = [scope for one in requests for resource in one.resource_spans for scope in resource.scope_spans]
        return {span.name: span for scope in scopes for span in scope.spans}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    traces.tracer.cache_clear()
    yield collector
    own: Any = traces.tracer()
    own.span_processor.shutdown()
    collector.server.shutdown()
    collector.server.server_close()
    traces.tracer.cache_clear()


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_a_request_is_a_span_without_its_query(client: Client, db: None, collector: Collector) -> None:
    client.get("/queue/?token=planted-secret", headers={"Authorization": "Bearer planted-secret", **CALLER})
    span = collector.spans()["GET queue"]
    assert attributes(span) == {
        "http.request.method": "GET",
        "http.route": "queue",
        "http.response.status_code": 200,
    }
    assert span.end_time_unix_nano > span.start_time_unix_nano
    assert span.trace_id.hex() != TRACE, "strangers do not choose the trace"
    assert b"planted" not in b"".join(collector.bodies)


def test_a_call_of_a_runner_belongs_to_the_trace_of_its_run(client: Client, db: None, collector: Collector) -> None:
    client.post("/api/runner/claim", b"{}", "application/json", headers=CALLER)
    span = collector.spans()["POST runner:claim"]
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)


@pytest.mark.parametrize("odd", ["", "00-0-0-00", "é", "x" * 10_000, f"00-{'0' * 32}-{PARENT}-01"])
def test_an_odd_caller_begins_a_trace_of_its_own(client: Client, db: None, collector: Collector, odd: str) -> None:
    client.post("/api/runner/claim", b"{}", "application/json", headers={"traceparent": odd})
    assert not collector.spans()["POST runner:claim"].parent_span_id


def test_a_task_is_a_span(db: None, collector: Collector) -> None:
    celery = Celery("test", broker="memory://", set_as_current=False)

    @celery.task(name="speedtrack.tasks.broken")
    def broken() -> None:
        raise ValueError

    broken.apply()
    assert attributes(collector.spans()["task broken"]) == {"outcome": "failed"}


def test_a_collector_that_is_away_disturbs_nothing(
    client: Client, db: None, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    traces.tracer.cache_clear()
    assert client.get("/queue/").status_code == 200


def test_without_an_endpoint_nothing_of_it_is_imported() -> None:
    words = (
        "import django, sys; django.setup()\n"
        "from speedtrack.ground.observing import traces\n"
        "with traces.span('x'): pass\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    environment = {"DJANGO_SETTINGS_MODULE": "speedtrack.settings", "SECRET_KEY": "k" * 40}
    done = subprocess.run(
        [sys.executable, "-c", words], cwd=live_settings.BASE_DIR, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    assert traces.lack() == ""
    monkeypatch.setattr(traces, "find_spec", lambda name: None)
    assert "pip install -r requirements-traces.txt" in traces.lack()
