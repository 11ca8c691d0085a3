"""`python -m runners.sandbox` says whether builds and servers run in a sandbox on this machine; exit status 1: no."""

import os
import sys

from runners.errors import SettingsError
from runners.sandbox.policy import of_machine


def main() -> int:
    try:
        sandbox = of_machine(os.environ)
    except SettingsError as error:
        print(error)
        return 1
    print(sandbox)
    return 0 if sandbox.works else 1


if __name__ == "__main__":
    sys.exit(main())
