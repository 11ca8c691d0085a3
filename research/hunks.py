"""Hunks on trial, tried: commits with planted work in some of their hunks, and whether these are named.

python research/hunks.py SERVER [REPOSITORY] [--head HEAD] [--commits 10] [--seed 1] [--benchmark set-p1]
                         [--kinds KIND ...] [--make ARGUMENT ...] [--real COMMIT ...]

SERVER: sample, redis, valkey or memcached; REPOSITORY: its history (for the sample server: absent, it is written). Each
commit changes five places of the sources of HEAD, drawn by lot: comments, functions that nobody calls, and, by kind,

- one: a loop in one function that each request runs
- two: equal loops in two such functions
- helper: a new function with the loop, and its call: only the call can be taken back alone
- signature: that function and its call get a parameter: neither can be taken back alone
- merge: two, as the merge of three commits

Each is searched as by the server: the same pieces, commits and steps, built by the suite's own command in one directory
(so that `make` builds only what changed) and counted as a run counts. Prints a row for each commit. --make: further
arguments of the suite's build command, such as OPTIMIZATION=-O2. --real: instead of planting, says of these commits of
REPOSITORY which of their hunks explain what they changed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

import django
from django.utils import timezone

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")
django.setup()

from django.conf import settings  # noqa: E402 - of Django, once it is set up

from research.exact import SUITES, job_of, process_of, with_program  # noqa: E402
from research.noise import LocalRunner  # noqa: E402
from research.planted_history import git, write_commit  # noqa: E402
from runners.sample import write_history  # noqa: E402
from speedtrack.alerts.hunks import trials  # noqa: E402
from speedtrack.alerts.hunks.findings import HunkEvidence, sentence_of  # noqa: E402
from speedtrack.alerts.models import HunkStep, HunkTrial  # noqa: E402
from speedtrack.projects.mirrors import hunks  # noqa: E402
from speedtrack.projects.mirrors.hunks import Hunk  # noqa: E402

KINDS = ("one", "two", "helper", "signature", "merge")
PIECES = 5
APART = 12  # lines between two places of a file, so that they are two hunks
LOOP = 'for (int planted = 0; planted < {}; planted++) __asm__ volatile("");'
TURNS = 20
GUILTY = "planted work"  # marks the hunks to be named
#: Functions that a SET runs once.
HOT = {
    "sample": (("src/commands.c", "\nstatic void set("), ("src/dict.c", "\nstruct entry *dict_set(")),
    "redis": (("src/t_string.c", "\nvoid setGenericCommand("), ("src/networking.c", "\nvoid addReply(")),
    "valkey": (("src/t_string.c", "\nvoid setGenericCommand("), ("src/networking.c", "\nvoid addReply(")),
    "memcached": (("proto_text.c", "\nvoid complete_nread_ascii("), ("memcached.c", "\nvoid out_string(")),
}
FUNCTION = re.compile(r"(?<=\n\n)(?:static |void |int |bool )[\w \*]+\([^;{}]*\)\s*\{\n")
SOURCES = {"sample": "src/*.c", "redis": "src/*.c", "valkey": "src/*.c", "memcached": "*.c"}


@dataclass
class Files:
    """The texts of a commit's files, as they are changed."""

    repository: Path
    head: str
    texts: dict[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str:
        if path not in self.texts:
            self.texts[path] = git(self.repository, "cat-file", "blob", f"{self.head}:{path}").decode("latin-1")
        return self.texts[path]

    def insert(self, path: str, at: int, code: str) -> None:
        text = self.text(path)
        self.texts[path] = text[:at] + code + text[at:]

    def begin_of(self, path: str, function: str) -> int:
        """Where the body of a function begins."""
        at = self.text(path).find(function)
        if at < 0:
            sys.exit(f"{self.head[:10]} has no {function.strip()} in {path}: choose another --head")
        return self.text(path).index("{\n", at) + 2

    def tree(self, changed_paths: set[str] | None = None) -> str:
        """The tree of the head with these files (default: all) as they were changed."""
        index = str(self.repository / "planted.index")
        git(self.repository, "read-tree", self.head, GIT_INDEX_FILE=index)
        for path in self.texts if changed_paths is None else changed_paths:
            content = self.text(path).encode("latin-1")
            blob = git(self.repository, "hash-object", "-w", "--stdin", data=content).decode().strip()
            git(self.repository, "update-index", "--cacheinfo", f"100644,{blob},{path}", GIT_INDEX_FILE=index)
        return git(self.repository, "write-tree", GIT_INDEX_FILE=index).decode().strip()


def plant(files: Files, server: str, kind: str, rng: Random) -> tuple[str, str]:
    """Plant a change of this kind. Return the ids of its parent and of itself."""
    hot, before = list(HOT[server]), files.head
    loop, calls = LOOP.format(TURNS), "one" if kind == "one" else "two"
    if kind in ("helper", "signature"):
        path, function = rng.choice(hot)
        call, parameter = (f"planted({TURNS});", "int turns") if kind == "signature" else ("planted();", "void")
        turns = "turns" if kind == "signature" else str(TURNS)
        if kind == "signature":  # what is changed must be there before
            define(files, path, function, "void", "2", "")
            call_it(files, path, function, "planted();", "")
            before = write_commit(files.repository, files.tree(), files.head, files.head, "Plant what is changed")
            files = Files(files.repository, before)
            edit(
                files,
                path,
                "planted(void) { for (int planted = 0; planted < 2;",
                f"planted({parameter}) {{ /* {GUILTY} */ for (int planted = 0; planted < {turns};",
            )
            edit(files, path, "    planted();\n", f"    {call} /* {GUILTY} */\n")
        else:
            define(files, path, function, parameter, turns, "")
            call_it(files, path, function, call, f" /* {GUILTY} */")
    else:
        for path, function in hot if calls == "two" else [rng.choice(hot)]:
            files.insert(path, files.begin_of(path, function), f"    {loop} /* {GUILTY} */\n")
    innocent(files, server, rng, missing=PIECES - (1 if kind == "one" else 2))
    tree = files.tree()
    if kind == "merge":
        return before, merge_of(files, tree, before)
    return before, write_commit(files.repository, tree, before, before, f"Change five places ({kind})")


def define(files: Files, path: str, function: str, parameter: str, turns: str, mark: str) -> None:
    """A function with the loop, well before the one that calls it."""
    text = files.text(path)
    starts = [match.start() for match in FUNCTION.finditer(text) if match.start() < text.find(function) - 600]
    if not starts:
        sys.exit(f"no function of {path} is well before {function.strip()}: choose another --head")
    code = f"__attribute__((noinline)) static void planted({parameter}) {{ {LOOP.format(turns)} }}{mark}\n\n"
    files.insert(path, starts[-1], code)


def call_it(files: Files, path: str, function: str, call: str, mark: str) -> None:
    files.insert(path, files.begin_of(path, function), f"    {call}{mark}\n")


def edit(files: Files, path: str, old: str, new: str) -> None:
    if old not in files.text(path):
        sys.exit(f"{path} lacks {old!r}")
    files.texts[path] = files.text(path).replace(old, new, 1)


def innocent(files: Files, server: str, rng: Random, missing: int) -> None:
    """Change so many further places without any work, none near another."""
    listing = git(files.repository, "ls-tree", "-r", "--name-only", files.head).decode().split("\n")
    paths = [
        path for path in listing if Path(path).match(SOURCES[server]) and path.count("/") == SOURCES[server].count("/")
    ]
    while missing:
        path = rng.choice(paths)
        starts = [match.start() for match in FUNCTION.finditer(files.text(path))]
        if starts and is_apart(files.text(path), at := rng.choice(starts)):
            name = f"planted_{path.replace('/', '_').replace('.', '_').replace('-', '_')}_{missing}"
            comment = f"/* planted: no work, number {missing} */\n"
            unused = f"__attribute__((unused)) static int {name}(void) {{ return {missing}; /* planted */ }}\n\n"
            files.insert(path, at, rng.choice((comment, unused)))
            missing -= 1


def is_apart(text: str, at: int) -> bool:
    """Return whether nothing is planted within some lines of a place."""
    before, after = text[:at].split("\n")[-APART:], text[at:].split("\n")[:APART]
    return not any("planted" in line for line in (*before, *after))


def merge_of(files: Files, tree: str, before: str) -> str:
    """A merge of three commits that change one more file each."""
    paths, parent = sorted(files.texts), before
    for count in (1, 2):
        partial_tree = files.tree(set(paths[:count]))
        parent = write_commit(files.repository, partial_tree, parent, before, f"Change {count} of the files")
    parent = write_commit(files.repository, tree, parent, before, "Change all of the files")
    identity = ("-c", "user.name=research", "-c", "user.email=research@example.org")
    arguments = ("commit-tree", tree, "-p", before, "-p", parent, "-m", "Merge three commits")
    return git(files.repository, *identity, *arguments).decode().strip()


class CommitBench:
    """One directory in which commits are built, and the counts of what was built."""

    def __init__(self, server: str, repository: Path, room: Path, options: argparse.Namespace) -> None:
        self.repository, self.tree, self.benchmark = repository, room / "tree", options.benchmark
        build = tomllib.loads((SUITES / f"{server}.toml").read_text())["build"]
        self.command = build["command"].replace("{cores}", str(os.cpu_count())) + " " + shlex.join(options.make)
        self.artifact = self.tree / build["artifacts"][0]
        self.tree.mkdir()
        self.job = job_of(server, [self.benchmark])
        self.local = LocalRunner(room / "runner", self.artifact, "")
        self.counts: dict[str, float] = {}
        self.programs = room / "programs"
        self.programs.mkdir()

    def count(self, sha: str) -> float:
        """Instructions per request of a commit. Raises Unbuildable."""
        if sha not in self.counts:
            self.build(sha)
            program = self.programs / sha / self.artifact.name
            program.parent.mkdir()
            program.write_bytes(self.artifact.read_bytes())
            program.chmod(0o755)
            processes = [
                process_of(with_program(self.local.runner(self.job, {}, 1), program), 0, seed)[0]
                for seed in range(trials.COUNTS)
            ]
            self.counts[sha] = median(counts[self.benchmark].per_request for counts in processes)
        return self.counts[sha]

    def build(self, sha: str) -> None:
        index = str(self.tree.with_suffix(".index"))
        git(self.repository, f"--work-tree={self.tree}", "read-tree", "--reset", "-u", sha, GIT_INDEX_FILE=index)
        is_configured = (self.tree / "config.status").exists()
        command = self.command.rpartition("&&")[2] if is_configured else self.command
        process = subprocess.run(["sh", "-c", command], cwd=self.tree, capture_output=True, text=True)
        if process.returncode:
            errors = [line for line in process.stderr.split("\n") if "error" in line]
            raise Unbuildable((errors or process.stderr.strip().split("\n"))[0][:100])


class Unbuildable(Exception):
    """A commit does not build; the message is the compiler's."""


def search(bench: CommitBench, slug: str, before: str, commit: str) -> tuple[list[Hunk], HunkEvidence]:
    """What the trial of a commit's hunks shows, by the server's own steps."""
    pieces = hunks.hunks_between(slug, before, commit)
    trial = HunkTrial(pieces=list(map(trials.facts_of, pieces)))
    steps: list[HunkStep] = []
    while index_sets := trials.wanted_sets([HunkEvidence(trial, steps, bench.benchmark)]):
        for indexes in index_sets:
            steps.append(step_of(bench, slug, (before, commit), pieces, sorted(indexes)))
    trial.ended_at = timezone.now()
    return pieces, HunkEvidence(trial, steps, bench.benchmark)


def step_of(bench: CommitBench, slug: str, ends: tuple[str, str], pieces: list[Hunk], indexes: list[int]) -> HunkStep:
    before, commit = ends
    reverted_pieces = [pieces[index] for index in indexes]
    sha = before if len(reverted_pieces) == len(pieces) else hunks.commit_without(slug, commit, reverted_pieces)
    try:
        growth = bench.count(commit) - bench.count(sha)
    except Unbuildable as e:
        return HunkStep(pieces=indexes, growths={}, refusal=str(e))
    return HunkStep(pieces=indexes, growths={bench.benchmark: growth})


def tried(options: argparse.Namespace, repository: Path, room: Path) -> Iterator[bool]:
    """Whether the right hunks are named, commit by commit."""
    slug, rng = repository.stem, Random(options.seed)
    bench = CommitBench(options.server, repository, room, options)
    print("| commit | guilty | named | alone refused | builds | result |\n|---|---|---|---|---|---|")
    for number in range(options.commits):
        kind = options.kinds[number % len(options.kinds)]
        before, commit = plant(Files(repository, options.head), options.server, kind, rng)
        pieces, evidence = search(bench, slug, before, commit)
        guilty = {index for index, piece in enumerate(pieces) if GUILTY in piece.text}
        refused_count = sum(1 for step in evidence.steps if step.refusal and len(step.pieces) == 1)
        is_right = evidence.named == guilty
        names = [
            ", ".join(str(index + 1) for index in sorted(piece_indexes)) for piece_indexes in (guilty, evidence.named)
        ]
        result = "right" if is_right else f"wrong: {sentence_of(evidence)}"
        cells = (
            f"{number + 1}: {kind}",
            f"{names[0]} of {len(pieces)}",
            names[1],
            refused_count,
            len(evidence.steps),
            result,
        )
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
        yield is_right


def show_real(options: argparse.Namespace, repository: Path, room: Path) -> None:
    """What the trial of each commit of ``--real`` finds, against its first parent."""
    bench = CommitBench(options.server, repository, room, options)
    for revision in options.real:
        commit, before = git(repository, "rev-parse", f"{revision}^{{commit}}", f"{revision}^1").decode().split()
        pieces, evidence = search(bench, repository.stem, before, commit)
        change = bench.counts.get(commit, 0) - bench.counts.get(before, 0)
        print(f"{revision}: {change:+.1f} instructions, {len(pieces)} pieces, {len(evidence.steps)} builds")
        print(f"  {sentence_of(evidence)}", flush=True)
        for index in sorted(evidence.named):
            print(f"  {index + 1}: {pieces[index].path}:{pieces[index].line} {pieces[index].header}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=list(HOT))
    parser.add_argument("repository", type=Path, nargs="?")
    parser.add_argument("--head", default="HEAD")
    parser.add_argument("--commits", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--benchmark", default="set-p1")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--make", nargs="*", default=[])
    parser.add_argument("--real", nargs="*", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="speedtrack-hunks-") as folder:
        room = Path(folder)
        settings.MIRRORS = room / "mirrors"
        settings.MIRRORS.mkdir()
        source = options.repository.resolve() if options.repository else room / "history"
        if not options.repository:
            write_history(source)
        repository = settings.MIRRORS / f"{options.server}.git"
        git(room, "clone", "-q", "--bare", "--shared", str(source), str(repository))
        options.head = git(repository, "rev-parse", f"{options.head}^{{commit}}").decode().strip()
        if options.real:
            show_real(options, repository, room)
        else:
            results = list(tried(options, repository, room))
            print(f"\n{options.server}: {sum(results)} of {len(results)} right")


if __name__ == "__main__":
    main()
