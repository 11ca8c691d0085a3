"""Commits, branches, tags and webhook deliveries."""

import hashlib
import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from research.scale.histories.copying import Ids, copy_columns, copy_rows, integers
from research.scale.histories.world import Story
from speedtrack.projects.models import Annotation, Branch, Chain, Segment, Tag

AUTHORS = [f"Author {number}" for number in range(40)]
EVERY = timedelta(minutes=20)
BODY_LENGTH = 6000


def make_commits(id_pool: Ids, story: Story, count: int, now: datetime) -> None:
    """A straight history up to ``now``."""
    slug = story.project.slug
    story.commits = id_pool.take("projects_commit", count)
    story.shas = [
        hashlib.sha1(f"{slug} {number}".encode(), usedforsecurity=False).hexdigest() for number in range(count)
    ]

    def rows() -> Iterator[tuple[Any, ...]]:
        for number, (pk, sha) in enumerate(zip(story.commits.tolist(), story.shas, strict=True)):
            at = time_of(number, count, now)
            author = AUTHORS[number * 7 % len(AUTHORS)]
            email = f"{author.replace(' ', '.').lower()}@example.org"
            parents = [story.shas[number - 1]] if number else []
            subject = f"Change number {number}: make {slug} do {'less ' * (number % 5)}work per request"
            yield pk, story.project.pk, sha, parents, author, email, at, at, subject, []

    columns = "id, project_id, sha, parents, author_name, author_email, authored_at, committed_at, subject, reverts"
    copy_rows("projects_commit", columns, rows())
    chain = Chain.objects.create(project=story.project)
    columns_of_chain = {
        "chain_id": integers(chain.pk),
        "number": integers(np.arange(count)),
        "commit_id": integers(story.commits),
    }
    copy_columns("projects_chaincommit", columns_of_chain, count)
    set_history(story.branch, story, count)


def time_of(number: int, count: int, now: datetime) -> datetime:
    return now - EVERY * (count - number)


def set_history(branch: Branch, story: Story, count: int) -> None:
    """Let a branch consist of the first ``count`` commits."""
    Segment.objects.create(branch=branch, chain=story.project.chains.get(), first=0, last=count - 1)
    Branch.objects.filter(pk=branch.pk).update(head_id=int(story.commits[count - 1]))


def make_branches(story: Story, count: int) -> None:
    """Branches of releases, each left where it began, with its tag."""
    length = len(story.commits)
    for number in range(1, count + 1):
        head = length * number // (count + 1)
        newest = int(story.commits[head - 1])
        branch = Branch.objects.create(project=story.project, name=f"{number}.0", head_id=newest)
        set_history(branch, story, head)
        Tag.objects.create(project=story.project, name=f"{number}.0.0", sha=story.shas[head - 1])


def make_tags(story: Story, count: int) -> None:
    """Tags of releases, evenly over the default branch: 0.1.0, 0.2.0, and so on."""
    length = len(story.commits)
    Tag.objects.bulk_create(
        Tag(project=story.project, name=version(number), sha=story.shas[length * number // (count + 1)])
        for number in range(1, count + 1)
    )


def version(number: int) -> str:
    """The name of a release, counted from 1."""
    return f"{number // 10}.{number % 10}.0"


def make_deliveries(id_pool: Ids, story: Story, count: int, now: datetime) -> None:
    headers = json.dumps({"X-GitHub-Event": "push", "Content-Type": "application/json"})
    padding = "x" * BODY_LENGTH

    def rows() -> Iterator[tuple[Any, ...]]:
        for number, pk in enumerate(id_pool.take("projects_delivery", count).tolist()):
            body = json.dumps({"ref": "refs/heads/main", "number": number, "padding": padding}).encode()
            digest = hashlib.sha256(body).hexdigest()
            at = now - timedelta(minutes=10) * (count - number)
            yield (
                pk,
                story.project.pk,
                "github",
                f"d{number}",
                "push",
                headers,
                zlib.compress(body),
                digest,
                at,
                "processed",
                "done",
                "main pushed",
                len(body),
                1,
                False,
            )

    columns = (
        "id, project_id, provider, delivery_id, event, headers, packed_body, body_digest, received_at, status, outcome"
        ", summary, size, copies, with_former"
    )
    copy_rows("projects_delivery", columns, rows())


def make_annotations(story: Story, count: int, now: datetime) -> None:
    """Notes, alternately about a commit and about a moment; one of ten moments concerns all projects."""
    length = len(story.commits)
    rows = []
    for number in range(count):
        at = length * number // count
        note = Annotation(text=f"Note {number}: the **compiler** of the machines is another one since then.")
        if number % 2:
            note.project, note.moment = (None if number % 20 == 1 else story.project), time_of(at, length, now)
        else:
            note.project, note.commit_id = story.project, int(story.commits[at])
        rows.append(note)
    Annotation.objects.bulk_create(rows)


def today() -> datetime:
    """Midnight, so that all histories generated on one day are equal."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
