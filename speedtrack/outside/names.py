"""The names of results from outside, adapted to addresses, and the definitions behind their digests."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from speedtrack.benchmarks.digests import json_digest
from speedtrack.benchmarks.models import LONGEST_NAME

LONGEST_MACHINE = 50  # as Machine.name
SEPARATORS = re.compile(r"::|[/:@\\]")  # addresses of lines use them


def benchmark_name(name: str, parameters: Mapping[str, Any]) -> str:
    """``name (key=value, ...)``, in which a dot replaces each separator of addresses.

    A name too long to be stored ends with a digest of the whole instead of its end.
    """
    pairs = ", ".join(f"{key}={shown(value)}" for key, value in parameters.items())
    full_name = SEPARATORS.sub(".", f"{name} ({pairs})" if pairs else name)
    if len(full_name) <= LONGEST_NAME:
        return full_name
    digest = blake2b(full_name.encode(), digest_size=4).hexdigest()
    return f"{full_name[: LONGEST_NAME - len(digest) - 1]}~{digest}"


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def fault_of_benchmark(name: str) -> str:
    """Why a benchmark cannot have this name; empty if it can."""
    return "a name has more than dots" if not name.strip(". ") else ""


def benchmark_definition(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The definition of a benchmark from outside, from which its digest is computed.

    It replaces the workload of a suite's benchmark.
    """
    return {"outside": {"name": name, "parameters": dict(parameters)}}


def benchmark_digest(name: str, parameters: Mapping[str, Any]) -> str:
    return json_digest(benchmark_definition(name, parameters))


def machine_name(name: str) -> str:
    """The name of a machine in the characters of addresses; empty if none remain."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:LONGEST_MACHINE].strip("-")
