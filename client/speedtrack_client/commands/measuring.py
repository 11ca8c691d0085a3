"""Commands that measure commits, and show or judge the measurements."""

import sys
from pathlib import Path
from urllib.parse import quote

from speedtrack_client import gates, logins, repositories, waiting
from speedtrack_client.arguments import Options
from speedtrack_client.calls import Api, JsonObject, plain
from speedtrack_client.commands.places import ProjectOfCommand, page
from speedtrack_client.failures import Exit, Failure, misused
from speedtrack_client.printing import Printer

ENDED = ("succeeded", "failed", "cancelled")  # states of a run


def compare(options: Options, printer: Printer) -> Exit:
    check_compared(options)
    check_summary(options)
    api = Api(logins.login_for(options.url))
    project = ProjectOfCommand(api, options)
    if options.id:
        comparison = api.get(f"projects/{project.slug}/comparisons/{options.id}")
        return follow(api, project, comparison, options, printer)
    base, head = project.commit(options.base), project.commit(options.head)
    if base == head:
        return nothing_to_compare(options, printer, head)
    if options.measured:
        comparison = api.get(f"projects/{project.slug}/compare", base=base, head=head, machine=options.machine)
        return report(api, {**comparison, "id": None, "error": ""}, measured_rows(comparison), options, printer)
    order = {"head": head, "base": base, "benchmarks": options.benchmarks, "machine": options.machine}
    comparison = api.post(f"projects/{project.slug}/comparisons", order)
    return follow(api, project, comparison, options, printer)


def try_patch(options: Options, printer: Printer) -> Exit:
    """Measure the working tree, a diff or a branch in pairs, and wait for the answer."""
    check_summary(options)
    api = Api(logins.login_for(options.url))
    project = ProjectOfCommand(api, options)
    order: JsonObject = {"benchmarks": options.benchmarks, "machine": options.machine}
    if options.branch:
        path, more = "comparisons", {"head": options.branch, "base": options.base}
    else:
        path, more = "comparisons/patches", patch_of(project, options)
    comparison = api.post(f"projects/{project.slug}/{path}", order | more)
    printer.say(f"{plain(comparison['summary'])}. Its page: {page(api, comparison['page'].lstrip('/'))}")
    return follow(api, project, comparison, options, printer)


def patch_of(project: ProjectOfCommand, options: Options) -> JsonObject:
    """The diff and its base: of a file or standard input, else of the working tree. Raises Failure."""
    base = project.commit(options.base) if options.base else None
    if options.diff:
        return {"diff": text_of(read_bytes(options.diff)), "base": base}
    branch = project.project["default_branch"]
    base = base or repositories.fork_of(project.project["repository"], branch)
    if base is None:
        raise misused(
            f"no commit that HEAD shares with {plain(branch)} of {project.slug} is here: fetch, or give --base"
        )
    diff, fault = repositories.patch_against(base)
    if fault:
        raise misused(f"git diff failed: {plain(fault)}")
    if not diff:
        raise misused(f"nothing differs from {base[:12]}: new files count after `git add -N FILE`")
    return {"diff": text_of(diff), "base": base}


