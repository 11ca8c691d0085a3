"""The command ``speedtrack``: parse its words, call one command, return how that ends."""

import sys
from collections.abc import Callable, Sequence

from speedtrack_client import arguments
from speedtrack_client.arguments import Given
from speedtrack_client.commands import accounts, measuring, projects, results
from speedtrack_client.failures import Exit, Failure
from speedtrack_client.printing import Printer, silence_pipe


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
    "login": accounts.login,
    "logout": accounts.logout,
    "whoami": accounts.whoami,
    "track": projects.track,
    "measure": measuring.measure,
    "compare": measuring.compare,
    "status": projects.status,
    "alerts": projects.alerts,
    "results": results.results,
    "completion": completion,
}
