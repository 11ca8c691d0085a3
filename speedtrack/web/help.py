"""What metrics, flags, states and statistics mean: one table, which the tag ``term`` and the page /help/ show.

Words are those of docs/glossary.md, which is read for those that it explains. ``page``: the place in ``docs`` that
says more.
"""

import re
from dataclasses import dataclass

from django.conf import settings

from speedtrack.benchmarks.metrics import METRICS


@dataclass(frozen=True)
class Term:
    """``remedy``: of a flag, what to do about it."""

    title: str
    text: str
    page: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.text} {self.remedy}".rstrip()


FLAGS, GLOSSARY, STATES, ROLES = "methodology#flags", "glossary", "alerts#states", "accounts#roles"
SETTLING, SUSPICION = "methodology#settling-it", "methodology#a-suspicion"
COMPARING, SEEN = "methodology#comparing-two-commits", "alerts#how-small-a-change-is-seen"
CANARY, RESULT = "methodology#a-canary", "result-format#speedtrackresult1-one-measurement"

METRIC_TEXTS = {
    "server_cpu_ns_per_request": "CPU time of all threads of the server per answered request. The headline: the"
    " steadiest measure of time that needs no special hardware.",
    "instructions_per_request": "Instructions that the processor executed for the server per request, by its own"
    " counters. Steadier than time, but it does not see caches or waiting.",
    "cycles_per_request": "Clock cycles of the processor that the server used per request.",
    "callgrind_instructions_per_request": "Instructions of the server in user mode per request, counted once by"
    " callgrind in a simulated processor.",
    "counted_instructions_per_request": "Instructions per request inside of the functions that the suite names, counted"
    " in fresh processes: nearly without noise, and it names the functions that cost more.",
    "throughput_rps": "Answered requests per second within the measured window. The load generator may limit it.",
    "latency_us_p50": "Half of all requests were answered within this time.",
    "latency_us_p99": "99 of 100 requests were answered within this time; at a fixed rate it counts from when the"
    " request was due.",
    "server_user_ns_per_request": "CPU time of the server's own code per request, without the kernel's.",
    "server_system_ns_per_request": "CPU time that the kernel used for the server per request.",
    "context_switches_per_request": "How often a thread of the server left its core, per request.",
    "bytes_per_key": "Growth of the server's memory while keys were loaded, per key.",
    "peak_rss_bytes": "The most memory that the server held at any time.",
    "build_seconds": "Time from the sources to the finished program.",
    "binary_bytes": "Size of code and data that are loaded, without debug information.",
}
FLAG_TEXTS = {
    "client_bound": (
        "A thread of the load driver used more than 85% of its core, so the driver may be what is measured.",
        "Give the driver more cores, or the benchmark fewer connections or a longer pipeline.",
    ),
    "client_delayed": (
        "A thread of the driver waited for a CPU for more than 1% of the window.",
        "Keep other work off the driver's cores; with two cores in all this is usual, and voids latency only.",
    ),
    "slipped": (
        "Requests of a fixed rate were sent too late, or not at all.",
        "Lower the rate of the benchmark, or give the driver more cores.",
    ),
    "clock": (
        "The machine's clock does not always run at the same rate.",
        "Choose another clock source (`clocksource=tsc` on the kernel's command line).",
    ),
    "errors": (
        "The server answered requests with errors.",
        "Look at the log: the workload may need another configuration of the server.",
    ),
    "hit_rate": (
        "Another share of the requests found their key than the workload expects.",
        "Check `expect` of the benchmark, and whether the server evicts keys.",
    ),
    "key_count": (
        "After loading, the server held another number of keys than the workload made.",
        "Check the limits of the server's memory, and whether keys expire.",
    ),
    "delayed": (
        "Threads of the server waited for others to leave a CPU for more than 2% of the window.",
        "Keep other work off the server's cores: `python -m runners plan` shows which they are.",
    ),
    "foreign": (
        "Something else ran on the server's cores for more than 2% of the window, or the driver's, 5%.",
        "Stop it or move it: cron jobs, other runners, virtual machines. Isolated cores (`isolcpus`) keep it away.",
    ),
    "steal": (
        "The hypervisor took more than 2% of the window for others.",
        "Use a dedicated host, or an instance whose cores are not shared.",
    ),
    "machine_drift": (
        "The machine's canary moved, so what it measured since then says nothing of the code.",
        "Nothing by hand: these commits are measured again once the canary is steady.",
    ),
    "frequency": (
        "The server's core was more than 10% slower than usual, or was throttled.",
        "Set the governor to performance and turn turbo off (`python -m runners tune --apply`); check the cooling.",
    ),
    "paging": (
        "The server waited for a disk more than ten times, or memory was short.",
        "Give the machine more memory, or the benchmark fewer keys.",
    ),
    "suspended": (
        "The machine or the runner stood still for a second.",
        "Turn sleep off, and check whether the virtual machine was moved or paused.",
    ),
    "no_steady_state": (
        "The warm-up ended at its longest, and the load was not steady yet.",
        "Raise `warmup_most_s` of the benchmark, or find what the server does in the background.",
    ),
    "unsteady": (
        "The rate of the window's first third differs from that of its last.",
        "Lengthen the warm-up or the window of the benchmark.",
    ),
    "ccache": ("The compiler cache answered a compilation, so the time of the build is not that of compiling.", ""),
}
WORDS = {
    "run": {
        "queued": ("waits for its machine", "methodology#what-is-measured-next"),
        "leased": ("a runner has claimed it and has not reported since", GLOSSARY),
        "running": ("a runner works on it and renews its lease", GLOSSARY),
        "succeeded": ("all its measurements are accepted", GLOSSARY),
        "failed": ("it ended without all its measurements; its page says why", GLOSSARY),
        "cancelled": ("a person cancelled it, or its commit left its branch", GLOSSARY),
    },
    "alert": {
        "suspected": ("seen in the history alone: not confirmed by pairs or a person yet", STATES),
        "confirmed": (
            "measured again, both sides differ, or a person said so: it waits for a decision",
            STATES,
        ),
        "expected": ("true and intended; a note says why", STATES),
        "invalid": ("not true; a note says why", STATES),
        "fixed": ("a later commit restored the speed", STATES),
    },
    "change": {
        "suspected": ("the line moved here; both sides are to be measured again", SUSPICION),
        "settling": ("both sides are being measured again, or the range is being narrowed", SETTLING),
        "confirmed": ("both sides were measured again, interleaved, and differ", SETTLING),
        "refuted": ("measuring again did not show it: it was noise", SETTLING),
        "unsettled": ("measuring again did not decide, or was not possible", SETTLING),
        "history": ("the history shows it, and it cannot be measured again", "alerts#who-is-not-told-at-once"),
        "machine": ("the machine changed, not the code: many of its series moved at once", CANARY),
    },
    "verdict": {
        "different": ("the two commits differ", SETTLING),
        "same": ("the two commits do not differ by an effect that matters", SETTLING),
        "old": ("the commit runs on the level before the change", SETTLING),
        "new": ("the commit runs on the level after the change", SETTLING),
        "unknown": ("the pairs do not decide", SETTLING),
    },
    "reason": {
        "push": ("measures a commit that was pushed", "methodology#what-is-measured-next"),
        "backfill": ("measures a commit that an earlier push left out", "methodology#what-is-measured-next"),
        "confirm": ("measures both sides of a suspicion again, interleaved", SETTLING),
        "bisect": ("measures commits inside of a range, to narrow it", SETTLING),
        "effect": ("measures what a named commit did to every benchmark of its suite", "alerts#the-whole-effect"),
        "hunks": ("counts a named commit without some of its hunks", "alerts#hunks-on-trial"),
        "manual": ("was asked for by a person", GLOSSARY),
        "canary": ("measures the frozen server of its machine", CANARY),
        "aa": ("measures a commit against itself: whatever it shows is noise", "methodology#what-the-machine-can-see"),
        "sweep": (
            "looks for changes that are too small for a line, in pairs of two distant commits",
            "methodology#sweeps",
        ),
        "pull": ("measures the head of a pull request against its merge base, in pairs", "planning#pull-requests"),
        "import": ("was measured elsewhere, and sent in", "results-from-outside"),
        "profile": ("samples where both sides of a change spend their time; it measures nothing", GLOSSARY),
    },
    "check": {
        "learning": ("there is too little history in this environment to judge the canary", CANARY),
        "steady": ("the canary is where it always was", CANARY),
        "off": ("the canary is further from its history than noise explains", CANARY),
        "unknown": ("the canary was not measured, or only with flags", CANARY),
    },
    "event": {
        "canary": ("it got a canary, or another one", CANARY),
        "quarantined": ("its canary moved", CANARY),
        "lifted": ("its quarantine ended", CANARY),
        "blind": ("its canary cannot be measured, so drift would go unnoticed", CANARY),
        "enrolled": ("it got a token in exchange for a one-time code", GLOSSARY),
        "rotated": ("its runner replaced its token by itself", GLOSSARY),
        "revoked": ("its tokens are refused", GLOSSARY),
        "pooled": ("it joined or left a pool of machines of equal hardware", GLOSSARY),
        "renewed": ("it got a new token; the one before is refused", GLOSSARY),
        "paused": ("it gets no new work", GLOSSARY),
        "resumed": ("it gets work again", GLOSSARY),
        "retired": ("it was taken out of service", GLOSSARY),
        "returned": ("it is in service again", GLOSSARY),
        "changed": ("a person changed when it measures, or what its time is for", "planning#a-machines-time"),
    },
    "alarm": {
        "stalled": ("its runner is alive, and its run makes no progress", "machines#alarms"),
        "unable": ("its runner takes no work, since its disk is full", "machines#alarms"),
        "lag": ("the head of a branch has waited too long for its measurement", "machines#alarms"),
        "gone": ("the repository has the default branch no more", "machines#alarms"),
    },
    "role": {
        "reader": ("sees the project, where it is private", ROLES),
        "triager": ("decides on alerts, regroups and mutes them, annotates; sees what a reader sees", ROLES),
        "maintainer": ("queues and imports measurements, changes settings; may do what a triager may", ROLES),
        "owner": ("admits and removes members, makes the project private or public, stops tracking it", ROLES),
    },
    "health": {
        "working": ("it measures now", GLOSSARY),
        "idle": ("its runner has called within three minutes, and no run has waited for a minute", GLOSSARY),
        "silent": ("its runner has not called for three minutes: is it running?", GLOSSARY),
        "stopped": ("its runner was stopped or drained: start it again", GLOSSARY),
        "refused": ("its runner is of a version that this server does not work with", GLOSSARY),
        "unable": ("its runner takes no work, because its disk is full", GLOSSARY),
        "waiting": ("its runner waits, such as for a core that another runner uses, and takes no run before", GLOSSARY),
        "closed": ("it is outside of its time windows: it takes only what a person asks for", GLOSSARY),
        "late": ("a run has been due for more than a minute, and its runner has not asked for it", GLOSSARY),
        "draining": ("its runner ends after the run that it measures now", GLOSSARY),
        "paused": ("it gets no new work until somebody resumes it", GLOSSARY),
        "retired": ("it was taken out of service; its results stay", GLOSSARY),
        "quarantine": ("its canary moved: it measures only the canary until that is steady again", CANARY),
        "never seen": ("no runner has used its token yet", GLOSSARY),
        "outside": ("it has no runner: its results are measured elsewhere and sent in", "results-from-outside"),
    },
}
ENTRIES = dict(re.findall(r"^- \*\*(.+?)\*\*: (.+)$", (settings.BASE_DIR / "docs/glossary.md").read_text(), re.M))


