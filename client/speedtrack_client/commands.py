"""The commands: each asks the API, prints what it found, and returns how the command ends."""

import argparse
import getpass
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from speedtrack_client import arguments, gates, logins, repositories, sending, waiting
from speedtrack_client.calls import Api, plain
from speedtrack_client.failures import Exit, Failure, misused
from speedtrack_client.printing import Printer, ago, is_interactive, silence_pipe

Given = argparse.Namespace
JsonObject = dict[str, Any]
PROJECT = "SPEEDTRACK_PROJECT"
SHOWN_RUNS = 20
LONGEST_WAITED = 1000  # runs


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    printer = Printer("--json" in words)
    try:
        given = arguments.parser().parse_args(words)
        printer = Printer(given.json)
        code = COMMANDS[given.command](given, printer)
        sys.stdout.flush()
        return code
    except Failure as e:
        return ended(printer, str(e), e.code)
    except KeyboardInterrupt:
        return ended(printer, "interrupted", Exit.INTERRUPTED)
    except BrokenPipeError:
        silence_pipe()
        return Exit.FINE


def ended(printer: Printer, message: str, code: Exit) -> int:
    if printer.as_json:
        printer.json({"error": {"kind": code.name.lower(), "message": message}, "exit_code": int(code)})
    printer.say(f"speedtrack: {message}")
    return code


# -- who and where ---------------------------------------------------------------------------------------------------


def login(given: Given, printer: Printer) -> Exit:
    server = given.server or given.url or os.environ.get(logins.URL) or logins.load()["default"]
    if not server:
        raise misused("which server? Run `speedtrack login https://...`")
    url = logins.normal(server)
    token = asked_token(given, url)
    found = Api(logins.Login(url, token)).installation()
    if not found["user"]:
        raise Failure(f"{url} does not know this token: make one in your settings there", Exit.REFUSED)
    logins.store(url, token)
    if logins.is_open_to_listeners(url):
        printer.say("warning: without https, everybody on the way can read the token")
    if printer.as_json:
        printer.json(who(url, found))
    printer.line(f"Logged in to {url} as {plain(found['user'])}; the token may: {', '.join(found['scopes'])}.")
    return Exit.FINE


def asked_token(given: Given, url: str) -> str:
    """The token that the user enters or pipes in; it is not shown. Raises Failure."""
    if given.token_stdin:
        token = sys.stdin.readline()
    elif is_interactive():
        try:
            token = getpass.getpass(f"Token for {url} (stpt_..., from your settings there): ")
        except EOFError:
            token = ""
    else:
        raise misused("there is no terminal to ask on: give the token by --token-stdin, or set SPEEDTRACK_TOKEN")
    if not (found := logins.clean(token)):
        raise misused("no token was given")
    return found


def logout(given: Given, printer: Printer) -> Exit:
    url = logins.login_for(given.url).url
    was_there = logins.forget(url)
    if printer.as_json:
        printer.json({"url": url, "forgotten": was_there})
    printer.line(f"The token for {url} is forgotten." if was_there else f"There was no token for {url}.")
    return Exit.FINE


def whoami(given: Given, printer: Printer) -> Exit:
    api = Api(logins.login_for(given.url))
    found = api.installation()
    if printer.as_json:
        printer.json(who(api.login.url, found))
    name = plain(found["user"]) if found["user"] else "nobody: only what is public can be read"
    printer.line(f"{api.login.url} runs SpeedTrack {found['version']}.")
    printer.line(f"You are {name}; you may: {', '.join(found['scopes'])}.")
    return Exit.FINE


def who(url: str, found: JsonObject) -> JsonObject:
    return {"url": url, "version": found["version"], "user": found["user"], "scopes": found["scopes"]}


# -- projects --------------------------------------------------------------------------------------------------------


