"""SQL about the positions of a branch that reads few more of them than it returns.

PostgreSQL looks up commits and ranges of numbers, but a branch's positions need not lie together, so it cannot read
them in order: for ``ORDER BY number DESC LIMIT 1`` or ``max(number)`` it would read all. These queries name a range,
which ends at the branch's head, or go through its positions in blocks.
"""

from typing import Any

from django.db.models import F, QuerySet, Subquery

from speedtrack.projects.models import Branch, Position

BLOCK = 16  # positions that are read together where several are wanted


def heads() -> QuerySet[Position]:
    """The position of each branch's head."""
    return Position.objects.filter(commit=F("branch__head"))


def head_of(branch: Branch) -> int:
    """The position of a branch's newest commit, -1 if there is none."""
    number: int | None = heads().filter(branch=branch).values_list("number", flat=True).first()
    return -1 if number is None else number


def newest_of(branches: QuerySet[Branch, Any], count: int) -> QuerySet[Position]:
    """The newest ``count`` positions of one branch, newest first. ``branches``: a query that finds it."""
    branch = Subquery(branches.values("pk"))
    end = Subquery(heads().filter(branch=branch).values("number"))
    return Position.objects.filter(branch=branch, number__gt=end - count).order_by("-number")[:count]


def head(branch: str) -> str:
    """An SQL expression: the position of the newest commit of a branch, whose id is ``branch``."""
    return f"""(SELECT tip.number FROM projects_branch own
                  JOIN projects_position tip ON tip.branch_id = own.id AND tip.commit_id = own.head_id
                 WHERE own.id = {branch})"""  # noqa: S608 - parts of queries


def newest(branch: str, count: str) -> str:
    """A query: ``number`` and ``commit_id`` of the newest ``count`` positions of a branch, newest first.

    LIMIT tells PostgreSQL how many they are: it has no statistics about a range that ends at another row's number.
    """
    return f"""SELECT number, commit_id FROM projects_position
                WHERE branch_id = {branch} AND number > {head(branch)} - {count}
             ORDER BY number DESC LIMIT {count}"""  # noqa: S608 - parts of queries


def last(condition: str, branch: str, first: str, end: str) -> str:
    """A query: ``number`` and ``commit_id`` of the last position ``p`` of a range for which a condition holds."""
    return nearest(condition, branch, first, end, "DESC")


def first(condition: str, branch: str, first: str, end: str) -> str:
    """The same of the first one."""
    return nearest(condition, branch, first, end, "ASC")


def nearest(condition: str, branch: str, begin: str, end: str, order: str) -> str:
    """A search block by block for the nearest position. Each block is twice as long as the one before it."""
    near, far = "(1 << step) - 1", "(1 << step) * 2 - 2"
    block = (
        f"({end}) - ({near}) AND p.number >= greatest({begin}, ({end}) - ({far}))"
        if order == "DESC"
        else f"least({end}, ({begin}) + {far}) AND p.number >= ({begin}) + ({near})"
    )
    return f"""SELECT nearest.number, nearest.commit_id
                 FROM (SELECT step FROM generate_series(0, 29) AS step
                        WHERE {near} <= ({end}) - ({begin}) ORDER BY 1) steps
           CROSS JOIN LATERAL (SELECT p.number, p.commit_id FROM projects_position p
                                WHERE p.branch_id = {branch} AND p.number <= {block} AND {condition}
                             ORDER BY p.number {order} LIMIT 1) nearest
             ORDER BY step LIMIT 1"""  # noqa: S608 - parts of queries


def in_blocks(branch: str, first: str, end: str, order: str = "ASC") -> str:
    """A table: ``number`` and ``commit_id`` of a range of positions, with the ``block`` of BLOCK that each belongs to.

    With ``ORDER BY block, number`` and LIMIT, only the blocks are read that are needed. The range must not go far
    beyond the head.
    """
    ends, step = ((first, end), 1) if order == "ASC" else ((end, first), -1)
    blocks = f"generate_series(({ends[0]}) / {BLOCK}, ({ends[1]}) / {BLOCK}, {step})"
    return f"""LATERAL (SELECT block, each.*
                          FROM (SELECT {blocks} AS block ORDER BY 1 {order}) blocks
                    CROSS JOIN LATERAL (
                               SELECT number, commit_id FROM projects_position
                                WHERE branch_id = {branch} AND number BETWEEN greatest({first}, block * {BLOCK})
                                                                  AND least({end}, block * {BLOCK} + {BLOCK - 1})
                               OFFSET 0) each)"""  # noqa: S608 - parts of queries
