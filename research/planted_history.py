"""A real history with changes in known places: commits of a server, and between them some that change what it costs.

python research/planted_history.py REPOSITORY OUT --head COMMIT [--server redis] [--plant loops|work] [--commits 52]
                                   [--seed 1] [--percent-per-step 0.16]

REPOSITORY is that of the server, OUT the one to be written (its branch is `main`). The newest first-parent commits up
to HEAD that touch the server's sources are taken as they are, but for what is planted, in places drawn by lot.

``--plant work``: one commit hashes the key once more in each look-up, another copies the value once more in each SET.

``--plant loops`` (Redis alone): GET has a loop that does nothing, LOOPS times at first, and nine commits change only
how often: one makes GET slower by 5% of its CPU time per request, one by 2%, one faster by 4%, and six together drift
by 6%. ``--percent-per-step`` is what one turn of the loop costs: measure it, by builds with 40 and 140 turns.

Prints each planted commit and what it does.
"""

import argparse
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """Put ``code`` before the first ``anchor`` that comes after ``function`` in this file."""

    file: str
    function: str
    anchor: str
    code: str


SOURCES = {"redis": ["src"], "valkey": ["src"], "memcached": ["*.c", "*.h"]}
COPY_OF_SDS = "    if (sdsEncodedObject(val)) sdsfree(sdsdup(val->ptr));\n"
# The compiler would leave out a copy that nobody reads.
COPY_OF_ITEM = """    char copy[64];
    memcpy(copy, ITEM_data(it), it->nbytes < 64 ? it->nbytes : 64);
    __asm__ volatile("" : : "r"(copy) : "memory");
"""
WORK = {
    "redis": (
        Edit(
            "src/dict.c", "\ndictEntry *dictFind(", "    h = dictHash", "    dictHashKey(d, key, d->useStoredKeyApi);\n"
        ),
        Edit("src/t_string.c", "\nvoid setGenericCommand(", "    int found = 0;", COPY_OF_SDS),
    ),
    "valkey": (
        Edit("src/dict.c", "\ndictEntry *dictFind(", "    h = dictHash", "    dictHashKey(d, key);\n"),
        Edit("src/t_string.c", "\nvoid setGenericCommand(", "    int found = 0;", COPY_OF_SDS),
    ),
    "memcached": (
        Edit("thread.c", "\nitem *item_get(", "    hv = hash(", "    hash(key, nkey);\n"),
        Edit("proto_text.c", "\nvoid complete_nread_ascii(", "    int comm = ", COPY_OF_ITEM),
    ),
}
# Each turn waits for the result of the last one and touches no memory, so its cost does not depend on where the linker
# puts the loop. The processor would run what follows beside it, and hide its cost: the fence makes that wait.
LOOP = """    unsigned long link = (unsigned long)c;
    for (int turn = 0; turn < {}; turn++) {{
        link = link * 6364136223846793005UL + 1;
        __asm__ volatile("" : "+r"(link));
    }}
#if defined(__x86_64__)
    __asm__ volatile("lfence");
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
"""
LOOPS = 40  # at first, so that there is something to make faster
EFFECTS = {"slower by 5%": 5.0, "slower by 2%": 2.0, "faster by 4%": -4.0} | {
    f"drift of 1%, step {step} of 6": 1.0 for step in range(1, 7)
}


def git(repository: Path, *arguments: str, data: bytes | None = None, **environment: str) -> bytes:
    process = subprocess.run(
        ["git", "-C", str(repository), *arguments],
        input=data,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/nonexistent", **environment},
    )
    if process.returncode:
        sys.exit(f"git {arguments[0]} failed: {process.stderr.decode(errors='replace').strip()}")
    return process.stdout