class Place:
    """A project, and whether the repository of the current directory is its own."""

    def __init__(self, api: Api, given: Given) -> None:
        name = given.project or os.environ.get(PROJECT)
        self.project: JsonObject = api.get(f"projects/{segment(name)}") if name else self.found(api)
        self.is_here = repositories.normal(self.project["repository"]) in repositories.remotes()

    @staticmethod
    def found(api: Api) -> JsonObject:
        """The project of this directory's repository. Raises Failure."""
        addresses = repositories.addresses()
        found = repositories.project_of(addresses, api.some("projects", tracked="true"))
        if found is None:
            what = f"tracks {' or '.join(addresses)}" if addresses else "can be found, as this is no git repository"
            raise misused(f"no project of {api.login.url} {plain(what)}: give --project NAME")
        return found

    @property
    def slug(self) -> str:
        return str(self.project["slug"])

    def commit(self, name: str) -> str:
        """The full id of a commit that has this name in the local repository; otherwise the name, for the server."""
        if self.is_here or repositories.is_own(name):
            found = repositories.commit_of(name)
            if found is None and repositories.is_own(name):
                raise misused(f"{name} is no commit here: run this in a git repository with commits")
            return found or name
        return name

    def range(self, text: str) -> str:
        first, dots, last = text.partition("..")
        return f"{self.commit(first)}..{self.commit(last)}" if dots else self.commit(text)


def segment(name: str) -> str:
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise misused(f"{name[:100]!r} is no name of a project")
    return name


def track(given: Given, printer: Printer) -> Exit:
    api = Api(logins.login_for(given.url))
    order = {"repository": given.repository, "suite": given.suite, "branch": given.branch, "name": given.name}
    made = api.post("projects", {**{k: v for k, v in order.items() if v is not None}, "last": given.last})
    address = page(api, f"p/{made['slug']}/")
    if printer.as_json:
        printer.json({"project": made, "page": address})
    printer.line(f"{made['slug']} is tracked: its history is being fetched. {address}")
    return Exit.FINE


def page(api: Api, path: str) -> str:
    return f"{api.login.url}/{path}"


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
    runs = list(api.some(f"projects/{slug}/runs", most=LONGEST_WAITED, status="unfinished"))
    alerts = list(api.some(f"projects/{slug}/alerts", most=LONGEST_WAITED, status="open"))
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


# -- measuring -------------------------------------------------------------------------------------------------------


def compare(given: Given, printer: Printer) -> Exit:
    check_compared(given)
    api = Api(logins.login_for(given.url))
    place = Place(api, given)
    if given.id:
        found = api.get(f"projects/{place.slug}/comparisons/{given.id}")
        return follow(api, place, found, given, printer)
    base, head = place.commit(given.base), place.commit(given.head)
    if base == head:
        return nothing_to_compare(given, printer, head)
    if given.measured:
        found = api.get(f"projects/{place.slug}/compare", base=base, head=head, machine=given.machine)
        return report(api, {**found, "id": None, "error": ""}, measured_rows(found), given, printer)
    order = {"head": head, "base": base, "benchmarks": given.benchmarks, "machine": given.machine}
    asked = api.post(f"projects/{place.slug}/comparisons", order)
    return follow(api, place, asked, given, printer)


def check_compared(given: Given) -> None:
    if given.id and (given.base or given.measured):
        raise misused("give --id, or two commits A and B, not both")
    if not given.id and not given.head:
        raise misused("give two commits, such as `speedtrack compare main HEAD`, or --id")


def nothing_to_compare(given: Given, printer: Printer, head: str) -> Exit:
    """Report that the change is empty, which passes: it has no regression."""
    limit = given.fail_on_regression
    gate = None if limit is None else {"fail_on_regression_percent": limit, "passed": True, "regressions": []}
    say_result(printer, None, gate, Exit.FINE)
    printer.line(f"Both are {head[:12]}: there is nothing to measure.")
    append_summary(given, "### SpeedTrack: both sides are the same commit, so there is nothing to measure\n")
    return Exit.FINE


