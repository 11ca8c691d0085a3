"""Templates whose output (pages and mails) has no invisible characters that change the visible text."""

from typing import Any

from django.http import HttpRequest
from django.template.backends import django
from django.utils.safestring import SafeString, mark_safe

from speedtrack.ground.texts.text import visible


class Template(django.Template):
    def render(self, context: dict[str, Any] | None = None, request: HttpRequest | None = None) -> SafeString:
        # The remainder of safe text is safe, because no removed character belongs to HTML's syntax.
        return mark_safe(visible(super().render(context, request)))  # noqa: S308 - characters are only removed


class PlainTemplates(django.DjangoTemplates):
    def get_template(self, template_name: str) -> Template:
        return Template(super().get_template(template_name).template, self)

    def from_string(self, template_code: str) -> Template:
        return Template(super().from_string(template_code).template, self)
