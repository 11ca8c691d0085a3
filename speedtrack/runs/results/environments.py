"""What changed on a machine from one environment to the next, as text."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from speedtrack.runs.models import Environment

LONGEST = 48  # characters of a value
DIGEST = 12  # digits shown of a digest, enough to tell two apart


class ChangedFact(NamedTuple):
    """One fact before and after, as text."""

    fact: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.fact} {self.before} → {self.after}"


def changed_facts(before: Environment, after: Environment) -> list[ChangedFact]:
    """The facts that differ between two environments, of those that define a series."""
    old, new = (dict(flat_facts(environment.facts.get("series", {}))) for environment in (before, after))
    names = [*old, *(name for name in new if name not in old)]
    return [
        ChangedFact(name, shorten(old.get(name, "none")), shorten(new.get(name, "none")))
        for name in names
        if old.get(name) != new.get(name)
    ]


def flat_facts(facts: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """(name, value) of each fact. The name of a nested fact begins with that of the outer one."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from flat_facts(value, f"{path}{name} ")
        else:
            yield f"{path}{name}".replace("_", " "), value


def shorten(value: Any) -> str:
    text = str(value)
    if text.startswith("sha256:"):
        return text.removeprefix("sha256:")[:DIGEST]
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def changes_in_words(changes: list[ChangedFact]) -> str:
    """The changes on one line."""
    return ", ".join(map(str, changes)) or "nothing that is known"
