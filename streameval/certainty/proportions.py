"""Intervals of a proportion: k of n independent events."""

from __future__ import annotations

import math

from streameval.certainty.interval import normal_quantile


def wilson(successes: float, trials: float, level: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion.

    The proportions p that a score test of k successes in n trials does not reject:

        (p̂ − p)² ≤ z²·p(1 − p)/n

    Args:
        successes: k, from 0 to `trials`.
        trials: n > 0; Kish's effective size where weights are fractions.
        level: As 0.95.

    Returns:
        The lower and the upper end, in [0, 1].

    Cost:
        O(1).

    Source:
        Wilson (1927); Brown, Cai & DasGupta (2001).

    >>> [round(end, 4) for end in wilson(8, 10, 0.95)]
    [0.4902, 0.9433]
    """
    z2 = normal_quantile(level) ** 2
    share = successes / trials
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = math.sqrt(z2 * (share * (1 - share) + z2 / (4 * trials)) / trials) / (1 + z2 / trials)
    # Rounding must not move an end off 0 or 1.
    return (
        0.0 if successes == 0 else max(0.0, middle - half),
        1.0 if successes == trials else min(1.0, middle + half),
    )
