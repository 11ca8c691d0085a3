"""The kernel's settings while measuring: what is wanted and why, set with a journal on disk, and put back.

The journal is written before the first change, so whatever happens to this process, the next one knows what to undo.
A journal has an owner: `run` is a runner's, for the time of one run, `hand` that of `tune --apply`, until
`tune --restore`. All paths are below a root directory, so that recorded machines can be tuned too.
"""

import contextlib
import json
import logging
import os
import resource
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from runners.errors import SettingsError
from runners.files import write_durably
from runners.machine.locks import held
from runners.machine.placement import Placement
from runners.machine.topology import ROOT, cpu_list, parse_cpu_list, text

log = logging.getLogger(__name__)

RUN, HAND = "run", "hand"
STATE_PLACES = ("run/lock", "var/lock", "tmp")  # of the host, not of a runner home: what is tuned is the host's
LATENCY = "dev/cpu_dma_latency"
# Wake-ups within 2 us leave C1: a sibling that polls instead would take turns of the measured thread's core.
LATENCY_US = 2
LIMITS = {"open files": (resource.RLIMIT_NOFILE, 65_536), "locked memory": (resource.RLIMIT_MEMLOCK, None)}
ABSENT = "not offered by this machine"
NO_RIGHT = "this user may not change it: run as root"
Wanted = Callable[[str, Placement], str]
Tuning = Callable[[Placement], contextlib.AbstractContextManager[None]]  # entered around each run


def just(value: str) -> Wanted:
    return lambda before, plan: value


def either(*values: str) -> Wanted:
    """Any of these will do; the first is set."""
    return lambda before, plan: before if before in values else values[0]


def at_least(number: int) -> Wanted:
    return lambda before, plan: before if before.isdigit() and int(before) >= number else str(number)


def away(before: str, plan: Placement) -> str:
    """The CPUs of before without the measured ones; where none is left the housekeeping ones."""
    measured = (plan.server | plan.driver) - plan.housekeeping
    return cpu_list(parse_cpu_list(before) - measured or plan.housekeeping)


@dataclass(frozen=True)
class Knob:
    """A setting in files that `files` (a pattern) finds. With a `remedy` it is only looked at, never changed."""

    name: str
    files: str
    wanted: Wanted
    why: str
    remedy: str = ""
    normal: Callable[[str], str] = lambda value: value.split("[")[1].split("]")[0] if "[" in value else value

    def values(self, root: Path) -> dict[str, str]:
        """The value of each file, by its path below the root."""
        found = {str(file.relative_to(root)): text(file) for file in sorted(root.glob(self.files))}
        return {file: self.normal(value) for file, value in found.items() if value}


