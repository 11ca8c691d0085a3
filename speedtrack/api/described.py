"""An API by django-ninja whose OpenAPI also says how it refuses."""

from collections.abc import Sequence
from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from pydantic import BaseModel

from speedtrack.http import problems


class DescribedAPI(NinjaAPI):
    """An API whose OpenAPI lists the refusals of each operation.

    ``refusal``: the document of all refusals. ``every``: the statuses of all operations; ``of_writes``: those of
    writing ones only.
    """

    refusal: type[BaseModel]
    refusal_type = "application/json"
    every: Sequence[int] = ()
    of_writes: Sequence[int] = ()

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """The name of the operation's function, which is unique; names of modules may change."""
        return operation.view_func.__name__

    def get_openapi_schema(self, *, path_prefix: str | None = None, path_params: Any = None) -> OpenAPISchema:
        schema = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        described = self.refusal.model_json_schema(ref_template="#/components/schemas/{model}")
        schema["components"]["schemas"].update(described.pop("$defs", {}))
        schema["components"]["schemas"][self.refusal.__name__] = described
        for operations in schema["paths"].values():
            for method, operation in operations.items():
                self.describe(method, operation)
        return schema

    def describe(self, method: str, operation: dict[str, Any]) -> None:
        """Add the refusals to the answers of an operation, in the order of their statuses."""
        answers = operation["responses"]
        reference = {"$ref": f"#/components/schemas/{self.refusal.__name__}"}
        for status in (*self.every, *(() if method == "get" else self.of_writes)):
            content = {self.refusal_type: {"schema": reference}}
            answers.setdefault(status, {"description": problems.of_status(status).title, "content": content})
        operation["responses"] = {str(status): answers[status] for status in sorted(answers)}
