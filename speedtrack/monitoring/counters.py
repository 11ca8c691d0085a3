"""The counts of one web server process for ``/metrics`` since its start."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

disable_created_metrics()  # type: ignore[no-untyped-call]

METHODS = ("GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE")

PROCESS = CollectorRegistry()
for kind in (ProcessCollector, PlatformCollector, GCCollector):
    kind(registry=PROCESS)

REQUESTS = Counter(
    "speedtrack_http_requests",
    "Requests that this web process has answered, by view, method and status.",
    ["view", "method", "status"],
    registry=PROCESS,
)
REQUEST_SECONDS = Histogram(
    "speedtrack_http_request_seconds",
    "Time from the arrival of a whole request to its answer, by view.",
    ["view"],
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 5),
    registry=PROCESS,
)
DELIVERIES = Counter(
    "speedtrack_deliveries",
    "Webhook calls that this web process has answered, by provider and result; none: no known signature header.",
    ["provider", "result"],
    registry=PROCESS,
)


def known_method(method: str | None) -> str:
    """The HTTP method as a label; unknown ones share a label, since clients may invent any number."""
    return method if method in METHODS else "other"
