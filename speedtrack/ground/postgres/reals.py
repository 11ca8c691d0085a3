"""Numbers of four bytes, which PostgreSQL calls real."""

from typing import Any

from django.db import models


class RealField(models.FloatField):  # type: ignore[type-arg]
    """A number with seven digits."""

    def db_type(self, connection: Any) -> str:
        return "real"