def read_bytes(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as e:
        raise misused(f"cannot read {name}: {e.strerror}") from None


def text_of(diff: bytes) -> str:
    try:
        text = diff.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise misused("the diff is not UTF-8: let git write it (`git diff --output=FILE`), or push a branch: --branch")
    return text


def check_compared(options: Options) -> None:
    if options.id and (options.base or options.measured):
        raise misused("give --id, or two commits A and B, not both")
    if not options.id and not options.head:
        raise misused("give two commits, such as `speedtrack compare main HEAD`, or --id")


def nothing_to_compare(options: Options, printer: Printer, head: str) -> Exit:
    """Report an empty change, which passes because it has no regression."""
    limit = options.fail_on_regression
    gate = None if limit is None else {"fail_on_regression_percent": limit, "passed": True, "regressions": []}
    text = "### SpeedTrack: both sides are the same commit, so there is nothing to measure\n"
    code = summarised(options, printer, text, Exit.FINE)
    say_result(printer, None, gate, code)
    printer.line(f"Both are {head[:12]}: there is nothing to measure.")
    return code


def follow(api: Api, project: ProjectOfCommand, comparison: JsonObject, options: Options, printer: Printer) -> Exit:
    """Report on a requested paired comparison; with --wait, after it has ended."""
    again = f"speedtrack compare --project {project.slug} --id {comparison['id']} --wait"
    if options.wait or options.fail_on_regression is not None:
        comparison = wait_for(api, project, comparison, options, printer, again)
    if not comparison["is_ended"]:
        say_result(printer, comparison, None, Exit.FINE)
        printer.line(f"Comparison {comparison['id']} is {comparison['state']}. Wait for it: {again}")
        return Exit.FINE
    if comparison["state"] == "failed":
        summarised(options, printer, gates.summary(comparison, [], None, api.login.url), Exit.NOT_DONE)
        raise Failure(f"comparison {comparison['id']} failed: {plain(comparison['error'])}", Exit.NOT_DONE)
    for run in comparison["runs"]:
        if run["status"] != "succeeded":
            printer.say(f"warning: run {run['id']} on {run['machine']} {run['status']}: {plain(run['error'])}")
    return report(api, comparison, comparison["rows"], options, printer)


def wait_for(
    api: Api, project: ProjectOfCommand, comparison: JsonObject, options: Options, printer: Printer, again: str
) -> JsonObject:
    path = f"projects/{project.slug}/comparisons/{comparison['id']}"

    def progress_line(answer: JsonObject) -> str:
        count = sum(run["status"] in ENDED for run in answer["runs"])
        return f"Comparison {answer['id']} is {answer['state']}, {count} of {len(answer['runs'])} runs have ended"

    with ExplainedInterrupt(again), printer.working(progress_line(comparison)) as show:
        return waiting.until(
            lambda: api.get(path),
            lambda answer: bool(answer["is_ended"]),
            lambda answer: show(progress_line(answer)),
            options.timeout,
            again,
        )


class ExplainedInterrupt:
    """On Ctrl-C, explain that only this command ends, and how to continue."""

    def __init__(self, again: str) -> None:
        self.again = again

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is KeyboardInterrupt:
            raise Failure(f"interrupted; the server goes on. To wait again: {self.again}", Exit.INTERRUPTED)


def measured_rows(comparison: JsonObject) -> list[JsonObject]:
    return [{**row, "machine": comparison["machine"] or ""} for row in comparison["rows"]]


def report(api: Api, document: JsonObject, rows: list[JsonObject], options: Options, printer: Printer) -> Exit:
    """Show the rows of a comparison, and return whether they pass."""
    metric_rows = rows_asked_for(rows, options)
    gate = gates.gate_of(metric_rows, options.fail_on_regression)
    summary = gates.summary(document, metric_rows, gate, page(api, f"p/{document['project']}/"))
    code = summarised(options, printer, summary, exit_of(gate))
    say_result(printer, document, gate, code)
    for note in document.get("notes", []):
        printer.say(f"note: {plain(note)}")
    show_rows(metric_rows, printer)
    printer.line(line_of(document, metric_rows, gate))
    return code


def line_of(document: JsonObject, rows: list[JsonObject], gate: JsonObject | None) -> str:
    """Both commits, and what they are to each other."""
    return f"{document['head'][:12]} against {document['base'][:12]}: {gates.answer(document, rows, gate)}."


def rows_asked_for(rows: list[JsonObject], options: Options) -> list[JsonObject]:
    """The rows of the metrics that the user named, or all rows."""
    return [row for row in rows if not options.metric or row["metric"] in options.metric]


def exit_of(gate: JsonObject | None) -> Exit:
    """The exit code of a command with this gate."""
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


def check_summary(options: Options) -> None:
    """Raise Failure before anything is measured if the file of the summary cannot be written."""
    if not options.summary:
        return
    try:
        Path(options.summary).open("a").close()
    except OSError as e:
        raise misused(f"cannot write {options.summary}: {e.strerror}") from None


def summarised(options: Options, printer: Printer, text: str, code: Exit) -> Exit:
    """Append the summary to its file. The exit code tells of a lost one if all else is fine."""
    if not options.summary:
        return code
    try:
        with Path(options.summary).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as e:
        printer.say(f"speedtrack: cannot write {options.summary}: {e.strerror}")
        return Exit.NO_OUTPUT if code == Exit.FINE else code
    return code


def measure(options: Options, printer: Printer) -> Exit:
    check_summary(options)
    api = Api(logins.login_for(options.url))
    project = ProjectOfCommand(api, options)
    revisions = project.range(options.what)
    key: JsonObject = {"range": revisions} if ".." in revisions else {"commits": [revisions]}
    order = {**key, "benchmarks": options.benchmarks, "machine": options.machine, "every": options.every}
    answer = api.post(f"projects/{project.slug}/runs", order)
    sentence = f"{answer['queued']} runs of {answer['commits']} commits are queued."
    if not (options.wait or options.fail_on_regression is not None):
        if printer.as_json:
            printer.json({**answer, "ended": None, "comparison": None, "gate": None, "exit_code": 0})
        printer.line(f"{sentence} {page(api, f'p/{project.slug}/')}")
        return Exit.FINE
    printer.say(sentence)
    ended_runs = wait_for_runs(api, answer["runs"], options, printer)
    return judge_measured(api, project, revisions, {**answer, "ended": ended_runs}, options, printer)


def wait_for_runs(api: Api, numbers: list[int], options: Options, printer: Printer) -> list[JsonObject]:
    """The runs with these numbers, once all have ended. Raises Failure."""
    ended_runs: dict[int, JsonObject] = {}
    again = "speedtrack status"

    def ask() -> int:
        for number in numbers:
            if number not in ended_runs:
                run = api.get(f"runs/{number}")
                if run["status"] not in ENDED:
                    break  # ask for the others later: they wait for this one, or end meanwhile
                ended_runs[number] = {name: run[name] for name in ("id", "sha", "machine", "status", "error")}
        return len(ended_runs)

    def progress_line(count: int) -> str:
        return f"{count} of {len(numbers)} runs have ended"

    with ExplainedInterrupt(again), printer.working(progress_line(0)) as show:
        waiting.until(ask, lambda n: n == len(numbers), lambda n: show(progress_line(n)), options.timeout, again)
    return [ended_runs[number] for number in numbers]


def judge_measured(
    api: Api, project: ProjectOfCommand, revisions: str, answer: JsonObject, options: Options, printer: Printer
) -> Exit:
    failed = [run for run in answer["ended"] if run["status"] != "succeeded"]
    for run in failed:
        printer.say(f"run {run['id']} of {run['sha'][:12]} on {run['machine']} {run['status']}: {plain(run['error'])}")
    comparison = sides_of(api, project, revisions, options)
    rows = rows_asked_for(measured_rows(comparison), options) if comparison else []
    gate = gates.gate_of(rows, options.fail_on_regression)
    code = exit_of(gate)
    if failed and code == Exit.FINE:
        code = Exit.NOT_DONE
    if comparison:
        summary = gates.summary({**comparison, "id": None}, rows, gate, page(api, f"p/{project.slug}/"))
        code = summarised(options, printer, summary, code)
    if printer.as_json:
        printer.json({**answer, "comparison": comparison, "gate": gate, "exit_code": int(code)})
    show_rows(rows, printer)
    if comparison:
        printer.line(line_of(comparison, rows, gate))
    else:
        printer.line("Measured; it has no parent to be compared with.")
    return code


def sides_of(api: Api, project: ProjectOfCommand, revisions: str, options: Options) -> JsonObject | None:
    """The comparison of a range's ends, or of a commit with its first parent; None if it has no parent."""
    base, dots, head = revisions.partition("..")
    if not dots:
        commit = api.get(f"projects/{project.slug}/commits/{quote(revisions, safe='')}")
        if not commit["parents"]:
            return None
        base, head = commit["parents"][0], commit["sha"]
    comparison: JsonObject = api.get(f"projects/{project.slug}/compare", base=base, head=head, machine=options.machine)
    return comparison
