"""Digests of benchmarks: they cover everything that affects the meaning of a result, and nothing else."""

import hashlib
import json
from typing import Any

from pydantic import BaseModel

from speedtrack.benchmarks.definitions import SECTIONS

Content = dict[str, Any]  # a section or a whole suite as JSON, as it is stored

#: Per section, the keys that digests include even with their default. All other keys are left out while they have their
#: default, so that a new key does not change stored digests. Never add to this table or change a default.
ALWAYS_INCLUDED = {
    "build": {"environment"},
    "server": {"listen"},
    "benchmark": {"driver"},
    "workload": {"transport", "clients", "pipeline", "window", "keys", "values", "prefill", "expect", "verify", "mode"},
    "commands": {"weight"},
    "sequence": {"times"},
    "setup": {"times"},
    "keys": {"count", "distribution"},
    "probe": {"clients", "rate"},
    "replay": {"speed"},
}
#: Per section, the keys that digests never include: a recording is known by its digest, whatever its file is called.
NEVER_INCLUDED = {"replay": {"file"}}


def json_digest(value: Any) -> str:
    """``sha256:`` and the SHA-256 of the value as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def benchmark_meaning(content: Content, section: Content) -> Content:
    """Everything that affects the meaning of a benchmark's results, so neither its name nor its ``why``.

    ``content`` is a whole definition, stored by any version, and ``section`` one of its benchmarks. The driver's digest
    belongs to the Environment: each machine has its own binary of the driver, so a benchmark would have another
    identity on each machine.
    """
    own: Content = {key: section[key] for key in ("driver", "workload", "command") if key in section}
    meaning = canonical_section("benchmark", own)
    if reference := rate_reference(content, section):
        meaning["rate_of"] = json_digest(benchmark_meaning(content, reference))
    server = {key: value for key, value in content["server"].items() if key != "ready_timeout_s"}
    return meaning | {"server": canonical_section("server", server), "build": build_meaning(content)}


def rate_reference(content: Content, section: Content) -> Content | None:
    """The section of the benchmark whose throughput determines this one's rate; None if none does."""
    rate = (section.get("workload") or {}).get("rate")
    return (
        next(benchmark for benchmark in content["benchmark"] if benchmark["name"] == rate["of"])
        if isinstance(rate, dict)
        else None
    )


def build_meaning(content: Content) -> Content:
    """The parts of a stored definition's build section that affect results.

    Layouts that only pairs measure do not affect the points of a line.
    """
    without = {"timeout_s", "trust"}
    if (content["build"].get("layouts") or {}).get("trials") != "layouts":
        without.add("layouts")
    build = {key: value for key, value in content["build"].items() if key not in without}
    return canonical_section("build", build | {"artifacts": sorted(build["artifacts"])})


def canonical_section(name: str, content: Content) -> Content:
    """A section for digests: without absent values, defaults not in ALWAYS_INCLUDED, and keys in NEVER_INCLUDED."""
    defaults = defaults_of(SECTIONS[name])
    always, never = ALWAYS_INCLUDED.get(name, set()), NEVER_INCLUDED.get(name, set())
    included = {
        key: value
        for key, value in content.items()
        if value is not None and key not in never and (key in always or key not in defaults or value != defaults[key])
    }
    return {key: canonical_value(key, value) for key, value in included.items()}


def canonical_value(key: str, value: Any) -> Any:
    """The value of a key for digests; nested sections are reduced as well."""
    if isinstance(value, list):
        return [canonical_value(key, item) for item in value]
    return canonical_section(key, value) if key in SECTIONS and isinstance(value, dict) else value


def defaults_of(section: type[BaseModel]) -> Content:
    """The defaults of a section's keys, in stored form."""
    defaults = {name: field.default for name, field in section.model_fields.items() if not field.is_required()}
    return {name: value.model_dump() if isinstance(value, BaseModel) else value for name, value in defaults.items()}


def benchmark_digests(content: Content) -> dict[str, str]:
    """The digest of each benchmark of a stored definition, by its name."""
    return {section["name"]: json_digest(benchmark_meaning(content, section)) for section in content["benchmark"]}
