"""A benchmark's workload in one line: which requests, over which connections, at which rate."""

from typing import Any

from speedtrack.benchmarks.models import Benchmark
from speedtrack.benchmarks.numbers import unit_scale
from speedtrack.runs.models import ReferenceRate


def workload_text(benchmark: Benchmark) -> str:
    """As ``GET, 50 connections, pipeline 16, unix socket, 100 000 keys (zipf), values of 32 B``."""
    definition = benchmark.definition
    driver = definition.get("driver", "speedbench")
    by = f"by {driver}" if driver != "speedbench" else ""
    if "command" in definition:
        return f"{definition['command']}, {by}"
    if "outside" in definition:
        parameters = [f"{name} {value}" for name, value in definition["outside"]["parameters"].items()]
        return ", ".join(["measured elsewhere", *parameters])
    if "workload" not in definition:  # the benchmark of the build
        return str(definition["build"].get("command") or "by a Dockerfile")
    workload = definition["workload"]
    return ", ".join(
        text for text in (requests_text(workload), *shape_texts(workload), pace_text(workload), by) if text
    )


def requests_text(workload: dict[str, Any]) -> str:
    """The names of the requests: a mix with its weights, a sequence in its order."""
    if workload.get("replay"):
        return "recorded traffic"
    if test := workload.get("test"):
        return str(test).upper().replace("+", " + ").replace(":", " × ")
    if sequence := workload.get("sequence"):
        return " then ".join(counted_text(item, item.get("times", 1)) for item in sequence)
    commands = workload.get("commands", [])
    several = len(commands) > 1
    return " + ".join(counted_text(item, item.get("weight", 1) if several else 1) for item in commands)


def counted_text(item: dict[str, Any], count: int) -> str:
    request = item.get("request") or item.get("test") or ""
    arguments = request.split() if isinstance(request, str) else request
    name = item.get("name") or " ".join(arguments[:1])
    return f"{name} × {count}" if count > 1 else str(name)


def shape_texts(workload: dict[str, Any]) -> list[str]:
    """Connections, pipeline, transport, keys and values, without the defaults."""
    clients, pipeline, keys = workload["clients"], workload["pipeline"], workload.get("keys", {})
    distribution = keys.get("distribution", "uniform")
    count = keys.get("count", 1)
    values = "" if workload.get("replay") else value_sizes_text(workload.get("values", {}))
    return [
        f"{clients} connection{'s' if clients > 1 else ''}",
        f"pipeline {pipeline}" if pipeline > 1 else "",
        "unix socket" if workload.get("transport", "unix") == "unix" else "TCP",
        f"{count:,} keys".replace(",", "\N{NO-BREAK SPACE}")
        + (f" ({distribution})" if distribution != "uniform" else "")
        if count > 1
        else "",
        values,
    ]


def value_sizes_text(values: dict[str, Any]) -> str:
    if "bytes" in values:
        return f"values of {values['bytes']} B"
    if "range" in values:
        low, high = values["range"]
        return f"values of {low} to {high} B"
    return "values of several sizes" if values else ""


def pace_text(workload: dict[str, Any]) -> str:
    """The rate of an open loop and how its requests arrive, or the pace of a recording; empty for a closed loop."""
    if replay := workload.get("replay"):
        speed = replay.get("speed", 1.0)
        return "as fast as the server answers" if speed == "fast" else f"at {speed:g} times its pace"
    if workload.get("mode", "closed") == "closed":
        return ""
    rate = workload["rate"]
    of = (
        f"{100 * rate['share']:g}% of {rate['of']}"
        if isinstance(rate, dict)
        else unit_scale("requests/s", rate).text(rate)
    )
    return f"open loop at {of}" + (", Poisson arrivals" if workload.get("arrivals") == "poisson" else "")


def reference_rates(benchmark: Benchmark, machines: list[str]) -> list[tuple[str, str, ReferenceRate]]:
    """(machine, rate, reference) if the rate is a share of another benchmark's; else empty."""
    rate = benchmark.definition.get("workload", {}).get("rate")
    if not isinstance(rate, dict):
        return []
    rows = ReferenceRate.objects.filter(
        machine__name__in=machines,
        benchmark__project=benchmark.project_id,
        benchmark__name=rate["of"],
        benchmark__digest=benchmark.definition["rate_of"],
    ).select_related("machine", "measurement__attempt", "measurement__commit")
    return [(row.machine.name, rate_text(row.rps * rate["share"]), row) for row in rows.order_by("machine__name")]


def rate_text(rps: float) -> str:
    return unit_scale("requests/s", rps).text(rps)
