"""Commands that measure commits, and show or judge what was measured."""

from pathlib import Path
from urllib.parse import quote

from speedtrack_client import gates, logins, waiting
from speedtrack_client.arguments import Given
from speedtrack_client.calls import Api, JsonObject, plain
from speedtrack_client.commands.places import Place, page
from speedtrack_client.failures import Exit, Failure, misused
from speedtrack_client.printing import Printer

ENDED = ("succeeded", "failed", "cancelled")  # states of a run


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
        done = sum(run["status"] in ENDED for run in one["runs"])
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
    kept = rows_asked_for(rows, given)
    gate = gates.gate_of(kept, given.fail_on_regression)
    code = exit_of(gate)
    say_result(printer, document, gate, code)
    show_rows(kept, printer)
    printer.line(f"{document['head'][:12]} against {document['base'][:12]}: {gates.verdict_line(kept, gate)}.")
    append_summary(given, gates.summary(document, kept, gate, page(api, f"p/{document['project']}/")))
    return code


def rows_asked_for(rows: list[JsonObject], given: Given) -> list[JsonObject]:
    """The rows of the metrics that the user named, or all rows."""
    return [row for row in rows if not given.metric or row["metric"] in given.metric]


def exit_of(gate: JsonObject | None) -> Exit:
    """How a command with this gate ends."""
    if gate is None or gate["passed"]:
        return Exit.FINE
    return Exit.REGRESSION if gate["regressions"] else Exit.NOT_DONE


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
                if run["status"] not in ENDED:
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
    rows = rows_asked_for(measured_rows(found), given) if found else []
    gate = gates.gate_of(rows, given.fail_on_regression)
    code = exit_of(gate)
    if failed and code == Exit.FINE:
        code = Exit.NOT_DONE
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
