"""The outcome as text."""

from research.chaos import checks
from research.chaos.trial import ChaosOutcome

MOST = 40


def text_of(outcome: ChaosOutcome, seed: int) -> str:
    lines = ["", f"{'fault':38} {'times':>6}"]
    lines += [f"{name:38} {count:6}" for name, count in sorted(outcome.faults.items())]
    lines += [f"{'all':38} {outcome.faults.total():6}", ""]
    per_minute = 60 * outcome.runs / (outcome.broken_s + outcome.drain_s)
    figures = {
        "seed": seed,
        "seconds with faults": f"{outcome.broken_s:.0f}",
        "seconds until all had ended after the last fault": f"{outcome.drain_s:.0f}",
        "runs": f"{outcome.runs} ({', '.join(f'{n} {s}' for s, n in sorted(outcome.statuses.items()))})",
        "runs per minute": f"{per_minute:.0f}",
        "attempts": f"{outcome.attempts} ({outcome.attempts / max(1, outcome.runs):.2f} per run)",
        "deliveries accepted, refused": f"{outcome.delivered}, {outcome.refusals}",
        "processes that died by themselves": sum(outcome.deaths.values()),
    }
    lines += [f"{name:50} {value}" for name, value in figures.items()]
    lines += ["", "why runs changed"]
    lines += [f"{count:6}  {why}" for why, count in checks.events().most_common(12)]
    lines.append("")
    if outcome.violations:
        lines.append(f"{len(outcome.violations)} VIOLATIONS")
        lines += [f"  {violation}" for violation in outcome.violations[:MOST]]
    else:
        lines.append("every run ended once, no sample is doubled, nothing is left behind, fsck finds nothing")
    return "\n".join(lines)
