"""The evidence behind numbers and verdicts: imports, checks of canaries, profiles, latencies, noise."""

from typing import Annotated

from django.db.models import Count, QuerySet
from django.http import Http404
from ninja import Path, Query, Router, Schema
from pydantic import Field

from speedtrack.accounts import access
from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import SeriesSensitivity
from speedtrack.api.v1.measurements.measuring import SeriesFilters, machine_or_404
from speedtrack.api.v1.runs.runs import run_or_404
from speedtrack.api.v1.serving.callers import ApiRequest, project_or_404
from speedtrack.api.v1.serving.paging import Page, Paging, page_of
from speedtrack.api.v1.serving.revisions import commit_given
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.reports.common import Id, read_columns
from speedtrack.reports.evidence import (
    CanaryCheckDocument,
    ImportDocument,
    LatencyDocument,
    ProfileDetails,
    ProfileDocument,
    Quantile,
    SensitivityDocument,
)
from speedtrack.runs.models import CanaryCheck, Import, Profile, Result
from speedtrack.runs.results import latencies

router = Router(tags=["Evidence"])

STEPS_PER_NINE = 8  # points of a curve between 90% and 99%, and so on
MOST_NINES = 6


@router.get("projects/{slug}/imports", response=Page[ImportDocument], summary="List imports")
def list_imports(request: ApiRequest, slug: str, paging: Query[Paging]) -> Page[ImportDocument]:
    """Batches of results that were measured elsewhere, the newest first: who sent them, how and when."""
    rows = known_imports().filter(project=project_or_404(request, slug))
    return page_of(request, rows, paging, lambda imports: map(ImportDocument.of, imports))


@router.get("imports/{import_id}", response=ImportDocument, summary="Read an import")
def read_import(request: ApiRequest, import_id: Path[Id]) -> ImportDocument:
    batch = known_imports().filter(pk=import_id, project__in=access.visible(request.auth)).first()
    if batch is None:
        raise Http404(f"There is no import {import_id}, or its project is private.")
    return ImportDocument.of(batch)


def known_imports() -> QuerySet[Import]:
    return Import.objects.select_related("project").annotate(count_of_runs=Count("runs"))


@router.get("machines/{name}/canary-checks", response=Page[CanaryCheckDocument], summary="List checks of canaries")
def list_canary_checks(request: ApiRequest, name: str, paging: Query[Paging]) -> Page[CanaryCheckDocument]:
    """What the runs of a machine's canaries have shown about the machine, the newest first."""
    rows = CanaryCheck.objects.filter(
        canary__machine=machine_or_404(name), canary__project__in=access.visible(request.auth)
    ).select_related("canary__machine", "canary__project", "series__benchmark")
    return page_of(
        request, rows.defer("canary__machine__facts"), paging, lambda checks: map(CanaryCheckDocument.of, checks)
    )


@router.get("runs/{run_id}/profiles", response=Page[ProfileDocument], summary="List profiles of a run")
def list_profiles(request: ApiRequest, run_id: Path[Id], paging: Query[Paging]) -> Page[ProfileDocument]:
    """The profiles of each side and benchmark, the newest first."""
    rows = known_profiles().filter(attempt__run=run_or_404(request, run_id)).defer("folded")
    return page_of(request, rows, paging, lambda profiles: map(ProfileDocument.of, profiles))


@router.get("profiles/{profile_id}", response=ProfileDetails, summary="Read a profile")
def read_profile(request: ApiRequest, profile_id: Path[Id]) -> ProfileDetails:
    """A profile with its folded stacks, as flame graph programs read them."""
    visible = access.visible(request.auth)
    profile = known_profiles().filter(pk=profile_id, attempt__run__project__in=visible).first()
    if profile is None:
        raise Http404(f"There is no profile {profile_id}, or its project is private.")
    return ProfileDetails.of(profile)


def known_profiles() -> QuerySet[Profile]:
    return Profile.objects.select_related("attempt", "benchmark").defer("benchmark__definition", "benchmark__why")


class LatencyQuery(Schema):
    """Which latencies to read."""

    commit: Annotated[str, Field(min_length=1, max_length=250, description="a commit id, tag or branch")]
    benchmark: Annotated[str, Field(min_length=1, max_length=100, description="name of a benchmark")]
    machine: Annotated[str, Field(min_length=1, max_length=50, description="name of a machine")]


@router.get("projects/{slug}/latency", response=LatencyDocument, summary="Read a percentile curve")
def read_latency(request: ApiRequest, slug: str, query: Query[LatencyQuery]) -> LatencyDocument:
    """The latencies of a measured commit, by the histograms of its trials."""
    project = project_or_404(request, slug)
    commit, machine = commit_given(project, query.commit, parameter="commit"), machine_or_404(query.machine)
    points = lines.point_measurements().filter(
        commit=commit, series__machine=machine, series__metric=HEADLINE, series__benchmark__name=query.benchmark
    )
    results = Result.objects.filter(
        attempt__in=points.values("attempt"), benchmark__in=points.values("series__benchmark"), side="head"
    )
    latency = latencies.of_results(results.order_by("pk"))
    return LatencyDocument(
        project=slug,
        sha=commit.sha,
        benchmark=query.benchmark,
        machine=machine.name,
        trials=len(latency.trials),
        requests=round(latency.together.total),
        is_flagged=latency.flagged,
        curve=curve_of(latency),
    )


def curve_of(latency: latencies.Latencies) -> list[Quantile]:
    """The percentile curve, from the fastest requests to the slowest, with more points near the slowest.

    It ends where too few requests are left.
    """
    if not latency.trials:
        return []
    histogram = latency.together
    steps = (1 - 10 ** (-step / STEPS_PER_NINE) for step in range(STEPS_PER_NINE * MOST_NINES + 1))
    shares = [*(share for share in steps if share <= 1 - 1 / histogram.total), 1.0]
    return [
        Quantile(share=share, ns=ns) for share, ns in zip(shares, histogram.quantiles(shares).tolist(), strict=True)
    ]


@router.get("projects/{slug}/sensitivity", response=Page[SensitivityDocument], summary="List what series can show")
def list_sensitivity(
    request: ApiRequest, slug: str, paging: Query[Paging], filters: Query[SeriesFilters]
) -> Page[SensitivityDocument]:
    """How small a change each watched series shows, and how noisy it is, the newest series first."""
    rows = SeriesSensitivity.objects.filter(filters.of("series__"), series__project=project_or_404(request, slug))
    columns = read_columns(SensitivityDocument, "visible", "paired", "smallest_effect")
    return page_of(request, rows, paging, lambda page: map(SensitivityDocument.of, page), columns=columns)
