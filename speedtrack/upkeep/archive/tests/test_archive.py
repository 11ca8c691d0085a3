"""Archives of projects with a real PostgreSQL: what is restored is what was written, or nothing has changed."""

import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from speedtrack.alerts.models import AlertEvent
from speedtrack.ground.secrets.sealed import SealedField, Secret
from speedtrack.projects import chains
from speedtrack.projects.models import Annotation, Commit, Credential, Position, Project, PullRequest
from speedtrack.runs.models import Machine, Measurement, Run, Samples, Series
from speedtrack.tests.comparisons import stored_comparisons
from speedtrack.tests.test_fsck import run_fsck
from speedtrack.upkeep import backup
from speedtrack.upkeep.archive import reading, writing
from speedtrack.upkeep.archive.files import ArchiveError, is_archive
from speedtrack.upkeep.archive.reading import Choices, restore
from speedtrack.upkeep.archive.tables import LEFT_OUT, TABLES
from speedtrack.web.tests.world import World, slowed

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "planted-secret-77aa"
PAGES = ("/p/{}.json", "/p/{}/alerts.json", "/p/{}/timeline/get-p1/server_cpu_ns_per_request.json?points=all&trials=1")
AS_COPY = Choices("copy", machine_prefix="old-")


@pytest.fixture
def kept(settings: Any, tmp_path: Path) -> World:
    """A measured history with a confirmed alert, waiting runs, a note, a pull request, and secrets."""
    made, _ = slowed(settings, tmp_path)
    made.push(3)
    user = User.objects.create_user("ada")
    Annotation.objects.create(project=made.project, commit=made.commit(1), text="*a note*", author=user)
    PullRequest.objects.create(
        project=made.project, number=7, head_sha="a" * 40, base_ref="main", updated_at=made.commit(0).committed_at
    )
    Credential.objects.create(
        project=made.project, kind="token", origin="https://example.org", secret=Secret.of(SECRET)
    )
    return made


def rows_of(file: Path) -> dict[str, list[dict[str, Any]]]:
    with zipfile.ZipFile(file) as archive:
        names = [name for name in archive.namelist() if name.endswith(".ndjson")]
        return {name: [json.loads(line) for line in archive.read(name).splitlines()] for name in names}


