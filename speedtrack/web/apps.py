"""The Django app of the pages."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "speedtrack.web"

    def ready(self) -> None:
        from speedtrack.web import checks  # noqa: F401 (registers the check)
        from speedtrack.web.accounts import noting

        noting.connect()
