"""The application."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "speedtrack.accounts"
    label = "accounts"  # django-allauth's label is `account`
