"""`python -m runners.sandbox` says whether builds and servers run in a sandbox here; exit status 1: they do not."""

import os
import sys

from runners.errors import SettingsError
from runners.sandbox.policy import sandbox_of_machine


def main() -> int:
    try:
        sandbox = sandbox_of_machine(os.environ)
    except SettingsError as error:
        print(error)
        return 1
    print(sandbox)
    return 0 if sandbox.works else 1


if __name__ == "__main__":
    sys.exit(main())
