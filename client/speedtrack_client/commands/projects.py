"""Commands about projects and their alerts."""

import os

from speedtrack_client import gates, logins, repositories
from speedtrack_client.arguments import Options
from speedtrack_client.calls import Api, JsonObject, plain
from speedtrack_client.commands.places import PROJECT, ProjectOfCommand, page
from speedtrack_client.failures import Exit, misused
from speedtrack_client.printing import Printer, ago

SHOWN_RUNS = 20
MOST_LISTED = 1000  # runs, and alerts


def track(options: Options, printer: Printer) -> Exit:
    api = Api(logins.login_for(options.url))
    order = {"repository": options.repository, "suite": options.suite, "branch": options.branch, "name": options.name}
    project = api.post("projects", {**{k: v for k, v in order.items() if v is not None}, "last": options.last})
    address = page(api, f"p/{project['slug']}/")
    if printer.as_json:
        printer.json({"project": project, "page": address})
    printer.line(f"{project['slug']} is tracked: its history is being fetched. {address}")
    if hook := project.get("hook_url"):  # older servers do not send it
        printer.line(f"webhook {hook}: its secret is made in the project's settings, {address}settings/")
    return Exit.FINE


def status(options: Options, printer: Printer) -> Exit:
    api = Api(logins.login_for(options.url))
    if not (options.project or os.environ.get(PROJECT)):
        projects = list(api.some("projects", tracked="true"))
        if len(repositories.projects_of(repositories.addresses(), projects)) != 1:
            return list_projects(projects, printer)
    return show_project(api, ProjectOfCommand(api, options).project, printer)


def list_projects(projects: list[JsonObject], printer: Printer) -> Exit:
    if printer.as_json:
        printer.json({"projects": projects})
    if not projects:
        printer.line("No project is tracked, or you may see none.")
    rows = [
        [project["slug"], ago(project["synced_at"]), plain(project["error"] or project["repository"])]
        for project in projects
    ]
    printer.table(["project", "looked at", "repository, or what is wrong with it"], rows)
    return Exit.FINE


def show_project(api: Api, project: JsonObject, printer: Printer) -> Exit:
    slug = project["slug"]
    commits = [] if not project["synced_at"] else list(api.some(f"projects/{slug}/commits", most=1))
    runs = list(api.some(f"projects/{slug}/runs", most=MOST_LISTED, status="unfinished"))
    alerts = list(api.some(f"projects/{slug}/alerts", most=MOST_LISTED, status="open"))
    newest = with_summary(api, slug, commits[0]) if commits else None
    if printer.as_json:
        printer.json({"project": project, "newest_commit": newest, "unfinished_runs": runs, "open_alerts": alerts})
    under_way = sum(run["status"] != "queued" for run in runs)
    printer.line(f"{slug}: {page(api, f'p/{slug}/')}")
    if project["error"]:
        printer.line(f"The last look at its repository failed: {plain(project['error'])}")
    if newest:
        printer.line(
            f"Newest commit: {newest['sha'][:12]} {plain(newest['subject'])} ({ago(newest['committed_at'])})"
            + f": {plain(newest['summary']).rstrip('.')}." * bool(newest["summary"])
        )
    printer.line(f"Runs: {under_way} under way, {len(runs) - under_way} waiting. Open alerts: {len(alerts)}.")
    rows = [
        [str(run["id"]), run["status"], run["machine"], run["reason"], run["sha"][:12]] for run in runs[:SHOWN_RUNS]
    ]
    if rows:
        printer.line("")
    printer.table([">run", "status", "machine", "reason", "commit"], rows)
    return Exit.FINE


def with_summary(api: Api, slug: str, commit: JsonObject) -> JsonObject:
    """The commit with the sentence on what it did; older servers send none."""
    return {**commit, "summary": api.get(f"projects/{slug}/commits/{commit['sha']}").get("summary", "")}


def alerts(options: Options, printer: Printer) -> Exit:
    api = Api(logins.login_for(options.url))
    if not 1 <= options.limit <= 10_000:
        raise misused("--limit must be 1 to 10000")
    path = "alerts" if options.all_projects else f"projects/{ProjectOfCommand(api, options).slug}/alerts"
    documents = list(api.some(path, most=options.limit, status=None if options.status == "any" else options.status))
    if printer.as_json:
        printer.json({"alerts": documents})
    if not documents:
        printer.line("No alert." if options.status == "any" else f"No alert is {options.status}.")
    rows = [alert_row(alert, with_project=options.all_projects) for alert in documents]
    titles = [">alert", "status", *(["project"] if options.all_projects else []), "what", "commit", "found"]
    printer.table(titles, rows)
    return Exit.FINE


def alert_row(alert: JsonObject, with_project: bool) -> list[str]:
    changes = alert["changes"]
    summary = "–"
    if changes:
        first = changes[0]
        summary = f"{plain(first['benchmark'])} {first['metric']} {gates.change(first['ratio'])}"
        summary += f" and {len(changes) - 1} more" * (len(changes) > 1)
        summary += f"; {plain(alert['instructions'])}" if alert.get("instructions") else ""
    project = [alert["project"]] if with_project else []
    return [str(alert["id"]), alert["status"], *project, summary, f"{alert['commit'][:12]}", ago(alert["created"])]
