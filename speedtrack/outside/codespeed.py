"""Results from clients of Codespeed (``/result/add/``), converted into rows of a batch.

docs/results-from-outside.md has a table. The answers are Codespeed's own texts, because scripts look for them.
"""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.ground.texts.text import UNSTORABLE, storable
from speedtrack.outside import names
from speedtrack.outside.document import SCHEMA
from speedtrack.projects.models import Project
from speedtrack.runs.models import Series

REQUIRED = ("commitid", "branch", "project", "executable", "benchmark", "environment", "result_value")
DESCRIBING = ("units", "units_title", "lessisbetter")  # of a benchmark; often only its first result has them
SPREAD, ENDS = ("std_dev", "q1", "q3"), ("min", "max")
UNITS = {"seconds": "s", "second": "s", "sec": "s", "secs": "s", "milliseconds": "ms", "microseconds": "µs"}
UNITS |= {"nanoseconds": "ns", "byte": "bytes"}
SAVED = "Result data saved successfully"
ALL_SAVED = "All result data saved successfully"
NO_JSON = "No key 'json' in POST payload"
MOST_RESULTS = 10_000


Row = dict[str, Any]
#: By the index of a result in the request, from 0: why it is not stored.
Faults = dict[int, str]


class BadResult(Exception):
    """The request is refused with this text."""


def results_of(text: str) -> list[dict[str, Any]]:
    """The results in the field ``json``. Raises BadResult."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise BadResult(f"The value of 'json' is not JSON: {str(e)[:200]}") from e
    if not isinstance(items, list):
        raise BadResult("The value of 'json' must be a list of objects")
    if len(items) > MOST_RESULTS:
        raise BadResult(f"{len(items)} results: send at most {MOST_RESULTS} at once")
    return [item if isinstance(item, dict) else {} for item in items]  # `check` reports what such a result lacks


def check(item: Mapping[str, Any]) -> None:
    """Raise BadResult with Codespeed's words if a field is missing or empty."""
    for key in REQUIRED:
        if key not in item:
            raise BadResult(f'Key "{key}" missing from request')
        if item[key] == "":
            raise BadResult(f'Value for key "{key}" empty in request')
    for key, value in item.items():
        if UNSTORABLE.search(f"{key}{value}"):
            raise BadResult(f'Value for key "{storable(key)}" has a character that cannot be stored')


def rows_of(project: Project, items: Mapping[int, Mapping[str, Any]]) -> tuple[dict[int, Row], Faults]:
    """By index in the request: the rows of one project's results, and the faults of results without a row."""
    metric_keys = metrics_known(project, items.values())
    rows: dict[int, Row] = {}
    faults: Faults = {}
    for index, item in items.items():
        try:
            rows[index] = row_of(item, metric_keys)
        except BadResult as e:
            faults[index] = str(e)
    return rows, faults


def batch_document(rows: Iterable[Row]) -> dict[str, Any]:
    return {"schema": SCHEMA, "tool": "codespeed", "results": list(rows)}


def row_of(item: Mapping[str, Any], metric_keys: Mapping[str, str]) -> dict[str, Any]:
    """The row of a batch for one result.

    ``metric_keys``: by benchmark digest, the key of the metric that its results have.
    """
    value = number_of(item, "result_value")
    parameters = parameters_of(item)
    key = metric_keys.get(names.benchmark_digest(str(item["benchmark"]), parameters))
    low, high = (number_of(item, name) if has_value(item, name) else None for name in ENDS)
    has_interval = low is not None and high is not None and 0 <= low <= value <= high
    spread = {name: str(item[name]) for name in (*SPREAD, *(() if has_interval else ENDS)) if has_value(item, name)}
    row: dict[str, Any] = {
        "commit": str(item["commitid"]),
        "machine": str(item["environment"]),
        "benchmark": str(item["benchmark"]),
        "parameters": parameters,
        "value": value,
        "measured_at": date_of(item),
        "tags": {"branch": str(item["branch"]), **spread},
        **(metric_with_key(key) if key and not any(has_value(item, name) for name in DESCRIBING) else metric_of(item)),
    }
    return row | {"low": low, "high": high} if has_interval else row


def parameters_of(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"executable": str(item["executable"])}


def has_value(item: Mapping[str, Any], name: str) -> bool:
    """Return whether the field has a value. urllib sends None as the word "None"."""
    return item.get(name) not in (None, "", "None")


def metric_of(item: Mapping[str, Any]) -> dict[str, str]:
    """The metric in Codespeed's terms: seconds, of which less is better, unless the sender states otherwise.

    A metric has one unit in a project, so another unit becomes part of the metric's name.
    """
    title = str(item["units_title"]) if has_value(item, "units_title") else "Time"
    units = str(item["units"]) if has_value(item, "units") else "seconds"
    less = str(item.get("lessisbetter", True)).lower() not in ("false", "0", "no", "off", "")
    unit = UNITS.get(units.lower(), units)
    name = title if unit == "s" else f"{title} in {units}"
    return {"metric": name, "unit": unit, "better": "lower" if less else "higher"}


def metric_with_key(key: str) -> dict[str, str]:
    metric = METRICS[key]
    return {"metric": metric.title, "unit": metric.unit, "better": str(metric.better)}


def metrics_known(project: Project, items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """By benchmark digest: the key of its metric, if all its results have the same one."""
    digests = {names.benchmark_digest(str(item["benchmark"]), parameters_of(item)) for item in items}
    rows = Series.objects.filter(project=project, benchmark__digest__in=digests, metric__contains="--")
    metrics_by_digest: dict[str, set[str]] = {}
    for digest, metric in rows.values_list("benchmark__digest", "metric"):
        metrics_by_digest.setdefault(digest, set()).add(metric)
    return {digest: metrics.pop() for digest, metrics in metrics_by_digest.items() if len(metrics) == 1}


def number_of(item: Mapping[str, Any], name: str) -> float:
    try:
        number = float(item[name])
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadResult(f'Value for key "{name}" is not a number: {str(item[name])[:100]!r}')
    return number


def date_of(item: Mapping[str, Any]) -> str | None:
    """The time of the result as ISO 8601; without a zone it is UTC."""
    if not has_value(item, "result_date"):
        return None
    try:
        date = datetime.fromisoformat(str(item["result_date"]))
    except ValueError:
        raise BadResult(f'Value for key "result_date" is not a date: {str(item["result_date"])[:100]!r}') from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).isoformat()
