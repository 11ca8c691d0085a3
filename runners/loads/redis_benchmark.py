"""redis-benchmark and valkey-benchmark: command line and report."""

import math
import re
import shlex

from runners.errors import BenchmarkFailed
from runners.loads.report import ToolReport, Workload, rate_and_latency
from runners.loads.target import Target

_CSV_LINE = re.compile(r'^"(?P<test>.*)"(?P<numbers>(?:,"[^",]*"){7})$')  # a suite's commands contain no quotes


def redis_benchmark_arguments(workload: Workload, target: Target) -> list[str]:
    command = ["-t", workload["test"]] if "test" in workload else _words(workload["commands"][0]["request"])
    options = {"-c": "clients", "-P": "pipeline", "-n": "requests"}
    counts = [argument for option, key in options.items() for argument in (option, str(workload[key]))]
    threads = ["--threads", str(workload["threads"])] if workload.get("threads", 1) > 1 else []
    sizes = ["-r", str(workload["keys"]["count"]), "-d", str(workload["values"]["bytes"])]
    return [*target.options, *counts, *threads, *sizes, "--csv", *command]


def _words(request: str | list[str]) -> list[str]:
    return shlex.split(request) if isinstance(request, str) else request


def read_redis_benchmark(text: str, workload: Workload) -> ToolReport:
    """The last line of the CSV of redis-benchmark 6.2 and later, or valkey-benchmark; its times are milliseconds."""
    lines = [match for line in text.splitlines() if (match := _CSV_LINE.match(line))]
    if len(lines) < 2 or lines[0]["test"] != "test":
        raise BenchmarkFailed(f"this is not the CSV of redis-benchmark 6.2 or later: {text.strip()[-200:]!r}")
    names = re.findall(r'"([^"]*)"', lines[0]["numbers"])
    numbers = dict(zip(names, re.findall(r'"([^"]*)"', lines[-1]["numbers"]), strict=True))
    try:
        rate, p50, p99 = (float(numbers[name]) for name in ("rps", "p50_latency_ms", "p99_latency_ms"))
    except (KeyError, ValueError) as error:
        raise BenchmarkFailed(f"redis-benchmark's CSV cannot be read ({error}): {lines[-1][0]}") from error
    if not math.isfinite(rate) or min(rate, p50, p99) <= 0:
        raise BenchmarkFailed(f"too short to be measured: raise requests ({lines[-1][0]})")
    return ToolReport(workload["requests"], rate_and_latency(rate, 1000 * p50, 1000 * p99))
