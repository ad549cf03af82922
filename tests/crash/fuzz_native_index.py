"""Random operations on the compiled and the portable score index, which must agree.

python -m tests.crash.fuzz_native_index --operations 1000000 --seed 0
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

import numpy as np

from streameval.errors import InputError
from streameval.states.ranking.compiled_index import NativeScoreIndex
from streameval.states.ranking.reference_index import ReferenceScoreIndex

_FEW = [0.0, -0.0, 0.1, 0.5, 0.25, -7.5, 5e-324, 1e308, -1e308]


def _score(draw: random.Random) -> float:
    return (
        draw.choice(_FEW) if draw.random() < 0.2 else round(draw.random(), draw.choice((2, 4, 17)))
    )


def _weight(draw: random.Random) -> int:
    return 1 if draw.random() < 0.9 else draw.choice((2, 3, 300, 70_000, 2**33))


def _same(native: Any, portable: Any) -> None:
    assert native.twice_u == portable.twice_u
    assert (native.positives, native.negatives) == (portable.positives, portable.negatives)


def _same_content(native: Any, portable: Any) -> None:
    native._check()
    for left, right in zip(native.groups(), portable.groups(), strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()
    assert native.delong_sums() == portable.delong_sums()
    assert native.ks_statistic == portable.ks_statistic


def fuzz(operations: int, seed: int) -> int:
    """Run so many operations; the number of reverts that both refused."""
    draw = random.Random(seed)
    native, portable = NativeScoreIndex(), ReferenceScoreIndex()
    present: list[tuple[bool, float, int]] = []
    refused = 0
    done = 0
    while done < operations:
        act = draw.random()
        if act < 0.6:
            event = (draw.random() < 0.4, _score(draw), _weight(draw))
            native.update(*event)
            portable.update(*event)
            present.append(event)
            done += 1
        elif act < 0.93 and present:
            at = draw.randrange(len(present))
            present[at], present[-1] = present[-1], present[at]
            event = present.pop()
            native.revert(*event)
            portable.revert(*event)
            done += 1
        elif act < 0.96:
            event = (draw.random() < 0.5, draw.uniform(2, 3), 1)
            for index in (native, portable):
                try:
                    index.revert(*event)
                except InputError:
                    refused += 1
            done += 1
        elif act < 0.975:
            count = draw.choice((0, 1, 10, 500))
            rows = [(draw.random() < 0.5, _score(draw), _weight(draw)) for _ in range(count)]
            columns = [np.array(column) for column in zip(*rows, strict=True)] or [[], [], []]
            native.update_many(*columns)
            portable.update_many(*columns)
            present += rows
            done += max(count, 1)
        elif act < 0.98:
            more_native, more_portable = NativeScoreIndex(), ReferenceScoreIndex()
            for _ in range(draw.choice((0, 3, 200))):
                event = (draw.random() < 0.5, _score(draw), _weight(draw))
                more_native.update(*event)
                more_portable.update(*event)
                present.append(event)
                done += 1
            native.merge(more_native)
            portable.merge(more_portable)
            _same_content(more_native, more_portable)
        elif act < 0.9805:
            native, portable = native.copy(), portable.copy()
        else:
            _same(native, portable)
            # Kept from here on, until a large batch or merge replaces the tree.
            native.delong_sums()
            if draw.random() < 0.3:
                native._check()
            done += 1
        if draw.random() < 0.0005:
            _same_content(native, portable)
            native = NativeScoreIndex.from_state(native.to_state())
        if len(present) > 30_000:
            native, portable, present = NativeScoreIndex(), ReferenceScoreIndex(), []
    _same(native, portable)
    _same_content(native, portable)
    assert refused % 2 == 0
    return refused // 2


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.monotonic()
    refused = fuzz(options.operations, options.seed)
    print(
        f"{options.operations:,} operations with seed {options.seed} agree "
        f"({refused} reverts refused by both) in {time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
