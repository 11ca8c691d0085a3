"""The reports of other load generators."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runners.errors import BenchmarkFailed

Workload = Mapping[str, Any]


@dataclass(frozen=True)
class ToolReport:
    """The number of answered requests, and metrics by name: requests/s and microseconds."""

    requests: int
    metrics: dict[str, float]


def rate_and_latency(rate: float, p50_us: float, p99_us: float) -> dict[str, float]:
    return {"throughput_rps": rate, "latency_us_p50": p50_us, "latency_us_p99": p99_us}


def load_json(text: str, document: str) -> Any:
    """The content of a JSON report. Raises BenchmarkFailed."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BenchmarkFailed(f"{document} is no JSON ({error}): {text.strip()[:200]!r}") from error
