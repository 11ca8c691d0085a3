"""Webhook deliveries as large as forges send them, to a web server of their own."""

import hashlib
import hmac
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx

from research.scale.costs.claimers import cpu_ms, web_server
from research.scale.costs.meter import Cost
from speedtrack.projects.models import Delivery, Project

DELIVERIES = 10  # more than the web server has threads, as each may keep what it took
MEGABYTE = 1_000_000
BYTES = 25 * MEGABYTE  # GitHub's limit
MARK = "bench-large-"


def signed(project: Project, event: str, name: str, body: bytes) -> dict[str, str]:
    """The headers of a call of GitHub."""
    key = project.hook_secret.reveal().encode()
    return {
        "content-type": "application/json",
        "x-github-event": event,
        "x-github-delivery": name,
        "x-hub-signature-256": f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}",
    }


def large_body(number: int) -> bytes:
    """A push of tens of thousands of commits."""
    commits: list[dict[str, Any]] = []
    size = 0
    while size < BYTES - 2000:
        sha = hashlib.sha256(f"{number} {len(commits)}".encode()).hexdigest()[:40]
        commits.append(
            {"id": sha, "message": f"Change {sha[:7]}", "added": [f"src/{sha[:9]}/{n}.c" for n in range(40)]}
        )
        size += len(json.dumps(commits[-1])) + 2
    return json.dumps({"ref": "refs/heads/main", "commits": commits}).encode()


def deliver_large(project: Project) -> tuple[Cost, float]:
    """What such a delivery costs the web server, and the most memory that it has held, in MB. Everything is undone."""
    clock = []
    with web_server() as (port, pid), httpx.Client(timeout=60) as client:
        address = f"http://127.0.0.1:{port}/hooks/{project.hook_id}"
        web_ms = 0.0
        for number in range(DELIVERIES):
            body = large_body(number)
            headers = signed(project, "push", f"{MARK}{number}", body)
            before, began_at = cpu_ms(pid), perf_counter()
            answer = client.post(address, content=body, headers=headers)
            clock.append(1000 * (perf_counter() - began_at))
            web_ms += cpu_ms(pid) - before
            assert answer.json() == {"status": "received"}, answer.text
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    Delivery.objects.filter(project=project, delivery_id__startswith=MARK).delete()
    return Cost(clock, web_ms, 0, 0), int(status["VmHWM"].split()[0]) * 1024 / MEGABYTE
