"""Fill a database with long histories, measure every page and verb on it, and print one table.

python -m research.scale [--shape grid] [--rows 1M] [--home DIR] [--seed 1] [--only fill|pages|work|browser]
                         [--write docs/scale.md]

Without a shape: the histories, and then the pages of each shape in full. The database is an embedded PostgreSQL in DIR
(default: var/scale-ROWS or var/scale-SHAPE). If it is filled, it is measured as it is.
"""

import argparse
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHAPES = (
    "kind",
    "branches",
    "grid",
    "outside",
    "people",
    "away",
    "wide",
)  # the names in shapes.parts, which needs Django
ROWS = 1_000_000
SUFFIXES = {"k": 1000, "M": 1_000_000}


def number_of(text: str) -> int:
    """``10M`` or ``200k`` as a number."""
    return int(text[:-1]) * SUFFIXES[text[-1]] if text[-1:] in SUFFIXES else int(text)


def set_up(home: Path) -> None:
    """Django on the embedded PostgreSQL of this directory."""
    os.environ |= {
        "SPEEDTRACK_HOME": str(home),
        "SUITES": str(home / "suites"),
        "DJANGO_SETTINGS_MODULE": "speedtrack.settings",
        "ALLOW_LOCAL_REPOSITORIES": "true",
        "CANARY_EVERY_S": str(10**8),  # claims must get runs of the history
        "HOOK_RATE": "0",
        "LOG_LEVEL": "ERROR",
    }
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)  # if root starts it, PostgreSQL runs as another user
    suites = home / "suites"
    suites.mkdir(exist_ok=True)
    for file in (ROOT / "suites").glob("*.toml"):
        (suites / file.name).write_bytes(file.read_bytes())
    from speedtrack.processes import devstack

    if "DATABASE_URL" not in os.environ:
        os.environ["DATABASE_URL"] = devstack.postgresql(home / "postgresql")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--rows", type=number_of, help="measurements; default: 1M, or the whole shape")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--only", choices=("fill", "pages", "work", "browser"))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if not options.shape:
        options.rows = options.rows or ROWS
    name = "-".join(str(piece) for piece in ("scale", options.shape, options.rows) if piece)
    set_up((options.home or ROOT / "var" / name).resolve())
    if options.shape:
        measure_shape(options)
        return
    measure_histories(options)
    if options.only is None:
        measure_every_shape(options.write)


def measure_histories(options: argparse.Namespace) -> None:
    from research.scale import bench
    from research.scale.histories import filling  # models: only once Django is set up
    from research.scale.histories.sizes import sizes_of
    from speedtrack.projects.models import Project

    if not Project.objects.exists():
        sizes = sizes_of(options.rows, options.seed)
        filling.fill(partial(filling.write_histories, sizes), sizes.rows)
    if options.only in (None, "pages", "work"):
        bench.run(options.only, options.write)
    if options.only in (None, "browser"):
        from research.scale.costs import browsing  # playwright: not for the other parts

        browsing.run(options.write)


def measure_every_shape(write: Path | None) -> None:
    """Each in a process of its own, because Django has one database in a process."""
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    for shape in SHAPES:
        command = [sys.executable, "-m", "research.scale", "--shape", shape]
        subprocess.run([*command, *(["--write", str(write)] if write else [])], check=True, env=environment)


def measure_shape(options: argparse.Namespace) -> None:
    from research.scale.histories import filling  # models: only once Django is set up
    from research.scale.shapes import parts, worst
    from research.scale.shapes.extents import FULL_ROWS, extents_of
    from speedtrack.projects.models import Project

    if not Project.objects.exists():
        rows = options.rows or FULL_ROWS
        write = partial(parts.write_shape, parts.SHAPES[options.shape], extents_of(rows), options.seed)
        filling.fill(write, rows)
    if options.only in (None, "pages"):
        worst.run(options.shape, options.write)


if __name__ == "__main__":
    main()