def of_glossary(entry: str, page: str, title: str = "") -> Term:
    """A term whose text is the entry of this word in docs/glossary.md, without links and markup."""
    text = re.sub(r"\]\([^)]*\)|[\[`*]", "", ENTRIES[entry])
    return Term(title or entry, f"{text[0].upper()}{text[1:]}", page)


STATISTICS = {
    "interval": Term(
        "95% interval",
        "Repeated, intervals made like this contain the true value 19 times out of 20. Of a median of fewer than six"
        " trials it is their range (93.75% for five).",
        "methodology#a-run",
    ),
    "ratio interval": Term(
        "95% interval",
        "Where the ratio after / before lies, as the pairs tell it. An interval without 0% excludes chance.",
        SETTLING,
    ),
    "median": Term("Median", "The middle one of the trials: a single slow one does not move it.", "methodology#a-run"),
    "ratio": Term(
        "Change",
        "The ratio of two medians, after / before, in per cent; from a factor of ten on as ×12.3.",
        COMPARING,
    ),
    "uncertain": Term(
        "Uncertain",
        "The values show neither a difference nor that there is none: more trials, or pairs, would tell.",
        COMPARING,
    ),
    "smallest change": of_glossary("Sensitivity", SEEN, "Smallest change"),
    "noise between runs": Term(
        "Noise between runs",
        "How much the medians of runs differ although the code does not.",
        SEEN,
    ),
    "A/A runs": Term(
        "A/A runs",
        "Runs of a commit against itself. At 95%, one in twenty differs by chance; more say that the interval is too"
        " narrow.",
        SEEN,
    ),
    "since": Term(
        "Since a release",
        "The newest value against the last release that the same series measured, with the 95% interval of the ratio.",
        "pages#the-grid-of-a-project",
    ),
    "behind": Term(
        "Behind",
        "How many commits the newest measured one is before the head of the branch, and for how long that has lasted.",
        "pages#home",
    ),
    "unreliable": Term(
        "Unreliable",
        "The trials have a flag that voids this metric. The value is shown, and no change rests on it.",
        FLAGS,
    ),
    "same program": Term(
        "Same program",
        "The build gave the same program, bit for bit, as an earlier commit: it is not measured twice.",
        "methodology#the-same-program-is-not-measured-twice",
    ),
    "percentile": Term(
        "Percentile",
        "p99 is the time within which 99 of 100 requests were answered; at a fixed rate it counts from when a request"
        " was due.",
        COMPARING,
    ),
    "doubtful": Term(
        "Doubtful",
        "The two values come from two machines, environments or definitions, so the code may not be what differs.",
        COMPARING,
    ),
    "trials": Term("Trials", "Fresh server processes that were measured, each once.", "methodology#a-trial"),
    "pairs": Term(
        "Pairs",
        "Both commits were run side by side on the same cores, loaded in turn. Each pair is one fresh server of each.",
        "methodology#a-block",
    ),
    "geometric mean": Term(
        "Geometric mean",
        "Of the ratios of all benchmarks: halving one and doubling another cancel out.",
        "alerts",
    ),
    "noise floor": of_glossary("Noise floor", "methodology#what-the-machine-can-see"),
    "range": of_glossary("Range", SETTLING),
    "p": Term(
        "p",
        "How often pairs of two equal commits would look this different, or more, by chance.",
        SETTLING,
    ),
    "canary": of_glossary("Canary", CANARY),
    "environment": of_glossary("Environment", "methodology#a-new-environment"),
    "placement": of_glossary("Placement", "methodology#placement"),
    "stopping": Term(
        "Why it stopped",
        "Trials are added until half the interval of the median is within the benchmark's target, until the most"
        " that are allowed, or until it is clear that these would not be enough.",
        "methodology#a-run",
    ),
    "muted": of_glossary("Mute", "alerts#who-is-not-told-at-once", "Muted"),
    "improvement": of_glossary("Improvement", "alerts#what-becomes-one-alert"),
    "time only": of_glossary("Time only", "alerts#what-becomes-one-alert"),
}


