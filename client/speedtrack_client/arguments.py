"""The command line, with its manual."""

import argparse
import math
import re
import textwrap
from typing import NoReturn, TypeAlias

from speedtrack_client import __version__
from speedtrack_client.failures import misused

CODES = """\
exit codes:
  0  everything is fine           4  refused: log in, or ask for the role
  1  a regression was found       5  not finished within --timeout
  2  wrong usage or unknown name  6  not measured, or results were refused
  3  the server or the network    130  interrupted by Ctrl-C

environment:
  SPEEDTRACK_URL, SPEEDTRACK_TOKEN  win over `speedtrack login`
  SPEEDTRACK_PROJECT                the project, as --project
  SPEEDTRACK_REPOSITORY             the repository, where there is no checkout
  HTTPS_PROXY, NO_PROXY             proxies
  SSL_CERT_FILE                     certificates of your own authority
  NO_COLOR                          no colours
"""
Options = argparse.Namespace
UNITS = {"s": 1, "m": 60, "h": 3600, "": 1}


class Manual(argparse.RawDescriptionHelpFormatter):
    """Formats help: paragraphs as wide as the terminal, indented examples and tables unchanged."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join(
            paragraph if "\n  " in f"\n{paragraph}" else textwrap.fill(paragraph, width) for paragraph in paragraphs
        )


def percent(text: str) -> float:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage: give such as 3%")
    return number


def duration(text: str) -> float:
    match = re.fullmatch(r"(\d{1,7}(?:\.\d+)?)([smh]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: give such as 90m, 2h or 600s")
    return float(match[1]) * UNITS[match[2]]


def pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


class CommandParser(argparse.ArgumentParser):
    """A parser that treats wrong words as a Failure, which `--json` shows as JSON.

    Its subparsers are of this class, too.
    """

    def error(self, message: str) -> NoReturn:
        raise misused(f"{message}. `{self.prog} --help` describes it")


Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"


def common() -> CommandParser:
    """The options of every command."""
    parser = CommandParser(add_help=False)
    group = parser.add_argument_group("for every command")
    group.add_argument("--json", action="store_true", help="print JSON with documented keys")
    group.add_argument(
        "--url", metavar="URL", help="the server; default: SPEEDTRACK_URL, or that of `speedtrack login`"
    )
    return parser


def of_project() -> CommandParser:
    parser = CommandParser(add_help=False)
    parser.add_argument(
        "--project",
        metavar="NAME",
        help="default: SPEEDTRACK_PROJECT, or the one that tracks a git remote of this directory",
    )
    return parser


def of_measuring(always_waits: bool = False) -> CommandParser:
    parser = CommandParser(add_help=False)
    parser.add_argument(
        "--benchmarks", type=names, default=[], metavar="A,B", help="only these; default: the usual ones"
    )
    parser.add_argument("--machine", metavar="NAME", help="only on this machine; default: those of the project")
    if not always_waits:
        parser.add_argument("--wait", action="store_true", help="wait until it is measured, and show the result")
    parser.set_defaults(wait=always_waits)
    parser.add_argument("--timeout", type=duration, default=7200.0, metavar="TIME", help="of waiting; default: 2h")
    parser.add_argument(
        "--fail-on-regression",
        type=percent,
        metavar="PERCENT",
        help="exit with 1 if something is worse beyond noise by so much or more"
        + "; implies --wait" * (not always_waits),
    )
    parser.add_argument(
        "--metric", action="append", default=[], metavar="NAME", help="look at this metric only; repeatable"
    )
    parser.add_argument("--summary", metavar="FILE", help="also append a summary in Markdown to this file")
    return parser


def parser() -> CommandParser:
    root = CommandParser(
        prog="speedtrack",
        description="Ask a SpeedTrack server: measure commits, gate pull requests, send results, read alerts.",
        epilog=CODES + "\n`speedtrack COMMAND --help` describes a command.",
        formatter_class=Manual,
    )
    root.add_argument("--version", action="version", version=f"speedtrack {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_account(commands)
    add_track(commands)
    add_measure(commands)
    add_compare(commands)
    add_try(commands)
    add_reading(commands)
    add_results(commands)
    add_agents(commands)
    add_completion(commands)
    return root


def add(commands: Commands, name: str, short: str, text: str, *parents: CommandParser) -> CommandParser:
    """Add a command: ``short`` describes it in the list of commands, ``text`` in its own help."""
    return commands.add_parser(
        name,
        help=short,
        description=text,
        epilog=CODES,
        parents=[*parents, common()],
        formatter_class=Manual,
    )


def add_account(commands: Commands) -> None:
    login = add(
        commands,
        "login",
        "store a token for a server",
        "Ask for a token, try it, and store it where only you can read it. The server's settings make tokens: give it\n"
        "the scopes it needs: read, runs (measure, compare), results (results push), settings (track).",
    )
    login.add_argument("server", nargs="?", metavar="URL", help="such as https://speedtrack.example.org")
    login.add_argument("--token-stdin", action="store_true", help="read the token from standard input, as in CI")
    add(commands, "logout", "forget the token of a server", "Forget the stored token. The server's settings revoke it.")
    add(
        commands,
        "whoami",
        "show the server, its release, and who you are there",
        "Show which server answers, and to whom.",
    )


def add_track(commands: Commands) -> None:
    track = add(
        commands,
        "track",
        "track a repository",
        "Track a repository: its history is fetched, and its newest commits are measured.\n"
        "Only operators of the server may.",
    )
    track.add_argument("repository", metavar="URL", help="the repository, such as https://github.com/valkey-io/valkey")
    track.add_argument("--suite", required=True, help="the suite that builds and measures it")
    track.add_argument("--branch", help="default: the repository's own default branch")
    track.add_argument("--name", help="default: the last part of the URL")
    track.add_argument(
        "--last", type=int, default=10, metavar="N", help="measure so many newest commits now; default: 10"
    )


def add_measure(commands: Commands) -> None:
    measure = add(
        commands,
        "measure",
        "measure a commit or a range",
        "Measure a commit, branch or tag, or a range A..B, which leaves out A, for the lines of the charts.\n"
        "The server must have fetched the commits: push them to a tracked branch first. With --wait, what was\n"
        "measured is compared then: B with A, or a single commit with its first parent. `speedtrack compare`\n"
        "measures in pairs, which sees smaller changes: use that to gate a change.\n\n"
        "  speedtrack measure HEAD --wait\n  speedtrack measure v1.0..main --every 10",
        of_project(),
        of_measuring(),
    )
    measure.add_argument("what", metavar="REF|RANGE")
    measure.add_argument("--every", type=int, default=1, metavar="N", help="measure each n-th commit of a range")


def add_compare(commands: Commands) -> None:
    compare = add(
        commands,
        "compare",
        "measure a change in pairs against its merge base",
        "Measure B against its merge base with A, interleaved in pairs on the same machines, and show what got\n"
        "worse or better beyond noise. Commits of no tracked branch are fetched from the project's repository.\n\n"
        "  speedtrack compare main HEAD --wait --fail-on-regression 3%\n"
        "  speedtrack compare --id 12 --wait      (wait again for an earlier comparison)\n"
        "  speedtrack compare v1.0 v1.1 --measured",
        of_project(),
        of_measuring(),
    )
    compare.add_argument("base", nargs="?", metavar="A")
    compare.add_argument("head", nargs="?", metavar="B")
    compare.add_argument("--id", type=int, metavar="N", help="an earlier paired comparison")
    compare.add_argument("--measured", action="store_true", help="measure nothing: compare the measurements of both")


def add_try(commands: Commands) -> None:
    attempt = add(
        commands,
        "try",
        "measure a patch or a branch in pairs, and wait for the answer",
        "Measure the changes of this checkout in pairs against the commit where it left the project's default branch;\n"
        "or a diff, or a branch of the project's repository. Nothing has to be pushed, and no branch gets the patch.\n"
        "Its page, for everybody who sees the project, shows the pairs as they arrive.\n\n"
        "  speedtrack try --fail-on-regression 3%\n  git diff v1.0 | speedtrack try --diff - --base v1.0",
        of_project(),
        of_measuring(always_waits=True),
    )
    source = attempt.add_mutually_exclusive_group()
    source.add_argument("--diff", metavar="FILE", help="a diff in a file; -: on standard input")
    source.add_argument("--branch", metavar="NAME", help="a branch of the project's repository")
    attempt.add_argument("--base", metavar="REF", help="what the diff was made from, or the branch is compared with")


def add_reading(commands: Commands) -> None:
    add(
        commands,
        "status",
        "show a project's newest commit, runs and alerts",
        "Show a project's newest commit, its runs and its open alerts; outside of a repository, all projects.",
        of_project(),
    )
    alerts = add(
        commands,
        "alerts",
        "list alerts",
        "List the open alerts of a project, or of all; the newest first.",
        of_project(),
    )
    alerts.add_argument(
        "--status",
        default="open",
        choices=["open", "suspected", "confirmed", "expected", "invalid", "fixed", "any"],
        help="default: open, which is suspected or confirmed",
    )
    alerts.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many; default: 50")
    alerts.add_argument("--all-projects", action="store_true")


def add_results(commands: Commands) -> None:
    results = commands.add_parser("results", help="send results that were measured elsewhere")
    verbs = results.add_subparsers(dest="verb", metavar="push", required=True)
    push = verbs.add_parser(
        "push",
        help="send files",
        description="Send files that benchmark tools wrote (Google Benchmark, hyperfine, pytest-benchmark, Go,\n"
        "Criterion, JMH and more), or SpeedTrack's own format. The server finds out the format. Results that it has\n"
        "already change nothing. Folders are sent as archives.\n\n"
        "  speedtrack results push out.json --machine ci --environment compiler=gcc-14",
        epilog=CODES,
        parents=[of_project(), common()],
        formatter_class=Manual,
    )
    push.add_argument("files", nargs="+", metavar="FILE")
    push.add_argument("--format", default="auto", help="default: auto, by content")
    push.add_argument("--commit", metavar="REF", help="for files that name none")
    push.add_argument("--machine", default="", metavar="NAME", help="the machine's name, for files that name none")
    push.add_argument(
        "--environment",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=VALUE",
        help="what else affects the values",
    )
    push.add_argument("--measured-at", metavar="DATE", help="such as 2026-01-31T12:00Z")
    push.add_argument(
        "--option", action="append", default=[], type=pair, metavar="NAME=VALUE", help="an option of the format"
    )
    push.add_argument("--all-or-nothing", action="store_true", help="take nothing of a file if one result is refused")


def add_agents(commands: Commands) -> None:
    add(
        commands,
        "mcp",
        "answer an agent on standard input and output",
        "Offer comparisons, verdicts, alerts and measurements to an agent, by the Model Context Protocol. The agent\n"
        "starts this command itself, in a checkout or with --project, and may do what your token may.",
        of_project(),
    )


def add_completion(commands: Commands) -> None:
    completion = commands.add_parser(
        "completion",
        help="print a script for bash that completes commands",
        description='eval "$(speedtrack completion)"',
    )
    completion.set_defaults(json=False, url=None)
