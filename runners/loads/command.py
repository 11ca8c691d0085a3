"""A load generator that a suite names by its command line."""

import math
import re
import shlex
from pathlib import Path

from runners.errors import BenchmarkFailed
from runners.loads.report import ToolReport, parse_json
from runners.loads.target import Target

REPORT = "metrics.json"
METRICS = ("throughput_rps", "latency_us_p50", "latency_us_p99")  # that a command may report
_PLACEHOLDER = re.compile(r"\{(host|port|socket|output)\}")


def command_line(template: str, program: Path, target: Target) -> list[str]:
    """The words of the command with its placeholders filled. There is no shell: quotes group words, nothing else."""
    values = {
        "host": "127.0.0.1",
        "port": str(target.address.port),
        "socket": str(target.address.socket_path),
        "output": str(target.directory / REPORT),
    }
    words = shlex.split(template)[1:]
    return [str(program), *(_PLACEHOLDER.sub(lambda match: values[match[1]], word) for word in words)]


def read_command_report(text: str) -> ToolReport:
    """The JSON that the command wrote: `requests`, and metrics by their names. Raises BenchmarkFailed, Permanent."""
    fields = parse_json(text, "the command's output")
    unknown = sorted(set(fields.value) - {"requests", *METRICS})
    if unknown:
        raise BenchmarkFailed(
            f"the command reports {unknown[0]!r}: a command may report requests, {', '.join(METRICS)}"
        )
    metrics = {name: fields.number(name) for name in METRICS if name in fields.value}
    wrong = [name for name, number in metrics.items() if not (math.isfinite(number) and number > 0)]
    if wrong:
        raise BenchmarkFailed(f"the command's output: {wrong[0]} must be above 0")
    return ToolReport(fields.count("requests"), metrics)
