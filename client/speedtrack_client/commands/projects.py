"""Commands about projects and their alerts."""

import os

from speedtrack_client import gates, logins, repositories
from speedtrack_client.arguments import Given
from speedtrack_client.calls import Api, JsonObject, plain
from speedtrack_client.commands.places import PROJECT, Place, page
from speedtrack_client.failures import Exit, misused
from speedtrack_client.printing import Printer, ago

SHOWN_RUNS = 20
MOST_LISTED = 1000  # runs, and alerts


def track(given: Given, printer: Printer) -> Exit:
    api = Api(logins.login_for(given.url))
    order = {"repository": given.repository, "suite": given.suite, "branch": given.branch, "name": given.name}
    made = api.post("projects", {**{k: v for k, v in order.items() if v is not None}, "last": given.last})
    address = page(api, f"p/{made['slug']}/")
    if printer.as_json:
        printer.json({"project": made, "page": address})
    printer.line(f"{made['slug']} is tracked: its history is being fetched. {address}")
    if hook := made.get("hook_url"):  # older servers do not say it
        printer.line(f"webhook {hook}: its secret is made in the project's settings, {address}settings/")
    return Exit.FINE


def status(given: Given, printer: Printer) -> Exit:
    api = Api(logins.login_for(given.url))
    if not (given.project or os.environ.get(PROJECT)):
        projects = list(api.some("projects", tracked="true"))
        if repositories.project_of(repositories.addresses(), projects) is None:
            return list_projects(projects, printer)
    return show_project(api, Place(api, given).project, printer)


def list_projects(projects: list[JsonObject], printer: Printer) -> Exit:
    if printer.as_json:
        printer.json({"projects": projects})
    if not projects:
        printer.line("No project is tracked, or you may see none.")
    rows = [[one["slug"], ago(one["synced_at"]), plain(one["error"] or one["repository"])] for one in projects]
    printer.table(["project", "looked at", "repository, or what is wrong with it"], rows)
    return Exit.FINE


def show_project(api: Api, project: JsonObject, printer: Printer) -> Exit:
    slug = project["slug"]
    commits = [] if not project["synced_at"] else list(api.some(f"projects/{slug}/commits", most=1))
    runs = list(api.some(f"projects/{slug}/runs", most=MOST_LISTED, status="unfinished"))
    alerts = list(api.some(f"projects/{slug}/alerts", most=MOST_LISTED, status="open"))
    newest = commits[0] if commits else None
    if printer.as_json:
        printer.json({"project": project, "newest_commit": newest, "unfinished_runs": runs, "open_alerts": alerts})
    under_way = sum(run["status"] != "queued" for run in runs)
    printer.line(f"{slug}: {page(api, f'p/{slug}/')}")
    if project["error"]:
        printer.line(f"The last look at its repository failed: {plain(project['error'])}")
    if newest:
        printer.line(f"Newest commit: {newest['sha'][:12]} {plain(newest['subject'])} ({ago(newest['committed_at'])})")
    printer.line(f"Runs: {under_way} under way, {len(runs) - under_way} waiting. Open alerts: {len(alerts)}.")
    rows = [
        [str(one["id"]), one["status"], one["machine"], one["reason"], one["sha"][:12]] for one in runs[:SHOWN_RUNS]
    ]
    if rows:
        printer.line("")
    printer.table([">run", "status", "machine", "reason", "commit"], rows)
    return Exit.FINE


def alerts(given: Given, printer: Printer) -> Exit:
    api = Api(logins.login_for(given.url))
    if not 1 <= given.limit <= 10_000:
        raise misused("--limit must be 1 to 10000")
    path = "alerts" if given.all_projects else f"projects/{Place(api, given).slug}/alerts"
    found = list(api.some(path, most=given.limit, status=None if given.status == "any" else given.status))
    if printer.as_json:
        printer.json({"alerts": found})
    if not found:
        printer.line("No alert." if given.status == "any" else f"No alert is {given.status}.")
    rows = [alert_row(one, with_project=given.all_projects) for one in found]
    titles = [">alert", "status", *(["project"] if given.all_projects else []), "what", "commit", "found"]
    printer.table(titles, rows)
    return Exit.FINE


def alert_row(one: JsonObject, with_project: bool) -> list[str]:
    changes = one["changes"]
    what = "–"
    if changes:
        first = changes[0]
        what = f"{plain(first['benchmark'])} {first['metric']} {gates.change(first['ratio'])}"
        what += f" and {len(changes) - 1} more" * (len(changes) > 1)
    project = [one["project"]] if with_project else []
    return [str(one["id"]), one["status"], *project, what, f"{one['commit'][:12]}", ago(one["created"])]
