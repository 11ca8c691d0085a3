"""The page of the API: every operation as OpenAPI describes it, with an example of its answer and a line for curl.

The examples name what this installation has, as far as the reader may see it, so that the lines work as they stand.
"""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, Subquery

from speedtrack.accounts import access
from speedtrack.accounts.access import Caller
from speedtrack.alerts.models import Alert, Bisection, Mute
from speedtrack.projects import positions
from speedtrack.projects.models import Annotation, Branch, Delivery, Project
from speedtrack.runs.models import Import, Machine, Measurement, PairedComparison, Profile, Run, Series, Status

Schema = dict[str, Any]
TOKEN = "$SPEEDTRACK_TOKEN"  # noqa: S105 - the name of a variable
OLDER = 9  # commits: the older end of an example lies so many before the newest, or less
DEEPEST = 6  # documents within documents, in examples
LONGEST_LINE = 100  # characters
ENDLESS = 2**31 - 1  # a bound from here on is that of a column, not worth a word


@dataclass(frozen=True)
class Field:
    """A parameter, or a field of a document.

    ``document``: the name of the document that is its value or in its list.
    """

    name: str
    kind: str
    meaning: str
    is_required: bool = True
    location: str = ""
    document: str = ""


@dataclass(frozen=True)
class ReferenceOperation:
    """One operation. ``answers``: status, meaning, and the name of the document. ``source``: its part of the schema."""

    name: str
    method: str
    path: str
    summary: str
    description: str
    parameters: list[Field]
    body: list[Field]
    answers: list[tuple[str, str, str]]
    example: str
    source: Schema
    body_schema: Schema


@dataclass(frozen=True)
class ReferenceDocument:
    name: str
    description: str
    fields: list[Field]


@dataclass(frozen=True)
class ApiReference:
    groups: dict[str, list[ReferenceOperation]]
    documents: list[ReferenceDocument]

    def lines(self, caller: Caller) -> list[str]:
        """The shell line of each operation, group by group, with the names of what this caller may see."""
        examples = Examples(caller)
        return [examples.line(operation) for operations in self.groups.values() for operation in operations]


def reference_of(schema: Schema) -> ApiReference:
    """The operations of an OpenAPI ``schema`` by subject."""
    schemas = schema["components"]["schemas"]
    groups: dict[str, list[ReferenceOperation]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(operation_of(method, path, operation, schemas))
    documents = [
        ReferenceDocument(name, document.get("description", ""), list(fields_of(document)))
        for name, document in sorted(schemas.items())
        if "properties" in document and not name.startswith("Page_")
    ]
    return ApiReference(groups, documents)


def operation_of(method: str, path: str, operation: Schema, schemas: Schema) -> ReferenceOperation:
    body_schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    body = schemas.get(name_in(body_schema), body_schema)  # one that is not named is described in place
    successes = [(status, answer) for status, answer in operation["responses"].items() if status < "300"]
    document = successes[0][1]["content"]["application/json"]["schema"]
    answers = [
        (status, answer["description"], document_in(answer)) for status, answer in operation["responses"].items()
    ]
    return ReferenceOperation(
        name=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        parameters=[parameter_of(parameter) for parameter in operation["parameters"]],
        body=list(fields_of(body)),
        answers=answers,
        example=json.dumps(example_of(document, schemas), indent=2, ensure_ascii=False),
        source=operation,
        body_schema=body,
    )


def document_in(answer: Schema) -> str:
    """The name of the document in an answer; empty if it has none."""
    return next((name_in(content["schema"]) for content in answer.get("content", {}).values()), "")


def parameter_of(parameter: Schema) -> Field:
    return Field(
        parameter["name"],
        kind_of(parameter["schema"]),
        parameter.get("description", ""),
        parameter["required"],
        parameter["in"],
    )


def fields_of(document: Schema) -> Iterator[Field]:
    required = document.get("required", [])
    for name, schema in document.get("properties", {}).items():
        yield Field(name, kind_of(schema), schema.get("description", ""), name in required, document=name_in(schema))


def name_in(schema: Schema) -> str:
    """The name of the document that a schema refers to, itself, in a list, or instead of null; empty without one."""
    schemas = [schema, schema.get("items", {}), *schema.get("anyOf", [])]
    reference = next((candidate["$ref"] for candidate in schemas if "$ref" in candidate), "")
    return str(reference).rpartition("/")[2]


def kind_of(schema: Schema) -> str:
    """The type of a schema's values in words."""
    if "anyOf" in schema:
        return " or ".join(kind_of(alternative) for alternative in schema["anyOf"])
    if "$ref" in schema:
        return "object"
    kind = str(schema.get("format") or schema.get("type", "any")).replace("date-time", "time")
    if kind == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    bounds = (("minimum", "from"), ("maximum", "to"))
    limits = [f"{preposition} {schema[key]}" for key, preposition in bounds if schema.get(key, ENDLESS) < ENDLESS]
    default = schema.get("default")
    usual = f", else {json.dumps(default)}" if default not in (None, "", []) else ""
    return " ".join([kind, *limits]) + usual


def example_of(schema: Schema, schemas: Schema, depth: int = 0) -> Any:
    """A value that the schema allows."""
    if examples := schema.get("examples"):
        return examples[0]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], schemas, depth)
    if name := name_in(schema) if "$ref" in schema else "":
        return example_of(schemas[name], schemas, depth)
    if "properties" in schema:
        if depth > DEEPEST:
            return {}
        return {name: example_named(name, field, schemas, depth + 1) for name, field in schema["properties"].items()}
    if schema.get("type") == "array":
        return [example_of(schema.get("items", {}), schemas, depth)]
    return PLAIN.get(str(schema.get("format") or schema.get("type")), {})


