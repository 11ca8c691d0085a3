"""A database with a row for each commit of each branch becomes one of chains and segments, and goes back."""

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from speedtrack.tests.clusters import copied_database, databases
from speedtrack.tests.upgrades.steps import take, take_back

pytestmark = pytest.mark.django_db(transaction=True)
STEPS = ("0006_lines_and_segments", "0007_chains", "0008_gone_default_branch")
POSITIONS = "SELECT branch_id, number, commit_id FROM projects_position ORDER BY branch_id, number"
EXPORTED = "SELECT project, branch, position, sha FROM export_commits ORDER BY project, branch, position"
BRANCHES = ["a", "main", "b", "c", "d", "none"]


@pytest.fixture
def former(db: None) -> Iterator[str]:
    """The address of a database of the release before, with the branches of two projects."""
    with copied_database("positions") as address:
        with databases(DATABASE_URL=address):
            take_back("projects", *reversed(STEPS))
            with connection.cursor() as cursor:
                for number in (1, 2):
                    fill(cursor, number, random.Random(number))
        yield address


def fill(cursor: Any, project: int, chance: random.Random) -> None:
    """Branches that fork from each other; the last one has no commit."""
    cursor.execute(
        "INSERT INTO projects_project (id, slug, name, url, default_branch, branch_patterns, suite, hook_id,"
        " hook_secret, former_hook_secret, is_public, poll_jitter, error, failures, mail_history_verdicts,"
        " cancel_unreachable, submodule_urls, machine_policy, lag_alarm_hours, left_out, renamed_to)"
        " OVERRIDING SYSTEM VALUE VALUES (%s, %s, 'p', '/p', 'main', '', 'tiny', %s, '', '', true, 0, '', 0, false,"
        " true, '', 'each', 24, '{}', '')",
        [project, f"p{project}", f"p{project}"],
    )
    paths: list[list[int]] = [[]]
    for at, name in enumerate(BRANCHES):
        cursor.execute(
            "INSERT INTO projects_branch (id, project_id, name, tracked, first_commits) OVERRIDING SYSTEM VALUE"
            " VALUES (%s, %s, %s, true, 0)",
            [branch := 10 * project + at, project, name],
        )
        base = chance.choice(paths)
        path = base[: chance.randrange(len(base) + 1)] if name != "none" else []
        for _ in range(chance.randrange(4) + (not path) if name != "none" else 0):
            cursor.execute(
                "INSERT INTO projects_commit (project_id, sha, parents, author_name, author_email, authored_at,"
                " committed_at, subject, reverts) SELECT %s, md5(random()::text), '{}', '', '', now(), now(), '', '{}'"
                " RETURNING id",
                [project],
            )
            path = [*path, cursor.fetchone()[0]]
        paths.append(path)
        cursor.executemany(
            "INSERT INTO projects_position (branch_id, number, commit_id) VALUES (%s, %s, %s)",
            [(branch, number, commit) for number, commit in enumerate(path)],
        )


def rows(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url) as link:
        return link.execute(statement).fetchall()


def test_no_position_is_lost_or_made_on_the_way_there_and_back(former: str) -> None:
    positions, exported = rows(former, POSITIONS), rows(former, EXPORTED)
    assert len(exported) == len(positions) > len({commit for _, _, commit in positions}) > 10
    with databases(DATABASE_URL=former):
        take("projects", *STEPS)
        assert (rows(former, POSITIONS), rows(former, EXPORTED)) == (positions, exported)
        commits = rows(
            former, "SELECT count(*) FROM projects_chaincommit UNION ALL SELECT count(*) FROM projects_commit"
        )
        assert commits[0] == commits[1]
        mains = "SELECT count(*) FROM projects_segment JOIN projects_branch b ON b.id = branch_id WHERE name = 'main'"
        assert rows(former, mains) == [(2,)], "the default branch is one chain"
        take_back("projects", *reversed(STEPS))
        assert (rows(former, POSITIONS), rows(former, EXPORTED)) == (positions, exported)
        take("projects", *STEPS)
        assert (rows(former, POSITIONS), rows(former, EXPORTED)) == (positions, exported)
