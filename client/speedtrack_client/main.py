"""The command ``speedtrack``: parse its arguments, call one command, return its exit code."""

import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from speedtrack_client import arguments
from speedtrack_client.arguments import Options
from speedtrack_client.calls import plain
from speedtrack_client.commands import accounts, measuring, projects, results
from speedtrack_client.failures import Exit, Failure, misused
from speedtrack_client.printing import OutputLost, Printer, discard_output, replace_closed_streams, written


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Return its exit code, which is REGRESSION only if there is a regression."""
    argv = sys.argv[1:] if argv is None else argv
    replace_closed_streams()
    try:
        return run(argv)
    except OutputLost as e:
        discard_output()
        return tell(f"the output cannot be written: {e}", Exit.NO_OUTPUT)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as e:  # a fault of this program; Python would exit with 1, which means a regression
        return tell(unexpected(e), Exit.INTERNAL)


def run(argv: Sequence[str]) -> int:
    """The exit code of a command. Raises OutputLost."""
    printer = Printer("--json" in argv)
    try:
        options = arguments.parser().parse_args(argv)
        printer = Printer(options.json)
        code: int = COMMANDS[options.command](options, printer)
    except Failure as e:
        code = ended(printer, str(e), e.code)
    except KeyboardInterrupt:
        code = ended(printer, "interrupted", Exit.INTERRUPTED)
    except OutputLost:
        raise
    except SystemExit as e:  # of --help and --version
        code = int(e.code or 0)
    except Exception as e:
        code = ended(printer, unexpected(e), Exit.INTERNAL)
    with written():
        sys.stdout.flush()
    return code


def ended(printer: Printer, message: str, code: Exit) -> int:
    tell(message, code)
    if printer.as_json:
        try:
            with written():
                printer.json({"error": {"kind": code.name.lower(), "message": message}, "exit_code": int(code)})
                sys.stdout.flush()
        except OutputLost:
            discard_output()  # the failure is reported already
    return code


def tell(message: str, code: Exit) -> int:
    """Print a failure on standard error, if it is open."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"speedtrack: {message}\n")
        sys.stderr.flush()
    return code


def unexpected(error: Exception) -> str:
    """A sentence about a fault of this program, with its position for a bug report."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    summary = plain(f"{type(error).__name__}: {error}")[:300]
    return f"an unexpected error in {Path(frame.filename).name}, line {frame.lineno} ({summary}): please report it"


def mcp(options: Options, printer: Printer) -> Exit:
    """Answer an agent until it ends. Raises Failure if the library for that is not installed."""
    try:
        from speedtrack_client.commands import agents
    except ModuleNotFoundError as e:
        if not (e.name or "").startswith("mcp"):
            raise
        raise misused(
            "`speedtrack mcp` needs the library mcp, 2.3 or newer: install the client as speedtrack-client[mcp]"
        ) from None
    agents.serve(options)
    return Exit.FINE


def completion(options: Options, printer: Printer) -> Exit:
    commands = " ".join(sorted(COMMANDS))
    printer.line(
        "_speedtrack() {\n"
        '  local word="${COMP_WORDS[COMP_CWORD]}"\n'
        f'  local words="{commands}"\n'
        '  [ "$COMP_CWORD" = 1 ] || words="$(git for-each-ref --format="%(refname:short)" 2>/dev/null)"\n'
        '  COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))\n'
        "}\n"
        "complete -F _speedtrack speedtrack"
    )
    return Exit.FINE


COMMANDS: dict[str, Callable[[Options, Printer], Exit]] = {
    "login": accounts.login,
    "logout": accounts.logout,
    "whoami": accounts.whoami,
    "track": projects.track,
    "measure": measuring.measure,
    "compare": measuring.compare,
    "try": measuring.try_patch,
    "status": projects.status,
    "alerts": projects.alerts,
    "results": results.results,
    "mcp": mcp,
    "completion": completion,
}
