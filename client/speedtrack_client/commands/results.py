"""The command that sends results that were measured elsewhere."""

from contextlib import suppress
from pathlib import Path

from speedtrack_client import logins, sending
from speedtrack_client.arguments import Options
from speedtrack_client.calls import Api, JsonObject, plain
from speedtrack_client.commands.places import ProjectOfCommand
from speedtrack_client.failures import Exit, UnfitFile, misused
from speedtrack_client.printing import Printer

LISTED = 10  # benchmarks, and commits


def results(options: Options, printer: Printer) -> Exit:
    api = Api(logins.login_for(options.url))
    project = ProjectOfCommand(api, options)
    fields: JsonObject = {
        "format": options.format,
        "commit": stated_commit(options, project),
        "machine": options.machine,
        "environment": dict(options.environment),
        "options": dict(options.option),
        "all_or_nothing": options.all_or_nothing,
    }
    if options.measured_at:
        fields["measured_at"] = options.measured_at
    paths = [Path(name) for name in options.files]
    for path in paths:
        with suppress(UnfitFile):
            sending.content_of(path)  # find a misspelt name before anything is sent
    reports = [sending.send(api, project.slug, path, fields) for path in paths]
    if all("error" in report for report in reports):
        raise misused("; ".join(report["error"] for report in reports))
    code = Exit.NOT_DONE if any("error" in report or refusals_in(report) for report in reports) else Exit.FINE
    if printer.as_json:
        printer.json({"project": project.slug, "files": reports, "exit_code": int(code)})
    for report in reports:
        if "error" in report:
            printer.line(f"{report['file']}: cannot be used\n  {plain(report['error'])}")
            continue
        counts = f"{report['taken']} taken, {report['unchanged']} unchanged, {refusals_in(report)} refused"
        left_out = report.get("left_out", [])
        printer.line(f"{report['file']}: {counts}" + f", {len(left_out)} left out" * bool(left_out))
        for line in [*described(report), *report["refused"], *left_out]:
            printer.line(f"  {plain(line)}")
    return code


def refusals_in(report: JsonObject) -> int:
    """How many results were refused. Older servers send a sentence about each, but no count."""
    return int(report.get("refused_count", len(report["refused"])))


def described(report: JsonObject) -> list[str]:
    """The stored results, and their page. Older servers do not send these."""
    benchmarks, commits = report.get("benchmarks", []), report.get("commits", [])
    names = ", ".join(benchmarks[:LISTED]) + f" and {len(benchmarks) - LISTED} more" * (len(benchmarks) > LISTED)
    lines = [f"benchmarks: {names}"] if benchmarks else []
    lines += [f"commit {commit['sha'][:12]}: {commit['url']}" for commit in commits[:LISTED]]
    return lines + [f"and {len(commits) - LISTED} more commits"] * (len(commits) > LISTED)


def stated_commit(options: Options, project: ProjectOfCommand) -> str:
    return project.commit(options.commit) if options.commit else ""
