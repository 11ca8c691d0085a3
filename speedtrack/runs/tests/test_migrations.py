"""What a migration makes of rows that were there before it."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from speedtrack.runs import jobs, planning
from speedtrack.runs.models import Build, Measurement, Reason, Run, Trial
from speedtrack.tests import builders


@pytest.mark.django_db
def test_a_side_is_known_by_its_commit_where_nobody_said_it(tmp_path: Path, settings: Any) -> None:
    builders.use_suite(settings, tmp_path / "suites")
    repository = builders.Repository(tmp_path / "repository")
    repository.commits(2)
    machine = builders.machine()
    builders.track(repository)
    old, new = Run.objects.order_by("rank")
    plan = planning.Plan(old.project, old.suite, jobs.benchmarks_of(old), Reason.CONFIRM, base=old.commit, trials=5)
    planning.plan_pair(plan, new.commit_id, machine)
    builders.work(machine, lambda sha, benchmark, trial: 5000.0 + trial)
    for model in (Build, Trial, Measurement):
        before = dict(model.objects.values_list("pk", "side"))
        assert set(before.values()) == {"base", "head"}
        table = model._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for constraint in model._meta.constraints:
                cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{constraint.name}"')
            model.objects.update(side="head")
            cursor.execute(import_module("speedtrack.runs.migrations.0004_sides").BASES.format(table=table))
            cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_again UNIQUE (id, side)")
        assert dict(model.objects.values_list("pk", "side")) == before