def tree_with(out: Path, commit: str, edits: tuple[Edit, ...]) -> str:
    """The tree of a commit with these edits."""
    index = str(out / "planted.index")
    git(out, "read-tree", commit, GIT_INDEX_FILE=index)
    for edit in edits:
        text = git(out, "cat-file", "blob", f"{commit}:{edit.file}").decode()
        offset = text.find(edit.anchor, text.find(edit.function) + 1)
        if edit.function not in text or offset < 0:
            sys.exit(f"{commit[:10]} has another {edit.function.strip()} in {edit.file}: choose another --head")
        text = text[:offset] + edit.code + text[offset:]
        blob = git(out, "hash-object", "-w", "--stdin", data=text.encode()).decode().strip()
        git(out, "update-index", "--cacheinfo", f"100644,{blob},{edit.file}", GIT_INDEX_FILE=index)
    return git(out, "write-tree", GIT_INDEX_FILE=index).decode().strip()


def write_commit(out: Path, tree: str, parent: str, like: str, subject: str | None) -> str:
    """A commit of this tree; author, dates and message are those of another one, or the subject given."""
    fields = git(out, "show", "-s", "--format=%an%x00%ae%x00%cI%x00%B", like).decode().split("\0", 3)
    name, mail, date, message = fields
    identity = {"NAME": name, "EMAIL": mail, "DATE": date}
    environment = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in identity.items()}
    parents = ["-p", parent] if parent else []
    return git(out, "commit-tree", tree, *parents, data=(subject or message).encode(), **environment).decode().strip()


class Loops:
    """A loop in GET, whose turns the planted commits change."""

    effects = tuple(EFFECTS)
    alone = 3  # of the effects stand in any order, the others in theirs

    def __init__(self, percent_per_step: float):
        self.percent_per_step = percent_per_step
        self.turns = LOOPS

    @property
    def edits(self) -> tuple[Edit, ...]:
        code = LOOP.format(self.turns)
        return (Edit("src/t_string.c", "\nint getGenericCommand(client *c) {", "    robj *o;", code),)

    def plant(self, effect: str) -> str:
        """The subject of the commit that has this effect."""
        self.turns += round(EFFECTS[effect] / self.percent_per_step)
        return f"Change the loop of GET to {self.turns} turns"


class RepeatedWork:
    """Work that is done once more, from each planted commit on."""

    effects = ("Hash the key once more in each look-up", "Copy the value once more in each SET")
    alone = 0

    def __init__(self, edits: tuple[Edit, ...]):
        self.all = edits
        self.edits: tuple[Edit, ...] = ()

    def plant(self, effect: str) -> str:
        """The subject of the commit that has this effect."""
        self.edits = self.all[: len(self.edits) + 1]
        return effect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--head", required=True)
    parser.add_argument("--server", choices=SOURCES, default="redis")
    parser.add_argument("--plant", choices=("loops", "work"), default="loops")
    parser.add_argument("--commits", type=int, default=52)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--percent-per-step", type=float, default=0.16)
    options = parser.parse_args()
    if options.plant == "loops" and options.server != "redis":
        parser.error("loops are planted in Redis alone: take --plant work")
    plan = Loops(options.percent_per_step) if options.plant == "loops" else RepeatedWork(WORK[options.server])
    count = ["-n", str(options.commits)]
    sources = SOURCES[options.server]
    log = git(options.repository, "log", "--first-parent", "--format=%H", *count, options.head, "--", *sources)
    real = log.decode().split()[::-1]
    git(Path.cwd(), "clone", "-q", "--bare", "--shared", str(options.repository), str(options.out))
    # Some commits before the first and after the last: a level needs some points to be one.
    margin = min(8, len(real) // 4)
    indexes = random.Random(options.seed).sample(range(margin, len(real) - margin), len(plan.effects))
    order = indexes[: plan.alone] + sorted(indexes[plan.alone :])
    planted = dict(zip(order, plan.effects, strict=True))
    parent = ""
    for index, commit in enumerate(real):
        parent = write_commit(options.out, tree_with(options.out, commit, plan.edits), parent, commit, None)
        if index in planted:
            subject = plan.plant(planted[index])
            parent = write_commit(options.out, tree_with(options.out, commit, plan.edits), parent, commit, subject)
            print(f"{parent[:10]}  {planted[index]}  ({subject})")
    git(options.out, "update-ref", "refs/heads/main", parent)
    git(options.out, "symbolic-ref", "HEAD", "refs/heads/main")


if __name__ == "__main__":
    main()
