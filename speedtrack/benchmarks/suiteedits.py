"""Edit suites in the browser: save versions, and list their changes beforehand."""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from speedtrack.benchmarks.definitions import Definition, DefinitionError, Mistake
from speedtrack.benchmarks.digests import Content, benchmark_meaning, json_digest
from speedtrack.benchmarks.models import Benchmark, SuiteEdit
from speedtrack.benchmarks.suitefiles import file_digest, file_text, newest_edit, parse_suite, text_of
from speedtrack.benchmarks.suitelines import lines_by_place

LONGEST_TEXT = 200_000  # characters of a suite
LONGEST_VALUE, CONTEXT = 120, 20  # characters of a value in a comparison, and of a beginning that both share
MEANING = ("name", "driver", "workload", "command")  # the keys of a benchmark that identify its line


class NotSaved(Exception):
    """The suite was not saved; the message has cause and remedy."""


class Fate(StrEnum):
    """The effect of a new version of a suite on a benchmark's line."""

    ADDED = "added"
    REMOVED = "removed"
    ANEW = "begins anew"
    RETURNS = "goes on with an earlier line"
    ALTERED = "changed, its line goes on"
    SAME = "unchanged"


@dataclass(frozen=True)
class BenchmarkChange:
    """The fate of one benchmark, and its changed values as ``path: before → after``."""

    name: str
    fate: Fate
    changed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SuiteChange:
    """The changes of a new version of a suite. ``shared``: changes that concern all benchmarks."""

    benchmarks: list[BenchmarkChange]
    shared: list[str]

    def of(self, *fates: Fate) -> list[BenchmarkChange]:
        return [change for change in self.benchmarks if change.fate in fates]

    @property
    def ended(self) -> int:
        """The number of lines that are not continued."""
        return len(self.of(Fate.ANEW, Fate.REMOVED, Fate.RETURNS))

    @property
    def is_empty(self) -> bool:
        return not self.shared and len(self.of(Fate.SAME)) == len(self.benchmarks)


def compare(
    old: Definition | None, new: Definition, earlier: AbstractSet[tuple[str, str]] = frozenset()
) -> SuiteChange:
    """The changes when ``new`` replaces ``old``.

    ``earlier``: (name, digest) of benchmarks that have had lines before.
    """
    if old == new:
        return SuiteChange([BenchmarkChange(benchmark.name, Fate.SAME) for benchmark in new.benchmark], [])
    before, after = (definition.model_dump() if definition else {"benchmark": []} for definition in (old, new))
    was = {section["name"]: section for section in before["benchmark"]}
    now = {section["name"]: section for section in after["benchmark"]}
    changes = []
    for name in [*now, *(name for name in was if name not in now)]:
        if name not in now:
            changes.append(BenchmarkChange(name, Fate.REMOVED))
        elif name not in was:
            digest = json_digest(benchmark_meaning(after, now[name]))
            changes.append(BenchmarkChange(name, Fate.RETURNS if (name, digest) in earlier else Fate.ADDED))
        else:
            changes.append(benchmark_change(before, was[name], after, now[name], earlier))
    return SuiteChange(changes, shared_changes(before, after) if old else [])


def benchmark_change(
    before: Content, was: Content, after: Content, now: Content, earlier: AbstractSet[tuple[str, str]]
) -> BenchmarkChange:
    old, new = benchmark_meaning(before, was), benchmark_meaning(after, now)
    own = [difference for difference in differences(old, new) if not difference.startswith(("build.", "server."))]
    own = [
        "the benchmark that sets its rate" if difference.startswith("rate_of:") else difference for difference in own
    ]
    digest = json_digest(new)
    if json_digest(old) != digest:
        return BenchmarkChange(now["name"], Fate.RETURNS if (now["name"], digest) in earlier else Fate.ANEW, own)
    outside = list(differences(without(was, *MEANING), without(now, *MEANING)))
    return BenchmarkChange(now["name"], Fate.ALTERED if outside else Fate.SAME, outside)


def shared_changes(before: Content, after: Content) -> list[str]:
    """The changes of settings that all benchmarks share, as ``path: before → after``."""
    return list(differences(without(before, "benchmark"), without(after, "benchmark")))


def without(content: Content, *keys: str) -> Content:
    return {key: value for key, value in content.items() if key not in keys}


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """``path: before → after`` of all values that differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield f"{path}: {' → '.join(in_words(str(old), str(new)))}"


def in_words(old: str, new: str) -> tuple[str, str]:
    """Two different values, shortened: without most of a long common beginning, and no longer than a line."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    begin = common - CONTEXT if max(len(old), len(new)) > LONGEST_VALUE and common > CONTEXT else 0
    return shortened(old, begin), shortened(new, begin)