def follow(api: Api, place: Place, asked: JsonObject, given: Given, printer: Printer) -> Exit:
    """Report on a requested paired comparison, after waiting for it if that is wanted."""
    again = f"speedtrack compare --project {place.slug} --id {asked['id']} --wait"
    if given.wait or given.fail_on_regression is not None:
        asked = wait_for(api, place, asked, given, printer, again)
    if not asked["is_ended"]:
        say_result(printer, asked, None, Exit.FINE)
        printer.line(f"Comparison {asked['id']} is {asked['state']}. Wait for it: {again}")
        return Exit.FINE
    if asked["state"] == "failed":
        append_summary(given, gates.summary(asked, [], None, api.login.url))
        raise Failure(f"comparison {asked['id']} failed: {plain(asked['error'])}", Exit.NOT_DONE)
    for run in asked["runs"]:
        if run["status"] != "succeeded":
            printer.say(f"warning: run {run['id']} on {run['machine']} {run['status']}: {plain(run['error'])}")
    return report(api, asked, asked["rows"], given, printer)


def wait_for(api: Api, place: Place, asked: JsonObject, given: Given, printer: Printer, again: str) -> JsonObject:
    path = f"projects/{place.slug}/comparisons/{asked['id']}"

    def words(one: JsonObject) -> str:
        done = sum(run["status"] in ("succeeded", "failed", "cancelled") for run in one["runs"])
        return f"Comparison {one['id']} is {one['state']}, {done} of {len(one['runs'])} runs have ended"

    with ExplainedInterrupt(again), printer.working(words(asked)) as show:
        return waiting.until(
            lambda: api.get(path), lambda one: bool(one["is_ended"]), lambda one: show(words(one)), given.timeout, again
        )


class ExplainedInterrupt:
    """On Ctrl-C, say that only this command ends, and how to continue."""

    def __init__(self, again: str) -> None:
        self.again = again

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is KeyboardInterrupt:
            raise Failure(f"interrupted; the server goes on, as shows: {self.again}", Exit.INTERRUPTED)


def measured_rows(found: JsonObject) -> list[JsonObject]:
    return [{**row, "machine": found["machine"] or ""} for row in found["rows"]]


def report(api: Api, document: JsonObject, rows: list[JsonObject], given: Given, printer: Printer) -> Exit:
    """Show the rows of a comparison, and return whether they pass."""
    kept = [row for row in rows if not given.metric or row["metric"] in given.metric]
    gate = gates.gate_of(kept, given.fail_on_regression)
    code = Exit.FINE
    if gate and not gate["passed"]:
        code = Exit.REGRESSION if gate["regressions"] else Exit.NOT_DONE
    say_result(printer, document, gate, code)
    show_rows(kept, printer)
    printer.line(f"{document['head'][:12]} against {document['base'][:12]}: {gates.verdict_line(kept, gate)}.")
    append_summary(given, gates.summary(document, kept, gate, page(api, f"p/{document['project']}/")))
    return code


def say_result(printer: Printer, document: JsonObject | None, gate: JsonObject | None, code: Exit) -> None:
    if printer.as_json:
        printer.json({"comparison": document, "gate": gate, "exit_code": int(code)})


def show_rows(rows: list[JsonObject], printer: Printer) -> None:
    several = len({row["machine"] for row in rows}) > 1
    titles = ["verdict", "benchmark", "metric", *(["machine"] if several else []), ">change", ">95% interval"]
    cells = [
        [
            row["verdict"],
            plain(row["benchmark"]),
            row["metric"],
            *([row["machine"]] if several else []),
            gates.change(row["ratio"]),
            gates.interval(row),
        ]
        for row in rows
    ]
    printer.table(titles, cells)


def append_summary(given: Given, text: str) -> None:
    if not given.summary:
        return
    try:
        with Path(given.summary).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as e:
        raise misused(f"cannot write {given.summary}: {e.strerror}") from None


def measure(given: Given, printer: Printer) -> Exit:
    api = Api(logins.login_for(given.url))
    place = Place(api, given)
    what = place.range(given.what)
    key: JsonObject = {"range": what} if ".." in what else {"commits": [what]}
    order = {**key, "benchmarks": given.benchmarks, "machine": given.machine, "every": given.every}
    queued = api.post(f"projects/{place.slug}/runs", order)
    words = f"{queued['queued']} runs of {queued['commits']} commits are queued."
    if not (given.wait or given.fail_on_regression is not None):
        if printer.as_json:
            printer.json({**queued, "ended": None, "comparison": None, "gate": None, "exit_code": 0})
        printer.line(f"{words} {page(api, f'p/{place.slug}/')}")
        return Exit.FINE
    printer.say(words)
    ended_runs = wait_for_runs(api, queued["runs"], given, printer)
    return judge_measured(api, place, what, {**queued, "ended": ended_runs}, given, printer)


