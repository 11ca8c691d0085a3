"""Programs that Debian installs where the PATH of users does not reach."""

import os
import shutil


def find_nginx() -> str | None:
    return shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
