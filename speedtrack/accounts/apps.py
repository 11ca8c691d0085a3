"""The application."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "speedtrack.accounts"
    label = "accounts"  # that of django-allauth is `account`
