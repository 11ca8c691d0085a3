"""Binds memory to nodes: the policy of the calling thread, which its children inherit across fork and exec."""

import contextlib
import ctypes
import os
import platform
from collections.abc import Iterator

ONE_NODE = "one memory node: nothing to bind"
NODES = 1024  # more than any kernel supports
MPOL_BIND = 2
# The numbers of get_mempolicy and set_mempolicy (arch/*/**/syscall*.tbl, include/uapi/asm-generic/unistd.h in Linux):
# the C library has no function for them, and libnuma is not always installed.
CALLS = {
    "x86_64": (239, 238),
    "aarch64": (236, 237),
    "riscv64": (236, 237),
    "ppc64le": (260, 261),
    "s390x": (269, 270),
}

_Mask = ctypes.c_ulong * (NODES // (8 * ctypes.sizeof(ctypes.c_ulong)))
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def bind_memory(nodes: frozenset[int]) -> Iterator[None]:
    """Children started inside get their memory from these nodes (empty: from any); the old policy is restored after it.

    Raises OSError if the kernel refuses; `bind_refusal` finds out beforehand.
    """
    if not nodes:
        yield
        return
    mode, mask = _read_policy()
    _set_policy(MPOL_BIND, _mask(nodes))
    try:
        yield
    finally:
        _set_policy(mode, mask)


def bind_refusal(nodes: frozenset[int]) -> str | None:
    """Why this process may not bind memory to these nodes; None if it may."""
    try:
        with bind_memory(nodes):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _mask(nodes: frozenset[int]) -> "ctypes.Array[ctypes.c_ulong]":
    mask, bits = _Mask(), 8 * ctypes.sizeof(ctypes.c_ulong)
    for node in nodes:
        mask[node // bits] |= 1 << node % bits
    return mask


def _read_policy() -> tuple[int, "ctypes.Array[ctypes.c_ulong]"]:
    mode, mask = ctypes.c_int(), _Mask()
    _call(0, ctypes.byref(mode), mask, ctypes.c_ulong(NODES), None, ctypes.c_ulong(0))
    return mode.value, mask


def _set_policy(mode: int, mask: "ctypes.Array[ctypes.c_ulong]") -> None:
    # The kernel uses one bit less than the given number (mm/mempolicy.c, get_nodes).
    _call(1, ctypes.c_int(mode), mask, ctypes.c_ulong(NODES + 1))


def _call(which: int, *arguments: object) -> None:
    numbers = CALLS.get(platform.machine())
    if numbers is None:
        raise OSError(f"the system call numbers of {platform.machine()} are not known")
    if _libc.syscall(ctypes.c_long(numbers[which]), *arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
