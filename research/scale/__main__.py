"""Fill a database with long histories, measure every page and verb on it, and print one table.

python -m research.scale [--rows 1M] [--home DIR] [--seed 1] [--only fill|pages|work|browser] [--write docs/scale.md]

The database is an embedded PostgreSQL in DIR (default: var/scale-ROWS). If it is filled, it is measured as it is.
"""

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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
    parser.add_argument("--rows", type=number_of, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--only", choices=("fill", "pages", "work", "browser"))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    set_up((options.home or ROOT / "var" / f"scale-{options.rows}").resolve())
    from research.scale import bench
    from research.scale.histories import filling  # models: only once Django is set up
    from research.scale.histories.shape import shape_of
    from speedtrack.projects.models import Project

    if not Project.objects.exists():
        filling.fill(shape_of(options.rows, options.seed))
    if options.only in (None, "pages", "work"):
        bench.run(options.only, options.write)
    if options.only in (None, "browser"):
        from research.scale.costs import browsing  # playwright: not for the other parts

        browsing.run(options.write)


if __name__ == "__main__":
    main()