def by_rank(file: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of an archive with their numbers replaced by their ranks, without what restoring changes."""
    rows = rows_of(file)
    ranks = {name: {row["id"]: place for place, row in enumerate(them) if "id" in row} for name, them in rows.items()}
    for table in TABLES:
        changed = {*table.restored, *(reading.project_values(AS_COPY) if table.model is Project else ())}
        for row in rows[table.file]:
            for one in reading.references(table):
                if row[one.column] is not None:
                    target = f"{one.related_model._meta.db_table}.ndjson"
                    row[one.column] = ranks.get(target, {}).get(row[one.column], row[one.column])
            for column, model in table.arrays.items():
                row[column] = [ranks[f"{model._meta.db_table}.ndjson"][pk] for pk in row[column]]
            if "id" in row:
                row["id"] = ranks[table.file][row["id"]]
            if table.model is Machine:
                row["name"] = row["name"].removeprefix("old-")
            for name in changed & row.keys():
                del row[name]
    return rows


def contents() -> dict[str, list[str]]:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        found = backup.digests(cursor)
        cursor.execute("COMMIT")
    return found


def test_what_is_restored_is_what_was_written(kept: World, tmp_path: Path, client: Client) -> None:
    manifest = writing.write(kept.project, tmp_path / "a.zip")
    assert manifest.rows > 300 and is_archive(tmp_path / "a.zip")
    restored = restore(tmp_path / "a.zip", AS_COPY)
    assert restored.project.slug == "copy" and restored.project.untracked_at
    writing.write(restored.project, tmp_path / "b.zip")
    first, second = by_rank(tmp_path / "a.zip"), by_rank(tmp_path / "b.zip")
    people = [first.pop("people.ndjson"), second.pop("people.ndjson")]
    assert people[0] == [{"id": User.objects.get().pk, "username": "ada"}] and people[1] == []
    for row in first["projects_annotation.ndjson"]:
        row["author_id"] = None
    assert first == second
    missing = [line for line in run_fsck()[1] if line.startswith("BAD") and "positions" not in line]
    assert missing == []  # the mirror is cloned by the first look, when a person resumes tracking


def test_pages_say_the_same_of_the_restored_project(kept: World, tmp_path: Path, client: Client) -> None:
    def said(slug: str) -> str:
        text = "\n".join(client.get(address.format(slug)).content.decode() for address in PAGES)
        names = {"copy": "kvd", "old-kvd-m1": "kvd-m1", '"cancelled"': '"waiting"'}
        names |= {"its run was cancelled": "waiting to be measured"}
        for name, other in names.items():
            text = text.replace(name, other)
        return text

    writing.write(kept.project, tmp_path / "a.zip")
    restore(tmp_path / "a.zip", replace(AS_COPY, match_people=True))
    numbers = {"id", "run", "runs", "alert", "open_alerts", "series", "url", "page_url"}

    def without_numbers(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_numbers(one) for key, one in value.items() if key not in numbers}
        return [without_numbers(one) for one in value] if isinstance(value, list) else value

    for before, after in zip(said("kvd").splitlines(), said("copy").splitlines(), strict=True):
        assert without_numbers(json.loads(after)) == without_numbers(json.loads(before))


def test_nothing_happens_because_a_project_was_restored(kept: World, tmp_path: Path) -> None:
    assert Run.objects.unfinished().exists()
    AlertEvent.objects.update(untold=True)
    writing.write(kept.project, tmp_path / "a.zip")
    restored = restore(tmp_path / "a.zip", AS_COPY).project
    assert not Run.objects.unfinished().filter(project=restored).exists()
    assert not AlertEvent.objects.filter(alert__project=restored, untold=True).exists()
    assert Machine.objects.get(name="old-kvd-m1").retired_at
    assert not Project.objects.due(0).filter(pk=restored.pk).exists()


def test_an_archive_under_the_former_name_of_its_form_is_restored(kept: World, tmp_path: Path) -> None:
    writing.write(kept.project, tmp_path / "a.zip")
    rewritten(tmp_path / "a.zip", tmp_path / "b.zip", with_manifest(schema="speedtrack.project/1"))
    restored = restore(tmp_path / "b.zip", AS_COPY).project
    assert restored.commits.count() == kept.project.commits.count() > 0


def as_written_before(file: Path, to: Path, rows: dict[str, list[dict[str, Any]]], without: Sequence[str]) -> None:
    """The archive as a former release would have written it: with these files, without those of these tables."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(contents["manifest.json"])
    for table in without:
        del contents[f"{table}.ndjson"], manifest["files"][f"{table}.ndjson"]
    for name, of_table in rows.items():
        contents[name] = b"".join(json.dumps(row).encode() + b"\n" for row in of_table)
        manifest["files"][name] = {
            "rows": len(of_table),
            "bytes": len(contents[name]),
            "sha256": hashlib.sha256(contents[name]).hexdigest(),
            "columns": list(of_table[0]),
        }
    with zipfile.ZipFile(to, "w") as archive:
        for name, content in {**contents, "manifest.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, content)


def test_comparisons_of_release_1_0_become_batches(kept: World, tmp_path: Path) -> None:
    writing.write(kept.project, tmp_path / "a.zip")
    former = [{**row._asdict(), "answer": str(row.answer)} for row in stored_comparisons()]
    rows = {reading.FORMER_COMPARISONS: former}
    as_written_before(tmp_path / "a.zip", tmp_path / "b.zip", rows, ["alerts_comparisonbatch"])
    restored = restore(tmp_path / "b.zip", AS_COPY).project
    assert compared(restored) == compared(kept.project) != []


def test_positions_of_a_release_without_chains_become_chains(kept: World, tmp_path: Path) -> None:
    side = kept.project.branches.create(name="side")
    shas = [*kept.shas[:2], "f" * 40]
    last = kept.commit(-1)
    last.pk, last.sha = None, shas[-1]
    last.save()
    chains.store(kept.project, {side: shas[-1]}, {shas[2]: shas[1]})
    writing.write(kept.project, tmp_path / "a.zip")
    former = list(Position.objects.values("branch_id", "number", "commit_id"))
    tables = ["projects_chain", "projects_chaincommit", "projects_segment"]
    as_written_before(tmp_path / "a.zip", tmp_path / "b.zip", {reading.FORMER_POSITIONS: former}, tables)
    restored = restore(tmp_path / "b.zip", AS_COPY).project
    assert histories(restored) == histories(kept.project)
    assert sum(map(len, histories(restored).values())) == len(former) == len(kept.shas) + 3
    assert [chain.commits.count() for chain in restored.chains.order_by("pk")] == [len(kept.shas), 1]


def test_lines_and_places_of_a_former_release_become_chains(kept: World, tmp_path: Path) -> None:
    writing.write(kept.project, tmp_path / "a.zip")
    former = {
        name.replace("chaincommit", "place").replace("chain", "line"): [
            {column.replace("chain_id", "line_id"): value for column, value in row.items()} for row in rows
        ]
        for name, rows in rows_of(tmp_path / "a.zip").items()
        if name.startswith(("projects_chain", "projects_segment"))
    }
    assert former.keys() == {"projects_line.ndjson", "projects_place.ndjson", "projects_segment.ndjson"}
    as_written_before(tmp_path / "a.zip", tmp_path / "b.zip", former, ["projects_chain", "projects_chaincommit"])
    restored = restore(tmp_path / "b.zip", AS_COPY).project
    assert histories(restored) == histories(kept.project) != {}


def histories(project: Project) -> dict[str, list[tuple[int, str]]]:
    """By branch: the positions and commits."""
    return {
        branch.name: list(branch.positions.order_by("number").values_list("number", "commit__sha"))
        for branch in project.branches.all()
    }


def compared(project: Project) -> list[Any]:
    """What is stored of each commit and line of a project, without numbers of rows."""
    shas = dict(Commit.objects.values_list("pk", "sha"))
    lines = {pk: line for pk, *line in Series.objects.values_list("pk", "benchmark__name", "metric")}
    rows = stored_comparisons(commit__project=project)
    return sorted([shas[row.commit_id], lines[row.series_id], *row[2:]] for row in rows)


def test_the_commands_write_and_restore(kept: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "a.zip")
    call_command("export", "kvd", file)
    call_command("import", "copy", file, machine_prefix="old-")
    said = capsys.readouterr().out
    assert "rows of" in said and "rows are now project copy" in said and "resume tracking" in said
    assert Commit.objects.filter(project__slug="copy").count() == len(kept.shas)
    with pytest.raises(CommandError, match="there is a project 'copy' here") as refused:
        call_command("import", "copy", file, machine_prefix="older-")
    assert refused.value.returncode == 2
    with pytest.raises(CommandError, match="there is no project 'none'"):
        call_command("export", "none", file)


def test_people_are_only_matched_when_asked(kept: World, tmp_path: Path) -> None:
    writing.write(kept.project, tmp_path / "a.zip")
    restore(tmp_path / "a.zip", AS_COPY)
    restore(tmp_path / "a.zip", Choices("other", same_machines=True, match_people=True))
    authors = dict(Annotation.objects.values_list("project__slug", "author__username"))
    assert authors == {"kvd": "ada", "copy": None, "other": "ada"}
    assert Project.objects.get(slug="other").series.first().machine.name == "kvd-m1"  # type: ignore[union-attr]


def test_no_secret_is_written(kept: World, tmp_path: Path) -> None:
    writing.write(kept.project, tmp_path / "a.zip")
    text = json.dumps(rows_of(tmp_path / "a.zip"))
    sealed = [
        getattr(row, one.attname).token
        for model in apps.get_models()
        for one in model._meta.concrete_fields
        if isinstance(one, SealedField)
        for row in model._default_manager.all()
    ]
    assert len([token for token in sealed if token]) >= 2
    assert [token for token in (*filter(None, sealed), SECRET) if token in text] == []
    assert (tmp_path / "a.zip").stat().st_mode & 0o777 == 0o600


def test_every_model_is_written_or_left_out_for_a_reason() -> None:
    models = {one._meta.label for one in apps.get_models(include_auto_created=True)}
    ours = {label for label in models if apps.get_app_config(label.split(".")[0]).name.startswith("speedtrack")}
    written = {table.model._meta.label for table in TABLES}
    assert ours - written - LEFT_OUT.keys() == set()
    assert written & LEFT_OUT.keys() == set() and LEFT_OUT.keys() - models == set()


def rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if (content := change(name, old.read(name))) is not None:
                new.writestr(name, content)
    return target


def with_manifest(**values: Any) -> Callable[[str, bytes], bytes]:
    def change(name: str, content: bytes) -> bytes:
        return json.dumps(json.loads(content) | values).encode() if name == "manifest.json" else content

    return change


def consistent(changed_file: str, edit: Callable[[bytes], bytes]) -> Callable[[Path, Path], Path]:
    """An archive with another content of one file, whose manifest fits."""

    def make(source: Path, target: Path) -> Path:
        with zipfile.ZipFile(source) as old:
            content = edit(old.read(changed_file))
            manifest = json.loads(old.read("manifest.json"))
        manifest["files"][changed_file] |= {
            "bytes": len(content),
            "rows": content.count(b"\n"),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        contents = {changed_file: content, "manifest.json": json.dumps(manifest).encode()}
        return rewritten(source, target, lambda name, before: contents.get(name, before))

    return make


BAD: dict[str, tuple[Callable[[Path, Path], Path], str]] = {
    "cut": (lambda a, b: b.write_bytes(a.read_bytes()[:-200]) and b, "damaged, or no archive"),
    "no zip": (lambda a, b: b.write_bytes(b"SELECT 1") and b, "damaged, or no archive"),
    "another zip": (lambda a, b: rewritten(a, b, lambda n, c: None if n == "manifest.json" else c), "no archive"),
    "another form": (lambda a, b: rewritten(a, b, with_manifest(schema="speedtrack.archive/9")), "install a newer"),
    "newer": (lambda a, b: rewritten(a, b, with_manifest(migrations=[["runs", "0999_later"]])), "newer release"),
    "deep manifest": (
        lambda a, b: rewritten(a, b, lambda n, c: b"[" * 100_000 if n == "manifest.json" else c),
        "no archive",
    ),
    "large manifest": (
        lambda a, b: rewritten(a, b, lambda n, c: b" " * 2_000_000 if n == "manifest.json" else c),
        "too large",
    ),
    "damaged manifest": (lambda a, b: flipped(a, b), "damaged, or no archive"),
    "manifest in no UTF-8": (
        lambda a, b: rewritten(a, b, lambda n, c: b"\xff" + c if n == "manifest.json" else c),
        "no archive",
    ),
    "file missing": (lambda a, b: rewritten(a, b, lambda n, c: None if n == "runs_run.ndjson" else c), "differ in"),
    "row changed": (
        lambda a, b: rewritten(a, b, lambda n, c: c.replace(b"5000", b"4000") if n == "runs_samples.ndjson" else c),
        "differs from its manifest",
    ),
    "no JSON": (consistent("runs_samples.ndjson", lambda c: c[:-9] + b"\n"), "PostgreSQL refuses"),
    "no UTF-8": (consistent("runs_samples.ndjson", lambda c: b"\xff\n" + c), "line 1 of runs_samples"),
    "deep JSON": (consistent("runs_samples.ndjson", lambda c: b"[" * 500_000 + b"\n" + c), "PostgreSQL refuses"),
    "loose reference": (consistent("projects_commit.ndjson", lambda c: c.split(b"\n", 1)[1]), "refers by"),
    "double row": (
        consistent("runs_measurement.ndjson", lambda c: c + c.splitlines(keepends=True)[0]),
        "PostgreSQL refuses",
    ),
    "no project": (consistent("projects_project.ndjson", lambda c: b""), "refers by"),
    "path in a name": (
        lambda a, b: rewritten(a, b, lambda n, c: c) and _added(b, "../../etc/passwd"),
        "differ in",
    ),
}


def flipped(source: Path, target: Path) -> Path:
    """A byte of the compressed manifest is another one."""
    content = bytearray(source.read_bytes())
    with zipfile.ZipFile(source) as archive:
        content[archive.getinfo("manifest.json").header_offset + 60] ^= 0xFF
    target.write_bytes(content)
    return target


def _added(file: Path, name: str) -> Path:
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(name, "x")
    return file


def test_what_is_wrong_with_an_archive_is_said_and_nothing_is_written(kept: World, tmp_path: Path) -> None:
    good = tmp_path / "good.zip"
    writing.write(kept.project, good)
    before = contents()
    for name, (make, words) in BAD.items():
        if not words:
            continue
        bad = make(good, tmp_path / f"{name}.zip")
        with pytest.raises(ArchiveError) as refused:
            restore(bad, AS_COPY)
        assert words in str(refused.value), (name, str(refused.value))
        assert contents() == before, name
        if name in ("damaged manifest", "manifest in no UTF-8", "large manifest"):
            with pytest.raises(CommandError) as said:  # the command takes it for an archive, not for a tool's file
                call_command("import", "copy", str(bad))
            assert words in str(said.value) and said.value.returncode == 2, name
    with pytest.raises(ArchiveError, match="there is no file"):
        restore(tmp_path / "none.zip", AS_COPY)
    with pytest.raises(ArchiveError, match="is no name"):
        restore(good, Choices("../kvd", same_machines=True))
    with pytest.raises(ArchiveError, match="there is a project 'kvd' here"):
        restore(good, Choices("kvd", same_machines=True))
    with pytest.raises(ArchiveError, match="machines of these names here: kvd-m1"):
        restore(good, Choices("copy"))
    assert contents() == before
    with pytest.raises(ArchiveError, match="exists"):
        writing.write(kept.project, good)


def test_an_archive_with_flags_as_arrays_is_restored_with_the_same_flags(kept: World, tmp_path: Path) -> None:
    there = Measurement.objects.filter(series__project=kept.project)
    there.filter(pk=there.earliest("pk").pk).update(flags=["foreign", "steal"])
    there.filter(pk=there.latest("pk").pk).update(flags=["unsteady"])
    writing.write(kept.project, tmp_path / "a.zip")

    def with_arrays(content: bytes) -> bytes:
        rows = [json.loads(line) for line in content.splitlines()]
        changed = [row | {"flags": row["flags"].split(",") if row["flags"] else []} for row in rows]
        return b"".join(json.dumps(row).encode() + b"\n" for row in changed)

    older = consistent("runs_measurement.ndjson", with_arrays)(tmp_path / "a.zip", tmp_path / "b.zip")
    flags = list(there.order_by("pk").values_list("flags", flat=True))
    assert [flags[0], flags[-1]] == [["foreign", "steal"], ["unsteady"]]
    for file, name in ((older, "older"), (tmp_path / "a.zip", "newer")):
        restored = restore(file, Choices(name, same_machines=True)).project
        again = Measurement.objects.filter(series__project=restored)
        assert list(again.order_by("pk").values_list("flags", flat=True)) == flags


def test_an_archive_of_a_release_without_a_column_gets_its_default(kept: World, tmp_path: Path) -> None:
    writing.write(kept.project, tmp_path / "a.zip")

    def without_flags(content: bytes) -> bytes:
        rows = [json.loads(line) for line in content.splitlines()]
        return b"".join(json.dumps({k: v for k, v in row.items() if k != "flags"}).encode() + b"\n" for row in rows)

    older = consistent("runs_measurement.ndjson", without_flags)(tmp_path / "a.zip", tmp_path / "b.zip")

    def fewer_columns(name: str, content: bytes) -> bytes:
        if name != "manifest.json":
            return content
        manifest = json.loads(content)
        manifest["files"]["runs_measurement.ndjson"]["columns"].remove("flags")
        return json.dumps(manifest).encode()

    restored = restore(rewritten(older, tmp_path / "c.zip", fewer_columns), AS_COPY).project
    there = Measurement.objects.filter(series__project=restored)
    assert there.count() == Measurement.objects.filter(series__project=kept.project).count() > 0
    assert not there.exclude(flags=[]).exists()
    assert Samples.objects.filter(measurement__in=there).exists()
    assert Commit.objects.filter(project=restored).count() == len(kept.shas)
