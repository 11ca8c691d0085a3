"""Decide whether a change passes, and summarise the answer in Markdown."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from speedtrack_client.calls import plain

Row = dict[str, Any]
SIGNS = {"worse": "🔴", "better": "🟢", "same": "⚪", "uncertain": "🟡"}
#: Verdicts of rows that say nothing: a flag voids them, or the sides cannot be compared.
VOID = ("flagged", "not comparable")
LISTED = 50
MINUS, FACTOR = "−", 10  #: ratios from FACTOR on are shown as factors
SMALLEST_RATIO, LARGEST_FACTOR = 0.001, 10_000  #: beyond them the size does not matter: "under", "over"


def worsening(row: Row) -> float:
    """The percentage by which a row got worse; negative if it got better."""
    ratio = row["ratio"]
    change = 0.0 if ratio is None else (ratio - 1) * 100
    return float(-change if row["better"] == "higher" else change)


def regressions(rows: Sequence[Row], percent: float) -> list[Row]:
    """The rows that the server judges worse beyond noise, by at least so many percent."""
    return [row for row in rows if row["verdict"] == "worse" and worsening(row) >= percent]


def gate_of(rows: Sequence[Row], percent: float | None) -> dict[str, Any] | None:
    """The decision as ``--json`` shows it; None if no gate was requested.

    Without rows that say something nothing was measured, so nothing passes.
    """
    if percent is None:
        return None
    worse_rows = regressions(rows, percent)
    passed = is_measured(rows) and not worse_rows
    return {"fail_on_regression_percent": percent, "passed": passed, "regressions": worse_rows}


def is_measured(rows: Sequence[Row]) -> bool:
    """Return whether a row says something of the change."""
    return any(row["verdict"] not in VOID for row in rows)


def change(ratio: float | None) -> str:
    """A ratio as the server's pages show it: a signed percentage; from a factor of ten on a factor."""
    if ratio is None:
        return "–"
    return as_factor(ratio) if ratio >= FACTOR else as_percentage(ratio)


def change_interval(ratio: float, low: float, high: float) -> str:
    """Both ends of the interval of a ratio, in the notation of the ratio."""
    notation = as_factor if ratio >= FACTOR else as_percentage
    return f"{notation(low)} to {notation(high)}"


def as_factor(ratio: float) -> str:
    if ratio >= LARGEST_FACTOR:
        return f"over ×{LARGEST_FACTOR}"
    decimals = 2 if abs(ratio) < 9.995 else 1 if abs(ratio) < 99.95 else 0
    return f"×{ratio:.{decimals}f}".replace("-", MINUS)


def as_percentage(ratio: float) -> str:
    if ratio >= LARGEST_FACTOR:
        return as_factor(ratio)
    if 0 < ratio < SMALLEST_RATIO:
        return f"under {MINUS}99.9%"
    percent = 100 * (ratio - 1)
    decimals = 2 if abs(percent) < 0.95 else 1 if abs(percent) < 99.95 else 0
    return f"{percent:+.{decimals}f}%".replace("-", MINUS)


def interval(row: Row) -> str:
    ends = row["ratio"], row["low"], row["high"]
    return "–" if None in ends else change_interval(*ends)


def answer(document: dict[str, Any], rows: Sequence[Row], gate: dict[str, Any] | None) -> str:
    """Whether a comparison passes, and the server's sentence on it, in one line.

    Of some of its rows only, and from older servers, there is no sentence: then the verdicts are counted.
    """
    sentence = plain(document.get("summary") or "") if len(rows) == len(document.get("rows", ())) else ""
    return "; ".join(filter(None, (verdict_line(rows, gate) if gate or not sentence else "", sentence)))


def verdict_line(rows: Sequence[Row], gate: dict[str, Any] | None) -> str:
    """How many rows have which verdict, and whether they pass, in one line."""
    counts = Counter(dict.fromkeys(SIGNS, 0))  # in this order, then whatever else the server says
    counts.update(row["verdict"] for row in rows)
    tally = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "nothing was measured"
    if gate is None:
        return tally
    if not is_measured(rows):
        return f"there is no answer ({tally})"
    limit = f"{gate['fail_on_regression_percent']:g}%"
    worse = len(gate["regressions"])
    if not worse:
        return f"nothing got worse by {limit} or more ({tally})"
    return f"{worse} result{'s' * (worse > 1)} got worse by {limit} or more ({tally})"


def summary(document: dict[str, Any], rows: Sequence[Row], gate: dict[str, Any] | None, url: str) -> str:
    """The Markdown summary of a job, or note of a merge request."""
    passed = "" if gate is None else "✅ " if gate["passed"] else "❌ "
    lines = [f"### {passed}SpeedTrack: {cell(answer(document, rows, gate))}", ""]
    head, base = (document.get(side) for side in ("head", "base"))
    if head and base:
        manner = ", measured in interleaved pairs" if document.get("id") else ""
        lines += [f"`{head[:12]}` against `{base[:12]}` of {cell(document['project'])}{manner}.", ""]
    if document.get("error"):
        lines += [cell(document["error"]), ""]
    if rows:
        lines += ["| | benchmark | metric | machine | change | 95% interval |", "|---|---|---|---|---:|---:|"]
        lines += [line_of(row) for row in rows[:LISTED]]
        if len(rows) > LISTED:
            command = f": `speedtrack compare --id {document['id']}`" if document.get("id") else ""
            lines += [f"\n{len(rows) - LISTED} more rows{command}"]
        lines += [""]
    return "\n".join([*lines, f"<sub>{cell(url)}</sub>", ""])


def line_of(row: Row) -> str:
    sign = f"{SIGNS.get(row['verdict'], '')} {row['verdict']}"
    cells = (sign, row["benchmark"], row["metric"], row["machine"], change(row["ratio"]), interval(row))
    return f"| {' | '.join(cell(str(text)) for text in cells)} |"


def cell(text: str) -> str:
    """Foreign text as a table cell, without any markup."""
    for sign in "\\`*_[]<>|":
        text = text.replace(sign, f"\\{sign}" if sign not in "<>" else {"<": "&lt;", ">": "&gt;"}[sign])
    return text.replace("\n", " ")
