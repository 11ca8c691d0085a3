"""The keys of a workload that each external load generator supports; runners/loads/ writes the command lines.

A key that a tool does not support is an error; it is never ignored.
"""

from speedtrack.benchmarks.workloads import Workload

COMMON = {"test", "transport", "clients", "threads", "pipeline", "keys", "values", "prefill", "requests"}
KEYS = {"redis-benchmark": COMMON | {"commands"}, "memtier": COMMON | {"ttl_s"}}
TESTS = {
    "redis-benchmark": (
        "ping_inline",
        "ping_mbulk",
        "set",
        "get",
        "incr",
        "lpush",
        "rpush",
        "lpop",
        "rpop",
        "sadd",
        "hset",
        "spop",
        "zadd",
        "zpopmin",
        "mset",
    ),
    "memtier": ("get", "set"),
}
DISTRIBUTIONS = {"redis-benchmark": ("uniform",), "memtier": ("uniform", "sequential", "gaussian", "zipf")}


def check_external_driver(driver: str, workload: Workload) -> None:
    """Raise ValueError for a key or value of the workload that this tool does not support."""
    for key, field in Workload.model_fields.items():
        ignored = key in KEYS[driver] or key in ("warmup_s", "duration_s")
        if not ignored and getattr(workload, key) != field.default:
            raise ValueError(f"driver = {driver!r} does not support {key}: remove it, or use speedbench")
    if workload.requests is None or workload.warmup_s:
        raise ValueError(f"driver = {driver!r} sends a number of requests: use requests, without times")
    if workload.clients % (workload.threads or 1):
        raise ValueError(f"driver = {driver!r} needs as many clients on each thread: clients must divide by threads")
    if workload.keys.distribution not in DISTRIBUTIONS[driver]:
        distributions = ", ".join(DISTRIBUTIONS[driver])
        raise ValueError(
            f"driver = {driver!r} has no keys.distribution {workload.keys.distribution!r}: it has {distributions}"
        )
    if driver == "redis-benchmark":
        check_redis_benchmark(workload)
    check_tests(driver, workload)


def check_redis_benchmark(workload: Workload) -> None:
    if workload.values.bytes is None:
        raise ValueError('driver = "redis-benchmark" supports values of one size: use values.bytes')
    if workload.commands and (len(workload.commands) > 1 or workload.commands[0].request is None):
        raise ValueError('driver = "redis-benchmark" sends one command: give one request, or a test')


def check_tests(driver: str, workload: Workload) -> None:
    names = [test.partition(":")[0] for test in workload.test.split("+")] if workload.test else []
    for name in names:
        if name not in TESTS[driver]:
            raise ValueError(f"driver = {driver!r} has no test {name!r}: there are {', '.join(TESTS[driver])}")
    if driver == "redis-benchmark" and workload.test and (len(names) > 1 or ":" in workload.test):
        raise ValueError('driver = "redis-benchmark" has no mixes: name one test')
