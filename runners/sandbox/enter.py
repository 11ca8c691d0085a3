"""Becomes a program in the network of a sandbox: `enter.py REPORT,NAMESPACE,... PROGRAM ARGUMENT ...`.

REPORT and the namespaces are descriptors. It is a program of its own, because a process with several threads cannot
enter a user namespace (setns(2)), and libraries of the caller start threads in forked children. A failure is written to
REPORT as JSON; exec closes it.
"""

import ctypes
import json
import os
import sys


def main(report: int, namespaces: list[int], argv: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        for namespace in namespaces:
            if libc.setns(namespace, 0):
                raise OSError(ctypes.get_errno(), "setns: the network of the sandbox cannot be entered")
            os.close(namespace)
        os.set_inheritable(report, False)
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(report, json.dumps([error.errno, error.strerror]).encode())


if __name__ == "__main__":
    report_descriptor, *namespace_descriptors = map(int, sys.argv[1].split(","))
    main(report_descriptor, namespace_descriptors, sys.argv[2:])
    sys.exit(1)
