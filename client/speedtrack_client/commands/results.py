"""The command that sends results that were measured elsewhere."""

from pathlib import Path

from speedtrack_client import logins, sending
from speedtrack_client.arguments import Given
from speedtrack_client.calls import Api, JsonObject, plain
from speedtrack_client.commands.places import Place
from speedtrack_client.failures import Exit
from speedtrack_client.printing import Printer

LISTED = 10  # benchmarks, and commits


def results(given: Given, printer: Printer) -> Exit:
    api = Api(logins.login_for(given.url))
    place = Place(api, given)
    said: JsonObject = {
        "format": given.format,
        "commit": stated_commit(given, place),
        "machine": given.machine,
        "environment": dict(given.environment),
        "options": dict(given.option),
        "all_or_nothing": given.all_or_nothing,
    }
    if given.measured_at:
        said["measured_at"] = given.measured_at
    paths = [Path(name) for name in given.files]
    for path in paths:
        sending.content_of(path)  # a misspelt name must leave nothing half done
    reports = [sending.send(api, place.slug, path, said) for path in paths]
    refused = sum(len(one["refused"]) for one in reports)
    code = Exit.NOT_DONE if refused else Exit.FINE
    if printer.as_json:
        printer.json({"project": place.slug, "files": reports, "exit_code": int(code)})
    for one in reports:
        counted = f"{one['taken']} taken, {one['unchanged']} unchanged, {len(one['refused'])} refused"
        left_out = one.get("left_out", [])
        printer.line(f"{one['file']}: {counted}" + f", {len(left_out)} left out" * bool(left_out))
        for words in [*described(one), *one["refused"], *left_out]:
            printer.line(f"  {plain(words)}")
    return code


def described(report: JsonObject) -> list[str]:
    """What was taken, and where it is shown. Older servers do not say that."""
    benchmarks, commits = report.get("benchmarks", []), report.get("commits", [])
    named = ", ".join(benchmarks[:LISTED]) + f" and {len(benchmarks) - LISTED} more" * (len(benchmarks) > LISTED)
    lines = [f"benchmarks: {named}"] if benchmarks else []
    lines += [f"commit {one['sha'][:12]}: {one['url']}" for one in commits[:LISTED]]
    return lines + [f"and {len(commits) - LISTED} more commits"] * (len(commits) > LISTED)


def stated_commit(given: Given, place: Place) -> str:
    return place.commit(given.commit) if given.commit else ""
