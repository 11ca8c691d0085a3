"""Whether a built program can run on this host is read from its file, however that was made."""

import random
import re
import resource
import struct
import subprocess
from pathlib import Path

import pytest

from runners.build import BuildFailed
from runners.build.elf import HEADER, Damaged, function_names, linkage, loaded_bytes
from runners.build.linkage import check_runs_here

MAIN = "int seven(void); int main(void) { return 0; }\n"
E_MACHINE, E_PHOFF, E_SHOFF, E_PHENTSIZE, E_PHNUM, E_SHENTSIZE = 18, 32, 40, 54, 56, 58
AARCH64 = 183


def compiled(room: Path, name: str, code: str, *options: str) -> Path:
    source = room / f"{name}.c"
    source.write_text(code)
    subprocess.run(["cc", "-o", str(room / name), str(source), *options], check=True)
    return room / name


def changed(program: Path, offset: int, content: bytes) -> Path:
    """The program with other bytes at an offset."""
    before = program.read_bytes()
    program.write_bytes(before[:offset] + content + before[offset + len(content) :])
    return program


def test_a_program_is_judged_without_running_any_of_it(tmp_path: Path) -> None:
    """ldd runs the audit library that a program names, on the host and as the runner's user."""
    trace = tmp_path / "trace"
    code = f"""
    #include <fcntl.h>
    unsigned la_version(unsigned version) {{ open("{trace}", O_WRONLY | O_CREAT, 0600); return version; }}
    """
    audit = compiled(tmp_path, "audit.so", code, "-shared", "-fPIC")
    program = compiled(tmp_path, "program", MAIN, f"-Wl,--audit,{audit}")
    check_runs_here("program", program)
    assert not trace.exists()
    subprocess.run(["ldd", str(program)], capture_output=True)
    assert trace.exists(), "the attack works where a program is loaded"


def test_what_runs_here_passes(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    for program in (compiled(tmp_path, "main", MAIN), compiled(tmp_path, "static", MAIN, "-static"), script):
        check_runs_here("program", program)
    (tmp_path / "libseven.so").write_bytes(compiled(tmp_path, "seven", MAIN, "-shared", "-fPIC").read_bytes())
    check_runs_here("program", linked_with_seven(tmp_path, f"-Wl,-rpath,{tmp_path}"))


def linked_with_seven(room: Path, *options: str) -> Path:
    compiled(room, "libseven.so", "int seven(void) { return 7; }\n", "-shared", "-fPIC")
    return compiled(room, "eight", MAIN, "-Wl,--no-as-needed", "-L", str(room), "-lseven", *options)


def test_what_this_host_lacks_is_named(tmp_path: Path) -> None:
    main = compiled(tmp_path, "main", MAIN).read_bytes()
    newer, other = tmp_path / "newer", tmp_path / "other"
    newer.write_bytes(re.sub(rb"GLIBC_2\.\d\d\0", b"GLIBC_9.99\0", main))
    other.write_bytes(main)
    programs = {
        "libseven.so => not found": linked_with_seven(tmp_path),
        "version `GLIBC_9.99' not found in ": newer,
        "its loader /lib/ld-musl-none.so.1 => not found": compiled(
            tmp_path, "musl", MAIN, "-Wl,--dynamic-linker=/lib/ld-musl-none.so.1"
        ),
        "built for processors of another kind": changed(other, E_MACHINE, struct.pack("<H", AARCH64)),
    }
    for lack, program in programs.items():
        with pytest.raises(BuildFailed, match=re.escape(lack)) as error:
            check_runs_here("tiny", program)
        assert str(error.value).startswith("tiny does not run on this host (")


@pytest.mark.parametrize(
    ("offset", "content"),
    [
        (E_PHENTSIZE, struct.pack("<H", 0)),
        (E_PHENTSIZE, struct.pack("<H", 1)),
        (E_PHNUM, struct.pack("<H", 65535)),
        (E_PHOFF, struct.pack("<Q", 2**64 - 1)),
        (E_PHOFF, struct.pack("<Q", 2**62)),
        (E_SHOFF, struct.pack("<Q", 2**64 - 64)),
        (E_SHENTSIZE, struct.pack("<HH", 0, 65535)),
    ],
)
def test_a_damaged_header_is_read_to_no_harm(tmp_path: Path, offset: int, content: bytes) -> None:
    program = changed(compiled(tmp_path, "main", MAIN), offset, content)
    assert 0 < loaded_bytes(program) <= program.stat().st_size
    assert function_names(program) <= {*function_names(compiled(tmp_path, "again", MAIN))}
    judge(program)


def judge(program: Path) -> None:
    try:
        check_runs_here("main", program)
    except BuildFailed as error:
        assert "main" in str(error) and "\n" not in str(error)


def test_no_damage_raises_anything_else_or_takes_memory(tmp_path: Path) -> None:
    rng, intact = random.Random(1), compiled(tmp_path, "main", MAIN).read_bytes()
    at = HEADER.unpack_from(intact)[5]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    program = tmp_path / "damaged"
    for number in range(600):
        content = bytearray(intact[: rng.randrange(len(intact))] if number % 7 == 0 else intact)
        for _ in range(rng.randrange(1, 8)):
            if place := rng.choice((rng.randrange(64), at + rng.randrange(700), rng.randrange(len(intact)))):
                content[place : place + 8] = rng.choice((rng.randbytes(8), b"\xff" * 8, bytes(8)))
        program.write_bytes(bytes(content))
        assert loaded_bytes(program) <= program.stat().st_size
        function_names(program)
        judge(program)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_a_name_without_end_and_a_list_without_end_are_damage(tmp_path: Path) -> None:
    program = compiled(tmp_path, "main", MAIN)
    found = linkage(program)
    assert found and found.interpreter and found.needed
    content = program.read_bytes()
    place = content.index(found.interpreter.encode())
    program.write_bytes(content[:place] + b"x" * (len(content) - place))
    with pytest.raises(Damaged, match=r"does not end|address|bytes"):
        linkage(program)
