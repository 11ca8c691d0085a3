"""A load generator that a suite names by its command line."""

import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from runners.documents import STRICT, Count, parse
from runners.errors import BenchmarkFailed
from runners.loads.report import ToolReport, load_json
from runners.loads.target import Target

REPORT = "metrics.json"
_PLACEHOLDER = re.compile(r"\{(host|port|socket|output)\}")
_Positive = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, config=STRICT)
class _CommandReport:
    """The fields that a command may report."""

    requests: Count
    throughput_rps: _Positive | None = None
    latency_us_p50: _Positive | None = None
    latency_us_p99: _Positive | None = None


def command_line(template: str, program: Path, target: Target) -> list[str]:
    """The words of the command with its placeholders filled. There is no shell: quotes group words, nothing else."""
    values = {
        "host": "127.0.0.1",
        "port": str(target.address.port),
        "socket": str(target.address.socket_path),
        "output": str(target.directory / REPORT),
    }
    arguments = shlex.split(template)[1:]
    return [str(program), *(_PLACEHOLDER.sub(lambda match: values[match[1]], argument) for argument in arguments)]


def read_command_report(text: str) -> ToolReport:
    """The JSON that the command wrote: `requests`, and metrics by their names. Raises BenchmarkFailed, Permanent."""
    document = "the command's output"
    content = load_json(text, document)
    report = asdict(parse(_CommandReport, content, document))
    unknown = sorted(content.keys() - report.keys())
    if unknown:
        raise BenchmarkFailed(f"the command reports {unknown[0]!r}: a command may report {', '.join(report)}")
    requests = report.pop("requests")
    return ToolReport(requests, {name: value for name, value in report.items() if value is not None})