def shortened(text: str, begin: int) -> str:
    text = f"…{text[begin:]}" if begin else text
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def known_benchmarks(name: str) -> set[tuple[str, str]]:
    """(name, digest) of all benchmarks of the projects with this suite."""
    return set(Benchmark.objects.filter(project__suite=name).values_list("name", "digest"))


def version_of(name: str) -> str:
    """A version identifier: it changes with each edit of a suite and each change of its file."""
    return version_after(name, newest_edit(name))


def version_after(name: str, edit: SuiteEdit | None) -> str:
    return f"{edit.number if edit else 0} {file_digest(name)}"


def check_text(name: str, text: str) -> Definition:
    """The definition in a text to save as this suite. Raises DefinitionError."""
    if len(text) > LONGEST_TEXT:
        raise DefinitionError(f"the suite has {len(text):,} characters: at most {LONGEST_TEXT:,} are stored")
    definition = parse_suite(text, f"{name}.toml")
    if name and definition.name != name:
        message = f"name: it must stay {name!r}, by which projects refer to the suite (given: {definition.name!r})"
        raise DefinitionError(message, [Mistake(line_of_name(text), message)])
    return definition


def line_of_name(text: str) -> int | None:
    return next((i for i, line in enumerate(text.split("\n"), 1) if line.lstrip().startswith("name")), None)


def save_edit(name: str, text: str, author: User, seen_version: str) -> SuiteEdit:
    """Save a version of a suite, which is then in force.

    Raises DefinitionError, or NotSaved if it was changed meanwhile.

    ``seen_version``: the version that was edited.
    """
    check_text(name, text)
    return store_edit(name, text, author, seen_version)


def set_trials(name: str, trials: int, author: User, seen_version: str) -> tuple[SuiteEdit, int]:
    """Save the suite with other ``trials`` and nothing else changed. Return the version, and the trials before.

    ``most_trials`` is raised if it is stated and too low. Raises DefinitionError, or NotSaved.
    """
    text = text_of(name)
    if text is None:
        raise NotSaved(f"there is no suite {name!r}")
    before = parse_suite(text, f"{name}.toml")
    if before.trials == trials:
        raise NotSaved(f"the suite {name} has {trials} trials already")
    numbers: dict[str, int | None] = {"trials": trials}
    if before.most_trials:
        numbers["most_trials"] = max(trials, before.most_trials)
    for key, value in numbers.items():
        text = with_number(text, key, value)
    if check_text(name, text).model_dump() != before.model_dump() | numbers:
        raise NotSaved("the suite is written in a way that only people can change: edit its text")
    return store_edit(name, text, author, seen_version), before.trials


def with_number(text: str, key: str, number: int | None) -> str:
    """The text of a suite with another number of this key, added after its name where it is absent."""
    lines, line_numbers = text.split("\n"), lines_by_place(text)
    if line_number := line_numbers.get((key,)):
        lines[line_number - 1] = re.sub(r"=\s*[\d_]+", f"= {number}", lines[line_number - 1], count=1)
    else:
        lines.insert(line_numbers[("name",)], f"{key} = {number}")
    return "\n".join(lines)


def return_to_file(name: str, author: User, seen_version: str) -> SuiteEdit:
    """Put the suite's file in force again. Raises NotSaved, or DefinitionError if the file has a mistake."""
    text = file_text(name)
    if text is None:
        raise NotSaved(f"there is no file {name}.toml to return to")
    parse_suite(text, f"{name}.toml")
    return store_edit(name, None, author, seen_version)


def store_edit(name: str, text: str | None, author: User, seen_version: str) -> SuiteEdit:
    if version_of(name) != seen_version:
        raise NotSaved("somebody else, or a new file, has changed this suite meanwhile: look at the version in force")
    newest = newest_edit(name)
    try:
        with transaction.atomic():
            return SuiteEdit.objects.create(
                name=name,
                number=newest.number + 1 if newest else 1,
                text=text,
                file_digest=file_digest(name),
                author=author,
            )
    except IntegrityError:
        raise NotSaved("somebody else has saved this suite at the same moment: look at the version in force") from None


def conflict(edit: SuiteEdit | None) -> str:
    """A warning if the file was changed after the edit that is in force; empty if it was not."""
    if edit is None or edit.text is None or edit.file_digest == file_digest(edit.name):
        return ""
    if not edit.file_digest:
        return f"There is a file {edit.name}.toml now, too. What was saved here is in force, not the file."
    if not file_digest(edit.name):
        return f"The file {edit.name}.toml is gone. What was saved here is in force."
    return f"The file {edit.name}.toml has changed since. What was saved here is in force, not the file."