def terms() -> dict[str, Term]:
    """All terms by key.

    The key of a statistic is its name; any other key begins with the kind of the term (``flag steal``).
    """
    metrics = {f"metric {name}": Term(METRICS[name].title, text, RESULT) for name, text in METRIC_TEXTS.items()}
    flags = {f"flag {name}": Term(name, text, FLAGS, remedy) for name, (text, remedy) in FLAG_TEXTS.items()}
    word_terms = {
        f"{kind} {name}": Term(name, f"{text[0].upper()}{text[1:]}.", page)
        for kind, group in WORDS.items()
        for name, (text, page) in group.items()
    }
    return STATISTICS | metrics | flags | word_terms


TERMS = terms()
KINDS = {  # the headings of /help/, in its order; "" are the statistics
    "": "Statistics and words",
    "metric": "Metrics",
    "flag": "Flags: why a value is not to be trusted",
    "alert": "States of an alert",
    "change": "States of a change",
    "verdict": "What pairs say",
    "run": "States of a run",
    "reason": "Why a run is made",
    "health": "States of a machine",
    "check": "What a canary says",
    "event": "Events of a machine",
    "alarm": "Alarms: why commits stay unmeasured",
    "role": "What members of a project may do",
}


def kind_of(key: str) -> str:
    kind = key.partition(" ")[0]
    return kind if kind in KINDS and key not in STATISTICS else ""
