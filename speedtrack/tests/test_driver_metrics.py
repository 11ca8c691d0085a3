"""The metrics that the load driver serves while it runs, as Prometheus' own library reads them."""

import json
import subprocess
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from runners.tests.broker_servers import Valkey, until
from runners.tests.ports import free_port
from speedtrack.processes.devstack import BASE_DIR

DRIVER = BASE_DIR / "runners" / "driver" / "target" / "release" / "speedbench"
LOAD = ["-t", "get:9+set:1", "-c", "4", "--warmup", "0", "--duration", "4", "--json"]


def metric_families(port: int) -> dict[str, Metric]:
    """The families of metrics at the port by their names; none while nobody listens."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
    except URLError:
        return {}


def value(family: Metric, name: str, **labels: str) -> float:
    [sample] = [sample for sample in family.samples if sample.name == name and sample.labels == labels]
    return float(sample.value)


def test_the_parser_of_prometheus_reads_what_the_driver_serves(tmp_path: Path) -> None:
    port, families = free_port(), {}

    def has_begun() -> bool:
        families.update(metric_families(port))
        requests = families.get("speedbench_requests")
        return bool(requests and requests.samples and requests.samples[0].value > 0)

    with Valkey(tmp_path) as server:
        command = [str(DRIVER), "run", "-s", str(server.socket), *LOAD, "--prometheus", f"127.0.0.1:{port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
            until(has_begun, "the load begins")
            result, _ = driver.communicate()
    kinds = {name.removeprefix("speedbench_"): family.type for name, family in families.items()}
    assert kinds == {
        "requests": "counter",
        "errors": "counter",
        "bytes": "counter",
        "reconnects": "counter",
        "connections": "gauge",
        "latency_seconds": "histogram",
    }
    assert all(family.documentation for family in families.values())
    requests = value(families["speedbench_requests"], "speedbench_requests_total", test="get:9+set:1")
    latency = families["speedbench_latency_seconds"]
    for command_name in ("get", "set"):
        labels = {"test": "get:9+set:1", "command": command_name}
        count = value(latency, "speedbench_latency_seconds_count", **labels)
        assert value(latency, "speedbench_latency_seconds_bucket", **labels, le="+Inf") == count > 0
        mean_s = value(latency, "speedbench_latency_seconds_sum", **labels) / count
        assert 1e-6 < mean_s < 10
    assert driver.returncode == 0
    assert json.loads(result)["tests"][0]["requests"] >= requests > 0
