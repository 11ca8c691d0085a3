"""The commands of docs/installing.md: the blocks that say on which machine they are run."""

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "installing.md"
FIGURES, NEWCOMER = "How long it takes", "From a clone to a chart"


@dataclass(frozen=True)
class CommandBlock:
    """Commands under a heading; `where` is `server`, `machine`, or `upgrade`, which is of the server as well."""

    heading: str
    where: str
    script: str


def blocks(text: str) -> list[CommandBlock]:
    command_blocks, heading, where, lines = [], "", "", list[str]()
    for line in text.splitlines():
        if line.startswith("```"):
            if where:
                command_blocks.append(CommandBlock(heading, where, "\n".join(lines)))
            where, lines = (line.removeprefix("```sh ") if line.startswith("```sh ") else ""), []
        elif where:
            lines.append(line)
        elif title := re.match(r"##+ (.+)", line):
            heading = title[1]
    return command_blocks


def write_section(heading: str, text: str, page: Path = PAGE) -> None:
    """Replace what stands under a heading of the page."""
    before, line, tail = page.read_text().partition(f"## {heading}\n")
    if not line:
        raise ValueError(f"{page} has no heading {heading}")
    _, following, after = tail.partition("\n## ")
    page.write_text(f"{before}{line}\n{text.rstrip()}\n{following}{after}")
