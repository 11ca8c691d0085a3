"""Write the sample server's history into a git repository, or read it back from an edited one."""

import argparse
import sys
from pathlib import Path

from runners.sample import HistoryError, commits, export_history, present_commits, write_history


def main() -> int:
    arguments = _parser().parse_args()
    try:
        if arguments.export:
            _export(arguments.path)
        else:
            _write(arguments.path, arguments.upto)
    except HistoryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m runners.sample", description=__doc__)
    parser.add_argument("path", metavar="DEST", type=Path, help="the repository to write or to bring forward")
    parser.add_argument("--upto", type=int, metavar="N", help="stop after commit N (default: all)")
    parser.add_argument(
        "--export", action="store_true", help="the other way: replace the patches by the branch main of DEST"
    )
    return parser


def _write(path: Path, upto: int | None) -> None:
    before = len(present_commits(path))
    shas = write_history(path, upto)
    for entry, sha in zip(commits(), shas, strict=False):
        print(f"{entry.number:3} {sha[:12]} {entry.effect:17} {entry.subject}")
    if before >= len(shas):
        print(f"{path} already has {before} commits: nothing to do")
    else:
        print(f"{path} went from {before} to {len(shas)} commits")


def _export(path: Path) -> None:
    entries = export_history(path)
    print(f"{len(entries)} patches; check the column `effect` in history.toml")


if __name__ == "__main__":
    sys.exit(main())
