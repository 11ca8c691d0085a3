"""The words of the pages for what a metric did."""

from speedtrack.benchmarks.metrics import Metric


def effect(metric: Metric, worse: bool) -> str:
    """What a change of a metric means to its users."""
    if metric.unit == "bytes":
        return "more memory" if worse else "less memory"
    return "slower" if worse else "faster"
