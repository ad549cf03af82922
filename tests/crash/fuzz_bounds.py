"""Random and adversarial streams, whose exact values must lie between their certain bounds.

python -m tests.crash.fuzz_bounds --streams 100000 --seed 0
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.support.bounded_streams import class_scores_escaped, escaped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start = time.perf_counter()
    for seed in range(given.seed, given.seed + given.streams):
        found = escaped(seed) or (class_scores_escaped(seed) if seed % 4 == 0 else "")
        if found:
            sys.exit(found)
    seconds = time.perf_counter() - start
    print(f"{given.streams:,} streams, every value within its bounds, {seconds:.0f} s")


if __name__ == "__main__":
    main()
