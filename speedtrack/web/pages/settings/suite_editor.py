"""The suites: their list, the text of one with its mistakes, what a change of it does, and its versions."""

from dataclasses import dataclass

from django.conf import settings
from django.http import Http404

from speedtrack.benchmarks import suiteedits
from speedtrack.benchmarks.definitions import Definition, DefinitionError, Mistake
from speedtrack.benchmarks.digests import json_digest
from speedtrack.benchmarks.models import SuiteEdit
from speedtrack.benchmarks.suiteedits import Fate, SuiteChange
from speedtrack.benchmarks.suitefiles import file_names, newest_edit, parse_suite, suite_names, text_of
from speedtrack.ground.texts.text import beyond_named
from speedtrack.projects.models import Project

VERSIONS = 50  # listed
CONTINUED = (Fate.ADDED, Fate.ALTERED)
ENDED = (Fate.ANEW, Fate.RETURNS, Fate.REMOVED)


@dataclass(frozen=True)
class ListedSuite:
    """``conflict``: a warning that the file differs from the edit in force; empty if there is none."""

    name: str
    edit: SuiteEdit | None
    projects: list[Project]
    conflict: str

    @property
    def is_edited(self) -> bool:
        return self.edit is not None and self.edit.text is not None


@dataclass(frozen=True)
class SuiteCheck:
    """The result of checking a text: its first mistakes, or what saving it changes.

    ``digest``: of the definition. Whoever agrees that lines end agrees for this one. ``count``: of all mistakes.
    """

    mistakes: list[Mistake]
    comparison: SuiteChange | None
    digest: str
    is_new: bool
    count: int = 1

    @property
    def beyond_named(self) -> list[str]:
        """The words about the mistakes that are not listed."""
        return beyond_named(self.count)

    @property
    def ended(self) -> list[suiteedits.BenchmarkChange]:
        return self.comparison.of(*ENDED) if self.comparison else []

    @property
    def ended_by_themselves(self) -> list[suiteedits.BenchmarkChange]:
        """Those of ``ended`` whose own section has changes."""
        return [change for change in self.ended if change.changed or change.fate != Fate.ANEW]

    @property
    def ended_together(self) -> list[str]:
        """The names of the others: their lines end because of a change that concerns all benchmarks."""
        return [change.name for change in self.ended if not change.changed and change.fate == Fate.ANEW]

    @property
    def continued(self) -> list[suiteedits.BenchmarkChange]:
        return self.comparison.of(*CONTINUED) if self.comparison else []

    @property
    def same(self) -> int:
        return len(self.comparison.of(Fate.SAME)) if self.comparison else 0


@dataclass(frozen=True)
class SuitePage:
    """``seen``: the version that is edited. ``text``: what the editor shows. ``check``: None if nothing was entered."""

    name: str
    text: str
    seen: str
    check: SuiteCheck | None
    edit: SuiteEdit | None
    has_file: bool
    conflict: str
    versions: list[SuiteEdit]
    projects: list[Project]
    directory: str

    @property
    def lines(self) -> list[str]:
        """The numbers of its lines, as texts: Django asks for the language of each number."""
        return list(map(str, range(1, self.text.count("\n") + 2)))

    @property
    def is_saved(self) -> bool:
        """Return whether the text is in force: then it can be measured."""
        return bool(self.name) and self.check is not None and not self.check.mistakes


def load_list() -> list[ListedSuite]:
    """All suites. The number of queries does not depend on how many there are."""
    edits = {edit.name: edit for edit in newest_edits()}
    projects = list(Project.objects.tracked().order_by("name"))
    return [
        ListedSuite(
            name, edits.get(name), [p for p in projects if p.suite == name], suiteedits.conflict(edits.get(name))
        )
        for name in suite_names()
    ]


def newest_edits() -> list[SuiteEdit]:
    return list(SuiteEdit.objects.order_by("name", "-number").distinct("name").select_related("author"))


def load(name: str, entered: str | None = None, base_version: str | None = None) -> SuitePage:
    """The page of a suite. ``entered``: a text that is not saved, of somebody who edits ``base_version``."""
    try:
        saved_text = text_of(name)
    except DefinitionError as e:
        saved_text, entered = "", entered or f"# {e}\n"
    if saved_text is None:
        raise Http404(f"There is no suite {name!r}: there are {', '.join(suite_names()) or 'none'}.")
    text = saved_text if entered is None else entered
    edit = newest_edit(name)
    return SuitePage(
        name=name,
        text=text,
        seen=base_version or suiteedits.version_of(name),
        check=check(name, text),
        edit=edit,
        has_file=name in file_names(),
        conflict=suiteedits.conflict(edit),
        versions=list(SuiteEdit.objects.filter(name=name).select_related("author").order_by("-number")[:VERSIONS]),
        projects=list(Project.objects.tracked().filter(suite=name).order_by("name")),
        directory=str(settings.SUITES),
    )


def load_new(text: str, is_entered: bool = True) -> SuitePage:
    """The page of a new suite, which gets its name from its text. It is checked once somebody has entered something."""
    result = check("", text) if is_entered else None
    return SuitePage("", text, "", result, None, False, "", [], [], str(settings.SUITES))


def check(name: str, text: str) -> SuiteCheck:
    """Check a text. ``name``: of the suite that it is to replace; empty for a new one."""
    try:
        definition = suiteedits.check_text(name, text)
    except DefinitionError as e:
        return SuiteCheck(sorted(e.mistakes, key=lambda mistake: mistake.line or 0), None, "", not name, e.count)
    if not name and definition.name in suite_names():
        message = f"name: there is a suite {definition.name!r} already: choose another name, or edit that one"
        return SuiteCheck([Mistake(suiteedits.line_of_name(text), message)], None, "", True)
    benchmarks = suiteedits.known_benchmarks(name) if name else set()
    comparison = suiteedits.compare(definition_in_force(name), definition, benchmarks)
    return SuiteCheck([], comparison, json_digest(definition.model_dump()), not name)


def definition_in_force(name: str) -> Definition | None:
    """The definition to compare with; None for a new suite, or if the one in force has a mistake."""
    try:
        text = text_of(name) if name else None
        return parse_suite(text, name) if text is not None else None
    except DefinitionError:
        return None


def version_or_404(name: str, number: int) -> SuiteEdit:
    edit: SuiteEdit | None = SuiteEdit.objects.filter(name=name, number=number).select_related("author").first()
    if edit is None:
        raise Http404(f"The suite {name!r} has no version {number}.")
    return edit