CPU = "sys/devices/system/cpu"
KNOBS = (
    Knob("governor", f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor", just("performance"),
         "how a core's clock follows its load: any other makes the speed depend on the moments before"),
    Knob("no_turbo", f"{CPU}/intel_pstate/no_turbo", just("1"),
         "clocks above the rated one (Intel) depend on heat and on what the other cores do"),
    Knob("boost", f"{CPU}/cpufreq/boost", just("0"),
         "clocks above the rated one (AMD and others) depend on heat and on what the other cores do"),
    Knob("thp", "sys/kernel/mm/transparent_hugepage/enabled", either("madvise", "never"),
         "huge pages nobody asked for come and go by the memory's past, and slow forks"),
    Knob("swappiness", "proc/sys/vm/swappiness", either("1", "0"),
         "a page of the server that was swapped out is a disk access in a latency"),
    Knob("numa_balancing", "proc/sys/kernel/numa_balancing", just("0"),
         "it takes pages away to see who asks for them, and moves what is bound anyway"),
    Knob("overcommit_memory", "proc/sys/vm/overcommit_memory", just("1"),
         "a server that forks must not fail because its memory counts twice"),
    Knob("somaxconn", "proc/sys/net/core/somaxconn", at_least(4096),
         "the queue of new connections: too short, and connections are tried again seconds later"),
    Knob("perf_sample_rate", "proc/sys/kernel/perf_event_max_sample_rate", just("1000"),
         "the ceiling of profilers' interrupts; enough for the 997 a second of a profile"),
    Knob("interrupts", "proc/irq/[0-9]*/smp_affinity_list", away,
         "an interrupt on a measured core is work of somebody else in its time",
         normal=lambda value: cpu_list(parse_cpu_list(value))),
    Knob("aslr", "proc/sys/kernel/randomize_va_space", just("2"),
         "without it every process has the same memory layout: one biased sample, however often it is measured",
         remedy="run `sysctl kernel.randomize_va_space=2`"),
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One file that is to say something else: its path below the root, and both values."""

    knob: str
    file: str
    before: str
    wanted: str


@dataclass(frozen=True)
class Row:
    """What people are told of one knob; of several files the values with their counts."""

    knob: str
    before: str
    wanted: str
    now: str
    note: str
    why: str


def changes(root: Path, plan: Placement, knobs: Sequence[Knob] = KNOBS) -> list[Change]:
    """What is not as wanted and may be changed."""
    return [
        Change(knob.name, file, value, wanted)
        for knob in knobs
        if not knob.remedy
        for file, value in knob.values(root).items()
        if (wanted := knob.wanted(value, plan)) != value
    ]


@dataclass(frozen=True)
class Journal:
    """What one owner has changed on this host, on disk before it is changed."""

    root: Path
    directory: Path
    owner: str

    @property
    def file(self) -> Path:
        return self.directory / f"{self.owner}.json"

    def read(self) -> list[Change]:
        """What is still to be undone; after a restart of the machine that is nothing: the kernel has forgotten it."""
        try:
            content = json.loads(self.file.read_text())
            if content["boot_id"] == self._boot_id():
                return [Change(**one) for one in content["changes"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("the journal %s cannot be read (%s): nothing of it is undone", self.file, error)
        self.file.unlink(missing_ok=True)
        return []

    def apply(self, wanted: Sequence[Change]) -> dict[str, str]:
        """Writes the journal, then makes the changes; returns the files that refused, with the cause."""
        try:
            self._write(wanted)
        except OSError as error:
            return {change.file: f"no journal can be written: {error.strerror}" for change in wanted}
        return self._set({change.file: change.wanted for change in wanted})

    def undo(self) -> dict[str, str]:
        """Puts back what is still as it was set; returns the files that refused, which stay in the journal."""
        ours = [one for one in self.read() if self._value(one) == one.wanted]
        refused = self._set({change.file: change.before for change in reversed(ours)})
        self._write([change for change in ours if change.file in refused])
        return refused

    def _value(self, change: Change) -> str:
        normal = next((knob.normal for knob in KNOBS if knob.name == change.knob), str)
        return normal(text(self.root / change.file))

    def _set(self, values: Mapping[str, str]) -> dict[str, str]:
        refused = {}
        for file, value in values.items():
            try:
                (self.root / file).write_text(value)
            except OSError as error:
                refused[file] = NO_RIGHT if isinstance(error, PermissionError) and os.geteuid() else str(error.strerror)
        return refused

    def _write(self, wanted: Sequence[Change]) -> None:
        if wanted:
            content = {"boot_id": self._boot_id(), "changes": [asdict(one) for one in wanted]}
            write_durably(self.file, json.dumps(content).encode())
        else:
            self.file.unlink(missing_ok=True)

    def _boot_id(self) -> str:
        return text(self.root / "proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def host(root: Path = ROOT) -> Iterator[Path]:
    """The directory of this host's journals, for one process at a time. Raises SettingsError."""
    directory = _state_directory(root)
    with held(directory / "lock", "another runner (process %s) tunes this machine: only one may, stop one of them"):
        yield directory


def _state_directory(root: Path) -> Path:
    place = next((root / one for one in STATE_PLACES if os.access(root / one, os.W_OK | os.X_OK)), None)
    if place is None:
        raise SettingsError(
            f"none of /{', /'.join(STATE_PLACES)} can be written to: no place for the journal of tuning"
        )
    directory = place / "speedtrack-tune"
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    if directory.is_symlink() or not directory.is_dir() or directory.lstat().st_uid != os.geteuid():
        raise SettingsError(f"{directory} belongs to somebody else: tune as that user, or remove it")
    return directory


@contextlib.contextmanager
def tuned_runs(
    asked: bool, root: Path = ROOT
) -> Iterator[Callable[[Placement], contextlib.AbstractContextManager[None]]]:
    """What a runner calls around each run. What a runner that was killed has left is undone, asked to tune or not.

    Raises SettingsError if it is to tune, and another process does already.
    """
    if not asked:
        with contextlib.suppress(SettingsError), host(root) as directory:
            _undo_leftovers(Journal(root, directory, RUN))
        yield lambda plan: contextlib.nullcontext()
        return
    with host(root) as directory:
        journal = Journal(root, directory, RUN)
        _undo_leftovers(journal)
        yield lambda plan: tuned(journal, plan)


@contextlib.contextmanager
def tuned(journal: Journal, plan: Placement) -> Iterator[None]:
    """The machine is tuned for this placement inside, and as before afterwards; what cannot be set is logged."""
    with _limits_raised(), _latency_held(journal.root):
        refused = journal.apply(changes(journal.root, plan))
        for file, cause in refused.items():
            log.info("tune: /%s cannot be set: %s", file, cause)
        try:
            yield
        finally:
            _undo(journal)


def _undo_leftovers(journal: Journal) -> None:
    left = journal.read()
    if left:
        log.warning("tune: putting back %d settings that an earlier runner left behind", len(left))
        _undo(journal)


def _undo(journal: Journal) -> None:
    for file, cause in journal.undo().items():
        log.error("tune: /%s cannot be put back: %s; try `python -m runners tune --restore`", file, cause)


@contextlib.contextmanager
def _latency_held(root: Path) -> Iterator[None]:
    """The kernel drops the wish when the file is closed, even by a crash."""
    try:
        device = os.open(root / LATENCY, os.O_WRONLY)
    except OSError as error:
        log.info("tune: /%s cannot be held: %s", LATENCY, error.strerror)
        yield
        return
    try:
        os.write(device, struct.pack("i", LATENCY_US))
        yield
    finally:
        os.close(device)


@contextlib.contextmanager
def _limits_raised() -> Iterator[None]:
    """The runner's own limits, which the servers it starts inherit."""
    before = {kind: resource.getrlimit(kind) for kind, _ in LIMITS.values()}
    for kind, wish in LIMITS.values():
        soft, hard = before[kind]
        resource.setrlimit(kind, (_raised(soft, hard, wish), hard))
    try:
        yield
    finally:
        for kind, limit in before.items():
            resource.setrlimit(kind, limit)


def _raised(soft: int, hard: int, wish: int | None) -> int:
    """The soft limit wanted, of no wish all that may be had; -1 is no limit."""
    wanted = hard if wish is None or 0 <= hard < wish else wish
    return -1 if -1 in (soft, wanted) else max(soft, wanted)


def rows(
    root: Path, plan: Placement, refused: Mapping[str, str] | None = None, was: Mapping[str, str] | None = None
) -> Iterator[Row]:
    """The table of all knobs: as they are now, and as they were if `was` knows it."""
    for knob in KNOBS:
        now = knob.values(root)
        before = now | {file: value for file, value in (was or {}).items() if file in now}
        wanted = {file: knob.wanted(value, plan) for file, value in before.items()}
        wrong = [file for file in now if now[file] != wanted[file]]
        yield Row(
            knob.name,
            _summary(before),
            _summary(wanted),
            _summary(now),
            _note(root, knob, now, wrong, refused or {}),
            knob.why,
        )
    yield _latency_row(root)
    yield from _limit_rows()
    yield _irqbalance_row(root)


def _note(root: Path, knob: Knob, now: Mapping[str, str], wrong: Sequence[str], refused: Mapping[str, str]) -> str:
    if not now:
        return ABSENT
    if not wrong:
        return ""
    if knob.remedy:
        return knob.remedy
    causes = Counter(refused[file] for file in wrong if file in refused)
    if not causes and not all(os.access(root / file, os.W_OK) for file in wrong):
        causes[NO_RIGHT] = len(wrong)
    return "; ".join(
        f"{cause} ({count} of {len(now)} files)" if len(now) > 1 else cause for cause, count in causes.items()
    )


def _summary(values: Mapping[str, str]) -> str:
    counts = Counter(values.values())
    return ", ".join(value if len(counts) == 1 else f"{value} ({count})" for value, count in counts.most_common())


def latency_us(root: Path) -> int | None:
    """The limit on wake-up times that holds now, in microseconds; None if it cannot be read."""
    try:
        return int(struct.unpack("i", (root / LATENCY).read_bytes()[:4])[0])
    except (OSError, struct.error):
        return None


def _latency_row(root: Path) -> Row:
    found = latency_us(root)
    now = "" if found is None else f"{found} us"
    note = "held by a runner with SPEEDTRACK_TUNE=1 while it measures"
    if found is None:
        note = NO_RIGHT if (root / LATENCY).exists() else ABSENT
    why = "waking from deep sleep takes up to hundreds of us, and depends on how long a core was idle"
    return Row("sleep_states", now, f"{LATENCY_US} us", now, note, why)


def _limit_rows() -> Iterator[Row]:
    for name, (kind, wish) in LIMITS.items():
        soft, hard = resource.getrlimit(kind)
        wanted = _raised(soft, hard, wish)
        note = "raised by a runner with SPEEDTRACK_TUNE=1 for itself and its servers" if wanted != soft else ""
        if wish is not None and 0 <= hard < wish:
            note = f"the hard limit is {hard}: raise it (ulimit -Hn, LimitNOFILE=)"
        why = "what a server inherits; with too little it serves fewer clients or uses other ways of the kernel"
        yield Row(name.replace(" ", "_"), _limit(soft), _limit(wanted), _limit(soft), note, why)


def _limit(value: int) -> str:
    return "unlimited" if value == -1 else str(value)


def irqbalance(root: Path) -> str:
    """Whether the daemon runs that moves interrupts about; unknown where processes cannot be seen."""
    names = [text(file) for file in root.glob("proc/[0-9]*/comm")]
    return ("running" if "irqbalance" in names else "not running") if names else "unknown"


def _irqbalance_row(root: Path) -> Row:
    state = irqbalance(root)
    note = "run `systemctl stop irqbalance`" if state == "running" else ""
    return Row("irqbalance", state, "not running", state, note, "it moves interrupts back to the measured cores")