def example_named(name: str, schema: Schema, schemas: Schema, depth: int) -> Any:
    example = example_of(schema, schemas, depth)
    return NAMED.get(name, example) if isinstance(example, str) else example


PLAIN = {"string": "", "integer": 1, "number": 1.02, "boolean": True, "date-time": "2026-05-01T12:00:00Z", "null": None}
SHA = "9f3c1d2e4b5a69788796a5b4c3d2e1f0a9b8c7d6"
NAMED = {
    **dict.fromkeys(("sha", "head", "base", "commit", "before"), SHA),
    **{"slug": "redis", "project": "redis", "name": "redis", "benchmark": "get-p1", "machine": "lab-1"},
    **{"branch": "main", "metric": "server_cpu_ns_per_request", "unit": "ns", "better": "lower", "verdict": "worse"},
    **{"status": "succeeded", "url": "/api/v1/...", "user": "ada", "who": "ada", "author": "Ada Example"},
}


class Examples:
    """The names that examples use.

    They are of this installation, as far as the caller may see them, otherwise words in capitals.
    """

    def __init__(self, caller: Caller) -> None:
        visible = access.visible(caller)
        series = (
            Series.objects.filter(project__in=visible)
            .order_by("pk")
            .select_related("project", "benchmark", "machine")
            .first()
        )
        self.project: Project | None = series.project if series else visible.order_by("slug").first()
        self.branch = self.project.default_branch if self.project else "main"
        newest = self.newest_ids(self.project, series) if self.project else {}
        before, delivery = newest.pop("before", []), newest.pop("delivery", None)
        #: By operation: the row that it would accept.
        self.of_operations = {
            **{name: {"run_id": newest.pop(name, None)} for name in ("cancel_run", "retry_run", "raise_run")},
            "end_bisection": {"bisection_id": newest.pop("end_bisection", None)},
            "set_trials": {"name": self.project.suite if self.project else None},
        }
        self.known: dict[str, Any] = {
            **newest,
            "slug": self.project.slug if self.project else None,
            "revision": self.branch,
            "name": Machine.objects.filter(outside=False).order_by("name").values_list("name", flat=True).first(),
            "series_id": series.pk if series else None,
            "benchmark": series.benchmark.name if series else None,
            "machine": series.machine.name if series else None,
            "commit": self.branch,
            "base": self.branch,
            "head": self.branch,
        }
        #: Instead of the examples of fields, which name what is nowhere.
        self.values = {"before": next(reversed(before), "BEFORE"), "deliveries": [delivery or 1]}

    def newest_ids(self, project: Project, series: Series | None) -> dict[str, Any]:
        """The ids of rows of a project by the names of parameters and operations; None where there is no such row."""
        machine = series.machine if series else None
        queued_runs = Run.objects.filter(machine=machine, status=Status.QUEUED, project=project)
        branch = Branch.objects.filter(project=project, name=self.branch).values("pk")
        line = positions.newest_of(branch, OLDER).values("commit__sha")
        # In orders that indexes have, so that no more than a few rows are read.
        rows = {
            "measurement_id": Measurement.objects.filter(series=series),
            "alert_id": Alert.objects.filter(project=project).order_by("-pk"),
            "run_id": Run.objects.newest_first(project.pk),
            "annotation_id": Annotation.objects.filter(project=project).order_by("-pk"),
            "mute_id": Mute.objects.filter(project=project).order_by("-pk"),
            "comparison_id": PairedComparison.objects.filter(project=project).order_by("-pk"),
            "import_id": Import.objects.filter(project=project).order_by("-pk"),
            "bisection_id": Bisection.objects.filter(project=project).order_by("-pk"),
            "profile_id": Profile.objects.filter(attempt__run__project=project).order_by("-pk"),
            "delivery": Delivery.objects.filter(project=project).order_by("-pk"),
            "cancel_run": queued_runs.order_by("priority", "rank", "-pk"),
            "raise_run": queued_runs.order_by("-priority", "-rank", "pk"),
            "retry_run": Run.objects.filter(project=project, status=Status.FAILED).order_by(
                F("started_at").desc(nulls_last=True)
            ),
            "end_bisection": Bisection.objects.measuring().filter(project=project).order_by("-pk"),
        }
        ids = {name: Subquery(queryset.values("pk")[:1]) for name, queryset in rows.items()}
        newest: dict[str, Any] = {
            **Project.objects.values(**ids, before=ArraySubquery(line[1:OLDER])).get(pk=project.pk)
        }
        return newest

    def line(self, operation: ReferenceOperation) -> str:
        """The shell line that calls an operation; the environment of the shell has the token."""
        path, source, is_read = operation.path, operation.source, operation.method == "GET"
        own = self.of_operations.get(operation.name, {})
        values = self.known | {name: pk for name, pk in own.items() if pk}
        query = {}
        for parameter in source["parameters"]:
            value = values.get(parameter["name"]) or parameter["name"].upper()
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", quote(str(value), safe=""))
            elif parameter["in"] == "query" and parameter["required"]:
                query[parameter["name"]] = value
        address = f"{settings.URL}{path}{f'?{urlencode(query)}' if query else ''}"
        arguments = ["curl --fail-with-body -sS"]
        needs_role = "Needs the role" in operation.description
        if not is_read or needs_role or (self.project and not self.project.is_public):
            arguments.append(f'-H "Authorization: Bearer {TOKEN}"')
        if not is_read:
            arguments.append(f"-X {operation.method}")
        if operation.body_schema:
            arguments.append("-H 'Content-Type: application/json'")
            arguments.append(f"-d {shlex.quote(json.dumps(self.body(operation.body_schema)))}")
        arguments.append(shlex.quote(address))
        short = " ".join(arguments)
        return short if len(short) <= LONGEST_LINE else " \\\n  ".join(arguments)

    def body(self, schema: Schema) -> dict[str, Any]:
        """The fields of a body that have examples. ``main`` is replaced by the default branch."""
        examples = {name: field["examples"][0] for name, field in schema["properties"].items() if "examples" in field}
        examples |= {name: value for name, value in self.values.items() if name in examples}
        return {
            name: value.replace("main", self.branch) if name in ("head", "base", "branch", "commit") else value
            for name, value in examples.items()
        }
