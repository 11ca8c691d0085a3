"""A real history with changes in known places: commits of Redis, and between them some that make GET slower or faster.

python research/planted_history.py REDIS OUT --head COMMIT [--commits 52] [--seed 1] [--percent-per-step 0.16]

REDIS is a repository of Redis, OUT the one to be written (its branch is `main`). The newest first-parent commits up to
HEAD that touch src/ are taken as they are, but for a loop in GET that does nothing, LOOPS times at first. Nine more
commits, in places drawn by lot, change only how often: one makes GET slower by 5% of its CPU time per request, one by
2%, one faster by 4%, and six together drift by 6%. ``--percent-per-step`` is what one turn of the loop costs: measure
it, by builds with 40 and 140 turns. Prints each planted commit and by how many turns it changes the loop.
"""

import argparse
import random
import subprocess
import sys
from pathlib import Path

FILE = "src/t_string.c"
PLACE = "int getGenericCommand(client *c) {\n    robj *o;\n"
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
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments],
        input=data,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/nonexistent", **environment},
    )
    if done.returncode:
        sys.exit(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def tree_with(out: Path, commit: str, loops: int) -> str:
    """The tree of a commit with this many turns of the loop in GET."""
    text = git(out, "show", f"{commit}:{FILE}").decode()
    if PLACE not in text:
        sys.exit(f"{commit[:10]} has another getGenericCommand: choose another --head")
    text = text.replace(PLACE, PLACE + LOOP.format(loops))
    blob = git(out, "hash-object", "-w", "--stdin", data=text.encode()).decode().strip()
    index = str(out / "planted.index")
    git(out, "read-tree", commit, GIT_INDEX_FILE=index)
    git(out, "update-index", "--cacheinfo", f"100644,{blob},{FILE}", GIT_INDEX_FILE=index)
    return git(out, "write-tree", GIT_INDEX_FILE=index).decode().strip()


def write_commit(out: Path, tree: str, parent: str, like: str, subject: str | None) -> str:
    """A commit of this tree; author, dates and message are those of another one, or the subject given."""
    shown = git(out, "show", "-s", "--format=%an%x00%ae%x00%cI%x00%B", like).decode().split("\0", 3)
    name, mail, date, message = shown
    who = {"NAME": name, "EMAIL": mail, "DATE": date}
    environment = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    parents = ["-p", parent] if parent else []
    return git(out, "commit-tree", tree, *parents, data=(subject or message).encode(), **environment).decode().strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("redis", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--head", required=True)
    parser.add_argument("--commits", type=int, default=52)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--percent-per-step", type=float, default=0.16)
    options = parser.parse_args()
    count = ["-n", str(options.commits)]
    log = git(options.redis, "log", "--first-parent", "--format=%H", *count, options.head, "--", "src")
    real = log.decode().split()[::-1]
    git(Path.cwd(), "clone", "-q", "--bare", "--shared", str(options.redis), str(options.out))
    rng = random.Random(options.seed)
    # Eight commits before the first and after the last: a level needs some points to be one.
    places = rng.sample(range(8, len(real) - 8), len(EFFECTS))
    single, drift = list(EFFECTS)[:3], list(EFFECTS)[3:]
    planted = dict(zip(places[:3], single, strict=True)) | dict(zip(sorted(places[3:]), drift, strict=True))
    loops, parent = LOOPS, ""
    for place, commit in enumerate(real):
        parent = write_commit(options.out, tree_with(options.out, commit, loops), parent, commit, None)
        if place in planted:
            turns = round(EFFECTS[planted[place]] / options.percent_per_step)
            loops += turns
            subject = f"Change the loop of GET to {loops} turns"
            parent = write_commit(options.out, tree_with(options.out, commit, loops), parent, commit, subject)
            print(f"{parent[:10]}  {turns:+3d} turns  {planted[place]}")
    git(options.out, "update-ref", "refs/heads/main", parent)
    git(options.out, "symbolic-ref", "HEAD", "refs/heads/main")


if __name__ == "__main__":
    main()
