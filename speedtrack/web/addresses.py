"""Addresses that one page has hundreds of: Django's ``reverse`` takes twenty microseconds for each."""

from functools import lru_cache

from django.urls import reverse

KEPT = 20_000  # of each kind


@lru_cache(KEPT)
def timeline_path(slug: str, benchmark: str, metric: str) -> str:
    return reverse("timeline", args=[slug, benchmark, metric])


@lru_cache(KEPT)
def commit_path(slug: str, sha: str) -> str:
    return reverse("commit", args=[slug, sha])


@lru_cache(KEPT)
def project_path(slug: str) -> str:
    return reverse("project", args=[slug])


def run_path(pk: int) -> str:
    return path_of_number("run", pk)


def alert_path(pk: int) -> str:
    return path_of_number("alert", pk)


@lru_cache(KEPT)
def path_of_number(name: str, pk: int) -> str:
    return reverse(name, args=[pk])