def wait_for_runs(api: Api, numbers: list[int], given: Given, printer: Printer) -> list[JsonObject]:
    """The runs with these numbers, once all have ended. Raises Failure."""
    found: dict[int, JsonObject] = {}
    again = "speedtrack status"

    def ask() -> int:
        for number in numbers:
            if number not in found:
                run = api.get(f"runs/{number}")
                if run["status"] not in ("succeeded", "failed", "cancelled"):
                    break  # the others are asked for later: they wait for this one, or end meanwhile
                found[number] = {name: run[name] for name in ("id", "sha", "machine", "status", "error")}
        return len(found)

    def words(count: int) -> str:
        return f"{count} of {len(numbers)} runs have ended"

    with ExplainedInterrupt(again), printer.working(words(0)) as show:
        waiting.until(ask, lambda n: n == len(numbers), lambda n: show(words(n)), given.timeout, again)
    return [found[number] for number in numbers]


def judge_measured(api: Api, place: Place, what: str, measured: JsonObject, given: Given, printer: Printer) -> Exit:
    failed = [run for run in measured["ended"] if run["status"] != "succeeded"]
    for run in failed:
        printer.say(f"run {run['id']} of {run['sha'][:12]} on {run['machine']} {run['status']}: {plain(run['error'])}")
    found = sides_of(api, place, what, given)
    rows = [row for row in measured_rows(found) if not given.metric or row["metric"] in given.metric] if found else []
    gate = gates.gate_of(rows, given.fail_on_regression)
    code = Exit.NOT_DONE if failed else Exit.FINE
    if gate and not gate["passed"]:
        code = Exit.REGRESSION if gate["regressions"] else Exit.NOT_DONE
    if printer.as_json:
        printer.json({**measured, "comparison": found, "gate": gate, "exit_code": int(code)})
    show_rows(rows, printer)
    if found:
        printer.line(f"{found['head'][:12]} against {found['base'][:12]}: {gates.verdict_line(rows, gate)}.")
        append_summary(given, gates.summary({**found, "id": None}, rows, gate, page(api, f"p/{place.slug}/")))
    else:
        printer.line("Measured; it has no parent to be compared with.")
    return code


def sides_of(api: Api, place: Place, what: str, given: Given) -> JsonObject | None:
    """The comparison of a range's ends, or of a commit with its first parent; None if it has no parent."""
    base, dots, head = what.partition("..")
    if not dots:
        commit = api.get(f"projects/{place.slug}/commits/{quote(what, safe='')}")
        if not commit["parents"]:
            return None
        base, head = commit["parents"][0], commit["sha"]
    found: JsonObject = api.get(f"projects/{place.slug}/compare", base=base, head=head, machine=given.machine)
    return found


# -- results ---------------------------------------------------------------------------------------------------------


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
        for words in [*one["refused"], *left_out]:
            printer.line(f"  {plain(words)}")
    return code


def stated_commit(given: Given, place: Place) -> str:
    return place.commit(given.commit) if given.commit else ""


def completion(given: Given, printer: Printer) -> Exit:
    words = " ".join(sorted(COMMANDS))
    printer.line(
        "_speedtrack() {\n"
        '  local word="${COMP_WORDS[COMP_CWORD]}"\n'
        f'  local words="{words}"\n'
        '  [ "$COMP_CWORD" = 1 ] || words="$(git for-each-ref --format="%(refname:short)" 2>/dev/null)"\n'
        '  COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))\n'
        "}\n"
        "complete -F _speedtrack speedtrack"
    )
    return Exit.FINE


COMMANDS: dict[str, Callable[[Given, Printer], Exit]] = {
    "login": login,
    "logout": logout,
    "whoami": whoami,
    "track": track,
    "measure": measure,
    "compare": compare,
    "status": status,
    "alerts": alerts,
    "results": results,
    "completion": completion,
}
