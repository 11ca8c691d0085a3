"""The least size of a change that was confirmed because its pairs were large enough.

Only large estimates are confirmed, so an estimate that was hardly large enough is too large on average. The correction
depends on how much smaller it could have been and still been confirmed.
"""

from __future__ import annotations

import math

Z95 = 1.96  # standard errors between an estimate and either end of its 95% interval
TAIL = 0.025
STEPS = 50  # of the bisection


def least_size(estimate: float, error: float, overshoot: float) -> float:
    """The smaller end of the 95% interval of a confirmed change, given that it was confirmed; at least 0.

    ``estimate`` is above 0, with the standard ``error``; even if it were smaller by ``overshoot`` it would have been
    confirmed. If the change were of the returned size, only TAIL of all confirmed estimates would be as large: a
    truncated normal distribution (Cohen 1959; Zhong & Prentice 2008). Without an overshoot only the direction is known;
    with a large one it is the usual end.
    """
    farthest, passed = estimate / error if error else math.inf, overshoot / error if error else math.inf
    if not math.isfinite(farthest):
        return estimate
    low, high = Z95, max(Z95, farthest)
    if not _is_surprising(high, passed):
        return 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _is_surprising(middle, passed) else (middle, high)
    return estimate - high * error


def _is_surprising(distance: float, passed: float) -> bool:
    """Return whether at most TAIL of the confirmed estimates would be so many standard errors above the change."""
    from scipy.special import log_ndtr  # here: processes that are idle need not hold scipy

    return float(log_ndtr(-distance) - log_ndtr(passed - distance)) <= math.log(TAIL)
