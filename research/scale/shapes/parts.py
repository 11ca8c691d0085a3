"""The parts of these databases: each fills projects of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings
from django.contrib.auth.models import User

from research.scale.histories import commits, findings, judgements, measurements, runs
from research.scale.histories.copying import Ids
from research.scale.histories.filling import document_newest, write_results, write_small
from research.scale.histories.measurements import BETWEEN, WITHIN, MeasuredPart
from research.scale.histories.sizes import TRIALS
from research.scale.histories.suites import write_suite
from research.scale.histories.world import METRICS, Story, make_machines, make_story
from research.scale.shapes import repository
from research.scale.shapes.extents import ShapeExtent
from speedtrack.accounts import members
from speedtrack.accounts.models import Role
from speedtrack.outside import document, taking
from speedtrack.outside.document import MOST_RESULTS
from speedtrack.outside.taking import Sender
from speedtrack.projects import sync
from speedtrack.projects.mirrors import git
from speedtrack.projects.mirrors.fetching import head_ref
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.models import Import, Machine, Measurement, Series

OWN_MEASURED = 3  # newest commits of each branch
DOCUMENTED = 2  # newest commits whose trials have their documents
ROLES = (Role.OWNER, Role.MAINTAINER, Role.READER)
OUTSIDE_METRICS = {"time": ("s", 0.5), "memory": ("bytes", 5e7)}  # their units and usual values


@dataclass(frozen=True)
class PartSource:
    """What a part is made from: how much, random numbers, the end of its history, the next ids."""

    extent: ShapeExtent
    rng: np.random.Generator
    now: datetime
    id_pool: Ids


@dataclass(frozen=True)
class Part:
    """``slug``: the project whose pages are measured; ``person``: the user who is signed in, empty for an operator."""

    slug: str
    fill: Callable[[PartSource], None]
    person: str = ""


def new_story(slug: str, extent: ShapeExtent) -> Story:
    """A project without commits, with a suite and machines of its own."""
    (story,) = new_stories(slug, [slug], extent)
    return story


def new_stories(suite: str, slugs: Sequence[str], extent: ShapeExtent) -> list[Story]:
    """Projects without commits that share a suite and machines."""
    write_suite(Path(settings.SUITES), suite, extent.benchmarks)
    machines = make_machines(extent.machines, f"{suite}-m")
    metrics = list(METRICS)[: extent.metrics]
    return [make_story(slug, suite, machines, metrics, extent.environments) for slug in slugs]


def all_machines(story: Story) -> list[int]:
    return list(range(len(story.machines)))


def fill_branches(source: PartSource) -> None:
    """A real repository, fetched by the product. ``main`` is measured, and the newest commits of each branch."""
    story = new_story("tree", source.extent)
    path = Path(settings.MIRRORS).with_name("repositories") / story.project.slug
    repository.make_repository(path, source.extent, source.now)
    story.project.url = str(path)
    story.project.save(update_fields=["url"])
    names = repository.branch_names(source.extent)
    branches = Branch.objects.bulk_create(Branch(project=story.project, name=name) for name in names)
    sync.sync(story.project)
    ids = dict(Commit.objects.filter(project=story.project).values_list("sha", "pk"))
    story = on_branch(story, story.branch, ids)
    story.measured_positions = list(range(len(story.shas)))
    measured_part = MeasuredPart(story, story.measured_positions, all_machines(story), 0)
    write_results(source.id_pool, [measured_part], source.rng, source.now)
    document_newest(source.id_pool, story, DOCUMENTED)
    for branch in branches:
        branch_story = on_branch(story, branch, ids)
        newest = list(range(len(branch_story.shas) - OWN_MEASURED, len(branch_story.shas)))
        measurements.measure(source.id_pool, MeasuredPart(branch_story, newest, [0], 0), [], source.rng, source.now)


def on_branch(story: Story, branch: Branch, ids: dict[str, int]) -> Story:
    """The same story along another branch. ``ids``: of commits, by their sha."""
    slug = story.project.slug
    shas = git.first_parents(slug, git.local_refs(slug)[head_ref(branch.name)])
    return replace(story, branch=branch, shas=shas, commits=np.array([ids[sha] for sha in shas]))


def fill_matrix(slug: str, source: PartSource) -> None:
    """Many series: a matrix of benchmarks, metrics and machines, in one environment after the other."""
    story = new_story(slug, source.extent)
    count = source.extent.commits
    commits.make_commits(source.id_pool, story, count, source.now)
    commits.make_tags(story, source.extent.tags)
    story.measured_positions = list(range(count))
    ends = [count * era // source.extent.environments for era in range(source.extent.environments + 1)]
    measured_parts = [
        MeasuredPart(story, story.measured_positions[begin:end], all_machines(story), era)
        for era, (begin, end) in enumerate(pairwise(ends))
    ]
    write_results(source.id_pool, measured_parts, source.rng, source.now)
    findings.make_suspicions(story, count, source.rng)
    document_newest(source.id_pool, story, DOCUMENTED)


def fill_outside(source: PartSource) -> None:
    """Series that were measured elsewhere, imported by the product a few commits at a time."""
    story = unmeasured_story("outside", source.extent)
    commits.make_commits(source.id_pool, story, source.extent.commits, source.now)
    series = [
        (f"case-{number}", metric, f"elsewhere-{machine}")
        for number in range(source.extent.benchmarks)
        for metric in OUTSIDE_METRICS
        for machine in range(source.extent.machines)
    ]
    levels = np.exp(0.3 * source.rng.normal(size=len(series)))
    at_once = max(1, MOST_RESULTS // len(series))
    for begin in range(0, len(story.shas), at_once):
        results = [
            outside_result(sha, names, level, source.rng)
            for sha in story.shas[begin : begin + at_once]
            for names, level in zip(series, levels.tolist(), strict=True)
        ]
        batch = document.batch_of({"schema": document.SCHEMA, "environment": {"cpu": "Z80"}, "results": results})
        report = taking.take(story.project, batch, Sender(Import.Door.COMMAND, name="bench"))
        assert not report.refused, report.refused[0]
    note_comparisons(story)


def outside_result(sha: str, series: tuple[str, str, str], level: float, rng: np.random.Generator) -> dict[str, Any]:
    """A row of ``speedtrack.points/1``. ``series``: the names of benchmark, metric and machine."""
    benchmark, metric, machine = series
    unit, usual = OUTSIDE_METRICS[metric]
    samples = usual * level * np.exp(BETWEEN * rng.normal() + WITHIN * rng.normal(size=TRIALS))
    row = {"commit": sha, "benchmark": benchmark, "metric": metric, "machine": machine}
    return row | {"unit": unit, "better": "lower", "samples": samples.tolist()}


def note_comparisons(story: Story) -> None:
    """Store what detection would store about these measurements; every series has one at each commit."""
    series = Series.objects.filter(project=story.project)
    ids = np.array(sorted(series.values_list("pk", flat=True)))
    values = Measurement.objects.filter(series__project=story.project).order_by("commit_id", "series_id")
    medians = np.array(list(values.values_list("value", flat=True))).reshape(len(story.shas), len(ids))
    judgements.compare(story, range(len(story.shas)), ids, medians)
    series.update(undetected_since=None)


def fill_people(source: PartSource) -> None:
    """Small projects, every second one private. Each has an owner, a maintainer and a reader."""
    extent = source.extent
    names = [f"person-{number}" for number in range(1, extent.people + 1)]
    people = [User.objects.create_user(name, f"{name}@example.org") for name in names]
    slugs = [f"team-{number}" for number in range(1, extent.projects + 1)]
    for number, story in enumerate(new_stories("people", slugs, extent)):
        Project.objects.filter(pk=story.project.pk).update(is_public=number % 2 == 0)
        for offset, role in enumerate(ROLES):
            members.give_role(story.project, people[(number + offset) % len(people)], role)
        write_small(source.id_pool, story, extent.commits, source.rng, source.now)


def fill_away(source: PartSource) -> None:
    """Every commit waits on every machine, and none of these machines has ever called."""
    story = unmeasured_story("away", source.extent)
    commits.make_commits(source.id_pool, story, source.extent.commits, source.now)
    machines = Machine.objects.filter(pk__in=[machine.pk for machine in story.machines])
    machines.update(last_seen_at=None, facts={})
    story.measured_positions = [source.extent.commits]
    runs.make_waiting(source.id_pool, story, story.machines, source.extent.commits * len(machines), source.now)


def unmeasured_story(slug: str, extent: ShapeExtent) -> Story:
    story = new_story(slug, extent)
    Series.objects.filter(project=story.project).delete()
    return story


PARTS = {
    "branches": Part("tree", fill_branches),
    "grid": Part("grid", partial(fill_matrix, "grid")),
    "outside": Part("outside", fill_outside),
    "people": Part("team-1", fill_people, person="person-1"),
    "away": Part("away", fill_away),
    "wide": Part("wide", partial(fill_matrix, "wide")),
}
#: The names of the parts of each shape.
SHAPES = {"kind": tuple(name for name in PARTS if name != "wide"), **{name: (name,) for name in PARTS}}


def write_shape(names: Sequence[str], extents: Mapping[str, ShapeExtent], seed: int) -> None:
    """Write these parts, each with its own random numbers and ids behind those of the parts before it."""
    now = commits.today()
    for number, name in enumerate(names):
        source = PartSource(extents[name], np.random.default_rng([seed, number]), now, Ids())
        PARTS[name].fill(source)
        source.id_pool.hand_over()
